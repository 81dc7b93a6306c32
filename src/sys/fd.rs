//! Descriptors by their number.

use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::stat::{FileStat, fstat};

/// Takes hold of a descriptor that this process was started with, and marks it as
/// close-on-exec (`F_SETFD`, fcntl(2)). To be called once for a number, at
/// start-up, with one that nothing else here has opened or owns.
///
/// # Errors
/// `EBADF` where none of that number is open.
pub fn inherited(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: three integers; the flags of a descriptor that isn't there are an error.
    let answer = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    Errno::result(answer)?;
    // SAFETY: the descriptor is open, as fcntl has just said, and nothing else in this
    // process owns it: callers take each number once, before anything was opened.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// What the descriptor of this number is open on (fstat(2)).
///
/// # Errors
/// `EBADF` where none of that number is open.
pub fn stat(number: RawFd) -> Result<FileStat, Errno> {
    if number < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: it isn't -1, and is borrowed for one call, which only looks; where none of
    // that number is open, that call says so.
    fstat(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Whether a descriptor of this number is closed by execve(2) (`F_GETFD`, fcntl(2)). What
/// /proc/PID/fdinfo says is the open file's flag: one that has been made with `TIOCGPTPEER`
/// keeps it, whatever becomes of its descriptors.
///
/// # Errors
/// `EBADF` where none of that number is open.
pub fn is_cloexec(number: RawFd) -> Result<bool, Errno> {
    // SAFETY: two integers; a descriptor that isn't there is an error.
    let answer = unsafe { libc::fcntl(number, libc::F_GETFD) };
    Ok(Errno::result(answer)? & libc::FD_CLOEXEC != 0)
}

/// Marks every descriptor from `first` up as close-on-exec (close_range(2),
/// `CLOSE_RANGE_CLOEXEC`, Linux 5.11). None is closed before an `execve`.
///
/// # Errors
/// `ENOSYS` or `EPERM` where an outer seccomp filter denies the call.
pub fn cloexec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: the call takes three integers and changes flags of this process's
    // descriptor table alone; no descriptor is closed, so every OwnedFd stays valid.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    Errno::result(answer).map(drop)
}
