//! The other side of `groom-ns prove`: `groom-ns probe …`, started by it outside and in
//! the jail. Each word list is a small program that does one thing and ends.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Gid, execv, getgid, getuid, pipe2, setgroups};

use crate::mount::tree::open_plain;
use crate::sys::mount::{Attributes, move_mount, open_tree, set_private_with};
use crate::sys::process::{Forked, exit_at_once, fork_into, pidfd_send_signal};

use super::broker;
use super::catalogue::Scene;
use super::facts::Facts;
use super::proof::{Outcome, Outside, Proof, shown};
use super::{life, refuse};

/// Any but root's own.
const SOME_GROUP: u32 = 4;

/// For one attempt, in milliseconds; a machine may be emulated.
const PATIENCE: u16 = 30_000;

/// `groom-ns probe WORDS`.
///
/// # Errors
/// For words that `groom-ns prove` doesn't pass, and where the surrounding that is
/// asked for can't be made.
pub fn run(words: &[OsString]) -> Result<()> {
    let text: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    match text.as_slice() {
        ["outside", scene, facts] => attempts(scene, facts, true),
        ["inside", scene, facts] => attempts(scene, facts, false),
        ["surrounded", from, to, ..] => {
            surround(Path::new(from), Path::new(to)).context("make the surrounding")?;
            execute(&words[3..])
        }
        ["without", number, ..] => {
            refuse::without(number).context("install a filter")?;
            execute(&words[2..])
        }
        ["parent", ..] => life::parent(&words[1..]),
        ["hold", lock] => life::hold(Path::new(lock)),
        ["daemon", lock] => life::daemon(Path::new(lock)),
        ["mark", file] => refuse::mark(Path::new(file)),
        ["wait", variable] => broker::wait(variable),
        _ => bail!("this is a part of `groom-ns prove`, and no command of its own"),
    }
}

/// Makes each attempt of a scene in a process of its own, and prints an answer a line.
fn attempts(scene: &str, facts: &str, outside: bool) -> Result<()> {
    let scene = Scene::ALL.iter().find(|known| known.name() == scene);
    let scene = scene.context("an unknown scene")?;
    let facts: Facts = serde_json::from_str(facts).context("read the facts")?;
    let mut output = std::io::stdout().lock();
    for proof in scene.proofs(&facts) {
        writeln!(output, "{} {}", proof.probe, answer(proof, &facts, outside))?;
    }
    Ok(())
}

fn answer(proof: &Proof, facts: &Facts, outside: bool) -> String {
    let attempt = || {
        if outside && proof.outside == Outside::OwnNamespaces {
            own_namespaces()?;
        }
        (proof.attempt)(facts)
    };
    in_child(attempt).unwrap_or_else(|errno| format!("no process: {errno:?}"))
}

/// Runs an attempt in a child, and returns its outcome as it is shown, or the signal
/// that ended it.
fn in_child(attempt: impl FnOnce() -> Outcome) -> Result<String, Errno> {
    let (reads, writes) = pipe2(OFlag::O_CLOEXEC)?;
    let (pid, pidfd) = match fork_into(0)? {
        Forked::Child => {
            drop(reads);
            let _ = fs::File::from(writes).write_all(shown(&attempt()).as_bytes());
            exit_at_once(0)
        }
        Forked::Parent(pid, pidfd) => (pid, pidfd),
    };
    drop(writes);
    let mut ends = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    let hangs = poll(&mut ends, PollTimeout::from(PATIENCE))? == 0;
    if hangs {
        pidfd_send_signal(&pidfd, libc::SIGKILL)?;
    }
    let mut text = String::new();
    let read = fs::File::from(reads).read_to_string(&mut text);
    match waitpid(pid, None)? {
        _ if hangs => Ok("hangs".to_owned()),
        WaitStatus::Signaled(_, signal, _) => Ok(signal.as_str().to_owned()),
        _ => Ok(read.map_or_else(|_| "no text".to_owned(), |_| text)),
    }
}

/// Enters new namespaces with every capability in them (user_namespaces(7)). As in a
/// jail, but for what a jail takes away.
fn own_namespaces() -> Result<(), Errno> {
    let (uid, gid) = (getuid(), getgid());
    unshare(
        CloneFlags::CLONE_NEWUSER
            | CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWNET,
    )?;
    map(&format!("0 {uid} 1"), &format!("0 {gid} 1"))
}

/// The maps of this process's new user namespace.
fn map(uids: &str, gids: &str) -> Result<(), Errno> {
    for (file, text) in [("setgroups", "deny"), ("gid_map", gids), ("uid_map", uids)] {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    }
    Ok(())
}

/// Binds one folder to another, in a mount namespace of its own, and as root takes on a
/// group.
fn surround(from: &Path, to: &Path) -> Result<(), Errno> {
    let (uid, gid) = (getuid(), getgid());
    if uid.is_root() {
        setgroups(&[Gid::from_raw(SOME_GROUP)])?;
        unshare(CloneFlags::CLONE_NEWNS)?;
    } else {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        map(&format!("{uid} {uid} 1"), &format!("{gid} {gid} 1"))?;
    }
    let unchanged = Attributes {
        set: 0,
        idmap: None,
    };
    // Or the host would get the mount too.
    set_private_with(&open_plain(AT_FDCWD, Path::new("/"))?, true, &unchanged)?;
    let tree = open_tree(&open_plain(AT_FDCWD, from)?, false)?;
    move_mount(&tree, &open_plain(AT_FDCWD, to)?)
}

/// execv(3).
fn execute(words: &[OsString]) -> Result<()> {
    let words: Vec<CString> = words
        .iter()
        .map(|word| CString::new(word.clone().into_vec()))
        .collect::<Result<_, _>>()?;
    let program = words.first().context("a command is missing")?;
    let name = OsStr::from_bytes(program.as_bytes())
        .to_string_lossy()
        .into_owned();
    match execv(program, &words) {
        Ok(never) => match never {},
        Err(errno) => Err(errno).context(name),
    }
}
