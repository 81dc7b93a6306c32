//! Signals to groom-ns itself: held to be read one by one, and stopping as they ask.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, getpid};

use crate::sys::signal::is_ignored;

/// The call that failed, for messages, and its errno.
pub type Failed = (&'static str, Errno);

/// Blocks these signals, but for those that the caller had ignored (nohup(1)): blocked,
/// they would be delivered here all the same. They are read from what is returned: it
/// doesn't wait, is close-on-exec and the caller's (signalfd(2)).
///
/// # Errors
/// Of rt_sigaction(2), sigprocmask(2) and signalfd(2).
pub fn hold(signals: impl IntoIterator<Item = Signal>) -> Result<SignalFd, Failed> {
    let mut held = SigSet::empty();
    for signal in signals {
        if !is_ignored(signal as i32).map_err(|errno| ("rt_sigaction", errno))? {
            held.add(signal);
        }
    }
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&held), None)
        .map_err(|errno| ("sigprocmask", errno))?;
    SignalFd::with_flags(&held, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(|errno| ("signalfd", errno))
}

/// Stops this process, or its whole group as Ctrl-Z does, until SIGCONT. SIGTSTP is held
/// before and after. Where no shell could let it go on, nothing stops (setpgid(2),
/// orphaned groups).
///
/// # Errors
/// Of kill(2) and sigprocmask(2).
pub fn stop_here(group: bool) -> Result<(), Failed> {
    let whom = if group { Pid::from_raw(0) } else { getpid() };
    kill(whom, Signal::SIGTSTP).map_err(|errno| ("kill", errno))?;
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTSTP);
    for how in [SigmaskHow::SIG_UNBLOCK, SigmaskHow::SIG_BLOCK] {
        sigprocmask(how, Some(&stop), None).map_err(|errno| ("sigprocmask", errno))?;
    }
    Ok(())
}
