//! The jail's terminal and the caller's: what the one is set to, and when the other is
//! in raw mode. The bytes between them are moved by `pump`.

use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::termios::{FlushArg, SetArg, Termios, tcflush, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use tokio::io::Interest;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::ns;
use crate::refusal::Refusal;
use crate::say;
use crate::sys::process::{stderr, stdin, stdout};
use crate::sys::terminal::{self, Size};

use super::guard::Guard;
use super::pump::is_ready;
use super::setup;

/// What a terminal has that nobody looks at (`stty size`).
const NOBODYS: Size = Size {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// The terminal of a run.
pub(super) struct Terminal {
    /// None until pid 1 has made it.
    master: Option<OwnedFd>,
    outside: Option<Outside>,
    /// Whether the caller's descriptor 0 may be read.
    gate: watch::Sender<bool>,
    /// Whether all that was read of the master is on the caller's terminal.
    pub(super) is_idle: Arc<AtomicBool>,
}

/// The caller's terminal, where descriptor 0 is one: it is typed at.
struct Outside {
    guard: Guard,
    /// Its mode when groom-ns was started.
    mode: Termios,
    /// Whether the command runs, and may have it.
    may_be_taken: bool,
    /// Whether it is in raw mode, for the command.
    is_taken: bool,
}

impl Terminal {
    /// Before there is a jail or a key, as the guard is forked here.
    pub(super) fn prepare() -> Result<Terminal, Refusal> {
        let outside = if stdin().is_terminal() {
            Some(Outside {
                mode: tcgetattr(stdin()).map_err(setup("tcgetattr"))?,
                guard: Guard::start(stdin())?,
                may_be_taken: false,
                is_taken: false,
            })
        } else {
            None
        };
        let (gate, _) = watch::channel(outside.is_none());
        Ok(Terminal {
            master: None,
            outside,
            gate,
            is_idle: Arc::default(),
        })
    }

    /// Tells when descriptor 0 may be read: a background job that reads is stopped.
    pub(super) fn gate(&self) -> watch::Receiver<bool> {
        self.gate.subscribe()
    }

    /// Keeps the key, which is about to be typed, off the screen.
    pub(super) fn quiet(&mut self) -> Result<(), Refusal> {
        match &self.outside {
            Some(outside) if is_foreground() => outside.guard.quiet(),
            _ => Ok(()),
        }
    }

    /// Takes what came with the jail's terminal, and sets it as the caller's is. Returns
    /// two descriptors of the master, to read from and to write to.
    ///
    /// # Errors
    /// `setup`: it isn't one, or can't be set.
    pub(super) fn attach(&mut self, handed: Vec<OwnedFd>) -> Result<[OwnedFd; 2], Refusal> {
        let master = ns::terminal::judge(handed)?;
        if let Some(outside) = &self.outside {
            tcsetattr(&master, SetArg::TCSANOW, &outside.mode).map_err(setup("tcsetattr"))?;
        }
        terminal::set_size(&master, &size()).map_err(setup("ioctl(TIOCSWINSZ)"))?;
        let pair = [second(&master)?, second(&master)?];
        self.master = Some(master);
        Ok(pair)
    }

    /// Puts the caller's terminal into raw mode if this is its foreground job, again if
    /// need be; else leaves it alone.
    pub(super) fn take(&mut self) -> Result<(), Refusal> {
        let Some(outside) = &mut self.outside else {
            return Ok(());
        };
        let is_ours = is_foreground();
        if is_ours {
            outside.guard.raw()?;
        } else if outside.is_taken {
            outside.guard.forget()?;
        }
        outside.may_be_taken = true;
        outside.is_taken = is_ours;
        self.gate.send_replace(is_ours);
        self.resize();
        Ok(())
    }

    /// Puts the caller's terminal back as it was.
    pub(super) fn give_back(&mut self) {
        let Some(outside) = &mut self.outside else {
            return;
        };
        outside.may_be_taken = false;
        outside.is_taken = false;
        self.gate.send_replace(false);
        if outside.guard.back().is_err() {
            say::note("the terminal isn't as it was: its guard was killed; `reset` helps");
        }
    }

    /// Puts it back for good. What was typed for the command, or is the terminal's answer
    /// to it, is not for whoever reads next.
    pub(super) fn leave(&mut self) {
        if self.is_taken() {
            // Else some of it is.
            let _ = tcflush(stdin(), FlushArg::TCIFLUSH);
        }
        self.give_back();
    }

    /// Whether the caller's terminal is in raw mode.
    pub(super) fn is_taken(&self) -> bool {
        self.outside
            .as_ref()
            .is_some_and(|outside| outside.is_taken)
    }

    /// Gives the jail's terminal the size of the caller's, if there is one.
    pub(super) fn resize(&self) -> bool {
        let (Some(master), Some(size)) = (&self.master, size_outside()) else {
            return false;
        };
        // The jail's may have gone in between.
        let _ = terminal::set_size(master, &size);
        true
    }
}

/// Waits until what the command wrote is on the caller's terminal, or that has had its
/// time.
pub(super) async fn settled(terminal: Option<&Terminal>) {
    let Some(Terminal {
        master: Some(master),
        is_idle,
        ..
    }) = terminal
    else {
        return;
    };
    let end = Instant::now() + PATIENCE;
    let is_settled = || {
        let is_readable = is_ready(master, Interest::READABLE).unwrap_or(false);
        is_idle.load(Ordering::Relaxed) && !is_readable
    };
    while !is_settled() && Instant::now() < end {
        sleep(A_MOMENT).await;
    }
}

/// Waits until this job, which was in the background, has the terminal: not every shell
/// tells it. For ever where it has it, or there is none.
pub(super) async fn brought_forward(terminal: Option<&Terminal>) {
    match terminal.map(|terminal| (&terminal.master, &terminal.outside)) {
        Some((Some(_), Some(outside))) if outside.may_be_taken && !outside.is_taken => {
            while !is_foreground() {
                sleep(LOOK).await;
            }
        }
        _ => std::future::pending().await,
    }
}

/// How long a terminal may take for what a stopped command has written.
const PATIENCE: Duration = Duration::from_secs(1);
const A_MOMENT: Duration = Duration::from_millis(2);
/// How often a background job looks whether it still is one.
const LOOK: Duration = Duration::from_millis(200);

/// Another descriptor of the master.
fn second(master: &OwnedFd) -> Result<OwnedFd, Refusal> {
    master
        .try_clone()
        .map_err(|_| setup("fcntl(F_DUPFD_CLOEXEC)")(Errno::EMFILE))
}

/// Whether this process may read and set the terminal: where it isn't the session's
/// (ENOTTY), nobody's jobs are told apart.
fn is_foreground() -> bool {
    match tcgetpgrp(stdin()) {
        Ok(group) => group == getpgrp(),
        Err(_) => true,
    }
}

fn size() -> Size {
    size_outside().unwrap_or(NOBODYS)
}

/// Of the terminal that shows what the command writes, first of all.
fn size_outside() -> Option<Size> {
    [stdout(), stdin(), stderr()]
        .into_iter()
        .filter_map(|fd| terminal::size(fd).ok())
        .find(|size| size.ws_row > 0 && size.ws_col > 0)
}
