//! Promise 2: files.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, lstat, umask};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{ftruncate, linkat};

use crate::prove::facts::Facts;
use crate::prove::proof::{Denial, Outcome};
use crate::{host, plan, sys};

fn read(path: &Path) -> Outcome {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    Ok(open(path, flags, Mode::empty()).map(drop)?)
}

/// Makes an unnamed file (open(2), `O_TMPFILE`), of which nothing stays.
fn write_in(folder: &Path) -> Outcome {
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    Ok(open(folder, flags, Mode::S_IRUSR).map(drop)?)
}

fn open_to_write(path: &Path) -> Outcome {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    Ok(open(path, flags, Mode::empty()).map(drop)?)
}

pub(in crate::prove) fn read_beside_the_clone(facts: &Facts) -> Outcome {
    read(&facts.secret())
}

/// Through the root and the working directory of every process that can be seen.
pub(in crate::prove) fn read_through_proc(facts: &Facts) -> Outcome {
    let secret = facts.secret();
    let mut tried = 0;
    for process in std::fs::read_dir("/proc")?.flatten() {
        for link in ["root", "cwd"] {
            // From a working directory the ground is some steps up.
            let start = process.path().join(link);
            for up in ["", "..", "../..", "../../..", "../../../.."] {
                let from = start.join(up);
                if from.symlink_metadata().is_ok() {
                    tried += 1;
                    let tail = secret.strip_prefix("/").unwrap_or(&secret);
                    if read(&from.join(tail)).is_ok() || read(&from.join("secret")).is_ok() {
                        return Ok(());
                    }
                }
            }
        }
    }
    if tried == 0 {
        return Err(Denial::says("no process"));
    }
    Err(Denial::says("absent"))
}

pub(in crate::prove) fn read_shadow(_: &Facts) -> Outcome {
    read(Path::new("/etc/shadow"))
}

/// A file that every mode bit lets everybody read, and that no mount hides: only
/// landlock can. Outside it is one in the ground.
pub(in crate::prove) fn read_what_only_landlock_denies(facts: &Facts) -> Outcome {
    let inside = Path::new(plan::CANARY);
    if inside.symlink_metadata().is_ok() {
        read(inside)
    } else {
        read(&facts.secret())
    }
}

pub(in crate::prove) fn write_clone(facts: &Facts) -> Outcome {
    write_in(&facts.clone_dir())
}

pub(in crate::prove) fn truncate_in_clone(facts: &Facts) -> Outcome {
    Ok(nix::unistd::truncate(&facts.clone_dir().join("file"), 1)?)
}

pub(in crate::prove) fn chmod_in_clone(facts: &Facts) -> Outcome {
    Ok(chmod(&facts.clone_dir().join("file"), Mode::S_IRWXU)?)
}

fn chmod(path: &Path, mode: Mode) -> nix::Result<()> {
    fchmodat(AT_FDCWD, path, mode, FchmodatFlags::FollowSymlink)
}

pub(in crate::prove) fn write_given(facts: &Facts) -> Outcome {
    write_in(&facts.given())
}

/// Beneath a mount that lies in a given folder.
pub(in crate::prove) fn write_beneath_a_submount(facts: &Facts) -> Outcome {
    let folder = facts.given().join("mounted");
    // Made there, so that its absence isn't taken for a denial.
    lstat(&folder.join("file"))?;
    write_in(&folder)
}

pub(in crate::prove) fn write_usr(_: &Facts) -> Outcome {
    write_in(Path::new("/usr"))
}

/// A folder of the root itself: inside, the sealed tmpfs.
pub(in crate::prove) fn write_root(_: &Facts) -> Outcome {
    write_in(Path::new("/"))
}

/// A set-user-id file would run as its owner on the host.
pub(in crate::prove) fn leave_a_setuid_file(facts: &Facts) -> Outcome {
    umask(Mode::empty());
    let path = facts.out_dir().join("setuid");
    let made = File::options()
        .write(true)
        .create_new(true)
        .mode(0o4755)
        .open(&path);
    let found = lstat(&path);
    let _ = std::fs::remove_file(&path);
    made?;
    if found?.st_mode & libc::S_ISUID == 0 {
        return Err(Denial::says("dropped"));
    }
    Ok(())
}

