//! The broker's two listeners. Pid 1 makes them, so that they are of the jail's
//! network namespace and file system; the supervisor, which gets them, accepts on
//! them from outside.

use std::fs::{Permissions, set_permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, getsockopt, listen, socket, sockopt,
};

use crate::refusal::{Reason, Refusal, shown};

use super::channel::{Channel, FromJail};

/// What pid 1 has made so far; its own until [`Made::hand_out`].
#[derive(Default)]
pub struct Made {
    tcp: Option<TcpListener>,
    unix: Option<UnixListener>,
}

impl Made {
    /// Listens on 127.0.0.1, on a port of the kernel's choice if `port` is 0. A port
    /// below 1024 takes CAP_NET_BIND_SERVICE (ip(7)).
    ///
    /// # Errors
    /// `net`.
    pub fn listen_on_loopback(&mut self, port: u16) -> Result<(), Refusal> {
        let made = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            // Again, since std asks for a backlog of 128: an agent may open more at once.
            listen(&listener, Backlog::MAXALLOWABLE)?;
            Ok(listener)
        });
        let listener =
            made.map_err(|error| refuse(Reason::Net, format!("bind 127.0.0.1:{port}"), &error))?;
        self.tcp = Some(listener);
        Ok(())
    }

    /// Listens on a new socket at `path`, to which only the caller's own id can connect.
    ///
    /// # Errors
    /// `socket`.
    pub fn listen_at(&mut self, path: &Path) -> Result<(), Refusal> {
        let made = bind_private(path)
            .map_err(|error| refuse(Reason::Socket, format!("bind {}", shown(path)), &error))?;
        self.unix = Some(made);
        Ok(())
    }

    /// Sends both to the supervisor and lets go of them. Returns the TCP port.
    ///
    /// # Errors
    /// `setup`: one wasn't made, or the supervisor is gone.
    pub fn hand_out(self, channel: &Channel) -> Result<u16, Refusal> {
        let refuse = |call: &'static str| {
            move |errno| {
                Refusal::new(Reason::Setup, "hand the broker's listeners out")
                    .about(call)
                    .errno(errno)
            }
        };
        let (Some(tcp), Some(unix)) = (self.tcp, self.unix) else {
            return Err(refuse("before both are made")(Errno::EBADF));
        };
        let port = port_of(&tcp).map_err(refuse("getsockname"))?;
        channel
            .send_with(&FromJail::Listening, &[tcp.as_fd(), unix.as_fd()])
            .map_err(refuse("sendmsg"))?;
        Ok(port)
    }
}

/// The listeners as the supervisor has them: its own, non-blocking, close-on-exec.
/// Whoever connects is in the jail, or reaches into it through /proc.
#[derive(Debug)]
pub struct Listening {
    /// The port of `tcp`.
    pub port: u16,
    /// On 127.0.0.1 of the jail's network namespace.
    pub tcp: TcpListener,
    /// On [`crate::plan::BROKER_SOCKET`] of the jail.
    pub unix: UnixListener,
}

impl Listening {
    /// Takes what came with [`FromJail::Listening`].
    ///
    /// # Errors
    /// `setup`: they aren't listening sockets of the two families.
    pub fn judge(handed: Vec<OwnedFd>) -> Result<Listening, Refusal> {
        let refuse = |errno| {
            Refusal::new(Reason::Setup, "take the broker's listeners")
                .about("pid 1 has handed out something else")
                .errno(errno)
        };
        let [tcp, unix] = <[OwnedFd; 2]>::try_from(handed).map_err(|_| refuse(Errno::EBADMSG))?;
        for fd in [&tcp, &unix] {
            if !getsockopt(fd, sockopt::AcceptConn).map_err(refuse)? {
                return Err(refuse(Errno::EINVAL));
            }
        }
        let (tcp, unix) = (TcpListener::from(tcp), UnixListener::from(unix));
        let port = port_of(&tcp).map_err(refuse)?;
        // std looks at the family.
        unix.local_addr()
            .map_err(|error| refuse(errno_of(&error)))?;
        Ok(Listening { port, tcp, unix })
    }
}

/// A listener of mode 0600, which it has before anybody can connect.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&fd, Backlog::MAXALLOWABLE)?;
    Ok(UnixListener::from(fd))
}

/// EAFNOSUPPORT: it isn't of AF_INET.
fn port_of(listener: &TcpListener) -> nix::Result<u16> {
    match listener.local_addr() {
        Ok(SocketAddr::V4(address)) => Ok(address.port()),
        Ok(SocketAddr::V6(_)) => Err(Errno::EAFNOSUPPORT),
        Err(error) => Err(errno_of(&error)),
    }
}

