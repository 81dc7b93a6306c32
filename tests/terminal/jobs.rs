//! Keys that signal, and the shell's jobs.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{FlowArg, tcflow};
use nix::unistd::Pid;

use crate::common::desk::{PROMPT, state, terminal_pair, wait_until};
use crate::common::host::{children_of, program, status_field};
use crate::common::{Desk, Workspace, finish, path_str};

/// A command that says when it runs, and goes on: one process, since a shell that is
/// stopped between vfork(2) and execve(2) is no stopped one.
const RUNS: &str = "$P sleep 60";

/// A shell goes on with its script after a command that exits, whatever its code, and
/// not after one that an interrupt has ended.
#[test]
fn an_interrupt_ends_a_shells_loop() {
    let workspace = Workspace::new();
    for flag in ["", "--no-tty"] {
        let mut desk = Desk::new(&workspace);
        desk.line(&format!(
            "for i in 1 2; do $G {flag} -- {RUNS}; echo we''nt on; done"
        ));
        desk.wait_for("ready");
        desk.keys(b"\x03");
        let shown = desk.wait_for(PROMPT);
        assert!(!shown.contains("went on"), "{shown}");
        assert_eq!(desk.run("echo $?").trim(), "130");
    }
}

#[test]
fn interrupts_and_quits_are_the_commands() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    for (key, code) in [(b"\x03", 130), (b"\x1c", 131)] {
        desk.line(&format!("$G -- {RUNS}"));
        desk.wait_for("ready");
        desk.keys(key);
        desk.wait_for(PROMPT);
        assert_eq!(desk.run("echo $?").trim(), code.to_string());
        // One that catches it isn't ended, and so neither is the run.
        desk.line("$G -- sh -c 'trap \"echo ca''ught; exit 5\" INT QUIT; echo ru''ns; while :; do sleep 0.05; done'");
        desk.wait_for("runs");
        desk.keys(key);
        desk.wait_for("caught");
        desk.wait_for(PROMPT);
        assert_eq!(desk.run("echo $?").trim(), "5");
    }
}

#[test]
fn a_stopped_command_goes_on_in_the_foreground() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let before = desk.mode();
    desk.line("$G -- sh -c 'trap \"echo on''ward\" CONT; echo ru''ns; until [ \"$x\" = q ]; do read x && echo \"<$x>\"; done'");
    desk.wait_for("runs");
    assert!(
        desk.mode() != before,
        "vacuous: the terminal isn't in raw mode"
    );
    for size in [(30, 90), (40, 120)] {
        desk.keys(b"\x1a");
        desk.wait_for("Stopped");
        desk.wait_for(PROMPT);
        assert!(
            desk.mode() == before,
            "the shell's terminal isn't as it was"
        );
        desk.resize(size.0, size.1);
        desk.line("fg");
        desk.wait_for("onward");
        desk.line("again");
        desk.wait_for("<again>");
    }
    desk.line("q");
    desk.wait_for(PROMPT);
    assert_eq!(desk.run("echo $?").trim(), "0");
    assert!(desk.mode() == before, "the terminal isn't as it was");
}

#[test]
fn a_resized_window_is_told() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line("$G -- sh -c 'trap \"stty size\" WINCH; echo ru''ns; while :; do read x; done'");
    desk.wait_for("runs");
    desk.resize(33, 99);
    desk.wait_for("33 99");
    desk.keys(b"\x1a");
    desk.wait_for(PROMPT);
    desk.resize(44, 88);
    desk.line("fg");
    desk.wait_for("44 88");
}

#[test]
fn a_job_in_the_background_leaves_the_terminal_alone() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let before = desk.mode();
    desk.line("$G -- sh -c 'echo ru''ns; while read x; do echo \"<$x>\"; done' &");
    desk.wait_for("runs");
    desk.line("");
    desk.wait_for(PROMPT);
    assert!(desk.mode() == before, "a background job changed the mode");
    // What is typed is the shell's.
    assert_eq!(desk.run("echo for the shell").trim(), "for the shell");
    let job = desk.job();
    assert_ne!(state(job), 'T', "nothing has stopped it");
    desk.line("fg");
    desk.wait_for_mode("raw mode in the foreground", |mode| *mode != before);
    desk.line("for the command");
    desk.wait_for("<for the command>");
    desk.keys(b"\x04");
    desk.wait_for(PROMPT);
    assert!(desk.mode() == before, "the terminal isn't as it was");
}

