//! Leaked descriptors (nsjail#328, firejail#4845) and handles on host objects
//! (qwen-code#12267).

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::common::host::{chmod, processes_named};
use crate::common::{Workspace, is_root, path_str};

fn numbers(fds: &str) -> Vec<&str> {
    fds.split(' ')
        .filter_map(|fd| fd.split('=').next())
        .collect()
}

#[test]
fn inherited_descriptors_are_gone() {
    let workspace = Workspace::new();
    let folder = format!("3:{}", path_str(workspace.root()));
    let tmp = format!("2048:{}", path_str(workspace.root()));
    let situation = ["with-fds", &folder, "200:socket", &tmp];
    let outside = workspace.unjailed_in(&situation, &["fds"]);
    for number in ["3", "200", "2048"] {
        assert!(
            numbers(outside.ok()).contains(&number),
            "vacuous: {outside:#?}"
        );
    }
    let run = workspace.jail().in_situation(&situation).run(&["fds"]);
    assert_eq!(numbers(run.ok()), ["0", "1", "2"]);
}

#[test]
fn no_process_of_a_run_keeps_what_the_caller_left_open() {
    // A lock or the end of a pipe would stay held for as long as the run takes.
    let workspace = Workspace::new();
    let (copy, name) = workspace.named_binary();
    let folder = path_str(workspace.root()).to_owned();
    let situation = [
        "with-fds",
        &format!("3:{folder}"),
        &format!("1000:{folder}"),
    ];
    let outside = workspace.unjailed_in(&situation, &["fds"]);
    assert!(outside.ok().contains(&folder), "vacuous: {outside:#?}");
    let jail = workspace.jail().binary(copy).in_situation(&situation);
    let mut child = jail.start(&["sleep", "60"]);
    crate::common::jail::wait_for_line(&mut child, "ready");
    let open: Vec<(i32, Vec<String>)> = processes_named(&name)
        .into_iter()
        .map(|pid| (pid, links_of(pid)))
        .collect();
    child.kill().expect("our child");
    let _ = crate::common::finish(child);
    assert_eq!(open.len(), 2, "the launcher and pid 1: {open:?}");
    for (pid, links) in &open {
        assert!(!links.contains(&folder), "{pid} has it: {links:?}");
        assert!(
            !links.is_empty() || !is_root(),
            "root can look at both: {open:?}"
        );
    }
    // Pid 1, which only root can look at, holds its channel and the pipe that
    // let the command go, beside three times the jail's /dev/null.
    let mut of_pid_1 = open
        .last()
        .map(|(_, links)| links.clone())
        .unwrap_or_default();
    of_pid_1.retain(|link| link != "/dev/null");
    if is_root() {
        let kinds: Vec<&str> = of_pid_1
            .iter()
            .filter_map(|link| link.split(':').next())
            .collect();
        assert_eq!(kinds, ["pipe", "socket"], "{open:?}");
    }
}

/// Where the open descriptors of a process lead; none if it can't be seen.
fn links_of(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    let mut links: Vec<String> = links.map(|link| path_str(&link).to_owned()).collect();
    links.sort();
    links
}

#[test]
fn closed_standard_descriptors_become_null_and_nothing_else_lands_there() {
    let workspace = Workspace::new();
    for closed in [&["0"][..], &["2"], &["0", "2"]] {
        let situation = [&["closed-fds"], closed].concat();
        let run = workspace.jail().in_situation(&situation).run(&["fds"]);
        assert_eq!(numbers(run.ok()), ["0", "1", "2"], "{closed:?}");
        for fd in closed {
            let null = format!("{fd}=char:/dev/null");
            assert!(run.ok().contains(&null), "{closed:?}: {}", run.ok());
        }
    }
    // With stdout closed the exit code speaks.
    for closed in [&["1"][..], &["0", "1", "2"]] {
        let situation = [&["closed-fds"], closed].concat();
        let run = workspace
            .jail()
            .in_situation(&situation)
            .run(&["exit", "42"]);
        assert_eq!(run.code, Some(42), "{closed:?}: {run:#?}");
    }
}

#[test]
fn a_regular_file_as_output_cannot_be_misused() {
    let workspace = Workspace::new();
    let log = workspace.file("log", "earlier lines\n");
    chmod(&log, 0o600);
    for fd in [1, 2] {
        let file = File::options()
            .append(true)
            .read(true)
            .open(&log)
            .expect("the log");
        let jail = workspace.jail().stdio(fd, file);
        let run = jail.run(&["misuse-fd", &fd.to_string()]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        let text = fs::read_to_string(&log).expect("the log");
        assert!(
            text.starts_with("earlier lines\n"),
            "truncated or overwritten: {text}"
        );
        let mode = fs::metadata(&log).expect("the log").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "its mode changed");
    }
    // Control: unjailed, the same misuse destroys the file.
    let victim = workspace.file("victim", "earlier lines\n");
    let file = File::options()
        .append(true)
        .read(true)
        .open(&victim)
        .expect("a file");
    let mut control = std::process::Command::new(workspace.probe());
    control
        .args(["misuse-fd", "2"])
        .stdout(Stdio::null())
        .stderr(file);
    assert!(control.status().expect("the probe").success());
    let text = fs::read_to_string(&victim).expect("the victim");
    assert!(
        !text.starts_with("earlier"),
        "vacuous: the file survives outside too"
    );
}

