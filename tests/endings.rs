//! Signals, time limits, and what a run exits with.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "endings/unread.rs"]
mod unread;

use std::process::Child;
use std::time::{Duration, Instant};

use common::desk::wait_until;
use common::jail::wait_for_line;
use common::{Jail, Workspace, finish};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a pid");
    kill(Pid::from_raw(pid), signal).expect("our child");
}

/// A command that can be ended by a kill alone.
fn stubborn(jail: Jail) -> Child {
    let mut child = jail.start(&["stubborn", "60"]);
    wait_for_line(&mut child, "ready");
    child
}

#[test]
fn a_time_limit_ends_the_run_with_124() {
    let workspace = Workspace::new();
    for (command, limit) in [
        (&["sleep", "60"][..], "300ms"),
        // What it exits with then doesn't matter (timeout(1)).
        (&["seq", "catch", "exit 0"], "300ms"),
        (&["stubborn", "60"], "300ms"),
    ] {
        let start = Instant::now();
        let jail = workspace.jail().flag("--timeout", limit);
        let run = jail.flag("--grace", "200ms").run(command);
        assert_eq!(run.code, Some(124), "{command:?}: {run:#?}");
        let said = format!("groom-ns: the time limit of {limit} ended the run");
        assert_eq!(run.stderr.lines().last(), Some(said.as_str()), "{run:#?}");
        assert!(start.elapsed() < Duration::from_secs(30), "{command:?}");
    }
    // Control: in time, nothing is said.
    let run = workspace.jail().flag("--timeout", "1h").run(&["exit", "7"]);
    assert_eq!((run.code, &run.stderr_but_for_groups()[..]), (Some(7), ""));
}

#[test]
fn the_limit_asks_first() {
    let workspace = Workspace::new();
    let jail = workspace.jail().flag("--timeout", "200ms");
    let run = jail.run(&["seq", "catch"]);
    assert_eq!(
        (run.code, run.stdout.trim()),
        (Some(124), "ready\nok \nok SIGTERM")
    );
}

#[test]
fn the_clock_goes_on_while_the_command_is_stopped() {
    let workspace = Workspace::new();
    let script = ["sh", "-c", "kill -STOP $$; exit 3"];
    let jail = workspace.jail().flag("--timeout", "500ms");
    assert_eq!(jail.run_program(&script).code, Some(124));
}

/// From the first thing on that is made on the host.
#[test]
fn a_signal_while_it_is_made_leaves_nothing_behind() {
    for (name, signal) in [("TERM", Signal::SIGTERM), ("INT", Signal::SIGINT)] {
        // Each its own: an out-dir of a command that ran stays.
        let workspace = Workspace::new();
        let jail = workspace.jail_with_out();
        let run = jail
            .in_situation(&["signal-at", "mkdirat", "1", name])
            .run(&["pids"]);
        // It doesn't die of it.
        assert!(run.stderr.ends_with(" calls\n"), "{run:#?}");
        if run.code == Some(125) {
            assert!(run.stderr.contains("a signal came before"), "{run:#?}");
            assert!(!workspace.out_dir().exists(), "{name}");
        } else {
            // Heard when the command might have run: on a busy host the jail is quicker.
            assert_eq!(run.code, Some(128 + signal as i32), "{run:#?}");
        }
    }
    // Control: at a call that isn't made nothing comes.
    let workspace = Workspace::new();
    let jail = workspace.jail_with_out();
    let run = jail
        .in_situation(&["signal-at", "acct", "1", "TERM"])
        .run(&["pids"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(workspace.out_dir().exists());
}

#[test]
fn a_second_term_kills() {
    let workspace = Workspace::new();
    let child = stubborn(workspace.jail().flag("--grace", "1h"));
    signal(&child, Signal::SIGTERM);
    // The first must have been taken, or the second is the same signal.
    wait_until("the first is taken", || {
        !is_pending(&child, Signal::SIGTERM)
    });
    signal(&child, Signal::SIGTERM);
    let run = finish(child);
    assert_eq!(run.code, Some(137), "{run:#?}");
    let said = "groom-ns: the jail was killed: a second TERM came";
    assert_eq!(run.stderr.lines().last(), Some(said));
}

#[test]
fn the_grace_after_a_term_is_limited() {
    let workspace = Workspace::new();
    let child = stubborn(workspace.jail().flag("--grace", "300ms"));
    signal(&child, Signal::SIGTERM);
    let run = finish(child);
    assert_eq!(run.code, Some(137), "{run:#?}");
    let said = "groom-ns: the jail was killed: the command didn't end within 300ms of a TERM";
    assert_eq!(run.stderr.lines().last(), Some(said));
    // One that ends in time says with what.
    let mut child = workspace.jail().start(&["catch"]);
    wait_for_line(&mut child, "ready");
    signal(&child, Signal::SIGTERM);
    assert_eq!(finish(child).outcome(), "ok SIGTERM");
}

#[test]
fn other_signals_kill_nothing_however_often() {
    let workspace = Workspace::new();
    let mut child = stubborn(workspace.jail().flag("--grace", "0"));
    for sent in [
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGWINCH,
    ] {
        for _ in 0..3 {
            groom_ns::sys::signal::set_default(sent as i32).expect("a disposition");
            signal(&child, sent);
            wait_until("it is taken", || !is_pending(&child, sent));
        }
    }
    assert!(
        child.try_wait().expect("our child").is_none(),
        "it was ended"
    );
    // Control: no grace at all.
    signal(&child, Signal::SIGTERM);
    assert_eq!(finish(child).code, Some(137));
}

#[test]
fn what_is_no_time_is_refused() {
    let workspace = Workspace::new();
    for (flag, typed) in [
        ("--timeout", "0"),
        ("--timeout", "10 m"),
        ("--timeout", "-1"),
        ("--timeout", "1.5s"),
        ("--timeout", "366d"),
        ("--timeout", "99999999999999999999"),
        ("--grace", ""),
        ("--grace", "1h1h"),
        ("--grace", "ten"),
    ] {
        let jail = workspace.jail().switch(&format!("{flag}={typed}"));
        let run = jail.refused("usage");
        assert!(run.refusal().contains(flag), "{flag} {typed}: {run:#?}");
    }
}

/// Whether a signal waits to be taken (proc_pid_status(5), ShdPnd).
fn is_pending(child: &Child, signal: Signal) -> bool {
    let pid = i32::try_from(child.id()).expect("a pid");
    let field = common::host::status_field(pid, "ShdPnd:");
    let set = u64::from_str_radix(&field, 16).expect("a set");
    set >> (signal as i32 - 1) & 1 == 1
}
