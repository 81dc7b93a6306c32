//! The profile's file: written whole or not at all, and nobody else's.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use crate::files::{at_most, errno};
use crate::mount::tree::open_plain;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};

use super::open_to_others;
use super::profile::binary_in;

/// In bytes. A profile is short; what is longer isn't ours.
const MOST: u64 = 1 << 16;

/// A folder that root alone can write to.
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// What lies at a name.
pub(super) enum Present {
    /// Nothing.
    Nothing,
    /// A profile that this program wrote.
    Ours {
        /// All of it.
        text: String,
        /// The binary that it is for.
        binary: String,
    },
}

impl Folder {
    /// Opens it; no component of its path may be a link.
    pub(super) fn open(path: &Path) -> Result<Folder, Refusal> {
        const STEP: &str = "open the folder of profiles";
        let refuse = |errno| {
            Refusal::new(Reason::Path, STEP)
                .path(path)
                .errno(errno)
                .remedy("install AppArmor's tools: the package apparmor")
        };
        let fd = open_plain(nix::fcntl::AT_FDCWD, path).map_err(refuse)?;
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let fd = openat(&fd, ".", flags, Mode::empty()).map_err(refuse)?;
        let stat = fstat(&fd).map_err(refuse)?;
        if stat.st_uid != 0 || stat.st_mode & 0o022 != 0 {
            return Err(open_to_others(
                STEP,
                path,
                "others than root can write to it: `chown root`, `chmod go-w`",
            ));
        }
        Ok(Folder {
            fd,
            path: path.to_owned(),
        })
    }

    /// What lies at `name`.
    ///
    /// # Errors
    /// `path`: it is no regular file, or wasn't written by this program.
    pub(super) fn read(&self, name: &str) -> Result<Present, Refusal> {
        let foreign = || {
            Refusal::new(Reason::Path, "look at the profile that is there")
                .path(self.path.join(name))
                .remedy("it isn't groom-ns's own: move it away, or load that one")
        };
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(Present::Nothing),
            Err(errno) => return Err(foreign().errno(errno)),
        };
        let file = std::fs::File::from(fd);
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(foreign());
        }
        let bytes = at_most(file, MOST).map_err(|error| foreign().errno(errno(error)))?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(foreign)?;
        match binary_in(&text).map(str::to_owned) {
            Some(binary) => Ok(Present::Ours { text, binary }),
            None if stands(Mechanism::OwnProfileFile) => Err(foreign()),
            None => Ok(Present::Ours {
                text,
                binary: String::new(),
            }),
        }
    }

    /// Puts `text` at `name` in one step (rename(2)). Where nothing was, what has
    /// appeared meanwhile isn't replaced. Where this fails, all is as it was.
    pub(super) fn write(&self, name: &str, text: &str, before: &Present) -> Result<(), Refusal> {
        let new = format!(".{name}.{}", std::process::id());
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o644);
        let fd =
            openat(&self.fd, new.as_str(), flags, mode).map_err(self.refuse(name, "openat"))?;
        let rename = match before {
            Present::Nothing => RenameFlags::RENAME_NOREPLACE,
            Present::Ours { .. } => RenameFlags::empty(),
        };
        let mut file = std::fs::File::from(fd);
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(errno)
            .map_err(self.refuse(name, "write"))
            .and_then(|()| {
                renameat2(&self.fd, new.as_str(), &self.fd, name, rename)
                    .map_err(self.refuse(name, "renameat2"))
            });
        if written.is_err() {
            let _ = unlinkat(&self.fd, new.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    /// Waits until what was done to `name` is on the disk (fsync(2)).
    pub(super) fn sync(&self, name: &str) -> Result<(), Refusal> {
        fsync(&self.fd).map_err(self.refuse(name, "fsync"))
    }

    /// Removes `name`.
    pub(super) fn remove(&self, name: &str) -> Result<(), Refusal> {
        unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir).map_err(self.refuse(name, "unlinkat"))
    }

    fn refuse(&self, name: &str, call: &'static str) -> impl Fn(Errno) -> Refusal {
        let path = self.path.join(name);
        move |errno| {
            Refusal::new(Reason::Setup, "write the profile")
                .about(format!("{call} {}", crate::refusal::shown(&path)))
                .errno(errno)
                .remedy("make room and let root write there")
        }
    }
}