#[test]
fn a_stopped_job_goes_on_in_the_background() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let script = "import os, time\nprint('ru' 'ns', flush=True)\n\
                  while not os.path.exists('go-on'): time.sleep(0.02)\nprint('do' 'ne')\n";
    workspace.file("clone/waits.py", script);
    desk.line("$G -- python3 waits.py");
    desk.wait_for("runs");
    desk.keys(b"\x1a");
    desk.wait_for(PROMPT);
    let before = desk.mode();
    desk.run("bg");
    std::fs::write(workspace.clone_dir().join("go-on"), "").expect("a file");
    desk.wait_for("done");
    assert!(desk.mode() == before, "a background job changed the mode");
}

#[test]
fn where_no_shell_could_continue_it_nothing_stops() {
    let workspace = Workspace::new();
    // groom-ns leads the session: its process group is an orphaned one.
    let script = format!("exec $G -- {RUNS}");
    let mut desk = Desk::with(&workspace, &["bash", "-c", &script]);
    desk.wait_for("ready");
    desk.keys(b"\x1a");
    // It was stopped, and continued by groom-ns: else the interrupt would wait.
    desk.wait_for("^Z");
    desk.keys(b"\x03");
    assert_eq!(desk.end(), Some(130));
}

#[test]
fn a_time_limit_reaches_a_stopped_command() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let before = desk.mode();
    desk.line(&format!("$G --timeout 3s -- {RUNS}"));
    desk.wait_for("ready");
    desk.keys(b"\x1a");
    desk.wait_for(PROMPT);
    let job = desk.job();
    assert_eq!(state(job), 'T', "vacuous: it isn't stopped");
    wait_until("the end of a stopped run", || {
        state(job) == 'X' || state(job) == 'Z'
    });
    desk.run("");
    assert!(String::from_utf8_lossy(&desk.seen()).contains("the time limit of 3s ended the run"));
    assert!(desk.mode() == before, "the terminal isn't as it was");
}

#[test]
fn a_stop_that_is_sent_stops_and_continues_both() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line(&format!("$G --no-tty -- {RUNS}"));
    desk.wait_for("ready");
    let job = desk.foreground();
    kill(job, Signal::SIGTSTP).expect("our job");
    desk.wait_for(PROMPT);
    assert_eq!(state(job), 'T');
    let command = command_of(job);
    assert_eq!(state(command), 'T', "the command too");
    desk.line("fg");
    wait_until("both go on", || state(job) != 'T' && state(command) != 'T');
    desk.keys(b"\x03");
    desk.wait_for(PROMPT);
}

/// Signals come one by one: groom-ns must have taken the last.
fn send(job: Pid, signal: Signal) {
    kill(job, signal).expect("our job");
    wait_until("it is taken", || {
        let pending = status_field(job.as_raw(), "ShdPnd:");
        let pending = u64::from_str_radix(&pending, 16).expect("a set");
        pending >> (signal as i32 - 1) & 1 == 0
    });
}

#[test]
fn a_stop_that_was_sent_long_ago_stops_nobody() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line("$G --no-tty -- sh -c 'trap \"\" TSTP; echo ru''ns; read x; kill -STOP $$'");
    desk.wait_for("runs");
    let job = desk.foreground();
    let command = command_of(job);
    send(job, Signal::SIGTSTP);
    send(job, Signal::SIGCONT);
    desk.line("");
    wait_until("the command has stopped itself", || state(command) == 'T');
    assert_stays(job);
    kill(job, Signal::SIGKILL).expect("our job");
    desk.wait_for(PROMPT);
}

/// Of the command itself that isn't the answer to one that was sent.
#[test]
fn a_stop_that_is_ignored_stops_nobody_later() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let script = "trap \"\" TSTP; echo ru''ns; read x; echo \"<$x>\"; read x; kill -STOP $$";
    desk.line(&format!("$G --no-tty -- sh -c '{script}'"));
    desk.wait_for("runs");
    let job = desk.foreground();
    desk.keys(b"\x1a");
    // Both are as they were, and in the foreground.
    desk.line("goes on");
    desk.wait_for("<goes on>");
    assert_ne!(state(job), 'T');
    // A program may put its screen in order before it stops: that takes a moment.
    std::thread::sleep(Duration::from_secs(3));
    desk.line("");
    let command = command_of(job);
    wait_until("the command has stopped itself", || state(command) == 'T');
    assert_stays(job);
    // Told now, it stops: the shell has to know.
    desk.keys(b"\x1a");
    desk.wait_for("Stopped");
    desk.wait_for(PROMPT);
    assert_eq!(state(job), 'T');
    desk.line("fg");
    desk.wait_for(PROMPT);
    assert_eq!(state(command), 'X', "it went on, to its end");
}

