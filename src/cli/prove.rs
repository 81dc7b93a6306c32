//! `groom-ns prove`, and what it starts.

use std::ffi::OsString;

use clap::Args;

/// Show on this machine that the jail stops what it must.
///
/// Every attempt is made twice: outside the jail, where it must succeed, and inside,
/// where it must fail. One that fails outside too is vacuous and counts for nothing.
/// It needs no key, and no network but 127.0.0.1.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(
    after_help = "Exit codes: 0 if nothing failed, 1 if something did, 125 if the jail can't be built here."
)]
pub struct Prove {
    /// Print the table as JSON, and a refusal too
    #[arg(long)]
    pub json: bool,
}

/// An attempt, outside or inside; hidden, since it is of no use by itself.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// As `groom-ns prove` passes them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}
