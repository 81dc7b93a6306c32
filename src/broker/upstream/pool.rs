//! Connections that are kept and warmed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request};
use http_body::Body as _;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answer::Answer;
use super::body::{Answered, Outgoing};
use super::connect::{Dialer, Stream};
use super::failure::{Failure, Step};
use super::proxy::Proxy;
use super::resolve::Names;
use super::socket::Doubt;
use super::url::Upstream;

/// Servers and what lies before them often drop a connection after a minute.
const KEPT_FOR: Duration = Duration::from_secs(50);
/// Each costs a descriptor and some tens of KiB, for no longer than [`KEPT_FOR`].
const MAX_KEPT: usize = 256;
/// Fields of an answer's head; hyper reads that many without allocating.
const MAX_FIELDS: usize = 100;
/// Bytes of an answer's head.
const MAX_HEAD: usize = 32 * 1024;
/// Bytes that are read or written ahead of need; hyper starts with 8 KiB.
const MAX_BUFFER: usize = 64 * 1024;

/// Connections to one API. Clones share them.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    dialer: Dialer,
    /// For a connection up to the end of its handshake.
    connect: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The freshest last, so that it is taken first and the oldest age.
    idle: Vec<Kept>,
    /// Whether a connection is on its way that no request opened.
    warming: bool,
    /// The request that waits for it, instead of opening another.
    waiting: Option<oneshot::Sender<Kept>>,
    /// Whether somebody closes what gets too old.
    swept: bool,
}

/// A connection between two exchanges. Dropped, it is closed in good order.
#[derive(Debug)]
pub(super) struct Kept {
    sender: SendRequest<Outgoing>,
    doubt: Doubt,
    task: AbortHandle,
    since: Instant,
}

/// A connection in an exchange. Dropped, it is cut off.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Pool,
    kept: Option<Kept>,
}

impl Pool {
    /// Connects to nothing yet. An https `upstream` needs `tls`; `connect` is the time
    /// for name, proxy, TCP and TLS together.
    pub fn new(
        upstream: Upstream,
        tls: Option<Arc<ClientConfig>>,
        proxy: Proxy,
        connect: Duration,
    ) -> Pool {
        let dialer = Dialer {
            upstream,
            tls,
            proxy,
            names: Names::default(),
        };
        Pool(Arc::new(Shared {
            dialer,
            connect,
            state: Mutex::default(),
        }))
    }

    /// Opens a connection ahead of need, unless there is one. A failure is not an
    /// error: the next request tries by itself. Must run in a runtime.
    pub fn warm(&self) {
        let mut state = self.state();
        if state.warming || state.idle.iter().any(|kept| !kept.sender.is_closed()) {
            return;
        }
        state.warming = true;
        drop(state);
        let pool = self.clone();
        tokio::spawn(async move {
            let opened = pool.open(Instant::now() + pool.0.connect).await;
            pool.state().warming = false;
            match opened {
                Ok(kept) => pool.put(kept),
                // Who waits opens its own.
                Err(_) => pool.state().waiting = None,
            }
        });
    }

    /// Sends `request` on a kept connection or a new one, and waits for the answer's
    /// head. The request wants a Host field and a target in origin form; framing
    /// fields come from its body. It is sent again only where nothing of it was
    /// written. Informational answers are skipped; a 101 is a failure.
    ///
    /// Dropping the future cuts the connection off.
    ///
    /// # Errors
    /// No connection, or one that ended or broke before the answer's head.
    pub async fn send(&self, mut request: Request<Outgoing>) -> Result<Answer, Failure> {
        announce_nothing(&mut request);
        let answered = Answered::of(request.body());
        loop {
            let (mut kept, fresh) = self.connection().await?;
            kept.doubt.raise();
            let sent = kept.sender.try_send_request(request);
            let lease = Lease {
                pool: self.clone(),
                kept: Some(kept),
            };
            match sent.await {
                Ok(response) => {
                    answered.tell();
                    lease.answered();
                    return Answer::new(response, lease);
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !fresh => request = unsent,
                    _ => return Err(Failure::hyper(Step::Request, error.error())),
                },
            }
        }
    }

