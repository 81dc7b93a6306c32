//! A socket of any family, by number: nix's type has names for some only.

use std::os::fd::{FromRawFd as _, OwnedFd};

use nix::errno::Errno;

/// socket(2) with protocol 0. The descriptor is close-on-exec and the caller's.
///
/// # Errors
/// `EAFNOSUPPORT` is what the jail answers to all but a few families.
pub fn open(family: libc::c_int, kind: libc::c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes integers and touches no memory of ours.
    let fd = Errno::result(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just returned `fd`, so it is open and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
