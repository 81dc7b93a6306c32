//! What the supervisor knows of a run, and what it does about each event.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::broker::serve::Service;
use crate::ns::asking;
use crate::ns::channel::{Channel, FromJail, ToJail};
use crate::ns::listeners::Listening;
use crate::receipt::told::Told;
use crate::refusal::Refusal;
use crate::sabotage::{Mechanism, stands};
use crate::say;
use crate::sys::notify::Listener;

use super::clock::{Clock, Due};
use super::end::{self, End, Forced, Phase};
use super::events::Event;
use super::relay::{Moved, OUTPUT_LOST, Outputs};
use super::terminal::{Terminal, settles_by};
use super::{Jail, setup};

/// How long a reader that doesn't read has, from the command's end on, where the run was
/// told to end.
const DRAIN: Duration = Duration::from_secs(1);

/// A run under way.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Supervisor<'run> {
    pub(super) jail: Jail,
    channel: &'run Channel,
    pub(super) signals: &'run SignalFd,
    /// Who hears what happens.
    pub(super) told: &'run mut Told,
    pub(super) terminal: Option<Terminal>,
    pub(super) clock: Clock,
    pub(super) outputs: Outputs,
    pub(super) phase: Phase,
    /// Who waits for the broker's listeners.
    tell_listeners: Option<oneshot::Sender<Listening>>,
    /// Who waits for the master of the jail's terminal, to write to it.
    pub(super) tell_terminal: Option<oneshot::Sender<AsyncFd<OwnedFd>>>,
    /// Who waits for the listener of the command's filter.
    tell_listener: Option<oneshot::Sender<Listener>>,
    service: Option<Service>,
    /// Whether the broker is still being made; the command waits for it.
    pub(super) is_opening: bool,
    /// Whether the jail's side may still say something.
    is_open: bool,
    /// Whether the input has ended.
    pub(super) is_fed: bool,
    /// Whether a signal that ends most commands was passed on.
    pub(super) is_told_to_end: bool,
    /// Until when a stop of the command's is the answer to one that stops most commands.
    pub(super) stop_awaited_until: Option<Instant>,
    /// Whether the command is stopped.
    pub(super) is_command_stopped: bool,
    /// How long the last output of a command that was stopped may take.
    pub(super) settles_by: Option<Instant>,
    /// Whether a key is being typed.
    pub(super) is_key_typed: bool,
    /// Whether this process was stopped, and hasn't gone on.
    pub(super) is_stopped: bool,
    /// Whether input or output was lost.
    is_short: bool,
    /// Whether some of it was, as nobody read it at the end.
    pub(super) is_output_lost: bool,
    /// What ended the command, or kept it from running.
    said: Option<FromJail>,
    /// Why the run is being ended, if the command isn't asked any more.
    forced: Option<Forced>,
    /// Set once the jail is gone; then only output is moved.
    pub(super) end: Option<End>,
    /// How long that may take.
    pub(super) patience: Option<Instant>,
}

impl<'run> Supervisor<'run> {
    pub(super) fn new(
        jail: Jail,
        channel: &'run Channel,
        signals: &'run SignalFd,
        terminal: Option<Terminal>,
        clock: Clock,
        outputs: Outputs,
        told: &'run mut Told,
    ) -> Self {
        Supervisor {
            jail,
            channel,
            signals,
            told,
            terminal,
            clock,
            outputs,
            phase: Phase::Building,
            tell_listeners: None,
            tell_terminal: None,
            tell_listener: None,
            service: None,
            is_opening: false,
            is_open: true,
            is_fed: false,
            is_told_to_end: false,
            stop_awaited_until: None,
            is_command_stopped: false,
            settles_by: None,
            is_key_typed: false,
            is_stopped: false,
            is_short: false,
            is_output_lost: false,
            said: None,
            forced: None,
            end: None,
            patience: None,
        }
    }

    /// Where the broker's listeners arrive.
    pub(super) fn listeners_arrive(&mut self) -> oneshot::Receiver<Listening> {
        let (tell, arrives) = oneshot::channel();
        self.tell_listeners = Some(tell);
        arrives
    }

