//! Where the supervisor can't be asked, or can't answer, nothing runs.

use crate::common::Workspace;

#[test]
fn a_start_whose_filter_cannot_be_asked_about() {
    let workspace = Workspace::new();
    let jail = || workspace.jail().switch("--explain-denials");
    // SECCOMP_FILTER_FLAG_NEW_LISTENER and WAIT_KILLABLE_RECV.
    for errno in ["EBUSY", "EPERM", "EINVAL"] {
        let situation = ["deny-syscall", "seccomp:1:40", errno];
        let run = jail().in_situation(&situation).refused("seccomp");
        assert!(run.refusal().contains(errno), "{run:#?}");
        let has_way = run.refusal().contains("leave --explain-denials out");
        assert_eq!(has_way, errno == "EBUSY", "{run:#?}");
        // Control: without the flag there is no such call.
        let run = workspace
            .jail()
            .in_situation(&situation)
            .run(&["say", "ran"]);
        assert_eq!(run.ok(), "ran");
    }
}

#[test]
fn a_supervisor_that_cannot_answer() {
    let workspace = Workspace::new();
    // SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND: the self-check is the first
    // to wait for an answer.
    for request in ["0xc0502100", "0xc0182101"] {
        let calls = format!("ioctl:1:{request}");
        let situation = ["deny-syscall", &calls, "EIO"];
        let jail = workspace.jail().switch("--explain-denials");
        let run = jail.in_situation(&situation).run(&["say", "ran"]);
        // Nothing ran; but pid 1 may have been told to let it.
        assert!([Some(125), Some(137)].contains(&run.code), "{run:#?}");
        assert!(
            run.stderr.contains("a denied call can't be answered"),
            "{run:#?}"
        );
        assert_eq!(run.stdout, "");
    }
}
