//! The files that the broker itself reads and writes. The command may neither see
//! them nor have a say in which they are.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlink};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{AccessFlags, faccessat};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::ground::Ground;
use crate::broker::alone::Listen;
use crate::broker::key_source::KeySource;
use crate::broker::token::Token;
use crate::broker::upstream::roots::parse_pem;
use crate::policy::grant::split_last;
use crate::policy::kinds::{Filesystem, What, filesystem};
use crate::policy::paths::{Fault, Resolved, Start, resolve};
use crate::refusal::{Reason, Refusal, shown};

/// A key is a line.
const MAX_KEY_FILE: i64 = 64 * 1024;
/// Several times the roots of a whole system.
const MAX_CERTIFICATES: usize = 4 * 1024 * 1024;
/// A token is a line.
const MAX_TOKEN_FILE: usize = 4 * 1024;
/// sun_path without the NUL byte at its end (unix(7)).
const MAX_SUN_PATH: usize = 107;

/// Judges a descriptor that the key is read from: a file that still has a name may not
/// lie in what the command sees, as for `--key-file`.
pub(crate) fn opened(ground: &Ground, name: &'static str, fd: impl AsFd) -> Result<(), Refusal> {
    let flag = Flag {
        name,
        reason: Reason::Key,
    };
    let refusal = || flag.refusal("look at");
    let failed = |errno: Errno| refusal().errno(errno).remedy("name another source");
    let stat = fstat(&fd).map_err(failed)?;
    // A here-document has no name any more; what comes from a pipe is gone once read.
    if !ground.has_jail() || What::of(stat.st_mode) != What::File || stat.st_nlink == 0 {
        return Ok(());
    }
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let path = PathBuf::from(readlink(link.as_str()).map_err(failed)?);
    ground.unseen(flag, &path)?;
    if stat.st_nlink > 1 {
        return Err(refusal().path(&path).remedy(HARD_LINKS));
    }
    Ok(())
}

const HARD_LINKS: &str =
    "it has other names (hard links), and the command may see one: copy it to a file of its own";

/// The flag that a file was given with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    reason: Reason,
}

const KEY_FILE: Flag = Flag {
    name: "--key-file",
    reason: Reason::Key,
};
pub(crate) const PROFILE: Flag = Flag {
    name: "--profile",
    reason: Reason::Path,
};
pub(crate) const BROKER_LOG: Flag = Flag::broker("--broker-log");
pub(crate) const LOG: Flag = Flag::broker("--log");
const UPSTREAM_CA: Flag = Flag::broker("--upstream-ca");
const TOKEN_FILE: Flag = Flag::broker("--token-file");
const LISTEN: Flag = Flag {
    name: "--listen",
    reason: Reason::Socket,
};

impl Flag {
    const fn broker(name: &'static str) -> Flag {
        Flag {
            name,
            reason: Reason::Broker,
        }
    }

    pub(crate) fn refusal(self, verb: &str) -> Refusal {
        Refusal::new(self.reason, format!("{verb} {}", self.name))
    }

    fn unresolved(self, fault: &Fault) -> Refusal {
        self.refusal("resolve")
            .path(&fault.at)
            .errno(fault.errno)
            .remedy(fault.remedy)
    }

    /// A path that is there, by a link or not.
    pub(crate) fn resolve(
        self,
        cwd: &Result<Start, Errno>,
        typed: &Path,
    ) -> Result<Resolved, Refusal> {
        resolve(cwd, typed).map_err(|fault| self.unresolved(&fault))
    }

    /// Refuses what isn't a regular file.
    pub(crate) fn takes_file(self, found: &Resolved) -> Result<(), Refusal> {
        match What::of(found.stat.st_mode) {
            What::File => Ok(()),
            what => Err(self.is_wrong(&found.path, what, "a regular file")),
        }
    }

    fn is_wrong(self, path: &Path, what: What, wanted: &str) -> Refusal {
        self.refusal("look at").path(path).remedy(format!(
            "it is {}; {} takes {wanted}",
            what.name(),
            self.name
        ))
    }
}

/// A log file, judged and not opened yet: a regular file or nothing is there.
#[derive(Debug)]
pub struct LogFile {
    /// An `O_PATH` descriptor (close-on-exec) of its folder; owned.
    pub parent: OwnedFd,
    /// Its name there.
    pub name: OsString,
    /// Its canonical path.
    pub path: PathBuf,
    flag: Flag,
}

