//! Pipes of the caller's: whoever holds one end can open the other through
//! /proc/self/fd, and what is written into a shared input is read, and perhaps
//! obeyed, outside.

use std::io::{PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::fstat;

use crate::common::Workspace;

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
