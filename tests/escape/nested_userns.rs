//! A nested user and mount namespace, in which a held folder descriptor leads
//! beneath the covers.

use crate::common::{Attack, Workspace, assert_denied_either_way, path_str};

const NAMESPACES: [&str; 7] = [
    "CLONE_NEWUSER",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWNET",
    "CLONE_NEWIPC",
    "CLONE_NEWUTS",
    "CLONE_NEWCGROUP",
];

#[test]
fn a_held_descriptor_leads_nowhere() {
    let workspace = Workspace::with_git();
    let clone = workspace.clone_dir();
    let git = clone.join(".git");
    let steps = [
        format!(
            "syscall openat AT_FDCWD @{} O_PATH|O_DIRECTORY",
            path_str(&clone)
        ),
        "syscall unshare CLONE_NEWUSER|CLONE_NEWNS".to_owned(),
        "syscall openat 3 @.git/config O_WRONLY".to_owned(),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    // Control: in a mount namespace with the same cover and nobody else in it,
    // the second namespace uncovers it.
    let cover = format!("read-only:{}", path_str(&git));
    let outside = workspace.unjailed_in(&["mounts", &cover], &[&["seq"], &steps[..]].concat());
    assert_eq!(outside.lines(), ["ok 3", "ok 0", "ok 4"], "vacuous");

    let run = workspace
        .jail()
        .writable()
        .run(&[&["seq"], &steps[..]].concat());
    assert_eq!(run.lines(), ["ok 3", "EPERM", "EROFS"]);
}

/// The same, whichever of the mechanisms it is that stops it.
#[test]
fn what_is_covered_stays_so() {
    let workspace = Workspace::with_git();
    let clone = path_str(&workspace.clone_dir()).to_owned();
    let run = workspace.jail().writable().run(&[
        "seq",
        &format!("syscall openat AT_FDCWD @{clone} O_PATH|O_DIRECTORY"),
        "syscall unshare CLONE_NEWUSER|CLONE_NEWNS",
        "syscall openat 3 @.git/config O_WRONLY",
        "syscall openat 3 @tracked O_WRONLY",
    ]);
    let [_, _, covered, control] = run.lines()[..] else {
        panic!("four answers: {run:#?}")
    };
    assert_eq!((covered, control), ("EROFS", "ok 4"), "{run:#?}");
}

#[test]
fn each_of_the_other_mechanisms_is_there_too() {
    // That each alone is enough is shown by removing the others from the
    // program; from outside, that each is in place.
    let workspace = Workspace::with_git();
    let run = workspace
        .jail()
        .run(&["read", "/proc/sys/user/max_user_namespaces"]);
    assert_eq!(run.ok(), "0", "the limit of the jail's own namespace");
    // Pid 1 stays in the mount namespace, or it would end with the command's.
    let run = workspace.jail().run(&["stat", "/proc/1/ns/mnt"]);
    assert!(run.ok().starts_with("link"), "{run:#?}");
}

#[test]
fn no_namespace_can_be_made() {
    let workspace = Workspace::new();
    let mut attacks = Vec::new();
    for flag in NAMESPACES {
        attacks.push(Attack::filtered(&format!("unshare {flag}"), &["EPERM"]));
        attacks.push(Attack::filtered(&format!("clone {flag}"), &["EPERM"]));
        // With SIGCHLD, as fork(2) has it, and with bits that the kernel ignores.
        attacks.push(Attack::filtered(&format!("clone {flag}|17"), &["EPERM"]));
        attacks.push(Attack::filtered(
            &format!("clone {flag}|0x100000000"),
            &["EPERM"],
        ));
        attacks.push(Attack::filtered(
            &format!("unshare {flag}|0x100000000"),
            &["EPERM"],
        ));
    }
    // CLONE_NEWTIME is of unshare alone: as a clone flag it is part of the signal.
    attacks.push(Attack::filtered("unshare 0x80", &["EPERM"]));
    attacks.push(Attack::filtered("setns 0 0", &["EPERM"]));
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn the_attempts_themselves_fail() {
    let workspace = Workspace::new();
    let attacks = NAMESPACES
        .map(|flag| Attack::new(format!("syscall unshare {flag}"), &["EPERM"]).control_in_userns());
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
    let attack =
        Attack::new("setns /proc/self/ns/uts CLONE_NEWUTS", &["EPERM"]).control_in_userns();
    assert_denied_either_way(&workspace, || workspace.jail(), &[attack]);
}
