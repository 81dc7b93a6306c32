//! Putting the root together and moving into it. Paths are absolute paths in
//! the jail; they are walked from the new root's descriptor, without links.

use std::cell::OnceCell;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{fchdir, symlinkat};

use crate::plan::step::{Access, Inode, Tmpfs};
use crate::refusal::{Reason, Refusal, shown};
use crate::sabotage::{Mechanism, stands};
use crate::sys::mount::{
    Attributes, detach_here, fsconfig_create, fsconfig_string, fsmount, fsopen, move_mount,
    open_tree, pivot_root_here, set_private_with,
};

use super::tree::{inode, open_plain};
use super::{nosuid, nosuid_nodev};

/// The root under construction, attached over the host's `/` in this mount
/// namespace until [`Root::pivot`] moves the process into it.
pub struct Root {
    fd: OwnedFd,
    /// What covers files: the jail's `/dev/null`, once it was needed.
    null: OnceCell<OwnedFd>,
    /// What covers folders: an empty tmpfs, once there is one.
    empty: OnceCell<OwnedFd>,
}

/// A failed call on a path of the jail.
fn refuse(step: &'static str, call: &str, path: &Path, errno: Errno) -> Refusal {
    Refusal::new(Reason::Mount, step)
        .about(format!("{call} {}", shown(path)))
        .errno(errno)
        .remedy(match errno {
            Errno::EPERM | Errno::EACCES => {
                "an outer sandbox forbids mounting: run groom-ns outside of it, or allow it there"
            }
            Errno::ENOSPC => "raise fs.mount-max, or grant fewer paths",
            _ => "this is a bug or an unknown kernel: please report it with `uname -r`",
        })
}

/// Somebody else writes to the clone.
fn changed(path: &Path) -> Refusal {
    Refusal::new(Reason::Path, "the clone changed while the jail was built")
        .path(path)
        .remedy("let nothing else write to it, and start again")
}

/// A path of the jail relative to its root; `.` for the root itself.
fn relative(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(rest) if !rest.as_os_str().is_empty() => rest,
        _ => Path::new("."),
    }
}

impl Root {
    /// Attaches a tmpfs that becomes the root. The namespace's mounts are
    /// cut off from the host's first, since pivot_root(2) wants that and so that
    /// nothing which is mounted there from now on shows up here.
    pub fn attach(tmpfs: &Tmpfs) -> Result<Root, Refusal> {
        let slash = Path::new("/");
        let host = open_plain(nix::fcntl::AT_FDCWD, slash)
            .map_err(|errno| refuse("open the host's root", "openat2", slash, errno))?;
        set_private_with(&host, true, &Attributes::default())
            .map_err(|errno| refuse("make the mounts private", "mount_setattr", slash, errno))?;
        let fd = new_tmpfs(tmpfs, nosuid_nodev())
            .map_err(|(call, errno)| refuse("make the root tmpfs", call, slash, errno))?;
        move_mount(&fd, &host)
            .map_err(|errno| refuse("attach the root tmpfs", "move_mount", slash, errno))?;
        Ok(Root {
            fd,
            null: OnceCell::new(),
            empty: OnceCell::new(),
        })
    }

    /// A directory, mode 0755, on a tmpfs made here.
    pub fn dir(&self, path: &Path) -> Result<(), Refusal> {
        mkdirat(&self.fd, relative(path), Mode::from_bits_truncate(0o755))
            .map_err(|errno| refuse("make a folder", "mkdirat", path, errno))
    }

    /// An empty file, mode 0444, on a tmpfs made here.
    pub fn file(&self, path: &Path) -> Result<(), Refusal> {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        openat(
            &self.fd,
            relative(path),
            flags,
            Mode::from_bits_truncate(0o444),
        )
        .map(drop)
        .map_err(|errno| refuse("make a file", "openat", path, errno))
    }

    /// A symbolic link on a tmpfs made here.
    pub fn symlink(&self, path: &Path, target: &Path) -> Result<(), Refusal> {
        symlinkat(target, &self.fd, relative(path))
            .map_err(|errno| refuse("make a link", "symlinkat", path, errno))
    }

    /// A private tmpfs.
    pub fn tmpfs(&self, path: &Path, tmpfs: &Tmpfs) -> Result<(), Refusal> {
        let tree = new_tmpfs(tmpfs, nosuid_nodev())
            .map_err(|(call, errno)| refuse("make a tmpfs", call, path, errno))?;
        self.put(&tree, path, "attach a tmpfs")
    }