    /// A connection, and whether it was made for this.
    async fn connection(&self) -> Result<(Kept, bool), Failure> {
        if let Some(kept) = self.take() {
            return Ok((kept, false));
        }
        let deadline = Instant::now() + self.0.connect;
        if let Some(warm) = self.wait() {
            match timeout_at(deadline, warm).await {
                Ok(Ok(kept)) => return Ok((kept, false)),
                Ok(Err(_)) => {}
                Err(_) => return Err(Failure::timeout(Step::Connect)),
            }
        }
        // In a box: it is rare, and larger than all the rest of an exchange.
        Ok((Box::pin(self.open(deadline)).await?, true))
    }

    /// The freshest that is alive and young enough.
    fn take(&self) -> Option<Kept> {
        let mut state = self.state();
        while let Some(kept) = state.idle.pop() {
            if !kept.sender.is_closed() && kept.since.elapsed() < KEPT_FOR {
                return Some(kept);
            }
        }
        None
    }

    /// The connection that is on its way, unless another request waits for it.
    fn wait(&self) -> Option<oneshot::Receiver<Kept>> {
        let mut state = self.state();
        let taken = state
            .waiting
            .as_ref()
            .is_some_and(|waiter| !waiter.is_closed());
        if !state.warming || taken {
            return None;
        }
        let (waiter, warm) = oneshot::channel();
        state.waiting = Some(waiter);
        Some(warm)
    }

    fn put(&self, mut kept: Kept) {
        kept.since = Instant::now();
        let mut state = self.state();
        if let Some(waiter) = state.waiting.take() {
            match waiter.send(kept) {
                Ok(()) => return,
                Err(back) => kept = back,
            }
        }
        if state.idle.len() < MAX_KEPT {
            state.idle.push(kept);
        }
        if !std::mem::replace(&mut state.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    async fn open(&self, deadline: Instant) -> Result<Kept, Failure> {
        let doubt = Doubt::default();
        match self.0.dialer.dial(doubt.clone(), deadline).await? {
            Stream::Plain(stream) => speak(stream, doubt).await,
            Stream::Tls(stream) => speak(*stream, doubt).await,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Pool({}, {:?})",
            self.0.dialer.upstream, self.0.dialer.proxy
        )
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    fn answered(&self) {
        if let Some(kept) = &self.kept {
            kept.doubt.answered();
        }
    }

    /// After an exchange that ended well the connection is kept; where hyper isn't
    /// ready for another one (a request that wasn't sent to its end), it is cut off.
    pub(super) fn end(mut self) {
        if let Some(kept) = self.kept.take_if(|kept| kept.sender.is_ready()) {
            self.pool.put(kept);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(kept) = &self.kept {
            kept.task.abort();
        }
    }
}

/// hyper announces no length where there is no body, and a request that usually has
/// one should then say so (RFC 9110, section 8.6).
fn announce_nothing(request: &mut Request<Outgoing>) {
    let usual = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    if usual && request.body().is_end_stream() {
        request
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}

/// HTTP/1.1 over `stream`, driven by a task of its own.
async fn speak<S>(stream: S, doubt: Doubt) -> Result<Kept, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = Builder::new()
        .max_headers(MAX_FIELDS)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Failure::hyper(Step::Connect, &error))?;
    // Its outcome is told to the exchange that it breaks.
    let task = tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(Kept {
        sender,
        doubt,
        task: task.abort_handle(),
        since: Instant::now(),
    })
}

/// Closes what gets too old, for as long as there is something.
async fn sweep(pool: Weak<Shared>) {
    while let Some(shared) = pool.upgrade() {
        let next = {
            let mut state = shared.state();
            state
                .idle
                .retain(|kept| !kept.sender.is_closed() && kept.since.elapsed() < KEPT_FOR);
            let Some(oldest) = state.idle.first() else {
                state.swept = false;
                return;
            };
            oldest.since + KEPT_FOR
        };
        drop(shared);
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod framing_tests;
#[cfg(test)]
mod tests;
