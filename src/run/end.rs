//! How a run ends, and what groom-ns says and exits with then.

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use serde::{Deserialize, Serialize};

use crate::ns::channel::FromJail;
use crate::policy::times;
use crate::refusal::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_TIMED_OUT, Reason, Refusal};
use crate::say;

use super::Denials;
use super::signal_name;

/// How far the jail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Pid 1 builds; the command doesn't exist.
    Building,
    /// The command's process confines itself.
    Confining,
    /// It may call execve(2), which isn't known here yet.
    Released,
    /// execve(2) was called.
    Running,
}

impl Phase {
    /// The next one, which is said.
    pub(super) fn reach(&mut self, next: Phase) {
        *self = next;
        say::step(match next {
            Phase::Building => "the jail is being built",
            Phase::Confining => "the jail stands, and its mounts are those of the plan",
            Phase::Released => "go",
            Phase::Running => "the self-check has passed: the command is executed",
        });
    }
}

/// What the jail's side means by an end in this phase: before the command ran, that
/// process was still groom-ns.
pub(super) fn in_phase(phase: Phase, said: FromJail) -> FromJail {
    match said {
        FromJail::Exited(_) | FromJail::Killed(_) if phase != Phase::Running => {
            let step = "the command's process ended before the command ran";
            let refusal = Refusal::new(Reason::Setup, step).about(match said {
                FromJail::Killed(number) => ended_it(number),
                FromJail::Exited(code) => format!("it exited with {code}"),
                _ => String::new(),
            });
            FromJail::Refused(refusal.remedy(KILLED_OR_DENIED))
        }
        said => said,
    }
}

const KILLED_OR_DENIED: &str =
    "somebody killed it, or an outer sandbox denies a call that it needs: allow it there";

fn ended_it(number: i32) -> String {
    format!("{} ended it", signal_name(number))
}

/// How a process ended that said nothing.
fn how(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, code) => format!("it exited with {code}"),
        WaitStatus::Signaled(_, signal, _) => ended_it(signal as i32),
        other => format!("{other:?}"),
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
    /// This limit, of this many bytes.
    Limit(Limit, u64),
    /// A call of the supervisor's failed when the command may have been running.
    Lost(Refusal),
    /// The command wasn't asked any more.
    Forced(Forced),
}

/// What ended a run against the command's will, or without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forced {
    /// This limit of its time, in milliseconds.
    TimedOut(u64),
    /// It didn't end within this time of a TERM, in milliseconds.
    Late(u64),
    /// A second TERM came.
    Again,
}

/// How a run ended that happened, or may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// What groom-ns exits with.
    pub code: u8,
    /// Why.
    pub cause: Cause,
    /// What the filter denied, with `--explain-denials`.
    pub denials: Option<Denials>,
}

/// A limit that can end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// `--memory`: the kernel killed the whole jail.
    Memory,
    /// `--file-size`: the command died of SIGXFSZ.
    FileSize,
    /// `--max-output`: groom-ns killed the jail.
    MaxOutput,
}

impl Limit {
    /// The signal by which it is enforced, which is also in the exit code.
    pub fn signal(self) -> i32 {
        match self {
            Limit::Memory | Limit::MaxOutput => libc::SIGKILL,
            Limit::FileSize => libc::SIGXFSZ,
        }
    }
}

/// What ended a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Cause {
    /// The command exited.
    Exited {
        /// With this code.
        code: i32,
    },
    /// A signal ended the command.
    Killed {
        /// Its number.
        signal: i32,
    },
    /// execve(2) failed.
    NotExecuted {
        /// The program, as it may be printed.
        program: String,
        /// The errno's name.
        errno: String,
    },
    /// A limit was reached that ends a run.
    Limit {
        /// Which.
        which: Limit,
        /// Its value, in bytes.
        value: u64,
    },
    /// This signal came to groom-ns when there was no command to pass it to.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// The process that started groom-ns is gone. (In braces serde refuses fields that it
    /// doesn't know here, too.)
    CallerGone {},
    /// The time limit.
    TimedOut {
        /// In milliseconds.
        limit_ms: u64,
    },
    /// It was told to end, and then killed with the jail.
    ForcedToEnd {
        /// How long it had, in milliseconds; none: a second TERM came meanwhile.
        grace_ms: Option<u64>,
    },
    /// A call of the supervisor's failed.
    Lost {
        /// Which, and how.
        what: String,
    },
    /// Somebody killed pid 1, and the jail with it.
    JailKilled {
        /// The signal's number.
        signal: i32,
    },
}

impl Cause {
    /// Whether the command died as Ctrl-C has it.
    pub fn is_interrupt(&self) -> bool {
        *self
            == Cause::Killed {
                signal: libc::SIGINT,
            }
    }
}

