//! The judgement over trees that are made by hand; `tests/git/worktrees.rs` and
//! `tests/git/worktree_claims.rs` have git's own, in runs.

use super::*;
use crate::mountinfo;
use crate::policy::grant::existing;
use crate::policy::testing::TempDir;

/// A worktree in `c`, a repository in `r`.
fn linked() -> TempDir {
    let temp = TempDir::new();
    for name in ["objects", "refs"] {
        temp.dir(&format!("r/{name}"));
    }
    temp.file("r/HEAD", "ref: refs/heads/main\n");
    temp.file("r/worktrees/w/commondir", "../..\n");
    let file = temp.file("c/.git", "gitdir: ../r/worktrees/w\n");
    let back = format!("{}\n", file.display());
    temp.file("r/worktrees/w/gitdir", &back);
    temp
}

fn judged_as(temp: &TempDir, owner: Option<u32>) -> Result<Option<[Candidate; 2]>, Refusal> {
    let mut clone = existing(Role::Clone, &Err(Errno::ENOENT), &temp.at("c"))?;
    clone.granted.owner.uid = owner.unwrap_or(clone.granted.owner.uid);
    let table = mountinfo::read().expect("a table");
    repository(&clone, Some(&temp.at("o")), &table)
}

fn refused(temp: &TempDir) -> String {
    let refusal = judged_as(temp, None).err().expect("refused");
    assert_eq!(refusal.reason, Reason::Git);
    refusal.to_string()
}

#[test]
fn both_folders_are_found() {
    let temp = linked();
    let found = judged_as(&temp, None).expect("accepted").expect("linked");
    let roles = found.each_ref().map(|found| found.role);
    assert_eq!(roles, [Role::GitDir, Role::CommonDir]);
    let paths = found.map(|found| found.granted.path);
    assert_eq!(paths, ["r/worktrees/w", "r"].map(|name| temp.at(name)));
}

#[test]
fn what_is_no_file_asks_for_nothing() {
    let temp = linked();
    std::fs::remove_file(temp.at("c/.git")).expect("remove");
    assert!(judged_as(&temp, None).expect("none").is_none());
    temp.link("c/.git", "../r");
    assert!(judged_as(&temp, None).expect("a link").is_none());
    std::fs::remove_file(temp.at("c/.git")).expect("remove");
    temp.dir("c/.git");
    assert!(judged_as(&temp, None).expect("a folder").is_none());
}

#[test]
fn another_owner() {
    let temp = linked();
    let refusal = judged_as(&temp, Some(u32::MAX - 1)).err().expect("refused");
    assert_eq!(refusal.reason, Reason::Owner);
    let own = nix::unistd::geteuid().as_raw();
    assert!(judged_as(&temp, Some(own)).expect("accepted").is_some());
}

#[test]
fn what_makes_a_repository() {
    for name in REPOSITORY {
        let temp = linked();
        let (there, moved) = (temp.at("r").join(name), temp.at("moved"));
        std::fs::rename(&there, &moved).expect("rename");
        assert!(refused(&temp).contains("ENOENT"), "{name}");
        std::fs::rename(&moved, &there).expect("rename");
        assert!(judged_as(&temp, None).expect("accepted").is_some());
    }
    // Its folder for worktrees has one name.
    let temp = linked();
    temp.link("r/others", "worktrees");
    temp.file("c/.git", "gitdir: ../r/others/w\n");
    assert!(judged_as(&temp, None).expect("the host's link").is_some());
    std::fs::remove_file(temp.at("r/others")).expect("remove");
    std::fs::rename(temp.at("r/worktrees"), temp.at("r/others")).expect("rename");
    assert!(refused(&temp).contains("no linked worktree"));
}

#[test]
fn the_repository_must_point_back() {
    let temp = linked();
    temp.dir("d");
    for text in ["", "\n", "../../../d/.git", "../../../c", "/none\n", "/"] {
        temp.file("r/worktrees/w/gitdir", text);
        assert!(refused(&temp).contains("repair"), "{text:?}");
    }
    for text in ["../../../c/.git", "../../../d/../c/.git\r\n"] {
        temp.file("r/worktrees/w/gitdir", text);
        assert!(judged_as(&temp, None).expect("accepted").is_some());
    }
    // The same file by another name.
    std::fs::hard_link(temp.at("c/.git"), temp.at("d/.git")).expect("link");
    temp.file("r/worktrees/w/gitdir", "../../../d/.git");
    assert!(refused(&temp).contains("repair"));
}
