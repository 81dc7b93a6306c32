//! Signals to groom-ns: passed on, or obeyed together with the command.

use std::time::Duration;

use tokio::time::Instant;

use crate::refusal::Refusal;
use crate::signals::stop_here;
use crate::sys::process::pidfd_send_signal;

use super::end::{End, Forced, Phase};
use super::setup;
use super::supervisor::Supervisor;
use super::terminal::Terminal;

/// Signals after which a run isn't kept waiting by a reader that doesn't read.
pub const TELLS_TO_END: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// How long after a signal that stops most commands a stop of the command's is its answer;
/// a program may put its screen in order before. One that ignores it is as it would be
/// without groom-ns: nothing stops.
const ANSWER: Duration = Duration::from_secs(2);

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
            libc::SIGTSTP if !runs => return self.stop(),
            libc::SIGTSTP => {
                self.send(signal);
                if self.is_command_stopped {
                    // It won't answer.
                    return self.stop();
                }
                self.stop_awaited_until = Some(Instant::now() + ANSWER);
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
                if TELLS_TO_END.contains(&signal) {
                    // A run that is to end doesn't stop.
                    self.stop_awaited_until = None;
                    self.is_told_to_end = true;
                }
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

    /// The command was stopped, and what it wrote is shown. So is this process, where a
    /// shell has to know: the jail's terminal has the foreground, or this process was told
    /// to stop. A command that stopped by itself, elsewhere, stays as it is: this process
    /// has to see its caller's end and the time.
    pub(super) fn command_stopped(&mut self) -> Result<Option<End>, Refusal> {
        self.settles_by = None;
        let is_answer = self
            .stop_awaited_until
            .take()
            .is_some_and(|end| Instant::now() < end);
        let has_terminal = self.terminal.as_ref().is_some_and(Terminal::is_taken);
        if has_terminal || is_answer {
            return self.stop();
        }
        Ok(None)
    }

    /// The command goes on: this process needn't stop any more.
    pub(super) fn goes_on(&mut self) {
        self.is_command_stopped = false;
        self.settles_by = None;
    }

    /// Stops this process, so that the shell which started it can go on: with all of its
    /// job where the terminal is in raw mode, in which Ctrl-Z tells nobody; else the kernel
    /// has told the others.
    fn stop(&mut self) -> Result<Option<End>, Refusal> {
        let has_terminal = self.terminal.as_ref().is_some_and(Terminal::is_taken);
        self.stop_awaited_until = None;
        if let Some(terminal) = &mut self.terminal {
            terminal.give_back();
        }
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
        self.stop_awaited_until = None;
        self.goes_on();
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
