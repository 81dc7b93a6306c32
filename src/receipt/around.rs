//! What surrounds a jail in a receipt: who started it, what was executed, which ways out
//! were asked for, and what it all took.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::{Gid, getegid, geteuid, getgroups};

use super::format::{Command, How, StartedBy, Usage};
use crate::clock::milliseconds;
use crate::digest;
use crate::plan::BROKER_SOCKET;
use crate::plan::step::{Build, Plan, Route};
use crate::refusal::shown;

/// Scheme and host of a URL, without its path: gateways take tokens there, and a receipt is
/// for everybody.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + "://".len());
    let path = url.get(host..).and_then(|rest| rest.find('/'));
    let end = path.map_or(url.len(), |path| host + path);
    url.get(..end).unwrap_or_default()
}

/// Whose socket stands where a run's own broker would listen.
pub(super) fn uds(plan: &Plan) -> Option<String> {
    plan.build.iter().find_map(|step| match step {
        Build::Bind(bind) if bind.target == Path::new(BROKER_SOCKET) => Some(shown(&bind.source)),
        _ => None,
    })
}

/// Who groom-ns is.
pub(super) fn started_by(plan: &Plan) -> io::Result<StartedBy> {
    Ok(StartedBy {
        how: How::Read,
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        groups: getgroups()?.into_iter().map(Gid::as_raw).collect(),
        route: match plan.identity.route {
            Route::User => "user",
            Route::Root => "root",
        }
        .to_owned(),
    })
}

/// What is executed, as far as a receipt may say it.
pub(super) fn command(plan: &Plan) -> Command {
    let exec = &plan.exec;
    let words = exec.argv.iter().map(|word| word.to_bytes_with_nul());
    let program = exec.argv.first().map(|word| word.to_bytes());
    let program = program.unwrap_or_default();
    Command {
        how: How::Applied,
        program: shown(Path::new(OsStr::from_bytes(program))),
        arguments: exec.argv.len().saturating_sub(1),
        sha256: digest::of_pieces(words),
        cwd: shown(&exec.cwd),
        environment: exec
            .env
            .iter()
            .map(|variable| variable.name.clone())
            .collect(),
    }
}

/// Of all children that were waited for: pid 1, which has waited for the jail's other
/// processes, and groom-ns's own helpers, which the kernel doesn't count apart (the guard
/// of a terminal, those that id maps were made with).
pub(super) fn usage() -> io::Result<Usage> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let ms = |time: TimeVal| {
        let micros = u64::try_from(
            time.tv_sec()
                .saturating_mul(1_000_000)
                .saturating_add(time.tv_usec()),
        );
        milliseconds(Duration::from_micros(micros.unwrap_or_default()))
    };
    Ok(Usage {
        how: How::Read,
        user_ms: ms(used.user_time()),
        system_ms: ms(used.system_time()),
        // The kernel counts in KiB.
        max_rss_bytes: u64::try_from(used.max_rss())
            .unwrap_or_default()
            .saturating_mul(1024),
    })
}
