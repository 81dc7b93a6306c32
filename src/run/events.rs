//! The event loop: one current-thread runtime, made after the fork. Everything that can
//! happen to a run is an [`Event`], waited for here; `supervisor` has a handler for each.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};

use nix::errno::Errno;
use nix::sys::signalfd::SignalFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::broker::TASKS_A_TURN;
use crate::broker::key::Key;
use crate::broker::serve::Service;
use crate::ns::channel::Channel;
use crate::ns::listeners::Listening;
use crate::ns::stdio::Pump;
use crate::plan::command::Exec;
use crate::plan::step::{Inode, Times};
use crate::receipt::told::Told;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::say;
use crate::sys::watch::watch;

use super::Jail;
use super::bounds::{Allowance, Bounds};
use super::clock::{Clock, Due};
use super::denials::Explainer;
use super::door::Door;
use super::end::{End, Ending, Phase};
use super::pump::Input;
use super::relay::{self, Awaited, Moved};
use super::supervisor::Supervisor;
use super::terminal::{Terminal, brought_forward, settled};

/// What the event loop has to do with.
pub(super) struct Supervised<'run> {
    pub(super) jail: Jail,
    pub(super) channel: &'run Channel,
    pub(super) signals: &'run SignalFd,
    pub(super) caller: Option<OwnedFd>,
    pub(super) pumps: Vec<Pump>,
    pub(super) terminal: Option<Terminal>,
    pub(super) times: Times,
    pub(super) bounds: Bounds<'run>,
    /// The broker's part, and what the command gets.
    pub(super) door: Option<(Door, &'run Exec)>,
    /// Who answers what the command's filter asks, if it does.
    pub(super) explainer: Explainer<'run>,
    /// Who hears what happens.
    pub(super) told: &'run mut Told,
}

/// Something that has happened.
pub(super) enum Event {
    /// The jail's side has said something, or is gone.
    Said,
    /// Pid 1 has ended.
    JailEnded,
    /// The broker is made, or can't be.
    Opened(Result<Service, Refusal>),
    /// Signals have come.
    Signals,
    /// The time limit, or the end of the grace.
    Due(Due),
    /// A reader that doesn't read has had its time.
    OutOfPatience,
    /// The process that started groom-ns is gone.
    CallerGone,
    /// The input has ended; whether it was cut short.
    Fed(bool),
    /// An output has ended.
    Moved(Moved),
    /// What the command wrote before it was stopped is where it belongs.
    Settled,
    /// This job may read the terminal now.
    Foreground,
    /// More was said than may be.
    Flooded,
    /// A call that the filter asks about can't be answered.
    Unanswered(Refusal),
}

/// Waits for the end of the run and says how it came.
pub(super) fn supervise(supervised: Supervised) -> Result<Ending, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .event_interval(TASKS_A_TURN)
        .build()
        .map_err(|error| failed("make the event loop", &error))?;
    let Supervised {
        jail,
        channel,
        signals,
        caller,
        pumps,
        terminal,
        times,
        bounds,
        door,
        mut explainer,
        told,
    } = supervised;
    // The end of this process comes next, and lets go of all descriptors in one step. Only
    // behind a door are there tasks that must be dropped: the key is wiped with them.
    let has_door = door.is_some();
    let ending = runtime.block_on(async {
        let watched = Watched::new(&jail, channel, signals, caller, &bounds)?;
        let (outputs, input) = relay::start(pumps, terminal.as_ref(), bounds.allowance.clone())?;
        let clock = Clock::new(times);
        let mut supervisor =
            Supervisor::new(jail, channel, signals, terminal, clock, outputs, told);
        let end = until_the_end(&mut supervisor, &watched, input, door, &mut explainer).await;
        supervisor.leave();
        if supervisor.is_output_lost {
            say::note("output is lost: nobody reads it");
        }
        supervisor.told.phase = supervisor.phase;
        let end = match end {
            Err(lost) if supervisor.phase >= Phase::Released => End::Lost(lost),
            end => bounds.judge(end?),
        };
        let denials = explainer
            .denials()
            .filter(|_| supervisor.phase == Phase::Running);
        if let Some(denials) = &denials {
            denials.say();
        }
        let ending = end.ending()?;
        std::mem::forget(watched);
        Ok(Ending { denials, ..ending })
    });
    if !has_door {
        std::mem::forget(runtime);
    }
    ending
}

