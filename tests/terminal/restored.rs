//! The caller's terminal is as it was, however a run ends.

use nix::fcntl::{OFlag, open};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::termios::Termios;
use nix::unistd::{Pid, mkfifo, write};

use crate::common::desk::{PROMPT, state, wait_until};
use crate::common::host::{self, children_of, processes_named};
use crate::common::{Desk, Workspace, is_root};

#[test]
fn after_every_kind_of_end() {
    let workspace = Workspace::new();
    workspace.file("clone/text", "no program");
    let mut desk = Desk::new(&workspace);
    let before = desk.mode();
    for (line, code) in [
        ("$G -- true", 0),
        ("$G -- sh -c 'exit 3'", 3),
        // The command leaves its own in a state.
        ("$G -- sh -c 'stty raw -echo; exit 4'", 4),
        ("$G -- sh -c 'kill -9 $$'", 137),
        ("$G -- /no/such/program", 127),
        ("$G -- ./text", 126),
        ("$G --clone / -- true", 125),
        ("$G --out-dir /no/such/folder -- true", 125),
        ("$G --timeout 300ms -- sleep 60", 124),
        (
            "$G --timeout 200ms --grace 200ms -- sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'",
            124,
        ),
    ] {
        let shown = desk.run(line);
        assert!(desk.mode() == before, "{line}: {shown}");
        assert_eq!(
            desk.run("echo $?").trim(),
            code.to_string(),
            "{line}: {shown}"
        );
    }
}

/// From a script: an interactive shell would put the terminal back itself.
#[test]
fn after_a_kill_that_nobody_can_catch() {
    let workspace = Workspace::new();
    for signal in [Signal::SIGKILL, Signal::SIGABRT] {
        for whole_job in [false, true] {
            let (copy, name) = workspace.named_binary();
            let groom = format!(
                "{} run --clone {} --ro-file $P",
                host::path_str(&copy),
                host::path_str(&workspace.clone_dir())
            );
            let (desk, before) = in_a_script(&workspace, &groom);
            let groom = desk.child();
            let whom = if whole_job {
                -desk.pid().as_raw()
            } else {
                groom
            };
            kill(Pid::from_raw(whom), signal).expect("our job");
            desk.wait_for_mode("as it was", |mode| *mode == before);
            host::wait_until_gone("a process of groom-ns", || processes_named(&name));
        }
    }
}

/// The one child of groom-ns that isn't in the jail's pid namespace.
fn guard_of(groom: Pid) -> Pid {
    let is_guard = |pid: &i32| !host::status_field(*pid, "NSpid:").contains(' ');
    let guard = children_of(groom.as_raw()).into_iter().find(is_guard);
    Pid::from_raw(guard.expect("a guard"))
}

/// A run from a script, in raw mode; the script goes on with `sleep`. With it comes the
/// mode before.
fn in_a_script(workspace: &Workspace, groom: &str) -> (Desk, Termios) {
    let script = format!("echo begin; read x; {groom} -- $P sleep 60; exec sleep 60");
    let mut desk = Desk::with(workspace, &["bash", "-c", &script]);
    desk.wait_for("begin");
    let before = desk.mode();
    desk.line("");
    desk.wait_for("ready");
    assert!(desk.mode() != before, "vacuous: it isn't in raw mode");
    (desk, before)
}

/// Or stop, which would hold the run's end up for ever.
#[test]
fn after_a_signal_to_its_guard_that_nobody_can_catch() {
    let workspace = Workspace::new();
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let (desk, before) = in_a_script(&workspace, "$G");
        let groom = Pid::from_raw(desk.child());
        let guard = guard_of(groom);
        kill(guard, signal).expect("our job's child");
        let mut desk = desk;
        desk.keys(b"\x03");
        desk.wait_for_mode("as it was", |mode| *mode == before);
        wait_until("nothing is left of the run", || {
            [groom, guard].iter().all(|pid| state(*pid) == 'X')
        });
    }
}

/// It outlives groom-ns and was forked by it: nothing of the run's may be kept by it.
#[test]
fn its_guard_holds_nothing_else() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line("$G -- $P sleep 60");
    desk.wait_for("ready");
    let guard = guard_of(desk.foreground()).as_raw();
    assert_eq!(
        host::status_field(guard, "SigBlk:"),
        "fffffffe7ffbfeff",
        "no signal ends it"
    );
    let folder = format!("/proc/{guard}/fd");
    if !is_root() {
        let denied = std::fs::read_dir(folder).expect_err("nobody may look");
        assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
        return;
    }
    let mut held: Vec<String> = std::fs::read_dir(folder)
        .expect("root may look")
        .flatten()
        .map(|fd| {
            std::fs::read_link(fd.path())
                .expect("a descriptor")
                .display()
                .to_string()
        })
        .collect();
    held.sort();
    let kind = |name: &String| {
        name.split([':', '['])
            .next()
            .unwrap_or_default()
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned()
    };
    let kinds: Vec<String> = held.iter().map(kind).collect();
    assert_eq!(
        kinds,
        ["/dev/null", "/dev/null", "/dev/null", "/dev/pts/", "socket"],
        "{held:?}"
    );
}

/// What is said on it at the end finds it as it was: a line ends as the caller has it.
#[test]
fn before_the_end_is_said() {
    let workspace = Workspace::new();
    // A pipe that takes nothing more.
    let fifo = workspace.path("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).expect("a pipe");
    let full = open(&fifo, OFlag::O_RDWR | OFlag::O_NONBLOCK, Mode::empty()).expect("our pipe");
    while write(&full, &[b'.'; 4096]).is_ok() {}
    let mut desk = Desk::new(&workspace);
    desk.run("stty -onlcr");
    let before = desk.mode();
    desk.line("$G --tty -- sh -c 'echo lost; exec sleep 60' >fifo");
    desk.wait_for_mode("raw mode", |mode| *mode != before);
    let groom = desk.foreground();
    wait_until("the command has written", || {
        let all = children_of(groom.as_raw())
            .into_iter()
            .flat_map(children_of);
        all.into_iter()
            .any(|pid| host::status_field(pid, "Name:") == "sleep")
    });
    kill(groom, Signal::SIGTERM).expect("our job");
    let lost = "groom-ns: output is lost: nobody reads it";
    desk.wait_for(lost);
    desk.wait_for(PROMPT);
    let seen = String::from_utf8_lossy(&desk.seen()).into_owned();
    assert!(seen.contains(&format!("{lost}\n")), "{seen:?}");
}
