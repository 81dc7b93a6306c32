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
        Ok(fd) => Resolved::checked(fd, clean(&absolute), None, Vec::new()),
        Err(Errno::ELOOP) => Walk::new(dir, base, typed)?.finish(typed, &absolute),
        Err(errno) => Err(Fault::of(errno, typed)),
    }
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
        followed: Vec<PathBuf>,
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
            followed,
            fd,
            stat,
        })
    }
}

/// A walk that stands somewhere.
struct Walk {
    /// Where it stands; not a symbolic link.
    here: OwnedFd,
    /// The canonical path of `here`.
    path: PathBuf,
    /// What is left to walk, and whether it was typed or came out of a link.
    left: VecDeque<(OsString, bool)>,
    followed: Vec<PathBuf>,
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
            followed: Vec::new(),
            lexical: true,
        })
    }

    fn finish(mut self, typed: &Path, absolute: &Path) -> Result<Resolved, Fault> {
        while let Some((name, was_typed)) = self.left.pop_front() {
            self.step(&name, was_typed)
                .map_err(|errno| Fault::of(errno, &self.path.join(&name)))?;
        }
        let alias = clean(absolute);
        if self.path == alias && self.followed.is_empty() {
            // The first look met a link and the second none.
            return Err(Fault::moved(typed));
        }
        let alias = (self.lexical && alias != self.path).then_some(alias);
        Resolved::checked(self.here, self.path, alias, self.followed)
    }

    fn step(&mut self, name: &OsStr, was_typed: bool) -> Result<(), Errno> {
        match name.as_bytes() {
            b"." => self.here = openat(&self.here, ".", O_DIR, Mode::empty())?,
            b".." => {
                self.here = openat(&self.here, "..", O_DIR, Mode::empty())?;
                self.path.pop();
                self.lexical &= !was_typed || self.followed.is_empty();
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
        if self.followed.len() == MAX_LINKS {
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
        self.followed.push(self.path.join(name));
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
    fn of(errno: Errno, at: &Path) -> Fault {
        let remedy = match errno {
            Errno::ENOENT => "check the path: it isn't there",
            Errno::EACCES => {
                "a folder on the way, or somebody else's link in a shared one, may not be passed"
            }
            Errno::ELOOP => "too many symbolic links: give the path that they lead to",
            Errno::ENOTDIR => "something on the way isn't a folder",
            Errno::EINVAL => "a path has no NUL byte",
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
mod tests {
    use super::*;
    use crate::policy::testing::{TempDir, held};

    #[allow(clippy::unnecessary_wraps)] // as `resolve` takes it
    fn at(temp: &TempDir) -> Result<Start, Errno> {
        Ok(Start {
            dir: held(temp.path()),
            path: temp.path().to_owned(),
        })
    }

    /// a/b/f is a file; l → a/b; deep → l; up → ../<temp>/a; loop → loop; gone → nowhere.
    fn tree() -> TempDir {
        let temp = TempDir::new();
        temp.file("a/b/f", "");
        temp.link("l", "a/b");
        temp.link("deep", "l/");
        temp.link("loop", "loop");
        temp.link("gone", "nowhere");
        let abs = temp.at("a");
        temp.link("abs", abs);
        temp
    }

    #[test]
    fn canonical_paths_and_aliases() {
        let temp = tree();
        let cwd = at(&temp);
        for (typed, path, alias, links) in [
            ("a/b", "a/b", None, &[][..]),
            (".", "", None, &[]),
            ("./a//b/../b/", "a/b", None, &[]),
            ("l", "a/b", Some("l"), &["l"]),
            ("l/f", "a/b/f", Some("l/f"), &["l"]),
            ("deep", "a/b", Some("deep"), &["deep", "l"]),
            ("a/../deep/f", "a/b/f", Some("deep/f"), &["deep", "l"]),
            ("l/..", "a", None, &["l"]),
            ("abs/b/", "a/b", Some("abs/b"), &["abs"]),
        ] {
            for typed in [PathBuf::from(typed), temp.path().join(typed)] {
                let found = resolve(&cwd, &typed).unwrap_or_else(|f| panic!("{typed:?}: {f:?}"));
                assert_eq!(found.path, clean(&temp.at(path)), "{typed:?}");
                assert_eq!(found.alias, alias.map(|name| temp.at(name)), "{typed:?}");
                let links: Vec<PathBuf> = links.iter().map(|link| temp.at(link)).collect();
                assert_eq!(found.followed, links, "{typed:?}");
            }
        }
    }

    #[test]
    fn faults() {
        let temp = tree();
        let cwd = at(&temp);
        for (typed, errno) in [
            ("", Errno::ENOENT),
            ("nowhere", Errno::ENOENT),
            ("gone", Errno::ENOENT),
            ("loop", Errno::ELOOP),
            ("a/b/f/", Errno::ENOTDIR),
            ("l/f/", Errno::ENOTDIR),
            ("l/f/x", Errno::ENOTDIR),
            ("a\0b", Errno::EINVAL),
        ] {
            let fault = resolve(&cwd, Path::new(typed)).err().expect(typed);
            assert_eq!(fault.errno, errno, "{typed:?}");
        }
    }

    #[test]
    fn without_a_current_folder() {
        let temp = tree();
        let cwd = Err(Errno::ENOENT);
        assert!(resolve(&cwd, &temp.at("l")).is_ok());
        let fault = resolve(&cwd, Path::new("l")).err().expect("fault");
        assert!(fault.remedy.contains("current folder"));
    }

    #[test]
    fn parents_that_can_only_be_searched() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp = tree();
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(temp.at("a"), mode(0o111)).expect("chmod");
        let found = resolve(&at(&temp), Path::new("l/f"));
        std::fs::set_permissions(temp.at("a"), mode(0o755)).expect("chmod");
        assert_eq!(found.expect("found").path, temp.at("a/b/f"));
    }
}
