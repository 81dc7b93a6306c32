//! Signal dispositions, which exec keeps where they are "ignore".

use std::mem::MaybeUninit;
use std::ptr;

/// Whether a signal is ignored, as nohup(1) leaves SIGHUP.
pub fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; `action` has room for the old one.
    let done = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    if done != 0 {
        return false;
    }
    // SAFETY: sigaction succeeded, so it has filled `action` in; before that it
    // was zeroed, which is a valid value of it.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction == libc::SIG_IGN
}

/// Sets every signal that is ignored to its default. Handlers are reset by
/// execve(2) itself. Rust's runtime ignores SIGPIPE; a caller may ignore others.
pub fn unignore_all() {
    for signal in 1..=libc::SIGRTMAX() {
        if is_ignored(signal) {
            // SAFETY: SIG_DFL is no function of ours, so no handler can outlive its code.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}
