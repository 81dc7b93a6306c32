//! When a run is ended, whatever the command does (timeout(1)).

use std::time::Duration;

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use tokio::time::{Instant, sleep_until};

use crate::plan::step::Times;
use crate::refusal::Refusal;

use super::setup;

/// The run's clock. It is monotonic, and goes on while the command is stopped.
pub(super) struct Clock {
    times: Times,
    /// When the command gets a TERM.
    limit: Option<Instant>,
    /// When the jail is killed.
    last: Option<Instant>,
}

/// What it is time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The time limit has come.
    Term,
    /// The grace after a TERM is over.
    Kill,
}

impl Clock {
    pub(super) fn new(times: Times) -> Clock {
        Clock {
            times,
            limit: None,
            last: None,
        }
    }

    /// The command was executed.
    pub(super) fn start(&mut self) {
        let after = |time| Instant::now() + Duration::from_millis(time);
        self.limit = self.times.timeout_ms.map(after);
    }

    /// The command gets a TERM; says whether it is the first.
    pub(super) fn tell_to_end(&mut self) -> bool {
        let is_first = self.last.is_none();
        let grace = Duration::from_millis(self.times.grace_ms);
        self.last.get_or_insert_with(|| Instant::now() + grace);
        is_first
    }

    /// The jail was killed: nothing is due any more.
    pub(super) fn stop(&mut self) {
        self.limit = None;
        self.last = None;
    }

    /// The limit, which is `due` once, in milliseconds.
    pub(super) fn limit(&mut self) -> u64 {
        self.limit = None;
        self.times.timeout_ms.unwrap_or_default()
    }

    /// In milliseconds.
    pub(super) fn grace(&self) -> u64 {
        self.times.grace_ms
    }

    fn next(&self) -> Option<(Instant, Due)> {
        let limit = self.limit.map(|at| (at, Due::Term));
        let last = self.last.map(|at| (at, Due::Kill));
        limit.into_iter().chain(last).min_by_key(|(at, _)| *at)
    }

    /// Waits for what is due next; for ever if nothing is.
    pub(super) async fn due(&self) -> Due {
        match self.next() {
            Some((at, due)) => {
                sleep_until(at).await;
                due
            }
            None => std::future::pending().await,
        }
    }

    /// Wakes this process with SIGCONT when something is due: a stopped one sees no
    /// timer of the event loop. To be held while it is stopped.
    pub(super) fn wake(&self) -> Result<Option<Timer>, Refusal> {
        let Some((at, _)) = self.next() else {
            return Ok(None);
        };
        let event = SigEvent::new(SigevNotify::SigevSignal {
            signal: Signal::SIGCONT,
            si_value: 0,
        });
        let mut timer =
            Timer::new(ClockId::CLOCK_MONOTONIC, event).map_err(setup("timer_create"))?;
        // Nothing is no time to timer_settime(2).
        let left = at
            .saturating_duration_since(Instant::now())
            .max(Duration::from_nanos(1));
        // More than once: a stop that comes after it throws a SIGCONT away (signal(7)).
        let again = Expiration::IntervalDelayed(left.into(), Duration::from_secs(1).into());
        timer
            .set(again, TimerSetTimeFlags::empty())
            .map_err(setup("timer_settime"))?;
        Ok(Some(timer))
    }
}