    /// A detached tree, at `path`.
    pub fn put(&self, tree: &OwnedFd, path: &Path, step: &'static str) -> Result<(), Refusal> {
        let on = self.open(path, step)?;
        move_mount(tree, &on).map_err(|errno| refuse(step, "move_mount", path, errno))
    }

    /// What is at `path` already, mounted on itself. It must be `identity`.
    pub fn pin(&self, path: &Path, access: Access, identity: Inode) -> Result<(), Refusal> {
        let step = "hold a folder of the clone in its place";
        // It was there when the policy looked at it.
        let at = open_plain(&self.fd, relative(path)).map_err(|errno| match errno {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP => changed(path).errno(errno),
            errno => refuse(step, "openat2", path, errno),
        })?;
        let found = inode(&at).map_err(|errno| refuse(step, "fstat", path, errno))?;
        if found != identity && stands(Mechanism::PinIdentity) {
            return Err(changed(path));
        }
        let mounted = mount_on_itself(&at, path, access, nosuid_nodev(), step);
        // Nothing can be mounted on what has no name any more.
        mounted.map_err(|refusal| match refusal.errno.as_deref() {
            Some("ENOENT") => changed(path).errno(Errno::ENOENT),
            _ => refusal,
        })
    }

    /// A folder of a kernel file system, mounted on itself read-only.
    pub fn read_only(&self, path: &Path) -> Result<(), Refusal> {
        let step = "make a folder read-only";
        let at = self.open(path, step)?;
        let attributes = nosuid_nodev() | libc::MOUNT_ATTR_NOEXEC;
        mount_on_itself(&at, path, Access::Ro, attributes, step)
    }

    /// The jail's own `/dev/null`, read-only, over a file.
    pub fn mask_file(&self, path: &Path) -> Result<(), Refusal> {
        let step = "cover a file";
        let null = if let Some(null) = self.null.get() {
            null
        } else {
            let null = self.open(Path::new("/dev/null"), step)?;
            self.null.get_or_init(|| null)
        };
        let tree =
            open_tree(null, false).map_err(|errno| refuse(step, "open_tree", path, errno))?;
        self.put(&tree, path, step)
    }

    /// An empty read-only tmpfs over a directory.
    pub fn mask_dir(&self, path: &Path) -> Result<(), Refusal> {
        let step = "cover a folder";
        if let Some(empty) = self.empty.get() {
            let tree =
                open_tree(empty, false).map_err(|errno| refuse(step, "open_tree", path, errno))?;
            return self.put(&tree, path, step);
        }
        let empty = Tmpfs {
            size: "4096".to_owned(),
            inodes: 1,
            mode: 0o555,
        };
        let attributes = nosuid_nodev() | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY;
        let tree = new_tmpfs(&empty, attributes)
            .map_err(|(call, errno)| refuse(step, call, path, errno))?;
        self.put(&tree, path, step)?;
        // Attached now, and the source of the covers that follow.
        let _ = self.empty.set(tree);
        Ok(())
    }

