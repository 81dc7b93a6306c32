//! System V shared memory (sysvipc(7)), which the proofs look for.

use nix::errno::Errno;

/// A new private segment of one page, readable by its owner. It stays until [`remove`].
pub fn make() -> Result<libc::c_int, Errno> {
    // SAFETY: integers alone.
    Errno::result(unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) })
}

/// Whether there is such a segment (shmctl(2), `IPC_STAT`).
///
/// # Errors
/// `EINVAL` where there is none.
pub fn look(id: libc::c_int) -> Result<(), Errno> {
    let mut status = std::mem::MaybeUninit::<libc::shmid_ds>::uninit();
    // SAFETY: the kernel writes one shmid_ds, which nobody reads.
    Errno::result(unsafe { libc::shmctl(id, libc::IPC_STAT, status.as_mut_ptr()) }).map(drop)
}

/// Removes a segment (shmctl(2), `IPC_RMID`).
pub fn remove(id: libc::c_int) -> Result<(), Errno> {
    // SAFETY: IPC_RMID takes no structure.
    Errno::result(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }).map(drop)
}
