//! The key broker: the jail's one way out.
//!
//! It reads what an untrusted client sends once, strictly (`front`), builds a new
//! request out of what it understood (`route`, `query`, `fields`), puts the key in
//! (`key`), and relays the answer as it comes (`exchange`, `scan`). Nothing here
//! knows of namespaces or mounts.

pub mod alone;
pub mod answer;
mod bound;
pub mod connection;
pub mod exchange;
pub mod fields;
pub mod front;
pub mod health;
pub mod intake;
pub mod key;
pub mod key_source;
pub mod log;
pub mod provider;
mod pulse;
pub mod query;
pub mod route;
pub mod scan;
pub mod serve;
pub mod shim;
pub mod stream;
pub mod token;
pub mod totals;
mod typed;
pub mod upstream;
pub mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use nix::sys::resource::{Resource, getrlimit};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;

use crate::refusal::{Reason, Refusal};
use crate::sabotage::{self, Mechanism, stands};
use crate::sys::memory::keep_heap;
use crate::sys::secret::wipe_from_environ;

use front::head::Head;
use key::Key;
use log::Log;
use provider::{AuthHeader, Injection, Provider};
use route::{Route, Routes};
use token::Token;
use upstream::pool::Pool;
use upstream::proxy::Proxy;
use upstream::roots;
use upstream::url::{Scheme, Upstream};
use usage::Budget;

/// What a broker is to do, judged. Pure data, and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The API's kind.
    pub provider: Provider,
    /// Where the key goes, for `custom`.
    pub auth: Option<AuthHeader>,
    /// The one place that requests go to.
    pub upstream: Upstream,
    /// Routes beside the provider's own.
    pub routes: Vec<Route>,
    /// Roots beside the system's.
    pub roots: Vec<CertificateDer<'static>>,
    /// The host's way to the API.
    pub proxy: Proxy,
}

impl Config {
    /// What TLS needs, where it is needed: some milliseconds of work.
    ///
    /// # Errors
    /// `broker`: there are no roots to trust.
    pub(crate) fn tls(&self) -> Result<Option<Arc<ClientConfig>>, Refusal> {
        match self.upstream.scheme {
            Scheme::Https => roots::client_config(&self.roots).map(Some),
            Scheme::Http => Ok(None),
        }
    }

    /// What a key that is typed is asked for with.
    pub(crate) fn question(&self) -> String {
        format!("key for {}: ", self.upstream.host)
    }
}

/// How many tasks run before the event loop looks at the sockets again: as many
/// requests as a busy broker has at once are then told in one epoll_wait(2).
pub(crate) const TASKS_A_TURN: u32 = 256;

/// How much and how long, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of clients at once.
    pub connections: usize,
    /// Forwarded requests at once.
    pub exchanges: usize,
    /// From a head's first byte to its last, and between two pieces of a request's body.
    pub head: Duration,
    /// Without a byte from either side while an answer is awaited or under way, and
    /// without a request on a kept connection.
    pub idle: Duration,
    /// From a name to a connection that is ready.
    pub connect: Duration,
    /// For what is under way when the broker is told to end.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            exchanges: 2048,
            head: Duration::from_secs(30),
            idle: Duration::from_mins(10),
            connect: Duration::from_secs(10),
            drain: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// As many at once as this process may hold descriptors for: two an exchange, and
    /// a few for everything else.
    pub fn here() -> Limits {
        let most = Limits::default();
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
        let fits = usize::try_from(soft.saturating_sub(64) / 2).unwrap_or(usize::MAX);
        let connections = most.connections.min(fits.max(1));
        let mut limits = Limits {
            connections,
            exchanges: most.exchanges.min(connections),
            ..most
        };
        sabotage::limits(&mut limits);
        limits
    }
}

/// A broker that stands: what each of its connections needs.
pub(crate) struct Broker {
    provider: Provider,
    routes: Routes,
    injection: Injection,
    /// The name of the header that the key of `custom` goes in.
    auth: Option<HeaderName>,
    /// What answers are searched for.
    key: Arc<Key>,
    upstream: Upstream,
    /// Its name, for `Host`.
    host: HeaderValue,
    pool: Pool,
    /// What clients must present; none where whoever may connect may ask.
    token: Option<Token>,
    log: Log,
    /// What is kept of answers for the log.
    kept: Budget,
    limits: Limits,
    exchanges: AtomicUsize,
}

impl Broker {
    /// Readies a broker. Nothing is listened on; one connection upstream is warmed,
    /// so this is called within the runtime.
    ///
    /// # Errors
    /// `broker`: the roots can't be read. `key`: a header can't carry it.
    pub(crate) fn new(
        config: &Config,
        tls: Option<Arc<ClientConfig>>,
        key: Key,
        token: Option<Token>,
        log: Log,
        limits: Limits,
    ) -> Result<Broker, Refusal> {
        let upstream = &config.upstream;
        let host = HeaderValue::from_str(&upstream.authority())
            .map_err(|_| Refusal::new(Reason::Usage, "read --upstream").about("its host"))?;
        let pool = Pool::new(upstream.clone(), tls, config.proxy.clone(), limits.connect);
        pool.warm();
        keep_heap();
        // Whatever source it came from, it may stand in a variable too.
        wipe_from_environ(key.expose());
        Ok(Broker {
            provider: config.provider,
            routes: Routes::of(config.provider, config.routes.clone()),
            injection: Injection::new(config.provider, config.auth.as_ref(), key.expose())?,
            auth: config.auth.as_ref().map(|auth| auth.name().clone()),
            key: Arc::new(key),
            host,
            upstream: upstream.clone(),
            pool,
            token,
            log,
            kept: Budget::default(),
            limits,
            exchanges: AtomicUsize::new(0),
        })
    }

    /// Whether a request presents the token: at least once, and nothing else.
    fn admits(&self, head: &Head, query: Option<&str>) -> bool {
        let asked = self.token.as_ref();
        let Some(token) = asked.filter(|_| stands(Mechanism::BrokerToken)) else {
            return true;
        };
        let mut is_presented = false;
        let sent = head.fields().map(|field| (field.name, field.value));
        for credential in fields::presented(sent, query) {
            if !token.matches(&credential) {
                return false;
            }
            is_presented = true;
        }
        is_presented
    }

    /// One of the forwarded requests that may be under way at once, until the value
    /// is dropped.
    fn exchange(&self) -> Option<Turn<'_>> {
        Turn::take(&self.exchanges, self.limits.exchanges)
    }
}

/// A place among at most so many.
pub(crate) struct Turn<'count>(&'count AtomicUsize);

impl<'count> Turn<'count> {
    fn take(count: &'count AtomicUsize, most: usize) -> Option<Turn<'count>> {
        let turn = Turn(count);
        // One thread: what is read is what is there. Over the limit, `turn`'s drop
        // takes it back.
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(turn)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
