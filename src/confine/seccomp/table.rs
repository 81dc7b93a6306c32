//! The table: which call is answered how, with which arguments, and why. It
//! generates both the filter and its explanation. What it doesn't list is
//! allowed up to [`CEILING`], and is ENOSYS above.
//!
//! Arguments are compared on the bits that the kernel uses: it truncates all of
//! those below to 32 bits (`int`, `unsigned int`, `umode_t`), and ignores the
//! rest (measured: `chmod(path, 0xffffffff00004755)` sets the bit).
//! `unshare` takes an `unsigned long`, but refuses high bits itself.
//!
//! Calls that no kernel since 5.19 has (nfsservctl, _sysctl, create_module and
//! the like) aren't listed: the kernel itself answers ENOSYS.

use super::rule::Answer::{Eafnosupport, Ebusy, Enosys, Eperm, Eprotonosupport, Zero};
use super::rule::Test::{Bits, Is, Not, NotNull};
use super::rule::{Call, Rule, always, calls, unless_traced, when, where_explained};

/// The highest syscall number that isn't answered ENOSYS: removexattrat(2),
/// Linux 6.13. A newer call is unknown to this table, so it is no call at all;
/// programs fall back as on an older kernel. x32 numbers carry bit 30
/// (`__X32_SYSCALL_BIT`), so the ceiling keeps them out too.
pub const CEILING: u32 = 466;

/// `SOCK_PACKET`, linux/net.h: the kernel turns it into `AF_PACKET`, whatever
/// the family says. libc has no name for it.
const SOCK_PACKET: u32 = 10;
/// The bits of socket(2)'s `type` that are the type (linux/net.h, `SOCK_TYPE_MASK`).
const SOCK_TYPE: u32 = 0xf;
/// `SOCK_DCCP`, linux/net.h.
const DCCP: u32 = 6;
const SEQPACKET: u32 = libc::SOCK_SEQPACKET.cast_unsigned();
const AF_UNIX: u32 = libc::AF_UNIX.cast_unsigned();
const AF_INET: u32 = libc::AF_INET.cast_unsigned();
const AF_INET6: u32 = libc::AF_INET6.cast_unsigned();
const AF_NETLINK: u32 = libc::AF_NETLINK.cast_unsigned();
const NETLINK_ROUTE: u32 = libc::NETLINK_ROUTE.cast_unsigned();
const ICMP: u32 = libc::IPPROTO_ICMP.cast_unsigned();
const ICMP6: u32 = libc::IPPROTO_ICMPV6.cast_unsigned();
const TCP: u32 = libc::IPPROTO_TCP.cast_unsigned();
const UDP: u32 = libc::IPPROTO_UDP.cast_unsigned();
/// `IPPROTO_MPTCP`, linux/in.h; Go asks for it by default.
const MPTCP: u32 = 262;

const NEWNS: u32 = libc::CLONE_NEWNS.cast_unsigned();
const NEWCGROUP: u32 = libc::CLONE_NEWCGROUP.cast_unsigned();
const NEWUTS: u32 = libc::CLONE_NEWUTS.cast_unsigned();
const NEWIPC: u32 = libc::CLONE_NEWIPC.cast_unsigned();
const NEWUSER: u32 = libc::CLONE_NEWUSER.cast_unsigned();
const NEWPID: u32 = libc::CLONE_NEWPID.cast_unsigned();
const NEWNET: u32 = libc::CLONE_NEWNET.cast_unsigned();
const NEWTIME: u32 = libc::CLONE_NEWTIME.cast_unsigned();

/// Pid 1 as the command sees it.
const INIT: u32 = 1;
const PRIO_USER: u32 = libc::PRIO_USER;
/// linux/ioprio.h.
const IOPRIO_WHO_USER: u32 = 3;
const RLIMIT_CORE: u32 = libc::RLIMIT_CORE;

/// The bits that make a file run as its owner or group.
const SUID: u32 = libc::S_ISUID;
const SGID: u32 = libc::S_ISGID;
const S_IFMT: u32 = libc::S_IFMT;
const O_CREAT: u32 = libc::O_CREAT.cast_unsigned();
/// The bit that tells `O_TMPFILE` from `O_DIRECTORY` (asm-generic/fcntl.h, `__O_TMPFILE`).
const TMPFILE: u32 = 0o20_000_000;

