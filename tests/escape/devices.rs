//! Device nodes: made by the command, or planted where it looks.

use crate::common::{
    Attack, Workspace, assert_denied, assert_denied_either_way, is_root, path_str,
};

#[test]
fn no_device_node_can_be_made() {
    let workspace = Workspace::with_git();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    let out = path_str(&workspace.folder("out")).to_owned();
    let mut attacks = Vec::new();
    for place in ["/tmp", &clone, &out] {
        for device in ["S_IFCHR|0x1b6 0x105", "S_IFCHR 0", "S_IFBLK|0x1b6 0x800"] {
            attacks.push(Attack::filtered(
                &format!("mknod @{place}/node {device}"),
                &["EPERM"],
            ));
        }
    }
    assert_denied(&workspace, workspace.jail_with_out().writable(), &attacks);
}

#[test]
fn no_whiteout_is_left_behind() {
    let workspace = Workspace::new();
    let out = workspace.folder("out");
    let control = workspace.folder("control");
    for folder in [&out, &control] {
        std::fs::write(folder.join("a"), "text").expect("a file");
    }
    let rename = |folder: &std::path::Path, flags: u32| {
        let folder = path_str(folder);
        format!("syscall renameat2 AT_FDCWD @{folder}/a AT_FDCWD @{folder}/b {flags}")
    };
    // RENAME_WHITEOUT is 4.
    let attack = Attack::new(rename(&out, 4), &["EPERM"]).control(rename(&control, 4));
    assert_denied(&workspace, workspace.jail_with_out(), &[attack]);
    let run = workspace
        .jail_with_out()
        .run(&["each", &rename(&out, 1 << 0)]);
    assert_eq!(run.lines(), ["ok 0"], "other flags work");
}

#[test]
fn no_lease_keeps_the_host_from_opening_a_file() {
    let workspace = Workspace::new();
    // F_SETLEASE is 1024; as in `filtered`, nothing is leased by the control.
    let leases = [
        Attack::filtered("fcntl 0 1024 0", &["EPERM"]),
        Attack::filtered("fcntl 0 0xffffffff00000400 1", &["EPERM"]),
    ];
    assert_denied_either_way(&workspace, || workspace.jail(), &leases);
}

#[test]
fn a_planted_device_cannot_be_opened() {
    let workspace = Workspace::new();
    if !is_root() {
        // Only root can plant one; that every granted tree is `nodev` shows the
        // same for a user.
        let run = workspace.jail().run(&["read", "/proc/mounts"]);
        let line = run
            .lines()
            .into_iter()
            .find(|line| line.contains("/clone "));
        assert!(line.is_some_and(|line| line.contains("nodev")), "{run:#?}");
        return;
    }
    let node = workspace.clone_dir().join("zero");
    let kind = nix::sys::stat::SFlag::S_IFCHR;
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
    nix::sys::stat::mknod(&node, kind, mode, nix::sys::stat::makedev(1, 5)).expect("root");
    crate::common::host::chmod(&node, 0o666);
    let attempt = format!("syscall openat AT_FDCWD @{} O_RDONLY", path_str(&node));
    let attack = Attack::new(attempt, &["EACCES", "ENXIO"]);
    assert_denied_either_way(&workspace, || workspace.jail(), &[attack]);
}
