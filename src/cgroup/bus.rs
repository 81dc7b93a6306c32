//! Asking systemd for a scope of this process's own, over D-Bus: as much of the
//! protocol as three messages take (D-Bus Specification, org.freedesktop.systemd1(5)).

mod message;

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, connect};
use nix::unistd::geteuid;

use crate::refusal::{Reason, Refusal, shown};

use super::leaf::fresh_name;
use message::{Message, Reply};

/// For everything that is waited for here, together.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether it has come.
const TURN: Duration = Duration::from_millis(5);
/// The longest message that is taken, in bytes.
const LONGEST: usize = 64 << 10;
/// How many messages that aren't asked for are passed over.
const MOST_OTHERS: usize = 64;

/// Where this user's systemd listens, if there is such a socket: root's is the
/// system's.
pub(super) fn socket() -> Option<PathBuf> {
    let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|is| is.file_type().is_socket());
    if geteuid().is_root() {
        return Some(PathBuf::from("/run/dbus/system_bus_socket")).filter(is_socket);
    }
    // `unix:path=/run/user/1000/bus`; of another transport nothing is known.
    let address = env::var_os("DBUS_SESSION_BUS_ADDRESS").and_then(|address| {
        let rest = address.as_bytes().strip_prefix(b"unix:path=")?;
        let path = rest.split(|byte| matches!(byte, b',' | b';')).next()?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
    });
    let usual = || Some(PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?).join("bus"));
    address.or_else(usual).filter(is_socket)
}

/// Moves this process into a new scope that is delegated to it.
///
/// # Errors
/// `limits`: nobody answers, systemd refuses, or it takes too long.
pub(super) fn enter_scope(socket: &Path) -> Result<(), Refusal> {
    // Not by its number, which in another pid namespace than systemd's is another's.
    let scope = format!("{}.scope", fresh_name()?);
    let mut bus = Bus::connect(socket, PATIENCE)?;
    bus.call(&Message::hello())?;
    bus.call(&Message::start_scope(&scope))?;
    // The answer names a job. Its end is that this process is in the scope.
    while !is_in(&scope) {
        bus.left()?;
        std::thread::sleep(TURN);
    }
    Ok(())
}

fn is_in(scope: &str) -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut paths = own.lines().filter_map(|line| line.strip_prefix("0::"));
    paths.any(|path| path.ends_with(&format!("/{scope}")))
}

/// A connection that a name may be asked for on.
struct Bus<'path> {
    path: &'path Path,
    stream: UnixStream,
    /// What is waited for here must have come by then.
    end: Instant,
}

impl<'path> Bus<'path> {
    /// Connects and says who it is (SASL EXTERNAL: the kernel tells the uid).
    fn connect(path: &'path Path, patience: Duration) -> Result<Bus<'path>, Refusal> {
        let end = Instant::now() + patience;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let stream = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None);
        let mut bus = Bus {
            path,
            stream: UnixStream::from(stream.map_err(|errno| failed(path, &errno.into()))?),
            end,
        };
        bus.dial()?;
        let digits = geteuid().to_string();
        // In hexadecimal: the digit 7 is the byte 37.
        let uid: String = digits.chars().flat_map(|digit| ['3', digit]).collect();
        bus.send(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            bus.fill(&mut byte)?;
            line.push(byte[0]);
            if line.len() > 512 {
                return Err(bus.refuse("its greeting is too long"));
            }
        }
        if !line.starts_with(b"OK ") {
            return Err(bus.refuse("it doesn't take this user"));
        }
        bus.send(b"BEGIN\r\n")?;
        Ok(bus)
    }

