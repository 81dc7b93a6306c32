//! `--status-fd`: lines as things happen, which hold nothing up.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use serde_json::Value;

use super::made::Made;
use crate::common::desk::nearly_full_terminal;
use crate::common::host::{in_shell, path_str};
use crate::common::jail::{Jail, Run, finish, spawn, wait_for_line};

/// A run whose descriptor 7 is what the shell makes of `redirect`.
fn with_seven(jail: Jail, redirect: &str, argv: &[&str]) -> Command {
    let inner = jail.flag("--status-fd", "7").command(argv);
    in_shell(&format!("exec \"$@\" 7{redirect}"), &inner)
}

/// The same, whose command says when it is ready and waits for the end of its input.
fn waiting_with_seven(jail: Jail, redirect: &str, code: i32) -> Child {
    let script = format!("echo ready; read line; exit {code}");
    let mut command = with_seven(jail, redirect, &["sh", "-c", &script]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    wait_for_line(&mut child, "ready");
    child
}

fn run(jail: Jail, redirect: &str, argv: &[&str]) -> Run {
    finish(spawn(&mut with_seven(jail, redirect, argv)))
}

pub(crate) fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("lines");
    assert!(text.is_ascii() && text.ends_with('\n'), "{text:?}");
    let line = |line: &str| serde_json::from_str(line).expect("a line of JSON");
    text.lines().map(line).collect()
}

fn events(lines: &[Value]) -> Vec<&str> {
    let event = |line: &Value| line["event"].as_str().expect("an event").to_owned();
    let names: Vec<String> = lines.iter().map(event).collect();
    let known = ["built", "running", "ended", "refused"];
    let known = |name: &String| *known.iter().find(|known| *known == name).expect("known");
    names.iter().map(known).collect()
}

/// A whole run's lines, and those of one that is refused.
pub(crate) fn both(made: &Made) -> Vec<Value> {
    let file = made.workspace.path("lines");
    let to = format!(">>{}", path_str(&file));
    run(made.workspace.jail(), &to, &["sh", "-c", "exit 3"]);
    let absent = made.workspace.path("absent");
    run(
        made.workspace.jail().flag("--clone", absent),
        &to,
        &["true"],
    );
    lines(&file)
}

#[test]
fn a_run_and_a_refusal_are_told() {
    let made = Made::new();
    let lines = both(&made);
    assert_eq!(events(&lines), ["built", "running", "ended", "refused"]);
    assert_eq!(lines[2]["code"], 3);
    assert_eq!(lines[2]["cause"]["kind"], "exited");
    assert_eq!(lines[3]["refusal"]["reason"], "path");
}

#[test]
fn pid_1_is_named_before_the_command_ends() {
    let made = Made::new();
    let file = made.workspace.path("lines");
    let to = format!(">{}", path_str(&file));
    let mut child = waiting_with_seven(made.workspace.jail(), &to, 0);
    let so_far = lines(&file);
    assert_eq!(events(&so_far), ["built", "running"]);
    let pid = &so_far[0]["pid"];
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let inner = status.lines().find(|line| line.starts_with("NSpid:"));
    assert!(inner.unwrap().ends_with("\t1"), "{status}");
    let parent = status.lines().find(|line| line.starts_with("PPid:"));
    assert_eq!(parent.unwrap(), format!("PPid:\t{}", child.id()));
    drop(child.stdin.take());
    finish(child);
}

#[test]
fn the_command_does_not_have_it() {
    let made = Made::new();
    let to = format!(">{}", path_str(&made.workspace.path("lines")));
    let run = run(made.jail(), &to, &["ls", "/proc/self/fd"]);
    // 3 is the folder that ls reads.
    assert_eq!(run.stdout, "0\n1\n2\n3\n", "{run:#?}");
    let whole = made.verify("");
    assert_eq!(whole.code, Some(0), "{whole:#?}");
}

#[test]
fn a_reader_that_does_not_read_holds_nothing_up() {
    let made = Made::new();
    let fifo = made.workspace.path("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK;
    let ours = nix::fcntl::open(&fifo, flags, Mode::empty()).unwrap();
    let mut filled = 0;
    while let Ok(count) = nix::unistd::write(&ours, &[b'x'; 4096]) {
        filled += count;
    }
    let to = format!("<>{}", path_str(&fifo));
    let whole = run(made.workspace.jail(), &to, &["true"]);
    assert_eq!(whole.code, Some(0), "{whole:#?}");
    let mut rest = vec![0; filled + 4096];
    let mut reader = File::from(ours);
    let length = reader.read(&mut rest).unwrap();
    assert_eq!(length, filled, "nothing was written");

    // Read again in the middle: the next line says what was lost.
    while nix::unistd::write(&reader, &[b'x'; 4096]).is_ok() {}
    let mut child = waiting_with_seven(made.workspace.jail(), &to, 0);
    while reader.read(&mut rest).is_ok() {}
    drop(child.stdin.take());
    assert_eq!(finish(child).code, Some(0));
    let length = reader.read(&mut rest).unwrap();
    let line: Value = serde_json::from_slice(&rest[..length]).unwrap();
    assert_eq!(
        (&line["event"], &line["lost"]),
        (&"ended".into(), &2.into())
    );
}

/// It says that it has room, and a write of a line would wait for a reader.
#[test]
fn a_terminal_that_shows_nothing_holds_nothing_up() {
    let made = Made::new();
    let (_master, terminal) = nearly_full_terminal();
    let inner = made
        .workspace
        .jail()
        .flag("--status-fd", "7")
        .command(&["true"]);
    // Its standard input is the terminal.
    let mut shell = in_shell("exec \"$@\" 7<&0 </dev/null", &inner);
    let child = shell.stdin(terminal).spawn().unwrap();
    let whole = finish(child);
    assert_eq!(whole.code, Some(0), "{whole:#?}");
}

#[test]
fn a_reader_that_has_gone_is_nobodys_failure() {
    let made = Made::new();
    let fifo = made.workspace.path("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let reader = nix::fcntl::open(&fifo, OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty());
    let to = format!(">{}", path_str(&fifo));
    let mut child = waiting_with_seven(made.workspace.jail(), &to, 3);
    drop(reader.unwrap());
    drop(child.stdin.take());
    assert_eq!(finish(child).code, Some(3));
}

#[test]
fn what_is_no_descriptor_for_it_is_refused() {
    let made = Made::new();
    let jail = || made.workspace.jail();
    for number in ["0", "2", "-1"] {
        jail()
            .switch(&format!("--status-fd={number}"))
            .refused("usage");
    }
    jail().flag("--status-fd", "9").refused("receipt");
    let file = made.workspace.file("lines", "");
    let to = |redirect: &str| format!("{redirect}{}", path_str(&file));
    run(jail(), &to("<"), &["true"]).assert_refused("receipt");
    let folder = format!("<{}", path_str(&made.kept()));
    run(jail(), &folder, &["true"]).assert_refused("receipt");
    let same = jail().flag("--broker", "anthropic").flag("--key-fd", "7");
    run(same, &to("<>"), &["true"]).assert_refused("usage");
    assert_eq!(run(jail(), &to("<>"), &["true"]).code, Some(0), "vacuous");
}
