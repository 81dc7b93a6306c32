//! `groom-ns broker`: the broker apart from a run, for callers who keep the two apart.

use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::prctl::set_dumpable;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstatat, umask};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use tokio::io::Interest;

use crate::refusal::{Reason, Refusal, shown};
use crate::sabotage::{Mechanism, stands};
use crate::say;
use crate::sys::watch::watch;

use super::key_source::KeySource;
use super::log::Log;
use super::serve::{Listener, Peers, Service};
use super::token::Token;
use super::{Broker, Config, Limits, TASKS_A_TURN};

/// Where to listen.
#[derive(Debug)]
pub enum Listen {
    /// A UNIX socket: its opened folder (`O_PATH`), its name there, and its path.
    Unix {
        /// Owned; the socket is made and removed beneath it.
        parent: OwnedFd,
        /// The last part of the path.
        name: PathBuf,
        /// For messages.
        path: PathBuf,
    },
    /// A port of 127.0.0.1; 0: the kernel picks.
    Tcp(u16),
}

/// What `groom-ns broker` is to do, judged, and the descriptors that it was given.
#[derive(Debug)]
pub struct Alone {
    /// The broker itself.
    pub config: Config,
    /// Where the key comes from.
    pub key: KeySource,
    /// Where clients connect.
    pub listen: Listen,
    /// Whose processes may connect to a UNIX socket, beside the broker's own user's.
    pub peer_uid: Option<u32>,
    /// What clients must present, where they must.
    pub token: Option<Token>,
    /// Where requests are logged.
    pub log: Log,
    /// Told, beside standard output, when the broker listens. Owned, then closed.
    pub ready: Option<OwnedFd>,
}

/// Serves until SIGTERM or SIGINT, lets what is under way come to its end, and
/// returns the exit code: 1 where something had to be cut off.
///
/// # Errors
/// `key`, `broker`, `socket`: nothing is listened on.
pub fn run(alone: Alone) -> Result<u8, Refusal> {
    // Before the key is read: its memory is nobody's to look at.
    if stands(Mechanism::UndumpableBroker) {
        set_dumpable(false).map_err(setup("prctl(PR_SET_DUMPABLE)"))?;
    }
    let signals = hold_signals()?;
    let key = alone.key.read()?;
    let tls = alone.config.tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .event_interval(TASKS_A_TURN)
        .build()
        .map_err(|error| setup("make the event loop")(errno_of(&error)))?;
    runtime.block_on(async {
        let is_guarded = alone.token.is_some();
        let bound = Bound::bind(&alone.listen, alone.peer_uid.is_some())?;
        let own = geteuid().as_raw();
        let peers = Peers::Users([own, alone.peer_uid.unwrap_or(own)]);
        let listener = bound.listener(peers)?;
        let broker = Broker::new(
            &alone.config,
            tls,
            key,
            alone.token,
            alone.log,
            Limits::here(),
        )?;
        let service = Service::new(broker);
        service.listen(listener);
        if let (Bound::Tcp(_), false) = (&bound, is_guarded) {
            say::note("broker: warning: every process of this machine may spend the key: give --token-file");
        }
        bound.announce(alone.ready)?;
        wait(&signals).await?;
        drop(bound);
        let is_whole = tokio::select! {
            is_whole = service.drain() => is_whole,
            second = wait(&signals) => second.map(|()| false)?,
        };
        if !is_whole {
            say::note("broker: requests under way were cut off");
        }
        Ok(u8::from(!is_whole))
    })
}

/// Blocks the signals that end the broker; they are read instead.
fn hold_signals() -> Result<SignalFd, Refusal> {
    let held: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&held), None).map_err(setup("sigprocmask"))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&held, flags).map_err(setup("signalfd"))
}

/// Waits for one of them.
async fn wait(signals: &SignalFd) -> Result<(), Refusal> {
    use std::os::fd::AsFd as _;
    let failed = |error: std::io::Error| setup("watch the signals")(errno_of(&error));
    let watched = watch(signals.as_fd(), Interest::READABLE).map_err(failed)?;
    loop {
        watched.readable().await.map_err(failed)?.clear_ready();
        if let Ok(Some(_)) = signals.read_signal() {
            return Ok(());
        }
    }
}

/// A socket that is listened on. Dropped, a UNIX socket's file is removed, if it is
/// still this one.
enum Bound<'listen> {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        parent: &'listen OwnedFd,
        name: &'listen Path,
        path: &'listen Path,
        inode: u64,
    },
}