impl LogFile {
    /// Opens it for appending (`O_APPEND`, close-on-exec), made with mode 0600 if
    /// nothing is there; says whether it was. No link is followed.
    ///
    /// # Errors
    /// `broker`: openat(2)'s, or something else came there since it was judged.
    pub fn open(&self) -> Result<(OwnedFd, bool), Refusal> {
        // Without waiting, should a FIFO have come there.
        let flags = OFlag::O_WRONLY
            | OFlag::O_APPEND
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_CLOEXEC;
        let name = self.name.as_os_str();
        let anew = flags | OFlag::O_CREAT | OFlag::O_EXCL;
        let made = openat(&self.parent, name, anew, Mode::S_IRUSR | Mode::S_IWUSR);
        let opened = match made {
            Err(Errno::EEXIST) => {
                openat(&self.parent, name, flags, Mode::empty()).map(|fd| (fd, false))
            }
            made => made.map(|fd| (fd, true)),
        };
        let failed = |errno: Errno| {
            let refusal = self.flag.refusal("open").path(&self.path).errno(errno);
            refusal.remedy("choose a file that the caller can append to")
        };
        let (fd, is_new) = opened.map_err(failed)?;
        if is_new {
            // Nothing can fail between its making and its taker.
            return Ok((fd, true));
        }
        match What::of(fstat(&fd).map_err(failed)?.st_mode) {
            What::File => Ok((fd, false)),
            what => Err(self.flag.is_wrong(&self.path, what, "a regular file")),
        }
    }
}

/// A name in a folder, and what is there. No link is followed at its end.
struct Named {
    /// An `O_PATH` descriptor of the folder.
    parent: OwnedFd,
    name: OsString,
    /// The folder's canonical path with the name.
    path: PathBuf,
    /// An `O_PATH` descriptor of what is there.
    found: Option<(OwnedFd, FileStat)>,
}

