//! What holds for every receipt of a run that was as it should be, whatever the policy.

use super::{Findings, times};
use crate::confine::landlock;
use crate::receipt::format::{End, How, Jail, Mount, Process, Receipt};
use crate::refusal::EXIT_TIMED_OUT;
use crate::run::{Cause, Phase};

/// In hex digits.
const SHA256: usize = 64;
/// Mounts that every jail has, read-only.
const SEALED: [&str; 2] = ["/", "/proc/sys"];
/// The jail's device nodes.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
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
        Some(jail) => stood(jail, found),
        None => found.must(false, "jail", "what stood", "nothing"),
    }
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
    mounts(&jail.mounts.table, found);
    process("jail.init", &jail.init, found);
    process("jail.command", &jail.command, found);
    seccomp(jail, found);
    rules(jail, found);
    let open: Vec<u32> = jail.descriptors.open.iter().map(|open| open.fd).collect();
    found.must(
        open == [0, 1, 2],
        "jail.descriptors",
        "0, 1 and 2",
        format!("{open:?}"),
    );
    // With 0 the kernel still runs a pipe handler (core(5)).
    let core = jail.limits.rlimits.get("core").and_then(|core| core.hard);
    let is_low = core.is_some_and(|core| core <= 1);
    found.must(
        is_low,
        "jail.limits.rlimits.core",
        "at most 1",
        format!("{core:?}"),
    );
    self_check(jail, found);
}

fn mounts(table: &[Mount], found: &mut Findings) {
    for path in SEALED {
        let mut found_there = table.iter().filter(|mount| mount.path == path);
        let is_sealed = found_there.any(|mount| mount.options.iter().any(|option| option == "ro"));
        let what = format!("jail.mounts: {path}");
        found.must(is_sealed, &what, "a read-only mount", "none");
    }
    for mount in table {
        let what = format!("jail.mounts: {}", mount.path);
        let mut must = |option: &str| {
            let has = mount.options.iter().any(|found| found == option);
            found.must(has, &what, option, mount.options.join(","));
        };
        must("nosuid");
        // A device node works on its own mount alone; /dev/null covers files, too.
        if !is_device(mount) {
            must("nodev");
        }
    }
}

/// Whether it is the jail's terminals, one of its device nodes, or a cover.
fn is_device(mount: &Mount) -> bool {
    let covers = mount.root == "/null" || mount.root.ends_with("/dev/null");
    let node = mount.path.strip_prefix("/dev/").filter(|name| {
        let known = DEVICES.contains(name);
        known && mount.root.ends_with(&format!("/{name}"))
    });
    mount.kind == "devpts" || covers || node.is_some()
}

fn process(what: &str, process: &Process, found: &mut Findings) {
    let is_root = process.uids.contains(&0);
    let uids = format!("{:?}", process.uids);
    found.must(!is_root, &format!("{what}.uids"), "none that is 0", uids);
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

fn rules(jail: &Jail, found: &mut Findings) {
    let landlock = &jail.landlock;
    let is_enough = landlock.abi >= landlock::FLOOR || landlock.mode == "best-effort";
    let least = format!("{} or more", landlock::FLOOR);
    found.must(is_enough, "jail.landlock.abi", least, landlock.abi);
    let has_rights =
        landlock.abi == 0 || !(landlock.rights.is_empty() || landlock.rules.is_empty());
    found.must(has_rights, "jail.landlock", "rights and rules", "none");
    let both = landlock
        .rights
        .iter()
        .find(|right| landlock.absent.contains(right));
    let both = both.map_or("", String::as_str);
    found.must(
        both.is_empty(),
        "jail.landlock.absent",
        "no right that is used",
        both,
    );
}

fn self_check(jail: &Jail, found: &mut Findings) {
    let tried = &jail.self_check.tried;
    let answer = |check: &str| match check {
        "no-privileges" => "none",
        "socket" => "EAFNOSUPPORT",
        "user-namespace" => "EPERM",
        "canary" => "EACCES",
        "read-only" => "EROFS",
        _ => "no such check",
    };
    for one in tried {
        let what = format!("jail.self_check: {} {}", one.check, one.about);
        found.must(
            one.answer == answer(&one.check),
            &what,
            answer(&one.check),
            &one.answer,
        );
    }
    let mut must = |check: &str, about: Option<&str>, least: usize| {
        let same = tried
            .iter()
            .filter(|one| one.check == check && about.is_none_or(|about| one.about == about));
        let what = format!("jail.self_check: {check} {}", about.unwrap_or_default());
        let count = same.count();
        found.must(
            count >= least,
            what.trim_end(),
            format!("{least} or more"),
            count,
        );
    };
    must("no-privileges", None, 1);
    must("socket", Some("AF_VSOCK"), 1);
    must("socket", Some("AF_ALG"), 1);
    must("user-namespace", None, 1);
    must("canary", None, usize::from(jail.landlock.abi > 0));
    must("read-only", None, 2);
}

/// An end and its code tell the same.
fn end(end: &End, found: &mut Findings) {
    let phase = format!("{:?}", end.phase);
    found.must(end.phase == Phase::Running, "end.phase", "Running", phase);
    let code = i32::from(end.code);
    let signal = |signal: i32| code == SIGNAL.saturating_add(signal);
    let agrees = match &end.cause {
        Cause::Exited { code: own } => code == own & 0xff,
        Cause::Killed { signal: own }
        | Cause::Signal { signal: own }
        | Cause::JailKilled { signal: own } => signal(*own),
        Cause::NotExecuted { .. } => matches!(code, 126 | 127),
        Cause::Limit { which, .. } => signal(which.signal()),
        Cause::TimedOut { .. } => code == i32::from(EXIT_TIMED_OUT),
        Cause::CallerGone | Cause::Lost { .. } | Cause::ForcedToEnd { .. } => signal(libc::SIGKILL),
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
