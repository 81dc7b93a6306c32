//! `groom-ns check` and `groom-ns setup`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Say whether this host can run the jail, and what to do where it can't.
///
/// Every primitive that a run needs is tried, in processes and namespaces that are
/// thrown away; last of all a whole jail of the current folder. Nothing is changed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "Exit codes: 0 if `groom-ns run` works here, 125 if it would refuse.")]
pub struct Check {
    /// Print one object of JSON
    #[arg(long)]
    pub json: bool,
}

/// Prepare this host. `run` itself never changes it.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What is set up.
    #[command(subcommand)]
    pub what: SetupWhat,
}

/// What can be set up.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum SetupWhat {
    /// The profile that lets this binary use user namespaces on Ubuntu 24.04 and later.
    Apparmor(SetupApparmor),
}

/// The AppArmor profile for this binary's own path.
///
/// It confines nothing: it allows this one binary to make user namespaces.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "clap keeps apart which exclude each other"
)]
pub struct SetupApparmor {
    /// Print the profile; this is the default
    #[arg(long)]
    pub print: bool,

    /// Print it for the binary that will be at PATH, on this host or another
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with_all = ["install", "remove"])]
    pub path: Option<PathBuf>,

    /// Write it to /etc/apparmor.d/groom-ns and load it; needs root
    #[arg(long, conflicts_with = "print")]
    pub install: bool,

    /// Unload it and remove the file; needs root
    #[arg(long, conflicts_with_all = ["print", "install"])]
    pub remove: bool,

    /// Print a refusal as one line of JSON
    #[arg(long)]
    pub json_errors: bool,
}
