//! The caller's terminal, where descriptor 0 is one: how it is set while groom-ns is its
//! foreground job, what is asked for on it, and how it comes back.

mod guard;

use std::io::IsTerminal as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::termios::{FlushArg, SetArg, Termios, tcflush, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

use crate::refusal::{Reason, Refusal};
use crate::say;
use crate::sys::process::stdin;

use guard::Guard;

/// How often a background job looks whether it still is one.
pub const LOOK: Duration = Duration::from_millis(200);

/// The terminal that is typed at. Dropped, it is as it was, and its guard is gone.
pub struct Callers {
    guard: Guard,
    /// Its mode when groom-ns was started.
    mode: Termios,
    /// What it says when a key is to be typed.
    question: String,
    /// How it is to be while this is its foreground job.
    wanted: Wanted,
    /// Whether it is.
    is_had: bool,
}

/// How the caller's terminal is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// As groom-ns found it.
    AsItWas,
    /// A key is asked for: what is typed isn't shown.
    Asking,
    /// In raw mode, for the command.
    Raw,
}

impl Callers {
    /// Takes hold of it; none where descriptor 0 isn't one. `question` is what a key is
    /// asked for with. Its guard is forked here: before there is a key, or a jail.
    ///
    /// # Errors
    /// `setup`: tcgetattr(3), socketpair(2) or clone(2).
    pub fn at_stdin(question: String) -> Result<Option<Callers>, Refusal> {
        if !stdin().is_terminal() {
            return Ok(None);
        }
        Ok(Some(Callers {
            mode: tcgetattr(stdin()).map_err(setup("tcgetattr"))?,
            guard: Guard::start(stdin())?,
            question,
            wanted: Wanted::AsItWas,
            is_had: false,
        }))
    }

    /// Its mode when groom-ns was started.
    pub fn mode(&self) -> &Termios {
        &self.mode
    }

    /// Sets it, if this is its foreground job; else as soon as it is asked again, and is.
    ///
    /// # Errors
    /// `setup`: it can't be set, or its guard doesn't answer.
    pub fn want(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        let is_ours = is_foreground();
        if is_ours && self.is(Wanted::Asking) {
            // The end of the question's line: what ends the answer's isn't shown.
            say::at_terminal(stdin(), "\n");
        }
        match wanted {
            // Another job has it, and has set it.
            _ if !is_ours && self.is_had => self.guard.forget()?,
            _ if !is_ours => {}
            Wanted::AsItWas => self.guard.back()?,
            Wanted::Asking => self.guard.quiet()?,
            Wanted::Raw => self.guard.raw()?,
        }
        self.wanted = wanted;
        self.is_had = is_ours && wanted != Wanted::AsItWas;
        if self.is(Wanted::Asking) {
            say::at_terminal(stdin(), &self.question);
        }
        Ok(())
    }

    /// What it was wanted to be last.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }

    /// Whether it was set to this, by this process.
    pub fn is(&self, wanted: Wanted) -> bool {
        self.is_had && self.wanted == wanted
    }

    /// Puts it back as it was, if it is still this job's; by itself, where its guard
    /// doesn't.
    pub fn give_back(&mut self) {
        if self.want(Wanted::AsItWas).is_err() && !self.put_back() {
            say::note("the terminal isn't as it was: its guard was killed; `reset` helps");
        }
    }

    /// What the guard does. Only in the foreground: this process would be stopped in the
    /// background.
    fn put_back(&mut self) -> bool {
        let is_put = is_foreground() && tcsetattr(stdin(), SetArg::TCSANOW, &self.mode).is_ok();
        self.wanted = Wanted::AsItWas;
        self.is_had = false;
        is_put
    }

    /// Puts it back for good. What was typed for the command, or is the terminal's answer
    /// to it, is not for whoever reads next. Another job may have it by now: that can be
    /// before any signal says so.
    pub fn leave(&mut self) {
        if self.is(Wanted::Raw) && is_foreground() {
            // Else some of it is.
            let _ = tcflush(stdin(), FlushArg::TCIFLUSH);
        }
        self.give_back();
    }
}

/// Whether this process may read and set the terminal: where it isn't the session's
/// (ENOTTY), nobody's jobs are told apart. One that has hung up (EIO) is nobody's.
pub fn is_foreground() -> bool {
    match tcgetpgrp(stdin()) {
        Ok(group) => group == getpgrp(),
        Err(errno) => errno == Errno::ENOTTY,
    }
}

fn setup(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "set the caller's terminal")
            .about(call)
            .errno(errno)
    }
}
