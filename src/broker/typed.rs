//! A key that is typed at the terminal of a broker that no run is tied to.

use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::SignalFd;
use nix::unistd::read;

use crate::refusal::{Reason, Refusal};
use crate::signals::{hold, stop_here};
use crate::sys::process::stdin;
use crate::tty::{Callers, LOOK, Wanted};

use super::alone::setup;
use super::key::Key;
use super::key_source::{LineReader, unreadable};

/// Signals that must not find the terminal as it is while a key is typed.
const HELD: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Asks for the key, and waits for its line. The terminal is then as it was, whatever came,
/// and signals do what they did before.
///
/// # Errors
/// `key`: it can't be read, or isn't one. `setup`: a signal came that ends most programs,
/// or a call failed.
pub(super) fn read_key(mut terminal: Callers) -> Result<Key, Refusal> {
    let before = SigSet::thread_get_mask().map_err(setup("sigprocmask"))?;
    let signals = hold(HELD).map_err(|(call, errno)| setup(call)(errno))?;
    let key = line(&mut terminal, &signals);
    terminal.give_back();
    drop(terminal);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None).map_err(setup("sigprocmask"))?;
    key
}

/// What is typed up to the end of the line, a byte at a time: the rest isn't the broker's.
fn line(terminal: &mut Callers, signals: &SignalFd) -> Result<Key, Refusal> {
    let mut line = LineReader::new()?;
    let mut byte = [0];
    terminal.want(Wanted::Asking)?;
    loop {
        let is_typed = wait(terminal, signals)?;
        if let Ok(Some(info)) = signals.read_signal() {
            let signal =
                i32::try_from(info.ssi_signo).map_or(Ok(Signal::SIGTERM), Signal::try_from);
            obey(signal.unwrap_or(Signal::SIGTERM), terminal)?;
        } else if !terminal.is(Wanted::Asking) {
            // Not every shell tells a job that it is in the foreground now.
            terminal.want(Wanted::Asking)?;
        } else if is_typed {
            let count =
                read(stdin(), &mut byte).map_err(|errno| unreadable("--key-stdin", errno))?;
            if count == 0 || line.push(byte[0]) {
                return line.finish();
            }
        }
    }
}

/// Waits for a signal, or for something that is typed; in the background, where a read
/// would stop this process, for a moment. Says whether something was typed.
fn wait(terminal: &Callers, signals: &SignalFd) -> Result<bool, Refusal> {
    let mut ask = [signals.as_fd(), stdin()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let (asked, patience) = if terminal.is(Wanted::Asking) {
        (&mut ask[..], PollTimeout::NONE)
    } else {
        let look = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
        (&mut ask[..1], look)
    };
    match poll(asked, patience) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(setup("poll")(errno)),
    }
    Ok(ask[1].any().unwrap_or(false))
}

/// A stop finds the terminal as it was; what ends most programs is a refusal.
fn obey(signal: Signal, terminal: &mut Callers) -> Result<(), Refusal> {
    match signal {
        Signal::SIGTSTP => {
            terminal.give_back();
            // It is asked again when the SIGCONT is read, or by and by where nothing stopped.
            stop_here(false).map_err(|(call, errno)| setup(call)(errno))
        }
        Signal::SIGCONT => terminal.want(Wanted::Asking),
        _ => Err(
            Refusal::new(Reason::Setup, "a signal came before the key was read")
                .about(signal.as_str()),
        ),
    }
}
