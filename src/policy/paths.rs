//! From a path as it was typed to a canonical one whose inode is held open.
//!
//! The kernel is asked first for a resolution without any symbolic link; only if
//! there is one on the way are the components walked one by one, so that the
//! place of every link is known. Everything is opened with `O_PATH`, for which
//! search permission on the parents is enough.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat};

use super::kinds::{What, inode};

/// How many links are followed at most: the kernel's own limit (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Where relative paths begin.
pub(crate) struct Start {
    /// An `O_PATH` descriptor of the folder.
    pub(crate) dir: OwnedFd,
    /// Its canonical path.
    pub(crate) path: PathBuf,
}

impl Start {
    /// The current folder; ENOENT if it was removed, or lies outside the root.
    pub(crate) fn here() -> Result<Start, Errno> {
        let path = nix::unistd::getcwd()?;
        // The kernel says "(unreachable)/…" for a folder outside the root.
        if !path.is_absolute() {
            return Err(Errno::ENOENT);
        }
        let dir = openat(AT_FDCWD, ".", O_DIR, Mode::empty())?;
        Ok(Start { dir, path })
    }
}

/// A path that exists.
pub(crate) struct Resolved {
    /// Free of symbolic links, `.`, `..` and double slashes.
    pub(crate) path: PathBuf,
    /// The absolute path as it was typed, where a symbolic link made it differ.
    pub(crate) alias: Option<PathBuf>,
    /// Where the symbolic links lay that were followed, in order.
    pub(crate) followed: Vec<PathBuf>,
    /// Where a walk by hand stood after each component, its end included.
    pub(crate) passed: Vec<PathBuf>,
    /// An `O_PATH` descriptor of what `path` names.
    pub(crate) fd: OwnedFd,
    /// What it is.
    pub(crate) stat: FileStat,
}

/// Why a path doesn't resolve.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The kernel's answer, or the errno that it would have given.
    pub(crate) errno: Errno,
    /// How far it went.
    pub(crate) at: PathBuf,
    /// What to do about it.
    pub(crate) remedy: &'static str,
}

const O_NODE: OFlag = OFlag::O_PATH
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
const O_DIR: OFlag = O_NODE.union(OFlag::O_DIRECTORY);

/// Resolves `typed`. A relative path needs a current folder, an absolute doesn't.
pub(crate) fn resolve(cwd: &Result<Start, Errno>, typed: &Path) -> Result<Resolved, Fault> {
    let fault = |errno| Fault::of(errno, typed);
    let bytes = typed.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(fault(Errno::ENOENT));
    }
    if bytes.contains(&0) {
        return Err(fault(Errno::EINVAL));
    }
    if typed.is_absolute() {
        return resolve_from(AT_FDCWD, Path::new("/"), typed);
    }
    match cwd {
        Ok(start) => resolve_from(start.dir.as_fd(), &start.path, typed),
        Err(errno) => Err(Fault {
            errno: *errno,
            at: typed.to_owned(),
            remedy: "the current folder is gone: change to one that exists, or give absolute paths",
        }),
    }
}

fn resolve_from(dir: BorrowedFd<'_>, base: &Path, typed: &Path) -> Result<Resolved, Fault> {
    let absolute = base.join(typed);
    match open_without_links(dir, typed) {
        // No link on the way, so `..` means what it says.
        Ok(fd) => Resolved::checked(fd, clean(&absolute), None, Walked::default()),
        Err(Errno::ELOOP) => match Walk::new(dir, base, typed)?.finish(&absolute)? {
            // The first look met a link and the second none.
            found if found.followed.is_empty() => Err(Fault::moved(typed)),
            found => Ok(found),
        },
        Err(errno) => Err(Fault::of(errno, typed)),
    }
}

/// Resolves by hand in any case, for whoever must know every place on the way.
pub(crate) fn trace(start: &Start, path: &Path) -> Result<Resolved, Fault> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(Fault::of(Errno::EINVAL, path));
    }
    let base = if path.is_absolute() {
        Path::new("/")
    } else {
        &start.path
    };
    Walk::new(start.dir.as_fd(), base, path)?.finish(&base.join(path))
}

/// Opens `path` with `O_PATH` if no component of it is a symbolic link
/// (`RESOLVE_NO_SYMLINKS`, openat2(2)); ELOOP otherwise.
pub(crate) fn open_without_links(dir: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    // Not with O_NOFOLLOW: beside O_PATH it would hand out a last link itself.
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(dir, path, how)
}

impl Resolved {
    /// The canonical path must lead to the same inode again: between two looks
    /// somebody may have moved a folder.
    fn checked(
        fd: OwnedFd,
        path: PathBuf,
        alias: Option<PathBuf>,
        walked: Walked,
    ) -> Result<Resolved, Fault> {
        let stat = fstat(&fd).map_err(|errno| Fault::of(errno, &path))?;
        let again = open_without_links(AT_FDCWD, &path)
            .and_then(fstat)
            .map_err(|errno| match errno {
                // A link, or nothing, where there was a folder a moment ago.
                Errno::ELOOP | Errno::ENOENT | Errno::ENOTDIR => Fault::moved(&path),
                _ => Fault::of(errno, &path),
            })?;
        if inode(&again) != inode(&stat) {
            return Err(Fault::moved(&path));
        }
        Ok(Resolved {
            path,
            alias,
            followed: walked.followed,
            passed: walked.passed,
            fd,
            stat,
        })
    }
}

