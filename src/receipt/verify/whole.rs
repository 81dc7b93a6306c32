//! What holds for every receipt of a run that was as it should be, whatever the policy.

use super::{Findings, files, times};
use crate::plan::BROKER_SOCKET;
use crate::plan::CANARY;
use crate::receipt::format::{End, How, Jail, Process, Receipt, StartedBy};
use crate::receipt::process;
use crate::refusal::EXIT_TIMED_OUT;
use crate::run::{Cause, Phase};

/// In hex digits.
const SHA256: usize = 64;
/// What a program exits with beyond this is n of a signal.
const SIGNAL: i32 = 128;

/// Notes what is missing or contradicts itself.
pub(super) fn judge(receipt: &Receipt, found: &mut Findings) {
    sources(receipt, found);
    digest("groom_ns.sha256", &receipt.groom_ns.sha256, found);
    digest("command.sha256", &receipt.command.sha256, found);
    end(&receipt.end, found);
    times::judge(&receipt.times, found);
    match &receipt.jail {
        Some(jail) => {
            stood(jail, found);
            way_out(receipt, jail, found);
            ids(&receipt.started_by, jail, found);
        }
        None => found.must(false, "jail", "what stood", "nothing"),
    }
}

/// Where a broker's socket stands it is one's, and nowhere else.
fn way_out(receipt: &Receipt, jail: &Jail, found: &mut Findings) {
    let uds = receipt.uds.is_some();
    let mut mounts = jail.mounts.table.iter();
    let stands = mounts.any(|mount| mount.path == BROKER_SOCKET);
    found.must(
        stands == uds && !(uds && receipt.broker.is_some()),
        "uds",
        "a socket at /run/broker.sock, and no other broker",
        format!("{:?}", receipt.uds),
    );
}

/// What is `read` and what is `applied`.
fn sources(receipt: &Receipt, found: &mut Findings) {
    let mut must = |what: &str, how: How, expected: How| {
        let (wanted, how_found) = (format!("{expected:?}"), format!("{how:?}"));
        found.must(how == expected, &format!("{what}.how"), wanted, how_found);
    };
    must("groom_ns", receipt.groom_ns.how, How::Read);
    must("kernel", receipt.kernel.how, How::Read);
    must("started_by", receipt.started_by.how, How::Read);
    must("command", receipt.command.how, How::Applied);
    must("usage", receipt.usage.how, How::Read);
    must("supervised", receipt.supervised.how, How::Applied);
    if let Some(broker) = &receipt.broker {
        must("broker", broker.how, How::Applied);
    }
    let Some(jail) = &receipt.jail else {
        return;
    };
    must("jail.namespaces", jail.namespaces.how, How::Read);
    must("jail.mounts", jail.mounts.how, How::Read);
    must("jail.init", jail.init.how, How::Read);
    must("jail.command", jail.command.how, How::Read);
    must("jail.landlock", jail.landlock.how, How::Applied);
    must("jail.seccomp", jail.seccomp.how, How::Applied);
    must("jail.descriptors", jail.descriptors.how, How::Read);
    must("jail.limits", jail.limits.how, How::Read);
    must("jail.self_check", jail.self_check.how, How::Read);
}

fn stood(jail: &Jail, found: &mut Findings) {
    for (name, namespace) in jail.namespaces.each() {
        let is_own = namespace.jail != namespace.host && namespace.jail != 0 && namespace.host != 0;
        let what = format!("jail.namespaces.{name}");
        found.must(is_own, &what, "one of its own", namespace.jail);
    }
    files::judge(jail, found);
    process("jail.init", &jail.init, found);
    process("jail.command", &jail.command, found);
    seccomp(jail, found);
    let open: Vec<u32> = jail.descriptors.open.iter().map(|open| open.fd).collect();
    found.must(
        open == [0, 1, 2],
        "jail.descriptors",
        "0, 1 and 2",
        format!("{open:?}"),
    );
    rlimits(jail, found);
    self_check(jail, found);
}

/// Whose the processes are: the caller's own, or as root nobody's, and of no group.
fn ids(by: &StartedBy, jail: &Jail, found: &mut Findings) {
    let route = if by.uid == 0 { "root" } else { "user" };
    found.must(by.route == route, "started_by.route", route, &by.route);
    let processes = [("jail.init", &jail.init), ("jail.command", &jail.command)];
    for (what, process) in processes {
        let (uids, gids) = (process.uids, process.gids);
        let mut must = |name: &str, holds: bool, expected: &str, is: String| {
            found.must(holds, &format!("{what}.{name}"), expected, is);
        };
        let shown = |ids: &[u32]| format!("{ids:?}");
        must("uids", !uids.contains(&0), "none that is 0", shown(&uids));
        if by.uid == 0 {
            must("gids", !gids.contains(&0), "none that is 0", shown(&gids));
            let groups = &process.groups;
            must("groups", groups.is_empty(), "none", shown(groups));
        } else {
            must("uids", uids == [by.uid; 4], "the caller's", shown(&uids));
            must("gids", gids == [by.gid; 4], "the caller's", shown(&gids));
        }
    }
}

