//! System V shared memory (sysvipc(7)), which the proofs look for.

use std::ptr::{self, NonNull};

use nix::errno::Errno;

/// A private segment of one page that this process is attached to. It is marked for
/// removal already, so it is gone with this value, or with this process.
pub struct Segment {
    id: libc::c_int,
    at: NonNull<libc::c_void>,
}

impl Segment {
    /// # Errors
    /// shmget(2)'s and shmat(2)'s: `ENOSPC` where there are too many.
    pub fn make() -> Result<Segment, Errno> {
        // SAFETY: integers alone.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) };
        let id = Errno::result(id)?;
        // SAFETY: a null address lets the kernel choose a free one.
        let at = unsafe { libc::shmat(id, ptr::null(), 0) };
        // SAFETY: IPC_RMID takes no structure.
        let marked = Errno::result(unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) });
        // shmat(2) returns -1 where it fails.
        let at = NonNull::new(at).filter(|at| at.as_ptr().addr() != usize::MAX);
        let segment = Segment {
            id,
            at: at.ok_or_else(Errno::last)?,
        };
        marked.map(|_| segment)
    }

    /// What other processes find it by, as long as this value lives.
    pub fn id(&self) -> libc::c_int {
        self.id
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: it is attached there, and nothing points into it.
        unsafe { libc::shmdt(self.at.as_ptr()) };
    }
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
