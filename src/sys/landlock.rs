//! The one question to landlock that its crate doesn't answer.

use std::ptr::null;

use nix::errno::Errno;

/// `LANDLOCK_CREATE_RULESET_VERSION`, linux/landlock.h.
const VERSION: u32 = 1;

/// The landlock ABI of the running kernel, at least 1 (landlock_create_ruleset(2)).
///
/// # Errors
/// `EOPNOTSUPP`: built in but not enabled at boot (`lsm=`). `ENOSYS`: not built
/// in. Anything else comes from an outer seccomp filter.
pub fn abi() -> Result<u32, Errno> {
    // SAFETY: with this flag the kernel wants a null pointer and size 0, reads
    // no memory, and opens no descriptor.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    };
    let version = Errno::result(answer)?;
    u32::try_from(version).map_err(|_| Errno::EOVERFLOW)
}
