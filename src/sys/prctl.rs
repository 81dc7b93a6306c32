//! Capability sets that only prctl(2) reaches, by number: the crate `caps`
//! stops at the last capability it has a name for, the kernel may not.

use libc::c_ulong;
use nix::errno::Errno;

/// Whether `cap` is in the bounding set (`PR_CAPBSET_READ`).
///
/// # Errors
/// `EINVAL`: the kernel has no such capability.
pub fn bounding_has(cap: c_ulong) -> Result<bool, Errno> {
    // SAFETY: PR_CAPBSET_READ takes an integer and touches no memory.
    let answer = unsafe {
        libc::prctl(
            libc::PR_CAPBSET_READ,
            cap,
            0 as c_ulong,
            0 as c_ulong,
            0 as c_ulong,
        )
    };
    Errno::result(answer).map(|has| has != 0)
}

/// Removes `cap` from the bounding set (`PR_CAPBSET_DROP`).
///
/// # Errors
/// `EINVAL`: the kernel has no such capability. `EPERM`: no `CAP_SETPCAP`.
pub fn bounding_drop(cap: c_ulong) -> Result<(), Errno> {
    // SAFETY: PR_CAPBSET_DROP takes an integer and touches no memory; it can
    // only take privilege away.
    let answer = unsafe {
        libc::prctl(
            libc::PR_CAPBSET_DROP,
            cap,
            0 as c_ulong,
            0 as c_ulong,
            0 as c_ulong,
        )
    };
    Errno::result(answer).map(drop)
}

/// Whether `cap` is in the ambient set (`PR_CAP_AMBIENT_IS_SET`).
///
/// # Errors
/// `EINVAL`: the kernel has no such capability.
pub fn ambient_has(cap: c_ulong) -> Result<bool, Errno> {
    // SAFETY: PR_CAP_AMBIENT_IS_SET takes an integer and touches no memory; the
    // last two arguments must be 0, or the kernel says EINVAL.
    let answer = unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_IS_SET as c_ulong,
            cap,
            0 as c_ulong,
            0 as c_ulong,
        )
    };
    Errno::result(answer).map(|has| has != 0)
}
