//! What lies in a covered `.git` and leads out of it. A cover keeps the command
//! from what it covers and from nothing else: a hook that is a link into the
//! worktree, or a configuration with a second name there, is as good as writable.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, fstat, fstatat};

use super::git::refusal;
use super::kinds::What;
use super::location::{Tree, join};
use super::paths::{Resolved, Start, trace};
use super::survey::{Bare, open_folder, told};
use crate::mountinfo::Mount;
use crate::refusal::Refusal;
use crate::sys::dirent::Batch;

/// The longest path, and a line end (limits.h).
pub(super) const PATH_MAX: u64 = 4096 + 2;
/// No list of alternates is this long.
pub(super) const ALTERNATES_MAX: u64 = 1 << 20;
/// How many lists git follows after the first (`link_alt_odb_entry`, object-file.c).
pub(super) const ALTERNATES_DEPTH: usize = 5;

/// Where a `.git` lies, and what around it is held in its place.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// The tree that is looked through: an `O_PATH` descriptor and its canonical path.
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) base: &'a Path,
    /// The clone, which is that tree or is linked to it.
    pub(crate) clone: &'a Path,
    /// The clone's own repository.
    pub(crate) own: &'a Path,
    pub(crate) table: &'a [Mount],
    /// The clone and the out-dir, made or not.
    pub(crate) writable: &'a [Tree],
    /// What is covered.
    pub(crate) gits: &'a [PathBuf],
    /// What can't be renamed, though written in.
    pub(crate) parents: &'a BTreeSet<PathBuf>,
}

/// A folder of a `.git`.
struct Folder {
    /// Relative to the tree.
    path: PathBuf,
    part: Part,
}

/// What matters in a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Everything: configuration, hooks, refs.
    Git,
    /// The top of an object store: what isn't an object.
    Store,
    /// Deeper in a store, as `objects/info`.
    InStore,
}

/// A file that git follows by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pointer {
    /// `commondir`: where configuration, hooks and objects are.
    Commondir,
    /// `objects/info/alternates`: where more objects are.
    Alternates,
    /// `.git`: git started in this folder would go there.
    Gitdir,
}

/// Walks one covered folder, `git`, relative to the tree; empty, it is all of it. A
/// gitdir file is judged elsewhere.
///
/// # Errors
/// `git`, naming what leads into a writable tree, or can't be looked at.
pub(crate) fn judge(around: &Around<'_>, git: &Path) -> Result<(), Refusal> {
    let mut pending = vec![Folder {
        path: git.to_owned(),
        part: Part::Git,
    }];
    while let Some(folder) = pending.pop() {
        let path = join(around.base, &folder.path);
        let dir = match open_folder(around.root, &folder.path) {
            Ok(dir) => dir,
            Err(Errno::ENOTDIR) if folder.path == git => return Ok(()),
            // git itself may tidy up meanwhile.
            Err(Errno::ENOENT) => continue,
            Err(errno) => return Err(unreadable(&path, errno)),
        };
        let entries = list(&dir).map_err(|errno| unreadable(&path, errno))?;
        let start = Start { dir, path };
        read_folder(around, git, &folder, &start, entries, &mut pending)?;
    }
    Ok(())
}

/// The entries of a folder, and what they are.
pub(super) fn list(dir: &OwnedFd) -> Result<Vec<(OsString, What)>, Errno> {
    let (mut batch, mut entries) = (Batch::default(), Vec::new());
    while batch.read(dir.as_fd())? {
        for entry in batch.entries() {
            let entry = entry?;
            let what = match told(entry) {
                Some(what) => what,
                None => match fstatat(dir, entry.name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                    Ok(stat) => What::of(stat.st_mode),
                    Err(Errno::ENOENT) => continue,
                    Err(errno) => return Err(errno),
                },
            };
            entries.push((OsString::from_vec(entry.name.to_bytes().to_vec()), what));
        }
    }
    Ok(entries)
}

