//! Pipes of the caller's: whoever holds one end can open the other through
//! /proc/self/fd, and what is written into a shared input is read, and perhaps
//! obeyed, outside.

use std::fs::File;
use std::io::{PipeReader, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::fstat;

use crate::common::host::patience;
use crate::common::jail::pid_of;
use crate::common::{Workspace, finish};

/// What the caller can see of its pipe: mode, owner, capacity, flags of the shared
/// description, and what is in it.
fn seen(pipe: &mut PipeReader) -> (u32, u32, i32, i32, String) {
    let stat = fstat(pipe.as_fd()).expect("fstat");
    let size = fcntl(pipe.as_fd(), FcntlArg::F_GETPIPE_SZ).expect("F_GETPIPE_SZ");
    let flags = fcntl(pipe.as_fd(), FcntlArg::F_GETFL).expect("F_GETFL");
    let mut text = String::new();
    pipe.read_to_string(&mut text)
        .expect("nobody writes any more");
    (stat.st_mode, stat.st_uid, size, flags, text)
}

/// Attempts on standard input, each of which changes the pipe outside the jail.
/// F_SETFL is 4, F_SETPIPE_SZ 1031, O_NONBLOCK 2048.
const ATTEMPTS: [&[&str]; 4] = [
    &["write", "/proc/self/fd/0", "echo obeyed"],
    &["syscall", "fchmod", "0", "0x1ff"],
    &["syscall", "fcntl", "0", "1031", "4096"],
    &["syscall", "fcntl", "0", "4", "2048"],
];

#[test]
fn the_input_pipe_is_as_it_was() {
    let workspace = Workspace::new();
    let (mut untouched, writer) = std::io::pipe().expect("a pipe");
    drop(writer);
    let before = seen(&mut untouched);
    for attempt in ATTEMPTS {
        let (mut ours, writer) = std::io::pipe().expect("a pipe");
        let theirs = ours.try_clone().expect("a copy");
        let run = workspace.jail().stdio(0, theirs).run(attempt);
        // It does work, on a pipe that isn't the caller's.
        assert!(run.outcome().starts_with("ok"), "{attempt:?}: {run:#?}");
        drop(writer);
        assert_eq!(seen(&mut ours), before, "{attempt:?}");

        let (mut ours, writer) = std::io::pipe().expect("a pipe");
        let status = Command::new(workspace.probe())
            .args(attempt)
            .stdin(ours.try_clone().expect("a copy"))
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("the probe").success());
        drop(writer);
        assert_ne!(seen(&mut ours), before, "vacuous: {attempt:?}");
    }
}

#[test]
fn what_others_write_to_the_output_pipe_is_not_read() {
    let workspace = Workspace::new();
    let shared = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        nix::unistd::write(&writer, b"canary;").expect("write");
        (reader, writer)
    };
    let all = |mut reader: PipeReader| {
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("the pipe");
        text
    };
    let (reader, writer) = shared();
    let mut child = workspace.jail().stdio(1, writer).start(&["steal", "1"]);
    assert!(child.wait().expect("groom-ns").success());
    assert_eq!(all(reader), "canary;EAGAIN\n");

    let (reader, writer) = shared();
    let mut outside = Command::new(workspace.probe());
    let status = outside.args(["steal", "1"]).stdout(writer).status();
    assert!(status.expect("the probe").success());
    drop(outside); // which holds the writing end
    assert_eq!(all(reader), "ok canary;\n", "vacuous");
}

/// What is given back of a file is what was taken from it in this run, whatever the
/// command writes into its own end: a shell that reads its script there would run
/// lines again.
#[test]
fn a_file_as_input_is_not_rewound_to_before_the_run() {
    let workspace = Workspace::new();
    let script = workspace.file("script", &"0123456\n".repeat(50));
    for (attempt, expected) in [
        (&["write", "/proc/self/fd/0", &"x".repeat(900)][..], 8),
        (&["say", "nothing"], 8),
        // Control: what the command does read stays read.
        (&["syscall", "read", "0", "%0,0", "16"], 24),
    ] {
        let mut file = File::open(&script).expect("the script");
        file.seek(SeekFrom::Start(8)).expect("seek");
        let theirs = file.try_clone().expect("a copy");
        let run = workspace.jail().stdio(0, theirs).run(attempt);
        assert!(run.outcome().starts_with("ok"), "{run:#?}");
        assert_eq!(
            file.stream_position().expect("a position"),
            expected,
            "{attempt:?}"
        );
    }
}

#[test]
fn a_closed_output_or_input_is_closed_outside_too() {
    let workspace = Workspace::new();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let (soon, late) = (Duration::from_secs(2), Duration::from_secs(3));
    let (soon, late) = (patience(soon), patience(late).as_secs());
    let script = ["sh", "-c", &format!("echo text; exec >&-; sleep {late}")];
    let mut command = workspace.jail().stdio(1, writer).command(&script);
    let start = Instant::now();
    let child = command.spawn().expect("groom-ns");
    drop(command); // which holds the writing end
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("the output");
    assert_eq!(text, "text\n");
    assert!(start.elapsed() < soon, "the end is seen before the run's");
    assert_eq!(finish(child).code, Some(0));

    let (reader, writer) = std::io::pipe().expect("a pipe");
    let script = ["sh", "-c", &format!("exec <&-; sleep {late}")];
    let mut command = workspace.jail().stdio(0, reader).command(&script);
    let start = Instant::now();
    let child = command.spawn().expect("groom-ns");
    drop(command);
    // EPIPE; more than the pipes on the way hold would block for ever else.
    while nix::unistd::write(&writer, &[0; 4096]).is_ok() {
        assert!(start.elapsed() < soon, "nobody reads, and nobody says so");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(finish(child).code, Some(0));
}

#[test]
fn a_reader_that_does_not_read_keeps_no_run_from_ending() {
    let workspace = Workspace::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = workspace.jail().stdio(1, writer).command(&["yes"]);
    let child = command.spawn().expect("groom-ns");
    std::thread::sleep(patience(Duration::from_millis(300)));
    let start = Instant::now();
    let pid = pid_of(&child);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("kill");
    let run = finish(child);
    assert_eq!(run.code, Some(128 + 15));
    assert!(run.stderr.contains("output is lost"), "{run:#?}");
    assert!(start.elapsed() < patience(Duration::from_secs(5)));
    drop(reader);
}
