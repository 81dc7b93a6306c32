//! Leaked descriptors (nsjail#328, firejail#4845) and handles on host objects
//! (qwen-code#12267).

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::common::host::chmod;
use crate::common::{Workspace, path_str};

fn numbers(fds: &str) -> Vec<&str> {
    fds.split(' ')
        .filter_map(|fd| fd.split('=').next())
        .collect()
}

#[test]
fn inherited_descriptors_are_gone() {
    let workspace = Workspace::new();
    let folder = format!("3:{}", path_str(workspace.root()));
    let tmp = format!("1000:{}", path_str(workspace.root()));
    let situation = ["with-fds", &folder, "200:socket", &tmp];
    let outside = workspace.unjailed_in(&situation, &["fds"]);
    for number in ["3", "200", "1000"] {
        assert!(
            numbers(outside.ok()).contains(&number),
            "vacuous: {outside:#?}"
        );
    }
    let run = workspace.jail().in_situation(&situation).run(&["fds"]);
    assert_eq!(numbers(run.ok()), ["0", "1", "2"]);
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
