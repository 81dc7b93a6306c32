//! Command lines: what is taken means what was typed, and what isn't is one line.
//!
//! `fuzz/run.sh flags -max_total_time=300`

#![no_main]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use groom_ns::broker::alone::Listen;
use groom_ns::cli::{self, Command, ProfileFile};
use groom_ns::policy::{self, Kept};
use groom_ns::refusal::Refusal;
use libfuzzer_sys::fuzz_target;

#[path = "flags/again.rs"]
mod again;
#[path = "flags/broker.rs"]
mod broker;
#[path = "flags/run.rs"]
mod run;
#[path = "shared/said.rs"]
mod said;

// The words after `groom-ns`, with NUL bytes between: no word has one.
fuzz_target!(|input: &[u8]| {
    run::set_up();
    let words: Vec<OsString> = input
        .split(|byte| *byte == 0)
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect();
    profile(&words);
    match parse(&words) {
        Err(error) => {
            assert_eq!(error.refusal.reason.code(), "usage");
            assert_eq!(error.json, wants_json(&words));
            said::refusal(&error.refusal);
        }
        Ok(Command::Print(text)) => said::lines(&text),
        // Any words: nobody types them.
        Ok(Command::Probe(_)) => {}
        Ok(command) => {
            let again = again::words(&command).expect("a subcommand");
            assert_eq!(parse(&again).as_ref(), Ok(&command), "{again:?}");
            assert_eq!(command.json_errors(), wants_json(&words));
            judge(command, &words);
        }
    }
});

fn parse(words: &[OsString]) -> Result<Command, cli::UsageError> {
    cli::parse([OsString::from("groom-ns")].iter().chain(words).cloned())
}

/// The same line with a profile that holds its own name: what it says is taken, or one
/// line. What is typed stays.
fn profile(words: &[OsString]) {
    let line = [OsString::from("groom-ns")];
    let mut text = Vec::new();
    let parsed = cli::parse_with(line.iter().chain(words).cloned(), |path| {
        text = path.as_os_str().as_bytes().to_vec();
        let file = ProfileFile {
            path: "/profile".into(),
            followed: Vec::new(),
            names_receipt: false,
            says: Vec::new(),
        };
        Ok((file, text.clone()))
    });
    match parsed {
        Err(error) => said::refusal(&error.refusal),
        Ok(Command::Run(run)) if run.found_profile.is_some() => {
            let typed = words.iter().skip_while(|word| *word != "--").skip(1);
            let typed: Vec<&OsString> = typed.collect();
            assert!(typed.is_empty() || typed.into_iter().eq(&run.command));
            assert_eq!(
                run.profile
                    .as_deref()
                    .map(|path| path.as_os_str().as_bytes()),
                Some(&text[..])
            );
        }
        Ok(_) => assert!(text.is_empty()),
    }
}

fn wants_json(words: &[OsString]) -> bool {
    let flag = match words.first() {
        Some(word) if ["prove", "check", "verify"].iter().any(|one| word == one) => "--json",
        _ => "--json-errors",
    };
    let mut flags = words.iter().take_while(|word| *word != "--");
    flags.any(|word| word == flag)
}

fn judge(command: Command, words: &[OsString]) {
    match command {
        Command::Run(run) => {
            let typed = words.iter().skip_while(|word| *word != "--").skip(1);
            assert!(typed.eq(&run.command));
            broker::check(&run.broker_args);
            run::check(*run);
        }
        Command::Broker(mut alone) => {
            broker::check(&alone.args);
            // Files are made up in `policy`; here nothing is opened, made or waited for.
            broker::without_files(&mut alone.args);
            (alone.log, alone.token_file) = (None, None);
            match policy::judge_alone(&alone, Kept::default()) {
                Ok(judged) => check_listen(&alone, &judged.listen),
                Err(refusal) => quiet(&refusal, &alone.args),
            }
        }
        Command::Shim(_)
        | Command::Prove(_)
        | Command::Check(_)
        | Command::Setup(_)
        | Command::Verify(_)
        | Command::Probe(_)
        | Command::Print(_) => {}
    }
}

/// What isn't shown, since it may be a secret.
fn quiet(refusal: &Refusal, args: &cli::BrokerArgs) {
    said::refusal(refusal);
    let hidden = [&args.upstream, &args.auth_header];
    let is_marked = hidden
        .into_iter()
        .flatten()
        .any(|typed| typed.contains(run::MARK));
    let shown = args
        .allow_routes
        .iter()
        .any(|typed| typed.contains(run::MARK));
    assert!(!is_marked || shown || !refusal.to_string().contains(run::MARK));
}

fn check_listen(alone: &cli::Broker, listen: &Listen) {
    let typed = alone.listen.as_bytes();
    match listen {
        Listen::Tcp(port) => {
            let digits = typed.strip_prefix(b"tcp:").expect("a port");
            let digits = String::from_utf8(digits.to_vec()).unwrap();
            assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
            assert_eq!(
                digits.trim_start_matches('0'),
                port.to_string().trim_start_matches('0')
            );
            assert_eq!(alone.peer_uid, None);
        }
        Listen::Unix { name, path, .. } => {
            assert!(typed.starts_with(b"unix:"));
            let parent = path.parent().unwrap();
            assert_eq!(parent.canonicalize().unwrap(), parent);
            assert_eq!(path.file_name(), Some(name.as_os_str()));
            assert!(typed.ends_with(name.as_os_str().as_bytes()));
        }
    }
}
