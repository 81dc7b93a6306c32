//! Whole command lines.

use std::path::PathBuf;

use super::*;

fn parse_line(line: &[&str]) -> Result<Command, UsageError> {
    parse(line.iter().map(OsString::from))
}

fn run(line: &[&str]) -> Run {
    match parse_line(line) {
        Ok(Command::Run(run)) => *run,
        other => panic!("{line:?}: {other:?}"),
    }
}

#[test]
fn defaults() {
    let run = run(&["groom-ns", "run", "--", "true", "--plan"]);
    assert_eq!(run.clone_mode, CloneMode::Ro);
    assert_eq!(run.landlock, Landlock::Required);
    assert_eq!(run.plan, None);
    assert_eq!(run.command, ["true", "--plan"]);
    assert!(!run.json_errors && !run.allow_ptrace && run.clone.is_none());
    assert!(!run.git_worktree);
    assert!(!run.tty && !run.no_tty && run.timeout.is_none() && run.grace.is_none());
}

#[test]
fn of_tty_and_no_tty_the_last_counts() {
    for (flags, tty, no_tty) in [
        (&["--tty"][..], true, false),
        (&["--no-tty"], false, true),
        (&["--tty", "--no-tty"], false, true),
        (&["--no-tty", "--tty"], true, false),
    ] {
        let line = ["groom-ns", "run"].iter().chain(flags).chain(&["--", "x"]);
        let run = run(&line.copied().collect::<Vec<_>>());
        assert_eq!((run.tty, run.no_tty), (tty, no_tty), "{flags:?}");
    }
}

#[test]
fn every_flag() {
    let run = run(&[
        "groom-ns",
        "run",
        "--clone",
        "c",
        "--clone-mode",
        "rw-git-ro",
        "--git-worktree",
        "--out-dir=o",
        "--ro-file",
        "a",
        "--ro-file",
        "b",
        "--env",
        "A=1",
        "--env",
        "B",
        "--uds",
        "s",
        "--landlock",
        "best-effort",
        "--allow-ptrace",
        "--tty",
        "--timeout",
        "10m",
        "--grace=5s",
        "--memory=1G",
        "--pids=50",
        "--cpus=1.5",
        "--tmp-size=10%",
        "--file-size=1M",
        "--max-output=2M",
        "--plan=json",
        "--json-errors",
        "--",
        "x",
    ]);
    assert_eq!(run.clone_mode, CloneMode::RwGitRo);
    assert_eq!(run.ro_files, [PathBuf::from("a"), PathBuf::from("b")]);
    assert_eq!(run.env, ["A=1", "B"]);
    assert_eq!(run.plan, Some(PlanFormat::Json));
    assert!(run.json_errors && run.allow_ptrace && run.git_worktree && run.tty);
    assert_eq!(run.timeout.as_deref(), Some("10m"));
    assert_eq!(run.grace.as_deref(), Some("5s"));
    let limits = run.limits;
    let typed = [
        limits.memory,
        limits.pids,
        limits.cpus,
        limits.tmp_size,
        limits.file_size,
        limits.max_output,
    ];
    let words = ["1G", "50", "1.5", "10%", "1M", "2M"];
    assert_eq!(typed, words.map(|word| Some(word.to_owned())));
}

#[test]
fn plan_without_a_format_is_text() {
    let run = run(&["groom-ns", "run", "--plan", "--", "true"]);
    assert_eq!(run.plan, Some(PlanFormat::Text));
}

