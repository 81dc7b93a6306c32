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

/// Both filters of a jail, compiled.
pub struct Filters {
    /// The command's.
    pub command: BpfProgram,
    /// Pid 1's.
    pub init: BpfProgram,
}

/// Compiles them. It takes as long as some of the jail's mounts do, and so is the
/// supervisor's, which has nothing else to do while pid 1 builds.
///
/// # Errors
/// `Reason::Seccomp`: the plan was made for another table than this one, or a rule is
/// none.
pub fn compile(plan: &Seccomp) -> Result<Filters, Refusal> {
    let refusal = || Refusal::new(Reason::Seccomp, "compile the filters").remedy(BUG);
    if plan.ceiling != CEILING || plan.rules != rule_count(plan.allow_ptrace, plan.on_denial) {
        return Err(refusal().about("the plan's rules are not this program's"));
    }
    let rules: Vec<_> = rules(plan.allow_ptrace, plan.on_denial).collect();
    let bug = |error: BackendError| refusal().about(error.to_string());
    Ok(Filters {
        command: compile::program(&rules, plan.on_denial).map_err(bug)?,
        init: init::program().map_err(bug)?,
    })
}

/// Installs the command's filter. no_new_privs must be set, and the process must have
/// one thread. Where the supervisor is to be asked, the listener is returned: until it
/// has it, a call that is denied waits.
///
/// # Errors
/// `Reason::Seccomp`: the kernel refuses the filter.
pub fn install(filter: &[sock_filter], on_denial: OnDenial) -> Result<Option<Listener>, Refusal> {
    match on_denial {
        OnDenial::Answer => sys::seccomp::install(filter).map(|()| None),
        OnDenial::Ask => sys::notify::install(filter).map(Some),
    }
    .map_err(|errno| refused("install the command's filter", errno))
}

/// Installs pid 1's filter, under the same conditions.
///
/// # Errors
/// `Reason::Seccomp`: the kernel refuses the filter.
pub fn install_for_init(filter: &[sock_filter]) -> Result<(), Refusal> {
    sys::seccomp::install(filter).map_err(|errno| refused("install pid 1's filter", errno))
}

const BUG: &str = "this is a bug in groom-ns, please report it";

/// In the order of `struct sock_filter` (linux/filter.h).
pub fn to_bytes(filter: &[sock_filter]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(filter));
    for step in filter {
        bytes.extend(step.code.to_ne_bytes());
        bytes.extend([step.jt, step.jf]);
        bytes.extend(step.k.to_ne_bytes());
    }
    bytes
}

/// What [`to_bytes`] made; None if that isn't whole.
pub fn from_bytes(bytes: &[u8]) -> Option<BpfProgram> {
    let (steps, rest) = bytes.as_chunks::<4>();
    let (steps, odd) = steps.as_chunks();
    let step = |[[code, code_end, jt, jf], k]: &[[u8; 4]; 2]| sock_filter {
        code: u16::from_ne_bytes([*code, *code_end]),
        jt: *jt,
        jf: *jf,
        k: u32::from_ne_bytes(*k),
    };
    (rest.is_empty() && odd.is_empty()).then(|| steps.iter().map(step).collect())
}

fn refused(step: &'static str, errno: Errno) -> Refusal {
    let remedy = match errno {
        Errno::ENOSYS => "the kernel needs CONFIG_SECCOMP_FILTER",
        Errno::EPERM => "an outer sandbox denies seccomp(2): allow it there",
        Errno::EBUSY => {
            "an outer sandbox listens for denied calls itself, and the kernel allows one \
                 listener: leave --explain-denials out"
        }
        _ => BUG,
    };
    Refusal::new(Reason::Seccomp, step)
        .about("seccomp(SECCOMP_SET_MODE_FILTER)")
        .errno(errno)
        .remedy(remedy)
}
