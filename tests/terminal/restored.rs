//! The caller's terminal is as it was, however a run ends.

use nix::sys::signal::{Signal, kill};

use crate::common::host::{self, processes_named};
use crate::common::{Desk, Workspace, is_root};

#[test]
fn after_every_kind_of_end() {
    let workspace = Workspace::new();
    workspace.file("clone/text", "no program");
    let mut desk = Desk::new(&workspace);
    let before = desk.mode();
    for (line, code) in [
        ("$G -- true", 0),
        ("$G -- sh -c 'exit 3'", 3),
        // The command leaves its own in a state.
        ("$G -- sh -c 'stty raw -echo; exit 4'", 4),
        ("$G -- sh -c 'kill -9 $$'", 137),
        ("$G -- /no/such/program", 127),
        ("$G -- ./text", 126),
        ("$G --clone / -- true", 125),
        ("$G --out-dir /no/such/folder -- true", 125),
        ("$G --timeout 300ms -- sleep 60", 124),
        (
            "$G --timeout 200ms --grace 200ms -- sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'",
            124,
        ),
    ] {
        let shown = desk.run(line);
        assert!(desk.mode() == before, "{line}: {shown}");
        assert_eq!(
            desk.run("echo $?").trim(),
            code.to_string(),
            "{line}: {shown}"
        );
    }
}

/// From a script: an interactive shell would put the terminal back itself.
#[test]
fn after_a_kill_that_nobody_can_catch() {
    let workspace = Workspace::new();
    for signal in [Signal::SIGKILL, Signal::SIGABRT] {
        for whole_job in [false, true] {
            let (copy, name) = workspace.named_binary();
            let script = format!(
                "echo begin; read x; {} run --clone {} --ro-file $P -- $P sleep 60; exec sleep 60",
                host::path_str(&copy),
                host::path_str(&workspace.clone_dir())
            );
            let mut desk = Desk::with(&workspace, &["bash", "-c", &script]);
            desk.wait_for("begin");
            let before = desk.mode();
            desk.line("");
            desk.wait_for("ready");
            assert!(
                desk.mode() != before,
                "vacuous: the terminal isn't in raw mode"
            );
            let groom = desk.child();
            let whom = if whole_job {
                -desk.pid().as_raw()
            } else {
                groom
            };
            kill(nix::unistd::Pid::from_raw(whom), signal).expect("our job");
            desk.wait_for_mode("as it was", |mode| *mode == before);
            host::wait_until_gone("a process of groom-ns", || processes_named(&name));
        }
    }
}

/// The one child of groom-ns that isn't in the jail's pid namespace.
fn guard_of(desk: &Desk) -> i32 {
    let groom = desk.foreground();
    let children = std::fs::read_to_string(format!("/proc/{groom}/task/{groom}/children"));
    let children = children.expect("a live process");
    let mut children = children
        .split_whitespace()
        .map(|pid| pid.parse().expect("a pid"));
    let is_guard = |pid: &i32| !host::status_field(*pid, "NSpid:").contains(' ');
    children.find(is_guard).expect("a guard")
}

#[test]
fn after_a_kill_of_its_guard() {
    let workspace = Workspace::new();
    let script = "echo begin; read x; $G -- $P sleep 60; exec sleep 60";
    let mut desk = Desk::with(&workspace, &["bash", "-c", script]);
    desk.wait_for("begin");
    let before = desk.mode();
    desk.line("");
    desk.wait_for("ready");
    assert!(desk.mode() != before, "vacuous: it isn't in raw mode");
    let guard = nix::unistd::Pid::from_raw(guard_of(&desk));
    kill(guard, Signal::SIGKILL).expect("our job's child");
    desk.keys(b"\x03");
    desk.wait_for_mode("as it was", |mode| *mode == before);
}

/// It outlives groom-ns and was forked by it: nothing of the run's may be kept by it.
#[test]
fn its_guard_holds_nothing_else() {
    let workspace = Workspace::new();
    let mut desk = Desk::new(&workspace);
    desk.line("$G -- $P sleep 60");
    desk.wait_for("ready");
    let guard = guard_of(&desk);
    assert_eq!(
        host::status_field(guard, "SigBlk:"),
        "fffffffe7ffbfeff",
        "no signal ends it"
    );
    let folder = format!("/proc/{guard}/fd");
    if !is_root() {
        let denied = std::fs::read_dir(folder).expect_err("nobody may look");
        assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
        return;
    }
    let mut held: Vec<String> = std::fs::read_dir(folder)
        .expect("root may look")
        .flatten()
        .map(|fd| {
            std::fs::read_link(fd.path())
                .expect("a descriptor")
                .display()
                .to_string()
        })
        .collect();
    held.sort();
    let kind = |name: &String| {
        name.split([':', '['])
            .next()
            .unwrap_or_default()
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned()
    };
    let kinds: Vec<String> = held.iter().map(kind).collect();
    assert_eq!(
        kinds,
        ["/dev/null", "/dev/null", "/dev/null", "/dev/pts/", "socket"],
        "{held:?}"
    );
}
