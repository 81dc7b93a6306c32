//! Syscalls and their arguments by name, as the tests write them:
//! `syscall openat AT_FDCWD @/etc/passwd O_RDONLY|O_CLOEXEC`.

use std::ffi::CString;

use crate::{Outcome, raw};

/// Constants by the names that libc gives them.
macro_rules! named {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name as i64)),*] };
}
/// Syscall numbers by the kernel's names.
macro_rules! numbers {
    ($($name:ident = $constant:ident)*) => { &[$((stringify!($name), libc::$constant)),*] };
}

#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_lossless,
    clippy::unnecessary_cast,
    reason = "libc gives its constants many types; all fit"
)]
const CONSTANTS: &[(&str, i64)] = named! {
    AT_FDCWD AT_EMPTY_PATH AT_RECURSIVE AT_SYMLINK_NOFOLLOW
    CLONE_NEWUSER CLONE_NEWNS CLONE_NEWPID CLONE_NEWNET CLONE_NEWIPC CLONE_NEWUTS CLONE_NEWCGROUP
    MS_RDONLY MS_REMOUNT MS_BIND MS_REC MS_PRIVATE MS_NOSUID MS_NODEV MS_NOEXEC MNT_DETACH
    OPEN_TREE_CLONE
    IPPROTO_DCCP IPPROTO_IGMP IPPROTO_MPTCP IPPROTO_RAW IPPROTO_SCTP IPPROTO_TCP IPPROTO_UDPLITE
    O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_TRUNC O_PATH O_DIRECTORY O_NOFOLLOW O_TMPFILE
    PTRACE_ATTACH PTRACE_SEIZE PTRACE_TRACEME
    RLIMIT_CORE RLIMIT_NOFILE
    S_IFCHR S_IFBLK S_IFIFO S_IFREG S_IFSOCK
    TIOCSTI TIOCLINUX TIOCSETD
    EPERM EBUSY EMFILE EDQUOT ENOENT EIO EACCES EINVAL ENOSYS ENOSPC EUSERS EOPNOTSUPP ENOMEM EAGAIN ENFILE
};

