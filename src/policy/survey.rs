//! One walk over a granted tree, for all that must be known of its contents.
//!
//! The tree may be large and hostile: no recursion, one descriptor at a time, no
//! symbolic link followed, and the type of an entry is taken from the directory
//! itself wherever the filesystem tells it.

use std::ffi::{CStr, OsStr};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, fstat, fstatat};

use super::kinds::What;
use super::paths::open_without_links;
use crate::sys::dirent::{Batch, Entry};
use crate::sys::xattr::has_capabilities;

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Entries named `.git`, in any case: some filesystems make no difference; and
    /// bare repositories, but for the tree itself. Not beneath one.
    pub(crate) gits: bool,
    /// UNIX sockets.
    pub(crate) sockets: bool,
    /// Entries of another owner than this one.
    pub(crate) foreign_to: Option<u32>,
    /// Programs that run with more than their caller has, where owners are looked at.
    pub(crate) privileged: bool,
    /// The owner on disk whose files the command may chmod.
    pub(crate) command: u32,
}

impl Ask {
    /// Whether there is anything to walk for.
    pub(crate) fn is_empty(&self) -> bool {
        !self.gits && !self.sockets && self.foreign_to.is_none()
    }
}

/// What was found, as paths relative to the tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Entries named `.git`, and bare repositories.
    pub(crate) gits: Vec<PathBuf>,
    pub(crate) sockets: Vec<PathBuf>,
    /// The first entry of another owner; the walk ends there.
    pub(crate) foreign: Option<PathBuf>,
    /// The first such program; the walk ends there.
    pub(crate) privileged: Option<PathBuf>,
    /// Folders that couldn't be read, but that the command could make readable.
    pub(crate) closed: Vec<(PathBuf, Errno)>,
}

/// A folder yet to be read.
struct Pending {
    path: PathBuf,
    inside: bool,
}

/// Walks the tree at `root`, an `O_PATH` descriptor of a directory. Whatever
/// vanishes meanwhile is passed over.
pub(crate) fn walk(root: BorrowedFd<'_>, ask: &Ask) -> Found {
    let mut walk = Walk {
        ask,
        found: Found::default(),
        pending: vec![Pending {
            path: PathBuf::new(),
            inside: false,
        }],
    };
    let mut batch = Batch::default();
    while let Some(folder) = walk.pending.pop() {
        let read =
            open_folder(root, &folder.path).and_then(|fd| walk.read(&fd, &mut batch, &folder));
        match read {
            Ok(ControlFlow::Continue(())) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(Errno::EACCES) if !could_be_opened(root, &folder.path, ask.command) => {}
            Err(errno) => walk.found.closed.push((folder.path, errno)),
        }
    }
    let mut found = walk.found;
    found.gits.sort();
    found.sockets.sort();
    found
}

/// What a walk has found, and has yet to read.
struct Walk<'a> {
    ask: &'a Ask,
    found: Found,
    pending: Vec<Pending>,
}

