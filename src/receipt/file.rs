//! The receipt's file. It appears whole or not at all.

use std::fs::File;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, getpid, unlinkat};

use crate::files::errno;
use crate::policy::ReceiptFile;

/// Writes it beside its name (with mode 0644, less the umask) and moves it there, where
/// it takes the place of whatever has come since; no link is followed.
///
/// # Errors
/// The call that failed, and its errno. Nothing is left behind then.
pub fn write(to: &ReceiptFile, text: &str) -> Result<(), (&'static str, Errno)> {
    let failed = |call: &'static str| move |errno| (call, errno);
    // Other pid namespaces may have the same number, and write to the same folder.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    let temporary = format!(".groom-ns-receipt.{}.{now}", getpid());
    let temporary = temporary.as_str();
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(0o644);
    let fd = openat(&to.parent, temporary, flags, mode).map_err(failed("openat"))?;
    let mut file = File::from(fd);
    let written = file
        .write_all(text.as_bytes())
        .map_err(|error| ("write", errno(error)))
        // What a full disk takes back later is told here (fsync(2)).
        .and_then(|()| file.sync_all().map_err(|error| ("fsync", errno(error))))
        .and_then(|()| {
            let name = to.name.as_os_str();
            renameat(&to.parent, temporary, &to.parent, name).map_err(failed("renameat"))
        });
    if written.is_err() {
        // Nothing can be done about a failure; the name says what it is.
        let _ = unlinkat(&to.parent, temporary, UnlinkatFlags::NoRemoveDir);
    }
    written
}
