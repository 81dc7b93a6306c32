//! The event loop: one current-thread runtime, made after the fork. Everything
//! that can happen to a run is one branch of one `select!`.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use crate::broker::TASKS_A_TURN;
use crate::broker::key::Key;
use crate::broker::serve::Service;
use crate::ns::channel::{Channel, FromJail, ToJail};
use crate::ns::listeners::Listening;
use crate::ns::stdio::Pump;
use crate::plan::command::Exec;
use crate::plan::step::Inode;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::say;
use crate::sys::process::pidfd_send_signal;
use crate::sys::watch::watch;

use super::door::Door;
use super::end::{self, End, Ending, Phase};
use super::relay::{self, OUTPUT_LOST};
use super::{Jail, setup};

/// Signals after which a run isn't kept waiting by a reader that doesn't read.
pub const TELLS_TO_END: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// How long such a reader has, from the command's end on.
const DRAIN: Duration = Duration::from_secs(1);

/// What the event loop has to do with.
pub(super) struct Supervised<'run> {
    pub(super) jail: Jail,
    pub(super) channel: &'run Channel,
    pub(super) signals: &'run SignalFd,
    pub(super) caller: Option<OwnedFd>,
    pub(super) pumps: Vec<Pump>,
    /// The broker's part, and what the command gets.
    pub(super) door: Option<(Door, &'run Exec)>,
}

/// Waits for the end of the run and says how it came.
pub(super) fn supervise(supervised: Supervised) -> Result<Ending, Refusal> {
    let Supervised {
        mut jail,
        channel,
        signals,
        caller,
        pumps,
        door,
    } = supervised;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .event_interval(TASKS_A_TURN)
        .build()
        .map_err(|error| failed("make the event loop", &error))?;
    runtime.block_on(async {
        let mut events = Events::watch(&jail, channel, signals, caller)?;
        match events.until_the_end(&mut jail, channel, pumps, door).await {
            Err(lost) if events.phase >= Phase::Released => End::Lost(lost).ending(),
            end => end?.ending(),
        }
    })
}

/// The descriptors that say that something has happened.
struct Events<'run> {
    channel: AsyncFd<BorrowedFd<'run>>,
    jail: AsyncFd<OwnedFd>,
    signals: AsyncFd<BorrowedFd<'run>>,
    pending: &'run SignalFd,
    caller: Option<AsyncFd<OwnedFd>>,
    phase: Phase,
    /// Who waits for the broker's listeners.
    door: Option<oneshot::Sender<Listening>>,
    /// Whether the broker is still being made; the command waits for it.
    is_opening: bool,
    /// Whether the jail's side may still say something.
    is_open: bool,
    /// Whether a signal that ends most commands was passed on.
    is_told_to_end: bool,
}

impl<'run> Events<'run> {
    fn watch(
        jail: &Jail,
        channel: &'run Channel,
        signals: &'run SignalFd,
        caller: Option<OwnedFd>,
    ) -> Result<Self, Refusal> {
        let failed = |what: &'static str| move |error: io::Error| failed(what, &error);
        let pidfd = jail.pidfd.try_clone().map_err(failed("watch pid 1"))?;
        Ok(Events {
            channel: watch(channel.as_fd(), Interest::READABLE)
                .map_err(failed("watch the channel"))?,
            jail: watch(pidfd, Interest::READABLE).map_err(failed("watch pid 1"))?,
            signals: watch(signals.as_fd(), Interest::READABLE)
                .map_err(failed("watch the signals"))?,
            pending: signals,
            caller: caller
                .map(|fd| watch(fd, Interest::READABLE))
                .transpose()
                .map_err(failed("watch the caller"))?,
            phase: Phase::Building,
            door: None,
            is_opening: false,
            is_open: true,
            is_told_to_end: false,
        })
    }

