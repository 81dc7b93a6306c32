//! Where a run meets its limits: what it may still say, and which limit ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::cgroup::Leaf;
use crate::ns::channel::FromJail;
use crate::plan::command::Resource;
use crate::plan::step::Plan;
use crate::refusal::{Reason, Refusal};
use crate::say;

use super::end::{End, Limit, Phase};

/// How many bytes of output may still be moved; shared by all that move it, which may
/// be pipes or a terminal's master.
#[derive(Clone)]
pub(super) struct Allowance(Arc<Left>);

struct Left {
    /// None: as many as come.
    bytes: Option<AtomicU64>,
    is_over: AtomicBool,
    told: Notify,
}

impl Allowance {
    pub(super) fn new(most: Option<u64>) -> Allowance {
        Allowance(Arc::new(Left {
            bytes: most.map(AtomicU64::new),
            is_over: AtomicBool::new(false),
            told: Notify::new(),
        }))
    }

    /// How many of `wanted` bytes may be moved, which are taken off. If it isn't all of
    /// them, it is over.
    pub(super) fn take(&self, wanted: usize) -> usize {
        let Some(left) = &self.0.bytes else {
            return wanted;
        };
        // One thread: nobody comes in between.
        let had = left.load(Ordering::Relaxed);
        let granted = usize::try_from(had).unwrap_or(usize::MAX).min(wanted);
        left.store(had.saturating_sub(granted as u64), Ordering::Relaxed);
        if granted < wanted {
            self.0.is_over.store(true, Ordering::Relaxed);
            self.0.told.notify_one();
        }
        granted
    }

    /// Waits until more was to be moved than may be.
    pub(super) async fn over(&self) {
        self.0.told.notified().await;
    }

    /// Whether more was to be moved than may be.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Relaxed)
    }
}

/// The limits of a run, as far as they can end it.
pub(super) struct Bounds<'run> {
    pub(super) allowance: Allowance,
    leaf: Option<&'run Leaf>,
    plan: &'run Plan,
}

impl<'run> Bounds<'run> {
    pub(super) fn new(plan: &'run Plan, leaf: Option<&'run Leaf>) -> Bounds<'run> {
        Bounds {
            allowance: Allowance::new(plan.max_output),
            leaf,
            plan,
        }
    }

    /// The end for what it was: a limit's doing, if it was one's. Says how many forks
    /// were refused, which ends nothing.
    pub(super) fn judge(&self, end: End) -> End {
        let counts = match self.leaf.map(Leaf::counts).transpose() {
            Ok(counts) => counts.unwrap_or_default(),
            // A limit may have been lifted while the command ran: no success, and whoever
            // killed it isn't known.
            Err(lost) => {
                return match end {
                    End::Said(FromJail::Exited(_) | FromJail::Killed(_))
                    | End::Silent(Phase::Running, _) => End::Lost(lost),
                    end => end,
                };
            }
        };
        if counts.refused_forks > 0 {
            let forks = counts.refused_forks;
            say::note(format_args!("{forks} forks were refused by --pids"));
        }
        let memory = self.plan.cgroup.as_ref().and_then(|cgroup| cgroup.memory);
        let is_killed = match end {
            End::Silent(..) => true,
            End::Said(FromJail::Killed(signal)) => signal == libc::SIGKILL,
            _ => false,
        };
        match (&end, memory, self.plan.max_output) {
            (_, Some(bytes), _) if is_killed && counts.out_of_memory > 0 => match end {
                End::Silent(phase, _) if phase < Phase::Running => too_little_memory(bytes),
                _ => End::Limit(Limit::Memory, bytes),
            },
            // Also of a command that was quicker to end than to be killed: its output
            // isn't whole.
            (
                End::Silent(..) | End::Said(FromJail::Exited(_) | FromJail::Killed(_)),
                _,
                Some(bytes),
            ) if self.allowance.is_over() => End::Limit(Limit::MaxOutput, bytes),
            (End::Said(FromJail::Killed(libc::SIGXFSZ)), _, _) => {
                let limits = &self.plan.confine.limits;
                let size = limits
                    .iter()
                    .find(|limit| limit.resource == Resource::Fsize);
                size.map_or(end, |limit| End::Limit(Limit::FileSize, limit.hard))
            }
            _ => end,
        }
    }
}

fn too_little_memory(bytes: u64) -> End {
    let refusal = Refusal::new(Reason::Limits, "build the jail within --memory")
        .about(format!("{bytes} bytes"))
        .remedy("allow more");
    End::Said(FromJail::Refused(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_granted_than_there_is() {
        let allowance = Allowance::new(Some(10));
        let other = allowance.clone();
        let granted = [allowance.take(4), other.take(6), allowance.take(0)];
        assert_eq!(granted, [4, 6, 0]);
        assert_eq!((allowance.take(1), other.take(9)), (0, 0));
        let allowance = Allowance::new(Some(3));
        assert_eq!((allowance.take(5), allowance.take(5)), (3, 0));
        assert_eq!(Allowance::new(None).take(usize::MAX), usize::MAX);
    }

    #[tokio::test]
    async fn it_is_over_with_the_first_byte_too_many() {
        use std::time::Duration;
        let allowance = Allowance::new(Some(3));
        let over = || tokio::time::timeout(Duration::from_millis(20), allowance.over());
        allowance.take(3);
        assert!(over().await.is_err() && !allowance.is_over(), "no flood");
        allowance.take(1);
        assert!(over().await.is_ok() && allowance.is_over());
    }
}
