//! A key that is typed: it is on no screen, and not the command's.

use nix::sys::termios::LocalFlags;

use crate::common::desk::{PROMPT, state, wait_until};
use crate::common::host::status_field;
use crate::common::{Desk, Workspace};

const RUN: &str = "$G --broker anthropic --key-stdin --upstream http://127.0.0.1:9";
const COMMAND: &str = "-- sh -c 'echo re''ady; read x; echo \"<$x>\"'";

/// Until nothing that is typed is shown, by the lines that a key is typed into.
fn wait_until_hidden(desk: &Desk) {
    desk.wait_for_mode("a key's characters are hidden", |mode| {
        mode.local_flags.contains(LocalFlags::ICANON)
            && !mode.local_flags.contains(LocalFlags::ECHO)
    });
}

/// Types the key and then the command's line, and looks at what was shown.
fn type_both(mut desk: Desk) {
    wait_until_hidden(&desk);
    desk.line("sk-ant-typed-by-hand");
    desk.wait_for("ready");
    desk.line("the commands");
    desk.wait_for("<the commands>");
    desk.wait_for(PROMPT);
    let seen = String::from_utf8_lossy(&desk.seen()).into_owned();
    assert!(!seen.contains("typed-by-hand"), "{seen}");
    assert!(
        seen.contains("the commands\r\n<the"),
        "vacuous: nothing is echoed: {seen}"
    );
    assert!(
        desk.mode().local_flags.contains(LocalFlags::ECHO),
        "it isn't as it was"
    );
}

#[test]
fn it_is_not_shown_and_not_the_commands() {
    let workspace = Workspace::new();
    for (flag, after) in [("", ""), ("--no-tty", ""), ("", "| cat")] {
        let mut desk = Desk::new(&workspace);
        let before = desk.mode();
        desk.line(&format!("{RUN} {flag} {COMMAND} {after}"));
        desk.wait_for("\n");
        wait_until_hidden(&desk);
        assert!(before.local_flags.contains(LocalFlags::ECHO), "vacuous");
        type_both(desk);
    }
}

#[test]
fn it_is_not_shown_after_a_stop() {
    let workspace = Workspace::new();
    for flag in ["", "--no-tty"] {
        let mut desk = Desk::new(&workspace);
        desk.line(&format!("{RUN} {flag} {COMMAND}"));
        desk.wait_for("\n");
        wait_until_hidden(&desk);
        desk.keys(b"\x1a");
        desk.wait_for("Stopped");
        desk.wait_for(PROMPT);
        desk.line("fg");
        type_both(desk);
    }
}

#[test]
fn it_is_not_shown_to_a_job_that_comes_to_the_foreground() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line(&format!("{RUN} {COMMAND} &"));
    desk.wait_for(PROMPT);
    let job = desk.job();
    // By then it waits for the key.
    wait_until("the jail is being confined", || {
        let all = descendants(job.as_raw());
        all.iter()
            .any(|pid| status_field(*pid, "NSpid:").ends_with(" 2"))
    });
    // What is typed meanwhile is the shell's.
    assert_eq!(desk.run("echo for the shell").trim(), "for the shell");
    assert_ne!(state(job), 'T', "nothing has stopped it");
    desk.line("fg");
    type_both(desk);
}

/// The processes that a process has started, and theirs.
fn descendants(pid: i32) -> Vec<i32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let children: Vec<i32> = children
        .split_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect();
    let theirs = children.iter().flat_map(|pid| descendants(*pid));
    let theirs: Vec<i32> = theirs.collect();
    [children, theirs].concat()
}
