//! Descriptors as a range.

use nix::errno::Errno;

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
