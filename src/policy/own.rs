//! The files that groom-ns itself reads and writes beside a run: a name in a folder that
//! is held. The command may neither see them nor have a say in which they are.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, fstat};
use nix::unistd::{AccessFlags, faccessat};
use zeroize::Zeroizing;

use super::grant::split_last;
use super::ground::Ground;
use super::kinds::{Filesystem, What, filesystem};
use super::paths::{Fault, Resolved, Start, resolve};
use super::reads::Reads;
use crate::refusal::{Reason, Refusal};

/// The flag that a file was given with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) reason: Reason,
}

/// `--profile`.
pub(crate) const PROFILE: Flag = Flag {
    name: "--profile",
    reason: Reason::Path,
};

impl Flag {
    pub(crate) fn refusal(self, verb: &str) -> Refusal {
        Refusal::new(self.reason, format!("{verb} {}", self.name))
    }

    pub(crate) fn unresolved(self, fault: &Fault) -> Refusal {
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

    pub(crate) fn is_wrong(self, path: &Path, what: What, wanted: &str) -> Refusal {
        self.refusal("look at").path(path).remedy(format!(
            "it is {}; {} takes {wanted}",
            what.name(),
            self.name
        ))
    }
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
pub(crate) fn reopen(held: &OwnedFd, wait: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    flags.set(OFlag::O_NONBLOCK, !wait);
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    open(link.as_str(), flags, Mode::empty())
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
pub(crate) struct Named {
    /// An `O_PATH` descriptor of the folder.
    pub(crate) parent: OwnedFd,
    pub(crate) name: OsString,
    /// The folder's canonical path with the name.
    pub(crate) path: PathBuf,
    /// An `O_PATH` descriptor of what is there.
    pub(crate) found: Option<(OwnedFd, FileStat)>,
}

impl Named {
    pub(crate) fn resolve(ground: &Ground, flag: Flag, typed: &Path) -> Result<Named, Refusal> {
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

    pub(crate) fn what(&self) -> Option<What> {
        self.found.as_ref().map(|(_, stat)| What::of(stat.st_mode))
    }

    /// Asked of the kernel for the caller (access(2)), so that a refusal comes before
    /// anything is made: `name` is this file's, or `.` for its folder.
    pub(crate) fn writable(&self, flag: Flag, name: &OsStr) -> Result<(), Refusal> {
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

/// Judges a log: a regular file or nothing, that nothing in the jail can see and
/// groom-ns doesn't read.
pub(crate) fn log(
    ground: &Ground,
    flag: Flag,
    typed: &Path,
    reads: impl FnOnce() -> Reads,
) -> Result<LogFile, Refusal> {
    let named = Named::resolve(ground, flag, typed)?;
    match named.what() {
        None | Some(What::File) => {}
        Some(what) => return Err(flag.is_wrong(&named.path, what, "a regular file")),
    }
    ground.unseen(flag, &named.path)?;
    if let Some((_, stat)) = &named.found {
        reads().refuse(flag.refusal("judge").path(&named.path), stat)?;
    }
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
