//! Opening a source: the path must still name what the policy saw, and the
//! detached copy gets its attributes before it is attached anywhere.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, SFlag, fstat, major, minor};

use crate::plan::step::{Access, Bind, Inode, Kind};
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::sys::mount::{Attributes, open_tree, set_private_with};

use super::{nosuid, nosuid_nodev};

/// Opens a path (`O_PATH`) whose every component is what it seems: a symbolic
/// link anywhere in it is an error (ELOOP).
pub fn open_plain(at: impl AsFd, path: &Path) -> nix::Result<OwnedFd> {
    let resolve = if stands(Mechanism::ResolveNoSymlinks) {
        ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS
    } else {
        ResolveFlag::empty()
    };
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(resolve);
    openat2(at, path, how)
}

/// Device and inode number of an open file.
pub fn inode(fd: impl AsFd) -> nix::Result<Inode> {
    fstat(fd).map(|stat| Inode {
        dev: stat.st_dev,
        ino: stat.st_ino,
    })
}

/// A detached copy of the tree that `bind` names, with its final attributes.
///
/// `made` is the identity of an out-dir that the plan couldn't know yet. `idmap`
/// is the user namespace for `bind.idmap`.
pub fn open(
    bind: &Bind,
    made: Option<Inode>,
    idmap: Option<BorrowedFd>,
) -> Result<OwnedFd, Refusal> {
    let refuse = |call: &'static str, errno: Errno| {
        Refusal::new(Reason::Mount, "open the source of a bind")
            .about(format!("{call} {}", crate::refusal::shown(&bind.source)))
            .errno(errno)
            .remedy("check that the path still exists and that you may reach it")
    };
    let cwd = nix::fcntl::AT_FDCWD;
    let fd = open_plain(cwd, &bind.source).map_err(|errno| refuse("openat2", errno))?;
    let stat = fstat(&fd).map_err(|errno| refuse("fstat", errno))?;
    judge(bind, &stat, made)?;

    let recursive = bind.kind == Kind::Dir;
    let tree = open_tree(&fd, recursive).map_err(|errno| refuse("open_tree", errno))?;
    let attributes = Attributes {
        set: attributes(bind),
        idmap,
    };
    let recursive = recursive && stands(Mechanism::RecursiveAttributes);
    set_private_with(&tree, recursive, &attributes).map_err(|errno| {
        if idmap.is_some() && errno == Errno::EINVAL {
            return Refusal::new(Reason::Owner, "id-map a tree")
                .path(&bind.source)
                .errno(errno)
                .remedy(
                    "its file system, or one mounted beneath it, can't be id-mapped (overlay, proc, sysfs, tmpfs before Linux 6.3 …): \
                     put it on a volume, or start groom-ns as the owner of the files",
                );
        }
        refuse("mount_setattr", errno)
    })?;
    Ok(tree)
}

/// What a bind's mount may not do.
fn attributes(bind: &Bind) -> u64 {
    let base = match bind.kind {
        // A device node that isn't on a `nodev` mount is what /dev is for.
        Kind::Device { .. } => nosuid() | libc::MOUNT_ATTR_NOEXEC,
        _ => nosuid_nodev(),
    };
    match bind.access {
        Access::Ro => base | libc::MOUNT_ATTR_RDONLY,
        Access::Rw => base,
    }
}

/// Refuses a source that isn't what the policy saw.
fn judge(bind: &Bind, stat: &FileStat, made: Option<Inode>) -> Result<(), Refusal> {
    let wrong = |what: &'static str| {
        Err(Refusal::new(Reason::Path, what)
            .path(&bind.source)
            .remedy("something on the host changed it while the jail was built; start again"))
    };
    // A device node is known by its number: udev may make it anew at any time.
    let is_device = matches!(bind.kind, Kind::Device { .. });
    let found = Inode {
        dev: stat.st_dev,
        ino: stat.st_ino,
    };
    let is_judged = is_device || bind.identity.or(made) == Some(found);
    if !is_judged && stands(Mechanism::SourceIdentity) {
        return wrong("a source is no longer the file that was checked");
    }
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    let right = match bind.kind {
        Kind::Dir => kind == SFlag::S_IFDIR,
        Kind::File => kind == SFlag::S_IFREG,
        Kind::Socket => kind == SFlag::S_IFSOCK,
        Kind::Device {
            major: wanted_major,
            minor: wanted_minor,
        } => {
            kind == SFlag::S_IFCHR
                && major(stat.st_rdev) == u64::from(wanted_major)
                && minor(stat.st_rdev) == u64::from(wanted_minor)
        }
    };
    if right {
        Ok(())
    } else {
        wrong("a source is of another kind than it must be")
    }
}
