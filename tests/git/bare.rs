//! Bare repositories in the worktree: git obeys them like any `.git`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::common::workspace::git;
use crate::common::{Workspace, path_str};
use crate::denied_in_writable_clone;

/// A clone with a bare repository in `fixtures/bare`.
fn with_bare() -> (Workspace, PathBuf) {
    let workspace = Workspace::with_git();
    let bare = workspace.folder("clone/fixtures/bare");
    git(&bare, &["init", "--quiet", "--bare", "."]);
    (workspace, bare)
}

#[test]
fn one_that_is_there_is_read_only_and_held_in_place() {
    let (workspace, bare) = with_bare();
    let bare = path_str(&bare);
    let clone = path_str(&workspace.clone_dir()).to_owned();
    denied_in_writable_clone(
        &workspace,
        &[
            format!("write {bare}/config x"),
            format!("write {bare}/hooks/pre-receive x"),
            format!("write {bare}/commondir x"),
            format!("syscall link @{bare}/config @{clone}/linked"),
            format!("syscall rename @{bare} @{clone}/taken"),
            format!("syscall rename @{clone}/fixtures @{clone}/taken-too"),
        ],
    );
}

#[test]
fn one_that_leads_out_is_refused() {
    let (workspace, bare) = with_bare();
    let hook = bare.join("hooks/post-update");
    symlink("../../../hk", &hook).expect("a link");
    workspace.file("clone/hk", "before");
    let run = workspace.jail_with_out().writable().refused("git");
    assert!(run.refusal().contains(path_str(&hook)), "{run:#?}");
    workspace.file("clone/hk", "planted");
    assert_eq!(fs::read_to_string(&hook).expect("a hook"), "planted");
    fs::remove_file(&hook).expect("our link");
    // A gitdir file in it would win over it.
    let gitdir = workspace.file("clone/fixtures/bare/.git", "gitdir: ../../evil\n");
    let run = workspace.jail_with_out().writable().refused("git");
    assert!(run.refusal().contains(path_str(&gitdir)), "{run:#?}");
}

#[test]
fn new_ones_are_reported() {
    let (workspace, bare) = with_bare();
    let made = workspace.clone_dir().join("made");
    let argv = ["git", "init", "--quiet", "--bare", "made"];
    let run = workspace.jail().writable().run_program(&argv);
    let note = format!("note: new repository: {}", path_str(&made));
    assert!(run.stderr.contains(&note), "{run:#?}");
    // Control: the one that was there is no news.
    assert!(!run.stderr.contains(path_str(&bare)), "{run:#?}");
}

/// A HEAD, and a commondir instead of the rest, is a repository too.
#[test]
fn one_that_is_elsewhere_but_for_its_head_is_one() {
    let (workspace, bare) = with_bare();
    let head = workspace.folder("clone/fixtures/head");
    fs::copy(bare.join("HEAD"), head.join("HEAD")).expect("a HEAD");
    fs::write(head.join("commondir"), "../bare\n").expect("commondir");
    // It leads to another than itself, which the command could exchange.
    let refusal = workspace.jail().writable().refused("git");
    assert!(
        refusal.refusal().contains("fixtures/head/commondir"),
        "{refusal:#?}"
    );

    // One that the command makes is named.
    let workspace = Workspace::with_git();
    let script = "mkdir new && echo 'ref: refs/heads/m' >new/HEAD && echo ../y >new/commondir";
    let run = workspace
        .jail()
        .writable()
        .run_program(&["sh", "-c", script]);
    let note = format!(
        "note: new repository: {}",
        path_str(&workspace.clone_dir().join("new"))
    );
    assert!(run.stderr.contains(&note), "{run:#?}");
}