/// All sixteen are told.
fn rlimits(jail: &Jail, found: &mut Findings) {
    let rlimits = &jail.limits.rlimits;
    let told: Vec<&str> = rlimits.keys().map(String::as_str).collect();
    let mut all: Vec<&str> = process::limit_names().collect();
    all.sort_unstable();
    let shown = format!("{told:?}");
    found.must(
        told == all,
        "jail.limits.rlimits",
        format!("{all:?}"),
        shown,
    );
    // With 0 the kernel still runs a pipe handler (core(5)).
    let core = rlimits.get("core").and_then(|core| core.hard);
    let is_low = core.is_some_and(|core| core <= 1);
    let shown = format!("{core:?}");
    found.must(is_low, "jail.limits.rlimits.core", "at most 1", shown);
}

fn process(what: &str, process: &Process, found: &mut Findings) {
    for (name, set) in process.capabilities.each() {
        let is_empty = !set.is_empty() && set.bytes().all(|digit| digit == b'0');
        let what = format!("{what}.capabilities.{name}");
        found.must(is_empty, &what, "none", set);
    }
    let field = format!("{what}.no_new_privs");
    found.must(process.no_new_privs, &field, true, process.no_new_privs);
    let (mode, filters) = (process.seccomp_mode, process.seccomp_filters);
    found.must(mode == 2, &format!("{what}.seccomp_mode"), 2, mode);
    found.must(
        filters > 0,
        &format!("{what}.seccomp_filters"),
        "1 or more",
        filters,
    );
}

/// The command's filter stands beside those that pid 1 has from outside.
fn seccomp(jail: &Jail, found: &mut Findings) {
    let sha256 = jail.seccomp.sha256.as_deref().unwrap_or("none");
    digest("jail.seccomp.sha256", sha256, found);
    let count = jail.seccomp.instructions;
    found.must(count > 0, "jail.seccomp.instructions", "some", count);
}

fn self_check(jail: &Jail, found: &mut Findings) {
    let tried = &jail.self_check.tried;
    let answer = |check: &str| match check {
        "no-privileges" => Some("none"),
        "socket" => Some("EAFNOSUPPORT"),
        "user-namespace" => Some("EPERM"),
        "canary" => Some("EACCES"),
        "read-only" => Some("EROFS"),
        _ => None,
    };
    for one in tried {
        let what = format!("jail.self_check: {} {}", one.check, one.about);
        let expected = answer(&one.check);
        found.must(
            expected == Some(&one.answer),
            &what,
            expected.unwrap_or("no such check"),
            &one.answer,
        );
    }
    let mut must = |check: &str, expected: &str, is_it: &dyn Fn(&str) -> bool| {
        let was_made = tried
            .iter()
            .any(|one| one.check == check && is_it(&one.about));
        let what = format!("jail.self_check: {check}");
        found.must(was_made, &what, expected, "none");
    };
    must("no-privileges", "one", &|_| true);
    for family in ["AF_VSOCK", "AF_ALG"] {
        must("socket", family, &|about| about == family);
    }
    must("user-namespace", "one", &|_| true);
    if jail.landlock.abi > 0 {
        must("canary", CANARY, &|about| about == CANARY);
    }
    must("read-only", "/usr", &|about| about == "/usr");
    must("read-only", "one of what is given", &|about| {
        about != "/usr"
    });
}

/// An end and its code tell the same.
fn end(end: &End, found: &mut Findings) {
    let phase = format!("{:?}", end.phase);
    found.must(end.phase == Phase::Running, "end.phase", "Running", phase);
    let code = i32::from(end.code);
    let signal = |signal: i32| signal > 0 && code == SIGNAL.saturating_add(signal);
    let agrees = match &end.cause {
        Cause::Exited { code: own } => code == *own,
        Cause::Killed { signal: own }
        | Cause::Signal { signal: own }
        | Cause::JailKilled { signal: own } => signal(*own),
        Cause::NotExecuted { .. } => matches!(code, 126 | 127),
        Cause::Limit { which, .. } => signal(which.signal()),
        Cause::TimedOut { .. } => code == i32::from(EXIT_TIMED_OUT),
        Cause::CallerGone {} | Cause::Lost { .. } | Cause::ForcedToEnd { .. } => {
            signal(libc::SIGKILL)
        }
    };
    let cause = format!("{:?}", end.cause);
    found.must(agrees, "end.code", format!("that of {cause}"), code);
}

fn digest(what: &str, text: &str, found: &mut Findings) {
    found.must(is_digest(text), what, "a SHA-256", text);
}

/// As groom-ns writes it.
pub(super) fn is_digest(text: &str) -> bool {
    text.len() == SHA256
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