fn refuse(reason: Reason, subject: String, error: &io::Error) -> Refusal {
    Refusal::new(reason, "listen for the broker in the jail")
        .about(subject)
        .errno(errno_of(error))
        .remedy("an outer sandbox denies it: run groom-ns outside of it, or allow it there")
}

/// EAFNOSUPPORT where std itself refuses an address.
fn errno_of(error: &io::Error) -> Errno {
    error
        .raw_os_error()
        .map_or(Errno::EAFNOSUPPORT, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::Duration;

    use nix::unistd::mkdtemp;

    use super::*;
    use crate::ns::channel::pair;

    /// A fresh directory, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            Folder(mkdtemp(&std::env::temp_dir().join("groom-listen-XXXXXX")).unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Both listeners, as the supervisor gets them.
    fn handed_out(temp: &Folder) -> (u16, Listening) {
        let (ours, theirs) = pair().unwrap();
        let mut made = Made::default();
        made.listen_on_loopback(0).unwrap();
        made.listen_at(&temp.at("s")).unwrap();
        let port = made.hand_out(&theirs).unwrap();
        let (_, handed) = ours.try_receive::<FromJail>().unwrap().unwrap();
        (port, Listening::judge(handed).unwrap())
    }

    fn first_byte(mut stream: impl io::Read) -> u8 {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        byte[0]
    }

    #[test]
    fn whoever_gets_them_accepts_on_them() {
        let temp = Folder::new();
        let (port, listening) = handed_out(&temp);
        assert_eq!(listening.port, port);
        let nobody = listening.tcp.accept().unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock);
        let nobody = listening.unix.accept().unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock);

        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"t").unwrap();
        assert_eq!(first_byte(listening.tcp.accept().unwrap().0), b't');
        let mut client = UnixStream::connect(temp.at("s")).unwrap();
        client.write_all(b"u").unwrap();
        assert_eq!(first_byte(listening.unix.accept().unwrap().0), b'u');

        let mode = temp.at("s").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listening);
        let gone = UnixStream::connect(temp.at("s")).unwrap_err();
        assert_eq!(
            gone.kind(),
            io::ErrorKind::ConnectionRefused,
            "no other copy is open"
        );
    }

    /// An agent may open many at once, and the supervisor may be busy.
    #[test]
    fn many_may_wait_to_be_accepted() {
        let temp = Folder::new();
        let (port, _listening) = handed_out(&temp);
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(5));
        // All of them at once; the first that isn't taken ends it.
        let clients: Result<Vec<_>, _> = (0..300).map(connect).collect();
        assert_eq!(clients.map(|all| all.len()).ok(), Some(300));
    }

    #[test]
    fn anything_else_is_refused() {
        let temp = Folder::new();
        let tcp = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        let tcp6 = || TcpListener::bind("[::1]:0").map(OwnedFd::from);
        let unix = |name| OwnedFd::from(UnixListener::bind(temp.at(name)).unwrap());
        let (end, other) = UnixStream::pair().unwrap();
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let mut cases = vec![
            ("one is missing", vec![tcp()]),
            ("one too many", vec![tcp(), unix("1"), unix("2")]),
            ("the other way round", vec![unix("3"), tcp()]),
            ("two of one family", vec![tcp(), tcp()]),
            ("two of the other", vec![unix("7"), unix("8")]),
            ("no listener", vec![tcp(), end.into()]),
            ("no listener either", vec![other.into(), unix("4")]),
            ("no socket", vec![tcp(), file]),
        ];
        // Where there is IPv6 at all.
        cases.extend(tcp6().ok().map(|tcp6| ("IPv6", vec![tcp6, unix("5")])));
        for (name, handed) in cases {
            let refusal = Listening::judge(handed).expect_err(name);
            assert_eq!(refusal.reason, Reason::Setup, "{name}");
        }
        Listening::judge(vec![tcp(), unix("6")]).unwrap();
    }

    #[test]
    fn what_cannot_be_bound_is_refused_with_its_step() {
        let temp = Folder::new();
        let mut made = Made::default();
        let refusal = made.listen_at(&temp.at("no/s")).unwrap_err();
        assert_eq!(refusal.reason, Reason::Socket);
        assert_eq!(refusal.errno.as_deref(), Some("ENOENT"));
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let refusal = made.listen_on_loopback(port).unwrap_err();
        assert_eq!(refusal.reason, Reason::Net);
        assert_eq!(refusal.subject, format!("bind 127.0.0.1:{port}"));
        assert_eq!(refusal.errno.as_deref(), Some("EADDRINUSE"));
        let (_ours, theirs) = pair().unwrap();
        let refusal = made.hand_out(&theirs).unwrap_err();
        assert_eq!(refusal.reason, Reason::Setup);
    }
}