    /// Runs until the jail is gone and its output has been moved.
    async fn until_the_end(
        &mut self,
        jail: &mut Jail,
        channel: &Channel,
        pumps: Vec<Pump>,
        door: Option<(Door, &Exec)>,
    ) -> Result<End, Refusal> {
        let (mut outputs, mut input) = relay::start(pumps)?;
        let (tell_line, line) = oneshot::channel();
        let (tell_listeners, listeners) = oneshot::channel();
        self.door = Some(tell_listeners);
        self.is_opening = door.is_some();
        let wanted = door.as_ref().is_some_and(|(door, _)| door.wants_line());
        let opening = open(door, jail.peers, line, listeners);
        let mut service = None;
        let mut is_short = false;
        let end = {
            let mut opening = pin!(opening);
            let mut feeding = pin!(relay::feed(input.as_mut(), wanted.then_some(tell_line)));
            let mut fed = false;
            let mut said = None;
            let mut end = None;
            let mut patience = None;
            loop {
                let is_over = outputs.is_empty() || (self.is_told_to_end && patience.is_none());
                if is_over && let Some(end) = end.take() {
                    if !outputs.is_empty() {
                        say::note("output is lost: nobody reads it");
                        is_short = true;
                    }
                    break end;
                }
                tokio::select! {
                    biased;
                    ready = self.channel.readable(), if self.is_open && end.is_none() && said.is_none() => {
                        ready.map_err(|error| failed("watch the channel", &error))?.clear_ready();
                        said = self.listen(channel)?;
                        // The command's process may have refused while pid 1 still
                        // waits for a word that won't come.
                        if let Some(FromJail::Refused(_)) = said {
                            jail.kill();
                        }
                    }
                    ready = self.jail.readable(), if end.is_none() => {
                        ready.map_err(|error| failed("watch pid 1", &error))?.retain_ready();
                        let status = waitpid(jail.pid, None).map_err(setup("waitpid"))?;
                        jail.ended = true;
                        // What it said last may still be unread.
                        let last = if said.is_none() { self.listen(channel)? } else { said.take() };
                        end = Some(last.map_or(End::Silent(self.phase, status), End::Said));
                        patience = self.is_told_to_end.then(|| Instant::now() + DRAIN);
                    }
                    opened = &mut opening, if self.is_opening => {
                        service = Some(opened?);
                        self.is_opening = false;
                        self.let_go(channel)?;
                    }
                    ready = self.signals.readable() => {
                        ready.map_err(|error| failed("watch the signals", &error))?.clear_ready();
                        if let Some(end) = self.pass_on(jail) {
                            break end;
                        }
                    }
                    () = sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => patience = None,
                    () = gone(self.caller.as_ref()) => break End::Abandoned(self.phase),
                    cut = &mut feeding, if !fed => {
                        fed = true;
                        is_short |= cut;
                    }
                    Some(result) = outputs.join_next(), if !outputs.is_empty() => {
                        is_short |= relay::is_lost(result);
                    }
                }
            }
        };
        // Nobody is left to be answered; what is under way says how it ended.
        if let Some(service) = service.filter(|_| jail.ended) {
            let _ = timeout(DRAIN, service.drain()).await;
        }
        if let Some(input) = input {
            input.give_back();
        }
        // Outside, the command itself would have seen the failure.
        Ok(match end {
            End::Said(FromJail::Exited(0)) if is_short => End::Said(FromJail::Exited(OUTPUT_LOST)),
            end => end,
        })
    }

    /// Takes what the jail's side has said; returns what ends the run. That it is
    /// gone is told by pid 1's pidfd, not by a failed call on the channel.
    fn listen(&mut self, channel: &Channel) -> Result<Option<FromJail>, Refusal> {
        while self.is_open {
            match channel.try_receive::<FromJail>() {
                Ok(Some((FromJail::Listening, handed))) => {
                    let listening = Listening::judge(handed)?;
                    if let Some(door) = self.door.take() {
                        // Refused meanwhile: the refusal is on its way here.
                        let _ = door.send(listening);
                    }
                }
                Ok(Some((FromJail::Ready, _))) => {
                    self.phase = Phase::Confining;
                    self.let_go(channel)?;
                }
                Ok(Some((FromJail::Executing, _))) => self.phase = Phase::Running,
                Ok(Some((end, _))) => return Ok(Some(end::in_phase(self.phase, end))),
                Err(Errno::EAGAIN) => break,
                // tokio keeps a hung-up descriptor ready for ever.
                Ok(None) | Err(Errno::ECONNRESET) => self.is_open = false,
                Err(errno) => return Err(setup("recv")(errno)),
            }
        }
        Ok(None)
    }

    /// Lets the command start, once the jail stands and the broker answers.
    fn let_go(&mut self, channel: &Channel) -> Result<(), Refusal> {
        if self.phase != Phase::Confining || self.is_opening {
            return Ok(());
        }
        match channel.send(&ToJail::Go) {
            Ok(()) => self.phase = Phase::Released,
            Err(Errno::EPIPE) => {}
            Err(errno) => return Err(setup("send")(errno)),
        }
        Ok(())
    }

    /// Passes the pending signals on. Before the command runs and after it has
    /// ended there is nobody to pass them to: they end the run.
    fn pass_on(&mut self, jail: &Jail) -> Option<End> {
        while let Ok(Some(info)) = self.pending.read_signal() {
            let signal = i32::try_from(info.ssi_signo).unwrap_or(libc::SIGTERM);
            if self.phase != Phase::Running || jail.ended {
                return Some(End::Signal(self.phase, signal));
            }
            self.is_told_to_end |= TELLS_TO_END.contains(&signal);
            // Pid 1 may have ended in between: its pidfd says so next.
            let _ = pidfd_send_signal(&jail.pidfd, signal);
        }
        None
    }
}

/// Waits for the caller's end; for ever if it can't be seen.
async fn gone(caller: Option<&AsyncFd<OwnedFd>>) {
    match caller {
        Some(caller) if stands(Mechanism::CallerWatch) => {
            let _ = caller.readable().await;
        }
        _ => std::future::pending().await,
    }
}

/// Makes the broker, if there is one to be made.
async fn open(
    door: Option<(Door, &Exec)>,
    peers: Option<Inode>,
    line: oneshot::Receiver<Result<Key, Refusal>>,
    listeners: oneshot::Receiver<Listening>,
) -> Result<Service, Refusal> {
    match (door, peers) {
        (Some((door, exec)), Some(peers)) => door.open(exec, peers, line, listeners).await,
        _ => std::future::pending().await,
    }
}

pub(super) fn failed(step: &'static str, error: &io::Error) -> Refusal {
    let refusal = Refusal::new(Reason::Setup, step);
    match error.raw_os_error() {
        Some(code) => refusal.errno(Errno::from_raw(code)),
        None => refusal.about(error.to_string()),
    }
}
