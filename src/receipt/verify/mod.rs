//! `groom-ns verify`: a receipt beside what it should be. Both are untrusted input: read
//! up to a size, parsed strictly, and printed with what a terminal could obey escaped.

mod files;
mod policy;
mod times;
mod whole;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::format::Receipt;
use super::{FORMAT, ascii};
use crate::files::{at_most, errno};
use crate::refusal::{Reason, Refusal, shown};

pub use policy::Policy;

/// In bytes. Several times the longest mount table.
const MAX_RECEIPT: u64 = 8 * 1024 * 1024;
/// In bytes.
const MAX_POLICY: u64 = 1024 * 1024;
/// In characters, of a value that is printed.
const MAX_SHOWN: usize = 300;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the receipt is whole and obeys the policy.
    holds: bool,
    /// Each thing that isn't as it should be.
    deviations: Vec<Deviation>,
}

/// A thing that isn't as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deviation {
    /// Where in the receipt.
    what: String,
    /// What should be there.
    expected: String,
    /// What is there.
    found: String,
}

impl Verdict {
    /// Whether there is no deviation.
    pub fn holds(&self) -> bool {
        self.holds
    }

    /// As it is printed: a line each.
    pub fn text(&self, json: bool) -> serde_json::Result<String> {
        if json {
            return Ok(ascii(&serde_json::to_string_pretty(self)?) + "\n");
        }
        if self.holds {
            return Ok("the receipt is as it should be\n".to_owned());
        }
        let line = |one: &Deviation| {
            let Deviation {
                what,
                expected,
                found,
            } = one;
            format!("{what}: expected {expected}, found {found}\n")
        };
        Ok(self.deviations.iter().map(line).collect())
    }
}

/// Reads both files and compares them.
///
/// # Errors
/// `receipt`: one can't be read, or isn't what it is given as.
pub fn run(receipt: &Path, policy: &Path) -> Result<Verdict, Refusal> {
    let policy = Policy::parse(&contents("the policy", policy, MAX_POLICY)?, policy)?;
    let receipt = parse(&contents("the receipt", receipt, MAX_RECEIPT)?, receipt)?;
    let mut found = Findings::default();
    whole::judge(&receipt, &mut found);
    policy.judge(&receipt, &mut found);
    Ok(Verdict {
        holds: found.0.is_empty(),
        deviations: found.0,
    })
}

/// What was found so far.
#[derive(Default)]
struct Findings(Vec<Deviation>);

impl Findings {
    /// Notes a deviation unless `holds`.
    #[allow(clippy::needless_pass_by_value, reason = "callers give what they have")]
    fn must(&mut self, holds: bool, what: &str, expected: impl ToString, found: impl ToString) {
        if holds {
            return;
        }
        let printable = |text: String| -> String {
            let text: String = text.chars().take(MAX_SHOWN).collect();
            shown(Path::new(&text))
        };
        self.0.push(Deviation {
            what: printable(what.to_owned()),
            expected: printable(expected.to_string()),
            found: printable(found.to_string()),
        });
    }
}

/// The format alone, whatever else is there.
#[derive(Deserialize)]
struct Head {
    receipt: String,
}

fn parse(bytes: &[u8], path: &Path) -> Result<Receipt, Refusal> {
    let refusal = || Refusal::new(Reason::Receipt, "read the receipt").path(path);
    let not_one = |error: serde_json::Error| {
        let why = shown(Path::new(&error.to_string()));
        refusal().remedy(format!("it isn't a receipt: {why}"))
    };
    let head: Head = serde_json::from_slice(bytes).map_err(not_one)?;
    if head.receipt != FORMAT {
        let found: String = head.receipt.chars().take(MAX_SHOWN).collect();
        return Err(refusal().remedy(format!(
            "its format is {}, and this groom-ns reads {FORMAT}: use the groom-ns that wrote it",
            shown(Path::new(&found))
        )));
    }
    serde_json::from_slice(bytes).map_err(not_one)
}

/// A regular file's; nothing is waited for.
fn contents(what: &'static str, path: &Path, most: u64) -> Result<Vec<u8>, Refusal> {
    let refusal = || Refusal::new(Reason::Receipt, format!("read {what}")).path(path);
    let failed = |error| {
        refusal()
            .errno(errno(error))
            .remedy("name a file that is there and can be read")
    };
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(refusal().remedy("it isn't a regular file"));
    }
    at_most(file, most)
        .map_err(failed)?
        .ok_or_else(|| refusal().remedy(format!("it has more than {most} bytes")))
}