#[test]
fn usage_errors_are_one_line_with_reason_usage() {
    for (line, json) in [
        (&["groom-ns"][..], false),
        (&["groom-ns", "run"], false),
        (&["groom-ns", "run", "--"], false),
        (&["groom-ns", "run", "true"], false),
        (&["groom-ns", "run", "--json-errors", "true"], true),
        (&["groom-ns", "prove", "--json", "x"], true),
        (&["groom-ns", "prove", "--json-errors"], false),
        (&["groom-ns", "check", "--json", "x"], true),
        (&["groom-ns", "setup"], false),
        (
            &["groom-ns", "setup", "apparmor", "--json-errors", "x"],
            true,
        ),
        (&["groom-ns", "run", "--json", "--", "x"], false),
        (
            &["groom-ns", "run", "--nope", "--", "x", "--json-errors"],
            false,
        ),
        (&["groom-ns", "run", "--clone", "", "--", "x"], false),
        (
            &["groom-ns", "run", "--clone", "a", "--clone", "b", "--", "x"],
            false,
        ),
        (&["groom-ns", "run", "--bad\n\u{1b}[31m", "--", "x"], false),
    ] {
        let error = parse_line(line).expect_err("refused");
        assert_eq!(error.refusal.reason, Reason::Usage, "{line:?}");
        assert_eq!(error.json, json, "{line:?}");
        let text = error.refusal.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

#[test]
fn a_broker_in_a_run() {
    let run = run(&[
        "groom-ns",
        "run",
        "--broker",
        "custom",
        "--upstream=https://h/p",
        "--upstream-ca",
        "ca",
        "--key-fd",
        "7",
        "--auth-header",
        "X-Key: ",
        "--allow-route",
        "POST /a",
        "--allow-route",
        "GET /b",
        "--shim-port",
        "65535",
        "--broker-log",
        "l",
        "--",
        "x",
    ]);
    assert_eq!(run.broker, Some(Provider::Custom));
    assert_eq!(run.broker_args.upstream.as_deref(), Some("https://h/p"));
    assert_eq!(run.broker_args.auth_header.as_deref(), Some("X-Key: "));
    assert_eq!(run.broker_args.allow_routes, ["POST /a", "GET /b"]);
    assert_eq!(run.broker_args.key.key_fd, Some(7));
    assert!(!run.broker_args.key.key_stdin && run.broker_args.key.key_file.is_none());
    assert_eq!(run.shim_port, Some(65535));
}

#[test]
fn a_broker_alone_and_a_shim() {
    let line = "groom-ns broker gemini --listen unix:s --key-env K --ready-fd 9 --peer-uid 0 \
                --token-file t --log l --json-errors";
    let line: Vec<&str> = line.split_whitespace().collect();
    let Ok(Command::Broker(broker)) = parse_line(&line) else {
        panic!("a broker");
    };
    assert_eq!(broker.provider, Provider::Gemini);
    assert_eq!(broker.listen, "unix:s");
    assert_eq!(broker.args.key.key_env, Some("K".into()));
    assert_eq!((broker.ready_fd, broker.peer_uid), (Some(9), Some(0)));
    assert!(broker.json_errors && broker.token_file.is_some() && broker.log.is_some());
    let Ok(Command::Shim(shim)) = parse_line(&["groom-ns", "shim", "8080", "/run/s"]) else {
        panic!("a shim");
    };
    assert_eq!((shim.port, shim.socket), (8080, "/run/s".into()));
}

/// One key for one provider, and nothing of the broker's without one.
#[test]
fn flags_that_need_or_exclude_each_other() {
    for line in [
        "run --broker anthropic -- x",
        "run --broker nobody --key-stdin -- x",
        "run --broker anthropic --key-stdin --key-fd 3 -- x",
        "run --broker anthropic --key-stdin --key-stdin -- x",
        "run --broker anthropic --key-env A --key-file f -- x",
        "run --broker anthropic --key-stdin --uds s -- x",
        "run --broker custom --key-stdin -- x",
        "run --broker custom --key-stdin --upstream https://h -- x",
        "run --broker custom --key-stdin --auth-header H -- x",
        "run --broker anthropic --key-stdin --shim-port 65536 -- x",
        "run --broker anthropic --key-fd x -- x",
        "run --key-stdin -- x",
        "run --key-file f -- x",
        "run --key-fd 3 -- x",
        "run --key-env A -- x",
        "run --upstream https://h -- x",
        "run --upstream-ca f -- x",
        "run --auth-header H -- x",
        "run --allow-route r -- x",
        "run --shim-port 1 -- x",
        "run --broker-log f -- x",
        "run --uds s --key-stdin -- x",
        "run --uds s --key-env A -- x",
        "run --uds s --upstream https://h -- x",
        "run --uds s --allow-route r -- x",
        "run --uds s --shim-port 1 -- x",
        "run --uds s --broker-log f -- x",
        "broker",
        "broker anthropic --key-stdin",
        "broker anthropic --listen tcp:1",
        "broker --listen tcp:1 --key-stdin",
        "broker nobody --listen tcp:1 --key-stdin",
        "broker custom --listen tcp:1 --key-stdin --upstream https://h",
        "broker anthropic --listen tcp:1 --key-stdin --key-env A",
        "broker anthropic --listen tcp:1 --listen tcp:2 --key-stdin",
        "broker anthropic --listen tcp:1 --key-stdin --peer-uid -1",
        "broker anthropic --listen tcp:1 --key-stdin -- x",
        "shim",
        "shim 80",
        "shim x s",
        "shim 65536 s",
        "shim 80 s s",
    ] {
        let words: Vec<&str> = std::iter::once("groom-ns").chain(line.split(' ')).collect();
        let error = parse_line(&words).expect_err(line);
        assert_eq!(error.refusal.reason, Reason::Usage, "{line}");
        let help = line.split(' ').next().unwrap_or_default();
        assert!(error.refusal.remedy.contains(help), "{}", error.refusal);
    }
}

#[test]
fn help_and_version_are_printed() {
    for line in [
        &["groom-ns", "--help"][..],
        &["groom-ns", "--version"],
        &["groom-ns", "run", "--help"],
        &["groom-ns", "broker", "--help"],
        &["groom-ns", "shim", "--help"],
    ] {
        assert!(
            matches!(parse_line(line), Ok(Command::Print(_))),
            "{line:?}"
        );
    }
}

/// A line that says `run` is read by [`RunAlone`]; nobody shall notice.
#[test]
fn a_run_is_read_as_among_all_subcommands() {
    let (mut read, mut refused) = (0, 0);
    for line in [
        "run -- true",
        "run --clone c --clone-mode=rw-git-ro --out-dir o --ro-file a --ro-file b -- x -y",
        "run --broker custom --upstream https://h --auth-header H --key-fd 7 --shim-port 1 -- x",
        "run --plan --json-errors --tty --no-tty --memory 1G -- x",
        "run --help",
        "run -h",
        "run --version",
        "run -V",
        "run",
        "run --",
        "run true",
        "run help",
        "run --clon c -- x",
        "run --clone a --clone b -- x",
        "run --clone-mode wr -- x",
        "run --shim-port 65536 -- x",
        "run --key-stdin --key-fd 3 -- x",
        "run --broker custom --key-stdin -- x",
        "run --clone",
    ] {
        let words = || std::iter::once("groom-ns").chain(line.split(' '));
        let alone = RunAlone::try_parse_from(words());
        let whole = Cli::try_parse_from(words());
        match (alone, whole) {
            (Ok(alone), Ok(whole)) => {
                let RunSub::Run(run) = alone.command;
                assert!(
                    matches!(whole.command, Sub::Run(other) if other == run),
                    "{line}"
                );
                read += 1;
            }
            (Err(alone), Err(whole)) => {
                assert_eq!(alone.kind(), whole.kind(), "{line}");
                assert_eq!(alone.to_string(), whole.to_string(), "{line}");
                assert_eq!(meant(&alone), meant(&whole), "{line}");
                refused += 1;
            }
            (alone, whole) => panic!("{line}: {} {}", alone.is_ok(), whole.is_ok()),
        }
    }
    assert_eq!((read, refused), (4, 15));
}
