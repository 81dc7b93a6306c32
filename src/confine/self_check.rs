//! In its final state, and before it executes, the process tries a handful of
//! forbidden things. Each must fail with the one errno that proves why; another
//! errno means that something else than the jail stopped it this time.

use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::get_no_new_privs;
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

use super::caps;
use crate::plan::command::Check;
use crate::refusal::{Reason, Refusal, shown};
use crate::sys;

/// One check that came out as it must.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Which, as the plan names it.
    pub check: String,
    /// The family or path that it was tried with; may be empty.
    pub about: String,
    /// The errno's name; `none` where nothing had to fail.
    pub answer: String,
}

/// Runs every check, in order, and says how each came out. What one of them opens is
/// closed again.
///
/// # Errors
/// `Reason::Selfcheck`: one was allowed, or failed with another errno than the
/// one at its variant of [`Check`]. The process must exit: it may hold what it
/// should not.
pub fn run(checks: &[Check]) -> Result<Vec<Tried>, Refusal> {
    let tried = |check: &Check| {
        let answer = answer(check)?.map_or("none".to_owned(), |errno| format!("{errno:?}"));
        let (name, about) = named(check);
        Ok(Tried {
            check: name.to_owned(),
            about,
            answer,
        })
    };
    checks.iter().map(tried).collect()
}

/// The calls that the filter denies meanwhile, by their numbers, in order.
pub fn denied(checks: &[Check]) -> impl Iterator<Item = libc::c_long> {
    checks.iter().filter_map(|check| match check {
        Check::Socket { .. } => Some(libc::SYS_socket),
        Check::UserNamespace => Some(libc::SYS_unshare),
        Check::NoPrivileges | Check::Canary { .. } | Check::ReadOnly { .. } => None,
    })
}

/// A check's name, and what it is tried with.
fn named(check: &Check) -> (&'static str, String) {
    match check {
        Check::NoPrivileges => ("no-privileges", String::new()),
        Check::Socket { family, .. } => ("socket", (*family).to_owned()),
        Check::UserNamespace => ("user-namespace", String::new()),
        Check::Canary { path } => ("canary", shown(path)),
        Check::ReadOnly { path } => ("read-only", shown(path)),
    }
}

fn answer(check: &Check) -> Result<Option<Errno>, Refusal> {
    match check {
        Check::NoPrivileges => return no_privileges().map(|()| None),
        Check::Socket { family, number } => must_fail(
            &format!("socket({family})"),
            sys::socket::open(*number, libc::SOCK_STREAM).err(),
            Errno::EAFNOSUPPORT,
        ),
        Check::UserNamespace => must_fail(
            "unshare(CLONE_NEWUSER)",
            unshare(CloneFlags::CLONE_NEWUSER).err(),
            Errno::EPERM,
        ),
        Check::Canary { path } => must_fail(
            &about("open", path),
            open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).err(),
            Errno::EACCES,
        ),
        // An unnamed file: even where it is allowed, nothing is left behind.
        Check::ReadOnly { path } => must_fail(
            &about("open with O_TMPFILE", path),
            open(
                path,
                OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC,
                Mode::S_IRUSR,
            )
            .err(),
            Errno::EROFS,
        ),
    }
    .map(Some)
}

fn about(call: &str, path: &Path) -> String {
    format!("{call} {}", shown(path))
}

fn must_fail(call: &str, failure: Option<Errno>, expected: Errno) -> Result<Errno, Refusal> {
    match failure {
        Some(errno) if errno == expected => Ok(errno),
        Some(errno) => Err(refusal(&format!("{call} must be {expected:?}")).errno(errno)),
        None => Err(refusal(&format!(
            "{call} was allowed, must be {expected:?}"
        ))),
    }
}

fn no_privileges() -> Result<(), Refusal> {
    match get_no_new_privs() {
        Ok(true) => {}
        Ok(false) => return Err(refusal("no_new_privs isn't set")),
        Err(errno) => return Err(refusal("prctl(PR_GET_NO_NEW_PRIVS)").errno(errno)),
    }
    match caps::remaining() {
        Ok(None) => Ok(()),
        Ok(Some(held)) => Err(refusal(&format!("{held} left"))),
        Err(answer) => Err(refusal(&answer)),
    }
}

fn refusal(subject: &str) -> Refusal {
    Refusal::new(Reason::Selfcheck, "try what the jail must deny")
        .about(subject)
        .remedy("the command has not run; a bug in groom-ns or a changed kernel, please report it")
}