impl Named {
    fn resolve(ground: &Ground, flag: Flag, typed: &Path) -> Result<Named, Refusal> {
        let is_folder = typed.as_os_str().as_bytes().ends_with(b"/");
        let Some((parent, name)) = split_last(typed).filter(|_| !is_folder) else {
            let refusal = flag.refusal("resolve").path(typed);
            return Err(refusal.remedy("it names no file: give a folder's path and a name"));
        };
        let parent = resolve(ground.cwd, parent).map_err(|fault| flag.unresolved(&fault))?;
        ground.own_choice(flag, &parent.followed)?;
        let path = parent.path.join(&name);
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match openat(&parent.fd, name.as_os_str(), flags, Mode::empty()) {
            Ok(fd) => fstat(&fd).map(|stat| Some((fd, stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        };
        let found = found.map_err(|errno| flag.unresolved(&Fault::of(errno, &path)))?;
        Ok(Named {
            parent: parent.fd,
            name,
            path,
            found,
        })
    }

    fn what(&self) -> Option<What> {
        self.found.as_ref().map(|(_, stat)| What::of(stat.st_mode))
    }

    /// Asked of the kernel for the caller (access(2)), so that a refusal comes before
    /// anything is made: `name` is this file's, or `.` for its folder.
    fn writable(&self, flag: Flag, name: &OsStr) -> Result<(), Refusal> {
        if let Ok(Filesystem::Kernel(kind)) = filesystem(&self.parent) {
            return Err(flag.refusal("look at").path(&self.path).remedy(format!(
                "it lies on {kind}, where nothing can be made: give a path on a disk or tmpfs"
            )));
        }
        let mode = match name.as_bytes() {
            b"." => AccessFlags::W_OK | AccessFlags::X_OK,
            _ => AccessFlags::W_OK,
        };
        faccessat(&self.parent, name, mode, AtFlags::empty()).map_err(|errno| {
            flag.refusal("write to")
                .path(&self.path)
                .errno(errno)
                .remedy("the caller can't write there: choose another file, or change modes")
        })
    }
}

/// Judges `--key-file`: a regular file or FIFO that nothing in the jail can read. With
/// `wait`, opening a FIFO waits for its writer.
pub(crate) fn key(ground: &Ground, typed: &Path, wait: bool) -> Result<KeySource, Refusal> {
    let flag = KEY_FILE;
    let named = Named::resolve(ground, flag, typed)?;
    let path = named.path;
    let Some((held, stat)) = named.found else {
        let refusal = flag.unresolved(&Fault::of(Errno::ENOENT, &path));
        // What the shell makes of `<(…)`: /dev/fd/63, closed at start-up.
        if path.starts_with("/proc") && path.parent().is_some_and(|folder| folder.ends_with("fd")) {
            return Err(refusal.remedy("give a descriptor to --key-fd: `--key-fd 3 3< <(…)`"));
        }
        return Err(refusal);
    };
    let refusal = || flag.refusal("look at").path(&path);
    match What::of(stat.st_mode) {
        What::File => {}
        What::Special if is_fifo(&stat) => {}
        What::Link => {
            return Err(refusal().remedy(
                "it is a symbolic link: give the path that it leads to; descriptors are read with --key-stdin and --key-fd",
            ));
        }
        What::Special => {
            return Err(flag.refusal("look at").path(&path).remedy(format!(
                "it is a device; {} takes a regular file or a FIFO",
                flag.name
            )));
        }
        what => return Err(flag.is_wrong(&path, what, "a regular file or a FIFO")),
    }
    if stat.st_size > MAX_KEY_FILE {
        return Err(refusal().remedy("it has more than 64 KiB, so it is no key: name another file"));
    }
    ground.unseen(flag, &path)?;
    if ground.has_jail() && stat.st_nlink > 1 {
        return Err(refusal().remedy(HARD_LINKS));
    }
    let fd = reopen(&held, wait).map_err(|errno| {
        flag.refusal("open")
            .path(&path)
            .errno(errno)
            .remedy("the caller can't read it: change its owner or mode")
    })?;
    Ok(KeySource::File(fd, path))
}

/// Judges a log: a regular file or nothing, that nothing in the jail can see.
pub(crate) fn log(ground: &Ground, flag: Flag, typed: &Path) -> Result<LogFile, Refusal> {
    let named = Named::resolve(ground, flag, typed)?;
    match named.what() {
        None | Some(What::File) => {}
        Some(what) => return Err(flag.is_wrong(&named.path, what, "a regular file")),
    }
    ground.unseen(flag, &named.path)?;
    let asked = match named.found {
        Some(_) => &named.name,
        None => OsStr::new("."),
    };
    named.writable(flag, asked)?;
    Ok(LogFile {
        parent: named.parent,
        name: named.name,
        path: named.path,
        flag,
    })
}

/// Judges the path of `--listen unix:PATH`: a socket or nothing, in a folder that the
/// caller can write to. Whether somebody still listens there is seen when it is bound.
pub(crate) fn socket(ground: &Ground, typed: &Path) -> Result<Listen, Refusal> {
    let flag = LISTEN;
    let named = Named::resolve(ground, flag, typed)?;
    match named.what() {
        None | Some(What::Socket) => {}
        Some(what) => return Err(flag.is_wrong(&named.path, what, "a path where nothing is yet")),
    }
    named.writable(flag, OsStr::new("."))?;
    let bound = format!("/proc/self/fd/{}/", named.parent.as_raw_fd());
    if bound.len() + named.name.len() > MAX_SUN_PATH {
        let refusal = flag.refusal("look at").path(&named.path);
        return Err(refusal.remedy("its name is too long for a socket: choose a shorter one"));
    }
    Ok(Listen::Unix {
        parent: named.parent,
        name: named.name.into(),
        path: named.path,
    })
}

/// The certificates of `--upstream-ca`, which the command may not have written.
pub(crate) fn certificates(
    ground: &Ground,
    typed: &Path,
) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    let (bytes, path) = contents(ground, UPSTREAM_CA, typed, MAX_CERTIFICATES)?;
    parse_pem(&bytes, &path)
}

/// The token of `--token-file`.
pub(crate) fn token(ground: &Ground, typed: &Path) -> Result<Token, Refusal> {
    let (bytes, path) = contents(ground, TOKEN_FILE, typed, MAX_TOKEN_FILE)?;
    let named = |refusal: Refusal| refusal.about(format!("{} {}", TOKEN_FILE.name, shown(&path)));
    Token::judge(&bytes).map_err(named)
}

/// What a regular file holds, and its canonical path.
fn contents(
    ground: &Ground,
    flag: Flag,
    typed: &Path,
    limit: usize,
) -> Result<(Zeroizing<Vec<u8>>, PathBuf), Refusal> {
    let found = flag.resolve(ground.cwd, typed)?;
    ground.own_choice(flag, &found.followed)?;
    ground.trusted(flag, &found.path)?;
    flag.takes_file(&found)?;
    Ok((read_whole(flag, &found, limit)?, found.path))
}

/// What a regular file holds, up to `limit` bytes.
pub(crate) fn read_whole(
    flag: Flag,
    found: &Resolved,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let failed = |errno: Errno| {
        flag.refusal("read")
            .path(&found.path)
            .errno(errno)
            .remedy("the caller can't read it: change its owner or mode")
    };
    let file = File::from(reopen(&found.fd, false).map_err(failed)?);
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(Errno::try_from(error).unwrap_or(Errno::EIO)))?;
    if bytes.len() > limit {
        let refusal = flag.refusal("read").path(&found.path);
        return Err(refusal.remedy(format!("it has more than {limit} bytes: name another file")));
    }
    Ok(bytes)
}

/// Opens for reading what is held (`O_PATH`): that very inode, whatever has its name
/// by now (proc_pid_fd(5)).
fn reopen(held: &OwnedFd, wait: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    flags.set(OFlag::O_NONBLOCK, !wait);
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    open(link.as_str(), flags, Mode::empty())
}

fn is_fifo(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO
}
