//! Extended attributes.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::null_mut;

use nix::errno::Errno;

/// Whether an entry of a folder has file capabilities (`security.capability`,
/// capabilities(7)); a symbolic link isn't followed. `dir` may not be `O_PATH`.
/// Whatever isn't a plain "no" counts as "yes".
pub fn has_capabilities(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    // getxattrat(2) is younger than the kernels that groom-ns runs on.
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    let Ok(path) = CString::new(path) else {
        return true;
    };
    // SAFETY: both strings end with a NUL and outlive the call; with size 0 the
    // kernel writes nothing and ignores the buffer.
    let answer = unsafe {
        libc::lgetxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            null_mut(),
            0,
        )
    };
    match Errno::result(answer) {
        Ok(_) => true,
        Err(errno) => !matches!(errno, Errno::ENODATA | Errno::EOPNOTSUPP | Errno::ENOENT),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn most_files_have_none() {
        let dir = std::fs::File::open("/etc").expect("/etc");
        assert!(!has_capabilities(dir.as_fd(), c"passwd"));
        assert!(!has_capabilities(dir.as_fd(), c"not-there"));
        assert!(
            has_capabilities(dir.as_fd(), c"passwd/x"),
            "ENOTDIR is no plain no"
        );
    }
}
