//! Linked worktrees: a clone whose repository lies elsewhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::COVERED;
use crate::common::host;
use crate::common::workspace::{git, make_repository, snapshot};
use crate::common::{Attack, Jail, Run, Workspace, assert_denied, path_str};

/// A repository in `main`, to which the clone is linked.
pub(crate) fn linked() -> Workspace {
    linked_to("main", "main/.git")
}

/// One of `checkout`, whose `.git` is at `common`.
pub(crate) fn linked_to(checkout: &str, common: &str) -> Workspace {
    let workspace = Workspace::new();
    let main = workspace.folder(checkout);
    fs::rename(workspace.clone_dir(), main.join("sources")).expect("a clone");
    fs::rename(main.join("sources/tracked"), main.join("tracked")).expect("a file");
    fs::remove_dir(main.join("sources")).expect("empty");
    make_repository(&main);
    if checkout != common && !common.ends_with("/.git") {
        let bare = workspace.path(common);
        git(
            workspace.root(),
            &["clone", "--quiet", "--bare", checkout, path_str(&bare)],
        );
    }
    add(&workspace, common, "clone");
    workspace
}

/// Adds a linked worktree at `path`, a branch of its own.
pub(crate) fn add(workspace: &Workspace, common: &str, path: &str) -> PathBuf {
    let tree = workspace.path(path);
    let common = format!("--git-dir={}", path_str(&workspace.path(common)));
    let words = [&common, "worktree", "add", "--quiet", path_str(&tree)];
    git(workspace.root(), &words);
    tree
}

/// The clone's folder in its repository.
pub(crate) fn git_dir(workspace: &Workspace) -> PathBuf {
    workspace.path("main/.git/worktrees/clone")
}

/// A run that may use the repository.
pub(crate) fn jail(workspace: &Workspace) -> Jail {
    workspace.jail().switch("--git-worktree")
}

/// What git says of a change that lies in the clone, in the jail.
fn git_says(jail: Jail) -> Run {
    let script = "git status --short && git log --format=%s && git diff --stat | tail -n1";
    jail.run_program(&["sh", "-c", script])
}

const SAID: &str = "M tracked\nfirst\n 1 file changed, 1 insertion(+), 1 deletion(-)\n";

#[test]
fn git_works_in_both_modes() {
    let workspace = linked();
    fs::write(workspace.clone_dir().join("tracked"), "changed\n").expect("a file");
    let main = workspace.path("main");
    let before = snapshot(&main);
    for jail in [jail(&workspace), jail(&workspace).writable()] {
        let run = git_says(jail);
        assert_eq!(run.stdout.trim_start(), SAID, "{run:#?}");
        assert_eq!(run.stderr_but_for_groups(), "", "nothing is amiss");
    }
    assert_eq!(snapshot(&main), before, "the repository changed");
    // Without the flag there is no repository inside, and that is said.
    let run = git_says(workspace.jail());
    assert!(
        run.stderr.contains("not a git repository"),
        "vacuous: {run:#?}"
    );
    let mut lines = run.stderr.lines();
    let warned = lines.any(|line| {
        line.starts_with("groom-ns: warning: git won't work") && line.contains("--git-worktree")
    });
    assert!(warned, "{run:#?}");
}

#[test]
fn without_the_flag_a_writable_one_is_refused() {
    let workspace = linked();
    let run = workspace.jail_with_out().writable().refused("git");
    assert!(run.refusal().contains("--git-worktree"), "{run:#?}");
    let control = workspace.jail_with_out().writable();
    let run = control.switch("--git-worktree").run(&["say", "ran"]);
    assert_eq!(run.ok(), "ran");
}