/// The flags that keep such a file from working where it is.
pub(in crate::prove) fn usr_without_nosuid(_: &Facts) -> Outcome {
    lacks(Path::new("/usr"), FsFlags::ST_NOSUID, "nosuid")
}

pub(in crate::prove) fn usr_without_nodev(_: &Facts) -> Outcome {
    lacks(Path::new("/usr"), FsFlags::ST_NODEV, "nodev")
}

pub(in crate::prove) fn writable_proc_sys(_: &Facts) -> Outcome {
    lacks(Path::new("/proc/sys"), FsFlags::ST_RDONLY, "read-only")
}

fn lacks(path: &Path, flag: FsFlags, name: &str) -> Outcome {
    if statvfs(path)?.flags().contains(flag) {
        return Err(Denial::says(name));
    }
    Ok(())
}

/// A device of the host beyond the harmless six.
pub(in crate::prove) fn find_a_device(_: &Facts) -> Outcome {
    let names = [
        "console",
        "kmsg",
        "mem",
        "fuse",
        "net/tun",
        "loop-control",
        "kvm",
        "uinput",
    ];
    let mut missing = names
        .iter()
        .map(|name| lstat(&Path::new("/dev").join(name)));
    if missing.any(|found| found.is_ok()) {
        return Ok(());
    }
    Err(Denial::Errno(Errno::ENOENT))
}

/// Where the kernel's devices, and on some hosts its cgroups, are set.
pub(in crate::prove) fn find_sysfs(_: &Facts) -> Outcome {
    Ok(lstat("/sys/kernel").map(drop)?)
}

/// The kernel's own listings: memory, symbols, keys, timers.
pub(in crate::prove) fn read_the_kernels_listings(_: &Facts) -> Outcome {
    let mut covered = 0;
    for name in host::MASKED_FILES {
        match std::fs::metadata(Path::new("/proc").join(name)) {
            Ok(found) if found.file_type().is_char_device() => covered += 1,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Denial::says(if covered == 0 {
        "absent"
    } else {
        "covered"
    }))
}

/// A descriptor that whoever started it left open: a folder of the host.
pub(in crate::prove) fn use_a_leaked_descriptor(facts: &Facts) -> Outcome {
    read(&PathBuf::from(format!(
        "/proc/self/fd/{}/secret",
        facts.leaked
    )))
}

/// Standard input is a regular file of the host's, opened for both.
pub(in crate::prove) fn truncate_standard_input(_: &Facts) -> Outcome {
    Ok(ftruncate(sys::process::stdin(), 0)?)
}

/// The very program that runs, as in CVE-2019-5736. It can't be opened for writing while
/// it does (ETXTBSY), so its mode is what is changed, to what it is.
pub(in crate::prove) fn chmod_own_program(facts: &Facts) -> Outcome {
    Ok(chmod(&facts.program(), Mode::from_bits_truncate(0o755))?)
}

pub(in crate::prove) fn write_git_config(facts: &Facts) -> Outcome {
    open_to_write(&facts.clone_dir().join(".git/config"))
}

pub(in crate::prove) fn make_a_hook(facts: &Facts) -> Outcome {
    write_in(&facts.clone_dir().join(".git/hooks"))
}

pub(in crate::prove) fn write_nested_git(facts: &Facts) -> Outcome {
    open_to_write(&facts.clone_dir().join("nested/inner/.git/config"))
}

/// There and back, where it can be done.
fn rename(from: &Path) -> Outcome {
    let to = from.with_extension("moved");
    std::fs::rename(from, &to)?;
    Ok(std::fs::rename(&to, from)?)
}

pub(in crate::prove) fn move_git_away(facts: &Facts) -> Outcome {
    rename(&facts.clone_dir().join(".git"))
}

/// Then another could be put in its place, with another `.git` in it.
pub(in crate::prove) fn move_a_parent_of_git_away(facts: &Facts) -> Outcome {
    rename(&facts.clone_dir().join("nested"))
}

/// Another name for the file, in the worktree, would not be covered.
pub(in crate::prove) fn link_git_config_into_the_worktree(facts: &Facts) -> Outcome {
    let (from, to) = (
        facts.clone_dir().join(".git/config"),
        facts.clone_dir().join("linked"),
    );
    linkat(AT_FDCWD, &from, AT_FDCWD, &to, AtFlags::empty())?;
    Ok(std::fs::remove_file(&to)?)
}
