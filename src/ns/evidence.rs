//! What the command's process hands out for a receipt, in its final state: descriptors of
//! its files in the jail's /proc, which the supervisor reads, and what only the process
//! itself can tell.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, RawFd};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

use super::channel::{Channel, FromJail, ToJail};
use crate::confine::Confined;
use crate::confine::self_check::Tried;
use crate::digest;
use crate::refusal::{Reason, Refusal, shown};
use crate::sys::fd::is_cloexec;

/// What the command's process tells of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evidence {
    /// The descriptors that the command will have.
    pub open: Vec<Open>,
    /// What the self-check tried.
    pub tried: Vec<Tried>,
    /// The filter that was installed.
    pub filter: Option<Filter>,
}

/// A descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Its number.
    pub fd: u32,
    /// What it is, as /proc/PID/fd links to it (proc_pid_fd(5)), printable.
    pub what: String,
    /// Its access mode (open(2)): `read`, `write` or `both`.
    pub access: String,
}

/// A seccomp filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// SHA-256 of its instructions as the kernel got them (`struct sock_filter`), in hex.
    pub sha256: String,
    /// How many they are.
    pub instructions: usize,
}

impl Evidence {
    /// What comes along, in this order.
    pub const FILES: [&str; 10] = [
        "/proc/self/status",
        "/proc/self/limits",
        "/proc/self/mountinfo",
        "/proc/self/ns/user",
        "/proc/self/ns/mnt",
        "/proc/self/ns/pid",
        "/proc/self/ns/net",
        "/proc/self/ns/ipc",
        "/proc/self/ns/uts",
        "/proc/self/ns/cgroup",
    ];
}

/// More would be a leak, and is as bad as all of them.
const MOST_OPEN: usize = 64;

/// Hands everything out, and waits until it was read. All that was opened here is closed
/// again.
///
/// # Errors
/// `receipt`: something can't be opened or read. `setup`: the channel failed.
pub fn hand_out(channel: &Channel, confined: &Confined) -> Result<(), Refusal> {
    let evidence = Evidence {
        open: open_descriptors()?,
        tried: confined.tried().to_vec(),
        filter: confined.filter().map(|program| Filter {
            sha256: digest::of_filter(program),
            instructions: program.len(),
        }),
    };
    let files = Evidence::FILES.iter().map(|path| {
        let file = File::open(path);
        file.map_err(|error| unread(path, errno(error)))
    });
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let handed: Vec<_> = files.iter().map(File::as_fd).collect();
    channel
        .send_with(&FromJail::Confined(evidence), &handed)
        .map_err(|errno| unread("sendmsg", errno))?;
    channel.expect(ToJail::Recorded)
}

/// The descriptors of this process that execve(2) leaves open.
fn open_descriptors() -> Result<Vec<Open>, Refusal> {
    let folder = "/proc/self/fd";
    let failed = |errno| unread(folder, errno);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut numbers: Vec<RawFd> = Vec::new();
    for entry in Dir::open(folder, flags, Mode::empty())
        .map_err(failed)?
        .iter()
    {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_str().ok();
        numbers.extend(name.and_then(|name| name.parse::<RawFd>().ok()));
    }
    numbers.sort_unstable();
    let mut open = Vec::new();
    for fd in numbers {
        open.extend(descriptor(fd)?);
    }
    open.truncate(MOST_OPEN);
    Ok(open)
}

/// None for what is closed on exec, or is closed already: the folder was one.
fn descriptor(number: RawFd) -> Result<Option<Open>, Refusal> {
    let path = format!("/proc/self/fdinfo/{number}");
    match is_cloexec(number) {
        Ok(false) => {}
        Ok(true) | Err(Errno::EBADF) => return Ok(None),
        Err(errno) => return Err(unread(&path, errno)),
    }
    let info = fs::read_to_string(&path).map_err(|error| unread(&path, errno(error)))?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    let flags = OFlag::from_bits_retain(flags.ok_or_else(|| unread(&path, Errno::EBADMSG))?);
    let link = format!("/proc/self/fd/{number}");
    let what = fs::read_link(&link).map_err(|error| unread(&link, errno(error)))?;
    let access = match flags & OFlag::O_ACCMODE {
        OFlag::O_RDONLY => "read",
        OFlag::O_WRONLY => "write",
        _ => "both",
    };
    Ok(Some(Open {
        fd: number.unsigned_abs(),
        what: shown(&what),
        access: access.to_owned(),
    }))
}

fn errno(error: io::Error) -> Errno {
    Errno::try_from(error).unwrap_or(Errno::EIO)
}

fn unread(what: &str, errno: Errno) -> Refusal {
    Refusal::new(Reason::Receipt, "read the jail back")
        .path(Path::new(what))
        .errno(errno)
        .remedy("run it without --receipt, or please report it")
}
