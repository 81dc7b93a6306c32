//! `groom-ns verify` notices each thing that isn't as it should be.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::made::{Made, verify};
use crate::common::{is_root, path_str};

/// A receipt with one value changed; a name that isn't there is added.
fn bent(receipt: &Value, at: &str, value: Value) -> Value {
    let mut bent = receipt.clone();
    let (parent, name) = at.rsplit_once('/').expect("a pointer");
    let parent = bent.pointer_mut(parent).expect(at);
    match (parent, name.parse::<usize>()) {
        (Value::Array(all), Ok(number)) => all[number] = value,
        (parent, _) => parent[name] = value,
    }
    bent
}

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

/// Grants and mounts that are a jail's own where the policy says what else there may be.
#[test]
fn what_may_be_written_to_is_asked_of_mounts_and_grants() {
    let made = Made::new();
    let jail = made.jail().flag("--out-dir", made.workspace.out_dir());
    let (_, good) = made.of(jail, &["true"]);
    let out = made.workspace.out_dir();
    let run = made.verify_value(&good, "writable = []");
    let mount = format!("jail.mounts: {}: expected read-only", path_str(&out));
    let grant = format!("jail.landlock.rules: {}: ", path_str(&out));
    assert_eq!(run.code, Some(1), "{run:#?}");
    for line in [mount, grant] {
        assert!(run.stdout.contains(&line), "{line}: {run:#?}");
    }
    let run = made.verify_value(&good, &format!("writable = ['{}']", path_str(&out)));
    assert_eq!(run.code, Some(0), "vacuous: {run:#?}");
}

/// Each key: what the receipt obeys, and what it doesn't.
#[test]
fn each_key_of_a_policy_is_asked() {
    let made = Made::new();
    let jail = made.jail().flag("--out-dir", made.workspace.out_dir());
    let (_, good) = made.of(jail, &["true"]);
    let out = made.workspace.out_dir();
    let sha256 = |value: &Value| format!("[\"{}\"]", value.as_str().unwrap());
    let (own, filter, words) = (
        sha256(&good["groom_ns"]["sha256"]),
        sha256(&good["jail"]["seccomp"]["sha256"]),
        sha256(&good["command"]["sha256"]),
    );
    let other = format!("[\"{}\"]", "0".repeat(64));
    let release = good["kernel"]["release"].as_str().unwrap();
    let mut abi = good["jail"]["landlock"]["abi"].clone();
    let absent = good["jail"]["landlock"]["absent"].to_string();
    let route = good["started_by"]["route"].as_str().unwrap();
    let rows = [
        ("exit-code", "[1, 0]".to_owned(), "[1]".to_owned()),
        ("ended-by", "['exited']".into(), "['killed']".into()),
        ("version-min", "'0.1'".into(), "'99.0.0'".into()),
        ("binary-sha256", own, other.clone()),
        ("kernel-min", format!("'{release}'"), "'99.1'".into()),
        ("route", format!("'{route}'"), "'other'".into()),
        ("landlock-abi-min", abi.take().to_string(), "99".into()),
        ("landlock-absent", absent, "[]".into()),
        ("seccomp-sha256", filter, other.clone()),
        ("allow-ptrace", "false".into(), String::new()),
        ("writable", format!("['{}']", path_str(&out)), "[]".into()),
        (
            "environment",
            "['HOME', 'PATH', 'TERM']".into(),
            "['HOME']".into(),
        ),
        ("program", "['true']".into(), "['false']".into()),
        ("command-sha256", words, other),
        ("max-age-s", "3600".into(), String::new()),
        ("max-command-s", "3600".into(), String::new()),
        ("rlimits", "{ core = 1 }".into(), "{ core = 0 }".into()),
        ("rlimits", "{}".into(), "{ none = 1 }".into()),
        ("cgroup", "{}".into(), "{ 'memory.max' = 1 }".into()),
        ("denials", "true".into(), "false".into()),
    ];
    for (key, right, wrong) in rows {
        if key == "landlock-absent" && right == "[]" {
            continue;
        }
        let run = made.verify_value(&good, &format!("{key} = {right}"));
        assert_eq!(run.code, Some(0), "{key} = {right}: {run:#?}");
        if !wrong.is_empty() {
            let run = made.verify_value(&good, &format!("{key} = {wrong}"));
            assert_eq!(run.code, Some(1), "{key} = {wrong}: {run:#?}");
        }
    }
}

