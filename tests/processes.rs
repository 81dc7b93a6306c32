//! Promise 4: the command sees and signals only itself, and nothing of it
//! outlives the run.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use common::host::{processes_named, processes_with, unique, wait_until_gone};
use common::jail::wait_for_line;
use common::{Attack, Workspace, assert_denied, finish, path_str};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a pid");
    kill(Pid::from_raw(pid), signal).expect("our child");
}

#[test]
fn only_the_jails_processes_are_visible() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["pids"]);
    assert_eq!(run.ok(), "1 2", "pid 1 and the command");
    let outside = workspace.unjailed(&["pids"]);
    assert!(
        outside.ok().split(' ').count() > 2,
        "vacuous: few processes outside"
    );
}

#[test]
fn the_launcher_and_pid_1_are_out_of_reach() {
    let workspace = Workspace::new();
    let attacks = [
        // PRIO_PROCESS, pid 1; outside on the probe itself.
        Attack::new("syscall setpriority 0 1 5", &["EPERM"]).control("syscall setpriority 0 0 5"),
        Attack::new("syscall prlimit64 1 RLIMIT_NOFILE %5,5 0", &["EPERM"])
            .control("syscall prlimit64 0 RLIMIT_NOFILE %5,5 0"),
        Attack::new("syscall prlimit64 1 RLIMIT_NOFILE 0 %0,0", &["EPERM"])
            .control("syscall prlimit64 0 RLIMIT_NOFILE 0 %0,0"),
        Attack::new(
            "syscall openat AT_FDCWD @/proc/1/mem O_RDWR",
            &["EACCES", "EPERM"],
        )
        .control("syscall openat AT_FDCWD @/proc/self/mem O_RDWR"),
        Attack::new("read /proc/1/environ", &["EACCES", "EPERM"])
            .control("read /proc/self/environ"),
        Attack::new("list /proc/1/fd", &["EACCES", "EPERM"]).control("list /proc/self/fd"),
        Attack::new("list /proc/1/root", &["EACCES", "EPERM"]).control("list /proc/self/root"),
        Attack::new("list /proc/1/cwd", &["EACCES", "EPERM"]).control("list /proc/self/cwd"),
    ];
    assert_denied(&workspace, workspace.jail(), &attacks);
}

#[test]
fn killing_everything_hurts_the_command_alone() {
    let workspace = Workspace::new();
    let mut bystander = workspace.jail().start(&["sleep", "60"]);
    wait_for_line(&mut bystander, "ready");
    // Not allowed, or without effect: the kernel gives pid 1 of a namespace no
    // signal from inside that it has no handler for.
    let run = workspace
        .jail()
        .run(&["each", "syscall kill 1 9", "say alive"]);
    let [by_kill, alive] = run.lines()[..] else {
        panic!("two answers: {run:#?}")
    };
    assert!(["ok 0", "EPERM"].contains(&by_kill), "{run:#?}");
    assert_eq!(alive, "ok alive");
    // What pid 1 would pass on if it came from outside; before ABI 6 landlock can't deny
    // it. Time enough for it to come back.
    let script = "kill -TERM 1; sleep 1; echo alive";
    let run = workspace.jail().run_program(&["sh", "-c", script]);
    assert_eq!(run.outcome(), "alive");
    let run =
        workspace
            .jail()
            .run_program(&["sh", "-c", "kill -9 -1; echo the shell spares itself"]);
    assert!(
        run.code == Some(0) || run.code == Some(128 + libc::SIGKILL),
        "{run:#?}"
    );
    assert!(
        bystander.try_wait().expect("our child").is_none(),
        "another jail was hit"
    );
    bystander.kill().expect("our child");
    let _ = finish(bystander);
}

/// Pid 1 has the command's id, and would pass on what it gets: only landlock's scope
/// keeps the command's signals from it.
#[test]
fn no_signal_reaches_pid_1() {
    let workspace = Workspace::new();
    if groom_ns::confine::landlock::kernel_abi().unwrap_or(0) < 6 {
        eprintln!("vacuous: this kernel's landlock has no scopes");
        return;
    }
    let attack = Attack::new("syscall kill 1 0", &["EPERM"]).control("syscall kill 0 0");
    assert_denied(&workspace, workspace.jail(), &[attack]);
}

#[test]
fn daemons_end_with_the_command() {
    let workspace = Workspace::new();
    let marker = unique("daemon");
    // The daemon ignores every signal and holds stdout: that the output ends
    // before its 60 seconds do shows that it is gone.
    let start = Instant::now();
    let run = workspace.jail().run(&["daemon", "60", &marker]);
    assert_eq!(run.ok(), "daemon");
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "the daemon held the output"
    );
    wait_until_gone("a daemon", || processes_with(&marker));
    // Control: outside it stays.
    let mut control = common::jail::spawn(
        std::process::Command::new(workspace.probe()).args(["daemon", "60", &marker]),
    );
    control.wait().expect("our child");
    let left = processes_with(&marker);
    for pid in &left {
        kill(Pid::from_raw(*pid), Signal::SIGKILL).expect("our daemon");
    }
    assert_eq!(
        left.len(),
        1,
        "vacuous: the daemon doesn't stay outside either"
    );
}

