//! A profile is configuration: neither the command nor another user may have a say in it.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::Command;

use super::profile::write;
use crate::common::host::chmod;
use crate::common::jail::{binary, spawn};
use crate::common::{Jail, Run, Workspace, finish, is_root, path_str};

const TEXT: &str = "env = ['FROM=profile']";

/// Both modes of the clone, with an out-dir.
fn jails(workspace: &Workspace) -> [Jail; 2] {
    [
        workspace.jail_with_out(),
        workspace.jail_with_out().writable(),
    ]
}

/// Control: nothing but its place is wrong with it.
fn accepted(workspace: &Workspace, profile: &str) {
    for jail in jails(workspace) {
        let run = jail
            .flag("--profile", workspace.path(profile))
            .run_program(&["printenv", "FROM"]);
        assert_eq!(run.code, Some(0), "vacuous: {run:#?}");
    }
}

fn refused(workspace: &Workspace, profile: &str, situation: &[&str], said: &str) {
    for jail in jails(workspace) {
        let jail = jail
            .flag("--profile", workspace.path(profile))
            .in_situation(situation);
        let run = jail.refused("path");
        assert!(run.refusal().contains(said), "{run:#?}");
    }
}

const LIES: &str = "it lies in what the command sees";
const LINK: &str = "the link lies in a tree that the command may have written";

#[test]
fn no_profile_comes_from_where_the_command_writes() {
    let workspace = Workspace::with_git();
    workspace.folder("out");
    workspace.folder("clone/sub");
    let outside = write(&workspace, "conf/p.toml", TEXT);
    write(&workspace, "clone/sub/p.toml", TEXT);
    write(&workspace, "out/p.toml", TEXT);
    accepted(&workspace, "conf/p.toml");
    for path in ["clone/sub/p.toml", "conf/../clone/sub/p.toml", "out/p.toml"] {
        refused(&workspace, path, &[], LIES);
    }
    // A link of one's own is followed, wherever it leads.
    for (link, to) in [
        ("good", "conf/p.toml"),
        ("bad", "clone/sub/p.toml"),
        ("worse", "out/p.toml"),
    ] {
        symlink(to, workspace.path(link)).expect("a link");
    }
    accepted(&workspace, "good");
    refused(&workspace, "bad", &[], LIES);
    refused(&workspace, "worse", &[], LIES);
    // A link in the clone chooses the file, wherever that lies.
    symlink(&outside, workspace.path("clone/link")).expect("a link");
    symlink(workspace.path("conf"), workspace.path("out/folder")).expect("a link");
    symlink("clone/link", workspace.path("by-two")).expect("a link");
    for path in ["clone/link", "out/folder/p.toml", "by-two"] {
        refused(&workspace, path, &[], LINK);
    }
}

fn lies_around(run: &Run) {
    run.assert_refused("path");
    let said = "the checkout that the clone is a part of";
    assert!(run.refusal().contains(said), "{run:#?}");
}

/// A clone can be a part of a checkout, and what lies beside it is as strange.
#[test]
fn no_profile_comes_from_the_checkout_around_the_clone() {
    let workspace = Workspace::with_git();
    workspace.folder("clone/part");
    let profile = write(&workspace, "clone/ci/p.toml", "clone = '../part'");
    write(&workspace, "conf/p.toml", "clone = '../clone/part'");
    symlink(&profile, workspace.path("link")).expect("a link");
    symlink("../../conf/p.toml", workspace.path("clone/ci/link")).expect("a link");
    let run = |path: &str| {
        let mut command = Command::new(binary());
        command.args(["run", "--profile"]).arg(workspace.path(path));
        command.env_remove("GITHUB_ACTIONS");
        finish(spawn(command.args(["--", "echo", "ran"])))
    };
    for path in ["clone/ci/p.toml", "link", "clone/ci/link"] {
        lies_around(&run(path));
    }
    assert_eq!(run("conf/p.toml").outcome(), "ran");
    // The command of one run makes a repository of the next one's clone.
    for file in ["part/.git/HEAD", "part/.git"] {
        let made = workspace.file(&format!("clone/{file}"), "made by the command");
        lies_around(&run("clone/ci/p.toml"));
        let top = workspace.path("clone/part/.git");
        fs::remove_file(made).expect("it was made");
        let _ = fs::remove_dir(top);
    }
    // Control: without the .git nothing tells that they belong together.
    fs::rename(workspace.path("clone/.git"), workspace.path("git")).expect("moved");
    assert_eq!(run("clone/ci/p.toml").outcome(), "ran");
}

#[test]
fn no_bind_mount_hides_where_it_lies() {
    let workspace = Workspace::with_git();
    workspace.folder("out");
    workspace.folder("elsewhere");
    write(&workspace, "clone/p.toml", TEXT);
    write(&workspace, "out/p.toml", TEXT);
    write(&workspace, "conf/p.toml", TEXT);
    let bind = |from: &str, to: &str| {
        let [from, to] = [from, to].map(|name| workspace.path(name));
        format!("bind:{}:{}", path_str(&from), path_str(&to))
    };
    for shown in ["clone", "out"] {
        refused(
            &workspace,
            "elsewhere/p.toml",
            &["mounts", &bind(shown, "elsewhere")],
            LIES,
        );
    }
    // Nor is a part of the checkout hidden, if it is the clone.
    workspace.folder("clone/part");
    let part = |profile: &str| {
        workspace
            .jail()
            .flag("--clone", workspace.path("elsewhere"))
            .in_situation(&["mounts", &bind("clone/part", "elsewhere")])
            .flag("--profile", workspace.path(profile))
            .run_program(&["printenv", "FROM"])
    };
    lies_around(&part("clone/p.toml"));
    assert_eq!(part("conf/p.toml").code, Some(0), "vacuous");
    // Control: a bind mount as such is no reason.
    let jail = workspace
        .jail_with_out()
        .in_situation(&["mounts", &bind("conf", "elsewhere")]);
    let run = jail
        .flag("--profile", workspace.path("elsewhere/p.toml"))
        .run_program(&["printenv", "FROM"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn nobody_else_can_have_changed_it() {
    let workspace = Workspace::with_git();
    let profile = write(&workspace, "conf/p.toml", TEXT);
    accepted(&workspace, "conf/p.toml");
    for mode in [0o620, 0o602, 0o666, 0o664] {
        chmod(&profile, mode);
        refused(
            &workspace,
            "conf/p.toml",
            &[],
            "others than its owner can write to it",
        );
    }
    for mode in [0o400, 0o644, 0o755] {
        chmod(&profile, mode);
        accepted(&workspace, "conf/p.toml");
    }
    // The other name may be one in the clone.
    let other = workspace.path("clone/other-name");
    fs::hard_link(&profile, &other).expect("a hard link");
    refused(&workspace, "conf/p.toml", &[], "hard links");
    fs::remove_file(&other).expect("it is there");
    accepted(&workspace, "conf/p.toml");
    if is_root() {
        chown(&profile, Some(4711), None).expect("chown");
        refused(&workspace, "conf/p.toml", &[], "it is of uid 4711");
    } else {
        // Root's is read: what is wrong with this one is that it is no TOML.
        let run = workspace
            .jail()
            .flag("--profile", "/etc/passwd")
            .refused("usage");
        assert!(run.refusal().contains("/etc/passwd:1"), "{run:#?}");
    }
}
