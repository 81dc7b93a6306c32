//! A stand-alone broker before an API that the test plays.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::client::Client;
use super::folder::Folder;
use super::host::{self, path_str, unique};
use super::jail::{self, Run};
use super::upstream::{Down, Upstream};

/// A broker to be: `groom-ns broker PROVIDER …`.
pub(crate) struct Start {
    folder: Folder,
    provider: String,
    listen: String,
    key: String,
    flags: Vec<OsString>,
    env: Vec<(String, String)>,
    with_key_file: bool,
    with_log: bool,
}

impl Start {
    fn new(url: &str, ca_file: &Path) -> Self {
        let folder = Folder::new();
        let start = Start {
            listen: format!("unix:{}", path_str(&folder.path("broker.sock"))),
            folder,
            provider: "anthropic".into(),
            // As long as a real one, and nobody else's.
            key: format!("sk-ant-api03-{}-{}", unique("canary"), "k3Y_".repeat(16)),
            flags: Vec::new(),
            env: Vec::new(),
            with_key_file: true,
            with_log: true,
        };
        let start = start.flag("--upstream", url);
        if url.starts_with("https:") {
            return start.flag("--upstream-ca", ca_file);
        }
        start
    }

    #[must_use]
    pub(crate) fn provider(mut self, provider: &str) -> Self {
        self.provider = provider.into();
        self
    }

    /// `custom`, whose key goes into a field of its own.
    #[must_use]
    pub(crate) fn custom(self) -> Self {
        self.provider("custom").flag("--auth-header", "x-secret")
    }

    /// `--FLAG VALUE`.
    #[must_use]
    pub(crate) fn flag(mut self, flag: &str, value: impl AsRef<OsStr>) -> Self {
        self.flags.extend([flag.into(), value.as_ref().to_owned()]);
        self
    }

    #[must_use]
    pub(crate) fn listen(mut self, listen: impl Into<String>) -> Self {
        self.listen = listen.into();
        self
    }

    /// On a port that was free a moment ago.
    #[must_use]
    pub(crate) fn tcp(self) -> Self {
        let port = free_port();
        self.listen(format!("tcp:{port}"))
    }

    /// The key comes from elsewhere.
    #[must_use]
    pub(crate) fn without_key_file(mut self) -> Self {
        self.with_key_file = false;
        self
    }

    /// The log goes to standard error.
    #[must_use]
    pub(crate) fn without_log(mut self) -> Self {
        self.with_log = false;
        self
    }

    #[must_use]
    pub(crate) fn key(mut self, key: &str) -> Self {
        self.key = key.into();
        self
    }

    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// `--token-file` with this.
    #[must_use]
    pub(crate) fn token(self, token: &str) -> Self {
        let file = self.folder.secret("token", token);
        self.flag("--token-file", file)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn real_key(&self) -> &str {
        &self.key
    }

    /// The whole command line; both outputs are pipes, and no input comes.
    pub(crate) fn command(&self) -> Command {
        // Tests that were started in the background inherit these as ignored, and
        // groom-ns would take that for the caller's wish.
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            groom_ns::sys::signal::set_default(signal).expect("a disposition");
        }
        let mut command = Command::new(jail::binary());
        command.args(["broker", &self.provider, "--listen", &self.listen]);
        command.args(&self.flags);
        if self.with_key_file {
            let file = self.folder.secret("key", &format!("{}\n", self.key));
            command.arg("--key-file").arg(file);
        }
        if self.with_log {
            command.arg("--log").arg(self.folder.path("log"));
        }
        for name in [
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "all_proxy",
            "GITHUB_ACTIONS",
        ] {
            command.env_remove(name);
        }
        command.envs(self.env.iter().cloned());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts it, and waits until it says that it is ready.
    pub(crate) fn start(self) -> Broker {
        let command = self.command();
        self.start_as(command)
    }

    /// The same with a command line that was changed.
    pub(crate) fn start_as(self, mut command: Command) -> Broker {
        let mut child = command.spawn().expect("groom-ns starts");
        let ready = first_line(&mut child);
        Broker {
            child: Some(child),
            folder: self.folder,
            listen: self.listen,
            key: self.key,
            ready,
        }
    }

    /// It says why it doesn't start, with this code.
    pub(crate) fn refused(&self, code: &str) -> Run {
        refused(self.command(), code)
    }
}

/// Runs a command that must be refused with this code, and say nothing else.
pub(crate) fn refused(mut command: Command, code: &str) -> Run {
    let run = jail::finish(command.spawn().expect("groom-ns starts"));
    run.assert_refused(code);
    assert_eq!(run.stdout, "", "a refused broker is not ready");
    run
}

/// The line that says that it is ready.
fn first_line(child: &mut Child) -> String {
    let stdout = child.stdout.as_mut().expect("a pipe");
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stdout.read(&mut byte).expect("a readable pipe") == 1 {
        if byte == *b"\n" {
            return String::from_utf8(line).expect("text");
        }
        line.push(byte[0]);
    }
    let mut stderr = String::new();
    let _ = child
        .stderr
        .as_mut()
        .expect("a pipe")
        .read_to_string(&mut stderr);
    let _ = child.wait();
    panic!("no line that says that it is ready: {stderr}");
}

/// A port that nobody has at the moment.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// A broker that is ready. It is killed when the test ends.
pub(crate) struct Broker {
    child: Option<Child>,
    folder: Folder,
    listen: String,
    /// The real key, which nobody but the API may see.
    pub(crate) key: String,
    /// The line that said it was ready.
    pub(crate) ready: String,
}

impl Broker {
    /// One to be, before this API.
    pub(crate) fn before(upstream: &Upstream) -> Start {
        Broker::to(&upstream.url(), &upstream.ca_file())
    }