const RENAME_WHITEOUT: u32 = libc::RENAME_WHITEOUT;
const F_SETLEASE: u32 = libc::F_SETLEASE.cast_unsigned();

/// asm-generic/ioctls.h; the kernel takes the command as an `unsigned int`.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
const TIOCSETD: u32 = 0x5423;

/// `SECCOMP_FILTER_FLAG_NEW_LISTENER`, linux/seccomp.h; the kernel takes the flags as
/// an `unsigned int`.
const NEW_LISTENER: u32 = 1 << 3;

const WHY_SUID: &str = "a set-user-id file left in the clone would run as its owner on the host; \
     the price: `git init --shared`, `tar -p` and `install -m 2755` of such modes fail";

/// Every rule.
pub(super) const RULES: &[Rule] = &[
    // Answered ENOSYS, so that callers fall back.
    always(
        Enosys,
        calls![SYS_clone3],
        "its flags lie behind a pointer; glibc, Go, Java and node fall back to clone",
    ),
    always(
        Enosys,
        calls![SYS_openat2],
        "its mode lies behind a pointer (see chmod); callers fall back to openat",
    ),
    always(
        Enosys,
        calls![SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register],
        "makes calls that no filter sees; node and the rest fall back to epoll",
    ),
    always(
        Enosys,
        calls![SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_open_tree SYS_move_mount SYS_mount_setattr],
        "the new mount API; libmount falls back to mount",
    ),
    // Mounts, namespaces, roots.
    always(
        Eperm,
        calls![SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_setns],
        "the jail's mounts and namespaces are final",
    ),
    when(
        Eperm,
        calls![SYS_clone SYS_unshare],
        &[
            &[Bits(0, NEWNS, NEWNS)],
            &[Bits(0, NEWCGROUP, NEWCGROUP)],
            &[Bits(0, NEWUTS, NEWUTS)],
            &[Bits(0, NEWIPC, NEWIPC)],
            &[Bits(0, NEWUSER, NEWUSER)],
            &[Bits(0, NEWPID, NEWPID)],
            &[Bits(0, NEWNET, NEWNET)],
        ],
        "with any CLONE_NEW* flag",
        "a nested user namespace gives back every capability and with it the mount calls; \
         browsers and other sandboxes must be told not to use one",
    ),
    when(
        Eperm,
        calls![SYS_unshare],
        &[&[Bits(0, NEWTIME, NEWTIME)]],
        "with CLONE_NEWTIME",
        "in clone these bits are the exit signal, so only here",
    ),
    always(
        Eperm,
        calls![SYS_open_by_handle_at],
        "opens files by inode number, past every path",
    ),
    // The kernel says the same while the supervisor listens, and not when it is gone
    // (measured); of two filters that ask, the newer is heard, so a listener of the
    // command's own could then let a call pass that this table denies.
    where_explained(when(
        Ebusy,
        calls![SYS_seccomp],
        &[&[Bits(1, NEW_LISTENER, NEW_LISTENER)]],
        "with SECCOMP_FILTER_FLAG_NEW_LISTENER",
        "somebody listens already: --explain-denials; without that flag it is allowed",
    )),
    // Other processes.
    unless_traced(always(
        Eperm,
        calls![SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise
            SYS_kcmp SYS_pidfd_getfd],
        "reads and steers other processes; debuggers and LeakSanitizer need --allow-ptrace, \
         and who may trace can do the rest anyway",
    )),
    when(
        Eperm,
        calls![SYS_prlimit64],
        &[&[Not(0, 0)]],
        "of another pid",
        "pid 1 has the command's uid, so the kernel would allow it",
    ),
    when(
        Eperm,
        calls![SYS_setpriority],
        &[&[Is(0, PRIO_USER)], &[Is(1, INIT)]],
        "of pid 1 or of a user",
        "would starve pid 1",
    ),
    when(
        Eperm,
        calls![SYS_ioprio_set],
        &[&[Is(0, IOPRIO_WHO_USER)], &[Is(1, INIT)]],
        "of pid 1 or of a user",
        "would starve pid 1",
    ),
    when(
        Eperm,
        calls![SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setparam SYS_sched_setattr],
        &[&[Is(0, INIT)]],
        "of pid 1",
        "would starve pid 1",
    ),
    always(
        Eperm,
        calls![SYS_move_pages SYS_migrate_pages],
        "moves other processes' memory; only NUMA tools use them",
    ),
    // Modes and device nodes.
    when(
        Eperm,
        calls![SYS_chmod SYS_fchmod SYS_creat SYS_mknod],
        &[&[Bits(1, SUID, SUID)], &[Bits(1, SGID, SGID)]],
        "with a set-user-id or set-group-id bit",
        WHY_SUID,
    ),
    when(
        Eperm,
        calls![SYS_fchmodat SYS_fchmodat2 SYS_mknodat],
        &[&[Bits(2, SUID, SUID)], &[Bits(2, SGID, SGID)]],
        "with a set-user-id or set-group-id bit",
        WHY_SUID,
    ),
    when(
        Eperm,
        calls![SYS_open],
        &[
            &[Bits(1, O_CREAT, O_CREAT), Bits(2, SUID, SUID)],
            &[Bits(1, O_CREAT, O_CREAT), Bits(2, SGID, SGID)],
            &[Bits(1, TMPFILE, TMPFILE), Bits(2, SUID, SUID)],
            &[Bits(1, TMPFILE, TMPFILE), Bits(2, SGID, SGID)],
        ],
        "that creates with a set-user-id or set-group-id bit",
        "as for chmod; without O_CREAT or O_TMPFILE the mode is garbage",
    ),
    when(
        Eperm,
        calls![SYS_openat],
        &[
            &[Bits(2, O_CREAT, O_CREAT), Bits(3, SUID, SUID)],
            &[Bits(2, O_CREAT, O_CREAT), Bits(3, SGID, SGID)],
            &[Bits(2, TMPFILE, TMPFILE), Bits(3, SUID, SUID)],
            &[Bits(2, TMPFILE, TMPFILE), Bits(3, SGID, SGID)],
        ],
        "that creates with a set-user-id or set-group-id bit",
        "as for chmod; without O_CREAT or O_TMPFILE the mode is garbage",
    ),
    // mkdir and mkdirat aren't here: the kernel drops both bits (measured).
    when(
        Eperm,
        calls![SYS_mknod],
        &[
            &[Bits(1, S_IFMT, libc::S_IFCHR)],
            &[Bits(1, S_IFMT, libc::S_IFBLK)],
        ],
        "of a device",
        "the kernel lets anyone make character device 0:0, overlayfs's whiteout",
    ),
    when(
        Eperm,
        calls![SYS_mknodat],
        &[
            &[Bits(2, S_IFMT, libc::S_IFCHR)],
            &[Bits(2, S_IFMT, libc::S_IFBLK)],
        ],
        "of a device",
        "the kernel lets anyone make character device 0:0, overlayfs's whiteout",
    ),
    when(
        Eperm,
        calls![SYS_renameat2],
        &[&[Bits(4, RENAME_WHITEOUT, RENAME_WHITEOUT)]],
        "with RENAME_WHITEOUT",
        "leaves such a device behind",
    ),
    // Files that the host opens too.
    when(
        Eperm,
        calls![SYS_fcntl],
        &[&[Is(1, F_SETLEASE)]],
        "F_SETLEASE",
        "the host's open(2) of the file waits until the lease is given up, even on a read-only \
         mount (measured); file servers use it",
    ),
    // Terminals.
    when(
        Eperm,
        calls![SYS_ioctl],
        &[&[Is(1, TIOCSTI)], &[Is(1, TIOCLINUX)], &[Is(1, TIOCSETD)]],
        "TIOCSTI, TIOCLINUX or TIOCSETD",
        "types into the terminal, or loads a line discipline",
    ),
    // Sockets.
    when(
        Eafnosupport,
        calls![SYS_socket],
        &[
            &[
                Not(0, AF_UNIX),
                Not(0, AF_INET),
                Not(0, AF_INET6),
                Not(0, AF_NETLINK),
            ],
            &[Is(0, AF_NETLINK), Not(2, NETLINK_ROUTE)],
            &[Bits(1, SOCK_TYPE, SOCK_PACKET)],
        ],
        "other than UNIX, INET, INET6 and route NETLINK, or SOCK_PACKET",
        "VSOCK, ALG and others reach around the network namespace or far into the kernel; \
         getifaddrs needs route NETLINK",
    ),
    when(
        Eafnosupport,
        calls![SYS_socketpair],
        &[&[Not(0, AF_UNIX)]],
        "other than UNIX",
        "as for socket",
    ),
    when(
        Eprotonosupport,
        calls![SYS_socket],
        &[
            &[
                Is(0, AF_INET),
                Not(2, 0),
                Not(2, ICMP),
                Not(2, TCP),
                Not(2, UDP),
                Not(2, MPTCP),
            ],
            &[
                Is(0, AF_INET6),
                Not(2, 0),
                Not(2, ICMP6),
                Not(2, TCP),
                Not(2, UDP),
                Not(2, MPTCP),
            ],
            &[Not(0, AF_UNIX), Bits(1, SOCK_TYPE, DCCP)],
            &[Not(0, AF_UNIX), Bits(1, SOCK_TYPE, SEQPACKET)],
        ],
        "INET and INET6 other than TCP, UDP, MPTCP and ping",
        "anyone's socket call loads the module of SCTP, DCCP, L2TP and the like; \
         Go listens with MPTCP",
    ),
    // Cores.
    when(
        Eperm,
        calls![SYS_prlimit64],
        &[&[Is(1, RLIMIT_CORE), NotNull(2), NotNull(3)]],
        "that sets RLIMIT_CORE and asks for the old one",
        "an answer of 0 would leave the old one unwritten",
    ),
    when(
        Zero,
        calls![SYS_prlimit64],
        &[&[Is(1, RLIMIT_CORE), NotNull(2)]],
        "that sets RLIMIT_CORE",
        "a limit of 1 keeps a core_pattern pipe handler from running on the host, 0 does not; \
         shells and daemons set 0 and want success",
    ),
    when(
        Zero,
        calls![SYS_setrlimit],
        &[&[Is(0, RLIMIT_CORE)]],
        "of RLIMIT_CORE",
        "as for prlimit64",
    ),
    // The kernel's surface.
    when(
        Eperm,
        calls![SYS_personality],
        &[&[
            Not(0, 0),
            Not(0, 0x8),
            Not(0, 0x2_0000),
            Not(0, 0x2_0008),
            Not(0, 0x4_0000),
            Not(0, 0xffff_ffff),
        ]],
        "other than PER_LINUX, PER_LINUX32, UNAME26, ADDR_NO_RANDOMIZE or a query",
        "READ_IMPLIES_EXEC and old personalities; setarch and debuggers use those allowed",
    ),
    always(
        Eperm,
        calls![SYS_add_key SYS_request_key SYS_keyctl],
        "keyrings outlive the jail and reach across its namespaces",
    ),
    always(
        Eperm,
        calls![SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_fanotify_init],
        "large and often broken; profilers notice",
    ),
    always(
        Eperm,
        calls![SYS_kexec_load SYS_kexec_file_load SYS_init_module SYS_finit_module
            SYS_delete_module SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_vhangup
            SYS_iopl SYS_ioperm SYS_settimeofday SYS_clock_settime SYS_clock_adjtime
            SYS_adjtimex SYS_sethostname SYS_setdomainname SYS_lookup_dcookie],
        "the host's administration; denied by capability too",
    ),
    always(
        Eperm,
        calls![SYS_syslog SYS_quotactl SYS_quotactl_fd SYS_ustat],
        "reads the host's kernel log, quotas and free space by device number",
    ),
    always(
        Eperm,
        calls![SYS_modify_ldt SYS_uselib SYS_sysfs],
        "legacy; 16-bit segments for Wine and DOSEMU, nobody else",
    ),
];
