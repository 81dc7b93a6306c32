//! Calls that the filter must deny. None is made: outside, a listener answers in the
//! kernel's place, so privilege, kernel options and arguments play no part; inside, the
//! jail's filter goes before the listener. This list is its own, and not the table in
//! `confine::seccomp` turned around: a rule that is lost there must be missed here.

use std::sync::mpsc;

use libc::c_long;
use nix::errno::Errno;
use nix::sys::prctl::set_no_new_privs;

use crate::prove::facts::Facts;
use crate::prove::proof::{Denial, Outcome};
use crate::sys::notify::{Call, Listener, getpid_by_int80, listen};

/// A call by the name that is shown if it gets through.
type Named = (&'static str, c_long, [u64; 6]);

const ANY: [u64; 6] = [0; 6];
const NEW_NAMESPACES: [u64; 8] = [
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWCGROUP as u64,
    // With a bit that the kernel doesn't look at.
    libc::CLONE_NEWUSER as u64 | 1 << 32,
];
/// `__X32_SYSCALL_BIT`, asm/unistd.h.
const X32: c_long = 0x4000_0000;
const SUID: u64 = 0o4755;
const SGID: u64 = 0o2755;

macro_rules! calls {
    ($($name:ident)*) => { [$((stringify!($name), libc::$name, ANY)),*] };
}

pub(in crate::prove) fn make_a_namespace(_: &Facts) -> Outcome {
    let each = NEW_NAMESPACES.iter().flat_map(|&flag| {
        let first = [flag, 0, 0, 0, 0, 0];
        [
            ("clone", libc::SYS_clone, first),
            ("unshare", libc::SYS_unshare, first),
        ]
    });
    let rest = [
        ("unshare", libc::SYS_unshare, [0x80, 0, 0, 0, 0, 0]),
        ("setns", libc::SYS_setns, ANY),
    ];
    reach(&each.chain(rest).collect::<Vec<_>>())
}

pub(in crate::prove) fn change_mounts(_: &Facts) -> Outcome {
    reach(&calls![SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_open_by_handle_at])
}

pub(in crate::prove) fn change_mounts_by_descriptor(_: &Facts) -> Outcome {
    // open_tree_attr(2), Linux 6.15, is 467.
    let newest = [("open_tree_attr", 467, ANY)];
    let known = calls![SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_open_tree SYS_move_mount
        SYS_mount_setattr];
    reach(&known.into_iter().chain(newest).collect::<Vec<_>>())
}

pub(in crate::prove) fn trace(_: &Facts) -> Outcome {
    reach(
        &calls![SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise
        SYS_kcmp SYS_pidfd_getfd SYS_move_pages SYS_migrate_pages],
    )
}

pub(in crate::prove) fn starve_pid_1(_: &Facts) -> Outcome {
    let of_pid_1 = [1, 0, 0, 0, 0, 0];
    reach(&[
        ("prlimit64", libc::SYS_prlimit64, of_pid_1),
        ("setpriority", libc::SYS_setpriority, [0, 1, 19, 0, 0, 0]),
        ("setpriority", libc::SYS_setpriority, [2, 0, 19, 0, 0, 0]),
        ("ioprio_set", libc::SYS_ioprio_set, [1, 1, 0, 0, 0, 0]),
        ("ioprio_set", libc::SYS_ioprio_set, [3, 0, 0, 0, 0, 0]),
        ("sched_setaffinity", libc::SYS_sched_setaffinity, of_pid_1),
        ("sched_setscheduler", libc::SYS_sched_setscheduler, of_pid_1),
        ("sched_setparam", libc::SYS_sched_setparam, of_pid_1),
        ("sched_setattr", libc::SYS_sched_setattr, of_pid_1),
    ])
}

pub(in crate::prove) fn use_keyrings(_: &Facts) -> Outcome {
    reach(&calls![SYS_add_key SYS_request_key SYS_keyctl])
}

pub(in crate::prove) fn reach_the_kernels_surface(_: &Facts) -> Outcome {
    let read_implies_exec = [0x40_0000, 0, 0, 0, 0, 0];
    let personality = [("personality", libc::SYS_personality, read_implies_exec)];
    let rest = calls![SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_fanotify_init
        SYS_kexec_load SYS_kexec_file_load SYS_init_module SYS_finit_module SYS_delete_module
        SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_vhangup SYS_iopl SYS_ioperm
        SYS_settimeofday SYS_clock_settime SYS_clock_adjtime SYS_adjtimex SYS_sethostname
        SYS_setdomainname SYS_lookup_dcookie SYS_syslog SYS_quotactl SYS_quotactl_fd SYS_ustat
        SYS_modify_ldt SYS_uselib SYS_sysfs];
    reach(&rest.into_iter().chain(personality).collect::<Vec<_>>())
}

pub(in crate::prove) fn type_into_a_terminal(_: &Facts) -> Outcome {
    let ioctl = |request| ("ioctl", libc::SYS_ioctl, [0, request, 0, 0, 0, 0]);
    // The kernel looks at 32 bits of a request.
    let high = 1 << 32;
    reach(&[
        ioctl(libc::TIOCSTI),
        ioctl(libc::TIOCSTI | high),
        ioctl(libc::TIOCLINUX),
        ioctl(libc::TIOCLINUX | high),
        ioctl(libc::TIOCSETD),
    ])
}

pub(in crate::prove) fn make_setuid_files_and_devices(_: &Facts) -> Outcome {
    let second = |mode| [0, mode, 0, 0, 0, 0];
    let third = |mode| [0, 0, mode, 0, 0, 0];
    let create = libc::O_CREAT as u64;
    let device = u64::from(libc::S_IFCHR);
    reach(&[
        ("chmod", libc::SYS_chmod, second(SUID)),
        ("chmod", libc::SYS_chmod, second(SGID)),
        ("fchmod", libc::SYS_fchmod, second(SUID)),
        ("fchmodat", libc::SYS_fchmodat, third(SGID)),
        ("fchmodat2", libc::SYS_fchmodat2, third(SUID)),
        ("creat", libc::SYS_creat, second(SUID)),
        ("open", libc::SYS_open, [0, create, SUID, 0, 0, 0]),
        ("openat", libc::SYS_openat, [0, 0, create, SGID, 0, 0]),
        ("mknod", libc::SYS_mknod, second(SUID)),
        ("mknod", libc::SYS_mknod, second(device)),
        ("mknodat", libc::SYS_mknodat, third(device)),
        (
            "mknodat",
            libc::SYS_mknodat,
            third(u64::from(libc::S_IFBLK)),
        ),
        (
            "renameat2",
            libc::SYS_renameat2,
            [0, 0, 0, 0, u64::from(libc::RENAME_WHITEOUT), 0],
        ),
    ])
}

pub(in crate::prove) fn hold_up_the_hosts_opens(_: &Facts) -> Outcome {
    let lease = libc::F_SETLEASE as u64;
    reach(&[("fcntl", libc::SYS_fcntl, [0, lease, 0, 0, 0, 0])])
}

pub(in crate::prove) fn make_sockets_of_other_families(_: &Facts) -> Outcome {
    let known = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    let others = (0..64).filter(|family| !known.contains(family));
    let socket = |family, kind, protocol| {
        (
            "socket",
            libc::SYS_socket,
            [family, kind, protocol, 0, 0, 0],
        )
    };
    let families = others.map(|family| socket(u64::from(family.unsigned_abs()), 1, 0));
    // Netlink of every protocol but NETLINK_ROUTE (0), and SOCK_PACKET of any family.
    let netlink = (1..32).map(|protocol| socket(libc::AF_NETLINK as u64, 3, protocol));
    let packet = [socket(libc::AF_INET as u64, 10, 0)];
    reach(&families.chain(netlink).chain(packet).collect::<Vec<_>>())
}

pub(in crate::prove) fn call_what_runtimes_fall_back_from(_: &Facts) -> Outcome {
    reach(
        &calls![SYS_clone3 SYS_openat2 SYS_io_uring_setup SYS_io_uring_enter
        SYS_io_uring_register],
    )
}

pub(in crate::prove) fn call_what_is_newer_than_the_build(_: &Facts) -> Outcome {
    reach(&[("1000", 1000, ANY), ("4095", 4095, ANY)])
}

pub(in crate::prove) fn call_by_x32_numbers(_: &Facts) -> Outcome {
    let x32 = |name, number| (name, number | X32, ANY);
    reach(&[
        x32("x32 mount", libc::SYS_mount),
        x32("x32 ptrace", libc::SYS_ptrace),
        x32("x32 getpid", libc::SYS_getpid),
    ])
}

/// Numbers of the 32-bit table mean other calls. The jail kills for one.
pub(in crate::prove) fn call_by_int_80(_: &Facts) -> Outcome {
    if getpid_by_int80() > 0 {
        return Ok(());
    }
    // Without IA32 emulation it's a fault, or ENOSYS where it is switched off.
    Err(Denial::Errno(Errno::ENOSYS))
}

/// `Ok` if every call gets past the filters; the errno if none does, and all with the
/// same; else which answers what.
fn reach(calls: &[Named]) -> Outcome {
    let answers = answers(calls)?;
    let denied: Vec<Errno> = answers.iter().filter_map(|answer| answer.err()).collect();
    if denied.is_empty() {
        return Ok(());
    }
    if denied.len() == calls.len() && denied.iter().all(|errno| *errno == denied[0]) {
        return Err(Denial::Errno(denied[0]));
    }
    let mut words: Vec<String> = (calls.iter().zip(&answers))
        .map(|((name, ..), answer)| match answer {
            Ok(()) => format!("{name} ok"),
            Err(errno) => format!("{name} {errno:?}"),
        })
        .collect();
    words.dedup();
    Err(Denial::says(words.join(", ")))
}

/// Makes the calls on a thread of their own, and answers them on this one.
fn answers(calls: &[Named]) -> Result<Vec<Result<(), Errno>>, Denial> {
    let calls: Vec<Call> = calls
        .iter()
        .map(|(_, number, args)| (*number, *args))
        .collect();
    let (give, take) = mpsc::channel::<Result<Listener, Errno>>();
    let caller = std::thread::spawn(move || {
        let mut numbers: Vec<c_long> = calls.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let (listener, answered) = match set_no_new_privs().and_then(|()| listen(&numbers)) {
            Ok((listener, answered)) => (Ok(listener), Some(answered)),
            Err(errno) => (Err(errno), None),
        };
        // Nobody listens any more only if this process ends.
        let _ = give.send(listener);
        let each = |answered: &crate::sys::notify::Answered| {
            calls.iter().map(|call| answered.call(*call)).collect()
        };
        answered.as_ref().map_or_else(Vec::new, each)
    });
    let listener = take.recv().unwrap_or(Err(Errno::EPIPE));
    let listener = listener.map_err(|errno| Denial::says(format!("no listener: {errno:?}")))?;
    // It hangs up when the thread is gone (seccomp_unotify(2), POLLHUP).
    while listener.wait()? {
        match listener.answer_one() {
            Ok(()) | Err(Errno::ENOENT | Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    caller.join().map_err(|_| Denial::says("the thread broke"))
}
