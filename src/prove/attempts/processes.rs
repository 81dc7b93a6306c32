//! Promise 4: processes, and what they share with others.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::kill;
use nix::unistd::{Pid, gethostname, getsid};

use crate::prove::facts::Facts;
use crate::prove::proof::{Denial, Outcome};
use crate::sys;

/// A field of /proc/PID/status (proc_pid_status(5)).
pub(in crate::prove) fn status_field(pid: i32, field: &str) -> io::Result<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let found = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    match found {
        Some(value) => Ok(value.trim().to_owned()),
        None => Err(Errno::ENODATA.into()),
    }
}

/// Finds the process that runs the proofs by its number and its arguments, which every
/// id may read: in another pid namespace the number may be another's.
pub(in crate::prove) fn see_the_launcher(facts: &Facts) -> Outcome {
    let arguments = std::fs::read(format!("/proc/{}/cmdline", facts.launcher));
    match arguments {
        Ok(arguments) if arguments == facts.arguments => Ok(()),
        Ok(_) => Err(Denial::says("absent")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Denial::says("absent")),
        Err(error) => Err(error.into()),
    }
}

pub(in crate::prove) fn signal_the_launcher(facts: &Facts) -> Outcome {
    let answer = kill(Pid::from_raw(facts.launcher), None);
    // It must be the launcher that was there to be signalled.
    see_the_launcher(facts)?;
    Ok(answer?)
}

/// Pid 1 of the jail, or outside, where the launcher can be seen, the launcher.
pub(in crate::prove) fn first_process(facts: &Facts) -> i32 {
    match see_the_launcher(facts) {
        Ok(()) => facts.launcher,
        Err(_) => 1,
    }
}

/// Its environment: of a process that isn't dumpable nobody of the same user may read it.
pub(in crate::prove) fn read_pid_1(facts: &Facts) -> Outcome {
    Ok(std::fs::read(format!("/proc/{}/environ", first_process(facts))).map(drop)?)
}

/// Looks for the needle in the environment and the arguments of every process.
pub(in crate::prove) fn find_the_callers_environment(facts: &Facts) -> Outcome {
    let needle = facts.needle();
    find_in_processes(|text| memchr::memmem::find(text, &needle).is_some())
}

/// Looks through the environment and the arguments of every process.
pub(super) fn find_in_processes(is_in: impl Fn(&[u8]) -> bool) -> Outcome {
    for process in std::fs::read_dir("/proc")?.flatten() {
        let name = process.file_name();
        if !name.as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        for file in ["environ", "cmdline"] {
            let text = std::fs::read(process.path().join(file)).unwrap_or_default();
            if is_in(&text) {
                return Ok(());
            }
        }
    }
    Err(Denial::says("absent"))
}

pub(in crate::prove) fn share_the_session(facts: &Facts) -> Outcome {
    // One that is led from outside of this pid namespace is shown as 0, and two pid
    // namespaces may each have a session 1.
    let session = getsid(None)?.as_raw();
    if session == 0 || (session == facts.session && share(facts, "pid").is_ok()) {
        return Ok(());
    }
    Err(Denial::says("own"))
}

/// A core file, or a run of the host's handler.
pub(in crate::prove) fn dump_core(_: &Facts) -> Outcome {
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    if hard <= 1 {
        return Err(Denial::says(hard.to_string()));
    }
    Ok(())
}

fn share(facts: &Facts, kind: &str) -> Outcome {
    let own = std::fs::metadata(format!("/proc/self/ns/{kind}"))?.ino();
    match facts.namespaces.get(kind) {
        Some(hosts) if *hosts == own => Ok(()),
        Some(_) => Err(Denial::says("own")),
        None => Err(Denial::says("unknown")),
    }
}

pub(in crate::prove) fn share_user(facts: &Facts) -> Outcome {
    share(facts, "user")
}

pub(in crate::prove) fn share_mnt(facts: &Facts) -> Outcome {
    share(facts, "mnt")
}

pub(in crate::prove) fn share_pid(facts: &Facts) -> Outcome {
    share(facts, "pid")
}

pub(in crate::prove) fn share_net(facts: &Facts) -> Outcome {
    share(facts, "net")
}

pub(in crate::prove) fn share_ipc(facts: &Facts) -> Outcome {
    share(facts, "ipc")
}

pub(in crate::prove) fn share_uts(facts: &Facts) -> Outcome {
    share(facts, "uts")
}

pub(in crate::prove) fn share_cgroup(facts: &Facts) -> Outcome {
    share(facts, "cgroup")
}

pub(in crate::prove) fn see_the_hosts_name(facts: &Facts) -> Outcome {
    if gethostname()?.as_bytes() == facts.hostname.as_bytes() {
        return Ok(());
    }
    Err(Denial::says("another"))
}

pub(in crate::prove) fn find_the_hosts_shared_memory(facts: &Facts) -> Outcome {
    Ok(sys::ipc::look(facts.shared_memory)?)
}

pub(in crate::prove) fn find_a_file_of_the_hosts_dev_shm(facts: &Facts) -> Outcome {
    Ok(std::fs::metadata(&facts.in_dev_shm).map(drop)?)
}
