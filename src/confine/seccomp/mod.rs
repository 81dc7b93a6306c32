//! The seccomp filters (seccomp(2)): the command's, a deny list with a ceiling,
//! and pid 1's, an allow list.

#[cfg(test)]
mod argument_tests;
mod compile;
mod init;
#[cfg(test)]
mod interpreter;
mod rule;
mod table;
#[cfg(test)]
mod tests;

use nix::errno::Errno;
use seccompiler::{BackendError, BpfProgram};

pub use rule::{Answer, Call, Rule, Test};
pub use table::CEILING;

use crate::plan::command::Seccomp;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::rule_stands;
use crate::sys;

/// The rules that apply, in the table's order.
pub fn rules(allow_ptrace: bool) -> impl Iterator<Item = &'static Rule> {
    table::RULES
        .iter()
        .filter(move |rule| !(rule.tracing && allow_ptrace))
        .filter(|rule| rule_stands(rule))
}

/// The whole table, for whoever names its rules.
#[cfg(feature = "sabotage")]
pub(crate) const fn whole_table() -> &'static [Rule] {
    table::RULES
}

/// How many pairs of call and condition the filter decides on.
pub fn rule_count(allow_ptrace: bool) -> usize {
    rules(allow_ptrace).map(Rule::count).sum()
}

/// Installs the command's filter. no_new_privs must be set, and the process
/// must have one thread.
///
/// # Errors
/// `Reason::Seccomp`: the kernel refuses the filter, or the plan was made for
/// another table than this one.
pub fn install(plan: &Seccomp) -> Result<(), Refusal> {
    let step = "install the command's filter";
    if plan.ceiling != CEILING || plan.rules != rule_count(plan.allow_ptrace) {
        return Err(Refusal::new(Reason::Seccomp, step)
            .about("the plan's rules are not this program's")
            .remedy(BUG));
    }
    let rules: Vec<_> = rules(plan.allow_ptrace).collect();
    load(step, compile::program(&rules))
}

/// Installs pid 1's filter, under the same conditions.
///
/// # Errors
/// `Reason::Seccomp`: the kernel refuses the filter.
pub fn install_for_init() -> Result<(), Refusal> {
    load("install pid 1's filter", init::program())
}

const BUG: &str = "this is a bug in groom-ns, please report it";

fn load(step: &'static str, program: Result<BpfProgram, BackendError>) -> Result<(), Refusal> {
    let refusal = || Refusal::new(Reason::Seccomp, step);
    let program = program.map_err(|error| refusal().about(error.to_string()).remedy(BUG))?;
    sys::seccomp::install(&program).map_err(|errno| {
        let remedy = match errno {
            Errno::ENOSYS => "the kernel needs CONFIG_SECCOMP_FILTER",
            Errno::EPERM => "an outer sandbox denies seccomp(2): allow it there",
            _ => BUG,
        };
        refusal()
            .about("seccomp(SECCOMP_SET_MODE_FILTER)")
            .errno(errno)
            .remedy(remedy)
    })
}
