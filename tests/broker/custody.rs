//! The key: in no process of the jail, in no log, plan, refusal or error.

use std::fmt::Write as _;
use std::fs;

use crate::common::host::{path_str, processes_named, processes_with, unique};
use crate::common::http::holds;
use crate::common::jail::{finish, wait_for_line};
use crate::common::upstream::ok;
use crate::common::{Broker, Jail, Run, Upstream, is_root};
use crate::hostile::get;
use crate::in_run::{SOCKET, Setup, item};

/// As the probe's `scan` takes a needle: the complement of each byte.
fn masked(needle: &str) -> String {
    needle.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{:02x}", !byte).expect("a string takes text");
        hex
    })
}

fn assert_silent(run: &Run, key: &str) {
    assert!(
        !run.stdout.contains(key) && !run.stderr.contains(key),
        "{run:#?}"
    );
}

/// The ways in which a run gets its key.
fn given(setup: &Setup) -> Vec<(&'static str, Jail)> {
    let in_file = || fs::File::open(setup.key_file()).expect("a key");
    let spec = format!("7:{}", path_str(&setup.key_file()));
    let through_fd = setup.without_key().in_situation(&["with-fds", &spec]);
    vec![
        ("--key-file", setup.jail()),
        (
            "--key-stdin",
            setup
                .without_key()
                .switch("--key-stdin")
                .stdio(0, in_file()),
        ),
        (
            "--key-env",
            setup
                .without_key()
                .flag("--key-env", "SECRET")
                .host_env("SECRET", &setup.key),
        ),
        ("--key-fd", through_fd.flag("--key-fd", "7")),
    ]
}

#[test]
fn it_is_in_no_process_of_the_jail() {
    let setup = Setup::new(Upstream::start(|_| ok("spent")));
    let needle = masked(&setup.key);
    for (how, jail) in given(&setup) {
        // It is used first, so that it has been wherever it goes.
        let spend = item("shim", "/v1/models", &["x-api-key: {token}"]);
        let run = jail.run(&[
            "seq",
            &spend,
            "reread-stdin",
            &format!("scan {needle}"),
            &spend,
        ]);
        let lines = run.lines();
        assert_eq!(lines[0], "ok 200 spent", "{how}: {run:#?}");
        assert!(lines[2].starts_with("ok 0 in "), "{how}: {run:#?}");
        assert_silent(&run, &setup.key);
        let requests = setup.upstream.requests();
        let key = requests.last().expect("a request").head.one("x-api-key");
        assert_eq!(key, Some(setup.key.as_str()), "{how}");
    }
    // Control: in a run without a broker it may be the command's, and is found.
    let own = format!("OWN={}", setup.key);
    let run = setup
        .workspace
        .jail()
        .flag("--env", &own)
        .run(&["scan", &needle]);
    assert!(!run.ok().starts_with("0 in "), "vacuous: {run:#?}");
    // In one with a broker it is refused.
    let refused = setup.jail().flag("--env", &own).refused("key");
    assert_silent(&refused, &setup.key);
}

#[test]
fn it_is_in_no_process_of_the_jail_seen_from_outside() {
    let setup = Setup::new(Upstream::start(|_| ok("spent")));
    let (binary, name) = setup.workspace.named_binary();
    for (how, jail) in given(&setup) {
        let marker = unique("marker");
        let spend = item("shim", "/v1/models", &["x-api-key: {token}"]);
        let sleep = format!("sleep 60 {marker}");
        let mut child = jail.binary(binary.clone()).start(&["seq", &spend, &sleep]);
        wait_for_line(&mut child, "ready");
        let supervisor = i32::try_from(child.id()).expect("a pid");
        // Everything below the supervisor: pid 1, and the command with its marker.
        let mut inside: Vec<i32> = processes_named(&name);
        inside.retain(|pid| *pid != supervisor);
        inside.extend(
            processes_with(&marker)
                .into_iter()
                .filter(|pid| in_another_pidns(*pid)),
        );
        inside.sort_unstable();
        inside.dedup();
        assert!(
            inside.len() >= 2,
            "{how}: pid 1 and the command: {inside:?}"
        );
        let pids: Vec<String> = inside.iter().map(ToString::to_string).collect();
        let needle = masked(&setup.key);
        let mut words = vec!["scan-pids", &needle];
        words.extend(pids.iter().map(String::as_str));
        let scan = setup.workspace.unjailed(&words);
        let own = supervisor.to_string();
        let control = setup.workspace.unjailed(&["scan-pids", &needle, &own]);
        child.kill().expect("our child");
        let run = finish(child);
        assert!(scan.ok().starts_with("0 in "), "{how}: {scan:#?}, {run:#?}");
        assert!(
            !scan.ok().starts_with("0 in 0 files"),
            "{how}: nothing could be read"
        );
        if is_root() {
            // Root may look into the supervisor, where the key must be.
            assert!(
                !control.ok().starts_with("0 in "),
                "{how}: vacuous: {control:#?}"
            );
            assert!(control.ok().contains("/mem"), "{how}: {control:#?}");
        } else {
            // A user may not, and it is in nothing that it may see.
            assert!(control.ok().starts_with("0 in "), "{how}: {control:#?}");
        }
        let places = ["environ", "cmdline"];
        let file = |place: &str| format!("{supervisor}/{place}");
        assert!(
            places
                .into_iter()
                .map(file)
                .all(|f| !control.ok().contains(&f)),
            "{how}: {control:#?}"
        );
    }
}

fn in_another_pidns(pid: i32) -> bool {
    let own = fs::read_link("/proc/self/ns/pid").ok();
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm == "probe\n" && fs::read_link(format!("/proc/{pid}/ns/pid")).ok() != own
}

