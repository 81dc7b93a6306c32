//! The jail's terminal and the caller's: what the one is set to, and when the other is
//! in raw mode. The bytes between them are moved by `pump`.

use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::termios::{
    FlushArg, SetArg, SpecialCharacterIndices, Termios, tcflush, tcgetattr, tcsetattr,
};
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

/// The terminals of a run.
pub(super) struct Terminal {
    /// Whether the jail gets one; else a key is typed at the caller's.
    pub(super) is_jails: bool,
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
    /// How it is to be while this is its foreground job.
    wanted: Wanted,
    /// Whether it is.
    is_had: bool,
    /// Whether a key may be read there.
    is_quiet: watch::Sender<bool>,
}

/// How the caller's terminal is to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    AsItWas,
    /// Not showing what is typed: a key.
    Quiet,
    /// In raw mode, for the command.
    Raw,
}

impl Terminal {
    /// For a jail that gets one, or a caller who types a key. Before there is a jail or a
    /// key, as the guard is forked here.
    pub(super) fn prepare(is_jails: bool, is_key_typed: bool) -> Result<Option<Terminal>, Refusal> {
        let outside = if (is_jails || is_key_typed) && stdin().is_terminal() {
            Some(Outside {
                mode: tcgetattr(stdin()).map_err(setup("tcgetattr"))?,
                guard: Guard::start(stdin())?,
                wanted: Wanted::AsItWas,
                is_had: false,
                is_quiet: watch::channel(false).0,
            })
        } else {
            None
        };
        let (gate, _) = watch::channel(outside.is_none());
        Ok((is_jails || outside.is_some()).then(|| Terminal {
            is_jails,
            master: None,
            outside,
            gate,
            is_idle: Arc::default(),
        }))
    }

    /// Tells when descriptor 0 may be read: a background job that reads is stopped.
    pub(super) fn gate(&self) -> watch::Receiver<bool> {
        self.gate.subscribe()
    }

    /// Tells when a key that is typed isn't shown, where it is typed.
    pub(super) fn key_gate(&self) -> Option<watch::Receiver<bool>> {
        let outside = self.outside.as_ref()?;
        Some(outside.is_quiet.subscribe())
    }

    /// Keeps the key, which is about to be typed, off the screen.
    pub(super) fn quiet(&mut self) -> Result<(), Refusal> {
        self.want(Wanted::Quiet)
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
            Some(outside) => outside.mode.clone(),
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
            Some(outside) if outside.wanted == Wanted::Quiet => self.quiet(),
            _ => self.take(),
        }
    }

    fn want(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        let Some(outside) = &mut self.outside else {
            return Ok(());
        };
        let is_ours = is_foreground();
        match wanted {
            // Another job has it, and has set it.
            _ if !is_ours && outside.is_had => outside.guard.forget()?,
            _ if !is_ours => {}
            Wanted::AsItWas => outside.guard.back()?,
            Wanted::Quiet => outside.guard.quiet()?,
            Wanted::Raw => outside.guard.raw()?,
        }
        outside.wanted = wanted;
        outside.is_had = is_ours && wanted != Wanted::AsItWas;
        let is_so = |how| is_ours && wanted == how;
        outside.is_quiet.send_replace(is_so(Wanted::Quiet));
        self.gate.send_replace(is_so(Wanted::Raw));
        Ok(())
    }

    /// Puts the caller's terminal back as it was, if it is still this job's.
    pub(super) fn give_back(&mut self) {
        self.gate.send_replace(self.outside.is_none());
        if self.want(Wanted::AsItWas).is_err() && !self.put_back() {
            say::note("the terminal isn't as it was: its guard was killed; `reset` helps");
        }
    }

    /// What the guard does, where somebody has killed it. Only in the foreground: this
    /// process would be stopped in the background.
    fn put_back(&self) -> bool {
        let is_put = |outside: &Outside| {
            is_foreground() && tcsetattr(stdin(), SetArg::TCSANOW, &outside.mode).is_ok()
        };
        self.outside.as_ref().is_some_and(is_put)
    }

    /// Puts it back for good. What was typed for the command, or is the terminal's answer
    /// to it, is not for whoever reads next. Another job may have it by now: that can be
    /// before any signal says so.
    pub(super) fn leave(&mut self) {
        if self.is_taken() && is_foreground() {
            // Else some of it is.
            let _ = tcflush(stdin(), FlushArg::TCIFLUSH);
        }
        self.give_back();
    }

    /// Whether the caller's terminal is in raw mode.
    pub(super) fn is_taken(&self) -> bool {
        self.outside
            .as_ref()
            .is_some_and(|outside| outside.wanted == Wanted::Raw && outside.is_had)
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
        Some(outside) if outside.wanted != Wanted::AsItWas && !outside.is_had => {
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
/// How often a background job looks whether it still is one.
const LOOK: Duration = Duration::from_millis(200);

/// Another descriptor of the master.
fn second(master: &OwnedFd) -> Result<OwnedFd, Refusal> {
    master
        .try_clone()
        .map_err(|_| setup("fcntl(F_DUPFD_CLOEXEC)")(Errno::EMFILE))
}

/// Whether this process may read and set the terminal: where it isn't the session's
/// (ENOTTY), nobody's jobs are told apart. One that has hung up (EIO) is nobody's.
fn is_foreground() -> bool {
    match tcgetpgrp(stdin()) {
        Ok(group) => group == getpgrp(),
        Err(errno) => errno == Errno::ENOTTY,
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
