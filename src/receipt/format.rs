//! A receipt as data, written and read strictly: another field is another format.

use serde::{Deserialize, Serialize};

use crate::broker::totals::Sums;
use crate::run::{Cause, Denials, Phase};

pub use super::jail::{
    Capabilities, Descriptors, Jail, Landlock, LandlockRule, Limits, Mount, Mounts, NAMESPACES,
    Namespace, Namespaces, Process, Rlimit, Seccomp, Tries,
};

/// Where a section's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Asked of the kernel.
    Read,
    /// What groom-ns gave to the kernel, which took it and doesn't tell it again.
    Applied,
}

/// A whole receipt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The format: [`super::FORMAT`]. It stands first.
    pub receipt: String,
    /// The program that wrote it.
    pub groom_ns: Program,
    /// The kernel that enforced it.
    pub kernel: Kernel,
    /// Who started it.
    pub started_by: StartedBy,
    /// What the caller was warned of.
    pub warnings: Vec<String>,
    /// The jail, as it was when the command's process was about to execute; none where
    /// the run ended before.
    pub jail: Option<Jail>,
    /// What was executed.
    pub command: Command,
    /// The run's broker, if it had one.
    pub broker: Option<Broker>,
    /// The socket of somebody else's broker (`--uds`), by its path outside.
    pub uds: Option<String>,
    /// How it ended.
    pub end: End,
    /// When.
    pub times: Times,
    /// What it used.
    pub usage: Usage,
    /// Calls that were denied, where they were to be explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denials: Option<Denials>,
    /// What the supervisor bounds.
    pub supervised: Supervised,
    /// Whether the command had a terminal of the jail's own.
    pub tty: bool,
    /// The profile that flags came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// What groom-ns itself bounds, and not the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supervised {
    /// Applied.
    pub how: How,
    /// `--timeout`, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// `--grace`, in milliseconds.
    pub grace_ms: u64,
    /// `--max-output`, in bytes.
    pub max_output: Option<u64>,
}

/// groom-ns itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Read from the file that runs (`/proc/self/exe`).
    pub how: How,
    /// Its version.
    pub version: String,
    /// SHA-256 of its file, in hex.
    pub sha256: String,
}

/// The kernel: uname(2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Read.
    pub how: How,
    /// `uname -r`.
    pub release: String,
    /// `uname -m`.
    pub machine: String,
}

/// The process that became the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartedBy {
    /// Read.
    pub how: How,
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// `user` or `root`.
    pub route: String,
}

/// What was executed. Neither values of variables nor arguments: they may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Applied.
    pub how: How,
    /// The first word.
    pub program: String,
    /// How many words follow.
    pub arguments: usize,
    /// SHA-256 of all words, each with a NUL byte after it, in hex.
    pub sha256: String,
    /// Its working directory: the clone.
    pub cwd: String,
    /// The names of its variables.
    pub environment: Vec<String>,
}

/// The run's broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    /// Applied; the totals are counted.
    pub how: How,
    /// The API.
    pub provider: String,
    /// Where requests went: scheme, host and port.
    pub upstream: String,
    /// What was forwarded: `METHOD /path`.
    pub routes: Vec<String>,
    /// What came of it; tokens are the API's word.
    pub totals: Sums,
}

/// How the run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// What groom-ns exited with.
    pub code: u8,
    /// How far the run had come.
    pub phase: Phase,
    /// Why it ended.
    pub cause: Cause,
}

/// Times in RFC 3339, and durations of a clock that nobody sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// When groom-ns was started.
    pub started: String,
    /// When it heard that the command is about to be executed.
    pub command_started: Option<String>,
    /// When all was over.
    pub ended: String,
    /// From the start to the command's, in milliseconds.
    pub setup_ms: Option<f64>,
    /// From there to the end.
    pub command_ms: Option<f64>,
    /// From the start to the end.
    pub total_ms: f64,
}

/// What all processes of the jail used that were waited for (getrusage(2)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Read.
    pub how: How,
    /// Time in user mode, in milliseconds.
    pub user_ms: f64,
    /// Time in the kernel.
    pub system_ms: f64,
    /// The largest resident set of one process, in bytes.
    pub max_rss_bytes: u64,
}
