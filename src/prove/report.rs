//! What `groom-ns prove` prints.

use std::fmt;

use nix::unistd::getuid;
use serde::Serialize;

use crate::refusal::{Reason, Refusal};

use super::proof::{Finding, Verdict};

/// Every finding, and what they sum up to.
#[derive(Debug, Serialize)]
pub struct Report {
    version: &'static str,
    kernel: String,
    started_by: &'static str,
    proofs: Vec<Finding>,
    proven: usize,
    vacuous: usize,
    failed: usize,
}

impl Report {
    /// # Errors
    /// `setup`: the kernel doesn't say which it is.
    pub(super) fn of(proofs: Vec<Finding>) -> Result<Report, Refusal> {
        let kernel = nix::sys::utsname::uname().map_err(|errno| {
            Refusal::new(Reason::Setup, "read the kernel's release").errno(errno)
        })?;
        let count = |verdict| {
            proofs
                .iter()
                .filter(|proof| proof.verdict == verdict)
                .count()
        };
        Ok(Report {
            version: env!("CARGO_PKG_VERSION"),
            kernel: kernel.release().to_string_lossy().into_owned(),
            started_by: if getuid().is_root() { "root" } else { "user" },
            proven: count(Verdict::Proven),
            vacuous: count(Verdict::Vacuous),
            failed: count(Verdict::Failed),
            proofs,
        })
    }

    /// Whether nothing failed.
    pub fn holds(&self) -> bool {
        self.failed == 0
    }
}

const HEADINGS: [&str; 5] = ["promise", "probe", "control", "claim", "verdict"];

/// A table, and a line below it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[&str; 5]> = std::iter::once(HEADINGS)
            .chain(self.proofs.iter().map(row))
            .collect();
        let width = |column: usize| {
            let lengths = rows.iter().map(|row| row[column].chars().count());
            lengths.max().unwrap_or(0)
        };
        let widths = [width(0), width(1), width(2), width(3)];
        for row in &rows {
            for (text, width) in row.iter().zip(widths) {
                write!(f, "{text:width$}  ")?;
            }
            writeln!(f, "{}", row[4])?;
        }
        let failed = self
            .proofs
            .iter()
            .filter(|proof| proof.verdict == Verdict::Failed);
        for Finding {
            probe, claim, must, ..
        } in failed
        {
            writeln!(f, "\n{probe} must be {}, and is {claim}", must.join(" or "))?;
        }
        let Report {
            proven,
            vacuous,
            failed,
            kernel,
            started_by,
            ..
        } = self;
        writeln!(
            f,
            "\n{proven} proven, {vacuous} vacuous, {failed} failed (Linux {kernel}, as {started_by})"
        )?;
        if self.vacuous > 0 {
            writeln!(
                f,
                "vacuous: the attempt fails outside too, so that nothing is shown here"
            )?;
        }
        Ok(())
    }
}

fn row(finding: &Finding) -> [&str; 5] {
    let verdict = match finding.verdict {
        Verdict::Proven => "proven",
        Verdict::Vacuous => "vacuous",
        Verdict::Failed => "FAILED",
    };
    [
        finding.promise,
        finding.probe,
        &finding.control,
        &finding.claim,
        verdict,
    ]
}
