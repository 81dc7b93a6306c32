//! The mount API by file descriptor (Linux 5.2 to 5.12), which libc and nix
//! don't wrap: open_tree(2), move_mount(2), mount_setattr(2), fsopen(2),
//! fsconfig(2), fsmount(2), pivot_root(2).

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

use nix::Result;
use nix::errno::Errno;

use crate::sabotage::{Mechanism, bits};

/// A detached copy of the mount that `at` lies in, starting at `at`, with all
/// mounts beneath it if `recursive`. The new descriptor is the caller's; closing
/// it before it is attached dissolves the copy.
pub fn open_tree(at: impl AsFd, recursive: bool) -> Result<OwnedFd> {
    let mut flags =
        libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH.cast_unsigned();
    if recursive {
        flags |= libc::AT_RECURSIVE.cast_unsigned();
    }
    // SAFETY: `at` is borrowed for the call, and the empty path is a NUL-terminated literal.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_tree,
            at.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    };
    owned(fd)
}

/// Attaches the detached mount `tree` on the directory or file `on`.
pub fn move_mount(tree: impl AsFd, on: impl AsFd) -> Result<()> {
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both descriptors are borrowed for the call, and both paths are
    // NUL-terminated literals.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            on.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    };
    Errno::result(done).map(drop)
}

/// Attributes of a mount, `MOUNT_ATTR_*`, as mount_setattr(2) takes them.
#[derive(Default)]
pub struct Attributes<'fd> {
    /// Set these.
    pub set: u64,
    /// The user namespace for `MOUNT_ATTR_IDMAP`, which is set if this is.
    pub idmap: Option<std::os::fd::BorrowedFd<'fd>>,
}

/// Sets attributes on the mount at `at`, and on all beneath it if `recursive`,
/// and cuts it (them) off from propagation both ways.
pub fn set_private_with(at: impl AsFd, recursive: bool, attributes: &Attributes) -> Result<()> {
    let mut attr = libc::mount_attr {
        attr_set: attributes.set,
        attr_clr: 0,
        propagation: bits(Mechanism::PrivatePropagation, libc::MS_PRIVATE),
        userns_fd: 0,
    };
    if let Some(userns) = attributes.idmap {
        attr.attr_set |= libc::MOUNT_ATTR_IDMAP;
        // A descriptor is never negative.
        attr.userns_fd = u64::from(userns.as_raw_fd().unsigned_abs());
    }
    let mut flags = libc::AT_EMPTY_PATH;
    if recursive {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: `attr` outlives the call, and its size is passed with it; `at` and
    // the user namespace are borrowed for the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(done).map(drop)
}

/// A configuration context for a new superblock of the filesystem `kind`.
pub fn fsopen(kind: &CStr) -> Result<OwnedFd> {
    // SAFETY: `kind` is NUL-terminated and outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), libc::FSOPEN_CLOEXEC) };
    owned(fd)
}

/// Sets the string option `key` of a configuration context.
pub fn fsconfig_string(context: impl AsFd, key: &CStr, value: &CStr) -> Result<()> {
    // SAFETY: both strings are NUL-terminated and outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_fd().as_raw_fd(),
            libc::FSCONFIG_SET_STRING,
            key.as_ptr(),
            value.as_ptr(),
            0,
        )
    };
    Errno::result(done).map(drop)
}

/// Creates the superblock that a configuration context describes.
pub fn fsconfig_create(context: impl AsFd) -> Result<()> {
    // SAFETY: FSCONFIG_CMD_CREATE takes neither key nor value, so both are null.
    let done = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_fd().as_raw_fd(),
            libc::FSCONFIG_CMD_CREATE,
            ptr::null::<libc::c_char>(),
            ptr::null::<libc::c_char>(),
            0,
        )
    };
    Errno::result(done).map(drop)
}

/// A detached mount of a created superblock, with `MOUNT_ATTR_*` attributes.
pub fn fsmount(context: impl AsFd, attributes: u64) -> Result<OwnedFd> {
    // SAFETY: plain integers; `context` is borrowed for the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_fd().as_raw_fd(),
            libc::FSMOUNT_CLOEXEC,
            attributes,
        )
    };
    owned(fd)
}

/// `pivot_root(".", ".")`: the working directory becomes the root, and the old
/// root is stacked on it, to be detached with `umount2(".", MNT_DETACH)`.
pub fn pivot_root_here() -> Result<()> {
    // SAFETY: both paths are NUL-terminated literals.
    let done = unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) };
    Errno::result(done).map(drop)
}

/// umount2(2) of the working directory's mount, lazily.
pub fn detach_here() -> Result<()> {
    // SAFETY: the path is a NUL-terminated literal.
    let done = unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) };
    Errno::result(done).map(drop)
}

/// Takes ownership of the descriptor that a syscall has just returned.
fn owned(returned: libc::c_long) -> Result<OwnedFd> {
    let fd = Errno::result(returned)?;
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