    /// A new instance of devpts.
    pub fn devpts(&self, path: &Path) -> Result<(), Refusal> {
        let options = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];
        let attributes = nosuid() | libc::MOUNT_ATTR_NOEXEC;
        let tree = new_filesystem(c"devpts", &options, attributes)
            .map_err(|(call, errno)| refuse("make a devpts", call, path, errno))?;
        self.put(&tree, path, "attach devpts")
    }

    /// A fresh procfs of this process's pid namespace.
    pub fn proc(&self, path: &Path) -> Result<(), Refusal> {
        let attributes = nosuid_nodev() | libc::MOUNT_ATTR_NOEXEC;
        let tree = new_filesystem(c"proc", &[], attributes).map_err(|(call, errno)| {
            let refusal = Refusal::new(Reason::Proc, "mount a fresh /proc")
                .about(call)
                .errno(errno);
            // mount_too_revealing() in fs/namespace.c: a new procfs must not show
            // what is covered in every one that is visible here.
            refusal.remedy(if call == "fsmount" && errno == Errno::EPERM {
                "the /proc here has covers, as in an unprivileged container: run it with \
                 `--security-opt systempaths=unconfined`, or run groom-ns outside the container"
            } else {
                "an outer sandbox denies it, or the kernel has no procfs for a new pid namespace"
            })
        })?;
        self.put(&tree, path, "attach /proc")
    }

    /// Writes 0 to `user.max_user_namespaces` of this process's user namespace,
    /// through the jail's own procfs.
    pub fn no_user_namespaces(&self) -> Result<(), Refusal> {
        let path = Path::new("/proc/sys/user/max_user_namespaces");
        let step = "forbid nested user namespaces";
        let fd = openat(
            &self.fd,
            relative(path),
            OFlag::O_WRONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(|errno| refuse(step, "openat", path, errno))?;
        nix::unistd::write(&fd, b"0")
            .map(drop)
            .map_err(|errno| refuse(step, "write", path, errno))
    }

    /// A tmpfs made here becomes read-only; what is mounted beneath it doesn't.
    pub fn seal(&self, path: &Path) -> Result<(), Refusal> {
        let at = self.open(path, "seal a tmpfs")?;
        let attributes = Attributes {
            set: libc::MOUNT_ATTR_RDONLY,
            idmap: None,
        };
        set_private_with(&at, false, &attributes)
            .map_err(|errno| refuse("seal a tmpfs", "mount_setattr", path, errno))
    }

    /// Moves this process into the root and detaches the host's.
    ///
    /// `pivot_root(".", ".")` stacks the old root on the new one, where the
    /// working directory still finds it (pivot_root(2), "pivot_root(".", ".")").
    pub fn pivot(&self) -> Result<(), Refusal> {
        let slash = Path::new("/");
        let step = "move into the new root";
        fchdir(&self.fd).map_err(|errno| refuse(step, "fchdir", slash, errno))?;
        pivot_root_here().map_err(|errno| refuse(step, "pivot_root", slash, errno))?;
        if stands(Mechanism::DetachedOldRoot) {
            detach_here().map_err(|errno| refuse(step, "umount2", slash, errno))?;
        }
        nix::unistd::chdir(slash).map_err(|errno| refuse(step, "chdir", slash, errno))
    }

    fn open(&self, path: &Path, step: &'static str) -> Result<OwnedFd, Refusal> {
        open_plain(&self.fd, relative(path)).map_err(|errno| refuse(step, "openat2", path, errno))
    }
}

/// Mounts what is open at `at` on itself, with what is mounted beneath it.
fn mount_on_itself(
    at: &OwnedFd,
    path: &Path,
    access: Access,
    attributes: u64,
    step: &'static str,
) -> Result<(), Refusal> {
    let tree = open_tree(at, true).map_err(|errno| refuse(step, "open_tree", path, errno))?;
    let set = match access {
        Access::Ro => attributes | libc::MOUNT_ATTR_RDONLY,
        Access::Rw => attributes,
    };
    set_private_with(&tree, true, &Attributes { set, idmap: None })
        .map_err(|errno| refuse(step, "mount_setattr", path, errno))?;
    move_mount(&tree, at).map_err(|errno| refuse(step, "move_mount", path, errno))
}

/// A detached tmpfs; the error names the call.
fn new_tmpfs(tmpfs: &Tmpfs, attributes: u64) -> Result<OwnedFd, (&'static str, Errno)> {
    let text = |value: String| CString::new(value).map_err(|_| ("fsconfig", Errno::EINVAL));
    let size = text(tmpfs.size.clone())?;
    let inodes = text(tmpfs.inodes.to_string())?;
    let mode = text(format!("{:o}", tmpfs.mode))?;
    let options = [
        (c"size", size.as_c_str()),
        (c"nr_inodes", &inodes),
        (c"mode", &mode),
    ];
    new_filesystem(c"tmpfs", &options, attributes)
}

/// A detached mount of a new superblock; the error names the call.
fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> Result<OwnedFd, (&'static str, Errno)> {
    let context = fsopen(kind).map_err(|errno| ("fsopen", errno))?;
    for (key, value) in options {
        fsconfig_string(&context, key, value).map_err(|errno| ("fsconfig", errno))?;
    }
    fsconfig_create(&context).map_err(|errno| ("fsconfig", errno))?;
    fsmount(context.as_fd(), attributes).map_err(|errno| ("fsmount", errno))
}
