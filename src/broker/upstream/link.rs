//! One connection to the API. No task of its own moves it: whoever waits for something
//! of it does, so that a piece of an answer passes through one task alone.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

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
        Ok(Link {
            sender,
            doubt,
            driver: Some(Box::pin(driver)),
        })
    }

    /// Moves what can be moved now; `cx` is woken when there is more.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            self.driver = None;
        }
    }

    /// Whether it is there, by what the kernel knows now: nobody has looked since its
    /// last exchange.
    pub(super) fn is_alive(&mut self) -> bool {
        self.doubt.raise();
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
        let mut sent = pin!(self.sender.try_send_request(request));
        let answered = poll_fn(|cx| {
            self.drive(cx);
            sent.as_mut().poll(&mut unwoken())
        });
        let answered = answered.await;
        self.doubt.answered();
        answered
    }

    /// Asks for something that this connection alone makes ready, and moves it where it
    /// isn't.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut ask: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if let Poll::Ready(there) = ask(&mut unwoken()) {
            return Poll::Ready(there);
        }
        self.drive(cx);
        ask(&mut unwoken())
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

/// For what becomes ready in [`Link::drive`] alone: who drives looks afterwards, and
/// needn't be woken by it.
fn unwoken() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({:?})", self.sender)
    }
}
