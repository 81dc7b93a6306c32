//! Facts about this host, read-only: what every run needs to know, and no more,
//! because each fact costs a syscall of the start-up time.

mod groups;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, readlinkat};
use nix::sys::resource::{Resource as Rlimit, getrlimit};
use nix::sys::stat::lstat;
use nix::unistd::{AccessFlags, faccessat, getegid, geteuid, getgid, getgroups, getuid};

use crate::plan::step::{Ids, Inode, Route};
use crate::policy::kinds::What;
use crate::refusal::{Reason, Refusal};

/// The oldest kernel that groom-ns runs on (landlock ABI 2, mount_setattr, openat2).
pub const KERNEL_FLOOR: (u32, u32) = (5, 19);

/// What is known about this host before anything is judged. Every field can be
/// set by hand, so that plans can be made of made-up facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The caller's ids; real and effective ones are the same.
    pub ids: Ids,
    /// The caller's supplementary groups, as getgroups(2) lists them.
    pub groups: Vec<u32>,
    /// Whether that is root, which decides how the jail is built.
    pub route: Route,
    /// The kernel's release (uname(2)).
    pub kernel: String,
    /// The landlock ABI, or why there is none.
    pub landlock: Result<u32, Errno>,
    /// `/usr` and `/etc`, then those of `/bin`, `/sbin`, `/lib*` that are there.
    pub system: Vec<SystemDir>,
    /// What of `/proc` is there and to be masked in the jail.
    pub masks: Masks,
    /// What the caller should be told, a line each.
    pub warnings: Vec<String>,
}

/// A folder of the system that the jail shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemDir {
    /// Its absolute path.
    pub path: PathBuf,
    /// What lies there.
    pub shape: SystemShape,
}

/// How a system folder is laid out on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemShape {
    /// A symbolic link with this text, as `/bin` on merged-usr hosts.
    Symlink(PathBuf),
    /// A directory.
    Dir {
        /// Device and inode number.
        identity: Inode,
        /// Owner and group.
        owner: Ids,
    },
}

/// Names beneath `/proc` that exist here and tell or change too much of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// Files.
    pub files: Vec<PathBuf>,
    /// Directories.
    pub dirs: Vec<PathBuf>,
}

/// Kernel memory, addresses, keys and timers of the whole host, and the trigger
/// that reboots it. Most belong to root and are closed to the command anyway;
/// a cover doesn't depend on a mode.
pub const MASKED_FILES: [&str; 14] = [
    "iomem",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "sched_debug",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
];

/// Hardware: not of the jail, some of it writable.
const MASKED_DIRS: [&str; 3] = ["bus", "irq", "scsi"];

/// Must be directories.
const SYSTEM_REQUIRED: [&str; 2] = ["/usr", "/etc"];
/// As they are, or absent.
const SYSTEM_OPTIONAL: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

impl Host {
    /// Looks at this host. `landlock` asks the kernel for its landlock ABI.
    ///
    /// # Errors
    /// `identity` for a set-user-id start, `kernel` below the floor, `limits` where
    /// cores can't be kept from the host's handler, `path` where
    /// `/usr` or `/etc` isn't a directory, `proc` where `/proc` isn't this process's.
    pub fn look(landlock: impl FnOnce() -> Result<u32, Errno>) -> Result<Host, Refusal> {
        let ids = caller()?;
        let kernel = kernel()?;
        cores_can_be_stopped()?;
        let groups = getgroups()
            .map_err(|errno| {
                Refusal::new(Reason::Identity, "read the supplementary groups")
                    .about("getgroups")
                    .errno(errno)
            })?
            .iter()
            .map(|gid| gid.as_raw())
            .collect::<Vec<u32>>();
        let route = if ids.uid == 0 {
            Route::Root
        } else {
            Route::User
        };
        // Root's groups are dropped, so there is nothing to warn of.
        let warnings = match route {
            Route::Root => Vec::new(),
            Route::User => groups::warning(&groups, ids.gid).into_iter().collect(),
        };
        Ok(Host {
            ids,
            groups,
            route,
            kernel,
            landlock: landlock(),
            system: system()?,
            masks: masks()?,
            warnings,
        })
    }
}

/// The caller's ids.
///
/// # Errors
/// `identity` where effective ids differ: groom-ns isn't written to be set-user-id, and
/// would act for its owner on the words of a stranger.
pub fn caller() -> Result<Ids, Refusal> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    if geteuid().as_raw() != uid || getegid().as_raw() != gid {
        return Err(Refusal::new(Reason::Identity, "read the caller's ids")
            .about("real and effective ids differ")
            .remedy(
                "remove the set-user-id or set-group-id bit from groom-ns, or start it with sudo",
            ));
    }
    Ok(Ids { uid, gid })
}

pub(crate) fn kernel() -> Result<String, Refusal> {
    let refusal = || Refusal::new(Reason::Kernel, "read the kernel's release");
    let uts = nix::sys::utsname::uname().map_err(|errno| refusal().about("uname").errno(errno))?;
    let release = uts.release().to_string_lossy().into_owned();
    if at_least_floor(&release) {
        return Ok(release);
    }
    let (major, minor) = KERNEL_FLOOR;
    Err(refusal()
        .path(&release)
        .remedy(format!("groom-ns needs Linux {major}.{minor} or newer")))
}

