//! The seccomp filters (seccomp(2)): the command's, a deny list with a ceiling,
//! and pid 1's, an allow list.

#[cfg(test)]
mod argument_tests;
#[cfg(test)]
mod asking_tests;
mod compile;
mod decide;
mod filters;
mod init;
#[cfg(test)]
mod interpreter;
mod rule;
mod shorten;
mod table;
#[cfg(test)]
mod tests;

pub use filters::{Filters, to_bytes};
pub use rule::{Answer, Call, Rule, Test};
pub use table::CEILING;

use crate::plan::command::{OnDenial, Seccomp};
use crate::sabotage::rule_stands;

/// The rules that apply, in the table's order.
pub fn rules(
    allow_ptrace: bool,
    on_denial: OnDenial,
) -> impl Iterator<Item = &'static Rule> + Clone {
    table::RULES
        .iter()
        .filter(move |rule| !(rule.tracing && allow_ptrace))
        .filter(move |rule| !rule.explaining || on_denial == OnDenial::Ask)
        .filter(|rule| rule_stands(rule))
}

/// The whole table, for whoever names its rules.
#[cfg(feature = "sabotage")]
pub(crate) const fn whole_table() -> &'static [Rule] {
    table::RULES
}

/// How many pairs of call and condition the filter decides on.
pub fn rule_count(allow_ptrace: bool, on_denial: OnDenial) -> usize {
    rules(allow_ptrace, on_denial).map(Rule::count).sum()
}

/// The rule that decides on a call, and the call by its name: what the filter of this
/// plan goes by, for whoever it asks. None if it allows the call.
pub fn deciding(
    plan: &Seccomp,
    number: libc::c_long,
    args: &[u64; 6],
) -> Option<(&'static Rule, &'static Call)> {
    decide::decide(rules(plan.allow_ptrace, plan.on_denial), number, args)
}