/// Denied in the clone and its repository, by a run that may write to the clone; the
/// controls are made on copies.
fn denied(workspace: &Workspace, jail: Jail, attempts: &[String]) {
    let (clone, main) = (workspace.clone_dir(), workspace.path("main"));
    let copy = workspace.copy_of_clone();
    let main_copy = workspace.path("copy-of-main");
    let mut cp = host::program("cp", "coreutils");
    let status = cp.arg("-a").arg(&main).arg(&main_copy).status();
    assert!(status.expect("cp starts").success(), "cp -a");
    let attacks: Vec<Attack> = attempts
        .iter()
        .map(|attempt| {
            Attack::new(attempt, COVERED)
                .control_on_copy(&clone, &copy)
                .control_on_copy(&main, &main_copy)
        })
        .collect();
    let before = [&clone, &main].map(|dir| snapshot(dir));
    assert_denied(workspace, jail, &attacks);
    let after = [&clone, &main].map(|dir| snapshot(dir));
    assert_eq!(after, before, "something of the host's changed");
}

#[test]
fn the_repository_is_read_only() {
    let attempts = |workspace: &Workspace| {
        let common = path_str(&workspace.path("main/.git")).to_owned();
        let own = path_str(&git_dir(workspace)).to_owned();
        let files = [
            format!("{common}/config"),
            format!("{common}/HEAD"),
            format!("{common}/hooks/pre-commit"),
            format!("{common}/objects/info/alternates"),
            format!("{common}/refs/heads/planted"),
            format!("{own}/HEAD"),
            format!("{own}/index"),
            format!("{own}/commondir"),
            format!("{own}/gitdir"),
            format!("{own}/config.worktree"),
        ];
        let writes = files.iter().map(|file| format!("write {file} x"));
        let moves = [
            format!("syscall rename @{own} @{common}/taken"),
            format!("syscall mkdir @{common}/worktrees/mine 0x1ff"),
        ];
        writes.chain(moves).collect::<Vec<_>>()
    };
    let workspace = linked();
    denied(&workspace, jail(&workspace), &attempts(&workspace));
    let workspace = linked();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    let common = path_str(&workspace.path("main/.git")).to_owned();
    let mut all = attempts(&workspace);
    all.push(format!("syscall link @{common}/config @{clone}/linked"));
    denied(&workspace, jail(&workspace).writable(), &all);
}

#[test]
fn the_gitdir_file_is_covered() {
    let workspace = linked();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    workspace.file("clone/mine", "gitdir: /tmp/x\n");
    let attempts = [
        format!("write {clone}/.git gitdir:/tmp/x"),
        format!("syscall link @{clone}/.git @{clone}/linked"),
        // RENAME_EXCHANGE
        format!("syscall renameat2 AT_FDCWD @{clone}/.git AT_FDCWD @{clone}/mine 2"),
        format!("syscall rename @{clone}/.git @{clone}/taken"),
        format!("syscall rename @{clone}/mine @{clone}/.git"),
        format!("syscall unlink @{clone}/.git"),
    ];
    denied(&workspace, jail(&workspace).writable(), &attempts);
    // Control: the worktree itself can be written, and lands on the host.
    let write = format!("write {clone}/tracked changed");
    let run = jail(&workspace).writable().run(&["seq", &write]);
    assert_eq!(run.lines(), ["ok"]);
    let text = fs::read_to_string(workspace.path("clone/tracked"));
    assert_eq!(text.expect("tracked"), "changed");
}

#[test]
fn what_is_nested_is_covered_too() {
    let workspace = linked();
    let clone = workspace.clone_dir();
    make_repository(&workspace.folder("other"));
    make_repository(&workspace.folder("clone/vendor/dep"));
    let other = workspace.path("other");
    let words = ["submodule", "--quiet", "add", path_str(&other), "libs/sub"];
    git(&clone, &words);
    let sub = git_dir(&workspace).join("modules/libs/sub");
    assert!(sub.is_dir(), "vacuous: the submodule's folder is elsewhere");
    let (clone, sub) = (path_str(&clone), path_str(&sub));
    let attempts = [
        format!("write {clone}/vendor/dep/.git/config x"),
        format!("write {clone}/libs/sub/.git gitdir:/tmp/x"),
        format!("write {sub}/config x"),
        format!("syscall rename @{clone}/libs/sub @{clone}/taken"),
        format!("syscall rename @{clone}/vendor @{clone}/taken-too"),
    ];
    denied(&workspace, jail(&workspace).writable(), &attempts);
    // One that leads to where no cover is.
    workspace.file("clone/nested/.git", "gitdir: ../../other/.git\n");
    let run = jail(&workspace).writable().refused("git");
    assert!(run.refusal().contains("clone/nested/.git"), "{run:#?}");
}

