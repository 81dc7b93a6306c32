//! The API, played: real TLS under an authority of its own, every byte that
//! arrives kept per connection, and answers as bad as a test wants them.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{Backlog, Shutdown, listen, shutdown};
use tokio::sync::{Semaphore, oneshot};

use super::certificate::{Certificate, Identity};
use super::folder::Folder;
use super::http::Head;

/// No test waits longer for what should come at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What the API does about a request, in order. Then it reads what is left of the
/// request's body, and the next request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Reads the request's body to its end.
    Body,
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes so many times.
    Repeat(Vec<u8>, usize),
    /// Answers with a chunked body: each piece of the request's, when it comes.
    Echo,
    /// Reads the body, and answers with the request's own bytes.
    Mirror,
    /// Waits for [`Upstream::open`]; meanwhile it reads nothing.
    Gate,
    /// The same, and notices if the client leaves.
    Watch,
    /// Waits until the client is gone.
    Hold,
    /// Ends the connection as TLS wants it.
    Close,
    /// Ends TCP without a word of TLS.
    Cut,
    /// RST.
    Reset,
}

/// From a request's head to what is done about it.
pub(crate) type Behaviour = Arc<dyn Fn(&Head) -> Vec<Act> + Send + Sync>;

/// A request, as far as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// What is kept of the body ([`KEPT`]).
    pub(crate) body: Vec<u8>,
    pub(crate) body_length: usize,
    /// Its end has come.
    pub(crate) is_whole: bool,
}

/// Of one connection and of one body this much is kept; the rest is counted.
pub(crate) const KEPT: usize = 8 << 20;

/// What one connection brought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Every byte, without TLS, as far as it is kept.
    pub(crate) bytes: Vec<u8>,
    pub(crate) requests: Vec<Request>,
    /// Bytes that the API could write.
    pub(crate) written: usize,
    /// When the client was gone.
    pub(crate) gone: Option<Instant>,
    /// Why this is no HTTP.
    pub(crate) broken: Option<String>,
}

/// What the connections share with the test.
pub(super) struct Shared {
    seen: Mutex<Vec<Seen>>,
    changed: Condvar,
    pub(super) gate: Semaphore,
    pub(super) behaviour: Behaviour,
}

impl Shared {
    /// Changes what was seen of a connection, and wakes the test up.
    pub(super) fn note(&self, connection: usize, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock()[connection]);
        self.changed.notify_all();
    }

    pub(super) fn new_connection(&self) -> usize {
        let mut seen = self.lock();
        seen.push(Seen::default());
        self.changed.notify_all();
        seen.len() - 1
    }

    /// The request that a connection is at.
    pub(super) fn last_request(&self, connection: usize) -> Request {
        let requests = &self.lock()[connection].requests;
        requests.last().expect("a request").clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().expect("nobody panics with it")
    }
}

/// A port of 127.0.0.1 that is taken, but on which nobody listens.
pub(crate) struct Down {
    listener: TcpListener,
    folder: Folder,
    certificate: Arc<Certificate>,
    is_tls: bool,
}

/// The API, as long as it lives.
pub(crate) struct Upstream {
    shared: Arc<Shared>,
    down: Option<Down>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Down {
    pub(crate) fn new(identity: Identity, is_tls: bool) -> Self {
        let listener = listener_that_keeps_its_port();
        stop_listening(&listener);
        let certificate = Arc::new(Certificate::new(identity));
        let folder = Folder::new();
        std::fs::write(folder.path("ca.pem"), &certificate.authority_pem).expect("a file");
        Down {
            listener,
            folder,
            certificate,
            is_tls,
        }
    }

    /// What `--upstream` takes.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Its name and port, as the Host field has them.
    pub(crate) fn authority(&self) -> String {
        let address = self.listener.local_addr().expect("a bound socket");
        format!("localhost:{}", address.port())
    }

    /// What `--upstream-ca` takes.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path("ca.pem")
    }

