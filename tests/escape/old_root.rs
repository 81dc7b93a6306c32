//! Ways back to the host's root (hakoniwa#164, shocker).

use crate::common::{Attack, Workspace, assert_denied, path_str};

#[test]
fn no_link_of_proc_leads_out() {
    let workspace = Workspace::new();
    let root = workspace.jail().run(&["list", "/"]).ok().to_owned();
    let run = workspace.jail().run(&["links"]);
    for line in run.lines() {
        if let Some((_, listed)) = line.split_once(" root: ") {
            let own = listed == format!("ok {root}");
            assert!(
                own || ["EACCES", "EPERM"].contains(&listed),
                "another root: {line}"
            );
        }
        assert!(
            !line.contains("(deleted)") && !line.contains("unreachable"),
            "{line}"
        );
    }
}

#[test]
fn walking_upwards_ends_at_the_jails_root() {
    let workspace = Workspace::new();
    let up = "../".repeat(40);
    let items = [
        "list /",
        &format!("list /{up}"),
        &format!("list {up}"),
        "list /proc/self/root/..",
    ];
    let run = workspace.jail().run(&[&["each"], &items[..]].concat());
    let lines = run.lines();
    assert!(lines.iter().all(|line| *line == lines[0]), "{run:#?}");
    // Control: from the same folder outside, the same walk ends at the host's root.
    let outside = workspace.unjailed(&["list", &up]);
    assert_ne!(outside.outcome(), lines[0], "vacuous: one root");
}

#[test]
fn no_file_is_opened_by_its_handle() {
    let workspace = Workspace::new();
    // Not a file of the system, whose root may be an overlay, which has no handles.
    let file = path_str(&workspace.probe()).to_owned();
    let attacks = [
        Attack::filtered("open_by_handle_at 0 %0,0 0", &["EPERM"]),
        Attack::new(format!("by-handle {file}"), &["EPERM", "ENOSYS"])
            .control("say vacuous-as-a-user"),
    ];
    assert_denied(&workspace, workspace.jail(), &attacks);
    if crate::common::is_root() {
        let outside = workspace.unjailed(&["by-handle", &file]);
        assert_eq!(outside.outcome(), "ok", "vacuous: root can't either");
    }
}

#[test]
fn the_old_root_is_not_in_the_mount_table() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["read", "/proc/self/mountinfo"]);
    let roots: Vec<&str> = run
        .lines()
        .into_iter()
        .filter(|line| line.split(' ').nth(4) == Some("/"))
        .collect();
    assert_eq!(roots.len(), 1, "one root: {roots:?}");
    assert!(roots[0].contains(" - tmpfs "), "the jail's own: {roots:?}");
}