impl End {
    /// How the run ended, which is said where it wasn't the command's own doing; a run
    /// that didn't happen is a refusal.
    pub(super) fn ending(self) -> Result<Ending, Refusal> {
        Ok(match self {
            End::Said(FromJail::Exited(code)) => Ending {
                code: u8::try_from(code & 0xff).unwrap_or(u8::MAX),
                cause: Cause::Exited { code },
                denials: None,
            },
            End::Said(FromJail::Killed(signal)) => killed_by(signal, Cause::Killed { signal }),
            End::Signal(Phase::Released | Phase::Running, signal) => {
                killed_by(signal, Cause::Signal { signal })
            }
            End::Said(FromJail::NotExecuted { program, errno }) => {
                not_executed(program, Errno::from_raw(errno))
            }
            End::Abandoned(Phase::Released | Phase::Running) => {
                say::note("the process that started it is gone: the jail was killed");
                killed_by(libc::SIGKILL, Cause::CallerGone {})
            }
            End::Limit(which, value) => over_limit(which, value),
            End::Lost(why) => {
                let what = format!("{} {}", why.subject, why.errno.unwrap_or_default());
                say::note(format_args!("the jail was killed: {what}"));
                killed_by(libc::SIGKILL, Cause::Lost { what })
            }
            End::Forced(forced) => forced.ending(),
            End::Silent(Phase::Running, status) => {
                let signal = if let WaitStatus::Signaled(_, signal, _) = status {
                    signal
                } else {
                    Signal::SIGKILL
                };
                say::note(format_args!("the jail was killed by {signal}"));
                let signal = signal as i32;
                killed_by(signal, Cause::JailKilled { signal })
            }
            nothing_ran => return Err(nothing_ran.refusal()),
        })
    }

    /// Why the run didn't happen.
    fn refusal(self) -> Refusal {
        match self {
            End::Said(FromJail::Refused(refusal)) | End::Lost(refusal) => refusal,
            End::Signal(_, signal) => {
                Refusal::new(Reason::Setup, "a signal came before the command ran")
                    .about(signal_name(signal))
            }
            End::Abandoned(_) => {
                Refusal::new(Reason::Setup, "the process that started groom-ns is gone")
            }
            End::Silent(_, status) => Refusal::new(
                Reason::Setup,
                "pid 1 of the jail ended before the command ran",
            )
            .about(how(status))
            .remedy(KILLED_OR_DENIED),
            // None is an end: until_the_end goes on after them.
            End::Said(_) | End::Forced(_) | End::Limit(..) => {
                Refusal::new(Reason::Setup, "an end out of order")
            }
        }
    }
}

impl Forced {
    fn ending(self) -> Ending {
        let cause = match self {
            Forced::TimedOut(limit_ms) => {
                let limit = times::shown(limit_ms);
                say::note(format_args!("the time limit of {limit} ended the run"));
                return Ending {
                    code: EXIT_TIMED_OUT,
                    cause: Cause::TimedOut { limit_ms },
                    denials: None,
                };
            }
            Forced::Late(grace_ms) => {
                say::note(format_args!(
                    "the jail was killed: the command didn't end within {} of a TERM",
                    times::shown(grace_ms)
                ));
                Cause::ForcedToEnd {
                    grace_ms: Some(grace_ms),
                }
            }
            Forced::Again => {
                say::note("the jail was killed: a second TERM came");
                Cause::ForcedToEnd { grace_ms: None }
            }
        };
        killed_by(libc::SIGKILL, cause)
    }
}

fn not_executed(program: String, errno: Errno) -> Ending {
    let what = errno.desc();
    say::note(format_args!("cannot execute {program}: {errno:?} ({what})"));
    Ending {
        code: if matches!(errno, Errno::ENOENT | Errno::ENOTDIR) {
            EXIT_NOT_FOUND
        } else {
            EXIT_NOT_EXECUTABLE
        },
        cause: Cause::NotExecuted {
            program,
            errno: format!("{errno:?}"),
        },
        denials: None,
    }
}

fn over_limit(which: Limit, value: u64) -> Ending {
    let what = match which {
        Limit::Memory => "the jail was killed: it took more than --memory allows",
        Limit::MaxOutput => "the run was ended: it said more than --max-output allows",
        Limit::FileSize => "the command was killed: a file grew beyond --file-size",
    };
    say::note(format_args!("{what} ({value} bytes)"));
    killed_by(which.signal(), Cause::Limit { which, value })
}

fn killed_by(signal: i32, cause: Cause) -> Ending {
    Ending {
        code: u8::try_from(128 + signal).unwrap_or(u8::MAX),
        cause,
        denials: None,
    }
}
