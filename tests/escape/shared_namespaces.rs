//! Namespaces shared with the host: what goes on there, or a name of it, would
//! be the command's to see.

use crate::common::{Workspace, path_str};

const KINDS: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];

#[test]
fn every_namespace_is_the_jails_own() {
    let workspace = Workspace::new();
    let links = KINDS.map(|kind| format!("/proc/self/ns/{kind}"));
    let argv = [&["readlink".to_owned()], links.as_slice()].concat();
    // Control: the test's own children share them all with the test.
    let here = links.clone().map(|link| {
        let target = std::fs::read_link(link).expect("a namespace");
        path_str(&target).to_owned()
    });
    let outside = std::process::Command::new("readlink")
        .args(&links)
        .output()
        .expect("readlink");
    let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
    assert_eq!(outside.lines().collect::<Vec<_>>(), here, "vacuous");

    let run = workspace.jail().run_program(&argv);
    let inside: Vec<&str> = run.outcome().lines().collect();
    assert_eq!(inside.len(), KINDS.len(), "{run:#?}");
    for ((kind, here), inside) in KINDS.iter().zip(&here).zip(inside) {
        assert!(inside.starts_with(&format!("{kind}:[")), "{run:#?}");
        assert_ne!(inside, here, "the host's {kind} namespace");
    }
}

#[test]
fn no_cgroup_of_the_host_is_named() {
    // Its path tells which service or container started groom-ns.
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["read", "/proc/self/cgroup"]);
    for line in run.lines() {
        assert!(line.ends_with(":/"), "a path in the host's tree: {line}");
    }
}

#[test]
fn the_name_of_the_host_is_not_told() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["read", "/proc/sys/kernel/hostname"]);
    assert_eq!(run.ok(), "groom-ns");
}