    /// Connects, as soon as somebody has room for it: a connect(2) that waits would know
    /// no time.
    fn dial(&mut self) -> Result<(), Refusal> {
        let failed = |errno: Errno| failed(self.path, &errno.into());
        let address = UnixAddr::new(self.path).map_err(failed)?;
        loop {
            match connect(self.stream.as_raw_fd(), &address) {
                Err(Errno::EAGAIN | Errno::EINTR) => {
                    self.left()?;
                    std::thread::sleep(TURN);
                }
                done => break done.map_err(failed)?,
            }
        }
        let done = self.stream.set_nonblocking(false);
        done.map_err(|error| self::failed(self.path, &error))
    }

    /// Sends a call and waits for its answer.
    fn call(&mut self, message: &Message) -> Result<(), Refusal> {
        self.send(&message.bytes)?;
        for _ in 0..MOST_OTHERS {
            let reply = self.receive()?;
            if reply.to == Some(message.serial) {
                return match reply.error {
                    None => Ok(()),
                    Some(name) => Err(self.refuse(&format!("{}: {name}", message.member))),
                };
            }
        }
        Err(self.refuse("it answers something else"))
    }

    fn receive(&mut self) -> Result<Reply, Refusal> {
        let mut head = [0; message::HEAD];
        self.fill(&mut head)?;
        let rest = message::rest_of(&head).filter(|rest| *rest <= LONGEST);
        let Some(rest) = rest else {
            return Err(self.refuse("it sends what can't be read"));
        };
        let mut bytes = head.to_vec();
        bytes.resize(message::HEAD + rest, 0);
        self.fill(bytes.get_mut(message::HEAD..).unwrap_or_default())?;
        Reply::read(&bytes).ok_or_else(|| self.refuse("it sends what can't be read"))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let left = self.left()?;
        let path = self.path;
        let done = self.stream.set_write_timeout(Some(left));
        done.and_then(|()| self.stream.write_all(bytes))
            .map_err(|error| failed(path, &error))
    }

    /// Reads until `buffer` is full.
    fn fill(&mut self, mut buffer: &mut [u8]) -> Result<(), Refusal> {
        while !buffer.is_empty() {
            let left = self.left()?;
            let read = self
                .stream
                .set_read_timeout(Some(left))
                .and_then(|()| self.stream.read(buffer));
            match read {
                Ok(0) => return Err(self.refuse("it hung up")),
                Ok(length) => buffer = buffer.get_mut(length..).unwrap_or_default(),
                // The time is over, which the next turn says.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                    ) => {}
                Err(error) => return Err(failed(self.path, &error)),
            }
        }
        Ok(())
    }

    /// How long it may still be waited for; never 0.
    fn left(&self) -> Result<Duration, Refusal> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.refuse("it takes too long"));
        }
        Ok(left)
    }

    fn refuse(&self, why: &str) -> Refusal {
        let is_plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
        let why: String = why.chars().filter(is_plain).collect();
        refusal(self.path).remedy(format!("{why}: {OTHER_WAY}"))
    }
}

const OTHER_WAY: &str = "start it in a cgroup of its own: `systemd-run --user --scope -p \
                         Delegate=yes groom-ns run …` (root: without --user)";

