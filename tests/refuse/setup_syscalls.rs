//! Every call of every setup syscall, made to fail in turn: a step whose
//! failure goes unnoticed would degrade the jail silently.

use std::fs;

use crate::common::workspace::snapshot;
use crate::common::{Workspace, path_str};

/// Syscalls that only the setup makes, up to the command's execution, and an
/// errno that the kernel or an outer filter could answer. An entry that the
/// program doesn't call fails the test, so that this list stays true.
const SETUP: &[(&str, &str)] = &[
    ("clone", "EPERM"),
    ("sethostname", "EPERM"),
    // EPERM and ENOSYS are what an outer filter says; then the command has no
    // keyring of the caller's either, and the run goes on (tested below).
    ("keyctl", "EDQUOT"),
    ("sendto", "EPERM"),
    ("openat2", "EACCES"),
    ("socket", "EPERM"),
    ("socketpair", "EMFILE"),
    ("fsopen", "EPERM"),
    ("fsconfig", "EPERM"),
    ("fsmount", "EPERM"),
    ("open_tree", "EPERM"),
    ("mount_setattr", "EPERM"),
    ("move_mount", "EPERM"),
    ("mkdirat", "EIO"),
    ("symlinkat", "EIO"),
    ("pivot_root", "EPERM"),
    ("umount2", "EPERM"),
    ("chdir", "EACCES"),
    ("capset", "EPERM"),
    ("landlock_create_ruleset", "EPERM"),
    ("landlock_add_rule", "EPERM"),
    ("landlock_restrict_self", "EPERM"),
    ("seccomp", "EPERM"),
    ("close_range", "EPERM"),
    ("fchdir", "EACCES"),
    ("setsid", "EPERM"),
    ("prctl", "EPERM"),
];

/// Only as root: taking on the command's identity.
const SETUP_AS_ROOT: &[(&str, &str)] = &[
    ("setgroups", "EPERM"),
    ("setresgid", "EPERM"),
    ("setresuid", "EPERM"),
];

/// More calls of one syscall than any setup makes.
const CEILING: usize = 200;

#[test]
fn every_one_that_fails_refuses() {
    let workspace = Workspace::with_git();
    let as_root = if crate::common::is_root() {
        SETUP_AS_ROOT
    } else {
        &[]
    };
    let mut wrong = Vec::new();
    for (call, errno) in SETUP.iter().chain(as_root) {
        let mut nth = 1;
        while fail(&workspace, call, nth, errno, &mut wrong) {
            nth += 1;
            assert!(nth < CEILING, "{call} is called without end");
        }
        if nth == 1 {
            wrong.push(format!(
                "{call} isn't called by the setup: the list is out of date"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of the setup's failures:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Whether there was an `nth` call; what is wrong with its failure is noted.
fn fail(
    workspace: &Workspace,
    call: &str,
    nth: usize,
    errno: &str,
    wrong: &mut Vec<String>,
) -> bool {
    let out = workspace.out_dir();
    let before = snapshot(&workspace.clone_dir());
    let situation = ["fail-nth", call, &nth.to_string(), errno];
    // Without HOME: a home that can't be looked at is no reason to refuse.
    let jail = workspace
        .jail_with_out()
        .writable()
        .without_env("HOME")
        .in_situation(&situation);
    let run = jail.run(&["write", path_str(&out.join("marker")), "ran"]);
    let summary = run.stderr.lines().last().unwrap_or_default();
    let summary = summary
        .strip_prefix("probe: ")
        .unwrap_or_else(|| panic!("no summary: {run:#?}"));
    let calls: usize = summary
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a count");
    let mut note =
        |what: &str| wrong.push(format!("{call} #{nth}: {what}: {}", run.stderr.trim_end()));
    if summary.contains("survivors") {
        note("a process survived");
    }
    if calls >= nth {
        if run.code != Some(125) {
            note(&format!("ends with {:?}, not 125", run.code));
        } else if !run.stderr.contains("groom-ns: refused (") {
            note("no line of refusal");
        }
        if !run.stdout.is_empty() || out.join("marker").exists() {
            note("the command ran");
        } else if out.exists() {
            note("the out-dir was left behind");
        }
        if snapshot(&workspace.clone_dir()) != before {
            note("the clone changed");
        }
    }
    let _ = fs::remove_dir_all(&out);
    calls >= nth
}

#[test]
fn an_execution_that_fails_is_the_commands_error() {
    // Control of the above: what comes after the setup is no refusal.
    let workspace = Workspace::new();
    let jail = workspace
        .jail()
        .in_situation(&["fail-nth", "execve", "1", "EACCES"]);
    assert_eq!(jail.run(&["say", "ran"]).code, Some(126));
}

#[test]
fn a_keyctl_that_an_outer_filter_denies_is_denied_to_the_command_too() {
    let workspace = Workspace::new();
    for errno in ["EPERM", "ENOSYS"] {
        let jail = workspace
            .jail()
            .in_situation(&["deny-syscall", "keyctl", errno]);
        // KEYCTL_GET_KEYRING_ID of the session's keyring.
        let answer = jail.run(&["syscall", "keyctl", "0", "-3", "0"]);
        assert!(
            ["EPERM", "ENOSYS"].contains(&answer.outcome()),
            "{answer:#?}"
        );
    }
}
