//! `--git-worktree`: from a clone's gitdir file to the repository that it is linked to.
//!
//! The file is the clone's word, and the command of an earlier run may have written the
//! clone. So it names nothing by itself: the repository must know this worktree, from
//! a place that no command can write, and be its owner's.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstatat};

use super::git::{Astray, DOT_GIT, follow};
use super::git_dir::{PATH_MAX, list, path_of, read};
use super::gitdir;
use super::grant::{Candidate, Role, found};
use super::kinds::{What, inode};
use super::location::Tree;
use super::paths::{Resolved, Start, open_without_links, resolve};
use super::survey::open_folder;
use crate::mountinfo::Mount;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};

/// The repository's folder of what it knows of its worktrees.
const WORKTREES: &str = "worktrees";
/// No repository has more.
const WORKTREES_MAX: usize = 4096;
/// What makes a folder a repository (`is_git_directory` in git's setup.c).
pub(super) const REPOSITORY: [&str; 3] = ["HEAD", "objects", "refs"];

/// A clone that may be a linked worktree, and what isn't believed about it.
struct Worktree<'a> {
    clone: &'a Candidate,
    /// The clone's gitdir file.
    file: PathBuf,
    stat: FileStat,
    table: &'a [Mount],
    /// Trees that the command writes, or has written in an earlier run.
    untrusted: Vec<Tree>,
}

/// The git folder and the common folder of the repository that a clone is linked to
/// (gitrepository-layout(5), git-worktree(1)); none where the clone's `.git` is no
/// file, and so nothing more is needed. Nothing but these is opened of what the file names.
///
/// # Errors
/// `git` where the file leads to anything but the folder of this worktree in its
/// repository; `owner` where that is somebody else's.
pub(crate) fn repository(
    clone: &Candidate,
    out_dir: Option<&Path>,
    table: &[Mount],
) -> Result<Option<[Candidate; 2]>, Refusal> {
    let file = clone.granted.path.join(DOT_GIT);
    let stat = match fstatat(&clone.fd, DOT_GIT, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) if What::of(stat.st_mode) == What::File => stat,
        Ok(_) | Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(refusal(&file, errno)),
    };
    let trees = std::iter::once(clone.granted.path.as_path()).chain(out_dir);
    let worktree = Worktree {
        clone,
        file,
        stat,
        table,
        untrusted: trees.map(|tree| Tree::of(table, tree)).collect(),
    };
    let git_dir = worktree.git_dir()?;
    let common = worktree.common_dir(&git_dir)?;
    worktree.is_known_to(&git_dir)?;
    worktree.is_of_one_owner(&git_dir, &common)?;
    worktree.is_shown_alone(&common)?;
    Ok(Some([git_dir, common]))
}

fn refusal(path: impl AsRef<Path>, errno: impl Into<Option<Errno>>) -> Refusal {
    let refusal = Refusal::new(Reason::Git, "judge --git-worktree").path(path);
    match errno.into() {
        Some(errno) => refusal.errno(errno),
        None => refusal,
    }
}

