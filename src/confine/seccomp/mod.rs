//! The seccomp filters (seccomp(2)): the command's, a deny list with a ceiling,
//! and pid 1's, an allow list.

#[cfg(test)]
mod argument_tests;
#[cfg(test)]
mod asking_tests;
mod compile;
mod decide;
mod init;
#[cfg(test)]
mod interpreter;
mod rule;
mod table;
#[cfg(test)]
mod tests;

use nix::errno::Errno;
use seccompiler::{BackendError, BpfProgram, sock_filter};

pub use rule::{Answer, Call, Rule, Test};
pub use table::CEILING;

use crate::plan::command::{OnDenial, Seccomp};
use crate::refusal::{Reason, Refusal};
use crate::sabotage::rule_stands;
use crate::sys;
use crate::sys::notify::Listener;

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

/// Installs the command's filter and returns it. no_new_privs must be set, and the
/// process must have one thread. Where the supervisor is to be asked, the listener comes with it:
/// until it has it, a call that is denied waits.
///
/// # Errors
/// `Reason::Seccomp`: the kernel refuses the filter, or the plan was made for
/// another table than this one.
pub fn install(plan: &Seccomp) -> Result<(BpfProgram, Option<Listener>), Refusal> {
    let step = "install the command's filter";
    if plan.ceiling != CEILING || plan.rules != rule_count(plan.allow_ptrace, plan.on_denial) {
        return Err(Refusal::new(Reason::Seccomp, step)
            .about("the plan's rules are not this program's")
            .remedy(BUG));
    }
    let rules: Vec<_> = rules(plan.allow_ptrace, plan.on_denial).collect();
    let program = compile::program(&rules, plan.on_denial);
    match plan.on_denial {
        OnDenial::Answer => load(step, program, |program| {
            sys::seccomp::install(program).map(|()| None)
        }),
        OnDenial::Ask => load(step, program, |program| {
            sys::notify::install(program).map(Some)
        }),
    }
}

/// Installs pid 1's filter, under the same conditions.
///
/// # Errors
/// `Reason::Seccomp`: the kernel refuses the filter.
pub fn install_for_init() -> Result<(), Refusal> {
    let program = init::program();
    load("install pid 1's filter", program, sys::seccomp::install).map(drop)
}

const BUG: &str = "this is a bug in groom-ns, please report it";

fn load<T>(
    step: &'static str,
    program: Result<BpfProgram, BackendError>,
    install: impl FnOnce(&[sock_filter]) -> Result<T, Errno>,
) -> Result<(BpfProgram, T), Refusal> {
    let refusal = || Refusal::new(Reason::Seccomp, step);
    let program = program.map_err(|error| refusal().about(error.to_string()).remedy(BUG))?;
    let made = install(&program).map_err(|errno| {
        let remedy = match errno {
            Errno::ENOSYS => "the kernel needs CONFIG_SECCOMP_FILTER",
            Errno::EPERM => "an outer sandbox denies seccomp(2): allow it there",
            Errno::EBUSY => {
                "an outer sandbox listens for denied calls itself, and the kernel allows one \
                 listener: leave --explain-denials out"
            }
            _ => BUG,
        };
        refusal()
            .about("seccomp(SECCOMP_SET_MODE_FILTER)")
            .errno(errno)
            .remedy(remedy)
    })?;
    Ok((program, made))
}
