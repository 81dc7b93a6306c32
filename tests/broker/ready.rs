//! How `groom-ns broker` says that it is ready, and what becomes of it where nobody reads.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::alone::upstream;
use crate::common::desk::{nearly_full_terminal, wait_until};
use crate::common::host::{in_shell, path_str};
use crate::common::jail::{finish, pid_of};
use crate::common::{Broker, Client, Folder};
use crate::hostile::get;

#[test]
fn it_says_when_it_is_ready() {
    let upstream = upstream();
    let folder = Folder::new();
    let fifo = folder.path("ready");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let start = Broker::before(&upstream).flag("--ready-fd", "9");
    let shell = in_shell(
        &format!("exec \"$@\" 9>{}", path_str(&fifo)),
        &start.command(),
    );
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        fs::File::open(fifo)
            .expect("a pipe")
            .read_to_string(&mut text)
            .expect("text");
        text
    });
    let broker = start.start_as(shell);
    // The descriptor is closed once it has been used.
    let text = reading.join().expect("the end of the pipe");
    assert!(!text.is_empty());
    broker.assert_alive();
    // What it says, it says on stdout; on stderr there is nothing.
    let (run, _) = broker.stop();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:#?}");
    // Not ready, not said.
    let folder = Folder::new();
    let taken = folder.secret("file", "x");
    let start = Broker::before(&upstream).listen(format!("unix:{}", path_str(&taken)));
    start.refused("socket");
}

/// Whoever doesn't read that it is ready holds up neither its clients nor its end.
#[test]
fn it_serves_before_anybody_has_read_that_it_is_ready() {
    let upstream = upstream();
    let start = Broker::before(&upstream);
    let socket = start.folder().path("broker.sock");
    let (_master, terminal) = nearly_full_terminal();
    let child = start.command().stdout(terminal).spawn();
    let child = child.expect("groom-ns starts");
    wait_until("it listens", || UnixStream::connect(&socket).is_ok());
    let answer = Client::unix(&socket).ask(&get("/v1/models"));
    assert_eq!(answer.whole(), b"spent");
    kill(pid_of(&child), Signal::SIGTERM).expect("our child");
    assert_eq!(finish(child).code, Some(0));
}

/// Of the two places where it says so, one that nobody reads doesn't hold up the other; nor
/// does it keep looking.
#[test]
fn a_reader_that_reads_is_told_whatever_another_does() {
    let upstream = upstream();
    let start = Broker::before(&upstream).flag("--ready-fd", "9");
    let (mut reader, full) = full_pipe();
    let stdout = start.folder().path("stdout");
    let child = in_shell("exec \"$@\" 9>&0 0</dev/null", &start.command())
        .stdin(full)
        .stdout(fs::File::create(&stdout).expect("a file"))
        .spawn()
        .expect("groom-ns starts");
    let said = || fs::read_to_string(&stdout).expect("text");
    wait_until("it says so", || said().starts_with("ready unix:"));
    let before = switches(pid_of(&child));
    std::thread::sleep(Duration::from_millis(500));
    let woken = switches(pid_of(&child)) - before;
    assert!(woken < 20, "it was woken {woken} times in half a second");
    // Whoever reads late gets the line nevertheless, and its end.
    let mut late = String::new();
    reader.read_to_string(&mut late).expect("text");
    assert_eq!(late.trim_start_matches('.'), said());
    kill(pid_of(&child), Signal::SIGTERM).expect("our child");
    assert_eq!(finish(child).code, Some(0));
}

/// A pipe that takes no more.
fn full_pipe() -> (fs::File, fs::File) {
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).expect("a pipe");
    let room = nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_GETPIPE_SZ).expect("a size");
    let fill = vec![b'.'; usize::try_from(room).expect("a size")];
    let mut writer = fs::File::from(writer);
    writer.write_all(&fill).expect("room");
    (reader.into(), writer)
}

/// How often a process waited (proc_pid_status(5)).
fn switches(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = |line: &str| {
        Some(
            line.strip_prefix("voluntary_ctxt_switches:")?
                .trim()
                .parse(),
        )
    };
    let count = status.lines().find_map(line).expect("a count");
    count.expect("a number")
}
