//! `groom-ns verify`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Compare a receipt with what it should be.
///
/// Exits with 0 if the receipt is whole and obeys the policy, 1 if not, with a line for
/// each deviation, and 125 if it or the policy can't be read. A receipt isn't signed: it
/// proves what whoever could write the file wanted it to.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// The file that `groom-ns run --receipt` has written
    #[arg(value_name = "RECEIPT")]
    pub receipt: PathBuf,

    /// What it should be, as TOML; an empty file asks for a whole receipt and no more
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub policy: PathBuf,

    /// Print the deviations as JSON, and a refusal as one line of JSON
    #[arg(long)]
    pub json: bool,
}
