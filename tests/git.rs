//! The clone in rw-git-ro: the worktree is the command's, every `.git` the host's.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

#[path = "git/alternates.rs"]
mod alternates;
#[path = "git/bare.rs"]
mod bare;
mod common;
#[path = "git/elsewhere.rs"]
mod elsewhere;
#[path = "git/leads_out.rs"]
mod leads_out;
#[path = "git/worktree_claims.rs"]
mod worktree_claims;
#[path = "git/worktrees.rs"]
mod worktrees;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use common::workspace::{git, make_repository, snapshot};
use common::{Attack, Workspace, assert_denied, path_str};

const COVERED: &[&str] = &["EROFS", "EBUSY", "EACCES", "EXDEV"];

/// A clone with a repository of its own in `vendor/dep`, and a submodule.
fn with_nested() -> Workspace {
    let workspace = Workspace::with_git();
    let other = workspace.folder("other");
    fs::write(other.join("code"), "code\n").expect("a file");
    make_repository(&other);
    let nested = workspace.folder("clone/vendor/dep");
    fs::write(nested.join("code"), "code\n").expect("a file");
    make_repository(&nested);
    git(
        &workspace.clone_dir(),
        &["submodule", "--quiet", "add", path_str(&other), "libs/sub"],
    );
    workspace
}

fn denied_in_writable_clone(workspace: &Workspace, attempts: &[String]) {
    let clone = workspace.clone_dir();
    let copy = workspace.copy_of_clone();
    let attacks: Vec<Attack> = attempts
        .iter()
        .map(|attempt| Attack::new(attempt, COVERED).control_on_copy(&clone, &copy))
        .collect();
    let before = snapshot(&clone);
    assert_denied(workspace, workspace.jail().writable(), &attacks);
    assert_eq!(snapshot(&clone), before, "the host's clone changed");
}

#[test]
fn the_worktree_is_writable_and_lands_as_the_callers() {
    let workspace = with_nested();
    let clone = workspace.clone_dir();
    let dir = path_str(&clone).to_owned();
    let run = workspace.jail().writable().run(&[
        "seq",
        &format!("write {dir}/tracked changed"),
        &format!("write {dir}/new made"),
        &format!("syscall mkdir @{dir}/a 0x1ed"),
        &format!("syscall rename @{dir}/new @{dir}/a/moved"),
        &format!("write {dir}/vendor/dep/code changed"),
        &format!("write {dir}/libs/sub/code changed"),
        &format!("syscall link @{dir}/tracked @{dir}/a/hard"),
    ]);
    assert!(
        run.lines().iter().all(|line| line.starts_with("ok")),
        "{run:#?}"
    );
    for (file, text) in [
        ("tracked", "changed"),
        ("a/moved", "made"),
        ("vendor/dep/code", "changed"),
        ("libs/sub/code", "changed"),
    ] {
        assert_eq!(fs::read_to_string(clone.join(file)).expect(file), text);
    }
    let owner = |name: &str| fs::metadata(clone.join(name)).expect(name).uid();
    assert_eq!(owner("a/moved"), owner(".git"), "one owner on the host");
}

#[test]
fn what_the_host_would_run_later_is_read_only() {
    let workspace = with_nested();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    let sub = format!("{clone}/.git/modules/libs/sub");
    let mut attempts = Vec::new();
    for git_dir in [
        format!("{clone}/.git"),
        format!("{clone}/vendor/dep/.git"),
        sub,
    ] {
        for file in [
            "config",
            "HEAD",
            "index",
            "hooks/pre-commit",
            "info/attributes",
            "info/exclude",
            "objects/info/alternates",
            "config.worktree",
            "commondir",
        ] {
            attempts.push(format!("write {git_dir}/{file} x"));
        }
        attempts.push(format!("syscall mkdir @{git_dir}/worktrees 0x1ff"));
        attempts.push(format!("syscall symlink @/tmp @{git_dir}/planted"));
    }
    // A submodule's gitdir file could point the host's git elsewhere.
    attempts.push(format!("write {clone}/libs/sub/.git gitdir:/tmp/x"));
    denied_in_writable_clone(&workspace, &attempts);
}