impl Worktree<'_> {
    /// What the file names: a folder where no command can have written.
    fn git_dir(&self) -> Result<Candidate, Refusal> {
        let clone = &self.clone.granted.path;
        let target = follow(self.clone.fd.as_fd(), clone, Path::new(DOT_GIT));
        let target = target.map_err(|astray| match astray {
            Astray::Unreadable(errno) => refusal(&self.file, errno)
                .remedy("it is no gitdir file that can be read: use a full clone"),
            Astray::NoGitdir => refusal(&self.file, None)
                .remedy("it doesn't begin with `gitdir: `, so it is no gitdir file: use a full clone"),
            Astray::Bent => refusal(&self.file, None)
                .remedy("the path in it goes down into a folder and up again: `git worktree repair` writes a plain one"),
            Astray::Nowhere(fault) => refusal(&self.file, fault.errno)
                .remedy("what it names isn't there or can't be reached: `git worktree repair` if it was moved, else add the worktree again"),
        })?;
        let is_apart = self.is_trusted(&target) && !self.is_untrusted(&target.path);
        if !is_apart && stands(Mechanism::WorktreeApart) {
            return Err(refusal(&self.file, None).remedy(
                "it leads through the clone or the out-dir, where a command may have written: use a full clone",
            ));
        }
        found(Role::GitDir, target)
    }

    /// The repository: what holds the git folder among its worktrees, and is what that
    /// calls its common folder.
    fn common_dir(&self, git_dir: &Candidate) -> Result<Candidate, Refusal> {
        let path = &git_dir.granted.path;
        let refuse = |errno: Option<Errno>| refusal(path, errno).remedy(gitdir::other_way(git_dir));
        let common = named_in(git_dir, "commondir").map_err(|errno| refuse(Some(errno)))?;
        let worktrees = common.path.join(WORKTREES);
        if path.parent() != Some(&worktrees) || !self.is_trusted(&common) {
            return Err(refuse(None));
        }
        for name in REPOSITORY {
            fstatat(&common.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW)
                .map_err(|errno| refuse(Some(errno)))?;
        }
        found(Role::CommonDir, common)
    }

    /// The repository's own word: its folder for this worktree names the very file that
    /// names it. Only `git worktree` writes that.
    fn is_known_to(&self, git_dir: &Candidate) -> Result<(), Refusal> {
        if !stands(Mechanism::WorktreePointsBack) {
            return Ok(());
        }
        let refuse = |errno: Option<Errno>| {
            refusal(git_dir.granted.path.join("gitdir"), errno).remedy(
                "it doesn't name this clone's .git: `git worktree repair` in the clone if it was moved; else its .git names somebody else's repository",
            )
        };
        let back = named_in(git_dir, "gitdir").map_err(|errno| refuse(Some(errno)))?;
        let is_file = back.path == self.file && inode(&back.stat) == inode(&self.stat);
        if is_file && self.is_trusted(&back) {
            Ok(())
        } else {
            Err(refuse(None))
        }
    }

    /// As root the command is the clone's owner, to whom the folders would be shown as
    /// their own. And who can make a repository can point back at any worktree.
    fn is_of_one_owner(&self, git_dir: &Candidate, common: &Candidate) -> Result<(), Refusal> {
        let owner = self.clone.granted.owner.uid;
        let files = ["commondir", "gitdir"].map(|name| {
            let stat = fstatat(&git_dir.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW);
            stat.map(|stat| (git_dir.granted.path.join(name), stat.st_uid))
        });
        let folders = [git_dir, common]
            .map(|found| Ok((found.granted.path.clone(), found.granted.owner.uid)));
        let file = Ok((self.file.clone(), self.stat.st_uid));
        for owned in folders.into_iter().chain(files).chain([file]) {
            let (path, uid) = owned.map_err(|errno| refusal(&git_dir.granted.path, errno))?;
            if uid != owner && stands(Mechanism::WorktreeOwner) {
                return Err(
                    Refusal::new(Reason::Owner, "judge --git-worktree").path(path).remedy(format!(
                        "it is uid {uid}'s and the clone uid {owner}'s: chown it, or use a full clone"
                    )),
                );
            }
        }
        Ok(())
    }

    /// No other worktree lies in the repository, as it may in a bare one's folder: it would
    /// be shown with that, untracked files and all.
    fn is_shown_alone(&self, common: &Candidate) -> Result<(), Refusal> {
        let worktrees = common.granted.path.join(WORKTREES);
        let unknown = |errno: Errno| {
            refusal(&worktrees, errno).remedy(
                "which worktrees there are can't be known: look with `git worktree list`, and repair or prune them",
            )
        };
        let folder = open_folder(common.fd.as_fd(), Path::new(WORKTREES)).map_err(unknown)?;
        let entries = list(&folder).map_err(unknown)?;
        if entries.len() > WORKTREES_MAX {
            return Err(unknown(Errno::E2BIG));
        }
        let tree = Tree::of(self.table, &common.granted.path);
        for (name, _) in entries {
            let other = self
                .other(&folder, &worktrees.join(name))
                .map_err(unknown)?;
            let shown = other.filter(|other| tree.holds(self.table, other));
            if let Some(other) = shown
                && stands(Mechanism::WorktreeAlone)
            {
                return Err(refusal(other, None).remedy(
                    "another worktree lies in the repository, and would be shown with it: move it out with `git worktree move`",
                ));
            }
        }
        Ok(())
    }

    /// The folder of another worktree that the repository knows at `path`, where it is
    /// there and the caller could look into it, and so the command.
    fn other(&self, worktrees: &OwnedFd, path: &Path) -> Result<Option<PathBuf>, Errno> {
        let name = Path::new(path.file_name().unwrap_or_default());
        let known = match open_without_links(worktrees.as_fd(), name) {
            Ok(dir) => read(dir.as_fd(), Path::new("gitdir"), PATH_MAX).map(|text| (dir, text)),
            Err(errno) => Err(errno),
        };
        let (dir, text) = match known {
            Ok(known) => known,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let start = Start {
            dir,
            path: path.to_owned(),
        };
        // Its own .git may be gone while the rest is there.
        let folder = path_of(&text).parent().unwrap_or(Path::new("/"));
        match resolve(&Ok(start), folder) {
            Ok(found) => {
                let is_own = found.path.starts_with(&self.clone.granted.path);
                Ok((!is_own).then_some(found.path))
            }
            Err(fault) => match fault.errno {
                Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES => Ok(None),
                errno => Err(errno),
            },
        }
    }

    /// Whether no link on the way was the command's to turn.
    fn is_trusted(&self, found: &Resolved) -> bool {
        !found.followed.iter().any(|link| self.is_untrusted(link))
    }

    fn is_untrusted(&self, path: &Path) -> bool {
        let mut trees = self.untrusted.iter();
        trees.any(|tree| tree.holds(self.table, path))
    }
}

/// What a file in the git folder names, relative to that.
fn named_in(git_dir: &Candidate, file: &str) -> Result<Resolved, Errno> {
    let text = read(git_dir.fd.as_fd(), Path::new(file), PATH_MAX)?;
    let dir = open_without_links(git_dir.fd.as_fd(), Path::new("."));
    let start = dir.map(|dir| Start {
        dir,
        path: git_dir.granted.path.clone(),
    });
    resolve(&start, path_of(&text)).map_err(|fault| fault.errno)
}

#[cfg(test)]
mod tests;
