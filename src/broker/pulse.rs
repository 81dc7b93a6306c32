//! How long nothing has moved on a connection. One timer serves all its requests, and
//! no clock is read for a byte: both cost more than the rest of a small request's watch.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// How often is looked within the time that nothing may move: it ends that much late,
/// at most.
const LOOKS: u32 = 8;

/// Whether something moves.
#[derive(Default)]
pub(super) struct Pulse {
    /// Since it was last looked.
    moved: AtomicBool,
    /// How many times in a row nothing had.
    quiet: AtomicU32,
}

impl Pulse {
    /// Something moves now.
    pub(super) fn beat(&self) {
        self.moved.store(true, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for `patience`, or at most an eighth longer. Looks
    /// whenever `timer` rings, which may be set to any moment before.
    pub(super) async fn stopped(&self, mut timer: Pin<&mut Sleep>, patience: Duration) {
        loop {
            timer.as_mut().await;
            if self.moved.swap(false, Ordering::Relaxed) {
                self.quiet.store(0, Ordering::Relaxed);
            } else if self.quiet.fetch_add(1, Ordering::Relaxed) + 1 >= LOOKS {
                return;
            }
            timer.as_mut().reset(Instant::now() + patience / LOOKS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::{advance, sleep, timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(8);
    const LOOK: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn it_is_told_when_nothing_moves_and_not_before() {
        let pulse = Pulse::default();
        let mut timer = pin!(sleep(LOOK));
        for _ in 0..3 {
            pulse.beat();
            let begun = Instant::now();
            pulse.stopped(timer.as_mut(), PATIENCE).await;
            let waited = begun.elapsed();
            assert!(
                waited >= PATIENCE && waited <= PATIENCE + LOOK,
                "{waited:?}"
            );
            timer.as_mut().reset(Instant::now() + LOOK);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_moves_meanwhile_counts() {
        let pulse = Pulse::default();
        let mut timer = pin!(sleep(Duration::ZERO));
        for _ in 0..3 {
            // Asked anew, as for each wait of an exchange, it counts on.
            let early = timeout(LOOK * 4, pulse.stopped(timer.as_mut(), PATIENCE));
            assert!(early.await.is_err());
            advance(LOOK * 3).await;
            pulse.beat();
        }
        let begun = Instant::now();
        pulse.stopped(timer.as_mut(), PATIENCE).await;
        assert!(begun.elapsed() >= PATIENCE && begun.elapsed() <= PATIENCE + LOOK);
    }
}
