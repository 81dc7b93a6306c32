//! `groom-ns verify` notices each thing that isn't as it is in every receipt.

use serde_json::{Value, json};

use super::made::{Made, bent};
use crate::common::is_root;

/// The place, the value there, and what the line is about.
type Row = (&'static str, Value, &'static str);

fn bent_processes(good: &Value) -> Vec<Row> {
    let host = good["jail"]["namespaces"]["net"]["host"].clone();
    vec![
        ("/jail", Value::Null, "jail"),
        ("/jail/namespaces/net/jail", host, "jail.namespaces.net"),
        (
            "/jail/namespaces/user/jail",
            json!(0),
            "jail.namespaces.user",
        ),
        (
            "/jail/init/capabilities/bounding",
            json!("0000000000000001"),
            "bounding",
        ),
        (
            "/jail/command/capabilities/effective",
            json!("1"),
            "effective",
        ),
        ("/jail/command/capabilities/ambient", json!(""), "ambient"),
        (
            "/jail/init/no_new_privs",
            json!(false),
            "jail.init.no_new_privs",
        ),
        (
            "/jail/command/no_new_privs",
            json!(false),
            "jail.command.no_new_privs",
        ),
        (
            "/jail/init/seccomp_mode",
            json!(0),
            "jail.init.seccomp_mode",
        ),
        ("/jail/command/seccomp_filters", json!(0), "seccomp_filters"),
        ("/jail/init/uids/0", json!(0), "jail.init.uids"),
        ("/jail/command/uids/3", json!(0), "jail.command.uids"),
        ("/jail/seccomp/sha256", Value::Null, "jail.seccomp.sha256"),
        ("/jail/seccomp/instructions", json!(0), "instructions"),
    ]
}

fn bent_rules(good: &Value) -> Vec<Row> {
    let open = good["jail"]["descriptors"]["open"].as_array().unwrap();
    let five = json!({"fd": 5, "what": "x", "access": "read"});
    let leaked = [open.as_slice(), &[five]].concat();
    vec![
        ("/jail/landlock/abi", json!(1), "jail.landlock.abi"),
        ("/jail/landlock/abi", json!(99), "jail.landlock.abi"),
        ("/jail/landlock/mode", json!("banana"), "jail.landlock.mode"),
        (
            "/jail/landlock/rights",
            json!(["x"]),
            "jail.landlock.rights",
        ),
        (
            "/jail/landlock/absent",
            json!(["x"]),
            "jail.landlock.absent",
        ),
        ("/jail/landlock/rights", json!([]), "jail.landlock"),
        ("/jail/landlock/rules", json!([]), "jail.landlock"),
        (
            "/jail/landlock/absent",
            json!(["execute"]),
            "jail.landlock.absent",
        ),
        ("/jail/descriptors/open", json!(leaked), "jail.descriptors"),
        ("/jail/descriptors/open", json!([]), "jail.descriptors"),
        ("/jail/limits/rlimits/core/hard", json!(2), "core"),
        ("/jail/limits/rlimits/core/hard", Value::Null, "core"),
        ("/jail/mounts/table", json!([]), "jail.mounts: /"),
        (
            "/jail/mounts/table/0/options",
            json!(["ro", "nodev"]),
            "expected nosuid",
        ),
        (
            "/jail/mounts/table/0/options",
            json!(["ro", "nosuid"]),
            "expected nodev",
        ),
        (
            "/jail/self_check/tried/1/answer",
            json!("EPERM"),
            "jail.self_check: socket",
        ),
        (
            "/jail/self_check/tried/1/check",
            json!("nothing"),
            "no such check",
        ),
        (
            "/jail/self_check/tried/1",
            json!({"check": "banana", "about": "", "answer": "no such check"}),
            "no such check",
        ),
        ("/jail/self_check/tried", json!([]), "jail.self_check"),
    ]
}

/// Ids: of nobody, of root, and not of who is said to have started it.
fn bent_ids(good: &Value) -> Vec<Row> {
    let route = if is_root() { "user" } else { "root" };
    let mut rows = vec![
        ("/started_by/route", json!("banana"), "started_by.route"),
        ("/started_by/route", json!(route), "started_by.route"),
    ];
    if is_root() {
        rows.extend([
            ("/jail/init/gids/1", json!(0), "jail.init.gids"),
            ("/jail/command/gids/0", json!(0), "jail.command.gids"),
            ("/jail/init/groups", json!([0]), "jail.init.groups"),
            ("/jail/command/groups", json!([4]), "jail.command.groups"),
        ]);
    } else {
        let other = json!(good["started_by"]["uid"].as_u64().unwrap() + 1);
        rows.extend([
            ("/jail/init/uids/2", other.clone(), "jail.init.uids"),
            ("/jail/command/uids/1", other, "jail.command.uids"),
            ("/jail/init/gids/3", json!(u32::MAX), "jail.init.gids"),
            ("/jail/command/gids/0", json!(u32::MAX), "jail.command.gids"),
        ]);
    }
    rows
}

