//! Hosts on which the jail can't stand.

use crate::common::host::program;
use crate::common::jail::spawn;
use crate::common::{Workspace, finish, is_root, path_str};

#[test]
fn a_host_that_allows_no_user_namespaces() {
    let workspace = Workspace::new();
    let run = workspace
        .jail_with_out()
        .in_situation(&["no-userns"])
        .refused("userns");
    let line = run.refusal();
    assert!(line.contains("ENOSPC"), "{line}");
    assert!(
        line.contains("max_user_namespaces"),
        "the sysctl in the way is named: {line}"
    );
    // Root can't make one either, so sudo is no way out.
    assert!(!line.contains("sudo"), "{line}");
}

#[test]
fn namespaces_without_capabilities_as_under_apparmors_restriction() {
    // unshare succeeds, and the first step that needs a capability is denied.
    let workspace = Workspace::new();
    let denied = &["deny-syscall", "sethostname", "EPERM"];
    let run = workspace
        .jail_with_out()
        .in_situation(denied)
        .refused("userns");
    let line = run.refusal();
    assert!(line.contains("EPERM"), "{line}");
    if std::fs::exists("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").is_ok_and(|is| is)
    {
        assert!(line.contains("AppArmor"), "the profile to install: {line}");
    }
    assert!(is_root() || line.contains("sudo"), "the other way: {line}");
}

#[test]
fn namespaces_that_are_denied() {
    let workspace = Workspace::new();
    // Docker's filter, a `deny userns` rule, Debian's unprivileged_userns_clone.
    for errno in ["EPERM", "EACCES", "EUSERS", "ENOSYS"] {
        let calls = clone_of_pid_1();
        let situation = ["fail-nth", calls, "1", errno];
        let run = workspace
            .jail_with_out()
            .in_situation(&situation)
            .refused("userns");
        assert!(run.refusal().contains(errno), "{run:#?}");
    }
}

/// The syscall by which pid 1 is made.
fn clone_of_pid_1() -> &'static str {
    "clone"
}

#[test]
fn maps_that_cannot_be_written() {
    // A read-only /proc, as some containers have it.
    let workspace = Workspace::new();
    let run = workspace
        .jail_with_out()
        .in_situation(&["mounts", "read-only:/proc"])
        .refused("maps");
    assert!(run.refusal().contains("EROFS"), "{run:#?}");
}

#[test]
fn a_proc_that_is_masked_as_in_an_unprivileged_container() {
    let workspace = Workspace::new();
    let masked = &["mounts", "tmpfs:/proc/tty"];
    let run = workspace
        .jail_with_out()
        .in_situation(masked)
        .refused("proc");
    assert!(run.refusal().contains("EPERM"), "{run:#?}");
}

#[test]
fn a_proc_of_another_pid_namespace() {
    let workspace = Workspace::new();
    let situation = &["foreign-proc"];
    let run = workspace
        .jail_with_out()
        .in_situation(situation)
        .refused("proc");
    assert!(run.refusal().contains("--mount-proc"), "{run:#?}");
    // Control: there, /proc/PID is somebody else, …
    let outside = workspace.unjailed_in(situation, &["read", "/proc/1/comm"]);
    let comm = std::fs::read_to_string("/proc/1/comm").expect("/proc");
    assert_eq!(outside.ok(), comm.trim_end());
    // … and with a /proc of its own it runs.
    let inner = workspace.jail().command(&["echo", "ran"]);
    let mut unshare = program("unshare", "util-linux");
    if !is_root() {
        unshare.args(["--user", "--map-current-user"]);
    }
    unshare
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(inner.get_program())
        .args(inner.get_args());
    let run = finish(spawn(&mut unshare));
    assert_eq!(run.outcome(), "ran");
}

#[test]
fn landlock_that_is_absent_or_filtered() {
    let workspace = Workspace::new();
    for (call, errno) in [
        ("landlock_create_ruleset", "ENOSYS"),
        ("landlock_create_ruleset", "EOPNOTSUPP"),
        ("landlock_create_ruleset", "EPERM"),
        ("landlock_add_rule", "EPERM"),
        ("landlock_restrict_self", "EPERM"),
    ] {
        let denied = &["deny-syscall", call, errno];
        let run = workspace
            .jail_with_out()
            .in_situation(denied)
            .refused("landlock");
        assert!(run.refusal().contains(errno), "{run:#?}");
    }
}

