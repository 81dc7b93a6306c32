//! Who holds the listener, and what a flood, a kill or a reader that doesn't read does.

use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe};

use crate::common::host::{
    patience, processes_named, processes_with, system_program, unique, wait_until_gone,
};
use crate::common::jail::wait_for_line;
use crate::common::{Jail, Workspace, finish, path_str};
use crate::{counted, denied};

/// How often a process has a listener among its descriptors; none if it can't be seen.
fn listeners_of(pid: i32) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter(|link| path_str(link) == "anon_inode:seccomp notify")
        .count()
}

fn explained(workspace: &Workspace) -> Jail {
    workspace.jail().switch("--explain-denials")
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a pid");
    kill(Pid::from_raw(pid), signal).expect("our child");
}

#[test]
fn the_supervisor_alone_has_the_listener() {
    let workspace = Workspace::new();
    for flags in [
        &["--explain-denials"][..],
        &["--explain-denials", "--allow-ptrace"],
    ] {
        let jail = || {
            flags
                .iter()
                .fold(workspace.jail(), |jail, flag| jail.switch(flag))
        };
        let run = jail().run(&["fds"]);
        let numbers: Vec<_> = run
            .ok()
            .split(' ')
            .filter_map(|fd| fd.split('=').next())
            .collect();
        assert_eq!(numbers, ["0", "1", "2"], "{run:#?}");
        let run = jail().run(&["each", "take-fd 1", "peek 1"]);
        assert_eq!(run.lines(), ["EPERM", "EPERM"], "{run:#?}");

        let (copy, name) = workspace.named_binary();
        let marker = unique("listener");
        let mut child = jail().binary(copy).start(&["sleep", "60", &marker]);
        wait_for_line(&mut child, "ready");
        let supervisor = i32::try_from(child.id()).expect("a pid");
        let probe = path_str(&workspace.probe()).to_owned();
        let of_jail: Vec<i32> = processes_named(&name)
            .into_iter()
            .chain(processes_with(&marker))
            .filter(|pid| *pid != supervisor)
            .collect();
        let command = of_jail.iter().find(|pid| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| path_str(&exe) == probe)
        });
        let held: Vec<_> = of_jail.iter().map(|pid| listeners_of(*pid)).collect();
        let of_command =
            command.map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count));
        let control = listeners_of(supervisor);
        child.kill().expect("our child");
        let _ = finish(child);
        assert_eq!(control, 1, "vacuous: the supervisor has one");
        assert_eq!(of_jail.len(), 2, "pid 1 and the command");
        assert!(matches!(of_command, Some(Ok(3))), "vacuous: {of_command:?}");
        assert_eq!(held, [0, 0]);
    }
}

/// An older kernel's answer must not be needed: nobody may be heard beside the
/// supervisor, whether it lives or not.
#[test]
fn a_listener_of_the_commands_own_is_denied() {
    let workspace = Workspace::new();
    // SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_NEW_LISTENER, and others beside it.
    let calls = ["1 8 0", "1 40 0", "1 0x100000008 0", "1 24 0"]
        .map(|call| format!("syscall seccomp {call}"));
    let probe = [&["each"], &calls.each_ref().map(String::as_str)[..]].concat();
    // Control: the kernel would look at the program first, which is none.
    assert_eq!(workspace.jail().run(&probe).lines(), ["EFAULT"; 4]);
    assert_eq!(explained(&workspace).run(&probe).lines(), ["EBUSY"; 4]);
    // A filter without one may be installed as ever.
    let run =
        explained(&workspace).run(&["each", "syscall seccomp 1 0 0", "syscall seccomp 1 1 0"]);
    assert_eq!(run.lines(), ["EFAULT"; 2]);
}

#[test]
fn a_flood_of_denied_calls_holds_up_neither_output_nor_signals() {
    let workspace = Workspace::new();
    let probe = workspace.probe();
    let flood = format!(
        "{} again-and-again syscall socket 40 1 0 &",
        path_str(&probe)
    );
    let script = format!(
        "{} seq 50000; exec {} catch",
        flood.repeat(32),
        path_str(&probe)
    );
    let mut child = explained(&workspace)
        .command(&["sh", "-c", &script])
        .spawn()
        .expect("groom-ns starts");
    wait_for_line(&mut child, "50000");
    wait_for_line(&mut child, "ready");
    let start = Instant::now();
    send(&child, Signal::SIGTERM);
    let run = finish(child);
    assert_eq!(run.outcome(), "ok SIGTERM");
    assert!(
        start.elapsed() < patience(Duration::from_secs(10)),
        "{:?}",
        start.elapsed()
    );
    assert!(counted(&run, "socket(AF_VSOCK") > 1000, "vacuous: {run:#?}");
}

