//! Input injection: CVE-2017-5226, CVE-2019-10063, CVE-2023-28100.

use crate::common::{Attack, Workspace, assert_denied};

#[test]
fn no_request_types_into_a_terminal() {
    let workspace = Workspace::new();
    // The kernel compares 32 bits of a request; so must the filter.
    let requests = [
        "TIOCSTI",
        "0x100005412",
        "TIOCLINUX",
        "0x10000541c",
        "TIOCSETD",
    ];
    let attacks =
        requests.map(|request| Attack::filtered(&format!("ioctl 0 {request} %10"), &["EPERM"]));
    assert_denied(&workspace, workspace.jail(), &attacks);
}

#[test]
fn nothing_is_typed_on_the_callers_terminal() {
    let workspace = Workspace::new();
    let typed = ["syscall", "ioctl", "0", "TIOCSTI", "%10"];
    // Control: without the jail a byte shows up in the terminal's input.
    let outside = workspace.unjailed_in(&["in-pty"], &typed);
    assert_eq!(
        outside.outcome(),
        "ok 0",
        "vacuous: this kernel has no TIOCSTI (legacy_tiocsti)"
    );
    assert!(
        outside.stderr.contains("probe: 1 bytes typed"),
        "vacuous: {outside:#?}"
    );

    let run = workspace.jail().in_situation(&["in-pty"]).run(&typed);
    assert_eq!(run.outcome(), "EPERM");
    assert!(run.stderr.contains("probe: 0 bytes typed"), "{run:#?}");
}

#[test]
fn the_callers_terminal_cannot_be_opened() {
    let workspace = Workspace::new();
    let open = ["syscall", "openat", "AT_FDCWD", "@/dev/tty", "O_RDWR"];
    let outside = workspace.unjailed_in(&["in-pty"], &open);
    assert!(outside.outcome().starts_with("ok"), "vacuous: {outside:#?}");
    let run = workspace.jail().in_situation(&["in-pty"]).run(&open);
    assert!(
        ["ENXIO", "EIO"].contains(&run.outcome()),
        "no controlling terminal: {run:#?}"
    );
}

#[test]
fn the_command_is_in_a_session_of_its_own() {
    let workspace = Workspace::new();
    for situation in [&["new-session"][..], &["in-pty"], &["parent"]] {
        let run = workspace.jail().in_situation(situation).run(&["state"]);
        let session = run
            .lines()
            .iter()
            .find_map(|line| line.strip_prefix("session="));
        // 0 is a session outside the pid namespace.
        assert!(
            session.is_some_and(|id| id != "0"),
            "{situation:?}: {run:#?}"
        );
    }
}
