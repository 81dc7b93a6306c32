//! How it ended, and what the broker did.

use std::fs;

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::made::Made;
use crate::common::Upstream;
use crate::common::host::unique;
use crate::common::jail::{finish, pid_of, wait_for_line};
use crate::common::upstream::answer;

#[test]
fn every_end_is_told() {
    let made = Made::new();
    for (argv, code, cause) in [
        (&["true"][..], 0, json!({"kind": "exited", "code": 0})),
        (
            &["sh", "-c", "exit 7"],
            7,
            json!({"kind": "exited", "code": 7}),
        ),
        (
            &["sh", "-c", "kill -KILL $$"],
            137,
            json!({"kind": "killed", "signal": 9}),
        ),
        (
            &["/no/such/program"],
            127,
            json!({"kind": "not-executed", "program": "/no/such/program", "errno": "ENOENT"}),
        ),
    ] {
        let (run, receipt) = made.of(made.jail(), argv);
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert_eq!(receipt["end"]["code"], code);
        assert_eq!(receipt["end"]["cause"], cause);
        assert_eq!(receipt["end"]["phase"], "running");
        let verified = made.verify("");
        assert_eq!(verified.code, Some(0), "{argv:?}: {verified:#?}");
    }
}

/// What groom-ns itself put an end to, and the policy that asks for it.
#[test]
fn an_end_by_a_limit_is_told() {
    let made = Made::new();
    let timed = |flag: &str, time: &str| made.jail().flag(flag, time).flag("--grace", "100ms");
    for (jail, argv, code, cause, policy) in [
        (
            timed("--timeout", "50ms"),
            &["sleep", "1000"][..],
            124,
            json!({"kind": "timed-out", "limit_ms": 50}),
            "timeout-max-s = 1",
        ),
        (
            made.jail().flag("--max-output", "1000"),
            &["yes"],
            137,
            json!({"kind": "limit", "which": "max-output", "value": 1000}),
            "max-output = 1000",
        ),
        (
            made.jail().flag("--file-size", "1000"),
            &["sh", "-c", "exec head -c 1001 /dev/zero > /tmp/file"],
            153,
            json!({"kind": "limit", "which": "file-size", "value": 1000}),
            "rlimits = { fsize = 1000 }",
        ),
    ] {
        let (run, receipt) = made.of(jail, argv);
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert_eq!(receipt["end"]["cause"], cause);
        let verified = made.verify(policy);
        assert_eq!(verified.code, Some(0), "{argv:?}: {verified:#?}");
        // An end and its code tell the same.
        let mut bent = receipt;
        bent["end"]["code"] = json!(0);
        assert_eq!(made.verify_value(&bent, "").code, Some(1));
        // No receipt of groom-ns's writing, which the next run would refuse to replace.
        fs::remove_file(made.file()).unwrap();
    }
}

