//! What kind of thing a path names, and on what kind of filesystem it lies.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::stat::{FileStat, SFlag};
use nix::sys::statfs::fstatfs;

use crate::plan::step::{Ids, Inode};

/// The type of an inode (inode(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Dir,
    File,
    Link,
    Socket,
    /// A device, or a FIFO.
    Special,
}

impl What {
    /// From `st_mode`.
    pub(crate) fn of(mode: u32) -> What {
        match SFlag::from_bits_truncate(mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR => What::Dir,
            SFlag::S_IFREG => What::File,
            SFlag::S_IFLNK => What::Link,
            SFlag::S_IFSOCK => What::Socket,
            _ => What::Special,
        }
    }

    /// For a message.
    pub(crate) fn name(self) -> &'static str {
        match self {
            What::Dir => "a folder",
            What::File => "a regular file",
            What::Link => "a symbolic link",
            What::Socket => "a socket",
            What::Special => "a device or FIFO",
        }
    }
}

/// Device and inode number.
pub(crate) fn inode(stat: &FileStat) -> Inode {
    Inode {
        dev: stat.st_dev,
        ino: stat.st_ino,
    }
}

/// Owner and group.
pub(crate) fn owner(stat: &FileStat) -> Ids {
    Ids {
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}

/// Filesystems whose files are the kernel's own knobs and listings, by the type
/// that mountinfo names and the magic number that statfs(2) gives
/// (linux/magic.h, and the filesystems' sources).
const KERNEL_FILESYSTEMS: [(&str, i64); 22] = [
    ("autofs", 0x0187),
    ("binfmt_misc", 0x4249_4e4d),
    ("bpf", 0xcafe_4a11),
    ("cgroup", 0x0027_e0eb),
    ("cgroup2", 0x6367_7270),
    ("configfs", 0x6265_6570),
    ("debugfs", 0x6462_6720),
    ("devpts", 0x1cd1),
    ("efivarfs", 0xde5e_81e4),
    ("fusectl", 0x6573_5543),
    ("mqueue", 0x1980_0202),
    ("nfsd", 0x6e66_7364),
    ("nsfs", 0x6e73_6673),
    ("proc", 0x9fa0),
    ("pstore", 0x6165_676c),
    ("resctrl", 0x0765_5821),
    ("rpc_pipefs", 0x6759_6969),
    ("securityfs", 0x7363_6673),
    ("selinuxfs", 0xf97c_ff8c),
    ("smackfs", 0x4341_5d53),
    ("sysfs", 0x6265_6572),
    ("tracefs", 0x7472_6163),
];

/// No host path of it may be handed in: a device filesystem, though its magic
/// number is tmpfs's.
const DEVTMPFS: &str = "devtmpfs";

/// Not mappable with `MOUNT_ATTR_IDMAP`: EINVAL.
const OVERLAY: (&str, i64) = ("overlay", 0x794c_7630);

/// Whether mountinfo's type names a filesystem of the kernel's own knobs.
pub(crate) fn is_kernel_filesystem(name: &str) -> bool {
    name == DEVTMPFS || KERNEL_FILESYSTEMS.iter().any(|(known, _)| *known == name)
}

/// Whether mountinfo's type names a filesystem that can't be id-mapped.
pub(crate) fn is_unmappable(name: &str) -> bool {
    name == OVERLAY.0
}

/// The filesystem that a descriptor lies on, as far as groom-ns cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filesystem {
    /// Of the kernel's own knobs, with its name.
    Kernel(&'static str),
    /// One that can't be id-mapped, with its name.
    Unmappable(&'static str),
    /// Any other.
    Plain,
}

/// Asks statfs(2).
pub(crate) fn filesystem(fd: impl AsFd) -> Result<Filesystem, Errno> {
    let magic = fstatfs(fd)?.filesystem_type().0;
    if magic == OVERLAY.1 {
        return Ok(Filesystem::Unmappable(OVERLAY.0));
    }
    let kernel = KERNEL_FILESYSTEMS.iter().find(|(_, known)| *known == magic);
    Ok(kernel.map_or(Filesystem::Plain, |(name, _)| Filesystem::Kernel(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_and_temp() {
        let proc = std::fs::File::open("/proc").expect("/proc");
        assert_eq!(filesystem(&proc), Ok(Filesystem::Kernel("proc")));
        let usr = std::fs::File::open("/usr").expect("/usr");
        assert!(!matches!(filesystem(&usr), Ok(Filesystem::Kernel(_))));
    }

    #[test]
    fn names_are_sorted_and_single() {
        assert!(KERNEL_FILESYSTEMS.windows(2).all(|two| two[0].0 < two[1].0));
        assert!(is_kernel_filesystem("cgroup2") && is_kernel_filesystem("devtmpfs"));
        assert!(!is_kernel_filesystem("ext4") && is_unmappable("overlay"));
    }
}