/// It isn't stopped: a stopped process takes no signal.
fn assert_stays(job: Pid) {
    for _ in 0..20 {
        send(job, Signal::SIGWINCH);
    }
    assert_ne!(state(job), 'T');
}

/// While its last output is awaited: by groom-ns's SIGCONT, or from within the jail.
#[test]
fn a_command_that_goes_on_at_once_stops_nobody() {
    let workspace = Workspace::new();
    for is_inner in [false, true] {
        let is_in_time = (0..10).any(|_| goes_on_in_time(&workspace, is_inner));
        assert!(is_in_time, "vacuous: its output isn't awaited so long");
    }
}

/// False where the machine took longer than groom-ns awaits the output.
fn goes_on_in_time(workspace: &Workspace, is_inner: bool) -> bool {
    let mut desk = Desk::new(workspace);
    let inner = "(until grep -q \"^State:.T\" /proc/$$/status; do :; done; kill -CONT $$) & ";
    let inner = if is_inner { inner } else { "" };
    let script = format!("echo ru''ns; read x; {inner}echo out; kill -STOP $$; exec cat");
    desk.line(&format!("$G -- sh -c '{script}'"));
    desk.wait_for("runs");
    let job = desk.foreground();
    let command = command_of(job);
    tcflow(desk.terminal(), FlowArg::TCOOFF).expect("our terminal");
    let start = Instant::now();
    desk.keys("\r");
    if !is_inner {
        wait_until("the command has stopped itself", || state(command) == 'T');
        kill(job, Signal::SIGCONT).expect("our job");
    }
    let name = || status_field(command.as_raw(), "Name:");
    wait_until("the command goes on", || name() == "cat");
    if start.elapsed() > Duration::from_millis(500) {
        return false;
    }
    tcflow(desk.terminal(), FlowArg::TCOON).expect("our terminal");
    desk.wait_for("out");
    assert_stays(job);
    desk.line("still here");
    desk.wait_for("still here\r\nstill here");
    desk.keys(b"\x04");
    desk.wait_for(PROMPT);
    true
}

#[test]
fn a_run_that_ends_in_the_background_leaves_the_terminal_alone() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line(&format!("$G -- {RUNS}"));
    desk.wait_for("ready");
    let job = desk.foreground();
    // groom-ns alone, which can't give anything back; then the jail.
    kill(job, Signal::SIGSTOP).expect("our job");
    desk.wait_for(PROMPT);
    let jail = jail_of(job);
    kill(jail, Signal::SIGKILL).expect("our jail");
    wait_until("the jail's end", || state(jail) == 'Z');
    let before = desk.mode();
    desk.run("bg");
    wait_until("the run's end", || matches!(state(job), 'X' | 'Z'));
    desk.run("");
    assert!(desk.mode() == before, "a background job changed the mode");
    assert!(!String::from_utf8_lossy(&desk.seen()).contains("tty output"));
}

#[test]
fn a_terminal_that_hangs_up_gives_the_command_time() {
    let workspace = Workspace::new();
    let (master, slave) = terminal_pair();
    let done = workspace.out_dir().join("done");
    let script = format!(
        "trap 'sleep 0.5; echo clean >{}; exit 5' HUP; echo runs; while :; do sleep 0.05; done",
        path_str(&done)
    );
    let run = workspace.jail_with_out().command(&["sh", "-c", &script]);
    // groom-ns leads the session: the kernel continues it with the hang-up.
    let end = || slave.try_clone().expect("a descriptor");
    let mut groom = program("setsid", "util-linux");
    groom
        .arg("--ctty")
        .arg(run.get_program())
        .args(run.get_args());
    let groom = groom.stdin(end()).stdout(end()).stderr(end()).spawn();
    let groom = groom.expect("setsid starts");
    drop(slave);
    let mut shown = BufReader::new(File::from(master)).lines();
    assert!(shown.any(|line| line.expect("a line").contains("runs")));
    drop(shown);
    let code = finish(groom).code;
    let done = std::fs::read_to_string(done).unwrap_or_default();
    assert_eq!((code, &done[..]), (Some(5), "clean\n"));
}

/// Pid 1 of a job's jail; its other child guards the terminal.
fn jail_of(job: Pid) -> Pid {
    let is_jail = |pid: &i32| status_field(*pid, "NSpid:").contains(' ');
    let jail = children_of(job.as_raw()).into_iter().find(is_jail);
    Pid::from_raw(jail.expect("a jail"))
}

fn command_of(job: Pid) -> Pid {
    Pid::from_raw(children_of(jail_of(job).as_raw())[0])
}