#[test]
fn a_regular_file_as_input_cannot_be_misused_or_reread() {
    let workspace = Workspace::new();
    let input = workspace.file("input", "a secret that was read already");
    chmod(&input, 0o600);
    let file = || {
        File::options()
            .read(true)
            .write(true)
            .open(&input)
            .expect("the input")
    };
    let run = workspace.jail().stdio(0, file()).run(&["reread-stdin"]);
    assert_eq!(run.outcome(), "ESPIPE");
    let control = Stdio::from(file());
    let mut outside = std::process::Command::new(workspace.probe());
    let outside = outside
        .arg("reread-stdin")
        .stdin(control)
        .output()
        .expect("the probe");
    let outside = String::from_utf8_lossy(&outside.stdout);
    assert_eq!(outside.trim(), "ok 30 then 30 bytes", "vacuous");

    let run = workspace.jail().stdio(0, file()).run(&["misuse-fd", "0"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let text = fs::read_to_string(&input).expect("the input");
    assert_eq!(text, "a secret that was read already");
    let mode = fs::metadata(&input)
        .expect("the input")
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(mode, 0o600, "its mode changed");
}

#[test]
fn no_descriptor_is_a_socket_or_a_file_of_the_host() {
    let workspace = Workspace::new();
    let (_ours, theirs) = UnixStream::pair().expect("sockets");
    let socket = || Stdio::from(OwnedFd::from(theirs.try_clone().expect("a copy")));
    let jail = workspace.jail().stdio(0, socket()).stdio(2, socket());
    let run = jail.run(&["fds"]);
    for fd in run.ok().split(' ') {
        assert!(
            fd.contains("=pipe:") || fd.ends_with("=char:/dev/null"),
            "a host object: {fd}"
        );
    }
}

#[test]
fn a_named_pipe_of_the_host_is_not_handed_in() {
    // It is the host's file system that it lies on, and its mode can be changed.
    let workspace = Workspace::new();
    let path = workspace.path("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let fifo = || {
        File::options()
            .read(true)
            .write(true)
            .open(&path)
            .expect("the pipe")
    };
    let mut outside = std::process::Command::new(workspace.probe());
    let outside = outside
        .arg("fds")
        .stdin(fifo())
        .output()
        .expect("the probe");
    let outside = String::from_utf8_lossy(&outside.stdout).into_owned();
    let own = format!("0=pipe:{}", path_str(&path));
    assert!(outside.contains(&own), "vacuous: {outside}");
    let run = workspace.jail().stdio(0, fifo()).run(&["fds"]);
    assert!(run.ok().contains("0=pipe:pipe:["), "{run:#?}");
}

#[test]
fn a_terminal_of_the_caller_is_not_handed_in() {
    let workspace = Workspace::new();
    let outside = workspace.unjailed_in(&["in-pty"], &["fds"]);
    assert!(
        outside.ok().contains("0=char:/dev/pts/"),
        "vacuous: {outside:#?}"
    );
    let run = workspace.jail().in_situation(&["in-pty"]).run(&["fds"]);
    assert!(run.ok().contains("0=pipe:pipe:["), "{run:#?}");
}

#[test]
fn what_is_handed_in_is_the_commands_to_open_again() {
    // Root's own pipe wouldn't be.
    let workspace = Workspace::new();
    let script = "echo one >/dev/stdout && echo two >/dev/stderr && cat </dev/stdin";
    let input = workspace.file("input", "three");
    let run = workspace
        .jail()
        .stdio(0, File::open(&input).expect("a file"))
        .run_program(&["sh", "-c", script]);
    assert_eq!(run.outcome(), "one\nthree", "{run:#?}");
    assert_eq!(run.stderr_but_for_groups(), "two\n");
}

#[test]
fn nothing_leads_upwards_from_a_descriptor() {
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .run(&["each", "up-from-fd 0", "up-from-fd 1", "up-from-fd 2"]);
    assert_eq!(run.lines(), ["ok stat=ENOTDIR chdir=ENOTDIR"; 3]);
    // Control: a folder as a descriptor does.
    let mut outside = std::process::Command::new(workspace.probe());
    outside
        .args(["up-from-fd", "0"])
        .stdin(File::open(workspace.root()).expect("a folder"));
    let outside = outside.output().expect("the probe");
    let text = String::from_utf8_lossy(&outside.stdout);
    assert_eq!(text.trim(), "ok stat=ok chdir=ok", "vacuous");
}