    /// Where the jail's terminal arrives, if there is to be one.
    pub(super) fn terminal_arrives(&mut self) -> Option<oneshot::Receiver<AsyncFd<OwnedFd>>> {
        self.terminal
            .as_ref()
            .filter(|terminal| terminal.is_jails)?;
        let (tell, arrives) = oneshot::channel();
        self.tell_terminal = Some(tell);
        Some(arrives)
    }

    /// Where the listener of the command's filter arrives.
    pub(super) fn listener_arrives(&mut self) -> oneshot::Receiver<Listener> {
        let (tell, arrives) = oneshot::channel();
        self.tell_listener = Some(tell);
        arrives
    }

    /// Whether what the jail's side says is listened to.
    pub(super) fn hears(&self) -> bool {
        self.is_open && self.end.is_none() && self.said.is_none()
    }

    /// The end, once the jail is gone and its output is moved, or won't be.
    pub(super) fn is_over(&mut self) -> Option<End> {
        let is_moved = self.outputs.is_empty();
        let is_out_of_patience = self.is_told_to_end && self.patience.is_none();
        if !(is_moved || is_out_of_patience) {
            return None;
        }
        let end = self.end.take()?;
        self.is_output_lost = !is_moved;
        Some(end)
    }

    /// Does what an event asks for. What is returned ends the run at once.
    pub(super) fn handle(&mut self, event: Event) -> Result<Option<End>, Refusal> {
        match event {
            Event::Said => self.hear()?,
            Event::JailEnded => self.jail_ended()?,
            Event::Opened(service) => self.opened(service?)?,
            Event::Signals => return self.pass_on(),
            Event::Due(Due::Term) => self.time_is_up(),
            Event::Due(Due::Kill) => self.force(Forced::Late(self.clock.grace())),
            Event::OutOfPatience => self.patience = None,
            Event::CallerGone => return Ok(Some(End::Abandoned(self.phase))),
            Event::Fed(is_cut) => {
                self.is_fed = true;
                self.is_short |= is_cut;
            }
            Event::Moved(Moved::Whole) => {}
            Event::Moved(Moved::Nowhere(outer, is_lost)) => {
                self.is_short |= is_lost;
                self.hang_up(outer)?;
            }
            Event::Settled => return self.command_stopped(),
            Event::Foreground => {
                if let Some(terminal) = &mut self.terminal {
                    terminal.take_again()?;
                }
            }
            Event::Flooded => self.jail.kill(),
            Event::Unanswered(lost) => {
                // First, so that nothing of it sees the listener closed.
                self.jail.kill();
                return Err(lost);
            }
        }
        Ok(None)
    }

    /// The jail's side has said something.
    fn hear(&mut self) -> Result<(), Refusal> {
        self.said = self.listen()?;
        // The command's process may have refused while pid 1 still waits for a word that
        // won't come.
        if let Some(FromJail::Refused(_)) = self.said {
            self.jail.kill();
        }
        Ok(())
    }

    /// Pid 1 has ended, and the jail with it.
    fn jail_ended(&mut self) -> Result<(), Refusal> {
        let status = waitpid(self.jail.pid, None).map_err(setup("waitpid"))?;
        self.jail.ended = true;
        self.clock.stop();
        // What it said last may still be unread.
        let last = match self.said.take() {
            None => self.listen()?,
            said => said,
        };
        self.end = Some(match (last, self.forced.take()) {
            // Its time was up, whatever it made of that.
            (_, Some(Forced::TimedOut(limit))) => End::Forced(Forced::TimedOut(limit)),
            (Some(said), _) => End::Said(said),
            (None, Some(forced)) => End::Forced(forced),
            (None, None) => End::Silent(self.phase, status),
        });
        self.patience = self.is_told_to_end.then(|| Instant::now() + DRAIN);
        Ok(())
    }

    /// The broker answers.
    fn opened(&mut self, service: Service) -> Result<(), Refusal> {
        self.service = Some(service);
        self.is_opening = false;
        self.is_key_typed = false;
        say::step("the broker answers");
        self.let_go()
    }

