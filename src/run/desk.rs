//! What the supervisor does with the terminals, the jail's and the caller's, if there are
//! any.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use tokio::io::Interest;

use crate::refusal::Refusal;
use crate::sys::watch::watch;

use super::events::failed;
use super::setup;
use super::supervisor::Supervisor;
use super::terminal::Terminal;

impl Supervisor<'_> {
    /// Asks for the key, where it is typed.
    pub(super) fn ask_for_key(&mut self) -> Result<(), Refusal> {
        self.is_key_typed = true;
        match &mut self.terminal {
            Some(terminal) => terminal.ask(),
            None => Ok(()),
        }
    }

    /// The jail's terminal is there: it becomes as the caller's is, and its output is
    /// moved.
    pub(super) fn attach(&mut self, handed: Vec<OwnedFd>) -> Result<(), Refusal> {
        let Some(terminal) = &mut self.terminal else {
            return Err(setup("recvmsg")(Errno::EBADMSG));
        };
        let [reads, writes] = terminal.attach(handed)?;
        let writes = watch(writes, Interest::WRITABLE)
            .map_err(|error| failed("watch the jail's terminal", &error))?;
        let is_idle = Arc::clone(&terminal.is_idle);
        self.outputs.spawn(1, reads, is_idle);
        if let Some(tell) = self.tell_terminal.take() {
            // Its input has ended already.
            let _ = tell.send(writes);
        }
        Ok(())
    }

    /// A terminal that is shown nowhere has hung up; a pipe is closed by now.
    pub(super) fn hang_up(&mut self, outer: i32) -> Result<(), Refusal> {
        let is_terminal = |terminal: &&Terminal| terminal.is_jails && outer == 1;
        let terminal = self.terminal.as_ref().filter(is_terminal);
        if let Some(unseen) = terminal.map(Terminal::unseen).transpose()?.flatten() {
            self.outputs.discard(outer, unseen);
            // Where the caller's has hung up, the command has been told.
            if !self.is_told_to_end {
                self.send(libc::SIGHUP);
            }
        }
        Ok(())
    }

    /// Puts the caller's terminal into raw mode, if this is its foreground job.
    pub(super) fn take_terminal(&mut self) -> Result<(), Refusal> {
        match &mut self.terminal {
            Some(terminal) => terminal.take(),
            None => Ok(()),
        }
    }

    /// Puts the caller's terminal back, before the end is said on it.
    pub(super) fn leave(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.leave();
        }
    }
}
