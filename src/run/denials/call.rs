//! A call with the arguments that its rule looks at, as a person reads it. What a pointer
//! leads to isn't read: it is the command's memory.

use std::fmt::Write as _;

use libc::c_int;

/// How an argument is read; each takes its lower 32 bits, as the kernel does.
#[derive(Clone, Copy)]
enum Read {
    /// One of these values, else a decimal number.
    One(&'static [(u32, &'static str)]),
    /// Any of these bits; what is left of them is hexadecimal.
    Bits(&'static [(u32, &'static str)]),
    /// A type of socket with its flags.
    SocketType,
    /// A file's mode, octal.
    Mode,
    /// Hexadecimal.
    Hex,
}

macro_rules! named {
    ($($name:ident)*) => { &[$((libc::$name as u32, stringify!($name))),*] };
}

const FAMILIES: Read = Read::One(named! {
    AF_UNSPEC AF_UNIX AF_INET AF_AX25 AF_IPX AF_APPLETALK AF_NETROM AF_ATMPVC AF_X25 AF_INET6
    AF_ROSE AF_KEY AF_NETLINK AF_PACKET AF_ECONET AF_RDS AF_LLC AF_IB AF_MPLS AF_CAN AF_TIPC
    AF_BLUETOOTH AF_IUCV AF_RXRPC AF_ISDN AF_PHONET AF_IEEE802154 AF_CAIF AF_ALG AF_NFC AF_VSOCK
    AF_XDP
});
/// linux/net.h; the last two are deprecated in libc, or absent.
const SOCKET_TYPES: &[(u32, &str)] = &[
    (1, "SOCK_STREAM"),
    (2, "SOCK_DGRAM"),
    (3, "SOCK_RAW"),
    (4, "SOCK_RDM"),
    (5, "SOCK_SEQPACKET"),
    (6, "SOCK_DCCP"),
    (10, "SOCK_PACKET"),
];
const SOCKET_FLAGS: &[(u32, &str)] = named! { SOCK_CLOEXEC SOCK_NONBLOCK };
const NAMESPACES: Read = Read::Bits(named! {
    CLONE_NEWNS CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET
});
const UNSHARED: Read = Read::Bits(named! {
    CLONE_NEWNS CLONE_NEWCGROUP CLONE_NEWUTS CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET
    CLONE_NEWTIME
});
const LIMITS: Read = Read::One(named! { RLIMIT_CORE });
const PRIORITIES: Read = Read::One(named! { PRIO_PROCESS PRIO_PGRP PRIO_USER });
const REQUESTS: Read = Read::One(named! {
    PTRACE_TRACEME PTRACE_ATTACH PTRACE_SEIZE PTRACE_PEEKDATA PTRACE_POKEDATA PTRACE_GETREGSET
});
/// asm-generic/ioctls.h.
const TERMINAL: Read = Read::One(&[
    (0x5412, "TIOCSTI"),
    (0x541c, "TIOCLINUX"),
    (0x5423, "TIOCSETD"),
]);
const FCNTL: Read = Read::One(named! { F_SETLEASE });
const RENAMED: Read = Read::Bits(named! { RENAME_WHITEOUT RENAME_EXCHANGE RENAME_NOREPLACE });
const NUMBER: Read = Read::One(&[]);
/// linux/ioprio.h.
const IO_PRIORITIES: Read = Read::One(&[
    (1, "IOPRIO_WHO_PROCESS"),
    (2, "IOPRIO_WHO_PGRP"),
    (3, "IOPRIO_WHO_USER"),
]);

/// Which arguments of a call are shown, by their index, in order.
fn arguments(name: &str) -> &'static [(usize, Read)] {
    match name {
        "socket" => &[(0, FAMILIES), (1, Read::SocketType), (2, NUMBER)],
        "socketpair" => &[(0, FAMILIES), (1, Read::SocketType)],
        "clone" => &[(0, NAMESPACES)],
        "unshare" => &[(0, UNSHARED)],
        "setns" => &[(1, UNSHARED)],
        "ioctl" => &[(1, TERMINAL)],
        "chmod" | "fchmod" | "creat" | "mknod" => &[(1, Read::Mode)],
        "fchmodat" | "fchmodat2" | "mknodat" | "open" => &[(2, Read::Mode)],
        "openat" => &[(3, Read::Mode)],
        "renameat2" => &[(4, RENAMED)],
        "fcntl" => &[(1, FCNTL)],
        "setpriority" => &[(0, PRIORITIES), (1, NUMBER)],
        "ioprio_set" => &[(0, IO_PRIORITIES), (1, NUMBER)],
        "sched_setaffinity" | "sched_setscheduler" | "sched_setparam" | "sched_setattr" => {
            &[(0, NUMBER)]
        }
        "prlimit64" => &[(0, NUMBER), (1, LIMITS)],
        "setrlimit" => &[(0, LIMITS)],
        "personality" => &[(0, Read::Hex)],
        "ptrace" => &[(0, REQUESTS)],
        "mount" => &[(3, Read::Hex)],
        "umount2" => &[(1, Read::Hex)],
        "bpf" | "keyctl" => &[(0, NUMBER)],
        _ => &[],
    }
}

/// "socket(AF_VSOCK, SOCK_STREAM, 0)"; an argument that isn't shown is "…".
pub(super) fn shown(name: &str, args: &[u64; 6]) -> String {
    let mut shown: Vec<String> = Vec::new();
    for &(index, read) in arguments(name) {
        while shown.len() < index {
            shown.push("…".to_owned());
        }
        shown.push(read.show(args.get(index).copied().unwrap_or_default()));
    }
    if shown.is_empty() {
        shown.push("…".to_owned());
    }
    format!("{name}({})", shown.join(", "))
}

impl Read {
    fn show(self, word: u64) -> String {
        let word = u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        match self {
            Read::One(names) => {
                name_of(word, names).map_or_else(|| signed(word).to_string(), str::to_owned)
            }
            Read::Bits(names) => with_bits(String::new(), names, word),
            Read::SocketType => {
                let kind = word & 0xf;
                let name =
                    name_of(kind, SOCKET_TYPES).map_or_else(|| kind.to_string(), str::to_owned);
                with_bits(name, SOCKET_FLAGS, word & !0xf)
            }
            Read::Mode => format!("{word:#o}").replacen("0o", "0", 1),
            Read::Hex => format!("{word:#x}"),
        }
    }
}

fn name_of(word: u32, names: &[(u32, &'static str)]) -> Option<&'static str> {
    let one = names.iter().find(|(value, _)| *value == word);
    one.map(|(_, name)| *name)
}

fn signed(word: u32) -> c_int {
    word.cast_signed()
}

/// Names with `|` between them, and what has no name.
fn with_bits(mut text: String, names: &[(u32, &'static str)], word: u32) -> String {
    let mut left = word;
    let mut add = |part: &str| {
        let bar = if text.is_empty() { "" } else { "|" };
        let _ = write!(text, "{bar}{part}");
    };
    for &(bit, name) in names.iter().filter(|(bit, _)| word & bit == *bit) {
        add(name);
        left &= !bit;
    }
    if left != 0 {
        add(&format!("{left:#x}"));
    }
    if text.is_empty() {
        "0".to_owned()
    } else {
        text
    }
}
