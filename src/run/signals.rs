//! Signals to groom-ns: passed on, or obeyed together with the command.

use crate::refusal::Refusal;
use crate::signals::stop_here;
use crate::sys::process::pidfd_send_signal;

use super::end::{End, Forced, Phase};
use super::setup;
use super::supervisor::Supervisor;
use super::terminal::Terminal;

/// Signals after which a run isn't kept waiting by a reader that doesn't read.
pub const TELLS_TO_END: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

impl Supervisor<'_> {
    /// Handles the pending signals, in the kernel's order.
    pub(super) fn pass_on(&mut self) -> Result<Option<End>, Refusal> {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo).unwrap_or(libc::SIGTERM);
            let end = self.obey(signal)?;
            if end.is_some() {
                return Ok(end);
            }
        }
        Ok(None)
    }

    /// One signal. Before the command runs and after it has ended there is nobody to
    /// pass it to: it ends the run, but for those after the end that tell nobody to.
    fn obey(&mut self, signal: i32) -> Result<Option<End>, Refusal> {
        let runs = self.phase == Phase::Running && !self.jail.ended;
        match signal {
            libc::SIGCONT => self.go_on()?,
            libc::SIGTSTP if !runs => {
                self.is_told_to_stop = true;
                return self.stop();
            }
            libc::SIGTSTP => {
                self.is_told_to_stop = true;
                self.send(signal);
            }
            // The kernel tells the command, where its terminal gets another size.
            libc::SIGWINCH if self.resize() || !runs => {}
            _ if self.jail.ended && !TELLS_TO_END.contains(&signal) => {}
            _ if !runs => {
                let end = End::Signal(self.phase, signal);
                return Ok(Some(self.timed_out().unwrap_or(end)));
            }
            libc::SIGTERM if !self.clock.tell_to_end() => self.force(Forced::Again),
            _ => {
                // A run that is to end doesn't stop.
                self.is_told_to_stop &= !TELLS_TO_END.contains(&signal);
                self.is_told_to_end |= TELLS_TO_END.contains(&signal);
                self.send(signal);
            }
        }
        Ok(None)
    }

    /// Has pid 1 pass a signal on. It may have ended in between: its pidfd says so next.
    pub(super) fn send(&self, signal: i32) {
        let _ = pidfd_send_signal(&self.jail.pidfd, signal);
    }

    /// The end of a run whose time was up, where only its output is still awaited.
    fn timed_out(&mut self) -> Option<End> {
        self.end
            .take_if(|end| matches!(end, End::Forced(Forced::TimedOut(_))))
    }

    /// Whether there is a terminal outside, whose size the jail's got.
    fn resize(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::resize)
    }

    /// The command was stopped, and so is this process, so that the shell which started it
    /// can go on: after a Ctrl-Z with all of its job, after a SIGTSTP alone. A command that
    /// stopped by itself and has no terminal stays as it is.
    pub(super) fn stop(&mut self) -> Result<Option<End>, Refusal> {
        self.settles_by = None;
        let has_terminal = self.terminal.as_ref().is_some_and(Terminal::is_taken);
        if !has_terminal && !self.is_told_to_stop {
            return Ok(None);
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.give_back();
        }
        self.is_told_to_stop = false;
        self.is_stopped = true;
        let alarm = self.clock.wake()?;
        self.told.stopped();
        stop_here(has_terminal).map_err(|(call, errno)| setup(call)(errno))?;
        self.told.continued();
        drop(alarm);
        // With SIGCONT among them, unless the kernel has let nothing stop: a job that no
        // shell could continue isn't stopped (setpgid(2), orphaned groups).
        let end = self.pass_on()?;
        if self.is_stopped {
            self.go_on()?;
        }
        Ok(end)
    }

    /// Goes on, and the command with it.
    fn go_on(&mut self) -> Result<(), Refusal> {
        self.is_stopped = false;
        self.is_told_to_stop = false;
        if self.phase >= Phase::Released && !self.jail.ended {
            self.take_terminal()?;
        } else if self.is_key_typed {
            self.ask_for_key()?;
        }
        if self.phase == Phase::Running {
            self.send(libc::SIGCONT);
        }
        Ok(())
    }
}
