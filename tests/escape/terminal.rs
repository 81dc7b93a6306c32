//! Input injection: CVE-2017-5226, CVE-2019-10063, CVE-2023-28100.

use std::ffi::OsStr;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};

use crate::common::desk::wait_until;
use crate::common::host::{children_of, processes_named, status_field};
use crate::common::{Attack, Desk, Workspace, assert_denied_either_way};

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
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
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

/// The session is pid 1's; in its group an interrupt would be for pid 1 too.
#[test]
fn the_command_is_in_the_jails_session_and_leads_a_group_of_its_own() {
    let workspace = Workspace::new();
    for situation in [&["new-session"][..], &["in-pty"], &["parent"]] {
        for flag in ["--no-tty", "--tty"] {
            let jail = workspace.jail().switch(flag).in_situation(situation);
            let run = jail.run_program(&[workspace.probe().as_os_str(), OsStr::new("state")]);
            let text = run.outcome().replace('\r', "");
            let is_so = |line: &str| text.lines().any(|one| one == line);
            assert!(
                is_so("session=1") && is_so("group=own"),
                "{situation:?} {flag}: {run:#?}"
            );
        }
    }
    // Control: without the jail both are the caller's.
    let outside = workspace.unjailed_in(&["parent"], &["state"]);
    let own = format!("session={}", getsid(None).expect("our session"));
    let lines = outside.lines();
    assert!(lines.contains(&own.as_str()), "vacuous: {outside:#?}");
    assert!(!lines.contains(&"group=own"), "vacuous: {outside:#?}");
}

/// What the kernel sends to the group in the jail's foreground isn't for pid 1, and what
/// the command sends to its own group isn't either.
#[test]
fn a_signal_to_the_commands_group_is_for_the_command_alone() {
    let workspace = Workspace::new();
    let script = "trap 'echo caught' INT; kill -INT 0; echo alive";
    let run = workspace.jail().run_program(&["sh", "-c", script]);
    assert_eq!(run.outcome(), "caught\nalive");
}

/// Typed into the queue of the terminal at `desk` and not yet read.
fn waiting(desk: &Desk) -> usize {
    groom_ns::sys::process::bytes_in_pipe(desk.terminal())
}

#[test]
fn nothing_is_typed_on_the_terminal_outside_of_the_jails_own() {
    let workspace = Workspace::new();
    // A canonical queue shows whole lines alone (ioctl_tty(2), FIONREAD).
    let newline = "syscall ioctl 0 TIOCSTI %10";
    let mut desk = Desk::with(
        &workspace,
        &[
            "bash",
            "-c",
            &format!("$P {newline}; echo do''ne; exec sleep 60"),
        ],
    );
    assert!(
        desk.wait_for("done").contains("ok 0"),
        "vacuous: no TIOCSTI here"
    );
    wait_until("control: it is typed outside", || waiting(&desk) > 0);

    let inside = "for fd in 0 1 2; do \"$0\" syscall ioctl $fd TIOCSTI %10; done; \"$0\" syscall ioctl 0 TIOCLINUX %10";
    let script = format!("$G -- sh -c '{inside}' $P; echo do''ne; exec sleep 60");
    let mut desk = Desk::with(&workspace, &["bash", "-c", &script]);
    let said = desk.wait_for("done");
    assert_eq!(said.matches("EPERM").count(), 4, "{said}");
    assert_eq!(waiting(&desk), 0);
}

#[test]
fn no_name_in_the_jail_leads_to_the_terminal_outside() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let name = "stat -Lc %t:%T:%d:%i";
    let outside = desk.run(&format!("{name} $(tty); {name} /dev/fd/0"));
    let outside: Vec<&str> = outside.lines().collect();
    assert_eq!(outside[0], outside[1], "vacuous: two names of one terminal");
    // By each number, each descriptor of each process, and as the controlling terminal.
    let inside = desk.run(&format!(
        "$G -- sh -c '{name} /dev/pts/* /proc/[0-9]*/fd/* /dev/console /dev/tty[0-9]* 2>/dev/null; ls -1 /dev/pts; ls /proc/1/fd; tty </dev/tty'"
    ));
    assert!(!inside.contains(outside[0]), "{inside}");
    assert!(inside.contains("\n0\nptmx\n"), "one terminal: {inside}");
    assert!(
        inside.contains("/proc/1/fd': Permission denied"),
        "{inside}"
    );
    assert!(
        inside.trim_end().ends_with("/dev/tty") || inside.trim_end().ends_with("/dev/pts/0"),
        "{inside}"
    );
}

/// Its holder could type into the jail's foreground, change its size, and hang it up.
#[test]
fn no_process_of_the_jail_holds_the_master() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let inside = desk.run("$G -- $P fds");
    let fds = ["0", "1", "2"].map(|fd| format!("{fd}=char:/dev/pts/0"));
    assert_eq!(
        inside.lines().next(),
        Some(&*format!("ok {}", fds.join(" ")))
    );
    if !crate::common::is_root() {
        eprintln!("vacuous for pid 1: a user can't look at it");
        return;
    }
    desk.line("$G -- $P sleep 60");
    desk.wait_for("ready");
    let groom = desk.foreground();
    let first = first_of_jail(groom);
    assert!(
        holds(groom.as_raw())
            .iter()
            .any(|one| one.ends_with("ptmx")),
        "vacuous"
    );
    let held = holds(first);
    assert!(held.iter().any(|one| one.ends_with("pts/0")), "{held:?}");
    assert!(!held.iter().any(|one| one.ends_with("ptmx")), "{held:?}");
}

/// What leads out of the process's own terminal too: descriptors by what they name.
fn holds(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("root may look");
    let names = entries.flatten().map(|fd| std::fs::read_link(fd.path()));
    names
        .flatten()
        .map(|name| name.display().to_string())
        .collect()
}

/// The child of groom-ns that is pid 1 in a namespace of its own.
fn first_of_jail(groom: Pid) -> i32 {
    let is_first = |pid: &i32| status_field(*pid, "NSpid:").ends_with(" 1");
    let first = children_of(groom.as_raw()).into_iter().find(is_first);
    first.expect("pid 1 of the jail")
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