#[test]
fn a_git_cannot_be_swapped() {
    let workspace = with_nested();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    let mut attempts = Vec::new();
    // Innermost first, as each control takes its object away.
    for path in ["vendor/dep/.git", "libs/sub/.git", ".git"] {
        attempts.push(format!(
            "syscall rename @{clone}/{path} @{clone}/taken-{}",
            attempts.len()
        ));
    }
    for path in ["vendor/dep", "libs/sub", "vendor", "libs"] {
        attempts.push(format!(
            "syscall rename @{clone}/{path} @{clone}/taken-{}",
            attempts.len()
        ));
    }
    denied_in_writable_clone(&workspace, &attempts);
}

#[test]
fn a_git_cannot_be_removed_or_exchanged() {
    let workspace = with_nested();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    workspace.folder("clone/mine");
    workspace.file("clone/mine.txt", "x");
    let exchange = |a: &str, b: &str| {
        // RENAME_EXCHANGE
        format!("syscall renameat2 AT_FDCWD @{clone}/{a} AT_FDCWD @{clone}/{b} 2")
    };
    denied_in_writable_clone(
        &workspace,
        &[
            exchange(".git", "mine"),
            exchange(".git", "mine"),
            exchange("vendor", "mine"),
            exchange("vendor", "mine"),
            exchange("libs/sub/.git", "mine.txt"),
            format!("syscall unlink @{clone}/libs/sub/.git"),
            format!("syscall unlink @{clone}/.git/config"),
            format!("syscall rmdir @{clone}/.git/branches"),
        ],
    );
}

#[test]
fn no_hard_link_leads_to_the_hosts_configuration() {
    let workspace = with_nested();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    denied_in_writable_clone(
        &workspace,
        &[
            format!("syscall link @{clone}/.git/config @{clone}/linked-1"),
            format!("syscall link @{clone}/vendor/dep/.git/config @{clone}/linked-2"),
            format!("syscall link @{clone}/.git/config @{clone}/vendor/linked-3"),
        ],
    );
}

