//! The fork into new namespaces, and the id maps that go with it.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, stat};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, pipe2, read, write};

use crate::plan::step::{IdMap, Identity, Ids, Inode, Route};
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::sys::process::{Forked, exit_at_once, fork_into};

use super::diagnose;

/// The namespaces of the jail (namespaces(7)), by the names that the plan uses.
const NAMESPACES: [(&str, libc::c_int); 7] = [
    ("CLONE_NEWUSER", libc::CLONE_NEWUSER),
    ("CLONE_NEWNS", libc::CLONE_NEWNS),
    ("CLONE_NEWPID", libc::CLONE_NEWPID),
    ("CLONE_NEWNET", libc::CLONE_NEWNET),
    ("CLONE_NEWIPC", libc::CLONE_NEWIPC),
    ("CLONE_NEWUTS", libc::CLONE_NEWUTS),
    ("CLONE_NEWCGROUP", libc::CLONE_NEWCGROUP),
];

/// Forks into the namespaces of the plan. The child must wait for its maps
/// before it does anything that an id or a capability has a part in.
pub fn fork(namespaces: &[&str]) -> Result<Forked, Refusal> {
    let mut flags = 0;
    for name in namespaces {
        let Some((_, flag)) = NAMESPACES.iter().find(|(known, _)| known == name) else {
            return Err(
                Refusal::new(Reason::Setup, "make a namespace of an unknown kind").about(*name),
            );
        };
        flags |= flag;
    }
    fork_into(flags).map_err(|errno| diagnose::namespaces_refused(errno, namespaces))
}

/// Writes the id maps of a child in a new user namespace (user_namespaces(7)).
///
/// A user may map one id, its own, and only once setgroups(2) is denied there;
/// root maps the command's host id, which isn't its own, and keeps setgroups so
/// that the child can drop every supplementary group.
pub fn write_maps(child: Pid, identity: &Identity) -> Result<(), Refusal> {
    if identity.route == Route::User && stands(Mechanism::SetgroupsDenied) {
        write_map(child, "setgroups", "deny")?;
    }
    let Identity { host, inside, .. } = identity;
    write_map(child, "gid_map", &format!("{} {} 1", inside.gid, host.gid))?;
    write_map(child, "uid_map", &format!("{} {} 1", inside.uid, host.uid))
}

/// The pid namespace of a child that is still dumpable: of one that isn't, a user
/// may not ask (proc_pid_ns(5), ptrace(2) PTRACE_MODE_READ).
pub fn pid_namespace(child: Pid) -> Result<Inode, Refusal> {
    let path = format!("/proc/{child}/ns/pid");
    let found = stat(path.as_str()).map_err(|errno| {
        Refusal::new(Reason::Setup, "look at the new pid namespace")
            .about("stat /proc/PID/ns/pid")
            .errno(errno)
    })?;
    Ok(Inode {
        dev: found.st_dev,
        ino: found.st_ino,
    })
}

/// A user namespace that maps a tree's owner on disk to the command, for
/// `MOUNT_ATTR_IDMAP`. It holds no process: the one it was made with is gone
/// when this returns. The descriptor is the caller's.
pub fn idmap_namespace(map: &IdMap) -> Result<OwnedFd, Refusal> {
    let refuse = |call: &'static str| {
        move |errno| {
            Refusal::new(Reason::Maps, "make the namespace of an id-mapped mount")
                .about(call)
                .errno(errno)
        }
    };
    // The child waits for the end of file that its parent's death causes too.
    let (waits, holds) = pipe2(OFlag::O_CLOEXEC).map_err(refuse("pipe2"))?;
    let child = match fork_into(libc::CLONE_NEWUSER)
        .map_err(|errno| diagnose::namespaces_refused(errno, &["CLONE_NEWUSER"]))?
    {
        Forked::Child => {
            drop(holds);
            let _ = read(&waits, &mut [0]);
            exit_at_once(0)
        }
        Forked::Parent(pid, _) => Holder {
            pid,
            holds: Some(holds),
        },
    };
    let IdMap { disk, host } = map;
    write_map(
        child.pid,
        "uid_map",
        &format!("{} {} 1", disk.uid, host.uid),
    )?;
    write_map(child.pid, "gid_map", &swapped_groups(*disk, *host))?;
    let path = format!("/proc/{}/ns/user", child.pid);
    open(
        path.as_str(),
        OFlag::O_RDONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .map_err(refuse("open /proc/PID/ns/user"))
}

/// The process that a namespace is made with; it ends with this value.
struct Holder {
    pid: Pid,
    holds: Option<OwnedFd>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.holds.take();
        // Nothing can be done about a failure, and none is possible: it is our
        // child, and it ends when the pipe is closed.
        let _ = waitpid(self.pid, None);
    }
}

/// A group map in which the tree's group and the command's change places and all
/// others stay: a file of another group keeps it, and can still be written to,
/// since the kernel refuses writes to files with an unmapped owner or group.
fn swapped_groups(disk: Ids, host: Ids) -> String {
    const LAST: u32 = u32::MAX - 1; // (gid_t)-1 is no group
    let (low, high) = (disk.gid.min(host.gid), disk.gid.max(host.gid));
    let mut lines = vec![(low, high, 1), (high, low, 1)];
    lines.push((0, 0, low));
    lines.push((low + 1, low + 1, high - low - 1));
    lines.push((high + 1, high + 1, LAST - high));
    let mut map = String::new();
    for (disk, host, count) in lines.into_iter().filter(|(_, _, count)| *count > 0) {
        let _ = writeln!(map, "{disk} {host} {count}");
    }
    map
}

/// Writes a file of /proc/PID in one write(2), as the kernel wants it.
fn write_map(child: Pid, file: &str, content: &str) -> Result<(), Refusal> {
    let refuse = |errno| diagnose::map_refused(file, errno);
    let path = format!("/proc/{child}/{file}");
    let fd = open(
        path.as_str(),
        OFlag::O_WRONLY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .map_err(refuse)?;
    write(&fd, content.as_bytes()).map(drop).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_groups_change_places_and_none_is_lost() {
        let ids = |gid| Ids { uid: 0, gid };
        assert_eq!(
            swapped_groups(ids(0), ids(5)),
            "0 5 1\n5 0 1\n1 1 4\n6 6 4294967289\n"
        );
        assert_eq!(
            swapped_groups(ids(7), ids(6)),
            "6 7 1\n7 6 1\n0 0 6\n8 8 4294967287\n"
        );
    }
}
