//! Kernel knobs and kernel secrets, also where groom-ns was started by root.

use crate::common::{Attack, Workspace, assert_denied, is_root};

#[test]
fn no_knob_of_the_kernel_opens_for_writing() {
    let workspace = Workspace::new();
    for root in ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"] {
        let run = workspace.jail().run(&["open-all", root]);
        assert!(run.ok().starts_with("0 of "), "{root}: {run:#?}");
        if root == "/proc/sys" {
            let tried = run
                .ok()
                .split(' ')
                .nth(2)
                .map(|count| count.trim_end_matches(':'));
            let tried: usize = tried.and_then(|count| count.parse().ok()).expect("a count");
            assert!(tried > 100, "few files were tried: {run:#?}");
        }
    }
    // Control: in a user namespace with capabilities, some of /proc/sys opens.
    let outside = workspace.unjailed(&["in-userns", "open-all", "/proc/sys/net"]);
    assert!(!outside.ok().starts_with("0 of "), "vacuous: {outside:#?}");
    let open = |path| format!("syscall openat AT_FDCWD @{path} O_WRONLY");
    let attacks = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/kernel/hostname",
        "/proc/1/oom_score_adj",
        "/proc/1/uid_map",
        "/proc/self/uid_map",
    ]
    .map(|path| {
        Attack::new(open(path), &["EACCES", "EROFS", "EPERM", "ENOENT"])
            .control(open("/proc/self/oom_score_adj"))
    });
    assert_denied(&workspace, workspace.jail(), &attacks);
    // Where the kernel has it, it opens too: it is the jail's /dev/null.
    let trigger = "/proc/sysrq-trigger";
    if std::fs::exists(trigger).expect("a readable /proc") {
        let stats = ["each", &format!("stat {trigger}"), "stat /dev/null"];
        let run = workspace.jail().run(&stats);
        assert_eq!(run.lines()[0], run.lines()[1]);
        let outside = workspace.unjailed(&stats);
        assert_ne!(outside.lines()[0], outside.lines()[1], "vacuous");
    }
}

#[test]
fn kernel_memory_and_listings_are_covered() {
    let workspace = Workspace::new();
    let covered = [
        "kcore",
        "keys",
        "key-users",
        "timer_list",
        "sysrq-trigger",
        "kmsg",
        "sched_debug",
        "latency_stats",
    ];
    for name in covered {
        let run = workspace.jail().run(&["read", &format!("/proc/{name}")]);
        let outcome = run.outcome();
        let closed = ["ok", "EACCES", "EPERM", "ENOENT", "EROFS"];
        assert!(closed.contains(&outcome), "/proc/{name}: {outcome:.100}");
    }
    let outside = workspace.unjailed(&["stat", "/proc/timer_list"]);
    assert!(
        outside.outcome().starts_with("ok file"),
        "vacuous: {outside:#?}"
    );
    // Addresses are zeros, or the file is closed.
    let run = workspace
        .jail()
        .run_program(&["head", "-n", "50", "/proc/kallsyms"]);
    let zero = |line: &str| line.starts_with("0000000000000000 ");
    assert!(run.stdout.lines().all(zero), "{run:#?}");
    if is_root() {
        let outside = std::fs::read_to_string("/proc/kallsyms").expect("root reads it");
        if outside.lines().take(50).all(zero) {
            eprintln!("vacuous: this host hides kernel addresses from root too (kptr_restrict)");
        }
    }
}

#[test]
fn there_is_no_sysfs_and_no_cgroup_tree() {
    // release_agent (CVE-2022-0492) needs one.
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["read", "/proc/mounts"]);
    for line in run.lines() {
        let kind = line.split(' ').nth(2).expect("a filesystem");
        for absent in [
            "sysfs",
            "cgroup",
            "cgroup2",
            "debugfs",
            "tracefs",
            "securityfs",
            "bpf",
        ] {
            assert_ne!(kind, absent, "{line}");
        }
    }
    let outside = workspace.unjailed(&["read", "/proc/mounts"]);
    assert!(outside.ok().contains("sysfs"), "vacuous: no sysfs outside");
}