/// The domain as a kernel with landlock ABI 2 has it.
fn of_abi_2(good: &Value) -> Value {
    let mut domain = good["jail"]["landlock"].clone();
    let of = |name: &str| domain[name].as_array().unwrap().clone();
    let mut all = [of("rights"), of("absent")].concat();
    let absent = all.split_off(14);
    domain["abi"] = json!(2);
    domain["rights"] = json!(all);
    domain["absent"] = json!(absent);
    domain
}

/// The times of a run that came and went at once, then.
fn times(good: &Value, when: &str) -> Value {
    let mut times = good["times"].clone();
    for name in ["started", "command_started", "ended"] {
        times[name] = json!(when);
    }
    times
}

/// Keys that need another receipt to deviate from.
#[test]
fn each_key_is_asked_of_other_receipts() {
    let made = Made::new();
    let good = made.good();
    let denied = json!({
        "count": 1, "syscall": "mount", "call": "mount()", "errno": "EPERM",
        "program": null, "why": "x", "remedy": null,
    });
    for (at, value, policy) in [
        (
            "/jail/seccomp/allow_ptrace",
            json!(true),
            "allow-ptrace = false",
        ),
        (
            "/times",
            times(&good, "2020-01-01T00:00:00.000Z"),
            "max-age-s = 3600",
        ),
        // A run that is over didn't end later than now.
        (
            "/times",
            times(&good, "2999-01-01T00:00:00.000Z"),
            "max-age-s = 3600",
        ),
        ("/warnings", json!(["careful"]), "warnings = false"),
        (
            "/denials",
            json!({"calls": [], "others": 1}),
            "denials = false",
        ),
        // With the one kind that is listed it is more than the number holds.
        (
            "/denials",
            json!({"calls": [denied], "others": u64::MAX}),
            "denials = false",
        ),
        (
            "/supervised/timeout_ms",
            json!(3_600_001),
            "timeout-max-s = 3600",
        ),
        ("/supervised/max_output", json!(1025), "max-output = 1024"),
        ("/kernel/release", json!("unknown"), "kernel-min = '1.0'"),
        (
            "/jail/landlock",
            of_abi_2(&good),
            "landlock-absent = ['resolve_unix']",
        ),
    ] {
        let other = bent(&good, at, value);
        assert_eq!(made.verify_value(&other, "").code, Some(0), "vacuous: {at}");
        let run = made.verify_value(&other, policy);
        assert_eq!(run.code, Some(1), "{policy}: {run:#?}");
    }
    let mut slow = bent(&good, "/times/command_ms", json!(7_200_000.0));
    let setup = slow["times"]["setup_ms"].as_f64().unwrap();
    slow["times"]["total_ms"] = json!(7_200_000.0 + setup);
    assert_eq!(made.verify_value(&slow, "").code, Some(0), "vacuous");
    assert_eq!(
        made.verify_value(&slow, "max-command-s = 3600").code,
        Some(1)
    );
    for (at, value, policy) in [
        (
            "/denials",
            json!({"calls": [], "others": 0}),
            "denials = false",
        ),
        (
            "/supervised/timeout_ms",
            json!(3_600_000),
            "timeout-max-s = 3600",
        ),
        ("/supervised/max_output", json!(1024), "max-output = 1024"),
    ] {
        assert_eq!(
            made.verify_value(&good, policy).code,
            Some(1),
            "absent: {policy}"
        );
        let obeys = bent(&good, at, value);
        assert_eq!(made.verify_value(&obeys, policy).code, Some(0), "{policy}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let made = Made::new();
    let good = made.good();
    let text = good.to_string();
    let twice = text.replacen('{', "{\"warnings\":[],", 1);
    for receipt in [
        String::new(),
        "{}".into(),
        "[]".into(),
        text[..text.len() - 1].to_owned(),
        format!("{text}{text}"),
        twice,
        bent(&good, "/receipt", json!("groom-ns/2")).to_string(),
        bent(&good, "/more", json!(1)).to_string(),
        bent(&good, "/jail/mounts/more", json!(1)).to_string(),
        bent(&good, "/end/cause/kind", json!("tired")).to_string(),
        bent(&good, "/end/cause", json!({"kind": "caller-gone", "x": 1})).to_string(),
        bent(&good, "/end/code", json!(256)).to_string(),
        bent(&good, "/usage/user_ms", json!("x")).to_string(),
        "[".repeat(100_000),
        format!("{}{text}", " ".repeat(9 << 20)),
    ] {
        fs::write(made.file(), &receipt).unwrap();
        made.verify("").assert_refused("receipt");
    }
    fs::write(made.file(), &text).unwrap();
    for policy in [
        "unknown = 1",
        "exit-code = 0",
        "exit-code = [256]",
        "exit-code = [0]\nexit-code = [0]",
        "binary-sha256 = ['abc']",
        "version-min = 'new'",
        "broker.unknown = 1",
        "=",
        "\u{1b}[31m = 1",
    ] {
        made.verify(policy).assert_refused("receipt");
    }
    let policy = made.workspace.file("kept/policy.toml", "");
    assert_eq!(verify(&made.file(), &policy, &[]).code, Some(0), "vacuous");
    fs::write(&policy, [0xff]).unwrap();
    verify(&made.file(), &policy, &[]).assert_refused("receipt");
    let fifo = made.workspace.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let dangling = made.workspace.path("dangling");
    symlink("nowhere", &dangling).unwrap();
    for file in [fifo, made.kept(), dangling, made.workspace.path("absent")] {
        verify(&file, &policy, &[]).assert_refused("receipt");
        verify(&made.file(), &file, &[]).assert_refused("receipt");
    }
}

#[test]
fn what_a_terminal_could_obey_is_escaped() {
    let made = Made::new();
    let good = made.good();
    let hostile = "\u{1b}[2J\n\u{202e}the receipt is as it should be";
    let other = bent(&good, "/groom_ns/sha256", json!(hostile));
    let run = made.verify_value(&other, "");
    assert_eq!(
        (run.code, run.stdout.lines().count()),
        (Some(1), 1),
        "{run:#?}"
    );
    assert!(run.stdout.contains("\\u{1b}[2J\\n\\u{202e}the"), "{run:#?}");
    for at in ["/end/cause/kind", "/receipt", "/jail/\u{1b}[2J"] {
        let run = made.verify_value(&bent(&good, at, json!(hostile)), "");
        run.assert_refused("receipt");
        assert!(!run.stderr.contains('\u{1b}'), "{run:#?}");
    }
}

#[test]
fn deviations_come_as_json_too() {
    let made = Made::new();
    let good = made.good();
    let other = bent(&good, "/jail/init/no_new_privs", json!(false));
    fs::write(made.file(), other.to_string()).unwrap();
    let policy = made.workspace.file("kept/policy.toml", "exit-code = [0]");
    let run = verify(&made.file(), &policy, &["--json"]);
    let said: Value = serde_json::from_str(&run.stdout).unwrap();
    let deviation = json!({
        "what": "jail.init.no_new_privs", "expected": "true", "found": "false",
    });
    assert_eq!(said, json!({"holds": false, "deviations": [deviation]}));
    fs::write(made.file(), "{}").unwrap();
    let run = verify(&made.file(), &policy, &["--json"]);
    assert_eq!(run.code, Some(125), "{run:#?}");
    let said: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(said["reason"], "receipt");
}
