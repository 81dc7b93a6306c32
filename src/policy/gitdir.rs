//! Whose repository a clone's gitdir file names, and how the command can have it.

use std::os::fd::OwnedFd;
use std::path::Path;

use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use super::grant::Candidate;
use super::outside::quoted;
use super::worktree::{REPOSITORY, repository};
use crate::mountinfo::Mount;

/// Where a repository keeps those of its submodules.
const MODULES: &str = "modules";

/// What to do about a clone whose `.git` is a gitdir file: the flag where that will do,
/// else what it would be refused with.
pub(super) fn way(clone: &Candidate, out_dir: Option<&Path>, table: &[Mount]) -> String {
    match repository(clone, out_dir, table) {
        Ok(_) => "it is a linked worktree's: give --git-worktree".to_owned(),
        Err(refusal) if refusal.remedy.is_empty() => "use a full clone".to_owned(),
        Err(refusal) => refusal.remedy.into_owned(),
    }
}

/// What to do about a gitdir file that names no linked worktree's folder but this one. Its
/// flag is given for what is a repository alone: the file is the clone's word.
pub(super) fn other_way(git_dir: &Candidate) -> String {
    let path = &git_dir.granted.path;
    if !is_repository(&git_dir.fd) {
        return "it is no linked worktree's folder in a repository, and no repository: use a full clone".to_owned();
    }
    let flag = quoted(git_dir.granted.alias.as_ref().unwrap_or(path));
    let (kind, way) = if is_submodules(path) {
        (
            "a submodule's",
            "name the checkout around this one as the clone, without --git-worktree",
        )
    } else {
        (
            "no linked worktree's (--separate-git-dir)",
            "use a full clone",
        )
    };
    format!(
        "the clone's .git says that its repository is {flag}, {kind}: {way}, or, if that is this clone's and in mode ro, give --ro-file {flag}"
    )
}

/// Whether a folder is laid out as one (`is_git_directory` in git's setup.c).
pub(super) fn is_repository(fd: &OwnedFd) -> bool {
    let is_there = |name: &&str| fstatat(fd, *name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    REPOSITORY.iter().all(is_there)
}

/// `modules/NAME` of a repository; a name may have slashes.
fn is_submodules(path: &Path) -> bool {
    path.ancestors().skip(1).any(|dir| {
        let head = dir.with_file_name("HEAD");
        dir.ends_with(MODULES) && head.symlink_metadata().is_ok()
    })
}