impl Walk<'_> {
    /// One folder. It breaks off at what ends the walk.
    fn read(
        &mut self,
        fd: &OwnedFd,
        batch: &mut Batch,
        folder: &Pending,
    ) -> Result<ControlFlow<()>, Errno> {
        let (gits, below) = (self.found.gits.len(), self.pending.len());
        let mut bare = Bare::default();
        while batch.read(fd.as_fd())? {
            for entry in batch.entries() {
                let entry = entry?;
                bare.meet(entry.name.to_bytes());
                let Some(seen) = look(fd.as_fd(), entry, self.ask)? else {
                    continue;
                };
                if self.meet(entry.name, &seen, folder).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        let is_root = folder.path.as_os_str().is_empty();
        if self.ask.gits && bare.is_whole() && !folder.inside && !is_root {
            // All of it is git's, so what was met in it isn't a find of its own.
            self.found.gits.truncate(gits);
            self.found.gits.push(folder.path.clone());
            self.enclose(below);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What one entry is to the walk.
    fn meet(&mut self, name: &CStr, seen: &Seen, folder: &Pending) -> ControlFlow<()> {
        let (ask, name) = (self.ask, name.to_bytes());
        let is_git = !folder.inside && name.eq_ignore_ascii_case(b".git");
        let is_socket = seen.what == What::Socket && ask.sockets;
        // Beneath a `.git` there is nothing more of git's to find.
        let inside = folder.inside || is_git;
        let enter = seen.what == What::Dir && (!inside || ask.sockets || ask.foreign_to.is_some());
        if !(seen.foreign || seen.privileged || is_git || is_socket || enter) {
            return ControlFlow::Continue(());
        }
        let path = folder.path.join(OsStr::from_bytes(name));
        if seen.foreign {
            self.found.foreign = Some(path);
            return ControlFlow::Break(());
        }
        if seen.privileged {
            self.found.privileged = Some(path);
            return ControlFlow::Break(());
        }
        if is_git && ask.gits {
            self.found.gits.push(path.clone());
        }
        if is_socket {
            self.found.sockets.push(path.clone());
        }
        if enter {
            self.pending.push(Pending { path, inside });
        }
        ControlFlow::Continue(())
    }

    /// What is pending from `first` on lies in a repository.
    fn enclose(&mut self, first: usize) {
        if !self.ask.sockets && self.ask.foreign_to.is_none() {
            self.pending.truncate(first);
        }
        for folder in self.pending.iter_mut().skip(first) {
            folder.inside = true;
        }
    }
}

/// What git takes for a repository, whatever its name: a folder with a HEAD, and
/// with the other two or a commondir that says where they are
/// (`is_git_directory` in git's setup.c).
#[derive(Clone, Copy, Default)]
pub(super) struct Bare {
    /// Which of [`Bare::NAMES`] were met.
    met: [bool; 4],
}

impl Bare {
    const NAMES: [&[u8]; 4] = [b"HEAD", b"objects", b"refs", b"commondir"];

    pub(super) fn meet(&mut self, name: &[u8]) {
        for (met, known) in self.met.iter_mut().zip(Self::NAMES) {
            *met |= name.eq_ignore_ascii_case(known);
        }
    }

    pub(super) fn has_head(self) -> bool {
        self.met[0]
    }

    pub(super) fn is_whole(self) -> bool {
        let [head, objects, refs, commondir] = self.met;
        head && ((objects && refs) || commondir)
    }
}

/// What the directory itself says that an entry is.
pub(super) fn told(entry: Entry<'_>) -> Option<What> {
    Some(match entry.d_type {
        libc::DT_UNKNOWN => return None,
        libc::DT_DIR => What::Dir,
        libc::DT_SOCK => What::Socket,
        libc::DT_REG => What::File,
        libc::DT_LNK => What::Link,
        _ => What::Special,
    })
}

/// What is to be known of an entry.
struct Seen {
    what: What,
    foreign: bool,
    privileged: bool,
}

/// None if it vanished.
fn look(dir: BorrowedFd<'_>, entry: Entry<'_>, ask: &Ask) -> Result<Option<Seen>, Errno> {
    if let (Some(what), None) = (told(entry), ask.foreign_to) {
        return Ok(Some(Seen {
            what,
            foreign: false,
            privileged: false,
        }));
    }
    let name = entry.name;
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Seen {
            what: What::of(stat.st_mode),
            foreign: ask.foreign_to.is_some_and(|owner| stat.st_uid != owner),
            privileged: ask.privileged && is_privileged(dir, name, stat.st_mode),
        })),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether executing a file gives rights (inode(7), capabilities(7)), or would with
/// an execute bit, which its owner can set: chmod(2) with the set-group-id bit is
/// denied in the jail, but an ACL with it isn't.
fn is_privileged(dir: BorrowedFd<'_>, name: &CStr, mode: u32) -> bool {
    let bits = Mode::from_bits_truncate(mode);
    What::of(mode) == What::File
        && (bits.intersects(Mode::S_ISUID | Mode::S_ISGID) || has_capabilities(dir, name))
}

/// By its path from the tree's root, so that no chain of descriptors is held.
pub(super) fn open_folder(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
    openat2(root, or_dot(path), how)
}

fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// Whether the command may chmod what keeps a folder from being read: the folder,
/// or the nearest one above it that can be looked at.
fn could_be_opened(root: BorrowedFd<'_>, path: &Path, command: u32) -> bool {
    path.ancestors()
        .find_map(|at| open_without_links(root, or_dot(at)).and_then(fstat).ok())
        .is_none_or(|stat| stat.st_uid == command)
}

#[cfg(test)]
mod tests;
