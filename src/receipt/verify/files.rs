//! What of files the jail stood on: its mounts, and what landlock granted on them.

use super::Findings;
use crate::confine::landlock;
use crate::plan::{BROKER_SOCKET, DEVPTS, HOME};
use crate::receipt::format::{Jail, Landlock, LandlockRule, Mount};

/// Mounts that every jail has, read-only.
const SEALED: [&str; 4] = ["/", "/usr", "/etc", "/proc/sys"];
/// The jail's own mounts that are writable, with the type of each.
const OWN: [(&str, &str); 5] = [
    ("/tmp", "tmpfs"),
    (HOME, "tmpfs"),
    ("/dev/shm", "tmpfs"),
    (DEVPTS, "devpts"),
    ("/proc", "proc"),
];
/// The jail's device nodes.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const TTY: &str = "/dev/tty";

/// What holds for every jail.
pub(super) fn judge(jail: &Jail, found: &mut Findings) {
    let table = &jail.mounts.table;
    stood(table, found);
    for mount in table {
        options(mount, found);
    }
    domain(&jail.landlock, found);
    for rule in &jail.landlock.rules {
        let what = format!("jail.landlock.rules: {}", rule.path);
        let expected = "a grant that a jail has there";
        found.must(is_usual(rule, table), &what, expected, &rule.grant);
    }
}

/// What of it may be written to: the jail's own folders and these mounts.
pub(super) fn writable(jail: &Jail, right: &[String], found: &mut Findings) {
    for mount in &jail.mounts.table {
        let may = has(mount, "ro") || is_own(mount) || right.contains(&mount.path);
        let what = format!("jail.mounts: {}", mount.path);
        found.must(may, &what, "read-only", mount.options.join(","));
    }
    let is_own = |path: &str| OWN.iter().any(|(own, _)| *own == path);
    for rule in jail.landlock.rules.iter().filter(|rule| writes(rule)) {
        let may = is_own(&rule.path) || right.contains(&rule.path);
        let what = format!("jail.landlock.rules: {}", rule.path);
        found.must(may, &what, "no grant to write", &rule.grant);
    }
}

/// The mounts that are always there. Where one lies over another, both are asked: the
/// table doesn't tell which is on top.
fn stood(table: &[Mount], found: &mut Findings) {
    for path in SEALED {
        let is_sealed = all_at(table, path, |mount| has(mount, "ro"));
        let what = format!("jail.mounts: {path}");
        found.must(is_sealed, &what, "a read-only mount", "none");
    }
    for (path, kind) in OWN {
        let what = format!("jail.mounts: {path}");
        let expected = format!("a whole {kind}");
        found.must(all_at(table, path, is_own), &what, expected, "none");
    }
}

fn options(mount: &Mount, found: &mut Findings) {
    let what = format!("jail.mounts: {}", mount.path);
    let mut must = |option: &str| {
        found.must(has(mount, option), &what, option, mount.options.join(","));
    };
    must("nosuid");
    // A device node works on its own mount alone; /dev/null covers files, too.
    if !is_device(mount) {
        must("nodev");
    }
}

/// Whether there is a mount at this path, and each that is there is such a one.
fn all_at(table: &[Mount], path: &str, is_so: impl Fn(&Mount) -> bool) -> bool {
    let mut there = table.iter().filter(|mount| mount.path == path).peekable();
    there.peek().is_some() && there.all(is_so)
}

fn has(mount: &Mount, option: &str) -> bool {
    mount.options.iter().any(|found| found == option)
}

/// Whether it is one of the jail's own, and not a folder of the host's in its place.
fn is_own(mount: &Mount) -> bool {
    OWN.contains(&(&mount.path, &mount.kind)) && mount.root == "/"
}

/// Whether it is the jail's terminals, one of its device nodes, or a cover. Elsewhere
/// than on the file systems that /dev is made of, those names could be folders.
fn is_device(mount: &Mount) -> bool {
    if mount.path == DEVPTS {
        return is_own(mount);
    }
    let covers = mount.root == "/null" || mount.root.ends_with("/dev/null");
    let node = mount.path.strip_prefix("/dev/").filter(|name| {
        let known = DEVICES.contains(name);
        known && mount.root.ends_with(&format!("/{name}"))
    });
    let is_dev = matches!(mount.kind.as_str(), "devtmpfs" | "tmpfs");
    is_dev && (covers || node.is_some())
}

/// The domain's words fit each other, and its ABI.
fn domain(domain: &Landlock, found: &mut Findings) {
    let abi = domain.abi;
    let least = match domain.mode.as_str() {
        "required" => Some(landlock::FLOOR),
        "best-effort" => Some(0),
        _ => None,
    };
    let modes = "required or best-effort";
    found.must(least.is_some(), "jail.landlock.mode", modes, &domain.mode);
    let (least, most) = (least.unwrap_or(landlock::FLOOR), landlock::NEWEST);
    let is_known = (least..=most).contains(&abi);
    let expected = format!("{least} to {most}");
    found.must(is_known, "jail.landlock.abi", expected, abi);
    for (name, is, should) in [
        ("rights", &domain.rights, landlock::used(abi)),
        ("absent", &domain.absent, landlock::absent(abi)),
    ] {
        let what = format!("jail.landlock.{name}");
        let expected = format!("those of ABI {abi}: {should:?}");
        found.must(*is == should, &what, expected, format!("{is:?}"));
    }
    let has_rules = abi == 0 || !domain.rules.is_empty();
    found.must(has_rules, "jail.landlock.rules", "some", "none");
}

fn writes(rule: &LandlockRule) -> bool {
    rule.grant == "write"
}

/// Whether a jail has such a grant there: of what the caller gives, on its mount alone.
fn is_usual(rule: &LandlockRule, table: &[Mount]) -> bool {
    let path = rule.path.as_str();
    let is_given = |is_so: fn(&Mount) -> bool| {
        !["/", "/proc", DEVPTS].contains(&path) && all_at(table, path, is_so)
    };
    match rule.grant.as_str() {
        "list" => path == "/",
        "read" => path == "/proc",
        "execute" => is_given(|_| true),
        "write" => is_given(|mount| !has(mount, "ro")),
        "device" => path
            .strip_prefix("/dev/")
            .is_some_and(|name| DEVICES.contains(&name)),
        "terminal" => [TTY, DEVPTS].contains(&path),
        "connect" => path == BROKER_SOCKET,
        _ => false,
    }
}
