//! What was typed: strings only. Nothing here looks at the host or judges a
//! path; that is `policy`'s work.

mod broker;
mod check;
mod limits;
mod pages;
mod profile;
mod prove;
mod run;
mod verify;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

use crate::refusal::{Reason, Refusal, shown};

pub use broker::{Broker, BrokerArgs, KeyArgs, Provider, Shim};
pub use check::{Check, Setup, SetupApparmor, SetupWhat};
pub use limits::Limits;
pub use profile::{ProfileFile, Said};
pub use prove::{Probe, Prove};
pub use run::{CloneMode, Landlock, PlanFormat, Run};
pub use verify::Verify;

/// What the caller typed after `groom-ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `groom-ns run`.
    Run(Box<Run>),
    /// `groom-ns broker`.
    Broker(Box<Broker>),
    /// `groom-ns shim`.
    Shim(Shim),
    /// `groom-ns prove`.
    Prove(Prove),
    /// `groom-ns check`.
    Check(Check),
    /// `groom-ns setup`.
    Setup(Setup),
    /// `groom-ns verify`.
    Verify(Verify),
    /// What `groom-ns prove` starts.
    Probe(Probe),
    /// `--help`, `--version`, `groom-ns completions` and `groom-ns man`: this text goes
    /// to stdout, and the exit code is 0.
    Print(String),
}

impl Command {
    /// Whether a refusal is to be printed as JSON.
    pub fn json_errors(&self) -> bool {
        match self {
            Command::Run(run) => run.json_errors,
            Command::Broker(broker) => broker.json_errors,
            Command::Shim(shim) => shim.json_errors,
            Command::Prove(prove) => prove.json,
            Command::Check(check) => check.json,
            Command::Setup(Setup {
                what: SetupWhat::Apparmor(apparmor),
            }) => apparmor.json_errors,
            Command::Verify(verify) => verify.json,
            Command::Probe(_) | Command::Print(_) => false,
        }
    }
}

/// A command line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// Reason `usage`, or the profile's reader's.
    pub refusal: Refusal,
    /// `--json-errors` was among the arguments before `--`, or in the profile.
    pub json: bool,
    /// The line's own flags, where it is a `run` without `--plan` and each by itself can
    /// be read.
    pub run: Option<Box<Run>>,
}

#[derive(Parser)]
#[command(
    name = "groom-ns",
    version,
    about = "Runs an untrusted command in a jail of Linux namespaces, or refuses.",
    after_help = "Try: groom-ns run -- ls -la",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
enum Sub {
    Run(Box<Run>),
    Broker(Box<Broker>),
    Shim(Shim),
    Prove(Prove),
    Check(Check),
    Setup(Setup),
    Completions(pages::Completions),
    Man(pages::Man),
    Verify(Verify),
    #[command(hide = true)]
    Probe(Probe),
}

/// The same for a line that says `run`, without the flags of all other subcommands: to
/// make them is most of what reading such a line takes.
#[derive(Parser)]
#[command(name = "groom-ns", disable_help_subcommand = true)]
struct RunAlone {
    #[command(subcommand)]
    command: RunSub,
}

#[derive(Subcommand)]
enum RunSub {
    Run(Box<Run>),
}

/// Reads a command line without a profile, the program's own name first.
///
/// # Errors
/// [`UsageError`] with reason `usage` for whatever clap doesn't accept.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    parse_with(args, |path| {
        Err(Refusal::new(Reason::Usage, "read --profile")
            .path(path)
            .remedy("nothing is read here"))
    })
}

/// The same; `read` brings the file that `--profile` names.
///
/// # Errors
/// [`parse`]'s, and what `read` refuses.
pub fn parse_with(
    args: impl IntoIterator<Item = OsString>,
    read: impl FnOnce(&Path) -> Result<(ProfileFile, Vec<u8>), Refusal>,
) -> Result<Command, UsageError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let parsed = match profile::typed(&args) {
        Some(typed) => profile::merge(&args, &typed, read),
        None => strict(&args).and_then(profile::read_or_none),
    };
    parsed.map_err(|error| UsageError {
        run: profile::typed_alone(&args),
        ..error
    })
}

