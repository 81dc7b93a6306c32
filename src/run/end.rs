//! How a run ends, and what groom-ns says and exits with then.

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use crate::ns::channel::FromJail;
use crate::refusal::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Reason, Refusal};
use crate::say;

use super::signal_name;

/// How far the jail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Pid 1 builds; the command doesn't exist.
    Building,
    /// The command's process confines itself.
    Confining,
    /// It may call execve(2), which isn't known here yet.
    Released,
    /// execve(2) was called.
    Running,
}

/// What the jail's side means by an end in this phase: before the command ran, that
/// process was still groom-ns.
pub(super) fn in_phase(phase: Phase, said: FromJail) -> FromJail {
    match said {
        FromJail::Exited(_) | FromJail::Killed(_) if phase != Phase::Running => {
            let step = "the command's process ended before the command ran";
            FromJail::Refused(Refusal::new(Reason::Setup, step).about(format!("{said:?}")))
        }
        said => said,
    }
}

/// How a run ended.
pub(super) enum End {
    /// The command or its process said so, or a step refused.
    Said(FromJail),
    /// Pid 1 is gone and said nothing.
    Silent(Phase, WaitStatus),
    /// This signal came when there was no command to pass it to.
    Signal(Phase, i32),
    /// The process that started groom-ns is gone.
    Abandoned(Phase),
    /// A call of the supervisor's failed when the command may have been running.
    Lost(Refusal),
}

impl End {
    /// The exit code; a run that didn't happen is a refusal.
    pub(super) fn code(self) -> Result<u8, Refusal> {
        match self {
            End::Said(FromJail::Exited(code)) => Ok(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            End::Said(FromJail::Killed(signal))
            | End::Signal(Phase::Released | Phase::Running, signal) => Ok(killed_by(signal)),
            End::Said(FromJail::NotExecuted { program, errno }) => {
                let errno = Errno::from_raw(errno);
                let what = errno.desc();
                say::note(format_args!("cannot execute {program}: {errno:?} ({what})"));
                Ok(if matches!(errno, Errno::ENOENT | Errno::ENOTDIR) {
                    EXIT_NOT_FOUND
                } else {
                    EXIT_NOT_EXECUTABLE
                })
            }
            End::Said(FromJail::Refused(refusal)) => Err(refusal),
            End::Signal(_, signal) => Err(Refusal::new(
                Reason::Setup,
                "a signal came before the command ran",
            )
            .about(signal_name(signal))),
            End::Abandoned(Phase::Released | Phase::Running) => {
                say::note("the process that started it is gone: the jail was killed");
                Ok(killed_by(libc::SIGKILL))
            }
            End::Lost(why) => {
                let errno = why.errno.unwrap_or_default();
                say::note(format_args!("the jail was killed: {} {errno}", why.subject));
                Ok(killed_by(libc::SIGKILL))
            }
            End::Abandoned(_) => Err(Refusal::new(
                Reason::Setup,
                "the process that started groom-ns is gone",
            )),
            // None is an end: until_the_end goes on after them.
            End::Said(FromJail::Listening | FromJail::Ready | FromJail::Executing) => {
                Err(Refusal::new(Reason::Setup, "an end out of order"))
            }
            End::Silent(Phase::Running, status) => {
                let signal = if let WaitStatus::Signaled(_, signal, _) = status {
                    signal
                } else {
                    Signal::SIGKILL
                };
                say::note(format_args!("the jail was killed by {signal}"));
                Ok(killed_by(signal as i32))
            }
            End::Silent(_, status) => Err(Refusal::new(
                Reason::Setup,
                "pid 1 of the jail ended before the command ran",
            )
            .about(format!("{status:?}"))),
        }
    }
}

fn killed_by(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
