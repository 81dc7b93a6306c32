//! What goes through, unchanged and at any length.

use crate::common::{Desk, Workspace};

#[test]
fn every_byte_goes_through_both_ways() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    // In hexadecimal, what came in; then all that there are, out.
    let script = "stty raw -echo; printf go; head -c 256 | od -An -v -tx1 | tr -d ' \\n'; \
                  printf '<'; i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done; printf '>>>'";
    desk.line(&format!("$G -- sh -c '{}'", script.replace('\'', "'\\''")));
    desk.wait_for("\n");
    desk.wait_for("go");
    let all: Vec<u8> = (0..=255).collect();
    desk.keys(&all);
    let came_in = desk.wait_for("<");
    let wanted: Vec<String> = all.iter().map(|byte| format!("{byte:02x}")).collect();
    let wanted = wanted.concat();
    assert_eq!(came_in, wanted);
    desk.wait_for(">>>");
    let seen = desk.seen();
    assert!(seen.windows(256).any(|part| part == all), "{seen:?}");
}

#[test]
fn a_large_paste_comes_back_whole() {
    const LINES: usize = 4000;
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let count = LINES * 12;
    desk.line(&format!(
        "$G -- sh -c 'stty raw -echo; echo be''gin; head -c {count}; echo en''d'"
    ));
    desk.wait_for("begin");
    let paste: Vec<String> = (0..LINES).map(|line| format!("paste{line:06}\n")).collect();
    let paste = paste.concat();
    // While as much comes back: neither side waits for the other.
    desk.keys(&paste);
    let back = desk.wait_for("end");
    assert_eq!(back.trim_start_matches(['\r', '\n']), paste);
}

#[test]
fn what_was_written_last_is_shown() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let shown = desk.run("$G -- sh -c 'seq 1 30000; printf la''st'; echo");
    assert_eq!(shown.lines().count(), 30_001, "{}", shown.len());
    assert!(shown.contains("30000\nlast"));
}

#[test]
fn lines_that_are_said_in_between_begin_at_the_left() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.run("$G --verbose -- true");
    let seen = String::from_utf8_lossy(&desk.seen()).into_owned();
    let (_, said) = seen.split_once(" go\r\n").expect("steps");
    let stairs = said.replace("\r\n", "");
    assert!(said.contains("\r\n") && !stairs.contains('\n'), "{said:?}");
}

#[test]
fn output_that_nobody_is_shown_hangs_the_terminal_up() {
    let workspace = Workspace::new();
    let full = || std::fs::File::options().write(true).open("/dev/full");
    for (script, code) in [
        ("exec yes", 129),
        // One that minds no hang-up goes on to its end.
        ("trap '' HUP; seq 30000; exit 4", 4),
    ] {
        let jail = workspace.jail().switch("--tty");
        let run = jail
            .stdio(1, full().expect("/dev/full"))
            .run_program(&["sh", "-c", script]);
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert!(run.stderr.contains("standard output is lost"), "{run:#?}");
    }
    let mut child = workspace
        .jail()
        .switch("--tty")
        .command(&["yes"])
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    assert_eq!(crate::common::finish(child).code, Some(129));
}

/// More is typed than the terminal holds, and nobody reads it.
#[test]
fn what_nobody_reads_keeps_no_run_from_ending() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let line = "head -c 200000 /dev/zero | tr '\\0' 'x\n' | $G --tty -- true; echo ended $?";
    desk.line(line);
    desk.wait_for("ended 0");
    // Typed at a terminal while the command looks elsewhere.
    desk.line("$G -- sh -c 'stty raw -echo; echo lis''tens; sleep 0.3'; echo af''ter $?");
    desk.wait_for("listens");
    desk.keys(vec![b'x'; 30_000]);
    desk.wait_for("after 0");
}

/// Without a terminal outside nobody could let a stopped command go on.
#[test]
fn no_byte_of_an_input_that_is_no_terminal_stops_the_command() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    let shown = desk.run("printf 'one\\n\\032two\\n' | $G --tty -- cat -v; echo ended $?");
    assert!(
        shown.contains("^Ztwo") && shown.contains("ended 0"),
        "{shown}"
    );
}
