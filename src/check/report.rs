//! What `groom-ns check` prints.

use std::fmt;

use serde::Serialize;

use crate::refusal::Reason;

use super::environment::Environment;
use super::row::{Finding, Primitive, Row, Verdict};

/// Every row, and what they come to.
#[derive(Debug, Serialize)]
pub struct Report {
    version: &'static str,
    environment: Environment,
    summary: String,
    rows: Vec<Row>,
    can_run: bool,
    reason: Option<Reason>,
    advice: Option<&'static str>,
}

impl Report {
    /// A run decides: what it refused with is the reason, whatever else was found. Of
    /// two findings about a primitive the one that is missing counts.
    pub(super) fn of(environment: Environment, found: &[(Primitive, Finding)]) -> Report {
        let finding = |primitive: Primitive| {
            let mut all = found
                .iter()
                .filter(|(of, _)| *of == primitive)
                .map(|(_, finding)| finding);
            let first = all.next()?;
            let worse = all.find(|finding| matches!(finding, Finding::Missing(_)));
            Some(worse.unwrap_or(first))
        };
        let rows: Vec<Row> = Primitive::ALL
            .iter()
            .map(|primitive| Row::of(*primitive, finding(*primitive)))
            .collect();
        let jail = rows.last().filter(|row| row.verdict != Verdict::Untried);
        let reason = match jail {
            Some(jail) => jail.reason,
            None => rows.iter().find_map(|row| row.reason),
        };
        Report {
            version: env!("CARGO_PKG_VERSION"),
            environment,
            summary: environment.summary(),
            can_run: reason.is_none(),
            advice: reason.and_then(|reason| environment.advice(reason)),
            reason,
            rows,
        }
    }

    /// Whether `groom-ns run` works here.
    pub fn can_run(&self) -> bool {
        self.can_run
    }
}

/// A table, and below it what isn't as it should be.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "environment: {}\n", self.summary)?;
        let headings = ["primitive", "needed", "verdict"];
        let width = |heading: &str, text: &dyn Fn(&Row) -> usize| {
            let longest = self.rows.iter().map(text).max().unwrap_or(0);
            longest.max(heading.len())
        };
        let name = width(headings[0], &|row| row.name.name().len());
        let needed = width(headings[1], &|row| row.needed.len());
        let verdict = width(headings[2], &|row| row.verdict.name().len());
        let [a, b, c] = headings;
        writeln!(f, "{a:name$}  {b:needed$}  {c:verdict$}  found")?;
        for row in &self.rows {
            let (a, b, c) = (row.name.name(), row.needed, row.verdict.name());
            let line = format!("{a:name$}  {b:needed$}  {c:verdict$}  {}", row.found);
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f)?;
        for row in &self.rows {
            if let Some(remedy) = &row.remedy {
                writeln!(f, "{}: {remedy}", row.name.name())?;
            }
        }
        match self.reason {
            None => writeln!(f, "groom-ns can run here"),
            Some(reason) => {
                if let Some(advice) = self.advice {
                    writeln!(f, "here: {advice}")?;
                }
                writeln!(f, "groom-ns can't run here ({})", reason.code())
            }
        }
    }
}