/// A mount more, or a grant.
fn bent_files(good: &Value) -> Vec<Row> {
    let table = good["jail"]["mounts"]["table"].as_array().unwrap();
    let rules = good["jail"]["landlock"]["rules"].as_array().unwrap();
    let mount = |path: &str, root: &str, kind: &str, options: &str| {
        let options: Vec<&str> = options.split(',').collect();
        let mount = json!({"path": path, "root": root, "type": kind, "options": options});
        json!([table.as_slice(), &[mount]].concat())
    };
    let grant = |path: &str, grant: &str| {
        let rule = json!({"path": path, "grant": grant});
        json!([rules.as_slice(), &[rule]].concat())
    };
    let safe = "rw,nosuid,nodev";
    let (at, of) = ("/jail/mounts/table", "/jail/landlock/rules");
    vec![
        // Over one that is as it should be.
        (at, mount("/", "/", "tmpfs", safe), "jail.mounts: /:"),
        (at, mount("/usr", "/usr", "ext4", safe), "jail.mounts: /usr"),
        (at, mount("/tmp", "/", "ext4", safe), "jail.mounts: /tmp"),
        (at, mount("/tmp", "/x", "tmpfs", safe), "jail.mounts: /tmp"),
        // What isn't /dev may have folders of these names.
        (
            at,
            mount("/w", "/a/dev/null", "ext4", "ro,nosuid"),
            "expected nodev",
        ),
        (
            at,
            mount("/dev/zero", "/a/zero", "ext4", "ro,nosuid"),
            "expected nodev",
        ),
        (
            at,
            mount("/w", "/", "devpts", "ro,nosuid"),
            "expected nodev",
        ),
        (of, grant("/", "write"), "jail.landlock.rules: /:"),
        (of, grant("/", "execute"), "jail.landlock.rules: /:"),
        (of, grant("/usr", "write"), "jail.landlock.rules: /usr"),
        (of, grant("/w", "write"), "jail.landlock.rules: /w"),
        (of, grant("/proc", "write"), "jail.landlock.rules: /proc"),
        (of, grant("/dev/sda", "device"), "jail.landlock.rules: /dev"),
        (of, grant("/tmp", "connect"), "jail.landlock.rules: /tmp"),
        (of, grant("/tmp", "banana"), "jail.landlock.rules: /tmp"),
    ]
}

fn bent_ends() -> Vec<Row> {
    vec![
        ("/end/phase", json!("released"), "end.phase"),
        ("/end/code", json!(1), "end.code"),
        (
            "/end/cause",
            json!({"kind": "killed", "signal": 9}),
            "end.code",
        ),
        (
            "/end/cause",
            json!({"kind": "killed", "signal": -128}),
            "end.code",
        ),
        (
            "/end/cause",
            json!({"kind": "exited", "code": 256}),
            "end.code",
        ),
        ("/times/ended", json!("2026-1-1"), "times.ended"),
        (
            "/times/ended",
            json!("9999-99-99T99:99:99.999Z"),
            "times.ended",
        ),
        // In another order than they came.
        (
            "/times/ended",
            json!("2020-01-01T00:00:00.000Z"),
            "times.ended",
        ),
        (
            "/times/started",
            json!("2999-01-01T00:00:00.000Z"),
            "times.command_started",
        ),
        (
            "/times/command_started",
            json!("2020-01-01T00:00:00.000Z"),
            "times.command_started",
        ),
        (
            "/times/command_started",
            Value::Null,
            "times.command_started",
        ),
        ("/times/total_ms", json!(0.0), "times.total_ms"),
        ("/groom_ns/sha256", json!("abc"), "groom_ns.sha256"),
        ("/command/sha256", json!("ABC"), "command.sha256"),
    ]
}

