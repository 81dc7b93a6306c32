//! Who gets a terminal.

use std::fs::File;
use std::process::Stdio;

use crate::common::{Desk, Workspace};

/// Says of each descriptor whether it is a terminal, in a way that is never echoed.
const WHICH: &str = "sh -c 'for n in 0 1 2; do test -t $n && echo n$n=tty >>out || echo n$n=no >>out; done; cat out'";

fn which(desk: &mut Desk, before: &str, flags: &str, after: &str) -> String {
    let which = WHICH.replace("out", "/tmp/out");
    desk.run(&format!("{before}$G {flags} -- {which} {after}"))
}

fn is_tty(text: &str) -> [bool; 3] {
    [0, 1, 2].map(|n| {
        let (tty, no) = (
            text.contains(&format!("n{n}=tty")),
            text.contains(&format!("n{n}=no")),
        );
        assert_ne!(tty, no, "{n}: {text}");
        tty
    })
}

#[test]
fn at_a_terminal_and_nowhere_else() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    for (before, flags, after, expected) in [
        ("", "", "", [true, true, true]),
        ("", "", "2>errors", [true, true, false]),
        ("", "", "| cat", [false, false, false]),
        ("echo | ", "", "", [false, false, false]),
        ("", "", "</dev/null", [false, false, false]),
        ("", "--no-tty", "", [false, false, false]),
        ("", "--tty --no-tty", "", [false, false, false]),
        ("", "--no-tty --tty", "", [true, true, true]),
        ("", "--tty", "2>errors", [true, true, true]),
        ("echo | ", "--tty", "| cat", [true, true, true]),
    ] {
        let shown = which(&mut desk, before, flags, after);
        assert_eq!(
            is_tty(&shown),
            expected,
            "{before}| {flags} |{after}: {shown}"
        );
    }
}

#[test]
fn it_is_the_jails_own() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let outside = desk.run("stat -Lc '%d:%i' /dev/stdin; stty size");
    let inside = desk.run("$G -- sh -c 'stat -Lc %d:%i /dev/stdin; stty size; tty; echo $TERM'");
    let [outside, inside] = [&outside, &inside].map(|text| text.lines().collect::<Vec<_>>());
    assert_ne!(outside[0], inside[0]);
    assert_eq!((outside[1], inside[1]), ("24 80", "24 80"));
    assert_eq!(inside[2..4], ["/dev/pts/0", "xterm"]);
}

#[test]
fn the_commands_own_settings_are_the_callers_at_first() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.run("stty erase ^H intr ^X -echoctl");
    let inside = desk.run("$G -- stty -a");
    for setting in ["erase = ^H", "intr = ^X", "-echoctl"] {
        assert!(inside.contains(setting), "{inside}");
    }
    // And what it sets is its own.
    desk.run("$G -- stty erase ^A");
    assert!(desk.run("stty -a").contains("erase = ^H"));
}

#[test]
fn without_a_terminal_outside_one_can_be_asked_for() {
    let workspace = Workspace::new();
    let ask = ["sh", "-c", "tty; stty size; echo $TERM"];
    let run = workspace
        .jail()
        .host_env("TERM", "vt100")
        .switch("--tty")
        .run_program(&ask);
    assert_eq!(run.outcome().replace('\r', ""), "/dev/pts/0\n24 80\nvt100");
    // Control.
    let run = workspace.jail().run_program(&ask[..]);
    assert_eq!(run.stdout.lines().next(), Some("not a tty"));
}

#[test]
fn what_is_piped_into_it_is_typed_and_ends() {
    let workspace = Workspace::new();
    for (text, typed) in [
        ("one\ntwo\n", "one\ntwo\n"),
        ("no newline", "no newline"),
        ("", ""),
    ] {
        let input = workspace.file("input", text);
        let run = workspace
            .jail()
            .switch("--tty")
            .stdio(0, File::open(input).expect("a file"))
            .run_program(&["sh", "-c", "stty -echo; echo begins; cat; echo ended"]);
        let shown = run.outcome().replace('\r', "");
        let (_, shown) = shown.split_once("begins\n").expect("it began");
        assert_eq!(shown, format!("{typed}ended"), "{text:?}");
    }
}

#[test]
fn standard_error_joins_it_and_goes_where_output_goes() {
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .switch("--tty")
        .stdio(2, Stdio::piped())
        .run_program(&["sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(run.stdout, "out\r\nerr\r\n");
    assert_eq!(run.stderr_but_for_groups(), "");
}