/// Runs until the jail is gone and its output has been moved.
async fn until_the_end(
    supervisor: &mut Supervisor<'_>,
    watched: &Watched<'_>,
    mut input: Option<Input>,
    door: Option<(Door, &Exec)>,
    explainer: &mut Explainer<'_>,
) -> Result<End, Refusal> {
    let (tell_line, line) = oneshot::channel();
    let wants_line = door.as_ref().is_some_and(|(door, _)| door.wants_line());
    supervisor.is_opening = door.is_some();
    if wants_line {
        supervisor.ask_for_key()?;
    }
    let awaited = Awaited {
        key: wants_line.then_some(tell_line),
        key_gate: supervisor.terminal.as_ref().and_then(Terminal::key_gate),
        terminal: supervisor.terminal_arrives(),
    };
    let listeners = supervisor.listeners_arrive();
    let listener = supervisor.listener_arrives();
    let opening = open(door, supervisor.jail.peers, line, listeners);
    let end = {
        let mut opening = pin!(opening);
        let mut feeding = pin!(relay::feed(input.as_mut(), awaited));
        let mut explaining = pin!(explainer.serve(listener));
        let end = async {
            loop {
                if let Some(end) = supervisor.is_over() {
                    return Ok(end);
                }
                let tasks = (opening.as_mut(), feeding.as_mut(), explaining.as_mut());
                let event = next(supervisor, watched, tasks).await?;
                if let Some(end) = supervisor.handle(event)? {
                    return Ok(end);
                }
            }
        }
        .await;
        // Before anything is let go of, or said to somebody who may not listen.
        supervisor.jail.end();
        end
    };
    supervisor.close_door().await;
    if let Some(input) = input {
        input.give_back();
    }
    Ok(supervisor.judge(end?))
}

/// Waits for what happens next. Of several, the first in this list is handled first.
async fn next(
    supervisor: &mut Supervisor<'_>,
    watched: &Watched<'_>,
    (opening, feeding, explaining): (
        Pin<&mut impl Future<Output = Result<Service, Refusal>>>,
        Pin<&mut impl Future<Output = bool>>,
        Pin<&mut impl Future<Output = Refusal>>,
    ),
) -> Result<Event, Refusal> {
    let hears = supervisor.hears();
    let Supervisor {
        outputs,
        terminal,
        clock,
        patience,
        end,
        is_opening,
        is_fed,
        settles_by,
        ..
    } = supervisor;
    let terminal = terminal.as_ref();
    Ok(tokio::select! {
        biased;
        ready = watched.channel.readable(), if hears => {
            ready.map_err(|error| failed("watch the channel", &error))?.clear_ready();
            Event::Said
        }
        ready = watched.jail.readable(), if end.is_none() => {
            ready.map_err(|error| failed("watch pid 1", &error))?.retain_ready();
            Event::JailEnded
        }
        opened = opening, if *is_opening => Event::Opened(opened),
        ready = watched.signals.readable() => {
            ready.map_err(|error| failed("watch the signals", &error))?.clear_ready();
            Event::Signals
        }
        due = clock.due() => Event::Due(due),
        () = until(*patience) => Event::OutOfPatience,
        () = gone(watched.caller.as_ref()) => Event::CallerGone,
        cut = feeding, if !*is_fed => Event::Fed(cut),
        moved = outputs.next() => Event::Moved(moved),
        () = settled(terminal, *settles_by) => Event::Settled,
        () = brought_forward(terminal) => Event::Foreground,
        () = watched.allowance.over() => Event::Flooded,
        lost = explaining => Event::Unanswered(lost),
    })
}

/// The descriptors that say that something has happened.
struct Watched<'run> {
    channel: AsyncFd<BorrowedFd<'run>>,
    jail: AsyncFd<OwnedFd>,
    signals: AsyncFd<BorrowedFd<'run>>,
    caller: Option<AsyncFd<OwnedFd>>,
    /// What the command may still say.
    allowance: Allowance,
}

impl<'run> Watched<'run> {
    fn new(
        jail: &Jail,
        channel: &'run Channel,
        signals: &'run SignalFd,
        caller: Option<OwnedFd>,
        bounds: &Bounds,
    ) -> Result<Self, Refusal> {
        let failed = |what: &'static str| move |error: io::Error| failed(what, &error);
        let pidfd = jail.pidfd.try_clone().map_err(failed("watch pid 1"))?;
        Ok(Watched {
            channel: watch(channel.as_fd(), Interest::READABLE)
                .map_err(failed("watch the channel"))?,
            jail: watch(pidfd, Interest::READABLE).map_err(failed("watch pid 1"))?,
            signals: watch(signals.as_fd(), Interest::READABLE)
                .map_err(failed("watch the signals"))?,
            caller: caller
                .map(|fd| watch(fd, Interest::READABLE))
                .transpose()
                .map_err(failed("watch the caller"))?,
            allowance: bounds.allowance.clone(),
        })
    }
}

/// Waits for a moment; for ever if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
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