fn read_folder(
    around: &Around<'_>,
    git: &Path,
    folder: &Folder,
    start: &Start,
    entries: Vec<(OsString, What)>,
    pending: &mut Vec<Folder>,
) -> Result<(), Refusal> {
    let mut bare = Bare::default();
    for (name, _) in &entries {
        bare.meet(name.as_bytes());
    }
    // Without a HEAD git takes no folder for a repository (`is_git_directory`),
    // and a branch may be called commondir.
    let is_git = bare.has_head() || folder.path == git;
    for (name, what) in entries {
        let pointer = pointer(folder, &name, is_git);
        match (what, pointer) {
            (What::Link, None) => link(around, start, &name)?,
            (What::Link, Some(_)) => return Err(leads_out(&start.path.join(name), None)),
            (What::Dir, _) => {
                let part = match folder.part {
                    Part::Store if holds_objects(&name) => continue,
                    Part::Store | Part::InStore => Part::InStore,
                    Part::Git if name == "objects" && (bare.is_whole() || is_lfs(folder)) => {
                        Part::Store
                    }
                    Part::Git => Part::Git,
                };
                let path = folder.path.join(name);
                pending.push(Folder { path, part });
            }
            (What::File, pointer) => {
                // Objects are hard links in a local clone, and named by their contents.
                if folder.part == Part::Git || pointer.is_some() {
                    hard_link(start, &name)?;
                }
                match pointer {
                    None => {}
                    Some(Pointer::Commondir) => commondir(around, git, start, &name)?,
                    Some(Pointer::Alternates) => alternates(around, start, &name)?,
                    Some(Pointer::Gitdir) => return Err(leads_out(&start.path.join(name), None)),
                }
            }
            (What::Socket | What::Special, _) => {}
        }
    }
    Ok(())
}

fn pointer(folder: &Folder, name: &OsStr, is_git: bool) -> Option<Pointer> {
    if is_git && name.eq_ignore_ascii_case("commondir") {
        Some(Pointer::Commondir)
    } else if name.eq_ignore_ascii_case("alternates") && folder.path.ends_with("objects/info") {
        Some(Pointer::Alternates)
    } else if name.eq_ignore_ascii_case(".git") {
        Some(Pointer::Gitdir)
    } else {
        None
    }
}

/// A folder of a store that holds nothing but objects, and thousands of them.
fn holds_objects(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name == b"pack" || (name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit))
}

/// git-lfs keeps its own store, of the same kind.
fn is_lfs(folder: &Folder) -> bool {
    folder.path.ends_with("lfs")
}

/// A symbolic link may lead to what is covered, or to where the command can't write.
fn link(around: &Around<'_>, start: &Start, name: &OsStr) -> Result<(), Refusal> {
    let path = start.path.join(name);
    match trace(start, Path::new(name)) {
        Ok(target) if around.is_firm(&target) => Ok(()),
        Ok(_) => Err(leads_out(&path, None)),
        Err(fault) => Err(leads_out(&path, Some(fault.errno))),
    }
}

fn hard_link(start: &Start, name: &OsStr) -> Result<(), Refusal> {
    let path = start.path.join(name);
    match fstatat(&start.dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => one_name(&path, &found),
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(unreadable(&path, errno)),
    }
}

/// Refuses a file with a second name: it may lie in the worktree, and writing
/// there writes here.
pub(super) fn one_name(path: &Path, stat: &FileStat) -> Result<(), Refusal> {
    if stat.st_nlink <= 1 {
        return Ok(());
    }
    Err(refusal(path).remedy(
        "it has another name (a hard link), which may be writable: copy it and move the copy to its place, or use --clone-mode ro",
    ))
}

/// `commondir`: one path, relative to its folder (gitrepository-layout(5)).
fn commondir(around: &Around<'_>, git: &Path, start: &Start, name: &OsStr) -> Result<(), Refusal> {
    let path = start.path.join(name);
    let text = read(start.dir.as_fd(), Path::new(name), PATH_MAX)
        .map_err(|errno| leads_out(&path, Some(errno)))?;
    let target =
        trace(start, path_of(&text)).map_err(|fault| leads_out(&path, Some(fault.errno)))?;
    let (own, here) = (around.own, join(around.base, git));
    let inside = target.path.starts_with(own) || target.path.starts_with(here);
    if inside && around.is_firm(&target) {
        return Ok(());
    }
    Err(leads_out(&path, None))
}

/// `objects/info/alternates` of a covered store.
fn alternates(around: &Around<'_>, start: &Start, name: &OsStr) -> Result<(), Refusal> {
    let path = start.path.join(name);
    let refuse = |errno| leads_out(&path, Some(errno));
    let text = read(start.dir.as_fd(), Path::new(name), ALTERNATES_MAX).map_err(refuse)?;
    let above = start.path.parent().unwrap_or(around.base);
    let dir = above
        .strip_prefix(around.base)
        .map_err(|_| Errno::EXDEV)
        .and_then(|path| open_folder(around.root, path))
        .map_err(refuse)?;
    let objects = Start {
        dir,
        path: above.to_owned(),
    };
    stores(around, &path, &objects, &text, ALTERNATES_DEPTH)
}

