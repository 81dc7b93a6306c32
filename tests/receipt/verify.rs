//! `groom-ns verify` notices each thing that isn't as the policy says, and refuses what
//! it can't read.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::made::{Made, bent, verify};
use crate::common::path_str;

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
