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
fn the_limit_is_the_one_that_also_stops_a_handler() {
    // Changing the host's core_pattern is not a test's to do: 1 is the value
    // at which the kernel runs no handler (core(5)), 0 isn't.
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["state"]);
    assert!(run.lines().contains(&"cores=1/1"), "{run:#?}");
}
