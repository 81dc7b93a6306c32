//! What the command's process, and pid 1, do to themselves.
//!
//! The order can't be undone, so it is in the types: only [`apply`] makes a
//! [`Confined`], and only a [`Confined`] can execute.

pub mod caps;
mod exec;
pub mod landlock;
pub mod limits;
pub mod seccomp;
pub mod self_check;
#[cfg(test)]
mod tests;

pub use exec::{Door, ExecFailure};

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};
use seccompiler::BpfProgram;

use crate::plan::command::{Confine, Exec};
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::sys;
use crate::sys::notify::Listener;
use seccomp::Filters;

/// The proof that this process is in its final state, and what a receipt says of it.
#[derive(Debug)]
pub struct Confined {
    filter: Option<BpfProgram>,
    tried: Vec<self_check::Tried>,
}

impl Confined {
    /// Executes the command (execve(2)). Returns only if that failed.
    /// `door` is where the broker is, if there is one.
    pub fn exec(self, exec: &Exec, door: Option<&Door>) -> ExecFailure {
        exec::exec(exec, door)
    }

    /// The filter that was installed, instruction by instruction.
    pub fn filter(&self) -> Option<&BpfProgram> {
        self.filter.as_ref()
    }

    /// What was tried, and how it failed.
    pub fn tried(&self) -> &[self_check::Tried] {
        &self.tried
    }
}

/// Confines the calling process for good. It must have one thread, be in its
/// working directory, and have dropped its capabilities. `hand_over` is given the
/// listener of the command's filter, where it has one: the calls that are tried last wait for it.
///
/// # Errors
/// The reason is the step's: `limits`, `setup`, `landlock`, `seccomp`,
/// `selfcheck`. The process is then half confined and must exit.
pub fn apply(
    confine: &Confine,
    filters: &Filters,
    hand_over: impl FnOnce(Listener) -> Result<(), Refusal>,
) -> Result<Confined, Refusal> {
    // 1. The mode of what the command makes.
    umask(Mode::from_bits_truncate(confine.umask));
    // 2. Limits, while nothing keeps RLIMIT_CORE from being set.
    limits::apply(&confine.limits)?;
    // 3. No privilege by execve; the next two ask for it.
    no_new_privs()?;
    // 4. Files, by path.
    landlock::enforce(&confine.landlock)?;
    // 5. No descriptor but 0 to 2 goes on. The last call that opens was in 4.
    if stands(Mechanism::CloseOnExec) {
        close_on_exec()?;
    }
    // 6. Calls.
    let mut filter = None;
    if stands(Mechanism::FilterOfCommand) {
        filters.install()?.map(hand_over).transpose()?;
        filter = Some(filters.command().to_vec());
    }
    // 7. Try what must now fail.
    let tried = self_check::run(&confine.self_check)?;
    Ok(Confined { filter, tried })
}

/// Confines pid 1, which has forked the command and dropped its capabilities:
/// what is left is a loop that waits, signals and reports on open sockets.
///
/// # Errors
/// `setup` or `seccomp`.
pub fn confine_init(filters: &Filters) -> Result<(), Refusal> {
    no_new_privs()?;
    if stands(Mechanism::FilterOfInit) {
        filters.install_for_init()?;
    }
    Ok(())
}

/// No execve(2) gives a privilege any more (prctl(2), PR_SET_NO_NEW_PRIVS).
pub(crate) fn no_new_privs() -> Result<(), Refusal> {
    if !stands(Mechanism::NoNewPrivileges) {
        return Ok(());
    }
    prctl::set_no_new_privs().map_err(|errno| {
        Refusal::new(Reason::Setup, "give up gaining privileges")
            .about("prctl(PR_SET_NO_NEW_PRIVS)")
            .errno(errno)
            .remedy("an outer sandbox denies it: allow it there")
    })
}

fn close_on_exec() -> Result<(), Refusal> {
    sys::fd::cloexec_from(3).map_err(|errno| {
        Refusal::new(Reason::Setup, "keep descriptors from the command")
            .about("close_range(3, CLOSE_RANGE_CLOEXEC)")
            .errno(errno)
            .remedy("an outer sandbox denies it: allow it there")
    })
}