    /// One to be, before what is at this URL.
    pub(crate) fn to(url: &str, ca_file: &Path) -> Start {
        Start::new(url, ca_file)
    }

    /// One to be, before an API that isn't there.
    pub(crate) fn before_down(upstream: &Down) -> Start {
        Start::new(&upstream.url(), &upstream.ca_file())
    }

    /// With everything at its default.
    pub(crate) fn start(upstream: &Upstream) -> Broker {
        Broker::before(upstream).start()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.listen.strip_prefix("unix:").expect("a path").into()
    }

    /// Where it listens on TCP.
    pub(crate) fn address(&self) -> SocketAddr {
        let port = self.listen.strip_prefix("tcp:").expect("a port");
        (Ipv4Addr::LOCALHOST, port.parse().expect("a port")).into()
    }

    pub(crate) fn client(&self) -> Client {
        if self.listen.starts_with("unix:") {
            Client::unix(&self.socket())
        } else {
            Client::tcp(self.address())
        }
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn pid(&self) -> i32 {
        let child = self.child.as_ref().expect("it runs");
        i32::try_from(child.id()).expect("a pid")
    }

    /// A number of kB from /proc/PID/status.
    pub(crate) fn kib(&self, field: &str) -> usize {
        let text = host::status_field(self.pid(), field);
        let number = text
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok());
        number.expect("a number of kB")
    }

    /// It answers.
    pub(crate) fn assert_alive(&self) {
        let answer = self
            .client()
            .ask(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(
            (answer.status, answer.whole().trim_ascii()),
            (200, &b"ok"[..])
        );
    }

    /// The log until now.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).expect("a log")
    }

    /// Waits for so many lines of the log, and returns them.
    pub(crate) fn log_lines(&self, count: usize) -> Vec<serde_json::Value> {
        let end = std::time::Instant::now() + super::upstream::PATIENCE;
        loop {
            let log = self.log();
            let lines: Vec<_> = log
                .split_inclusive('\n')
                .filter(|l| l.ends_with('\n'))
                .collect();
            if lines.len() >= count {
                let json = lines.iter().map(|line| serde_json::from_str(line));
                return json.collect::<Result<_, _>>().expect("a line is JSON");
            }
            assert!(std::time::Instant::now() < end, "{count} lines: {log}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("it runs");
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Run {
        self.wait()
    }

    fn wait(&mut self) -> Run {
        jail::finish(self.child.take().expect("it runs"))
    }

    /// SIGTERM, and what came of it. The log is read before the folder goes.
    pub(crate) fn stop(mut self) -> (Run, String) {
        self.signal(Signal::SIGTERM);
        let run = self.wait();
        let log = fs::read_to_string(self.folder.path("log")).unwrap_or_default();
        (run, log)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
