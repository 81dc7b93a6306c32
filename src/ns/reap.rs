//! What pid 1 does while the command runs: it waits, passes signals on, and reaps.
//! It is confined by then, and makes no call that `confine::seccomp::init` doesn't list.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::refusal::EXIT_REFUSED;
use crate::sabotage::{Mechanism, stands};
use crate::sys::process::exit_at_once;
use crate::sys::signal::wait;

use super::channel::{Channel, FromJail};

/// Signals that the supervisor passes on to the command.
pub const PASSED_ON: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Waits for the command to end, reaping whatever else ends, passing on the supervisor's
/// signals, and telling it when the command is stopped, and goes on.
pub(super) fn until_the_end(command: Pid, channel: &Channel) -> FromJail {
    let mut awaited = SigSet::empty();
    awaited.add(Signal::SIGCHLD);
    awaited.extend(PASSED_ON);
    loop {
        match wait(&awaited) {
            Ok((Signal::SIGCHLD, _)) => {
                if let Some(end) = reap(command, channel) {
                    return end;
                }
            }
            Ok((signal, is_outer)) if is_outer || !stands(Mechanism::OuterSignalsAlone) => {
                pass_on(signal, command);
            }
            // Of the command's own, where landlock has no scope to deny it (before ABI 6).
            Ok(_) | Err(Errno::EINTR) => {}
            // Deaf to the command's end; the supervisor is told by pid 1's.
            Err(_) => exit_at_once(EXIT_REFUSED),
        }
    }
}

/// Sends a signal on: to the command's process group where a terminal would do the same,
/// to the command alone else. It may be gone already; its end is the next SIGCHLD.
fn pass_on(signal: Signal, command: Pid) {
    match signal {
        Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTSTP | Signal::SIGCONT => {
            to_group(signal, command);
        }
        // A command that was stopped gets to see its end.
        Signal::SIGTERM => {
            let _ = kill(command, signal);
            to_group(Signal::SIGCONT, command);
        }
        _ => drop(kill(command, signal)),
    }
}

/// The group is the command's own, but where that was taken away.
fn to_group(signal: Signal, command: Pid) {
    if kill(Pid::from_raw(-command.as_raw()), signal).is_err() {
        let _ = kill(command, signal);
    }
}

/// Reaps all that has ended; the command's end if it is among them.
fn reap(command: Pid, channel: &Channel) -> Option<FromJail> {
    loop {
        let stops = WaitPidFlag::WUNTRACED | WaitPidFlag::WCONTINUED;
        match waitpid(None, Some(WaitPidFlag::WNOHANG | stops)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == command => {
                return Some(FromJail::Exited(code));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                return Some(FromJail::Killed(signal as i32));
            }
            Ok(WaitStatus::Stopped(pid, _)) if pid == command => {
                // A supervisor that is gone takes this process with it.
                let _ = channel.send(&FromJail::Stopped);
            }
            Ok(WaitStatus::Continued(pid)) if pid == command => {
                let _ = channel.send(&FromJail::Continued);
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
            Ok(_) | Err(Errno::EINTR) => {}
            // Deaf to the command's end, as above.
            Err(_) => exit_at_once(EXIT_REFUSED),
        }
    }
}
