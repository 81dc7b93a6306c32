//! Signal dispositions, which exec keeps where they are "ignore", and waiting.
//!
//! By rt_sigaction(2) itself: libc's sigaction hides signals 32 and 33, which it
//! uses for threads, and a caller may have ignored those too.

use std::mem::MaybeUninit;
use std::ptr;

use nix::Result;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise, sigprocmask};

/// The last signal, `_NSIG` of asm/signal.h.
const LAST: libc::c_int = 64;

/// The kernel's `struct sigaction` (x86_64, asm/signal.h).
#[repr(C)]
struct Action {
    handler: libc::sighandler_t,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

/// The default disposition, without flags.
const DEFAULT: Action = Action {
    handler: libc::SIG_DFL,
    flags: 0,
    restorer: 0,
    mask: 0,
};

/// Whether a signal is ignored, as nohup(1) leaves SIGHUP.
pub fn is_ignored(signal: libc::c_int) -> Result<bool> {
    let mut action = DEFAULT;
    // SAFETY: a null new action only asks; `action` has the kernel's layout, whose
    // mask is as long as the last argument says, and outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            ptr::null::<Action>(),
            &raw mut action,
            size_of::<u64>(),
        )
    };
    Errno::result(done).map(|_| action.handler == libc::SIG_IGN)
}

/// Gives a signal its default disposition back.
pub fn set_default(signal: libc::c_int) -> Result<()> {
    set(signal, libc::SIG_DFL)
}

/// Ends this process by a signal, as its parent sees it (wait(2)). It comes back where
/// the caller had the signal ignored, or the kernel answers an error.
pub fn die_of(signal: Signal) {
    if is_ignored(signal as libc::c_int).unwrap_or(true) {
        return;
    }
    let mut only = SigSet::empty();
    only.add(signal);
    let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&only), None);
    let _ = raise(signal);
}

/// Has the kernel discard a signal.
pub fn ignore(signal: libc::c_int) -> Result<()> {
    set(signal, libc::SIG_IGN)
}

fn set(signal: libc::c_int, handler: libc::sighandler_t) -> Result<()> {
    let action = Action { handler, ..DEFAULT };
    // SAFETY: as in `is_ignored`, the other way round; neither SIG_DFL nor SIG_IGN is
    // a function of ours, so no handler can outlive its code.
    let done = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const action,
            ptr::null_mut::<Action>(),
            size_of::<u64>(),
        )
    };
    Errno::result(done).map(drop)
}

/// Waits for one of these signals, which must be blocked, and takes it: sigwaitinfo(2).
/// Whether a process outside of this pid namespace has sent it comes with it: such a
/// sender is numbered 0, and of kill(2) and pidfd_send_signal(2), unlike of
/// rt_sigqueueinfo(2), nobody can forge that (`SI_USER`).
///
/// nix's `SigSet::wait` takes the error number that sigwait(3) returns for a success,
/// and names a signal that wasn't written.
pub fn wait(signals: &SigSet) -> Result<(Signal, bool)> {
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: the set is libc's own, and both outlive the call.
    let signal = unsafe { libc::sigwaitinfo(signals.as_ref(), info.as_mut_ptr()) };
    let signal = Errno::result(signal).and_then(Signal::try_from)?;
    // SAFETY: the call succeeded, so the kernel has written it whole.
    let info = unsafe { info.assume_init() };
    // SAFETY: SI_USER says that the fields of kill(2) are there (sigaction(2)).
    let is_outer = info.si_code == libc::SI_USER && unsafe { info.si_pid() } == 0;
    Ok((signal, is_outer))
}

/// Gives every signal but SIGKILL and SIGSTOP, which have no other, its default
/// disposition. Rust's runtime ignores SIGPIPE; a caller may ignore any.
pub fn set_all_default() -> Result<()> {
    (1..=LAST)
        .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal))
        .try_for_each(set_default)
}
