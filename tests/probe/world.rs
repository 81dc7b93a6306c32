//! Namespaces for controls and surroundings.

use std::fs;

use nix::errno::Errno;
use nix::unistd::{ForkResult, getgid, getpid, getuid};

use crate::raw::{self, sys};

const NEW_USER_AND_MOUNTS: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;

/// Every namespace but pid, with all capabilities in them and uid 0 mapped to
/// the caller, so that what needs privilege has a control as any user.
pub(crate) fn own_userns() -> Result<(), Errno> {
    let others = libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(NEW_USER_AND_MOUNTS | others)?;
    map_self(&format!("0 {uid} 1"), &format!("0 {gid} 1"));
    no_propagation()
}

/// A mount namespace to prepare before a command is executed in it as the same
/// user: the capabilities end with the execution, unless the user is root.
pub(crate) fn own_mounts() -> Result<(), Errno> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    if uid == 0 {
        unshare(libc::CLONE_NEWNS)?;
    } else {
        unshare(NEW_USER_AND_MOUNTS)?;
        map_self(&format!("{uid} {uid} 1"), &format!("{gid} {gid} 1"));
    }
    no_propagation()
}

/// A user namespace in which no further one can be made. The caller keeps its
/// ids; root keeps all ids, which only a process outside may map.
pub(crate) fn no_more_userns() -> Result<(), Errno> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    if uid == 0 {
        mapped_userns(EVERY_ID)?;
    } else {
        unshare(NEW_USER_AND_MOUNTS)?;
        map_self(&format!("{uid} {uid} 1"), &format!("{gid} {gid} 1"));
    }
    fs::write("/proc/sys/user/max_user_namespaces", "0").expect("the namespace's own limit");
    Ok(())
}

/// Root's user namespace with so many groups, and all users.
pub(crate) fn few_groups(count: &str) -> Result<(), Errno> {
    mapped_userns(&format!("0 0 {count}"))
}

const EVERY_ID: &str = "0 0 4294967295";

fn mapped_userns(groups: &str) -> Result<(), Errno> {
    let pid = getpid();
    let (ready, told) = nix::unistd::pipe()?;
    let (done, tell_done) = nix::unistd::pipe()?;
    if let ForkResult::Child = raw::fork()? {
        drop((told, done));
        nix::unistd::read(&ready, &mut [0])?;
        for (file, map) in [("uid_map", EVERY_ID), ("gid_map", groups)] {
            fs::write(format!("/proc/{pid}/{file}"), map).expect(file);
        }
        nix::unistd::write(&tell_done, b"x")?;
        raw::exit_now(0);
    }
    unshare(NEW_USER_AND_MOUNTS)?;
    nix::unistd::write(&told, b"x")?;
    nix::unistd::read(&done, &mut [0])?;
    nix::sys::wait::wait()?;
    Ok(())
}

/// Whether a mount that another namespace makes beneath a shared one is seen here.
pub(crate) fn propagates(dir: &str) -> crate::Outcome {
    own_userns()?;
    mount("probe", dir, "tmpfs", 0, "mode=755")?;
    mount("none", dir, "", libc::MS_SHARED, "")?;
    let inner = format!("{dir}/inner");
    fs::create_dir(&inner).expect("a mount point");
    if let ForkResult::Child = raw::fork()? {
        unshare(libc::CLONE_NEWNS).expect("a mount namespace");
        mount("probe", &inner, "tmpfs", 0, "").expect("a mount");
        raw::exit_now(0);
    }
    nix::sys::wait::wait()?;
    let table = fs::read_to_string("/proc/self/mounts").expect("/proc");
    let seen = if table.contains(&inner) {
        "seen"
    } else {
        "unseen"
    };
    Ok(seen.into())
}

pub(crate) fn unshare(flags: i32) -> Result<(), Errno> {
    sys(libc::SYS_unshare, &[raw::number(flags)]).map(drop)
}

/// mount(2), with absent strings as null pointers.
pub(crate) fn mount(
    source: &str,
    target: &str,
    fstype: &str,
    flags: u64,
    data: &str,
) -> Result<(), Errno> {
    let [source, target, fstype, data] = [source, target, fstype, data].map(raw::cstring);
    let args = [
        raw::address(source.as_bytes_with_nul()),
        raw::address(target.as_bytes_with_nul()),
        raw::address(fstype.as_bytes_with_nul()),
        flags,
        raw::address(data.as_bytes_with_nul()),
    ];
    sys(libc::SYS_mount, &args).map(drop)
}

fn no_propagation() -> Result<(), Errno> {
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, "")
}

fn map_self(uid_map: &str, gid_map: &str) {
    fs::write("/proc/self/setgroups", "deny").expect("setgroups");
    fs::write("/proc/self/uid_map", uid_map).expect("uid_map");
    fs::write("/proc/self/gid_map", gid_map).expect("gid_map");
}