    /// From now on somebody answers.
    pub(crate) fn up(self, behaviour: Behaviour) -> Upstream {
        let backlog = Backlog::new(4096).expect("a number");
        listen(&self.listener, backlog).expect("a bound socket");
        let listener = self.listener.try_clone().expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            changed: Condvar::new(),
            gate: Semaphore::new(0),
            behaviour,
        });
        let (stop, stopped) = oneshot::channel();
        let tls = self.is_tls.then(|| self.certificate.server.clone());
        let own = shared.clone();
        let serve = move || super::played::serve(&listener, tls.as_ref(), &own, stopped);
        let thread = std::thread::spawn(serve);
        Upstream {
            shared,
            down: Some(self),
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Upstream {
    /// Over TLS, as `localhost`.
    pub(crate) fn start(behaviour: impl Fn(&Head) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Down::new(Identity::Localhost, true).up(Arc::new(behaviour))
    }

    /// Over TLS with another certificate.
    pub(crate) fn as_identity(identity: Identity) -> Self {
        Down::new(identity, true).up(Arc::new(|_| ok("spent")))
    }

    /// Without TLS.
    pub(crate) fn plain(behaviour: impl Fn(&Head) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Down::new(Identity::Localhost, false).up(Arc::new(behaviour))
    }

    /// Every connection ends, and nobody listens any more.
    pub(crate) fn down(mut self) -> Down {
        self.end();
        self.down.take().expect("it was up")
    }

    fn end(&mut self) {
        if let (Some(stop), Some(down)) = (self.stop.take(), &self.down) {
            drop(stop);
            stop_listening(&down.listener);
            let thread = self.thread.take().expect("it was started");
            thread.join().expect("the API's thread");
        }
    }

    fn place(&self) -> &Down {
        self.down.as_ref().expect("it is up")
    }

    pub(crate) fn url(&self) -> String {
        self.place().url()
    }

    pub(crate) fn authority(&self) -> String {
        self.place().authority()
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.place().ca_file()
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.place().listener.local_addr().expect("a bound socket")
    }

    /// The trust that `ca_file` gives, for a client of the test's own; none
    /// where it speaks no TLS.
    pub(crate) fn client(&self) -> Option<Arc<tokio_rustls::rustls::ClientConfig>> {
        let place = self.place();
        place.is_tls.then(|| place.certificate.client.clone())
    }

    /// Lets one [`Act::Gate`] or [`Act::Watch`] through.
    pub(crate) fn open(&self) {
        self.shared.gate.add_permits(1);
    }

    /// What every connection brought until now.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.lock().clone()
    }

    /// Every request until now.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let seen = self.shared.lock();
        seen.iter().flat_map(|one| one.requests.clone()).collect()
    }

    /// Whether these bytes ever arrived.
    pub(crate) fn got(&self, needle: &[u8]) -> bool {
        let seen = self.shared.lock();
        seen.iter()
            .any(|one| super::http::holds(&one.bytes, needle))
    }

    /// Waits until what was seen is as wanted; panics with it otherwise.
    pub(crate) fn wait_until(&self, what: &str, wanted: impl Fn(&[Seen]) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut seen = self.shared.lock();
        while !wanted(&seen) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: {:#?}", brief(&seen));
            let changed = self.shared.changed.wait_timeout(seen, left);
            seen = changed.expect("nobody panics with it").0;
        }
    }

    /// Waits for so many requests, whole or not, and returns them.
    pub(crate) fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        let number = |seen: &[Seen]| seen.iter().map(|one| one.requests.len()).sum::<usize>();
        self.wait_until(&format!("{count} requests"), |seen| number(seen) >= count);
        self.requests()
    }

    /// Waits until every connection is gone, and returns all that came.
    pub(crate) fn wait_until_alone(&self) -> Vec<Seen> {
        self.wait_until("every connection gone", |seen| {
            seen.iter().all(|one| one.gone.is_some())
        });
        self.seen()
    }

    /// Waits for the connection of a request whose line holds `part` to be gone;
    /// returns when it was.
    pub(crate) fn wait_for_hang_up(&self, part: &str) -> Instant {
        let is_it = |one: &Seen| one.requests.iter().any(|r| r.head.line.contains(part));
        let hung_up = |seen: &[Seen]| {
            let mut used = seen.iter().filter(|one| is_it(one));
            used.find_map(|one| one.gone)
        };
        self.wait_until("the request's connection gone", |seen| {
            hung_up(seen).is_some()
        });
        hung_up(&self.shared.lock()).expect("just seen")
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.end();
    }
}

/// The kernel keeps a port for a socket that doesn't listen only if it was asked
/// for by number.
fn listener_that_keeps_its_port() -> TcpListener {
    loop {
        let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = any.local_addr().expect("its address");
        drop(any);
        if let Ok(listener) = TcpListener::bind(address) {
            return listener;
        }
    }
}

/// The port stays bound, so that nobody else gets it, and refuses connections.
fn stop_listening(listener: &TcpListener) {
    shutdown(listener.as_raw_fd(), Shutdown::Both).expect("a listener");
}

/// What was seen, for a failure's message: not every byte.
fn brief(seen: &[Seen]) -> Vec<String> {
    let line = |one: &Seen| {
        let requests: Vec<_> = one
            .requests
            .iter()
            .map(|r| (&r.head.line, r.is_whole))
            .collect();
        let (bytes, gone) = (one.bytes.len(), one.gone.is_some());
        format!(
            "{bytes} bytes, {requests:?}, gone: {gone}, broken: {:?}",
            one.broken
        )
    };
    seen.iter().map(line).collect()
}

/// A whole answer with a text.
pub(crate) fn ok(text: &str) -> Vec<Act> {
    answer(
        "200 OK",
        &[("content-type", "application/json")],
        text.as_bytes(),
    )
}

/// A whole answer, after the request's body.
pub(crate) fn answer(status: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<Act> {
    let length = body.len().to_string();
    let fields = [fields, &[("content-length", length.as_str())]].concat();
    vec![
        Act::Body,
        Act::Send([head(status, &fields), body.to_vec()].concat()),
    ]
}

/// An answer's head.
pub(crate) fn head(status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\n");
    for (name, value) in fields {
        write!(head, "{name}: {value}\r\n").expect("a string takes text");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// The head of a stream of events.
pub(crate) fn events_head() -> Vec<u8> {
    let fields = [
        ("content-type", "text/event-stream"),
        ("transfer-encoding", "chunked"),
    ];
    head("200 OK", &fields)
}
