//! What the compiled filter decides, evaluated in Rust: for the supervisor, which the
//! filter asks. A test runs both on the same calls.

use libc::c_long;

use super::rule::{Answer, Call, Rule};

/// The rule that decides on a call, in the order that `compile` gives them: those
/// without conditions, then answer by answer. None if the call is allowed; that it is
/// below the ceiling is the caller's to know.
pub(super) fn decide<'rule>(
    rules: impl Iterator<Item = &'rule Rule> + Clone,
    number: c_long,
    args: &[u64; 6],
) -> Option<(&'rule Rule, &'rule Call)> {
    let named = rules.filter_map(|rule| {
        let call = rule.calls.iter().find(|call| call.number == number)?;
        Some((rule, call))
    });
    let always = named.clone().find(|(rule, _)| rule.when.is_empty());
    always.or_else(|| {
        Answer::ALL.iter().find_map(|answer| {
            let mut of_answer = named.clone().filter(|(rule, _)| rule.answer == *answer);
            of_answer.find(|(rule, _)| is_met(rule, args))
        })
    })
}

/// Whether all tests of any one list hold.
fn is_met(rule: &Rule, args: &[u64; 6]) -> bool {
    let all_hold = |tests: &&[_]| tests.iter().all(|test: &super::Test| test.holds(args));
    rule.when.iter().any(all_hold)
}