const SYSCALLS: &[(&str, i64)] = numbers! {
    accept4 = SYS_accept4 access = SYS_access acct = SYS_acct add_key = SYS_add_key
    adjtimex = SYS_adjtimex arch_prctl = SYS_arch_prctl bind = SYS_bind bpf = SYS_bpf brk = SYS_brk
    capget = SYS_capget capset = SYS_capset chdir = SYS_chdir chmod = SYS_chmod chown = SYS_chown
    chroot = SYS_chroot clock_adjtime = SYS_clock_adjtime clock_gettime = SYS_clock_gettime
    clock_nanosleep = SYS_clock_nanosleep clock_settime = SYS_clock_settime clone = SYS_clone
    clone3 = SYS_clone3 close = SYS_close close_range = SYS_close_range connect = SYS_connect
    creat = SYS_creat delete_module = SYS_delete_module dup = SYS_dup dup2 = SYS_dup2
    dup3 = SYS_dup3 epoll_create1 = SYS_epoll_create1 epoll_ctl = SYS_epoll_ctl
    epoll_wait = SYS_epoll_wait eventfd2 = SYS_eventfd2 execve = SYS_execve execveat = SYS_execveat
    exit = SYS_exit exit_group = SYS_exit_group faccessat = SYS_faccessat
    faccessat2 = SYS_faccessat2 fadvise64 = SYS_fadvise64 fanotify_init = SYS_fanotify_init
    fchdir = SYS_fchdir fchmod = SYS_fchmod fchmodat = SYS_fchmodat fchmodat2 = SYS_fchmodat2
    fchown = SYS_fchown fchownat = SYS_fchownat fcntl = SYS_fcntl fgetxattr = SYS_fgetxattr
    finit_module = SYS_finit_module flock = SYS_flock fsconfig = SYS_fsconfig fsmount = SYS_fsmount
    fsopen = SYS_fsopen fspick = SYS_fspick fstat = SYS_fstat fstatfs = SYS_fstatfs
    ftruncate = SYS_ftruncate futex = SYS_futex getcwd = SYS_getcwd getdents64 = SYS_getdents64
    getegid = SYS_getegid geteuid = SYS_geteuid getgid = SYS_getgid getgroups = SYS_getgroups
    getpeername = SYS_getpeername getpid = SYS_getpid getppid = SYS_getppid
    getpriority = SYS_getpriority getrandom = SYS_getrandom getresgid = SYS_getresgid
    getresuid = SYS_getresuid getrusage = SYS_getrusage getsockname = SYS_getsockname
    getsockopt = SYS_getsockopt gettid = SYS_gettid getuid = SYS_getuid
    init_module = SYS_init_module io_uring_enter = SYS_io_uring_enter
    io_uring_register = SYS_io_uring_register io_uring_setup = SYS_io_uring_setup ioctl = SYS_ioctl
    ioperm = SYS_ioperm iopl = SYS_iopl ioprio_set = SYS_ioprio_set kcmp = SYS_kcmp
    kexec_file_load = SYS_kexec_file_load kexec_load = SYS_kexec_load keyctl = SYS_keyctl
    kill = SYS_kill landlock_add_rule = SYS_landlock_add_rule
    landlock_create_ruleset = SYS_landlock_create_ruleset
    landlock_restrict_self = SYS_landlock_restrict_self lgetxattr = SYS_lgetxattr link = SYS_link
    linkat = SYS_linkat listen = SYS_listen lookup_dcookie = SYS_lookup_dcookie lseek = SYS_lseek
    lstat = SYS_lstat madvise = SYS_madvise migrate_pages = SYS_migrate_pages mincore = SYS_mincore
    mkdir = SYS_mkdir mkdirat = SYS_mkdirat mknod = SYS_mknod mknodat = SYS_mknodat
    mlock = SYS_mlock mmap = SYS_mmap modify_ldt = SYS_modify_ldt mount = SYS_mount
    mount_setattr = SYS_mount_setattr move_mount = SYS_move_mount move_pages = SYS_move_pages
    mprotect = SYS_mprotect mq_open = SYS_mq_open mq_unlink = SYS_mq_unlink mremap = SYS_mremap
    msgget = SYS_msgget munlock = SYS_munlock munmap = SYS_munmap
    name_to_handle_at = SYS_name_to_handle_at nanosleep = SYS_nanosleep newfstatat = SYS_newfstatat
    open = SYS_open open_by_handle_at = SYS_open_by_handle_at open_tree = SYS_open_tree
    openat = SYS_openat openat2 = SYS_openat2 perf_event_open = SYS_perf_event_open
    personality = SYS_personality pidfd_getfd = SYS_pidfd_getfd pidfd_open = SYS_pidfd_open
    pidfd_send_signal = SYS_pidfd_send_signal pipe = SYS_pipe pipe2 = SYS_pipe2
    pivot_root = SYS_pivot_root poll = SYS_poll ppoll = SYS_ppoll prctl = SYS_prctl
    pread64 = SYS_pread64 prlimit64 = SYS_prlimit64 process_madvise = SYS_process_madvise
    process_vm_readv = SYS_process_vm_readv process_vm_writev = SYS_process_vm_writev
    ptrace = SYS_ptrace quotactl = SYS_quotactl quotactl_fd = SYS_quotactl_fd read = SYS_read
    readlink = SYS_readlink readlinkat = SYS_readlinkat reboot = SYS_reboot recvfrom = SYS_recvfrom
    recvmsg = SYS_recvmsg rename = SYS_rename renameat2 = SYS_renameat2
    request_key = SYS_request_key restart_syscall = SYS_restart_syscall rmdir = SYS_rmdir
    rseq = SYS_rseq rt_sigaction = SYS_rt_sigaction rt_sigprocmask = SYS_rt_sigprocmask
    rt_sigtimedwait = SYS_rt_sigtimedwait sched_getaffinity = SYS_sched_getaffinity
    sched_setaffinity = SYS_sched_setaffinity sched_setattr = SYS_sched_setattr
    sched_setparam = SYS_sched_setparam sched_setscheduler = SYS_sched_setscheduler
    sched_yield = SYS_sched_yield seccomp = SYS_seccomp sendmsg = SYS_sendmsg sendto = SYS_sendto
    set_robust_list = SYS_set_robust_list set_tid_address = SYS_set_tid_address
    setdomainname = SYS_setdomainname setgroups = SYS_setgroups sethostname = SYS_sethostname
    setns = SYS_setns setpriority = SYS_setpriority setresgid = SYS_setresgid
    setresuid = SYS_setresuid setrlimit = SYS_setrlimit setsid = SYS_setsid
    setsockopt = SYS_setsockopt settimeofday = SYS_settimeofday setuid = SYS_setuid
    shmget = SYS_shmget sigaltstack = SYS_sigaltstack signalfd4 = SYS_signalfd4 socket = SYS_socket
    socketpair = SYS_socketpair stat = SYS_stat statfs = SYS_statfs statx = SYS_statx
    swapoff = SYS_swapoff swapon = SYS_swapon symlink = SYS_symlink symlinkat = SYS_symlinkat
    sysfs = SYS_sysfs sysinfo = SYS_sysinfo syslog = SYS_syslog tgkill = SYS_tgkill
    truncate = SYS_truncate umask = SYS_umask umount2 = SYS_umount2 uname = SYS_uname
    unlink = SYS_unlink unlinkat = SYS_unlinkat unshare = SYS_unshare uselib = SYS_uselib
    userfaultfd = SYS_userfaultfd ustat = SYS_ustat vfork = SYS_vfork vhangup = SYS_vhangup
    wait4 = SYS_wait4 waitid = SYS_waitid write = SYS_write writev = SYS_writev
};