#[test]
fn a_refusal_of_the_commands_process_ends_a_pid_1_that_waits() {
    // One of these messages is pid 1's, that the jail stands: held, it comes after
    // the refusal, and the answer that pid 1 waits for never does.
    let workspace = Workspace::new();
    let probe = workspace.probe();
    for nth in ["2", "3", "4"] {
        let denied = ["deny-syscall", "landlock_restrict_self", "EPERM", "--"];
        let held = [path_str(&probe), "hold-nth", "sendto", nth];
        let run = workspace
            .jail_with_out()
            .in_situation(&[&denied[..], &held].concat())
            .refused("landlock");
        assert!(!run.stderr.contains("survivors"), "{nth}: {run:#?}");
    }
}

#[test]
fn landlock_may_be_absent_where_the_caller_says_so() {
    let workspace = Workspace::new();
    for errno in ["ENOSYS", "EOPNOTSUPP"] {
        let denied = &["deny-syscall", "landlock_create_ruleset", errno];
        let jail = || workspace.jail_with_out().in_situation(denied);
        assert_eq!(
            jail()
                .flag("--landlock", "best-effort")
                .run(&["say", "ran"])
                .ok(),
            "ran"
        );
    }
}

#[test]
fn seccomp_that_is_absent_or_filtered() {
    let workspace = Workspace::new();
    for errno in ["ENOSYS", "EINVAL", "EPERM"] {
        let denied = &["deny-syscall", "seccomp", errno];
        let run = workspace
            .jail_with_out()
            .in_situation(denied)
            .refused("seccomp");
        assert!(run.refusal().contains(errno), "{run:#?}");
    }
}

#[test]
fn cores_that_a_handler_of_the_host_would_get() {
    // With a hard limit of 0 the limit can't be the 1 at which no handler runs.
    let workspace = Workspace::new();
    let piped = workspace.file("piped", "|/no/such/handler %p\n");
    let plain = workspace.file("plain", "core\n");
    let start = |pattern: &std::path::Path, limit: u32| {
        let cover = format!("bind:{}:/proc/sys/kernel/core_pattern", path_str(pattern));
        let limited = format!("ulimit -c {limit}; exec \"$@\"");
        let situation = ["mounts", &cover, "--", "sh", "-c", &limited];
        workspace.jail_with_out().in_situation(&situation)
    };
    let run = start(&piped, 0).refused("limits");
    assert!(run.refusal().contains("core_pattern"), "{run:#?}");
    // Control: each alone is no obstacle. It comes as far as a /proc of its own,
    // which the cover forbids.
    start(&piped, 1).refused("proc");
    start(&plain, 0).refused("proc");
}

#[test]
fn a_kernel_below_the_floor() {
    let workspace = Workspace::new();
    let run = workspace
        .jail_with_out()
        .in_situation(&["uname26"])
        .refused("kernel");
    assert!(
        run.refusal().contains("2.6."),
        "it says which kernel: {run:#?}"
    );
}

#[test]
fn the_clone_may_lie_on_a_locked_mount() {
    // Not a refusal: flags that the jail may not clear are kept.
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let mount = format!("tmpfs:{}:MS_NOSUID|MS_NODEV|MS_NOEXEC", path_str(&clone));
    let file = format!("file:{}/tracked:locked", path_str(&clone));
    let jail = || workspace.jail().in_situation(&["mounts", &mount, &file]);
    assert_eq!(jail().run(&["read", "tracked"]).ok(), "locked");
    let run = jail().run_program(&["cat", "/proc/mounts"]);
    let line = run
        .stdout
        .lines()
        .find(|line| line.contains(path_str(&clone)));
    let line = line.expect("the clone is a mount");
    for flag in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(line.contains(flag), "{flag} is kept: {line}");
    }
}
