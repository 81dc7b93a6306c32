//! Setup calls that something outside answers with success and doesn't make, as
//! some containers' filters do to please programs that want to be root: what
//! stands is read back and tried out, so that nothing runs half confined.

use crate::common::Workspace;

/// A call, and words of which the refusal has one: it says what was noticed.
const PRETENDED: &[(&str, &[&str])] = &[
    // Pid 1 reads the mount table back, and meanwhile the command's process tries to write:
    // either is the first to say so.
    ("mount_setattr", &["writable", "must be EROFS"]),
    ("umount2", &["writable"]),
    // The command's process tries what it may no longer do.
    ("capset", &["capabilities"]),
    // PR_CAPBSET_DROP
    ("prctl:0:24", &["bounding"]),
    ("landlock_restrict_self", &["canary"]),
    ("seccomp", &["AF_VSOCK"]),
];

#[test]
fn a_step_that_was_not_done_is_noticed() {
    let workspace = Workspace::with_git();
    for (call, words) in PRETENDED {
        let run = workspace
            .jail_with_out()
            .writable()
            .in_situation(&["deny-syscall", call, "0"])
            .refused("selfcheck");
        let refusal = run.refusal();
        let says = words.iter().any(|word| refusal.contains(word));
        assert!(says, "{call}: {run:#?}");
    }
    // Control: a filter of the probe's, on a call that isn't made.
    let jail = workspace.jail_with_out().writable();
    let run = jail.in_situation(&["deny-syscall", "acct", "0"]);
    assert_eq!(run.run(&["say", "ran"]).ok(), "ran");
}

#[test]
fn a_namespace_that_could_be_made_is_noticed_where_sockets_are_denied() {
    // Something outside denies AF_VSOCK (40) and AF_ALG (38) as our filter would,
    // and pretends that ours was installed.
    let workspace = Workspace::new();
    let probe = workspace.probe();
    let probe = crate::common::path_str(&probe);
    let eafnosupport = "97";
    let situation = [
        &["deny-syscall", "socket:0:40", eafnosupport, "--"][..],
        &[probe, "deny-syscall", "socket:0:38", eafnosupport, "--"],
        &[probe, "deny-syscall", "seccomp", "0"],
    ]
    .concat();
    let run = workspace
        .jail_with_out()
        .in_situation(&situation)
        .refused("selfcheck");
    assert!(run.refusal().contains("CLONE_NEWUSER"), "{run:#?}");
}

#[test]
fn as_root_an_identity_that_was_not_taken_is_noticed() {
    let workspace = Workspace::new();
    let probe = workspace.probe();
    for call in ["setgroups", "setresgid", "setresuid"] {
        // In a group of the caller's, which would be kept.
        let groups = ["with-groups", "4343", "--"];
        let pretended = [crate::common::path_str(&probe), "deny-syscall", call, "0"];
        if !crate::common::is_root() {
            // A user's ids are its own and stay: nothing depends on the call.
            let jail = workspace.jail().in_situation(&pretended[1..]);
            assert_eq!(jail.run(&["say", "ran"]).ok(), "ran", "{call}");
            continue;
        }
        let situation = [&groups[..], &pretended].concat();
        let run = workspace
            .jail_with_out()
            .in_situation(&situation)
            .refused("identity");
        assert!(run.refusal().contains("still the caller's"), "{run:#?}");
    }
}
