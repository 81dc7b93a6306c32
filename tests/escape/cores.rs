//! Core dumps, which a `|handler` would get as root on the host (podman#22958).

use crate::common::{Workspace, path_str};

#[test]
fn a_crash_leaves_no_core() {
    let workspace = Workspace::with_git();
    workspace.folder("out");
    let before = crate::common::workspace::snapshot(workspace.root());
    let crash = libc::SIGSEGV.to_string();
    for cwd in [workspace.clone_dir(), workspace.out_dir()] {
        let script = format!(
            "cd {}; ulimit -c unlimited; {} die-by {crash}",
            path_str(&cwd),
            path_str(&workspace.probe()),
        );
        let run = workspace
            .jail_with_out()
            .writable()
            .run_program(&["sh", "-c", &script]);
        assert_eq!(run.code, Some(128 + libc::SIGSEGV), "{run:#?}");
        assert!(!run.stderr.contains("core dumped"), "{run:#?}");
    }
    assert_eq!(crate::common::workspace::snapshot(workspace.root()), before);
}

#[test]
fn outside_the_same_crash_leaves_one() {
    // The control of the above, where the host's setting lets it be made: a handler
    // of the host is not for a test to run.
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("/proc");
    let limit = nix::sys::resource::Resource::RLIMIT_CORE;
    let (_, hard) = nix::sys::resource::getrlimit(limit).expect("a limit");
    if pattern.contains(['|', '/']) || hard == 0 {
        eprintln!("vacuous: this host writes no core into the current folder: {pattern}");
        return;
    }
    let workspace = Workspace::new();
    let folder = workspace.folder("crash");
    let script = format!(
        "ulimit -c unlimited; exec {} die-by {}",
        path_str(&workspace.probe()),
        libc::SIGSEGV
    );
    let mut sh = std::process::Command::new("sh");
    let status = sh.args(["-c", &script]).current_dir(&folder).status();
    assert!(!status.expect("sh").success());
    let cores = std::fs::read_dir(&folder).expect("a folder").count();
    assert_eq!(cores, 1, "vacuous: no core outside either");
}

#[test]
fn the_limit_is_the_one_that_also_stops_a_handler() {
    // Changing the host's core_pattern is not a test's to do: 1 is the value
    // at which the kernel runs no handler (core(5)), 0 isn't.
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["state"]);
    assert!(run.lines().contains(&"cores=1/1"), "{run:#?}");
}
