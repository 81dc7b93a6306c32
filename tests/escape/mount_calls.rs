//! Every way to change the mount table (CVE-2021-41133).

use crate::common::{Attack, Workspace, assert_denied, assert_denied_either_way, path_str};

const DENIED: &[&str] = &["EPERM"];
const ABSENT: &[&str] = &["ENOSYS"];

#[test]
fn no_mount_call_reaches_the_kernel() {
    let workspace = Workspace::with_git();
    let old = [
        "mount @none @/tmp @tmpfs 0 0",
        "mount @none @/ @none MS_REMOUNT|MS_BIND 0",
        "umount2 @/proc MNT_DETACH",
        "pivot_root @/ @/",
        "chroot @/tmp",
    ];
    let new = [
        "fsopen @tmpfs 0",
        "fsconfig 0 0 0 0 0",
        "fsmount 0 0 0",
        "fspick AT_FDCWD @/ 0",
        "open_tree AT_FDCWD @/ OPEN_TREE_CLONE",
        "open_tree_attr AT_FDCWD @/ OPEN_TREE_CLONE %0,1,0,0 32",
        "move_mount AT_FDCWD @/tmp AT_FDCWD @/usr 0",
        "mount_setattr AT_FDCWD @/ AT_RECURSIVE %0,1,0,0 32",
    ];
    let attacks: Vec<Attack> = (old.iter().map(|call| Attack::filtered(call, DENIED)))
        .chain(new.iter().map(|call| Attack::filtered(call, ABSENT)))
        .collect();
    assert_denied(&workspace, workspace.jail().writable(), &attacks);
}

#[test]
fn the_attacks_themselves_fail_where_capabilities_would_let_them() {
    let workspace = Workspace::new();
    let calls = [
        ("syscall mount @none @/tmp @tmpfs 0 0", DENIED),
        ("syscall umount2 @/proc MNT_DETACH", DENIED),
        ("syscall chroot @/tmp", DENIED),
        ("syscall fsopen @tmpfs 0", ABSENT),
        (
            "syscall open_tree AT_FDCWD @/ OPEN_TREE_CLONE|AT_RECURSIVE",
            ABSENT,
        ),
        (
            "syscall mount_setattr AT_FDCWD @/ AT_RECURSIVE %1,0,0,0 32",
            ABSENT,
        ),
    ];
    // umount2 of a locked mount is EINVAL in a fresh user namespace; the rest
    // works there.
    let attacks = calls.map(|(call, errnos)| {
        let attack = Attack::new(call, errnos).control_in_userns();
        if call.contains("umount2") {
            attack.control_answers("EINVAL")
        } else {
            attack
        }
    });
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn git_stays_covered() {
    let workspace = Workspace::with_git();
    let git = workspace.clone_dir().join(".git");
    let dir = path_str(&git).to_owned();
    let run = workspace.jail().writable().run(&[
        "seq",
        &format!("syscall umount2 @{dir} MNT_DETACH"),
        &format!("syscall mount @none @{dir} @none MS_REMOUNT|MS_BIND 0"),
        &format!("write {dir}/config x"),
        &format!("write {dir}/../tracked x"),
    ]);
    assert_eq!(
        run.lines(),
        ["EPERM", "EPERM", "EROFS", "ok"],
        "the last is the control"
    );
}