#[test]
fn it_is_in_no_plan_log_or_receipt() {
    let setup = Setup::new(Upstream::start(|_| ok("spent")));
    for plan in ["--plan", "--plan=json"] {
        for (how, jail) in given(&setup) {
            let run = jail.switch(plan).run(&["exit", "0"]);
            assert_eq!(run.code, Some(0), "{how}: {run:#?}");
            assert!(run.stdout.contains("anthropic"), "{how}: {run:#?}");
            assert_silent(&run, &setup.key);
        }
    }
    for (how, jail) in given(&setup) {
        let run = jail.run(&["seq", &item(SOCKET, "/v1/models", &["x-api-key: {token}"])]);
        assert_eq!(run.lines(), ["ok 200 spent"], "{how}");
        assert_silent(&run, &setup.key);
    }
    let log = fs::read_to_string(setup.log()).expect("a log");
    assert_eq!(log.lines().count(), 4, "{log}");
    assert!(!log.contains(&setup.key), "{log}");
}

#[test]
fn it_is_in_no_refusal() {
    let upstream = Upstream::start(|_| ok("spent"));
    let canary = unique("canary");
    let bad = [
        String::new(),
        "  \n".into(),
        format!("{canary}\u{1}{canary}"),
        format!("{canary} {canary}"),
        format!("{canary}\0{canary}"),
        format!("{canary}\u{e4}"),
        canary.repeat(3 << 10),
    ];
    for key in bad {
        let run = Broker::before(&upstream).key(&key).refused("key");
        assert_silent(&run, &canary);
        let setup = Setup::new(Upstream::start(|_| ok("spent")));
        let file = setup.workspace.file("bad-key", &key);
        let run = setup.without_key().flag("--key-file", file).refused("key");
        assert_silent(&run, &canary);
    }
    // There is no flag that takes the key itself, and no echo of what was tried.
    for flags in [&["--key"][..], &["--api-key"]] {
        let start = Broker::before(&upstream).without_key_file();
        let mut command = start.command();
        command.arg(format!("{}={canary}", flags[0]));
        let run = crate::common::broker::refused(command, "usage");
        assert_silent(&run, &canary);
    }
}

#[test]
fn alone_it_is_in_no_place_of_proc() {
    let upstream = Upstream::start(|_| ok("spent"));
    let start = Broker::before(&upstream).without_key_file();
    let key = start.real_key().to_owned();
    let broker = start
        .env("SECRET", &key)
        .env("ANOTHER", &format!("Bearer {key};"))
        .flag("--key-env", "SECRET")
        .start();
    assert_eq!(broker.client().ask(&get("/v1/models")).whole(), b"spent");
    for name in ["environ", "cmdline", "comm", "status", "maps"] {
        // A user may not even open some of them.
        if let Ok(bytes) = fs::read(format!("/proc/{}/{name}", broker.pid())) {
            assert!(!holds(&bytes, key.as_bytes()), "{name}");
        } else {
            assert!(!is_root(), "{name} can't be read by root");
        }
    }
    let mut control = std::process::Command::new("sleep");
    let mut control = control
        .arg("60")
        .env("SECRET", &key)
        .spawn()
        .expect("sleep starts");
    // The kernel shows it a moment after the execution has begun.
    let environ = loop {
        let environ = fs::read(format!("/proc/{}/environ", control.id())).expect("a child of ours");
        if !environ.is_empty() {
            break environ;
        }
    };
    control.kill().expect("our child");
    control.wait().expect("our child");
    assert!(holds(&environ, key.as_bytes()), "vacuous");
    let (run, log) = broker.stop();
    assert_silent(&run, &key);
    assert!(!log.contains(&key), "{log}");
}

/// Every place of a process's writable memory where `needle` stands: the mapping's
/// flags (smaps, VmFlags).
fn places_in_memory(pid: i32, needle: &[u8]) -> std::io::Result<Vec<String>> {
    use std::os::unix::fs::FileExt as _;
    let memory = fs::File::open(format!("/proc/{pid}/mem"))?;
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps"))?;
    let mut found = Vec::new();
    let mut mapping = None;
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((start, end)) = words[0].split_once('-')
            && words[1].starts_with("rw")
        {
            let hex = |text: &str| u64::from_str_radix(text, 16).expect("an address");
            mapping = Some((hex(start), hex(end)));
        }
        if words[0] == "VmFlags:"
            && let Some((start, end)) = mapping.take()
        {
            let mut bytes = vec![0; usize::try_from(end - start).expect("a size")];
            // What can't be read holds nothing ([vvar]).
            if memory.read_exact_at(&mut bytes, start).is_ok() {
                let hits = bytes.windows(needle.len()).filter(|part| *part == needle);
                found.extend(hits.map(|_| words[1..].join(" ")));
            }
        }
    }
    Ok(found)
}

#[test]
fn alone_it_is_in_locked_pages_and_nowhere_else() {
    let upstream = Upstream::start(|_| ok("spent"));
    let start = Broker::before(&upstream).without_key_file();
    let key = start.real_key().to_owned();
    let broker = start
        .env("SECRET", &key)
        // A second variable with it is nobody's to read either.
        .env("ANOTHER", &format!("key={key}"))
        .flag("--key-env", "SECRET")
        .start();
    // Before the first request: hyper's and TLS's buffers aren't in its hands.
    let found = places_in_memory(broker.pid(), key.as_bytes());
    if !is_root() {
        assert!(found.is_err(), "a user's process can read it: {found:?}");
        return;
    }
    let found = found.expect("root reads it");
    assert!(!found.is_empty(), "vacuous");
    for flags in &found {
        for flag in ["lo", "dd", "wf"] {
            assert!(flags.split(' ').any(|one| one == flag), "{flag}: {found:?}");
        }
    }
    drop(broker);
}
