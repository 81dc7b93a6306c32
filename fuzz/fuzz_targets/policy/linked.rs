//! The repository of a linked worktree, found by hand.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use groom_ns::policy::Policy;

use crate::{Case, git, places, way};

/// It is shown where its own files name the worktree, and what names them is no word of
/// the command's.
pub fn check(case: &Case, policy: &Policy) {
    let clone = policy.clone.path.as_path();
    let file = clone.join(".git");
    let Some(linked) = &policy.linked else {
        let is_file = file.symlink_metadata().is_ok_and(|it| it.is_file());
        assert!(!(case.run.git_worktree && is_file), "{file:?}");
        return;
    };
    assert!(case.run.git_worktree);
    let (git_dir, common) = (&linked.git_dir.path, &linked.common.path);
    assert_eq!(git_dir.parent(), Some(common.join("worktrees").as_path()));
    for name in ["HEAD", "objects", "refs"] {
        assert!(common.join(name).symlink_metadata().is_ok());
    }
    let named = git::gitdir(&file);
    for (from, text, end) in [
        (clone, named, git_dir),
        (git_dir, git::first_line(&git_dir.join("commondir")), common),
        (git_dir, git::first_line(&git_dir.join("gitdir")), &file),
    ] {
        let way = way::walk(from, crate::path(&text)).expect("it leads somewhere");
        assert_eq!(&way.end, end);
        let mut trees = places::untrusted(policy);
        assert!(!trees.any(|tree| way.links.iter().any(|link| link.starts_with(tree))));
    }
    assert!(!places::untrusted(policy).any(|tree| git_dir.starts_with(tree)));
    for path in [
        git_dir,
        common,
        &file,
        &git_dir.join("gitdir"),
        &git_dir.join("commondir"),
    ] {
        let there = fs::symlink_metadata(path).unwrap();
        assert_eq!(there.uid(), policy.clone.owner.uid, "{path:?}");
    }
}
