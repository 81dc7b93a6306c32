//! A key that is typed: it is on no screen, and not the command's.

use nix::sys::termios::LocalFlags;

use crate::common::desk::{PROMPT, state};
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
    // What is typed meanwhile is the shell's.
    assert_eq!(desk.run("echo for the shell").trim(), "for the shell");
    assert_ne!(state(job), 'T', "nothing has stopped it");
    desk.line("fg");
    type_both(desk);
}