fn failed(path: &Path, error: &io::Error) -> Refusal {
    refusal(path)
        .errno(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
        .remedy(OTHER_WAY)
}

fn refusal(path: &Path) -> Refusal {
    Refusal::new(Reason::Limits, "ask systemd for a scope").about(shown(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command};
    use std::sync::mpsc;
    use std::thread;

    use nix::sys::socket::{Backlog, bind, listen};

    use super::*;
    use crate::policy::testing::TempDir;

    /// dbus-daemon with nobody on it.
    struct Daemon(Child);

    impl Drop for Daemon {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_real_bus_takes_our_messages_and_knows_no_systemd() {
        let temp = TempDir::new();
        let (root, socket) = (env!("CARGO_MANIFEST_DIR"), temp.at("bus"));
        let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| root.to_owned());
        let mut command = Command::new("dbus-daemon");
        command
            .arg(format!("--config-file={root}/tests/kernels/bus.conf"))
            .arg(format!("--address=unix:path={}", socket.display()))
            .args(["--nofork", "--nopidfile"]);
        let _daemon = Daemon(command.spawn().expect("dbus-daemon"));
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "no bus");
            thread::sleep(Duration::from_millis(5));
        }
        let refusal = enter_scope(&socket).expect_err("no systemd");
        let unknown = "StartTransientUnit: org.freedesktop.DBus.Error.ServiceUnknown";
        assert!(refusal.remedy.contains(unknown), "{refusal}");
        // The same call to the bus itself is answered: only systemd is missing.
        let mut bus = Bus::connect(&socket, PATIENCE).expect("a bus");
        assert_eq!(bus.call(&Message::hello()), Ok(()));
    }

    #[test]
    fn nobody_is_waited_for_beyond_the_time() {
        let temp = TempDir::new();
        let (path, flags) = (temp.at("bus"), SockFlag::SOCK_CLOEXEC);
        let listener =
            socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("a socket");
        let address = UnixAddr::new(&path).expect("short");
        bind(listener.as_raw_fd(), &address).expect("bound");
        listen(&listener, Backlog::new(0).expect("a number")).expect("a listener");
        // As many as there is room for, and nobody takes them.
        let waiting: Vec<_> = std::iter::from_fn(|| {
            let flags = flags | SockFlag::SOCK_NONBLOCK;
            let stream = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).ok()?;
            connect(stream.as_raw_fd(), &address).ok()?;
            Some(stream)
        })
        .collect();
        assert!((1..10).contains(&waiting.len()), "{}", waiting.len());
        let (start, patience) = (Instant::now(), Duration::from_millis(100));
        let (says, refusal) = mpsc::channel();
        thread::spawn(move || says.send(Bus::connect(&path, patience).err()));
        let refusal = refusal.recv_timeout(Duration::from_secs(20));
        let refusal = refusal.expect("in time").expect("no bus");
        assert!(refusal.remedy.contains("takes too long"), "{refusal}");
        assert!(start.elapsed() >= patience);
    }

    #[test]
    fn whoever_answers_nonsense_or_nothing_is_no_bus() {
        let flood = vec![b'x'; 2 * LONGEST];
        let mut huge = b"OK 0\r\nl\x02\0\x01".to_vec();
        huge.extend([0xff; 12]);
        let mut others = b"OK 0\r\n".to_vec();
        // Signals without a field, one after the other.
        for _ in 0..=MOST_OTHERS {
            others.extend_from_slice(b"l\x04\0\x01\0\0\0\0\x01\0\0\0\0\0\0\0");
        }
        for (says, hangs_up, because) in [
            (&b""[..], true, "hung up"),
            (b"", false, "takes too long"),
            (b"OK 0", false, "takes too long"),
            (b"OK 0\r\n", true, "hung up"),
            (b"REJECTED EXTERNAL\r\n", false, "doesn't take this user"),
            (&flood, false, "greeting is too long"),
            (&huge, false, "can't be read"),
            (&others, false, "something else"),
        ] {
            let temp = TempDir::new();
            let listener = UnixListener::bind(temp.at("bus")).expect("a socket");
            let said = says.to_vec();
            let played = thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("groom-ns");
                // It may have heard enough.
                let _ = stream.write_all(&said);
                if !hangs_up {
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            });
            let patience = Duration::from_millis(300);
            let socket = temp.at("bus");
            let called =
                Bus::connect(&socket, patience).and_then(|mut bus| bus.call(&Message::hello()));
            let refusal = called.expect_err("no bus");
            assert_eq!(refusal.reason, Reason::Limits);
            let text = refusal.to_string();
            let broken = hangs_up && (text.contains("EPIPE") || text.contains("ECONNRESET"));
            assert!(text.contains(because) || broken, "{because}: {text}");
            assert!(text.contains("Delegate=yes"), "{text}");
            played.join().expect("played");
        }
    }
}