    /// The time limit has come: the command is asked to end.
    fn time_is_up(&mut self) {
        let limit = self.clock.limit();
        self.forced.get_or_insert(Forced::TimedOut(limit));
        self.is_told_to_end = true;
        if self.clock.tell_to_end() {
            self.send(libc::SIGTERM);
        }
    }

    /// Kills the jail: it was asked to end, and hasn't.
    pub(super) fn force(&mut self, why: Forced) {
        self.forced.get_or_insert(why);
        self.clock.stop();
        if stands(Mechanism::GraceKill) {
            self.jail.kill();
        }
    }

    /// Takes what the jail's side has said; returns what ends the run. That it is
    /// gone is told by pid 1's pidfd, not by a failed call on the channel.
    fn listen(&mut self) -> Result<Option<FromJail>, Refusal> {
        while self.is_open {
            match self.channel.try_receive::<FromJail>() {
                Ok(Some((said, handed))) => {
                    if let Some(end) = self.said_so(said, handed)? {
                        return Ok(Some(end::in_phase(self.phase, end)));
                    }
                }
                Err(Errno::EAGAIN) => break,
                // tokio keeps a hung-up descriptor ready for ever.
                Ok(None) => self.is_open = false,
                Err(errno) => return Err(setup("recv")(errno)),
            }
        }
        Ok(None)
    }

    /// Does what one message asks for; one that ends the run is returned.
    fn said_so(
        &mut self,
        said: FromJail,
        handed: Vec<OwnedFd>,
    ) -> Result<Option<FromJail>, Refusal> {
        match said {
            FromJail::Terminal => self.attach(handed)?,
            FromJail::Listening => {
                let listening = Listening::judge(handed)?;
                if let Some(tell) = self.tell_listeners.take() {
                    // Refused meanwhile: the refusal is on its way here.
                    let _ = tell.send(listening);
                }
            }
            FromJail::Asking => {
                let listener = asking::taken(handed)?;
                if let Some(tell) = self.tell_listener.take() {
                    // Refused meanwhile, as for the door.
                    let _ = tell.send(listener);
                }
            }
            FromJail::Ready => {
                self.phase.reach(Phase::Confining);
                self.told.built(self.jail.pid);
                self.let_go()?;
            }
            FromJail::Confined(evidence) => match self.told.confined(evidence, handed) {
                Ok(()) => {
                    self.tell(ToJail::Recorded)?;
                }
                // Its process waits for the word: the command hasn't run.
                Err(refusal) => return Ok(Some(FromJail::Refused(refusal))),
            },
            FromJail::Executing => {
                self.phase.reach(Phase::Running);
                self.told.running();
                self.clock.start();
            }
            FromJail::Stopped => {
                self.is_command_stopped = true;
                self.settles_by = Some(settles_by());
            }
            FromJail::Continued => self.goes_on(),
            end => return Ok(Some(end)),
        }
        Ok(None)
    }

    /// Lets the command start, once the jail stands and the broker answers.
    fn let_go(&mut self) -> Result<(), Refusal> {
        if self.phase != Phase::Confining || self.is_opening {
            return Ok(());
        }
        self.take_terminal()?;
        if self.tell(ToJail::Go)? {
            self.phase.reach(Phase::Released);
        }
        Ok(())
    }

    /// Says something to the jail's side; false if it is gone, which its pidfd tells.
    fn tell(&self, word: ToJail) -> Result<bool, Refusal> {
        self.channel.tell(&word).map_err(setup("send"))
    }

    /// Has what is under way in the broker say how it ended: nobody is left to be
    /// answered.
    pub(super) async fn close_door(&mut self) {
        if let Some(service) = self.service.take().filter(|_| self.jail.ended) {
            let _ = timeout(DRAIN, service.drain()).await;
        }
    }

    /// Outside, the command itself would have seen that its output or input failed.
    pub(super) fn judge(&self, end: End) -> End {
        match end {
            End::Said(FromJail::Exited(0)) if self.is_short || self.is_output_lost => {
                End::Said(FromJail::Exited(OUTPUT_LOST))
            }
            end => end,
        }
    }
}
