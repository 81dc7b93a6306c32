//! The argument rules, each with what it must leave alone.

use super::interpreter::{Data, run};
use super::tests::{ALLOW, errno, filter};

use libc::c_long;

/// Bits that the kernel doesn't look at.
const GARBAGE: u64 = 0xdead_beef_0000_0000;

fn number(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

/// Runs a call as it is, and with garbage in every argument's upper half.
fn answer(call: c_long, args: &[u64]) -> u32 {
    let filter = filter(false);
    let clean = run(&filter, Data::new(call, args));
    let dirty: Vec<u64> = args.iter().map(|arg| arg | GARBAGE).collect();
    let garbled = run(&filter, Data::new(call, &dirty));
    assert_eq!(
        clean, garbled,
        "garbage changes the answer to {call}{args:x?}"
    );
    clean
}

#[track_caller]
fn assert_all(call: c_long, expected: u32, cases: &[&[u64]]) {
    for args in cases {
        assert_eq!(answer(call, args), expected, "{call}{args:x?}");
    }
}

#[test]
fn namespaces() {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    for flag in flags.map(number) {
        let cases: &[&[u64]] = &[&[flag], &[flag | number(libc::CLONE_VM | libc::SIGCHLD)]];
        assert_all(libc::SYS_clone, errno(libc::EPERM), cases);
        assert_all(libc::SYS_unshare, errno(libc::EPERM), cases);
    }
    let newtime = number(libc::CLONE_NEWTIME);
    assert_all(libc::SYS_unshare, errno(libc::EPERM), &[&[newtime]]);
    // A thread as glibc makes it, and a fork.
    assert_all(
        libc::SYS_clone,
        ALLOW,
        &[&[0x003d_0f00], &[0x0120_0011], &[0x4111]],
    );
    assert_all(
        libc::SYS_unshare,
        ALLOW,
        &[&[number(libc::CLONE_FILES | libc::CLONE_FS)]],
    );
}

#[test]
fn sockets() {
    let (unix, inet, inet6, netlink) = (1, 2, 10, 16);
    for family in (0..64).filter(|family| ![unix, inet, inet6, netlink].contains(family)) {
        assert_eq!(
            answer(libc::SYS_socket, &[family, 1, 0]),
            errno(libc::EAFNOSUPPORT)
        );
    }
    let cloexec = number(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    let allowed: &[&[u64]] = &[
        &[unix, 1, 0],
        &[unix, 5 | cloexec, 0],
        &[inet, 1, 0],
        &[inet, 1 | cloexec, 6],
        &[inet, 2, 17],
        &[inet, 2, 1],
        &[inet, 1, 262],
        &[inet6, 1, 262],
        &[inet6, 2, 58],
        &[netlink, 3 | cloexec, 0],
        &[netlink, 2, 0],
    ];
    assert_all(libc::SYS_socket, ALLOW, allowed);
    let family: &[&[u64]] = &[
        &[netlink, 3, 9],
        &[netlink, 3, 16],
        &[inet, 10, 3],
        &[inet, 0xa | cloexec, 768],
    ];
    assert_all(libc::SYS_socket, errno(libc::EAFNOSUPPORT), family);
    let protocol: &[&[u64]] = &[
        &[inet, 1, 132],
        &[inet6, 5, 132],
        &[inet, 5, 0],
        &[inet, 6, 33],
        &[inet, 6, 0],
        &[inet, 2, 115],
        &[inet, 3, 255],
        &[inet6, 2, 1],
    ];
    assert_all(libc::SYS_socket, errno(libc::EPROTONOSUPPORT), protocol);
    assert_all(libc::SYS_socketpair, ALLOW, &[&[unix, 1, 0]]);
    assert_all(
        libc::SYS_socketpair,
        errno(libc::EAFNOSUPPORT),
        &[&[inet, 1, 0], &[30, 1, 0]],
    );
}

#[test]
fn terminals() {
    let denied: &[&[u64]] = &[&[0, 0x5412, 0], &[7, 0x541c, 0], &[0, 0x5423, 0]];
    assert_all(libc::SYS_ioctl, errno(libc::EPERM), denied);
    // TCGETS, TIOCGWINSZ, FIONREAD.
    assert_all(
        libc::SYS_ioctl,
        ALLOW,
        &[&[0, 0x5401, 0], &[0, 0x5413, 0], &[0, 0x541b, 0]],
    );
}

#[test]
fn set_user_id_bits() {
    // Bits above the 16 of a umode_t are garbage too.
    for mode in [0o4755, 0o2755, 0o6777, 0o104_644, 0xab_0000 | 0o4755] {
        let eperm = errno(libc::EPERM);
        for call in [
            libc::SYS_chmod,
            libc::SYS_fchmod,
            libc::SYS_creat,
            libc::SYS_mknod,
        ] {
            assert_all(call, eperm, &[&[0, mode]]);
        }
        for call in [libc::SYS_fchmodat, libc::SYS_fchmodat2, libc::SYS_mknodat] {
            assert_all(call, eperm, &[&[0, 0, mode]]);
        }
        let directory = number(libc::O_DIRECTORY);
        let tmpfile = number(libc::O_TMPFILE);
        // The kernel refuses the last, but that is the kernel's business.
        for flags in [
            number(libc::O_CREAT | libc::O_WRONLY),
            tmpfile,
            tmpfile & !directory,
        ] {
            assert_all(libc::SYS_open, eperm, &[&[0, flags, mode]]);
            assert_all(libc::SYS_openat, eperm, &[&[0, 0, flags, mode]]);
        }
        let (read, dir) = (
            number(libc::O_RDONLY),
            number(libc::O_DIRECTORY | libc::O_CLOEXEC),
        );
        assert_all(libc::SYS_open, ALLOW, &[&[0, read, mode], &[0, dir, mode]]);
        assert_all(
            libc::SYS_openat,
            ALLOW,
            &[&[0, 0, read, mode], &[0, 0, dir, mode]],
        );
    }
    assert_all(libc::SYS_chmod, ALLOW, &[&[0, 0o1777], &[0, 0o755]]);
    assert_all(libc::SYS_fchmodat, ALLOW, &[&[0o6000, 0o6000, 0o1777]]);
    assert_all(
        libc::SYS_openat,
        ALLOW,
        &[&[0, 0, number(libc::O_CREAT), 0o1777]],
    );
}

#[test]
fn device_nodes() {
    let eperm = errno(libc::EPERM);
    for kind in [libc::S_IFCHR, libc::S_IFBLK].map(u64::from) {
        assert_all(libc::SYS_mknod, eperm, &[&[0, kind | 0o666, 0]]);
        assert_all(libc::SYS_mknodat, eperm, &[&[0, 0, kind | 0o666, 0]]);
    }
    for kind in [libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK, 0].map(u64::from) {
        assert_all(libc::SYS_mknod, ALLOW, &[&[0, kind | 0o666, 0]]);
        assert_all(libc::SYS_mknodat, ALLOW, &[&[0, 0, kind | 0o666, 0]]);
    }
}

#[test]
fn personalities() {
    for allowed in [0, 8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff] {
        assert_all(libc::SYS_personality, ALLOW, &[&[allowed]]);
    }
    // READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, PER_SVR4, and one with an allowed value in it.
    for denied in [0x40_0000, 0x10_0000, 1, 0x44_0000] {
        assert_all(libc::SYS_personality, errno(libc::EPERM), &[&[denied]]);
    }
}

#[test]
fn limits_of_others_and_of_cores() {
    let (new, old) = (0x7fff_0000, 0x7fff_1000);
    let core = u64::from(libc::RLIMIT_CORE);
    let nofile = u64::from(libc::RLIMIT_NOFILE);
    let filter = filter(false);
    // Pointers are 64 bits wide, so no garbage here.
    let case = |args: &[u64]| run(&filter, Data::new(libc::SYS_prlimit64, args));
    assert_eq!(case(&[0, core, new, 0]), errno(0));
    assert_eq!(case(&[0, core, 1 << 32, 0]), errno(0));
    assert_eq!(case(&[GARBAGE, core | GARBAGE, new, 0]), errno(0));
    assert_eq!(case(&[0, core, new, old]), errno(libc::EPERM));
    assert_eq!(case(&[0, core, 0, old]), ALLOW);
    assert_eq!(case(&[0, nofile, new, old]), ALLOW);
    assert_eq!(case(&[1, nofile, 0, old]), errno(libc::EPERM));
    assert_eq!(case(&[1, core, new, 0]), errno(libc::EPERM));
    assert_all(libc::SYS_setrlimit, errno(0), &[&[core, new]]);
    assert_all(libc::SYS_setrlimit, ALLOW, &[&[nofile, new]]);
}

#[test]
fn the_scheduling_of_pid_1_and_of_users() {
    let eperm = errno(libc::EPERM);
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        assert_all(call, eperm, &[&[1, 1, 1]]);
        assert_all(call, ALLOW, &[&[0, 1, 1], &[2, 1, 1]]);
    }
    assert_all(
        libc::SYS_setpriority,
        eperm,
        &[&[0, 1, 19], &[2, 0, 19], &[2, 1000, 19]],
    );
    assert_all(
        libc::SYS_setpriority,
        ALLOW,
        &[&[0, 0, 19], &[0, 2, 1], &[1, 0, 19]],
    );
    assert_all(libc::SYS_ioprio_set, eperm, &[&[1, 1, 0], &[3, 0, 0]]);
    assert_all(
        libc::SYS_ioprio_set,
        ALLOW,
        &[&[1, 0, 0], &[1, 2, 1], &[2, 0, 0]],
    );
}
