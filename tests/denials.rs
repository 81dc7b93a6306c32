//! `--explain-denials`: what is said of a call that the filter denied, that nothing is
//! allowed by it, and what is said of a command that couldn't be executed.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "denials/held.rs"]
mod held;
#[path = "denials/not_executed.rs"]
mod not_executed;
#[path = "denials/refused.rs"]
mod refused;
#[path = "denials/said.rs"]
mod said;

use common::Run;

/// The lines of a run's explanation.
fn denied(run: &Run) -> Vec<&str> {
    let lines = run.stderr.lines();
    lines
        .filter_map(|line| line.strip_prefix("groom-ns: denied: "))
        .collect()
}

/// How many calls were denied in the lines that hold this.
fn counted(run: &Run, call: &str) -> u64 {
    let lines = denied(run).into_iter().filter(|line| line.contains(call));
    let count = |line: &str| {
        line.split('x')
            .next()
            .and_then(|count| count.parse::<u64>().ok())
    };
    lines.map(|line| count(line).expect("a count")).sum()
}
