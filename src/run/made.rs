//! What a run makes on the host, and takes back if it doesn't happen.

use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

use crate::broker::Config;
use crate::broker::key_source::KeySource;
use crate::broker::log::Log;
use crate::broker::token::Token;
use crate::broker::totals::Totals;
use crate::cgroup::{Leaf, Place};
use crate::mount::tree;
use crate::ns::diagnose::UNMAPPED;
use crate::plan::step::{Inode, MakeDir, Plan};
use crate::policy::{Held, LogFile, Supplies};
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};

use super::door::Door;
use super::setup;
use super::terminal::Terminal;

/// What is made on the host before the fork. Dropped, it is taken back, in this order.
pub(super) struct Made<'held> {
    log: Option<MadeLog>,
    pub(super) door: Option<Door>,
    dir: Option<MadeDir<'held>>,
    pub(super) terminal: Option<Terminal>,
    pub(super) leaf: Option<Leaf>,
}

impl<'held> Made<'held> {
    /// A terminal's guard is forked when the cgroup has been made, which takes that this
    /// process is alone in its own, and before there is a token, which it shouldn't have.
    pub(super) fn make(
        plan: &'held Plan,
        held: &'held Held,
        place: Option<Place>,
        broker: Option<(Config, Supplies)>,
        totals: Option<Totals>,
    ) -> Result<Self, Refusal> {
        let leaf = place.map(Leaf::make).transpose()?;
        let question = broker.as_ref().and_then(question);
        let terminal = Terminal::prepare(!plan.terminal().is_empty(), question)?;
        let make_dir = |path| MadeDir::make(path, held);
        let dir = plan.make_out_dir.as_ref().map(make_dir).transpose()?;
        let broker = broker.map(|broker| make_door(broker, totals)).transpose()?;
        let (door, log) = broker.unzip();
        Ok(Made {
            log: log.flatten(),
            door,
            dir,
            terminal,
            leaf,
        })
    }

    /// Of the out-dir, if one was made.
    pub(super) fn inode(&self) -> Option<Inode> {
        self.dir.as_ref().map(|dir| dir.inode)
    }

    pub(super) fn keep(self) {
        self.dir.into_iter().for_each(MadeDir::keep);
        self.log.into_iter().for_each(MadeLog::keep);
    }
}

/// What the key is asked for with, where it may be typed.
fn question((config, supplies): &(Config, Supplies)) -> Option<String> {
    matches!(supplies.key, KeySource::Stdin).then(|| config.question())
}

/// What the broker is made of: its log is opened, and its token drawn.
fn make_door(
    (config, supplies): (Config, Supplies),
    totals: Option<Totals>,
) -> Result<(Door, Option<MadeLog>), Refusal> {
    let token = Token::make(config.provider.token_prefix()).map_err(setup("getrandom"))?;
    let (log, made) = match supplies.log {
        Some(file) => {
            let (fd, is_new) = file.open()?;
            let made = is_new.then(|| MadeLog::new(file, &fd)).transpose();
            (Log::to(fd), made.map_err(setup("fstat"))?)
        }
        None => (Log::default(), None),
    };
    let door = Door {
        config,
        key: supplies.key,
        token,
        log: log.counted(totals),
    };
    Ok((door, made))
}

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