/// As clap has it, all rules applied.
fn strict(args: &[OsString]) -> Result<Command, UsageError> {
    let parsed = if args.get(1).is_some_and(|word| word == "run") {
        RunAlone::try_parse_from(args).map(
            |RunAlone {
                 command: RunSub::Run(run),
             }| Sub::Run(run),
        )
    } else {
        Cli::try_parse_from(args).map(|cli| cli.command)
    };
    match parsed {
        Ok(command) => Ok(match command {
            Sub::Run(run) => Command::Run(run),
            Sub::Broker(broker) => Command::Broker(broker),
            Sub::Shim(shim) => Command::Shim(shim),
            Sub::Prove(prove) => Command::Prove(prove),
            Sub::Check(check) => Command::Check(check),
            Sub::Setup(setup) => Command::Setup(setup),
            Sub::Completions(asked) => Command::Print(asked.text()),
            Sub::Man(asked) => Command::Print(asked.text().map_err(|refusal| UsageError {
                refusal,
                json: false,
                run: None,
            })?),
            Sub::Verify(verify) => Command::Verify(verify),
            Sub::Probe(probe) => Command::Probe(probe),
        }),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Command::Print(error.to_string()))
            }
            _ => Err(UsageError {
                refusal: refuse(&error, args.get(1)),
                json: wants_json(args),
                run: None,
            }),
        },
    }
}

/// Looked for by hand: clap gives nothing back from a line that it can't read.
fn wants_json(args: &[OsString]) -> bool {
    let flag = match args.get(1) {
        Some(word) if ["prove", "check", "verify"].iter().any(|one| word == one) => "--json",
        _ => "--json-errors",
    };
    args.iter()
        .skip(1)
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == flag)
}

/// The first paragraph of clap's message as one line, with the control
/// characters of what was typed escaped.
fn refuse(error: &clap::Error, subcommand: Option<&OsString>) -> Refusal {
    let refusal = Refusal::new(Reason::Usage, "read the command line");
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return refusal
            .about("no subcommand")
            .remedy("try `groom-ns run -- CMD`, or see `groom-ns --help`");
    }
    let text = error.to_string();
    let paragraph: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let line = paragraph.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let refusal = refusal.about(shown(Path::new(line)));
    if let Some(meant) = meant(error) {
        return refusal.remedy(format!("did you mean `{meant}`?"));
    }
    refusal.remedy(match subcommand.and_then(|word| OsStr::to_str(word)) {
        Some("broker") => "see `groom-ns broker --help`",
        Some("prove") => "see `groom-ns prove --help`",
        Some("completions") => "as in `groom-ns completions bash`",
        Some("man") => "as in `groom-ns man run`",
        Some("check") => "see `groom-ns check --help`",
        Some("setup") => "as in `groom-ns setup apparmor --print`",
        Some("verify") => "see `groom-ns verify --help`",
        Some("shim") => "as in `groom-ns shim 8080 /run/broker.sock`",
        Some("run") if !wants_command(error) => "see `groom-ns run --help`",
        Some("help") => "see `groom-ns --help`",
        _ => "the command follows `--`, as in `groom-ns run -- CMD`; see `groom-ns run --help`",
    })
}

/// Whether a command was forgotten, or the dashes before it: a word that isn't a flag.
fn wants_command(error: &clap::Error) -> bool {
    match error.kind() {
        ErrorKind::MissingRequiredArgument => true,
        ErrorKind::UnknownArgument => matches!(
            error.get(ContextKind::InvalidArg),
            Some(ContextValue::String(word)) if !word.starts_with('-')
        ),
        _ => false,
    }
}

/// The flag, value or subcommand that is nearest to what isn't known.
fn meant(error: &clap::Error) -> Option<&str> {
    let kinds = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
        ContextKind::SuggestedSubcommand,
    ];
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.as_str()),
        ContextValue::Strings(words) => words.first().map(String::as_str),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
