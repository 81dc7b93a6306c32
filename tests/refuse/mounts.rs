//! Bind mounts give one file two paths, which are apart by their text.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{Jail, Workspace, path_str};

/// A clone with folders and files to bind.
fn workspace() -> Workspace {
    let workspace = Workspace::with_git();
    for name in ["clone/sub/file", "given/sub/file", "other/sub/file"] {
        workspace.file(name, "before");
    }
    for name in ["clone/point", "given/point", "out/point", "holder/point"] {
        workspace.folder(name);
    }
    workspace
}

/// `bind:FROM:TO` in the workspace.
fn bind(workspace: &Workspace, from: &str, to: &str) -> String {
    let [from, to] = [from, to].map(|name| workspace.path(name));
    format!("bind:{}:{}", path_str(&from), path_str(&to))
}

fn jail(workspace: &Workspace, writable: bool) -> Jail {
    let jail = workspace
        .jail_with_out()
        .flag("--ro-file", workspace.path("given"));
    if writable { jail.writable() } else { jail }
}

/// What is bound where, in which mode of the clone; a path to write to, and the
/// one that what was written can be read from.
type Way = (&'static str, &'static str, bool, &'static str, &'static str);

const WAYS: [Way; 11] = [
    ("given/sub", "out", false, "out/file", "given/sub/file"),
    (
        "given/sub",
        "out/point",
        false,
        "out/point/file",
        "given/sub/file",
    ),
    (
        "",
        "out/point",
        false,
        "out/point/given/sub/file",
        "given/sub/file",
    ),
    ("clone/sub", "out", false, "out/file", "clone/sub/file"),
    ("clone/sub", "out", true, "out/file", "clone/sub/file"),
    (
        "clone/.git",
        "out/point",
        true,
        "out/point/config",
        "clone/.git/config",
    ),
    (
        "clone/.git/hooks",
        "out",
        true,
        "out/hook",
        "clone/.git/hooks/hook",
    ),
    (
        "out/point",
        "given/point",
        false,
        "out/point/x",
        "given/point/x",
    ),
    (
        "clone/sub",
        "given/point",
        true,
        "clone/sub/x",
        "given/point/x",
    ),
    (
        "clone/.git/hooks",
        "clone/point",
        true,
        "clone/point/x",
        "clone/.git/hooks/x",
    ),
    (
        "clone",
        "clone/point",
        true,
        "clone/point/.git/config",
        "clone/.git/config",
    ),
];

#[test]
fn a_writable_way_to_what_is_read_only() {
    for (from, to, rw, write, read) in WAYS {
        let workspace = workspace();
        let bind = bind(&workspace, from, to);
        let situation = ["mounts", &bind];
        let run = jail(&workspace, rw)
            .in_situation(&situation)
            .refused("overlap");
        assert!(
            run.refusal().contains(path_str(workspace.root())),
            "{run:#?}"
        );
        // Control: what is written to the one is read from the other.
        let write = format!("write {} planted", path_str(&workspace.path(write)));
        let read = format!("read {}", path_str(&workspace.path(read)));
        let outside = workspace.unjailed_in(&situation, &["seq", &write, &read]);
        assert_eq!(outside.lines(), ["ok", "ok planted"], "vacuous: {bind}");
    }
}

#[test]
fn a_writable_way_to_the_system() {
    for from in ["/etc", "/usr/share"] {
        for to in ["out", "out/point", "clone/point"] {
            let workspace = workspace();
            let to = workspace.path(to);
            let bind = format!("bind:{from}:{}", path_str(&to));
            let situation = ["mounts", &bind];
            // As a user it can't be written, so that the out-dir is refused for that.
            let code = if to.ends_with("out") && !crate::common::is_root() {
                "path"
            } else {
                "overlap"
            };
            jail(&workspace, true)
                .in_situation(&situation)
                .refused(code);
            // Control: it is the system's.
            let lists = [
                "each",
                &format!("list {from}"),
                &format!("list {}", path_str(&to)),
            ];
            let outside = workspace.unjailed_in(&situation, &lists);
            let lines = outside.lines();
            assert_eq!(lines[0], lines[1], "vacuous: {bind}");
        }
    }
}

#[test]
fn a_link_of_gits_to_another_way_into_the_worktree() {
    let workspace = workspace();
    let hook = workspace.path("clone/.git/hooks/x");
    symlink(workspace.path("holder/point/file"), &hook).expect("a link");
    let bind = bind(&workspace, "clone/sub", "holder/point");
    let situation = ["mounts", &bind];
    let run = jail(&workspace, true)
        .in_situation(&situation)
        .refused("git");
    assert!(run.refusal().contains(path_str(&hook)), "{run:#?}");
    let write = format!(
        "write {} planted",
        path_str(&workspace.path("clone/sub/file"))
    );
    let read = format!("read {}", path_str(&hook));
    let outside = workspace.unjailed_in(&situation, &["seq", &write, &read]);
    assert_eq!(outside.lines(), ["ok", "ok planted"], "vacuous");
}

#[test]
fn a_mount_in_a_git_is_refused_by_name() {
    let workspace = workspace();
    for (from, to) in [
        ("clone/.git/hooks", "clone/.git/hooks"),
        ("other/sub", "clone/.git/info"),
        ("clone/.git", "clone/.git"),
        // By its contents that is a bare repository.
        ("clone/.git", "clone/point"),
    ] {
        let bind = bind(&workspace, from, to);
        let situation = ["mounts", &bind];
        let run = jail(&workspace, true)
            .in_situation(&situation)
            .refused("git");
        assert!(
            run.refusal().contains(path_str(&workspace.path(to))),
            "{run:#?}"
        );
        // Control: read-only it is no matter.
        let run = jail(&workspace, false)
            .in_situation(&situation)
            .run(&["say", "ran"]);
        assert_eq!(run.ok(), "ran");
    }
}

#[test]
fn a_git_that_somebody_made_read_only_already_is_taken() {
    let workspace = workspace();
    let git = workspace.path("clone/.git");
    let read_only = format!("read-only:{}", path_str(&git));
    let read = format!("read {}", path_str(&git.join("HEAD")));
    let write = format!("write {} x", path_str(&git.join("config")));
    let run = jail(&workspace, true)
        .in_situation(&["mounts", &read_only])
        .run(&["each", &read, &write]);
    assert_eq!(
        run.lines(),
        ["ok ref: refs/heads/main", "EROFS"],
        "{run:#?}"
    );
}

#[test]
fn mounts_that_show_one_place_once_are_taken() {
    for (from, to, rw) in [
        ("other/sub", "out", false),
        ("other/sub", "clone/point", true),
        ("clone/sub", "clone/point", true),
        ("clone", "clone", true),
        ("clone/sub", "given/point", false),
        ("other", "given", true),
    ] {
        let workspace = workspace();
        let bind = bind(&workspace, from, to);
        let write = workspace.path("out/new");
        let run = jail(&workspace, rw).in_situation(&["mounts", &bind]).run(&[
            "write",
            path_str(&write),
            "x",
        ]);
        assert_eq!(run.ok(), "", "{bind}: {run:#?}");
        let landed = if to == "out" {
            "other/sub/new"
        } else {
            "out/new"
        };
        assert!(
            fs::exists(workspace.path(landed)).expect("a folder"),
            "{bind}"
        );
    }
}