impl Bound<'_> {
    /// `is_shared`: another user may connect to a UNIX socket.
    fn bind(listen: &Listen, is_shared: bool) -> Result<Bound<'_>, Refusal> {
        match listen {
            Listen::Tcp(port) => {
                let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, *port);
                TcpListener::bind(address).map(Bound::Tcp).map_err(|error| {
                    Refusal::new(Reason::Socket, "listen")
                        .about(format!("bind {address}"))
                        .errno(errno_of(&error))
                        .remedy("choose another port, or 0 for any")
                })
            }
            Listen::Unix { parent, name, path } => {
                remove_stale(parent, name, path)?;
                // Through the folder's descriptor: sun_path has 108 bytes (unix(7)).
                let link = through(parent, name);
                let refuse = |error: std::io::Error| {
                    Refusal::new(Reason::Socket, "listen")
                        .about(format!("bind {}", shown(path)))
                        .errno(errno_of(&error))
                        .remedy("choose a folder that you can write to, and a name that is free")
                };
                // Made with its mode, not given it: nobody else connects in between.
                let before = umask(Mode::from_bits_truncate(0o177));
                let listener = UnixListener::bind(&link);
                umask(before);
                let listener = listener.map_err(refuse)?;
                if is_shared {
                    // Whoever connects is judged by the user id that the kernel tells.
                    chmod(&link, 0o666).map_err(|errno| refuse(errno.into()))?;
                }
                let inode = look(parent, name).map_err(|errno| refuse(errno.into()))?;
                Ok(Bound::Unix {
                    listener,
                    parent,
                    name,
                    path,
                    inode: inode.st_ino,
                })
            }
        }
    }

    /// The same socket for the runtime that this is called in.
    fn listener(&self, peers: Peers) -> Result<Listener, Refusal> {
        let made = || match self {
            Bound::Tcp(listener) => {
                let listener = listener.try_clone()?;
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener).map(Listener::Tcp)
            }
            Bound::Unix { listener, .. } => {
                let listener = listener.try_clone()?;
                listener.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(listener)
                    .map(|listener| Listener::Unix(listener, peers))
            }
        };
        made().map_err(|error| setup("watch the listener")(errno_of(&error)))
    }

    /// One line, once clients can connect.
    fn announce(&self, ready: Option<OwnedFd>) -> Result<(), Refusal> {
        let address = match self {
            Bound::Tcp(listener) => listener
                .local_addr()
                .map(|address| format!("tcp:{address}"))
                .map_err(|error| setup("getsockname")(errno_of(&error)))?,
            Bound::Unix { path, .. } => format!("unix:{}", shown(path)),
        };
        let line = format!("ready {address}\n");
        let refuse = |error: std::io::Error| {
            Refusal::new(Reason::Setup, "say that the broker is ready")
                .about("write")
                .errno(errno_of(&error))
                .remedy("whoever started it must read it")
        };
        if let Some(ready) = ready {
            File::from(ready)
                .write_all(line.as_bytes())
                .map_err(refuse)?;
        }
        std::io::stdout().write_all(line.as_bytes()).map_err(refuse)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        if let Bound::Unix {
            parent,
            name,
            inode,
            ..
        } = self
            && look(parent, name).is_ok_and(|stat| stat.st_ino == *inode)
        {
            let _ = unlinkat(*parent, *name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Removes a socket on which nobody answers; whatever else is there is left alone.
fn remove_stale(parent: &OwnedFd, name: &Path, path: &Path) -> Result<(), Refusal> {
    let refuse = |errno: Errno, remedy: &'static str| {
        Refusal::new(Reason::Socket, "take the place of a socket")
            .path(path)
            .errno(errno)
            .remedy(remedy)
    };
    let stat = match look(parent, name) {
        Err(Errno::ENOENT) => return Ok(()),
        other => other.map_err(|errno| refuse(errno, "choose another path"))?,
    };
    if stat.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFSOCK.bits() {
        return Err(refuse(
            Errno::EEXIST,
            "something else is there: remove it, or choose another path",
        ));
    }
    // Without waiting: a full backlog (EAGAIN) is somebody's.
    match connect(&through(parent, name)) {
        Err(Errno::ECONNREFUSED) => {}
        Ok(()) | Err(Errno::EAGAIN) => {
            return Err(refuse(
                Errno::EADDRINUSE,
                "somebody answers on it: end that broker first, or choose another path",
            ));
        }
        Err(errno) => return Err(refuse(errno, "choose another path")),
    }
    unlinkat(parent, name, UnlinkatFlags::NoRemoveDir)
        .map_err(|errno| refuse(errno, "remove it, or choose another path"))
}

fn chmod(path: &Path, mode: u32) -> nix::Result<()> {
    let mode = Mode::from_bits_truncate(mode);
    fchmodat(AT_FDCWD, path, mode, FchmodatFlags::FollowSymlink)
}

fn connect(path: &Path) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::connect(fd.as_raw_fd(), &UnixAddr::new(path)?)
}

fn look(parent: &OwnedFd, name: &Path) -> nix::Result<FileStat> {
    fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

fn through(parent: &OwnedFd, name: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name)
}

fn setup(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "set up the broker")
            .about(call)
            .errno(errno)
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use nix::sys::socket::{Backlog, bind, listen};

    use super::*;
    use crate::policy::testing::{TempDir, held};

    fn remove(temp: &TempDir, name: &str) -> Result<(), Option<String>> {
        let removed = remove_stale(&held(temp.path()), Path::new(name), &temp.at(name));
        removed.map_err(|refusal| refusal.errno)
    }

    /// The policy has looked before, and it may have come since.
    #[test]
    fn nothing_but_a_stale_socket_is_removed() {
        let temp = TempDir::new();
        temp.file("file", "precious");
        temp.dir("dir");
        temp.link("link", "stale");
        let _live = UnixListener::bind(temp.at("live")).expect("bind");
        drop(UnixListener::bind(temp.at("stale")).expect("bind"));
        // Somebody listens, and accepts nobody.
        let busy = socket::socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::empty(),
            None,
        )
        .expect("a socket");
        let address = UnixAddr::new(&temp.at("busy")).expect("short");
        bind(busy.as_raw_fd(), &address).expect("bind");
        listen(&busy, Backlog::new(0).expect("a number")).expect("listen");
        let _waits = UnixStream::connect(temp.at("busy")).expect("connected");
        for (name, errno) in [
            ("file", "EEXIST"),
            ("dir", "EEXIST"),
            ("link", "EEXIST"),
            ("live", "EADDRINUSE"),
            ("busy", "EADDRINUSE"),
        ] {
            assert_eq!(remove(&temp, name), Err(Some(errno.to_owned())), "{name}");
            assert!(temp.at(name).symlink_metadata().is_ok(), "{name}");
        }
        for name in ["stale", "none"] {
            assert_eq!(remove(&temp, name), Ok(()), "{name}");
            assert!(!temp.at(name).exists(), "{name}");
        }
    }
}
