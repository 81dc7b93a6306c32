//! One connection to the API. No task of its own moves it: whoever waits for something
//! of it does, so that a piece of an answer passes through one task alone.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::unconstrained;

use super::body::Outgoing;
use super::failure::{Failure, Step};
use super::socket::Doubt;

/// Fields of an answer's head; hyper reads that many without allocating.
pub(super) const MAX_FIELDS: usize = 100;
/// Bytes of an answer's head.
pub(super) const MAX_HEAD: usize = 32 * 1024;
/// Bytes that are read or written ahead of need; hyper starts with 8 KiB.
const MAX_BUFFER: usize = 64 * 1024;

/// HTTP/1.1 over some stream. Dropped, it is cut off.
pub(super) struct Link {
    sender: SendRequest<Outgoing>,
    doubt: Doubt,
    /// Reads, writes and frames; none once it has ended. Its outcome is told to the
    /// exchange that it breaks.
    driver: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    bell: Arc<Bell>,
    /// The same.
    waker: Waker,
}

/// What the driver wakes. A driver that nobody has woken needn't be asked, and a task that
/// drives needn't be woken by what it does to the driver itself.
struct Bell {
    /// The driver has something to do.
    rung: AtomicBool,
    /// Whoever waits is looking already.
    muted: AtomicBool,
    waiting: Mutex<Waker>,
}

impl Link {
    /// `doubt` is about the stream's socket.
    pub(super) async fn new<S>(stream: S, doubt: Doubt) -> Result<Link, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, driver) = Builder::new()
            .max_headers(MAX_FIELDS)
            .max_header_size(MAX_HEAD)
            .max_buf_size(MAX_BUFFER)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::hyper(Step::Connect, &error))?;
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(true),
            muted: AtomicBool::new(false),
            waiting: Mutex::new(Waker::noop().clone()),
        });
        Ok(Link {
            sender,
            doubt,
            driver: Some(Box::pin(driver)),
            waker: Waker::from(Arc::clone(&bell)),
            bell,
        })
    }

    /// Moves what can be moved now; `cx` is woken when there is more.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        self.bell.wakes(cx.waker());
        let mut cx = Context::from_waker(&self.waker);
        if self.bell.rung.swap(false, Ordering::Relaxed)
            && let Some(driver) = &mut self.driver
            && driver.as_mut().poll(&mut cx).is_ready()
        {
            self.driver = None;
        }
    }

    /// Whether it is there, by what the kernel knows now: nobody has looked since its
    /// last exchange.
    pub(super) fn is_alive(&mut self) -> bool {
        self.doubt.raise();
        self.bell.rung.store(true, Ordering::Relaxed);
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && !self.sender.is_closed()
    }

    /// Whether another request may follow.
    pub(super) fn is_ready(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Sends a request and waits for the answer's head.
    ///
    /// # Errors
    /// hyper's, with the request where nothing of it was written.
    pub(super) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Outgoing>>> {
        self.doubt.expect_head();
        // hyper tells the answer by a channel of tokio's. Where this task's turn is over,
        // that says it has nothing, and wakes the waker that it was asked with: here nobody.
        // What is beneath it, the socket, still obeys the turn.
        let mut sent = pin!(unconstrained(self.sender.try_send_request(request)));
        let answered = poll_fn(|cx| self.poll(cx, |cx| sent.as_mut().poll(cx))).await;
        self.doubt.answered();
        answered
    }

    /// Asks for something that this connection alone makes ready, and moves it where it
    /// isn't. Whoever gets something asks again, until there is nothing.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        loop {
            // What is taken makes room, for which the driver is woken.
            self.bell.muted.store(true, Ordering::Relaxed);
            let asked = ask(&mut Context::from_waker(Waker::noop()));
            self.bell.muted.store(false, Ordering::Relaxed);
            if asked.is_ready() {
                return asked;
            }
            let is_idle = !self.bell.rung.load(Ordering::Relaxed) || self.driver.is_none();
            self.drive(cx);
            if is_idle {
                return Poll::Pending;
            }
        }
    }

    /// Forgets who waited for it, so that nothing of that task is held.
    pub(super) fn rest(&mut self) {
        self.bell.wakes(Waker::noop());
    }

    /// Ends it in good order, in the background.
    pub(super) fn close(self) {
        let Link { sender, driver, .. } = self;
        drop(sender);
        if let Some(driver) = driver {
            tokio::spawn(driver);
        }
    }
}

impl Bell {
    /// From now on it wakes this one.
    fn wakes(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.will_wake(waker) {
            waiting.clone_from(waker);
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Relaxed);
        if !self.muted.load(Ordering::Relaxed) {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.wake_by_ref();
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({:?})", self.sender)
    }
}

#[cfg(test)]
mod tests;