/// Newer than the libc crate's list for this target.
const NEW_SYSCALLS: &[(&str, i64)] = &[("open_tree_attr", 467), ("mount_setattr_fd", 442)];

/// A syscall's number, by name or as digits.
pub(crate) fn syscall_number(name: &str) -> i64 {
    let known = SYSCALLS.iter().chain(NEW_SYSCALLS);
    match known.into_iter().find(|(known, _)| *known == name) {
        Some((_, nr)) => *nr,
        None => integer(name).cast_signed(),
    }
}

/// A syscall's name, or its digits: what [`syscall_number`] takes.
pub(crate) fn syscall_name(number: i64) -> String {
    let known = SYSCALLS.iter().chain(NEW_SYSCALLS);
    match known.into_iter().find(|(_, known)| *known == number) {
        Some((name, _)) => (*name).to_owned(),
        None => number.to_string(),
    }
}

/// Numbers and constants joined by `|`; `0x…` is hexadecimal.
pub(crate) fn integer(text: &str) -> u64 {
    text.split('|').fold(0, |sum, part| sum | one_integer(part))
}

fn one_integer(text: &str) -> u64 {
    if let Some((_, value)) = CONSTANTS.iter().find(|(name, _)| *name == text) {
        return value.cast_unsigned();
    }
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse::<i64>().ok().map(i64::cast_unsigned),
    };
    parsed.unwrap_or_else(|| panic!("no number or constant: {text}"))
}

/// A syscall argument, and the memory that it points to.
pub(crate) enum Value {
    Number(u64),
    /// `@text`: the address of a C string.
    Text(CString),
    /// `%1,2,…`: the address of these 64-bit words.
    Words(Vec<u64>),
}

impl Value {
    fn parse(text: &str) -> Self {
        if let Some(text) = text.strip_prefix('@') {
            Value::Text(raw::cstring(text))
        } else if let Some(words) = text.strip_prefix('%') {
            Value::Words(words.split(',').map(integer).collect())
        } else {
            Value::Number(integer(text))
        }
    }

    fn as_argument(&mut self) -> u64 {
        match self {
            Value::Number(number) => *number,
            Value::Text(text) => raw::address(text.as_bytes_with_nul()),
            Value::Words(words) => raw::address_mut(words.as_mut_slice()),
        }
    }
}

/// Calls the kernel; the outcome is what it returned.
pub(crate) fn syscall(name: &str, args: &[&str]) -> Outcome {
    let mut values: Vec<Value> = args.iter().map(|arg| Value::parse(arg)).collect();
    let args: Vec<u64> = values.iter_mut().map(Value::as_argument).collect();
    raw::sys(syscall_number(name), &args).map(|result| result.to_string())
}