#[test]
fn signals_are_passed_on() {
    let workspace = Workspace::new();
    for sent in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        // Tests that were started in the background inherit INT and QUIT as
        // ignored, and groom-ns would take that for the caller's wish.
        groom_ns::sys::signal::set_default(sent as i32).unwrap();
        let mut child = workspace.jail().start(&["catch"]);
        wait_for_line(&mut child, "ready");
        signal(&child, sent);
        let run = finish(child);
        assert_eq!(
            (run.code, run.stdout.trim()),
            (Some(0), format!("ok {sent}").as_str())
        );
        // And a command that doesn't catch it dies of it.
        let mut child = workspace.jail().start(&["sleep", "60"]);
        wait_for_line(&mut child, "ready");
        signal(&child, sent);
        let run = finish(child);
        assert_eq!(run.code, Some(128 + sent as i32), "{sent}: {run:#?}");
    }
}

#[test]
fn signals_that_end_nothing_are_passed_on_too() {
    let workspace = Workspace::new();
    for sent in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH] {
        let mut child = workspace.jail().start(&["catch"]);
        wait_for_line(&mut child, "ready");
        signal(&child, sent);
        assert_eq!(finish(child).outcome(), format!("ok {sent}"));
    }
}

#[test]
fn a_command_that_stopped_itself_can_be_ended() {
    let workspace = Workspace::new();
    let script = [
        "sh",
        "-c",
        "echo ready; kill -STOP $$; echo went on; sleep 60",
    ];
    let mut command = workspace.jail().command(&script);
    let mut child = common::jail::spawn(&mut command);
    wait_for_line(&mut child, "ready");
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, Signal::SIGTERM);
    assert_eq!(finish(child).code, Some(128 + 15));
}

#[test]
fn a_stopped_run_goes_on() {
    let workspace = Workspace::new();
    let mut child = workspace.jail().start(&["sleep", "1"]);
    wait_for_line(&mut child, "ready");
    signal(&child, Signal::SIGTSTP);
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, Signal::SIGCONT);
    assert_eq!(finish(child).outcome(), "ok slept");
}

#[test]
fn the_command_ends_with_a_launcher_that_is_killed() {
    let workspace = Workspace::new();
    let (copy, name) = workspace.named_binary();
    let marker = unique("orphan");
    let mut child = workspace
        .jail()
        .binary(copy)
        .start(&["stubborn", "60", &marker]);
    wait_for_line(&mut child, "ready");
    child.kill().expect("our child");
    child.wait().expect("our child");
    wait_until_gone("a command", || processes_with(&marker));
    wait_until_gone("a process of groom-ns", || processes_named(&name));
}

#[test]
fn the_command_ends_with_its_launchers_parent() {
    let workspace = Workspace::new();
    let (copy, name) = workspace.named_binary();
    let marker = unique("orphan");
    let jail = workspace.jail().binary(copy).in_situation(&["parent"]);
    let mut parent = jail.start(&["stubborn", "60", &marker]);
    wait_for_line(&mut parent, "ready");
    parent.kill().expect("our child");
    let _ = finish(parent);
    wait_until_gone("a command", || processes_with(&marker));
    wait_until_gone("a process of groom-ns", || processes_named(&name));
}

#[test]
fn a_launcher_started_by_a_thread_that_ends_lives_on() {
    let workspace = Workspace::new();
    let jail = workspace.jail();
    let start = move || jail.start(&["sleep", "1"]);
    let child = std::thread::spawn(start).join().expect("the thread ends");
    assert!(finish(child).outcome().ends_with("ok slept"));
}

#[test]
fn two_runs_share_nothing() {
    let workspace = Workspace::new();
    let mut first = workspace
        .jail()
        .start(&["seq", "write /tmp/shared x", "sleep 60"]);
    wait_for_line(&mut first, "ready");
    let run = workspace.jail().run(&["each", "read /tmp/shared", "pids"]);
    assert_eq!(run.lines()[0], "ENOENT");
    first.kill().expect("our child");
    let _ = finish(first);
}

#[test]
fn the_hosts_mount_table_is_unchanged_by_runs() {
    let workspace = Workspace::with_git();
    let root = path_str(workspace.root()).to_owned();
    let _ = workspace.jail_with_out().writable().run(&["say", "ran"]);
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the host's mounts");
    assert!(!mounts.contains(&root), "a mount was left behind: {mounts}");
}
