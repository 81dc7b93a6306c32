//! Reports and attacks on processes and identities.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, getgid, getgroups, getuid};

use crate::raw::{self, sys};
use crate::{Outcome, shown, value};

/// Every process number that can be seen, in order.
pub(crate) fn visible() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids: BTreeSet<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.into_iter().collect()
}

pub(crate) fn pids() -> String {
    visible()
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// `uid=U,E,S gid=R,E,S groups=…`, as /proc/self/status has them.
pub(crate) fn ids() -> String {
    let groups: Vec<String> = getgroups()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "uid={} gid={} groups={}",
        getuid(),
        getgid(),
        groups.join(",")
    )
}

/// The lines of a /proc status file that say what a process may do.
const PRIVILEGES: [&str; 9] = [
    "Uid:",
    "Gid:",
    "CapInh:",
    "CapPrm:",
    "CapEff:",
    "CapBnd:",
    "CapAmb:",
    "NoNewPrivs:",
    "Seccomp:",
];

/// Those of every visible process, a process a line.
pub(crate) fn privileges() -> String {
    let mut out = String::new();
    for pid in visible() {
        // Outside, processes end while they are looked at.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        write!(out, "\n{pid}").expect("a string takes text");
        for line in status.lines() {
            let mut words = line.split_whitespace();
            let (name, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if PRIVILEGES.contains(&name) {
                write!(out, " {name}{value}").expect("a string takes text");
            }
        }
    }
    out
}

/// Ways to a privileged identity; the outcome is the first that worked.
pub(crate) fn become_root() -> Outcome {
    let all_caps = [
        u64::from(u32::MAX),
        u64::from(u32::MAX),
        u64::from(u32::MAX),
    ];
    // struct __user_cap_header_struct: version 3 and this process.
    let header = [0x2008_0522_u64];
    let tries = [
        ("setresuid", sys(libc::SYS_setresuid, &[0, 0, 0])),
        ("setresgid", sys(libc::SYS_setresgid, &[0, 0, 0])),
        (
            "setgroups",
            sys(libc::SYS_setgroups, &[1, raw::address(&[0_u32])]),
        ),
        (
            "capset",
            sys(
                libc::SYS_capset,
                &[raw::address(&header), raw::address(&all_caps)],
            ),
        ),
    ];
    match tries.into_iter().find(|(_, result)| result.is_ok()) {
        Some((name, _)) => Ok(name.into()),
        None => Err(Errno::EPERM),
    }
}

/// Where the links of every visible process lead, `PID NAME=TARGET` a line,
/// and what each of its roots lists.
pub(crate) fn links() -> String {
    let mut out = String::new();
    for pid in visible() {
        let mut names = vec!["root".into(), "cwd".into(), "exe".into()];
        for fd in fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            names.push(format!("fd/{}", fd.file_name().to_string_lossy()));
        }
        for name in names {
            let link = format!("/proc/{pid}/{name}");
            let target = fs::read_link(&link).map_or_else(
                |error| format!("{:?}", Errno::from_raw(error.raw_os_error().unwrap_or(0))),
                |target| target.display().to_string(),
            );
            write!(out, "\n{pid} {name}={target}").expect("a string takes text");
        }
        let root = shown(&crate::look::list(&format!("/proc/{pid}/root")));
        write!(out, "\n{pid} root: {root}").expect("a string takes text");
    }
    out
}

/// What a process inherits: `NAME=VALUE` a line.
pub(crate) fn state() -> Outcome {
    let umask = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let status = fs::read_to_string("/proc/self/status").map_err(|_| Errno::EPROTO)?;
    let field = |name: &str| {
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        line.split_whitespace()
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    // getpriority(2) by number returns 20 minus the nice value.
    let nice = 20 - sys(libc::SYS_getpriority, &[0, 0])?;
    let (soft, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_CORE)?;
    let (files, _) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?;
    let session = nix::unistd::getsid(None)?;
    // By its place beside the process's own: its number says nothing.
    let group = match nix::unistd::getpgrp() {
        group if group == nix::unistd::getpid() => "own".to_owned(),
        group => group.to_string(),
    };
    Ok(format!(
        "\numask={:o}\nnice={nice}\nblocked={}\nignored={}\ncores={soft}/{hard}\nfiles={files}\n\
         processors={}\nsession={session}\ngroup={group}",
        umask.bits(),
        field("SigBlk:"),
        field("SigIgn:"),
        field("Cpus_allowed_list:"),
    ))
}

/// setns(2) into a namespace file, `kind` as CLONE_NEW….
pub(crate) fn setns(path: &str, kind: &str) -> Outcome {
    let file = fs::File::open(path)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EPROTO)))?;
    let fd = raw::number(file.as_raw_fd());
    sys(libc::SYS_setns, &[fd, value::integer(kind)]).map(|_| String::new())
}

/// Runs `attack` on a process: `child` is one made for it, with the same identity.
fn on_process(pid: &str, attack: impl FnOnce(u64) -> Result<(), Errno>) -> Outcome {
    if pid != "child" {
        return attack(value::integer(pid)).map(|()| String::new());
    }
    match raw::fork()? {
        ForkResult::Child => {
            std::thread::sleep(std::time::Duration::from_secs(30));
            raw::exit_now(0)
        }
        ForkResult::Parent { child } => {
            let result = attack(raw::number(child.as_raw()));
            kill(child, Signal::SIGKILL)?;
            waitpid(child, None)?;
            result.map(|()| String::new())
        }
    }
}

/// process_vm_readv(2) of a byte that lies at the same place in a fork.
pub(crate) fn peek(pid: &str) -> Outcome {
    static WANTED: [u8; 8] = *b"readable";
    on_process(pid, |pid| {
        let mut room = [0_u8; 8];
        let local = [raw::address_mut(&mut room), 8];
        let remote = [raw::address(&WANTED), 8];
        let args = [pid, raw::address(&local), 1, raw::address(&remote), 1];
        sys(libc::SYS_process_vm_readv, &args).map(drop)
    })
}

/// pidfd_getfd(2) of the process's stdout.
pub(crate) fn take_fd(pid: &str) -> Outcome {
    on_process(pid, |pid| {
        let pidfd = raw::owned(sys(libc::SYS_pidfd_open, &[pid, 0])?);
        let taken = sys(libc::SYS_pidfd_getfd, &[raw::number(pidfd.as_raw_fd()), 1])?;
        drop(raw::owned(taken));
        Ok(())
    })
}

/// ptrace(2): attaches to a child.
pub(crate) fn trace_child() -> Outcome {
    on_process("child", |pid| {
        sys(libc::SYS_ptrace, &[u64::from(libc::PTRACE_ATTACH), pid]).map(drop)
    })
}

/// Opens a file by its handle (open_by_handle_at(2)), as the shocker did.
pub(crate) fn by_handle(path: &str) -> Outcome {
    let folder = Path::new(path).parent().expect("an absolute path");
    let path = raw::cstring(path);
    // struct file_handle: size, type, then up to 128 bytes.
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let mut mount_id = [0_i32; 1];
    let args = [
        raw::number(libc::AT_FDCWD),
        raw::address(path.as_bytes_with_nul()),
        raw::address_mut(&mut handle),
        raw::address_mut(&mut mount_id),
        0,
    ];
    sys(libc::SYS_name_to_handle_at, &args)?;
    // Anything on the same file system.
    let place = fs::File::open(folder).map_err(|_| Errno::EPROTO)?;
    let args = [
        raw::number(place.as_raw_fd()),
        raw::address_mut(&mut handle),
        0,
    ];
    sys(libc::SYS_open_by_handle_at, &args).map(|_| String::new())
}
