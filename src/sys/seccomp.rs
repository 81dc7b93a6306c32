//! The installation of a filter. seccompiler's own reports errors as text and
//! sets no_new_privs on the side, which is a step of its own here.

use nix::errno::Errno;
use seccompiler::sock_filter;

/// `struct sock_fprog`, linux/filter.h, over seccompiler's instructions.
#[repr(C)]
struct Program {
    len: libc::c_ushort,
    filter: *const sock_filter,
}

/// Installs `program` for the calling thread, for good (seccomp(2),
/// `SECCOMP_SET_MODE_FILTER`). The process must be single-threaded for it to
/// cover the process.
///
/// # Errors
/// `EACCES`: no_new_privs isn't set. `EINVAL`: the program is empty, longer
/// than 4096 instructions, or malformed. `ENOSYS`, `EPERM`: no seccomp in the
/// kernel, or an outer filter that denies it.
pub fn install(program: &[sock_filter]) -> Result<(), Errno> {
    let program = Program {
        len: libc::c_ushort::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_ptr(),
    };
    // SAFETY: `program` points at `len` instructions borrowed for the whole
    // call; `sock_filter` is repr(C) with the kernel's layout; the kernel copies
    // the instructions and keeps no pointer.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0 as libc::c_ulong,
            &raw const program,
        )
    };
    Errno::result(answer).map(drop)
}
