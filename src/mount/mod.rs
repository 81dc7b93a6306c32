//! The jail's file system: a tmpfs with binds on it, which becomes the root.
//!
//! Everything is done by descriptor with the new mount API. Sources are opened
//! by [`tree`], the root is put together by [`root`], and [`verify`] reads back
//! what stands.

pub mod root;
pub mod tree;
pub mod verify;

/// Mount attributes that every mount of the jail gets, but for device nodes.
const NOSUID_NODEV: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
