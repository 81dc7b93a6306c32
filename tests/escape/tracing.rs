//! Tracing: of pid 1, of the launcher, and of the command's own children.

use crate::common::{Attack, Workspace, assert_denied_either_way};

#[test]
fn no_process_is_traced_or_read() {
    let workspace = Workspace::new();
    let attacks = [
        Attack::new("trace-child", &["EPERM"]),
        Attack::new("peek child", &["EPERM"]),
        Attack::new("take-fd child", &["EPERM"]),
        Attack::new("peek 1", &["EPERM"]).control("peek child"),
        Attack::new("take-fd 1", &["EPERM"]).control("take-fd child"),
    ];
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn tracing_within_the_jail_can_be_allowed() {
    let workspace = Workspace::new();
    let jail = || workspace.jail().switch("--allow-ptrace");
    assert_eq!(jail().run(&["trace-child"]).ok(), "");
    assert_eq!(jail().run(&["peek", "child"]).ok(), "");
    // Pid 1 stays out of reach.
    let attacks = [
        Attack::new("peek 1", &["EPERM"]).control("peek child"),
        Attack::new("take-fd 1", &["EPERM"]).control("take-fd child"),
        Attack::new("syscall ptrace PTRACE_ATTACH 1 0 0", &["EPERM"]).control("trace-child"),
        Attack::new("syscall ptrace PTRACE_SEIZE 1 0 0", &["EPERM"]).control("trace-child"),
    ];
    assert_denied_either_way(&workspace, jail, &attacks);
}