/// Checks that weren't made.
fn bent_checks(good: &Value) -> Vec<Row> {
    let all = good["jail"]["self_check"]["tried"].as_array().unwrap();
    let without = |check: &'static str| {
        let rest = all.iter().filter(|one| one["check"] != check);
        let rest = json!(rest.collect::<Vec<_>>());
        ("/jail/self_check/tried", rest, check)
    };
    let checks = [
        "no-privileges",
        "socket",
        "user-namespace",
        "canary",
        "read-only",
    ];
    checks.map(without).to_vec()
}

/// Where a value is said to come from.
fn bent_sources() -> Vec<Row> {
    [
        ("/groom_ns/how", "applied"),
        ("/kernel/how", "applied"),
        ("/jail/namespaces/how", "applied"),
        ("/jail/mounts/how", "applied"),
        ("/jail/init/how", "applied"),
        ("/jail/command/how", "applied"),
        ("/jail/landlock/how", "read"),
        ("/jail/seccomp/how", "read"),
        ("/jail/descriptors/how", "applied"),
        ("/jail/limits/how", "applied"),
        ("/jail/self_check/how", "applied"),
        ("/command/how", "read"),
        ("/usage/how", "applied"),
        ("/supervised/how", "read"),
    ]
    .map(|(section, how)| (section, json!(how), ".how: "))
    .to_vec()
}

/// What isn't whole deviates, whatever the policy.
#[test]
fn a_receipt_that_is_not_whole_deviates() {
    let made = Made::new();
    let good = made.good();
    let rows = [
        bent_processes(&good),
        bent_rules(&good),
        bent_ids(&good),
        bent_files(&good),
        bent_ends(),
        bent_checks(&good),
        bent_sources(),
    ];
    for (at, value, about) in rows.concat() {
        let run = made.verify_value(&bent(&good, at, value.clone()), "");
        assert_eq!(run.code, Some(1), "{at} {value}: {run:#?}");
        assert!(run.stdout.contains(about), "{at} {value}: {run:#?}");
    }
    let control = made.verify_value(&good, "");
    assert_eq!(control.code, Some(0), "vacuous: {control:#?}");
}

/// What every jail has: with other options, and without its mount.
#[test]
fn what_every_jail_has_deviates_without_it() {
    let made = Made::new();
    let good = made.good();
    let of = |path: &str| format!("jail.mounts: {path}: ");
    let sealed = ["/", "/usr", "/etc", "/proc/sys"];
    let own = ["/tmp", "/home/agent", "/dev/shm", "/dev/pts", "/proc"];
    for path in sealed {
        let mut writable = good.clone();
        let table = writable["jail"]["mounts"]["table"].as_array_mut().unwrap();
        let mount = table.iter_mut().find(|mount| mount["path"] == path);
        mount.unwrap()["options"] = json!(["rw", "nosuid", "nodev"]);
        let run = made.verify_value(&writable, "");
        let line = of(path) + "expected a read-only mount, found none\n";
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), line.as_str()));
    }
    for path in sealed.into_iter().chain(own) {
        let mut absent = good.clone();
        let table = absent["jail"]["mounts"]["table"].as_array_mut().unwrap();
        table.retain(|mount| mount["path"] != path);
        let run = made.verify_value(&absent, "");
        assert_eq!(run.code, Some(1), "{path}: {run:#?}");
        assert!(run.stdout.contains(&of(path)), "{path}: {run:#?}");
    }
}

/// Fifteen of sixteen, one too many, and two checks of the same folder.
#[test]
fn what_is_not_told_deviates() {
    let made = Made::new();
    let good = made.good();
    let mut fewer = good.clone();
    let rlimits = fewer["jail"]["limits"]["rlimits"].as_object_mut().unwrap();
    rlimits.remove("nproc").unwrap();
    let nofile = good["jail"]["limits"]["rlimits"]["nofile"].clone();
    let more = bent(&good, "/jail/limits/rlimits/banana", nofile);
    let mut twice = good.clone();
    let tried = twice["jail"]["self_check"]["tried"].as_array_mut().unwrap();
    let read_only = |one: &&mut Value| one["check"] == "read-only";
    for one in tried.iter_mut().filter(read_only) {
        one["about"] = json!("/usr");
    }
    for (other, about) in [
        (fewer, "jail.limits.rlimits"),
        (more, "jail.limits.rlimits"),
        (twice, "jail.self_check: read-only"),
    ] {
        let run = made.verify_value(&other, "");
        assert_eq!(run.code, Some(1), "{about}: {run:#?}");
        assert!(run.stdout.contains(about), "{run:#?}");
    }
}