#[test]
fn what_leads_out_of_the_repository_is_refused() {
    let accepted = |workspace: &Workspace| {
        let run = jail(workspace).writable().run(&["say", "ran"]);
        assert_eq!(run.ok(), "ran");
    };
    let refused = |workspace: &Workspace, fault: &Path| {
        let run = jail(workspace).writable().refused("git");
        assert!(run.refusal().contains(path_str(fault)), "{run:#?}");
        // Read-only, nobody can write at its end.
        assert_eq!(jail(workspace).run(&["say", "ran"]).ok(), "ran");
    };
    let workspace = linked();
    workspace.file("clone/hook", "x");
    workspace.file("main/hook", "x");
    let hook = workspace.path("main/.git/hooks/post-checkout");
    symlink("../../hook", &hook).expect("a link");
    accepted(&workspace);
    fs::remove_file(&hook).expect("our link");
    symlink("../../../clone/hook", &hook).expect("a link");
    refused(&workspace, &hook);
    fs::remove_file(&hook).expect("our link");
    accepted(&workspace);
    let config = workspace.path("main/.git/config");
    fs::hard_link(&config, workspace.path("clone/config")).expect("a hard link");
    refused(&workspace, &config);
    fs::remove_file(workspace.path("clone/config")).expect("our link");
    let file = workspace.path("clone/.git");
    fs::hard_link(&file, workspace.path("clone/twin")).expect("a hard link");
    refused(&workspace, &file);
}

#[test]
fn a_bare_repository_may_be_the_common_folder() {
    let workspace = linked_to("sources", "bare.git");
    fs::write(workspace.clone_dir().join("tracked"), "changed\n").expect("a file");
    for jail in [jail(&workspace), jail(&workspace).writable()] {
        let run = git_says(jail);
        assert_eq!(run.stdout.trim_start(), SAID, "{run:#?}");
    }
    // A worktree in the repository itself can be read, and not be written to.
    let inner = add(&workspace, "bare.git", "bare.git/inner");
    fs::write(inner.join("tracked"), "changed\n").expect("a file");
    let inside = || jail(&workspace).flag("--clone", &inner);
    let run = git_says(inside());
    assert_eq!(run.stdout.trim_start(), SAID, "{run:#?}");
    inside().writable().refused("overlap");
}

#[test]
fn paths_may_be_relative() {
    // As `worktree.useRelativePaths` writes them.
    let workspace = linked();
    workspace.file("clone/.git", "gitdir: ../main/.git/worktrees/clone\n");
    fs::write(
        git_dir(&workspace).join("gitdir"),
        "../../../../clone/.git\n",
    )
    .expect("a file");
    fs::write(workspace.clone_dir().join("tracked"), "changed\n").expect("a file");
    for jail in [jail(&workspace), jail(&workspace).writable()] {
        let run = git_says(jail);
        assert_eq!(run.stdout.trim_start(), SAID, "{run:#?}");
    }
}

#[test]
fn a_link_of_the_hosts_on_the_way_is_there_inside() {
    let workspace = linked();
    symlink("main", workspace.path("by-link")).expect("a link");
    let way = workspace.path("by-link/.git/worktrees/clone");
    let text = format!("gitdir: {}\n", path_str(&way));
    workspace.file("clone/.git", &text);
    fs::write(workspace.clone_dir().join("tracked"), "changed\n").expect("a file");
    for jail in [jail(&workspace), jail(&workspace).writable()] {
        let run = git_says(jail);
        assert_eq!(run.stdout.trim_start(), SAID, "{run:#?}");
    }
}

