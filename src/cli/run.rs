//! `groom-ns run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::ProfileFile;
use super::broker::{BrokerArgs, Provider};
use super::limits::Limits;
use crate::say::Loudness;

/// Run a command in the jail.
///
/// The command sees a read-only system (/usr, /etc), the clone, what --ro-file
/// names, one writable folder if --out-dir names one, and private temporary
/// folders: nothing else of this machine, and no network but for a key broker if
/// --broker starts one. If any part of the jail can't be built, the command does
/// not run and the exit code is 125.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = RUN_AFTER_HELP)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Run {
    /// Take flags, and the command, from this TOML file: a flag's long name is its key;
    /// what is typed wins; relative paths start at the file's folder
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub profile: Option<PathBuf>,

    /// Where it was found; there if it was read.
    #[arg(skip)]
    pub found_profile: Option<ProfileFile>,

    /// The checkout that the command works in, at the same path inside
    /// [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = SIGHT)]
    pub clone: Option<PathBuf>,

    /// Whether the command may write to the clone
    #[arg(long, value_name = "MODE", value_enum, default_value = "ro", help_heading = SIGHT)]
    pub clone_mode: CloneMode,

    /// If the clone is a linked worktree (git-worktree(1)), show the repository that it
    /// is linked to, read-only and at its own path; it must know the worktree
    #[arg(long, help_heading = SIGHT)]
    pub git_worktree: bool,

    /// A folder that the command may write to, at the same path inside; made if
    /// it isn't there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = SIGHT)]
    pub out_dir: Option<PathBuf>,

    /// A file or folder that the command may read and execute, at its own path; may
    /// be repeated
    #[arg(long = "ro-file", value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = SIGHT)]
    pub ro_files: Vec<PathBuf>,

    /// A variable for the command; KEY alone takes the value from groom-ns's own
    /// environment and so keeps it out of the process list; may be repeated
    #[arg(long, value_name = "KEY=VALUE|KEY", help_heading = SIGHT)]
    pub env: Vec<OsString>,

    /// The listening socket of a key broker, shown at /run/broker.sock; it must
    /// answer `GET /healthz`
    // Each by name: for a flag that conflicts clap asks for nothing else, --broker
    // included.
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["broker", "broker-flags", "key", "shim_port", "broker_log"], help_heading = BROKER)]
    pub uds: Option<PathBuf>,

    /// Start a key broker for this API: the command reaches it at /run/broker.sock
    /// and on a port of 127.0.0.1, and never sees the key
    #[arg(long, value_name = "PROVIDER", value_enum, requires = "key", help_heading = BROKER)]
    pub broker: Option<Provider>,

    /// What a broker on its own takes too.
    #[command(flatten)]
    pub broker_args: BrokerArgs,

    /// The broker's port inside [default: one that is free]
    #[arg(long, value_name = "PORT", requires = "broker", help_heading = BROKER)]
    pub shim_port: Option<u16>,

    /// Append a line of JSON a request to this file; it may not lie in what the
    /// command sees
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "broker", help_heading = BROKER)]
    pub broker_log: Option<PathBuf>,

    /// Write what was enforced, and how the run ended, to this file as JSON; it may not
    /// lie in what the command sees; a receipt that lies there is removed first
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TOLD)]
    pub receipt: Option<PathBuf>,

    /// Write a line of JSON to descriptor N, 3 or higher, as things happen
    #[arg(long, value_name = "N", help_heading = TOLD)]
    pub status_fd: Option<i32>,

    /// Whether the jail may stand without landlock
    #[arg(long, value_name = "MODE", value_enum, default_value = "required", help_heading = JAIL)]
    pub landlock: Landlock,

    /// Let the command's processes trace each other (debuggers, LeakSanitizer)
    #[arg(long, help_heading = JAIL)]
    pub allow_ptrace: bool,

    /// Give the command a terminal of the jail's own [default: if descriptors 0 and 1
    /// are terminals]; of this and --no-tty the last counts
    #[arg(long, overrides_with = "no_tty", help_heading = LIFE)]
    pub tty: bool,

    /// Give the command pipes, even at a terminal
    #[arg(long, overrides_with = "tty", help_heading = LIFE)]
    pub no_tty: bool,

    /// End the command with TERM after this time (10m, 90s, 1h30m, 500ms; a number
    /// alone is seconds); the exit code is 124 then
    #[arg(long, value_name = "TIME", help_heading = LIFE)]
    pub timeout: Option<String>,

    /// How long a command that got a TERM may take to end, before it is killed
    /// [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = LIFE)]
    pub grace: Option<String>,
    /// Say at the end which system calls were denied, to which program, and why
    #[arg(long, help_heading = TOLD)]
    pub explain_denials: bool,
    /// What it may use up.
    #[command(flatten)]
    pub limits: Limits,

    /// Print every step in order and exit; nothing is run, made or mounted
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1,
          require_equals = true, default_missing_value = "text")]
    pub plan: Option<PlanFormat>,

    /// Print a refusal as one line of JSON
    #[arg(long)]
    pub json_errors: bool,

    /// Say nothing but refusals, and why the command was killed or its output lost
    #[arg(long, overrides_with = "verbose")]
    pub quiet: bool,

    /// Say each step of the run as it happens
    #[arg(long, overrides_with = "quiet")]
    pub verbose: bool,

    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Run {
    /// How much groom-ns says.
    pub fn loudness(&self) -> Loudness {
        match (self.quiet, self.verbose) {
            (true, _) => Loudness::Quiet,
            (_, true) => Loudness::Verbose,
            _ => Loudness::Normal,
        }
    }
}

/// Headings of `--help`.
const SIGHT: &str = "What the command sees";
const JAIL: &str = "What the jail is made of";
const LIFE: &str = "Its terminal and its time";
const TOLD: &str = "What is told of the run";
const BROKER: &str = "Its way out, a key broker";

const RUN_AFTER_HELP: &str = "\
Exit codes: the command's own; 128+n if signal n ended it; 124 if its time was up;
126 if it can't be executed, 127 if it isn't found, 125 if it did not run for any
other reason.

Examples:
  groom-ns run -- ls -la
  groom-ns run --clone-mode rw-git-ro -- make test
  groom-ns run --clone-mode rw-git-ro --out-dir ../out -- ./agent
  groom-ns run --broker anthropic --key-env ANTHROPIC_API_KEY -- ./agent
  groom-ns run --profile ~/.config/groom-ns/agent.toml
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
