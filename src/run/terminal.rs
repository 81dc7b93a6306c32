//! The jail's terminal and the caller's: what the one is set to, and when the other is
//! in raw mode. The bytes between them are moved by `pump`.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::termios::{SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::ns;
use crate::refusal::Refusal;
use crate::sys::process::{stderr, stdin, stdout};
use crate::sys::terminal::{self, Size};
use crate::tty::{Callers, LOOK, Wanted, is_foreground};

use super::pump::is_ready;
use super::setup;

/// What a terminal has that nobody looks at (`stty size`).
const NOBODYS: Size = Size {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// The terminals of a run.
pub(super) struct Terminal {
    /// Whether the jail gets one; else a key is typed at the caller's.
    pub(super) is_jails: bool,
    /// None until pid 1 has made it.
    master: Option<OwnedFd>,
    /// The caller's.
    outside: Option<Callers>,
    /// Whether the caller's descriptor 0 may be read.
    gate: watch::Sender<bool>,
    /// Whether a key may be read there.
    key_gate: watch::Sender<bool>,
    /// Whether all that was read of the master is on the caller's terminal.
    pub(super) is_idle: Arc<AtomicBool>,
}

impl Terminal {
    /// For a jail that gets one, or a caller who types a key, which is asked for with
    /// `question`. Before there is a jail or a key, as a guard is forked here.
    pub(super) fn prepare(
        is_jails: bool,
        question: Option<String>,
    ) -> Result<Option<Terminal>, Refusal> {
        let outside = if is_jails || question.is_some() {
            Callers::at_stdin(question.unwrap_or_default())?
        } else {
            None
        };
        Ok((is_jails || outside.is_some()).then(|| Terminal {
            is_jails,
            master: None,
            gate: watch::channel(outside.is_none()).0,
            key_gate: watch::channel(false).0,
            outside,
            is_idle: Arc::default(),
        }))
    }

    /// Tells when descriptor 0 may be read: a background job that reads is stopped.
    pub(super) fn gate(&self) -> watch::Receiver<bool> {
        self.gate.subscribe()
    }

    /// Tells when a key that is typed isn't shown, where it is typed.
    pub(super) fn key_gate(&self) -> Option<watch::Receiver<bool>> {
        self.outside.as_ref().map(|_| self.key_gate.subscribe())
    }

    /// Asks for the key and keeps it, which is typed then, off the screen.
    pub(super) fn ask(&mut self) -> Result<(), Refusal> {
        self.want(Wanted::Asking)
    }

    /// Takes what came with the jail's terminal, and sets it as the caller's is. Returns
    /// two descriptors of the master, to read from and to write to.
    ///
    /// # Errors
    /// `setup`: it isn't one, or can't be set.
    pub(super) fn attach(&mut self, handed: Vec<OwnedFd>) -> Result<[OwnedFd; 2], Refusal> {
        if !self.is_jails {
            return Err(setup("recvmsg")(Errno::EBADMSG));
        }
        let master = ns::terminal::judge(handed)?;
        let mode = match &self.outside {
            Some(outside) => outside.mode().clone(),
            None => unstopped(tcgetattr(&master).map_err(setup("tcgetattr"))?),
        };
        tcsetattr(&master, SetArg::TCSANOW, &mode).map_err(setup("tcsetattr"))?;
        terminal::set_size(&master, &size()).map_err(setup("ioctl(TIOCSWINSZ)"))?;
        let pair = [second(&master)?, second(&master)?];
        self.master = Some(master);
        Ok(pair)
    }

    /// Puts the caller's terminal into raw mode for the jail's, if this is its foreground
    /// job, again if need be; else leaves it alone.
    pub(super) fn take(&mut self) -> Result<(), Refusal> {
        if self.is_jails {
            self.want(Wanted::Raw)?;
            self.resize();
        } else {
            self.give_back();
        }
        Ok(())
    }

    /// Makes it as it is wanted, now that this is its foreground job.
    pub(super) fn take_again(&mut self) -> Result<(), Refusal> {
        match &self.outside {
            Some(outside) if outside.wanted() == Wanted::Asking => self.ask(),
            _ => self.take(),
        }
    }

    fn want(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        let Some(outside) = &mut self.outside else {
            return Ok(());
        };
        outside.want(wanted)?;
        self.key_gate.send_replace(outside.is(Wanted::Asking));
        self.gate.send_replace(outside.is(Wanted::Raw));
        Ok(())
    }

    /// Puts the caller's terminal back as it was, if it is still this job's.
    pub(super) fn give_back(&mut self) {
        if let Some(outside) = &mut self.outside {
            self.gate.send_replace(false);
            self.key_gate.send_replace(false);
            outside.give_back();
        }
    }

    /// The same for good.
    pub(super) fn leave(&mut self) {
        if let Some(outside) = &mut self.outside {
            outside.leave();
        }
    }

    /// Whether the caller's terminal is in raw mode.
    pub(super) fn is_taken(&self) -> bool {
        self.outside
            .as_ref()
            .is_some_and(|outside| outside.is(Wanted::Raw))
    }

    /// Another descriptor of the jail's terminal, to read what nobody is shown any more.
    pub(super) fn unseen(&self) -> Result<Option<OwnedFd>, Refusal> {
        self.master.as_ref().map(second).transpose()
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

/// When a stopped command's output has had its time.
pub(super) fn settles_by() -> Instant {
    Instant::now() + PATIENCE
}

/// Waits until what the command wrote is on the caller's terminal, or it is `end`. For
/// ever where there is none.
pub(super) async fn settled(terminal: Option<&Terminal>, end: Option<Instant>) {
    let Some(end) = end else {
        return std::future::pending().await;
    };
    let Some(Terminal {
        master: Some(master),
        is_idle,
        ..
    }) = terminal
    else {
        return;
    };
    let is_settled = || {
        let is_readable = is_ready(master, Interest::READABLE).unwrap_or(false);
        is_idle.load(Ordering::Relaxed) && !is_readable
    };
    while !is_settled() && Instant::now() < end {
        sleep(A_MOMENT).await;
    }
}

/// Waits until this job, which was in the background, has the terminal: not every shell
/// tells it. For ever where it has it, doesn't want it, or there is none.
pub(super) async fn brought_forward(terminal: Option<&Terminal>) {
    match terminal.and_then(|terminal| terminal.outside.as_ref()) {
        Some(outside) if outside.wanted() != Wanted::AsItWas && !outside.is(outside.wanted()) => {
            while !is_foreground() {
                sleep(LOOK).await;
            }
        }
        _ => std::future::pending().await,
    }
}

/// A mode in which no byte stops the command: without a terminal outside there is no shell
/// that could let it go on.
fn unstopped(mut mode: Termios) -> Termios {
    mode.control_chars[SpecialCharacterIndices::VSUSP as usize] = libc::_POSIX_VDISABLE;
    mode
}

/// How long a terminal may take for what a stopped command has written.
const PATIENCE: Duration = Duration::from_secs(1);
const A_MOMENT: Duration = Duration::from_millis(2);

/// Another descriptor of the master.
fn second(master: &OwnedFd) -> Result<OwnedFd, Refusal> {
    master
        .try_clone()
        .map_err(|_| setup("fcntl(F_DUPFD_CLOEXEC)")(Errno::EMFILE))
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
