//! Readers that don't read: they hold no end up.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::desk::{terminal_pair, wait_until};
use crate::common::host::{self, processes_named};
use crate::common::jail::wait_for_line;
use crate::common::{Workspace, finish};
use crate::{is_pending, signal};

/// A pipe that takes nothing more, and its reader.
fn full_pipe() -> (OwnedFd, File) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let unwaiting = |is_so| {
        let flags = if is_so {
            OFlag::O_NONBLOCK
        } else {
            OFlag::empty()
        };
        fcntl(&writer, FcntlArg::F_SETFL(flags)).expect("our pipe");
    };
    unwaiting(true);
    let filled = loop {
        if let Err(error) = (&writer).write(&[b'.'; 4096]) {
            break error;
        }
    };
    assert_eq!(filled.kind(), std::io::ErrorKind::WouldBlock);
    unwaiting(false);
    (OwnedFd::from(reader), File::from(OwnedFd::from(writer)))
}

#[test]
fn a_time_limit_holds_where_nobody_reads_what_is_said() {
    let workspace = Workspace::new();
    let (_reader, full) = full_pipe();
    let nowhere = File::options().write(true).open("/dev/full");
    let jail = workspace
        .jail()
        .flag("--timeout", "300ms")
        .flag("--grace", "200ms");
    // That its output is lost is to be said at once, and the cause at the end.
    let command = jail
        .stdio(1, nowhere.expect("/dev/full"))
        .stdio(2, full)
        .command(&[host::path_str(&workspace.probe()), "stubborn", "60"])
        .spawn();
    assert_eq!(finish(command.expect("it starts")).code, Some(124));
}

#[test]
fn a_term_ends_a_flood_that_nobody_reads() {
    let workspace = Workspace::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut child = workspace
        .jail()
        .stdio(1, writer.try_clone().expect("a descriptor"))
        .stdio(2, writer.try_clone().expect("a descriptor"))
        .command(&["yes"])
        .spawn()
        .expect("it starts");
    wait_until("the pipe is full", || !has_room(writer.as_fd()));
    assert!(child.try_wait().expect("our child").is_none());
    signal(&child, Signal::SIGTERM);
    assert_eq!(finish(child).code, Some(143));
    drop(reader);
}

#[test]
fn the_callers_death_is_the_jails_whoever_reads() {
    let workspace = Workspace::new();
    let (binary, name) = workspace.named_binary();
    let jail = workspace.jail().binary(binary);
    let run = jail.command(&[host::path_str(&workspace.probe()), "stubborn", "60"]);
    let mut caller = Command::new("sh");
    caller
        .args(["-c", "\"$@\"; exit 9", "sh"])
        .arg(run.get_program())
        .args(run.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let (_reader, full) = full_pipe();
    let mut caller = caller.stderr(full).spawn().expect("sh starts");
    wait_for_line(&mut caller, "ready");
    caller.kill().expect("our child");
    caller.wait().expect("our child");
    host::wait_until_gone("a process of groom-ns", || processes_named(&name));
    let marker = workspace.probe();
    host::wait_until_gone("the command", || {
        host::processes_with(host::path_str(&marker))
    });
}

/// To poll(2) it has room when it takes a byte; the end of a line takes two.
#[test]
fn a_terminal_that_shows_nothing_holds_no_term_up() {
    let workspace = Workspace::new();
    for is_all in [false, true] {
        let (master, slave) = terminal_pair();
        let end = || File::from(slave.try_clone().expect("a descriptor"));
        // Its first bytes are the command's: no warning comes before.
        let mut jail = workspace.jail().switch("--quiet").stdio(1, end());
        if is_all {
            // All that is said goes there, too.
            jail = jail.stdio(2, end());
        }
        let child = jail.command(&["cat", "/dev/zero"]).spawn();
        let child = child.expect("it starts");
        // It is full soon, and there is more in the pipe than it takes.
        let begun = || {
            let mut ask = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
            poll(&mut ask, PollTimeout::ZERO).expect("our terminal") == 1
        };
        wait_until("the flood has begun", begun);
        signal(&child, Signal::SIGTERM);
        assert_eq!(finish(child).code, Some(143), "{is_all}");
    }
}

fn has_room(fd: BorrowedFd) -> bool {
    let mut ask = [PollFd::new(fd, PollFlags::POLLOUT)];
    poll(&mut ask, PollTimeout::ZERO).expect("a descriptor") == 1
}

/// The command has ended, and nothing is left to be told.
#[test]
fn a_signal_that_ends_nothing_leaves_the_last_output_alone() {
    let workspace = Workspace::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let script = "head -c 100000 /dev/zero; exit 3";
    let (binary, name) = workspace.named_binary();
    let child = workspace
        .jail()
        .binary(binary)
        .stdio(1, writer)
        .command(&["sh", "-c", script])
        .spawn()
        .expect("it starts");
    let supervisor = i32::try_from(child.id()).expect("a pid");
    wait_until("the jail stands", || processes_named(&name).len() > 1);
    wait_until("the command has ended", || {
        processes_named(&name) == [supervisor]
    });
    for sent in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH] {
        signal(&child, sent);
        wait_until("it is taken", || !is_pending(&child, sent));
    }
    kill(Pid::from_raw(supervisor), None).expect("it still moves the output");
    let mut moved = Vec::new();
    let mut reader = File::from(OwnedFd::from(reader));
    reader.read_to_end(&mut moved).expect("a pipe");
    assert_eq!((finish(child).code, moved.len()), (Some(3), 100_000));
}
