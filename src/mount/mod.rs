//! The jail's file system: a tmpfs with binds on it, which becomes the root.
//!
//! Everything is done by descriptor with the new mount API. Sources are opened
//! by [`tree`], the root is put together by [`root`], and [`verify`] reads back
//! what stands.

pub mod root;
pub mod tree;
pub mod verify;

use crate::sabotage::{Mechanism, bits};

/// Mount attributes that every mount of the jail gets, but for device nodes.
fn nosuid_nodev() -> u64 {
    nosuid() | bits(Mechanism::NodevMounts, libc::MOUNT_ATTR_NODEV)
}

/// What device nodes get of them.
fn nosuid() -> u64 {
    bits(Mechanism::NosuidMounts, libc::MOUNT_ATTR_NOSUID)
}