/// A call waits while the supervisor is stopped.
const WAITS: &str = "\
import os, signal, socket, sys, time
there, done = sys.argv[1:]
print('ready', flush=True)
while not os.path.exists(there):
    time.sleep(0.001)
child = os.fork()
if not child:
    socket.socket(40, 1, 0)
while open(f'/proc/{child}/stat').read().rsplit(') ')[1][0] != 'S':
    time.sleep(0.001)
if done != 'stay':
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    open(done, 'w').close()
else:
    open(there + '-waits', 'w').close()
    time.sleep(60)
";

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + patience(Duration::from_secs(20));
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a command whose child makes a denied call while the supervisor is stopped.
fn stopped(workspace: &Workspace, jail: Jail, done: &str) -> Child {
    let python = system_program("python3", "python3");
    let out = workspace.out_dir();
    let there = out.join("there");
    let done = if done == "stay" {
        done.to_owned()
    } else {
        path_str(&out.join(done)).to_owned()
    };
    let mut child = jail
        .flag("--out-dir", &out)
        .command(&[&python, "-c", WAITS, path_str(&there), &done])
        .spawn()
        .expect("groom-ns starts");
    wait_for_line(&mut child, "ready");
    send(&child, Signal::SIGSTOP);
    fs::write(&there, "").expect("our out-dir");
    // As root it is the command's, too, which owns the folder.
    let _ = fs::set_permissions(&there, fs::Permissions::from_mode(0o644));
    child
}

#[test]
fn a_process_that_is_killed_while_it_waits_is_gone() {
    let workspace = Workspace::new();
    let child = stopped(&workspace, explained(&workspace), "done");
    until("the waiting child is killed", || {
        workspace.out_dir().join("done").exists()
    });
    send(&child, Signal::SIGCONT);
    let run = finish(child);
    assert_eq!(run.outcome(), "", "{run:#?}");
}

#[test]
fn nothing_survives_a_supervisor_that_is_killed_while_a_call_waits() {
    let workspace = Workspace::new();
    let (copy, name) = workspace.named_binary();
    let child = stopped(&workspace, explained(&workspace).binary(copy), "stay");
    let marker = path_str(&workspace.out_dir().join("there")).to_owned();
    until("a call waits", || {
        workspace.out_dir().join("there-waits").exists()
    });
    assert!(processes_with(&marker).len() >= 2, "vacuous");
    send(&child, Signal::SIGKILL);
    let run = finish(child);
    assert_eq!(run.code, None);
    wait_until_gone("pid 1", || processes_named(&name));
    wait_until_gone("the command", || processes_with(&marker));
}

#[test]
fn an_explanation_that_nobody_reads_does_not_keep_the_run() {
    let workspace = Workspace::new();
    let kinds: Vec<String> = (100..400)
        .map(|family| format!("syscall socket {family} 1 0"))
        .collect();
    let argv: Vec<&str> = std::iter::once("seq")
        .chain(kinds.iter().map(String::as_str))
        .collect();
    let read = explained(&workspace).run(&argv);
    let lines = denied(&read);
    assert_eq!(lines.len(), 257, "{lines:#?}");
    assert_eq!(lines[256], "44 calls of other kinds");
    let said: usize = lines.iter().map(|line| line.len()).sum();
    assert!(said > 2 * 4096, "vacuous: {said}");
    let (reads, writes): (OwnedFd, OwnedFd) = pipe().expect("a pipe");
    fcntl(&reads, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
    // A warning would come before.
    let jail = explained(&workspace).switch("--quiet");
    let child = jail.stdio(2, writes).start(&argv);
    let run = finish(child);
    assert_eq!(run.code, Some(0));
    let mut rest = String::new();
    fs::File::from(reads)
        .read_to_string(&mut rest)
        .expect("text");
    assert!(
        rest.starts_with("groom-ns: denied: 1x socket(") && rest.ends_with('\n'),
        "{rest}"
    );
}
