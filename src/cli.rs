//! What was typed: strings only. Nothing here looks at the host or judges a
//! path; that is `policy`'s work.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::refusal::{Reason, Refusal, shown};

/// What the caller typed after `groom-ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `groom-ns run`.
    Run(Box<Run>),
    /// `--help` or `--version`: this text goes to stdout, and the exit code is 0.
    Print(String),
}

/// A command line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// Reason `usage`.
    pub refusal: Refusal,
    /// `--json-errors` was among the arguments before `--`.
    pub json: bool,
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
}

/// Run a command in the jail.
///
/// The command sees a read-only system (/usr, /etc), the clone, what --ro-file
/// names, one writable folder if --out-dir names one, and private temporary
/// folders: nothing else of this machine, and no network. If any part of the
/// jail can't be built, the command does not run and the exit code is 125.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = RUN_AFTER_HELP)]
pub struct Run {
    /// The checkout that the command works in, at the same path inside
    /// [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub clone: Option<PathBuf>,

    /// Whether the command may write to the clone
    #[arg(long, value_name = "MODE", value_enum, default_value = "ro")]
    pub clone_mode: CloneMode,

    /// A folder that the command may write to, at the same path inside; made if
    /// it isn't there
    #[arg(long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,

    /// A file or folder that the command may read and execute, at its own path; may
    /// be repeated
    #[arg(long = "ro-file", value_name = "PATH")]
    pub ro_files: Vec<PathBuf>,

    /// A variable for the command; KEY alone takes the value from groom-ns's own
    /// environment and so keeps it out of the process list; may be repeated
    #[arg(long, value_name = "KEY=VALUE|KEY")]
    pub env: Vec<OsString>,

    /// The listening socket of a key broker, shown at /run/broker.sock; it must
    /// answer `GET /healthz`
    #[arg(long, value_name = "SOCKET")]
    pub uds: Option<PathBuf>,

    /// Whether the jail may stand without landlock
    #[arg(long, value_name = "MODE", value_enum, default_value = "required")]
    pub landlock: Landlock,

    /// Let the command's processes trace each other (debuggers, LeakSanitizer)
    #[arg(long)]
    pub allow_ptrace: bool,

    /// Print every step in order and exit; nothing is run, made or mounted
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1,
          require_equals = true, default_missing_value = "text")]
    pub plan: Option<PlanFormat>,

    /// Print a refusal as one line of JSON
    #[arg(long)]
    pub json_errors: bool,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

const RUN_AFTER_HELP: &str = "\
Exit codes: the command's own; 128+n if signal n ended it; 126 if it can't be
executed, 127 if it isn't found, 125 if it did not run for any other reason.

Examples:
  groom-ns run -- make test
  groom-ns run --clone-mode rw-git-ro --out-dir ../out -- ./agent
  groom-ns run --plan -- true";

/// `--clone-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CloneMode {
    /// Nothing of the clone can be written
    Ro,
    /// The worktree can be written, no `.git` or bare repository in it can
    RwGitRo,
}

/// `--landlock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Landlock {
    /// Refuse where the kernel lacks it
    Required,
    /// Use what the kernel has, even nothing
    BestEffort,
}

/// `--plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// A line a step
    Text,
    /// The same as data
    Json,
}

/// Reads a command line, the program's own name first.
///
/// # Errors
/// [`UsageError`] with reason `usage` for whatever clap doesn't accept.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let args: Vec<OsString> = args.into_iter().collect();
    match Cli::try_parse_from(&args) {
        Ok(Cli {
            command: Sub::Run(run),
        }) => Ok(Command::Run(run)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Command::Print(error.to_string()))
            }
            _ => Err(UsageError {
                refusal: refuse(&error),
                json: wants_json(&args),
            }),
        },
    }
}

/// Looked for by hand: clap gives nothing back from a line that it can't read.
fn wants_json(args: &[OsString]) -> bool {
    args.iter()
        .skip(1)
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == "--json-errors")
}

/// The first paragraph of clap's message as one line, with the control
/// characters of what was typed escaped.
fn refuse(error: &clap::Error) -> Refusal {
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
    refusal
        .about(shown(Path::new(line)))
        .remedy("the command follows `--`, as in `groom-ns run -- CMD`; see `groom-ns run --help`")
}

#[cfg(test)]
mod tests {
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
            "--plan=json",
            "--json-errors",
            "--",
            "x",
        ]);
        assert_eq!(run.clone_mode, CloneMode::RwGitRo);
        assert_eq!(run.ro_files, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(run.env, ["A=1", "B"]);
        assert_eq!(run.plan, Some(PlanFormat::Json));
        assert!(run.json_errors && run.allow_ptrace);
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
    fn help_and_version_are_printed() {
        for line in [
            &["groom-ns", "--help"][..],
            &["groom-ns", "--version"],
            &["groom-ns", "run", "--help"],
        ] {
            assert!(
                matches!(parse_line(line), Ok(Command::Print(_))),
                "{line:?}"
            );
        }
    }
}