#[test]
fn a_terminal_a_profile_and_denials_are_told() {
    let made = Made::new();
    let (_, plain) = made.of(made.jail(), &["true"]);
    let names = ["profile", "denials"].map(|name| plain.get(name));
    assert_eq!((&plain["tty"], names), (&json!(false), [None, None]));

    let profile = made.workspace.file("kept/profile.toml", "timeout = \"1h\"");
    let jail = made
        .jail()
        .switch("--tty")
        .switch("--explain-denials")
        .flag("--profile", &profile);
    let (run, receipt) = made.of(jail, &["unshare", "--mount", "true"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert_eq!(receipt["tty"], true);
    let open = receipt["jail"]["descriptors"]["open"].as_array().unwrap();
    let open: Vec<_> = open
        .iter()
        .map(|fd| (fd["fd"].as_u64(), fd["access"].as_str()))
        .collect();
    assert_eq!(open, [0, 1, 2].map(|fd| (Some(fd), Some("both"))));
    assert_eq!(receipt["profile"], profile.to_str().unwrap());
    assert_eq!(receipt["supervised"]["timeout_ms"], 3_600_000);
    let calls = receipt["denials"]["calls"].as_array().unwrap();
    let unshare = calls.iter().find(|call| call["syscall"] == "unshare");
    let unshare = unshare.unwrap_or_else(|| panic!("{calls:?}"));
    assert_eq!(
        (&unshare["count"], &unshare["errno"]),
        (&json!(1), &json!("EPERM"))
    );
    assert_eq!(unshare["program"]["comm"], "unshare");
    assert_eq!(made.verify("").code, Some(0));
    assert_eq!(made.verify("denials = false").code, Some(1));
}

#[test]
fn a_signal_to_groom_ns_is_told() {
    let made = Made::new();
    let argv = ["sh", "-c", "echo ready; exec sleep 1000"];
    let mut child = made.jail().command(&argv).spawn().unwrap();
    wait_for_line(&mut child, "ready");
    kill(pid_of(&child), Signal::SIGTERM).unwrap();
    let run = finish(child);
    assert_eq!(run.code, Some(143), "{run:#?}");
    let receipt: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(made.file()).unwrap()).unwrap();
    assert_eq!(
        receipt["end"]["cause"],
        json!({"kind": "killed", "signal": 15})
    );
}

#[test]
fn what_was_used_is_told() {
    let made = Made::new();
    // It burns until its own clock says so.
    let burn = "import time; bytearray(64 << 20)\nwhile time.process_time() < 0.2: pass";
    let (run, receipt) = made.of(made.jail(), &["python3", "-c", burn]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let usage = &receipt["usage"];
    let ms = |name: &str| usage[name].as_f64().unwrap();
    assert!(ms("user_ms") + ms("system_ms") >= 200.0, "{usage}");
    assert!(
        usage["max_rss_bytes"].as_u64().unwrap() > 64 << 20,
        "{usage}"
    );
    let times = &receipt["times"];
    assert!(times["command_ms"].as_f64().unwrap() >= 200.0, "{times}");
    assert!(made.good()["usage"]["max_rss_bytes"].as_u64().unwrap() < 64 << 20);
}

#[test]
fn the_brokers_totals_are_told_and_neither_key_nor_token() {
    let made = Made::new();
    let body = br#"{"model":"m","usage":{"input_tokens":5,"output_tokens":7}}"#;
    let upstream =
        Upstream::start(move |_| answer("200 OK", &[("Content-Type", "application/json")], body));
    let key = unique("sk-ant-api03-canary");
    let key_file = made.workspace.file("kept/key", &key);
    let jail = made
        .jail()
        .flag("--broker", "anthropic")
        .flag("--upstream", upstream.url())
        .flag("--upstream-ca", upstream.ca_file())
        .flag("--key-file", &key_file)
        .without_env("HTTPS_PROXY")
        .without_env("https_proxy");
    let ask = "import os, urllib.request as web, urllib.error
key, url = os.environ['ANTHROPIC_API_KEY'], os.environ['ANTHROPIC_BASE_URL']
print(key)
def ask(path):
    try: web.urlopen(web.Request(url + path, headers={'x-api-key': key})).read()
    except urllib.error.HTTPError: pass
ask('/v1/models'); ask('/v1/models'); ask('/v1/elsewhere')";
    let (run, receipt) = made.of(jail, &["python3", "-c", ask]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        upstream.got(key.as_bytes()),
        "vacuous: the key wasn't spent"
    );
    let token = run.stdout.trim();
    assert!(token.len() > 8, "vacuous: {run:#?}");
    let text = fs::read_to_string(made.file()).unwrap();
    assert!(!text.contains(&key) && !text.contains(token), "{text}");
    let broker = &receipt["broker"];
    assert_eq!(broker["provider"], "anthropic");
    assert_eq!(broker["upstream"], upstream.url());
    let totals = &broker["totals"];
    assert_eq!(totals["requests"], 3);
    assert_eq!(totals["by_status"], json!({"200": 2, "404": 1}));
    assert_eq!(
        (&totals["input_tokens"], &totals["output_tokens"]),
        (&json!(10), &json!(14))
    );
    assert!(totals["bytes_out"].as_u64().unwrap() >= 2 * body.len() as u64);
    for (policy, code) in [
        ("broker.max-requests = 3", 0),
        ("broker.max-requests = 2", 1),
        ("broker.max-output-tokens = 14", 0),
        ("broker.max-output-tokens = 13", 1),
        ("broker.allowed = true", 0),
        ("broker.allowed = false", 1),
        ("broker.provider = ['anthropic']", 0),
        ("broker.provider = ['openai']", 1),
        ("broker.upstream = ['https://api.anthropic.com']", 1),
        ("broker.routes = ['GET /v1/models']", 1),
    ] {
        let verified = made.verify(policy);
        assert_eq!(verified.code, Some(code), "{policy}: {verified:#?}");
    }
}
