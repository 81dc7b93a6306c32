//! `--explain-denials`: what the filter asks is answered as its table says, and counted.
//! A task of the supervisor's one event loop.

mod call;
mod report;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::rc::Rc;

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::sync::oneshot;

pub use report::{Denials, Denied, Program};

use crate::confine::{seccomp, self_check};
use crate::plan::command::{Confine, OnDenial, Seccomp};
use crate::refusal::{Reason, Refusal};
use crate::sys::notify::{Asked, Listener, Told};
use crate::sys::watch::watch;

/// Calls that are answered before the event loop's other tasks have their turn: a flood
/// of them must not hold up the output, the broker or a signal.
const A_TURN: usize = 16;

/// How a turn ended.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// Others have theirs; more calls may wait.
    Cut,
    /// No call waits.
    Done,
    /// No thread is left that could call.
    Over,
}

/// Answers for the filter of one run.
pub(super) struct Explainer<'run> {
    filter: &'run Seccomp,
    /// What the self-check makes, which comes first and isn't the command's.
    self_check: VecDeque<libc::c_long>,
    /// Whether that is over.
    runs: Rc<Cell<bool>>,
    denials: Denials,
}

impl<'run> Explainer<'run> {
    /// `runs` is true once the command's process is about to execute.
    pub(super) fn new(confine: &'run Confine, runs: Rc<Cell<bool>>) -> Self {
        Explainer {
            filter: &confine.seccomp,
            self_check: self_check::denied(&confine.self_check).collect(),
            runs,
            denials: Denials::default(),
        }
    }

    /// What was denied so far, where the run was to be explained.
    pub(super) fn denials(self) -> Option<Denials> {
        (self.filter.on_denial == OnDenial::Ask).then_some(self.denials)
    }

    /// Answers whatever the listener is told, once there is one. It comes back only with
    /// what makes it impossible; a call that isn't answered then is ENOSYS by the kernel,
    /// when the listener is closed (measured), and the jail must end.
    pub(super) async fn serve(&mut self, listener: oneshot::Receiver<Listener>) -> Refusal {
        if let Ok(listener) = listener.await
            && let Err(errno) = self.answer_all(&listener).await
        {
            return Refusal::new(Reason::Setup, "answer the command's filter")
                .about("a denied call can't be answered")
                .errno(errno);
        }
        std::future::pending().await
    }

    /// Until no thread is left that could call.
    async fn answer_all(&mut self, listener: &Listener) -> Result<(), Errno> {
        let watched =
            watch(listener.as_fd(), Interest::READABLE).map_err(|error| number_of(&error))?;
        loop {
            let mut ready = watched
                .readable()
                .await
                .map_err(|error| number_of(&error))?;
            match self.a_turn(listener)? {
                Turn::Cut => {}
                Turn::Done => ready.clear_ready(),
                Turn::Over => return Ok(()),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Answers the calls that wait, or as many as there may be in one turn.
    fn a_turn(&mut self, listener: &Listener) -> Result<Turn, Errno> {
        for _ in 0..A_TURN {
            match listener.take()? {
                Told::Of(asked) => self.answer(listener, &asked)?,
                Told::Nothing => return Ok(Turn::Done),
                Told::Gone => return Ok(Turn::Over),
            }
        }
        Ok(Turn::Cut)
    }

    /// Answers one call. The filter has asked because a rule denies it, so it is denied
    /// whatever is found here.
    fn answer(&mut self, listener: &Listener, asked: &Asked) -> Result<(), Errno> {
        let (number, args) = &asked.call;
        let decided = seccomp::deciding(self.filter, *number, args);
        let errno = decided.map_or(libc::EPERM.unsigned_abs(), |(rule, _)| rule.answer.errno());
        if !self.is_self_check(*number) {
            // While it waits, its number is nobody else's.
            let program = Program::of(asked.thread).filter(|_| listener.is_waiting(asked.id));
            self.denials.count(*number, args, decided, program);
        }
        let errno = u16::try_from(errno).map_err(|_| Errno::EPERM)?;
        match listener.answer(asked.id, errno) {
            // Killed while it waited.
            Err(Errno::ENOENT) => Ok(()),
            other => other,
        }
    }

    /// Whether this is still the self-check, which makes its calls in order. Those that an
    /// outer filter has answered didn't come here.
    fn is_self_check(&mut self, number: libc::c_long) -> bool {
        let is_next = self.self_check.pop_front() == Some(number) && !self.runs.get();
        if !is_next {
            self.self_check.clear();
        }
        is_next
    }
}

fn number_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
