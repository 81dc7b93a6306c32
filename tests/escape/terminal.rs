//! Input injection: CVE-2017-5226, CVE-2019-10063, CVE-2023-28100.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::host::processes_named;
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
        // 0 is a session outside the pid namespace, 1 is pid 1's, in whose group an
        // interrupt would be for pid 1 too.
        assert!(
            session.is_some_and(|id| !["0", "1"].contains(&id)),
            "{situation:?}: {run:#?}"
        );
    }
    // Control: without the jail it is the caller's.
    let outside = workspace.unjailed_in(&["parent"], &["state"]);
    let own = format!(
        "session={}",
        nix::unistd::getsid(None).expect("our session")
    );
    assert!(
        outside.lines().contains(&own.as_str()),
        "vacuous: {outside:#?}"
    );
}

#[test]
fn pid_1_is_out_of_the_terminals_reach_too() {
    // Else it would get an interrupt twice, from the terminal and passed on.
    let workspace = Workspace::new();
    let (copy, name) = workspace.named_binary();
    let jail = workspace.jail().binary(copy).in_situation(&["in-pty"]);
    let mut child = jail.start(&["sleep", "60"]);
    crate::common::jail::wait_for_line(&mut child, "ready");
    let mut found: Vec<Place> = processes_named(&name).into_iter().map(Place::of).collect();
    found.sort_by_key(|process| process.terminal == 0);
    for process in &found {
        // Pid 1 may have died with the launcher already.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    }
    let _ = crate::common::finish(child);
    let [launcher, first] = &found[..] else {
        panic!("the launcher and pid 1: {found:?}")
    };
    assert_ne!(launcher.terminal, 0, "vacuous: no terminal outside");
    assert_eq!((first.terminal, first.session), (0, first.pid), "{found:?}");
}

/// A process's session and controlling terminal (proc_pid_stat(5)).
#[derive(Debug)]
struct Place {
    pid: i32,
    session: i32,
    terminal: i32,
}

impl Place {
    fn of(pid: i32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a live process");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
        let mut numbers = fields.split(' ').skip(3).map(str::parse);
        let mut next = || numbers.next().expect("a field").expect("a number");
        Place {
            pid,
            session: next(),
            terminal: next(),
        }
    }
}