#[test]
fn no_writable_place_touches_the_repository() {
    let workspace = linked();
    for (out, reason) in [
        ("main/.git/out", "overlap"),
        ("main/.git/worktrees/clone/out", "overlap"),
        // Then the folder that is claimed lies in what a command writes.
        ("main/.git/worktrees/clone", "git"),
        ("main/.git", "git"),
        ("main", "git"),
    ] {
        let run = jail(&workspace).flag("--out-dir", workspace.path(out));
        run.run(&["say", "ran"]).assert_refused(reason);
    }
    assert!(!workspace.path("main/.git/out").exists(), "it was made");
    let beside = jail(&workspace).flag("--out-dir", workspace.path("main/out"));
    assert_eq!(beside.run(&["say", "ran"]).ok(), "ran");
}

#[test]
fn new_repositories_are_reported_and_the_linked_one_is_none() {
    let workspace = linked();
    let run = jail(&workspace).writable().run_program(&["true"]);
    assert_eq!(run.stderr.matches("new repository").count(), 0, "{run:#?}");
    let argv = ["git", "init", "--quiet", "made"];
    let run = jail(&workspace).writable().run_program(&argv);
    assert_eq!(run.stderr.matches("new repository").count(), 1, "{run:#?}");
}

#[test]
fn an_ordinary_clone_needs_nothing() {
    for workspace in [Workspace::new(), Workspace::with_git()] {
        let run = jail(&workspace).run(&["say", "ran"]);
        assert_eq!(run.ok(), "ran");
        assert_eq!(run.stderr_but_for_groups(), "");
    }
    let workspace = Workspace::with_git();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    let config = format!("write {clone}/.git/config x");
    let run = jail(&workspace).writable().run(&["seq", &config]);
    assert_eq!(run.lines(), ["EROFS"]);
}

#[test]
fn what_is_exchanged_after_it_was_judged_is_refused() {
    let swapped = |one: &str, other: &str| {
        let workspace = linked();
        workspace.folder("spare");
        workspace.folder("main/.git/worktrees/spare");
        workspace.file("clone/mine", "gitdir: /tmp\n");
        let paths = [one, other].map(|name| path_str(&workspace.path(name)).to_owned());
        let situation = ["swap-at", "open_tree", "1", &paths[0], &paths[1]];
        let run = jail(&workspace)
            .writable()
            .in_situation(&situation)
            .run(&["say", "ran"]);
        assert!(!run.stderr.contains("probe: 0 calls"), "vacuous: {run:#?}");
        run
    };
    for (one, other) in [
        ("main/.git", "spare"),
        ("main/.git/worktrees/clone", "main/.git/worktrees/spare"),
        ("clone/.git", "clone/mine"),
    ] {
        let run = swapped(one, other);
        run.assert_refused("path");
        assert_eq!(run.stdout, "", "{one}: a refused command ran");
    }
    // Control: what isn't given may change as it likes.
    assert_eq!(swapped("spare", "main/tracked").ok(), "ran");
}

#[test]
fn a_key_in_the_repository_would_be_seen() {
    let workspace = linked();
    let key = workspace.file("main/.git/key", "sk-ant-the-real-one");
    let with_key = |jail: Jail| jail.flag("--broker", "anthropic").flag("--key-file", &key);
    with_key(jail(&workspace)).refused("key");
    // Control: without the flag the repository isn't shown.
    assert_eq!(with_key(workspace.jail()).run(&["say", "ran"]).ok(), "ran");
}

#[test]
fn it_may_lie_in_the_main_worktree() {
    let workspace = linked();
    let nested = add(&workspace, "main/.git", "main/nested");
    fs::write(nested.join("tracked"), "changed\n").expect("a file");
    let inside = || jail(&workspace).flag("--clone", &nested);
    for jail in [inside(), inside().writable()] {
        let run = git_says(jail);
        assert_eq!(run.stdout.trim_start(), SAID, "{run:#?}");
    }
    // Nothing but the worktree and the repository is shown of what holds them.
    let main = workspace.path("main");
    let listed = inside().run_program(&["ls", "-A", path_str(&main)]);
    assert_eq!(listed.outcome(), ".git\nnested", "{listed:#?}");
}