#[test]
fn repositories_that_the_command_makes_are_reported() {
    let workspace = Workspace::with_git();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    let script = "mkdir -p a/b && git init -q a/b && printf 'gitdir: /tmp/x\\n' > a/.git";
    let run = workspace
        .jail()
        .writable()
        .run_program(&["sh", "-c", script]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    for path in ["a/b/.git", "a/.git"] {
        let parent = Path::new(path).parent().expect("a folder").display();
        let notes = run
            .stderr
            .lines()
            .filter(|line| line.starts_with("groom-ns: note: new repository: "));
        let named = [format!("{clone}/{parent}"), format!("{clone}/{path}")];
        let mut paths = notes.map(|line| line.rsplit(": ").next().unwrap_or_default());
        assert!(
            paths.any(|path| named.iter().any(|name| name == path)),
            "{path}: {run:#?}"
        );
    }
    // Control: the ones that were there are no news.
    let run = workspace.jail().writable().run_program(&["true"]);
    let seen = run.stderr.matches("new repository").count();
    assert_eq!(seen, 0, "what was there before isn't new: {run:#?}");
}

#[test]
fn nested_repositories_can_be_read_and_used() {
    let workspace = with_nested();
    for dir in ["", "vendor/dep", "libs/sub"] {
        let dir = workspace.clone_dir().join(dir);
        let argv = ["git", "-C", path_str(&dir), "log", "--oneline"];
        let run = workspace.jail().writable().run_program(&argv);
        assert!(
            run.outcome().contains("first"),
            "{}: {run:#?}",
            dir.display()
        );
    }
}

#[test]
fn a_clone_whose_git_cannot_be_covered_is_refused() {
    let refused = |prepare: &dyn Fn(&Workspace)| {
        let workspace = Workspace::with_git();
        prepare(&workspace);
        // Control: the same clone can be given read-only.
        assert_eq!(workspace.jail().run(&["say", "ran"]).ok(), "ran");
        workspace.jail_with_out().writable().refused("git");
    };
    let git_of = |workspace: &Workspace| workspace.clone_dir().join(".git");
    // None.
    refused(&|workspace| fs::remove_dir_all(git_of(workspace)).expect("a .git"));
    // A gitdir file.
    refused(&|workspace| {
        let elsewhere = workspace.path("elsewhere");
        fs::rename(git_of(workspace), &elsewhere).expect("a .git");
        let text = format!("gitdir: {}\n", path_str(&elsewhere));
        fs::write(git_of(workspace), text).expect("a gitdir file");
    });
    // A symbolic link.
    refused(&|workspace| {
        let elsewhere = workspace.path("elsewhere");
        fs::rename(git_of(workspace), &elsewhere).expect("a .git");
        std::os::unix::fs::symlink(&elsewhere, git_of(workspace)).expect("a link");
    });
    // A nested gitdir file that points out of the clone's own .git.
    refused(&|workspace| {
        let elsewhere = workspace.folder("elsewhere");
        let text = format!("gitdir: {}\n", path_str(&elsewhere));
        workspace.file("clone/nested/.git", &text);
    });
    // The same through `..`, and one that only begins like the clone's own.
    refused(&|workspace| {
        workspace.file("clone/nested/.git", "gitdir: ../.git/../../outside\n");
        workspace.folder("outside");
    });
    // A nested symbolic link.
    refused(&|workspace| {
        let nested = workspace.folder("clone/nested");
        std::os::unix::fs::symlink("../.git", nested.join(".git")).expect("a link");
    });
}

#[test]
fn a_git_that_leads_to_where_no_cover_is_is_refused() {
    let refused = |prepare: &dyn Fn(&Workspace), fault: &str| {
        let workspace = Workspace::with_git();
        workspace.folder("clone/.git/modules/m");
        prepare(&workspace);
        // Control: the same clone can be given read-only.
        assert_eq!(workspace.jail().run(&["say", "ran"]).ok(), "ran");
        let run = workspace.jail_with_out().writable().refused("git");
        let path = workspace.clone_dir().join(fault);
        assert!(run.refusal().contains(path_str(&path)), "{run:#?}");
    };
    // What git reads or runs, as a link to a place that the command can write.
    for name in ["config", "config.worktree", "hooks", "info", "objects"] {
        let fault = format!(".git/{name}");
        let link = |workspace: &Workspace| {
            let real = workspace.clone_dir().join(&fault);
            let moved = workspace.clone_dir().join("moved");
            if fs::rename(&real, &moved).is_err() {
                fs::write(&moved, "").expect("a file");
            }
            std::os::unix::fs::symlink("../moved", &real).expect("a link");
        };
        refused(&link, &fault);
    }
    // A file that sends git elsewhere for its configuration.
    let commondir = |workspace: &Workspace| {
        workspace.file("clone/.git/commondir", "../elsewhere\n");
    };
    refused(&commondir, ".git/commondir");
    // Nested ones: by a link that the command could turn, up again through a
    // folder that it could move, to the clone's own .git, and to nothing.
    for target in [
        "../link/modules/m",
        "../a/../.git/modules/m",
        "../.git",
        "../.git/modules/none",
        "../.git-not/m",
    ] {
        let nested = |workspace: &Workspace| {
            workspace.folder("clone/a");
            workspace.folder("clone/.git-not/m");
            std::os::unix::fs::symlink(".git", workspace.path("clone/link")).expect("a link");
            workspace.file("clone/nested/.git", &format!("gitdir: {target}\n"));
        };
        refused(&nested, "nested/.git");
    }
    // Neither a folder nor a file.
    let pipe = |workspace: &Workspace| {
        let path = workspace.folder("clone/nested").join(".git");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    };
    refused(&pipe, "nested/.git");
}

#[test]
fn a_git_by_another_case_is_covered_too() {
    // Some file systems make no difference, and a clone may be copied to one.
    let workspace = Workspace::with_git();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    for name in [".GIT", ".Git"] {
        let nested = workspace
            .folder(&format!("clone/{}", &name[1..]))
            .join(name);
        fs::create_dir(nested).expect("a folder");
    }
    denied_in_writable_clone(
        &workspace,
        &[
            format!("write {clone}/GIT/.GIT/config x"),
            format!("write {clone}/Git/.Git/config x"),
            format!("syscall rename @{clone}/GIT/.GIT @{clone}/taken"),
            format!("syscall rename @{clone}/Git @{clone}/taken-2"),
        ],
    );
}

#[test]
fn nothing_is_left_in_the_clone_by_a_run_that_is_killed() {
    let workspace = with_nested();
    let before = snapshot(&workspace.clone_dir());
    let mut child = workspace.jail_with_out().writable().start(&["sleep", "60"]);
    common::jail::wait_for_line(&mut child, "ready");
    child.kill().expect("our child");
    let _ = common::finish(child);
    assert_eq!(snapshot(&workspace.clone_dir()), before);
}
