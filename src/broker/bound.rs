//! Where a broker that no run is tied to listens.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstatat, umask};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::refusal::{Reason, Refusal, shown};

use super::alone::{Listen, errno_of, setup};
use super::serve::{Listener, Peers};

/// A socket that is listened on. Dropped, a UNIX socket's file is removed, if it is
/// still this one.
pub(super) enum Bound<'listen> {
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
    pub(super) fn bind(listen: &Listen, is_shared: bool) -> Result<Bound<'_>, Refusal> {
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
    pub(super) fn listener(&self, peers: Peers) -> Result<Listener, Refusal> {
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

    /// Where clients find it, as `--listen` has it.
    pub(super) fn address(&self) -> Result<String, Refusal> {
        match self {
            Bound::Tcp(listener) => listener
                .local_addr()
                .map(|address| format!("tcp:{address}"))
                .map_err(|error| setup("getsockname")(errno_of(&error))),
            Bound::Unix { path, .. } => Ok(format!("unix:{}", shown(path))),
        }
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
