//! What a run makes on the host, and takes back if it doesn't happen.

use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

use crate::mount::tree;
use crate::ns::diagnose::UNMAPPED;
use crate::plan::step::{Inode, MakeDir};
use crate::policy::{Held, LogFile};
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};

/// An out-dir that was made for this run. Dropped, it is removed again; if it
/// isn't empty by then, rmdir(2) leaves it alone.
pub(super) struct MadeDir<'held> {
    parent: &'held OwnedFd,
    path: &'held Path,
    pub(super) inode: Inode,
    kept: bool,
}

impl<'held> MadeDir<'held> {
    pub(super) fn make(dir: &'held MakeDir, held: &'held Held) -> Result<Self, Refusal> {
        let refuse = |call: &'static str| {
            let path = dir.path.clone();
            move |errno| {
                Refusal::new(Reason::Path, "make the out-dir")
                    .about(format!("{call} {}", crate::refusal::shown(&path)))
                    .errno(errno)
                    .remedy("give a folder that exists, or one whose parent you can write to")
            }
        };
        let parent = held
            .get(&dir.path)
            .ok_or_else(|| refuse("openat")(Errno::ENOENT))?;
        let name = Path::new(dir.path.file_name().unwrap_or_default());
        mkdirat(parent, name, Mode::from_bits_truncate(0o755)).map_err(refuse("mkdirat"))?;
        let mut made = MadeDir {
            parent,
            path: &dir.path,
            inode: Inode { dev: 0, ino: 0 },
            kept: false,
        };
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(parent, name, flags, Mode::empty()).map_err(refuse("openat"))?;
        made.inode = tree::inode(&fd).map_err(refuse("fstat"))?;
        if let Some(owner) = dir.owner {
            fchown(
                &fd,
                Some(Uid::from_raw(owner.uid)),
                Some(Gid::from_raw(owner.gid)),
            )
            .map_err(|errno| match errno {
                Errno::EINVAL => refuse("fchown")(errno).remedy(UNMAPPED),
                errno => refuse("fchown")(errno),
            })?;
        }
        Ok(made)
    }

    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for MadeDir<'_> {
    fn drop(&mut self) {
        if !self.kept && stands(Mechanism::TakenBack) {
            let name = Path::new(self.path.file_name().unwrap_or_default());
            let _ = unlinkat(self.parent, name, UnlinkatFlags::RemoveDir);
        }
    }
}

/// A log that was made for this run. Dropped, it is removed again, if it is still there.
pub(super) struct MadeLog {
    file: LogFile,
    inode: Inode,
    kept: bool,
}

impl MadeLog {
    /// `fd` is what was made just now; it is removed here if it can't be looked at.
    pub(super) fn new(file: LogFile, fd: &OwnedFd) -> Result<MadeLog, Errno> {
        let name = file.name.as_os_str();
        let inode = tree::inode(fd).inspect_err(|_| {
            let _ = unlinkat(&file.parent, name, UnlinkatFlags::NoRemoveDir);
        })?;
        Ok(MadeLog {
            file,
            inode,
            kept: false,
        })
    }

    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for MadeLog {
    fn drop(&mut self) {
        let name = self.file.name.as_os_str();
        let is_ours = || {
            fstatat(&self.file.parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| stat.st_ino == self.inode.ino && stat.st_dev == self.inode.dev)
        };
        if !self.kept && stands(Mechanism::TakenBack) && is_ours() {
            let _ = unlinkat(&self.file.parent, name, UnlinkatFlags::NoRemoveDir);
        }
    }
}
