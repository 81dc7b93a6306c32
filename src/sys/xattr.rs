//! Extended attributes.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::null_mut;

use nix::errno::Errno;

const CAPABILITY: &CStr = c"security.capability";

/// Whether an entry of a folder has file capabilities (`security.capability`,
/// capabilities(7)); a symbolic link isn't followed. `dir` may not be `O_PATH`.
/// Whatever isn't a plain "no" counts as "yes".
pub fn has_capabilities(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    let answer = match getxattrat(dir, name) {
        // Linux below 6.13, or an outer filter that doesn't know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => by_path(dir, name),
        answer => answer,
    };
    !matches!(
        answer,
        Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::ENOENT)
    )
}

/// `struct xattr_args`, linux/xattr.h. Size 0: nothing is written.
#[repr(C)]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

/// getxattrat(2), which libc doesn't know yet.
fn getxattrat(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    const SYS_GETXATTRAT: libc::c_long = 464;
    let args = XattrArgs {
        value: 0,
        size: 0,
        flags: 0,
    };
    // SAFETY: both strings end with a NUL, and with the arguments they outlive the call,
    // which reads them and writes nothing.
    let answer = unsafe {
        libc::syscall(
            SYS_GETXATTRAT,
            dir.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            CAPABILITY.as_ptr(),
            &raw const args,
            size_of::<XattrArgs>(),
        )
    };
    Errno::result(answer).map(drop)
}

/// lgetxattr(2) by the folder's name in /proc.
fn by_path(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    let path = CString::new(path).map_err(|_| Errno::EINVAL)?;
    // SAFETY: both strings end with a NUL and outlive the call; with size 0 the
    // kernel writes nothing and ignores the buffer.
    let answer = unsafe { libc::lgetxattr(path.as_ptr(), CAPABILITY.as_ptr(), null_mut(), 0) };
    Errno::result(answer).map(drop)
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
        // The older way says the same.
        for (name, errno) in [(c"passwd", Errno::ENODATA), (c"not-there", Errno::ENOENT)] {
            assert_eq!(by_path(dir.as_fd(), name), Err(errno));
        }
        assert!(
            has_capabilities(dir.as_fd(), c"passwd/x"),
            "ENOTDIR is no plain no"
        );
    }

    #[test]
    fn a_file_that_has_them_is_told_from_a_link_to_it() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("vacuous: only root can give a file capabilities");
            return;
        }
        let path = std::env::temp_dir().join(format!("groom-ns-xattr.{}", std::process::id()));
        std::fs::create_dir(&path).expect("a folder");
        std::fs::write(path.join("program"), "").expect("a file");
        std::os::unix::fs::symlink("program", path.join("link")).expect("a link");
        let dir = std::fs::File::open(&path).expect("opens");
        let answers = |name| {
            let newer = match getxattrat(dir.as_fd(), name) {
                Err(Errno::ENOSYS) => by_path(dir.as_fd(), name),
                answer => answer,
            };
            let both = [newer, by_path(dir.as_fd(), name)];
            (has_capabilities(dir.as_fd(), name), both)
        };
        let none = (false, [Err(Errno::ENODATA); 2]);
        assert_eq!(answers(c"program"), none, "the control");
        give(&path.join("program"));
        let (program, link) = (answers(c"program"), answers(c"link"));
        std::fs::remove_dir_all(&path).expect("goes");
        assert_eq!(program, (true, [Ok(()); 2]));
        assert_eq!(link, none);
    }

    /// cap_net_bind_service+ep, as linux/capability.h lays it out (revision 2).
    fn give(path: &std::path::Path) {
        let words: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let path = CString::new(path.as_os_str().as_encoded_bytes()).expect("no NUL");
        // SAFETY: both strings end with a NUL, and with the value, of which the length is
        // given, they outlive the call, which reads them.
        let answer = unsafe {
            libc::setxattr(
                path.as_ptr(),
                CAPABILITY.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                0,
            )
        };
        Errno::result(answer).expect("setxattr");
    }
}