/// A core_pattern that starts with `|` names a program that the kernel runs on the
/// host, as root, for every crash, but for a process whose limit is exactly 1
/// (core(5); measured on 6.18: a limit of 0 doesn't stop it). Where the caller's
/// hard limit is 0 it can't become 1.
pub(crate) fn cores_can_be_stopped() -> Result<(), Refusal> {
    let refusal = || Refusal::new(Reason::Limits, "keep crashes from the host's core handler");
    let (_, hard) = getrlimit(Rlimit::RLIMIT_CORE)
        .map_err(|errno| refusal().about("getrlimit(RLIMIT_CORE)").errno(errno))?;
    if hard > 0 {
        return Ok(());
    }
    let pattern = std::fs::read("/proc/sys/kernel/core_pattern").map_err(|error| {
        refusal()
            .about("/proc/sys/kernel/core_pattern")
            .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
    })?;
    if !pattern.starts_with(b"|") {
        return Ok(());
    }
    Err(refusal()
        .about("the hard RLIMIT_CORE is 0, and kernel.core_pattern is a pipe")
        .remedy(
            "raise the hard limit to 1 or more before the start (root: `ulimit -Hc unlimited`)",
        ))
}

fn at_least_floor(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= KERNEL_FLOOR,
        _ => false,
    }
}

pub(crate) fn system() -> Result<Vec<SystemDir>, Refusal> {
    let refusal = |path: &str| Refusal::new(Reason::Path, "look at a system folder").path(path);
    let mut found = Vec::with_capacity(SYSTEM_REQUIRED.len() + SYSTEM_OPTIONAL.len());
    for path in SYSTEM_REQUIRED {
        match system_shape(path).map_err(|errno| refusal(path).errno(errno))? {
            Some(shape @ SystemShape::Dir { .. }) => found.push(SystemDir {
                path: path.into(),
                shape,
            }),
            _ => return Err(refusal(path).remedy("the jail needs it as a directory")),
        }
    }
    for path in SYSTEM_OPTIONAL {
        if let Some(shape) = system_shape(path).map_err(|errno| refusal(path).errno(errno))? {
            found.push(SystemDir {
                path: path.into(),
                shape,
            });
        }
    }
    Ok(found)
}

fn system_shape(path: &str) -> Result<Option<SystemShape>, Errno> {
    let stat = match lstat(path) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    match What::of(stat.st_mode) {
        What::Link => Ok(Some(SystemShape::Symlink(
            readlinkat(AT_FDCWD, path)?.into(),
        ))),
        What::Dir => Ok(Some(SystemShape::Dir {
            identity: Inode {
                dev: stat.st_dev,
                ino: stat.st_ino,
            },
            owner: Ids {
                uid: stat.st_uid,
                gid: stat.st_gid,
            },
        })),
        _ => Err(Errno::ENOTDIR),
    }
}

pub(crate) fn masks() -> Result<Masks, Refusal> {
    let proc = File::open("/proc").map_err(|error| {
        Refusal::new(Reason::Proc, "look at /proc")
            .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
            .remedy("mount /proc")
    })?;
    is_own(readlinkat(&proc, "self"))?;
    Ok(Masks {
        files: present(&proc, &MASKED_FILES)?,
        dirs: present(&proc, &MASKED_DIRS)?,
    })
}

/// The names that are there; one that can't be looked for would be left uncovered.
fn present(proc: &File, names: &[&str]) -> Result<Vec<PathBuf>, Refusal> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match faccessat(proc, *name, AccessFlags::F_OK, AtFlags::empty()) {
            Ok(()) => found.push(PathBuf::from(name)),
            Err(Errno::ENOENT) => {}
            Err(errno) => {
                return Err(Refusal::new(Reason::Proc, "look at /proc")
                    .path(Path::new("/proc").join(name))
                    .errno(errno)
                    .remedy("an outer sandbox denies it: allow it there"));
            }
        }
    }
    Ok(found)
}

/// An empty /proc is a folder like any other; the masks would silently be none.
/// That of another pid namespace (`unshare --pid` alone) shows no or another
/// process under the number that this one has for itself and its children.
fn is_own(link: Result<OsString, Errno>) -> Result<(), Refusal> {
    let refusal = || Refusal::new(Reason::Proc, "look at /proc").path("/proc/self");
    let text = link.map_err(|errno| refusal().errno(errno).remedy("mount /proc"))?;
    if text.to_str() == Some(&std::process::id().to_string()) {
        return Ok(());
    }
    Err(refusal().remedy(
        "it is the /proc of another pid namespace: mount one of this (`unshare --mount-proc`)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host() {
        let host = Host::look(|| Ok(3)).expect("facts");
        assert_eq!(host.landlock, Ok(3));
        assert_eq!(host.system[0].path, Path::new("/usr"));
        assert!(matches!(host.system[1].shape, SystemShape::Dir { .. }));
        assert!(host.masks.files.contains(&PathBuf::from("kmsg")));
        assert!(host.masks.dirs.contains(&PathBuf::from("irq")));
    }

    #[test]
    fn procs() {
        let own = std::process::id().to_string();
        assert_eq!(is_own(Ok(own.clone().into())), Ok(()));
        for link in [
            Ok("".into()),
            Ok(format!("{own}0").into()),
            Err(Errno::ENOENT),
        ] {
            assert_eq!(is_own(link).expect_err("refused").reason, Reason::Proc);
        }
    }

    #[test]
    fn kernel_floor() {
        for (release, enough) in [
            ("5.18.19", false),
            ("5.19.0-rc1", true),
            ("5.19", true),
            ("6.1.0-13-amd64", true),
            ("4.20.0", false),
            ("10.0", true),
            ("5.4.0-1103-aws", false),
            ("", false),
            ("five", false),
        ] {
            assert_eq!(at_least_floor(release), enough, "{release}");
        }
    }
}
