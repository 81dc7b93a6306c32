//! Connections that are kept and warmed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request};
use http_body::Body as _;
use rustls::ClientConfig;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::answer::Answer;
use super::body::{Answered, Outgoing};
use super::connect::{Dialer, Stream};
use super::failure::{Failure, Step};
use super::link::Link;
use super::proxy::Proxy;
use super::resolve::Names;
use super::socket::Doubt;
use super::url::Upstream;

/// Servers and what lies before them often drop a connection after a minute.
const KEPT_FOR: Duration = Duration::from_secs(50);
/// Each costs a descriptor and some tens of KiB, for no longer than [`KEPT_FOR`].
const MAX_KEPT: usize = 256;
/// How often somebody looks whether the API has closed one.
const LOOK: Duration = Duration::from_secs(5);
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
    waiting: Option<oneshot::Sender<Link>>,
    /// Whether somebody closes what is of no use any more.
    swept: bool,
}

/// A connection between two exchanges.
#[derive(Debug)]
struct Kept {
    link: Link,
    since: Instant,
}

/// A connection in an exchange. Dropped, it is cut off.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Pool,
    pub(super) link: Link,
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
        if state.warming || !state.idle.is_empty() {
            return;
        }
        state.warming = true;
        drop(state);
        let pool = self.clone();
        tokio::spawn(async move {
            let opened = pool.open(Instant::now() + pool.0.connect).await;
            pool.state().warming = false;
            match opened {
                Ok(link) => pool.put(link),
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
            let (link, fresh) = self.connection().await?;
            let pool = self.clone();
            let mut lease = Lease { pool, link };
            match lease.link.send(request).await {
                Ok(response) => {
                    answered.tell();
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
    async fn connection(&self) -> Result<(Link, bool), Failure> {
        if let Some(link) = self.take() {
            return Ok((link, false));
        }
        let deadline = Instant::now() + self.0.connect;
        if let Some(warm) = self.wait() {
            match timeout_at(deadline, warm).await {
                Ok(Ok(mut link)) => {
                    if link.is_alive() {
                        return Ok((link, false));
                    }
                }
                Ok(Err(_)) => {}
                Err(_) => return Err(Failure::timeout(Step::Connect)),
            }
        }
        // In a box: it is rare, and larger than all the rest of an exchange.
        Ok((Box::pin(self.open(deadline)).await?, true))
    }

    /// The freshest that is young enough and still there.
    fn take(&self) -> Option<Link> {
        loop {
            let mut kept = self.state().idle.pop()?;
            if kept.is_good() {
                return Some(kept.link);
            }
            kept.link.close();
        }
    }

    /// The connection that is on its way, unless another request waits for it.
    fn wait(&self) -> Option<oneshot::Receiver<Link>> {
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

    fn put(&self, mut link: Link) {
        let since = Instant::now();
        link.rest();
        let mut state = self.state();
        if let Some(waiter) = state.waiting.take() {
            match waiter.send(link) {
                Ok(()) => return,
                Err(back) => link = back,
            }
        }
        if state.idle.len() < MAX_KEPT {
            state.idle.push(Kept { link, since });
        } else {
            link.close();
        }
        if !std::mem::replace(&mut state.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    async fn open(&self, deadline: Instant) -> Result<Link, Failure> {
        let doubt = Doubt::default();
        match self.0.dialer.dial(doubt.clone(), deadline).await? {
            Stream::Plain(stream) => Link::new(stream, doubt).await,
            Stream::Tls(stream) => Link::new(*stream, doubt).await,
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

impl Kept {
    /// Whether a request may be sent on it: it is young enough, and still there.
    fn is_good(&mut self) -> bool {
        self.since.elapsed() < KEPT_FOR && self.link.is_alive()
    }
}

impl Lease {
    /// After an exchange that ended well the connection is kept; where hyper isn't
    /// ready for another one (a request that wasn't sent to its end), it is cut off.
    pub(super) fn end(self) {
        if self.link.is_ready() {
            self.pool.put(self.link);
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

/// Closes what gets too old, and what the API has closed, for as long as there is something:
/// an idle connection is moved by nobody else.
async fn sweep(pool: Weak<Shared>) {
    while let Some(shared) = pool.upgrade() {
        let next = {
            let mut state = shared.state();
            for kept in state.idle.extract_if(.., |kept| !kept.is_good()) {
                kept.link.close();
            }
            let Some(oldest) = state.idle.first() else {
                state.swept = false;
                return;
            };
            (oldest.since + KEPT_FOR).min(Instant::now() + LOOK)
        };
        drop(shared);
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod framing_tests;
#[cfg(test)]
mod tests;
