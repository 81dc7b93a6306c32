//! Kernel surface that no build or agent needs, and syscalls nobody knows yet.

use crate::common::{Attack, Workspace, assert_denied_either_way};

#[test]
fn the_kernels_surface_is_denied() {
    let workspace = Workspace::new();
    let calls = [
        "bpf 0 %0,0 16",
        "perf_event_open %0,0 0 -1 -1 0",
        "userfaultfd 0",
        "fanotify_init 0 0",
        "kexec_load 0 0 0 0",
        "kexec_file_load 0 0 0 0 0",
        "init_module 0 0 @",
        "finit_module 0 @ 0",
        "delete_module @x 0",
        "settimeofday 0 0",
        "clock_settime 0 %0,0",
        "clock_adjtime 0 %0,0",
        "adjtimex %0,0",
        "sethostname @x 1",
        "setdomainname @x 1",
        "syslog 3 %0,0 8",
        "quotactl 0 0 0 0",
        "swapon @/tmp/x 0",
        "swapoff @/tmp/x",
        "reboot 0 0 0 0",
        "acct 0",
        "iopl 3",
        "ioperm 0 1 1",
        "modify_ldt 0 %0 8",
        "vhangup",
        "lookup_dcookie 0 0 0",
        "add_key @user @x 0 0 -2",
        "request_key @user @x 0 0",
        "keyctl 0 -3 0",
        "personality 0x400000",
        "ptrace PTRACE_TRACEME 0 0 0",
        "ptrace PTRACE_ATTACH 1 0 0",
        "process_vm_readv 1 %0,0 1 %0,0 1 0",
        "process_vm_writev 1 %0,0 1 %0,0 1 0",
        "kcmp 1 1 0 0 0",
        "pidfd_getfd 0 0 0",
        "process_madvise 0 %0,0 1 0 0",
        "move_pages 1 0 0 0 0 0",
        "migrate_pages 1 0 0 0",
        "quotactl_fd 0 0 0 0",
        "ustat 0 %0,0,0,0",
        "uselib @/lib/x",
        "sysfs 3",
    ];
    let attacks = calls.map(|call| Attack::filtered(call, &["EPERM", "ENOSYS"]));
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn pid_1_is_not_starved() {
    let workspace = Workspace::new();
    // Pid 1 has the command's id, and so has all that PRIO_USER (2) and
    // IOPRIO_WHO_USER (3) mean: the kernel would do each of these. It takes 32
    // bits of a pid.
    let attacks = [
        "setpriority 0 1 19",
        "setpriority 2 0 19",
        "setpriority 0x100000002 0 19",
        "ioprio_set 1 1 0x6000",
        "ioprio_set 3 0 0x6000",
        "sched_setaffinity 1 8 %1",
        "sched_setaffinity 0x100000001 8 %1",
        "sched_setscheduler 1 5 %0",
        "sched_setparam 1 %0",
        "sched_setattr 1 %48,0,0,0,0,0 0",
    ]
    .map(|call| Attack::filtered(call, &["EPERM"]));
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
    // Of itself the command may.
    let own = [
        "each",
        "syscall setpriority 0 0 19",
        "syscall ioprio_set 1 0 0x6000",
        "syscall sched_setaffinity 0 8 %-1",
        "syscall sched_setscheduler 0 5 %0",
    ];
    assert_eq!(workspace.jail().run(&own).lines(), ["ok 0"; 4]);
}

#[test]
fn personalities_on_the_short_list_work() {
    let workspace = Workspace::new();
    // PER_LINUX and the query.
    let run = workspace.jail().run(&[
        "each",
        "syscall personality 0",
        "syscall personality 0xffffffff",
    ]);
    assert_eq!(run.lines(), ["ok 0", "ok 0"]);
    // READ_IMPLIES_EXEC, with the upper half that the kernel ignores; MMAP_PAGE_ZERO.
    let attacks = ["0x400000", "0x100400000", "0x100000"]
        .map(|value| Attack::new(format!("syscall personality {value}"), &["EPERM"]));
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn what_runtimes_probe_for_is_absent() {
    let workspace = Workspace::new();
    let attacks = [
        "clone3 %0,0,0,0,0,0,0,0,0,0,0 88",
        "io_uring_setup 1 %0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
        "io_uring_enter 0 0 0 0 0 0",
        "io_uring_register 0 0 0 0",
        "openat2 AT_FDCWD @/ %0,0,0 24",
    ]
    .map(|call| Attack::filtered(call, &["ENOSYS"]));
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
    assert_eq!(
        workspace.jail().run(&["threads", "20"]).ok(),
        "190",
        "threads work nevertheless"
    );
}

#[test]
fn syscalls_newer_than_the_build_are_absent() {
    let workspace = Workspace::new();
    // The kernel would say ENOSYS too; the listener shows who says it.
    let attacks = ["600", "1000", "0x3fffffff", "0x7fffffff", "-1"]
        .map(|nr| Attack::filtered(nr, &["ENOSYS"]));
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn cores_cannot_be_allowed_again() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&[
        "seq",
        "syscall setrlimit RLIMIT_CORE %-1,-1",
        "syscall prlimit64 0 RLIMIT_CORE %-1,-1 0",
        "syscall prlimit64 0 RLIMIT_CORE %0,0 %0,0",
        "state",
    ]);
    // Answered with success, so that no shell profile fails, and not done. Not
    // where the old limit is asked for too, which success would leave unwritten.
    assert_eq!(run.lines()[..3], ["ok 0", "ok 0", "EPERM"], "{run:#?}");
    assert!(run.lines().contains(&"cores=1/1"), "{run:#?}");
}