/// What a walk by hand came by; empty if there was none.
#[derive(Default)]
struct Walked {
    followed: Vec<PathBuf>,
    passed: Vec<PathBuf>,
}

/// A walk that stands somewhere.
struct Walk {
    /// Where it stands; not a symbolic link.
    here: OwnedFd,
    /// The canonical path of `here`.
    path: PathBuf,
    /// What is left to walk, and whether it was typed or came out of a link.
    left: VecDeque<(OsString, bool)>,
    walked: Walked,
    /// No typed `..` came after a link, so the typed path can be cleaned
    /// without asking the filesystem.
    lexical: bool,
}

impl Walk {
    fn new(dir: BorrowedFd<'_>, base: &Path, typed: &Path) -> Result<Walk, Fault> {
        // `base` is "/" for an absolute path; `dir` is ignored for it then.
        let start = if typed.is_absolute() { "/" } else { "." };
        let here =
            openat(dir, start, O_DIR, Mode::empty()).map_err(|errno| Fault::of(errno, base))?;
        Ok(Walk {
            here,
            path: base.to_owned(),
            left: split(typed.as_os_str(), true),
            walked: Walked::default(),
            lexical: true,
        })
    }

    fn finish(mut self, absolute: &Path) -> Result<Resolved, Fault> {
        while let Some((name, was_typed)) = self.left.pop_front() {
            self.step(&name, was_typed)
                .map_err(|errno| Fault::of(errno, &self.path.join(&name)))?;
            self.walked.passed.push(self.path.clone());
        }
        let alias = clean(absolute);
        let alias = (self.lexical && alias != self.path).then_some(alias);
        Resolved::checked(self.here, self.path, alias, self.walked)
    }

    fn step(&mut self, name: &OsStr, was_typed: bool) -> Result<(), Errno> {
        match name.as_bytes() {
            b"." => self.here = openat(&self.here, ".", O_DIR, Mode::empty())?,
            b".." => {
                self.here = openat(&self.here, "..", O_DIR, Mode::empty())?;
                self.path.pop();
                self.lexical &= !was_typed || self.walked.followed.is_empty();
            }
            _ => {
                let next = openat(&self.here, name, O_NODE, Mode::empty())?;
                let stat = fstat(&next)?;
                if What::of(stat.st_mode) == What::Link {
                    return self.follow(name, &next, &stat);
                }
                self.here = next;
                self.path.push(name);
            }
        }
        Ok(())
    }

    fn follow(&mut self, name: &OsStr, link: &OwnedFd, stat: &FileStat) -> Result<(), Errno> {
        if self.walked.followed.len() == MAX_LINKS {
            return Err(Errno::ELOOP);
        }
        // As fs.protected_symlinks (proc_sys_fs(5)) has it, which a walk by hand
        // would else get around: in a folder like /tmp, nobody else's link.
        let folder = fstat(&self.here)?;
        let shared = Mode::S_ISVTX | Mode::S_IWOTH;
        if Mode::from_bits_truncate(folder.st_mode).contains(shared)
            && stat.st_uid != nix::unistd::geteuid().as_raw()
            && stat.st_uid != folder.st_uid
        {
            return Err(Errno::EACCES);
        }
        let target = readlinkat(link, "")?;
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.walked.followed.push(self.path.join(name));
        if target.as_bytes().starts_with(b"/") {
            self.here = openat(AT_FDCWD, "/", O_DIR, Mode::empty())?;
            self.path = PathBuf::from("/");
        }
        let mut left = split(&target, false);
        left.append(&mut self.left);
        self.left = left;
        Ok(())
    }
}

/// The components of a path; a trailing slash is a `.`, since what comes before
/// it must be a folder.
fn split(path: &OsStr, typed: bool) -> VecDeque<(OsString, bool)> {
    let bytes = path.as_bytes();
    let mut parts: VecDeque<_> = bytes
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .map(|part| (OsString::from_vec(part.to_vec()), typed))
        .collect();
    if bytes.ends_with(b"/") {
        parts.push_back((OsString::from("."), typed));
    }
    parts
}

/// An absolute path without `.`, `..` and double slashes, by its text alone.
pub(crate) fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    out
}

impl Fault {
    /// With the remedy that the errno tells.
    pub(crate) fn of(errno: Errno, at: &Path) -> Fault {
        let remedy = match errno {
            Errno::ENOENT => "check the path: it isn't there",
            Errno::EACCES => {
                "a folder on the way, or somebody else's link in a shared one, may not be passed"
            }
            Errno::ELOOP => "too many symbolic links: give the path that they lead to",
            Errno::ENOTDIR => "something on the way isn't a folder",
            Errno::EINVAL => "a path has no NUL byte",
            Errno::ENOSYS => {
                "openat2(2) is hidden by an outer sandbox, as groom-ns hides it: run groom-ns outside of it"
            }
            _ => "check the path",
        };
        Fault {
            errno,
            at: at.to_owned(),
            remedy,
        }
    }

    fn moved(at: &Path) -> Fault {
        Fault {
            errno: Errno::ESTALE,
            at: at.to_owned(),
            remedy: "the path changed while it was looked at: stop whatever moves it",
        }
    }
}

#[cfg(test)]
mod tests;
