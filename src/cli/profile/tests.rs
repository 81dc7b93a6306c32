//! Profiles as text, and what they make of a command line.

use clap::builder::PossibleValue;

use super::*;
use crate::cli::{Run, parse_with};

/// Parses `groom-ns run WORD…` with a profile of this text in /p, if there is one.
fn parse(profile: Option<&str>, words: &[String]) -> Result<Run, UsageError> {
    let mut line = vec!["groom-ns".to_owned(), "run".to_owned()];
    line.extend(profile.map(|_| "--profile=/p/file".to_owned()));
    line.extend_from_slice(words);
    let read = |path: &Path| {
        let file = ProfileFile {
            path: path.to_owned(),
            followed: Vec::new(),
            names_receipt: false,
            says: Vec::new(),
        };
        let text = profile.expect("a profile that was named");
        Ok((file, text.as_bytes().to_vec()))
    };
    match parse_with(line.into_iter().map(OsString::from), read)? {
        Command::Run(mut run) => {
            let found = run.found_profile.take();
            assert_eq!(run.profile.take().is_some(), profile.is_some());
            assert_eq!(found.is_some(), profile.is_some());
            Ok(*run)
        }
        other => panic!("{words:?}: {other:?}"),
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(ToOwned::to_owned).collect()
}

fn refused(profile: &str, line: &str) -> String {
    let error = parse(Some(profile), &words(line)).expect_err(profile);
    assert_eq!(error.refusal.reason, Reason::Usage, "{profile}");
    let text = error.refusal.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(!error.refusal.remedy.is_empty(), "{text}");
    text
}

/// A flag with a value that it takes: as words, and as a line of a profile.
struct Sample {
    arg: Arg,
    typed: Vec<String>,
    key: String,
}

/// Whatever flags `run` has; one whose values are unlike all of these needs one here.
const VALUES: [&str; 7] = ["/some/where", "7", "10m", "1.5", "64M", "GET /x", "A=1"];

fn samples() -> Vec<Sample> {
    let of = |arg: Arg| {
        let long = arg.get_long().unwrap_or_default().to_owned();
        let flag = |value: &str| format!("--{long}={value}");
        let (typed, key) = match arg.get_action() {
            ArgAction::SetTrue => (vec![format!("--{long}")], format!("{long} = true")),
            action => {
                let possible = arg.get_possible_values();
                let mut values: Vec<&str> = possible.iter().map(PossibleValue::get_name).collect();
                // The last is no default.
                values.reverse();
                values.extend(VALUES);
                let takes = |value: &&&str| {
                    let line = ["run".to_owned(), flag(value)];
                    loose().try_get_matches_from(line).is_ok()
                };
                let value = values.iter().find(takes);
                let value = value.unwrap_or_else(|| panic!("what does --{long} take?"));
                match action {
                    ArgAction::Append => (vec![flag(value)], format!("{long} = [{value:?}]")),
                    _ => (vec![flag(value)], format!("{long} = {value:?}")),
                }
            }
        };
        Sample { arg, typed, key }
    };
    let run = definition();
    let flags = run.get_arguments().filter(|arg| !arg.is_positional());
    let flags = flags.filter(|arg| arg.get_long() != Some(PROFILE));
    flags.cloned().map(of).collect()
}

/// What else must be typed for a flag to be taken: nothing, a broker, or another flag.
fn company(sample: &Sample, all: &[Sample]) -> Vec<String> {
    let command = || words("-- x");
    let brokers = [
        "",
        "--broker custom --upstream https://h --auth-header H --key-stdin",
        "--key-stdin",
        "--upstream https://h --auth-header H --key-stdin",
        "--broker openai",
        "--broker openai --key-stdin",
        "--broker custom --auth-header H --key-stdin",
        "--broker custom --upstream https://h --key-stdin",
    ];
    let brokers = brokers.into_iter().map(words);
    let others = all.iter().map(|other| other.typed.clone());
    let mut tried = brokers.chain(others).map(|more| [more, command()].concat());
    let taken = tried.find(|more| {
        let with = [&sample.typed[..], more].concat();
        parse(None, &with).is_ok()
    });
    taken.unwrap_or_else(|| panic!("what does {:?} need?", sample.typed))
}

#[test]
fn every_flag_can_be_said_by_a_profile() {
    let all = samples();
    assert!(all.len() > 20, "{}", all.len());
    for sample in &all {
        let company = company(sample, &all);
        let typed = parse(None, &[&sample.typed[..], &company].concat()).expect(&sample.key);
        let said =
            parse(Some(&sample.key), &company).unwrap_or_else(|error| panic!("{}", error.refusal));
        assert_eq!(said, typed, "{}", sample.key);
        if let Ok(without) = parse(None, &company) {
            assert_ne!(said, without, "vacuous: {}", sample.key);
        }
    }
}

/// A typed flag takes the place of the profile's, and one that may be repeated comes after it.
#[test]
fn what_is_typed_wins() {
    let all = samples();
    for sample in &all {
        let company = company(sample, &all);
        let typed = [&sample.typed[..], &company].concat();
        let both =
            parse(Some(&sample.key), &typed).unwrap_or_else(|error| panic!("{}", error.refusal));
        let expected = match sample.arg.get_action() {
            ArgAction::Append => parse(None, &[&sample.typed[..], &typed].concat()),
            _ => parse(None, &typed),
        };
        assert_eq!(Ok(both), expected, "{}", sample.key);
        let opposite = format!("--{}", opposite(sample.arg.get_long().unwrap_or_default()));
        if let Some(other) = all.iter().find(|other| other.typed == [&opposite[..]]) {
            let line = [&other.typed[..], &words("-- x")].concat();
            let both =
                parse(Some(&sample.key), &line).unwrap_or_else(|error| panic!("{}", error.refusal));
            assert_eq!(Ok(both), parse(None, &line), "{}", sample.key);
        }
    }
    let run = parse(
        Some("clone = 'a'\nenv = ['A=1']\ncommand = ['old', '1']"),
        &words("--clone b --env A=2 -- new"),
    );
    let run = run.expect("a run");
    assert_eq!(run.clone, Some("b".into()));
    assert_eq!(run.env, ["A=1", "A=2"]);
    assert_eq!(run.command, ["new"]);
    for (profile, line, is_quiet) in [
        ("quiet = true", "-- x", true),
        ("quiet = false", "-- x", false),
        ("quiet = true", "--verbose -- x", false),
        ("verbose = true", "--quiet -- x", true),
    ] {
        let run = parse(Some(profile), &words(line)).expect(profile);
        assert_eq!(run.quiet, is_quiet, "{profile} {line}");
    }
    assert_eq!(
        (opposite("tty"), opposite("no-tty")),
        ("no-tty".into(), "tty".into())
    );
}

#[test]
fn the_command_may_be_the_profiles() {
    let profile = "command = ['sh', '-c', 'echo \"$1\"', '--', '--clone']";
    for line in ["", "--"] {
        let run = parse(Some(profile), &words(line)).expect("a run");
        assert_eq!(run.command, ["sh", "-c", "echo \"$1\"", "--", "--clone"]);
    }
    for empty in ["", "command = []"] {
        let text = refused(empty, "--allow-ptrace");
        assert!(
            text.contains("no command") && text.contains("/p/file"),
            "{text}"
        );
    }
}

#[test]
fn paths_start_at_the_profile_and_other_values_do_not() {
    let profile = "clone = 'c'\nro-file = ['../r', '/abs']\nenv = ['e/f']\ncommand = ['./x']";
    let run = parse(Some(profile), &[]).expect("a run");
    assert_eq!(run.clone, Some("/p/c".into()));
    assert_eq!(run.ro_files, [PathBuf::from("/p/../r"), "/abs".into()]);
    assert_eq!(
        (run.env, run.command),
        (vec!["e/f".into()], vec!["./x".into()])
    );
}

#[test]
fn numbers_are_as_they_would_be_typed() {
    let line = words("--broker openai -- x");
    for (written, expected) in [("7", 7), ("'7'", 7), ("1_0", 10)] {
        let run = parse(Some(&format!("key-fd = {written}")), &line).expect(written);
        assert_eq!(run.broker_args.key.key_fd, Some(expected), "{written}");
    }
    for written in [
        "0x7",
        "0o7",
        "7.5",
        "-",
        "[7]",
        "2026-01-01",
        "true",
        "99999999999",
    ] {
        refused(&format!("key-fd = {written}"), "--broker openai -- x");
    }
}

#[test]
fn what_is_no_profile_is_refused_with_its_line() {
    for (profile, said) in [
        (
            "\n\nclon = 'x'",
            ":3: there is no key `clon`; did you mean `clone`?",
        ),
        (
            "allow_ptrace = true",
            ":1: there is no key `allow_ptrace`; did you mean `allow-ptrace`?",
        ),
        ("'--clone' = 'x'", "there is no key `--clone`"),
        ("help = true", "there is no key `help`"),
        ("'' = 1", "there is no key ``"),
        ("[run]\nclone = 'x'", ":1: there is no key `run`"),
        ("run.clone = 'x'", "there is no key `run`"),
        ("profile = '/q'", "a profile names no other"),
        ("clone = 1", ":1: `clone` takes a string"),
        ("clone = ['x']", "`clone` takes a string"),
        ("clone.x = 'x'", "`clone` takes a string"),
        ("clone = 'a\\u0000b'", "`clone` takes a string"),
        ("clone = ''", "a value is required"),
        ("#\nenv = 'A=1'", ":2: `env` takes an array of strings"),
        ("env = [1]", "`env` takes an array of strings"),
        ("env = [['A=1']]", "`env` takes an array of strings"),
        ("command = 'x'", "`command` takes an array of strings"),
        ("allow-ptrace = 'yes'", "`allow-ptrace` takes true or false"),
        ("plan = 1", "`plan` takes true, false or a string"),
        ("plan = 'yaml'", "invalid value 'yaml'"),
        ("\nclone-mode = 'rw'", ":2: invalid value 'rw'"),
        ("clone = 'a'\nclone = 'b'", ":2: duplicate key"),
        ("clone = ", ":1: "),
        ("\nclone", ":2: "),
        ("\u{1b}[31m", ":1: "),
    ] {
        let profile = profile.replace("'a\\u0000b'", "\"a\\u0000b\"");
        let text = refused(&profile, "-- x");
        assert!(
            text.contains(said) && text.contains("/p/file:"),
            "{profile}: {text}"
        );
    }
    let deep = "env = ".to_owned() + &"[".repeat(60_000);
    refused(&deep, "-- x");
}

#[test]
fn flags_that_exclude_each_other_are_both_named() {
    for (profile, line, flags) in [
        (
            "uds = 's'",
            "--broker openai --key-stdin -- x",
            ["--uds", "--broker"],
        ),
        (
            "broker = 'openai'\nkey-stdin = true",
            "--uds s -- x",
            ["--uds", "--broker"],
        ),
        (
            "key-env = 'A'",
            "--broker openai --key-stdin -- x",
            ["--key-env", "--key-stdin"],
        ),
        ("broker = 'openai'", "-- x", ["--key-file", "required"]),
    ] {
        let text = refused(profile, line);
        assert!(flags.iter().all(|flag| text.contains(flag)), "{text}");
        assert!(text.contains("/p/file"), "{text}");
    }
}

#[test]
fn refusals_are_json_where_the_profile_says_so() {
    for (profile, line, json) in [
        ("json-errors = true\nnope = 1", "-- x", true),
        ("nope = 1\njson-errors = true", "-- x", true),
        ("json-errors = false\nnope = 1", "-- x", false),
        ("json-errors = 1", "-- x", false),
        ("nope = 1", "--json-errors -- x", true),
        ("nope = 1", "-- x --json-errors", false),
        (
            "json-errors = true\nuds = 's'",
            "--broker openai --key-stdin -- x",
            true,
        ),
    ] {
        let error = parse(Some(profile), &words(line)).expect_err(profile);
        assert_eq!(error.json, json, "{profile}");
    }
}

#[test]
fn a_profile_that_was_not_read_is_no_run() {
    let line = words("groom-ns run --profile a -- x");
    let line: Vec<OsString> = line.into_iter().map(Into::into).collect();
    let unread = strict(&line).expect("clap takes it");
    let error = read_or_none(unread).expect_err("refused");
    assert_eq!(error.refusal.reason, Reason::Usage);
}

/// What is wrong with the typed line is said before a profile is looked for.
#[test]
fn the_typed_line_comes_first() {
    for line in [
        "--profile",
        "--profile=",
        "--profile a --profile b -- x",
        "--profile a --nope -- x",
        "--profile a x",
    ] {
        let words: Vec<OsString> = words(line).into_iter().map(Into::into).collect();
        let line = ["groom-ns".into(), "run".into()].into_iter().chain(words);
        let error = parse_with(line, |_| panic!("it is read")).expect_err("refused");
        assert_eq!(error.refusal.step, "read the command line");
    }
    for line in [
        "run --profile a --help",
        "run -- x --profile a",
        "prove --profile a",
    ] {
        let line = words(&format!("groom-ns {line}"));
        let _ = parse_with(line.into_iter().map(Into::into), |_| panic!("it is read"));
    }
}
