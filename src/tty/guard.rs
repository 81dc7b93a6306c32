//! The guard of the caller's terminal: a process that puts it into raw mode and back,
//! and back above all when groom-ns is gone, however it went. It is forked before there
//! is a jail, or a run's token, and has no descriptors but the terminal and a socket. A key
//! that came in a variable or a file is there by then, in a page that a fork sees as zeroes
//! (`MADV_WIPEONFORK`, madvise(2)). The token of a broker on its own (`--token-file`) is there
//! too, and in the guard's memory: it is judged before anybody is asked to type a key. Both
//! processes are undumpable, and the guard is gone once the key is typed.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_dumpable;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::termios::{LocalFlags, SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, read, setpgid, write};

use crate::ns::stdio;
use crate::refusal::Refusal;
use crate::sabotage::{Mechanism, stands};
use crate::sys::process::{Forked, close_all_but, exit_at_once, fork_into, pidfd_send_signal};

use super::setup;

/// What the guard is asked for, a byte each, and answers with the same byte.
const RAW: u8 = b'r';
const QUIET: u8 = b'q';
const BACK: u8 = b'b';
const FORGET: u8 = b'f';
const FAILED: u8 = b'!';

/// How long its answer, and its end, may take: somebody may have stopped it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The supervisor's side. Dropped, the terminal is as it was, and the guard is reaped.
pub(super) struct Guard {
    pid: Pid,
    pidfd: OwnedFd,
    /// None once it has been closed.
    socket: Option<OwnedFd>,
}

impl Guard {
    /// Forks it. `terminal` stays the caller's.
    pub(super) fn start(terminal: BorrowedFd) -> Result<Guard, Refusal> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
            .map_err(setup("socketpair"))?;
        match fork_into(0).map_err(setup("clone"))? {
            Forked::Parent(pid, pidfd) => Ok(Guard {
                pid,
                pidfd,
                socket: Some(ours),
            }),
            Forked::Child => {
                drop(ours);
                if let Ok(terminal) = terminal.try_clone_to_owned() {
                    let _ = become_the_guard(&theirs, &terminal);
                }
                exit_at_once(0)
            }
        }
    }

    /// Every byte goes through as it is.
    pub(super) fn raw(&mut self) -> Result<(), Refusal> {
        self.ask(RAW).map_err(setup("tcsetattr"))
    }

    /// As it was, but nothing that is typed is shown: a key is.
    pub(super) fn quiet(&mut self) -> Result<(), Refusal> {
        self.ask(QUIET).map_err(setup("tcsetattr"))
    }

    /// As it was before the first of these.
    pub(super) fn back(&mut self) -> Result<(), Refusal> {
        self.ask(BACK).map_err(setup("tcsetattr"))
    }

    /// Another job has the terminal now: its mode is that job's.
    pub(super) fn forget(&mut self) -> Result<(), Refusal> {
        self.ask(FORGET).map_err(setup("tcsetattr"))
    }

    /// Waits for the answer: the terminal is then as was asked. A guard that doesn't
    /// answer in time is killed: what it was asked for must not be done later.
    fn ask(&mut self, what: u8) -> nix::Result<()> {
        let socket = self.socket.as_ref().ok_or(Errno::EPIPE)?;
        let mut answer = [0];
        // EPIPE and the end of file: somebody has killed the guard.
        write(socket, &[what])?;
        if !is_readable_in_time(socket.as_fd()) {
            let _ = pidfd_send_signal(&self.pidfd, libc::SIGKILL);
            self.socket = None;
            return Err(Errno::ETIMEDOUT);
        }
        match retried(|| read(socket, &mut answer))? {
            1 if answer == [what] => Ok(()),
            1 => Err(Errno::EIO),
            _ => Err(Errno::EPIPE),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.socket = None;
        // In a fork, whose child the guard isn't, there is nothing to wait for.
        let at_once = retried(|| waitpid(self.pid, Some(WaitPidFlag::WNOHANG)));
        if at_once != Ok(WaitStatus::StillAlive) {
            return;
        }
        if !is_readable_in_time(self.pidfd.as_fd()) {
            let _ = pidfd_send_signal(&self.pidfd, libc::SIGKILL);
        }
        let _ = retried(|| waitpid(self.pid, None));
    }
}

/// Waits until it can be read, or has ended.
fn is_readable_in_time(fd: BorrowedFd) -> bool {
    let end = Instant::now() + PATIENCE;
    let mut ask = [PollFd::new(fd, PollFlags::POLLIN)];
    retried(|| {
        let left = end.saturating_duration_since(Instant::now());
        poll(
            &mut ask,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO),
        )
    }) != Ok(0)
}

fn retried<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// The guard's whole life.
fn become_the_guard(socket: &OwnedFd, terminal: &OwnedFd) -> nix::Result<()> {
    // 1. No signal ends it. SIGTTOU among them: from the background it may then set the
    //    terminal's mode (tcsetattr(3)).
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    // 2. What is done to groom-ns's process group isn't done to it.
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    // 3. Nobody reads in it what groom-ns was started with.
    set_dumpable(false)?;
    // 4. No other end of anybody's pipe.
    if stdio::let_go().is_err() {
        return Err(Errno::EIO);
    }
    close_all_but([socket.as_fd(), terminal.as_fd()])?;
    // 5. What it is for, until the other side is gone.
    let mut before = None;
    let mut what = [0];
    while retried(|| read(socket, &mut what)) == Ok(1) {
        let answer = match change(terminal, &mut before, what[0]) {
            Ok(()) => what,
            Err(_) => [FAILED],
        };
        let _ = write(socket, &answer);
    }
    if stands(Mechanism::TerminalGuard) {
        change(terminal, &mut before, BACK)?;
    }
    Ok(())
}

/// Changes the terminal's mode; `before` is its mode before the first change.
fn change(terminal: &OwnedFd, before: &mut Option<Termios>, what: u8) -> nix::Result<()> {
    if what == BACK || what == FORGET {
        let Some(mode) = before.take().filter(|_| what == BACK) else {
            return Ok(());
        };
        return tcsetattr(terminal, SetArg::TCSANOW, &mode);
    }
    let known = match before.clone() {
        Some(mode) => mode,
        None => tcgetattr(terminal)?,
    };
    let mut mode = known.clone();
    match what {
        RAW => cfmakeraw(&mut mode),
        _ => mode.local_flags.remove(LocalFlags::ECHO),
    }
    *before = Some(known);
    tcsetattr(terminal, SetArg::TCSANOW, &mode)
}