/// The stores that a list of alternates names: a path a line, relative to `objects`;
/// lines that begin with `#` are comments, with `"` quoted. A covered store is
/// walked as such; another's own list is followed here, as deep as git does.
fn stores(
    around: &Around<'_>,
    list: &Path,
    objects: &Start,
    text: &[u8],
    depth: usize,
) -> Result<(), Refusal> {
    let refuse = |errno| leads_out(list, errno);
    for line in text.split(|byte| *byte == b'\n') {
        match line.first() {
            None | Some(b'#') => continue,
            Some(b'"') => return Err(refuse(None)),
            Some(_) => {}
        }
        let target = trace(objects, Path::new(OsStr::from_bytes(line)))
            .map_err(|fault| refuse(Some(fault.errno)))?;
        if !around.is_firm(&target) {
            return Err(refuse(None));
        }
        if depth == 0 || around.is_covered(&target.path) {
            continue;
        }
        let next = Path::new("info/alternates");
        match read(target.fd.as_fd(), next, ALTERNATES_MAX) {
            Ok(text) => {
                let list = target.path.join(next);
                let store = Start {
                    dir: target.fd,
                    path: target.path,
                };
                stores(around, &list, &store, &text, depth - 1)?;
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(errno) => return Err(unreadable(&target.path.join(next), errno)),
        }
    }
    Ok(())
}

impl Around<'_> {
    /// Whether the command can change neither what lies at the end of a way, nor
    /// the way: `..` after a folder of the worktree leads elsewhere once the
    /// folder is a link.
    fn is_firm(&self, found: &Resolved) -> bool {
        let kept = |path: &PathBuf| self.is_covered(path) || !self.is_writable(path);
        let held = |path: &PathBuf| kept(path) || path == self.clone || self.parents.contains(path);
        found.passed.iter().all(held)
            && found.followed.iter().all(kept)
            && kept(&found.path)
            && !self.is_above(&found.path)
    }

    fn is_covered(&self, path: &Path) -> bool {
        self.gits.iter().any(|git| path.starts_with(git))
    }

    pub(super) fn is_writable(&self, path: &Path) -> bool {
        let mut trees = self.writable.iter();
        trees.any(|tree| tree.holds(self.table, path))
    }

    fn is_above(&self, path: &Path) -> bool {
        let mut trees = self.writable.iter();
        trees.any(|tree| tree.lies_in(self.table, path))
    }
}

fn leads_out(path: &Path, errno: Option<Errno>) -> Refusal {
    let refusal = refusal(path).remedy(
        "it leads to where .git's cover doesn't reach, or nowhere: put the real file there or remove it, or use --clone-mode ro",
    );
    match errno {
        Some(errno) => refusal.errno(errno),
        None => refusal,
    }
}

fn unreadable(path: &Path, errno: Errno) -> Refusal {
    refusal(path)
        .errno(errno)
        .remedy("what lies there can't be known: make it readable, or use --clone-mode ro")
}

/// A path as git takes it from a file: all of it, but for line ends.
pub(super) fn path_of(text: &[u8]) -> &Path {
    let is_end = |byte: &u8| *byte == b'\n' || *byte == b'\r';
    let end = text.iter().rposition(|byte| !is_end(byte));
    Path::new(OsStr::from_bytes(&text[..end.map_or(0, |last| last + 1)]))
}

/// A small regular file's bytes. EFBIG where it has more than `max`, EINVAL where it
/// is something else.
pub(super) fn read(dir: BorrowedFd<'_>, path: &Path, max: u64) -> Result<Vec<u8>, Errno> {
    // O_NONBLOCK: by now it may be a FIFO.
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
    let file = openat2(dir, path, how)?;
    if What::of(fstat(&file)?.st_mode) != What::File {
        return Err(Errno::EINVAL);
    }
    let mut text = Vec::new();
    let count = File::from(file)
        .take(max + 1)
        .read_to_end(&mut text)
        .map_err(|error| Errno::try_from(error).unwrap_or(Errno::EIO))?;
    if u64::try_from(count).is_ok_and(|count| count <= max) {
        Ok(text)
    } else {
        Err(Errno::EFBIG)
    }
}
