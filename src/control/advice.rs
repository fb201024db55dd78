//! When a refused caller should come back.
//!
//! Think of a baker with a queue out of the door: whoever is turned away is told how long the queue takes at
//! the pace of the last minutes, those included who were turned away before; where there is no pace yet, how
//! long what is in the oven takes. What no pace will mend, a drain or a broken host, gets the longest wait; what
//! will never fit gets none.
//!
//! Not here: who is refused (`admission`).

use std::collections::VecDeque;
use std::time::Duration;

use super::message::{LeaseId, Why};
use crate::quantity::Instant;

/// The longest advice, and the one with nothing to go by: a caller that comes back each minute harms nobody.
const LONGEST: Duration = Duration::from_secs(60);
/// Who is refused because records cannot be written comes back when that has been tried a few times.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// When leases of a pool ended lately, and who was refused since.
#[derive(Debug, Default)]
pub(super) struct Ends {
    lately: VecDeque<Instant>,
    refused: u32,
}

impl Ends {
    /// A rate from more than this many ends is no better.
    const MOST: usize = 64;
    /// An end longer ago says nothing of now.
    const WINDOW: Duration = Duration::from_secs(300);

    /// A lease ended, so a slot comes free.
    pub(super) fn note(&mut self, now: Instant) {
        if self.lately.len() == Ends::MOST {
            self.lately.pop_front();
        }
        self.lately.push_back(now);
        self.refused = self.refused.saturating_sub(1);
    }

    /// When one more refused caller may come back, behind the `queued` that wait and when the last start took
    /// `start`, if one is under way; `None` where no time will mend it.
    pub(super) fn advise(
        &mut self,
        now: Instant,
        (queued, start): (u32, Option<Duration>),
        why: &Why,
        lease: &LeaseId,
    ) -> Option<Duration> {
        let wait = match why {
            Why::NeverFits { .. } | Why::PoolRemoved => return None,
            // Nothing that ends makes room on a disk.
            Why::HostDraining
            | Why::PoolDraining
            | Why::NoTelemetry(_)
            | Why::EngineUnreachable(_)
            | Why::Disk { .. }
            | Why::Inodes { .. } => LONGEST,
            Why::UnderPressure { until, .. }
            | Why::MaxHolds { until, .. }
            | Why::TenantHolds { until, .. }
            | Why::ProviderWaits { until, .. }
            | Why::ProviderSpent { until, .. } => until.since(now),
            Why::InstanceHours { returns_in, .. } => *returns_in,
            // The store tries again each second.
            Why::NotRecorded(_) => STORE_AGAIN,
            Why::Backoff { until, .. } => self.pace(now, queued, start).max(until.since(now)),
            Why::WaitExpired { blocked_by: Some(why), .. } => {
                return self.advise(now, (queued, start), why, lease);
            }
            Why::WaitExpired { blocked_by: None, .. }
            | Why::QueueFull { .. }
            | Why::QueueTooLong { .. }
            | Why::MemoryPromised { .. }
            | Why::MemoryAvailable { .. }
            | Why::Cpu { .. }
            | Why::Pids { .. }
            | Why::MaxInstances { .. }
            | Why::WithoutTelemetry { .. }
            | Why::CpuPressure { .. }
            | Why::Recovering { .. }
            | Why::StartPace { .. }
            | Why::TenantLimit { .. }
            | Why::HeldBack { .. }
            | Why::Starts { .. } => self.pace(now, queued, start),
        };
        Some(spread(wait.min(LONGEST), lease))
    }

    /// How many leases ended lately, and in which time: from the first that is remembered, which only begins the count,
    /// until now. `None` where fewer than two did.
    pub(super) fn lately(&self, now: Instant) -> Option<(u32, Duration)> {
        let mut lately = self.lately.iter().filter(|at| now.since(**at) <= Ends::WINDOW);
        let first = lately.next()?;
        let ends = u32::try_from(lately.count()).ok().filter(|ends| *ends > 0)?;
        Some((ends, now.since(*first)))
    }

    /// How long those that wait and those that were refused take, at the rate of the last ends.
    fn pace(&mut self, now: Instant, queued: u32, start: Option<Duration>) -> Duration {
        let Some((ends, span)) = self.lately(now) else {
            self.refused = 0; // Whoever was refused so long ago has come back or given up.
            return start.unwrap_or(LONGEST); // What is started takes one from the queue.
        };
        let before = u64::from(queued) + u64::from(self.refused) + 1;
        self.refused = self.refused.saturating_add(1);
        let span = span.as_secs().max(1);
        Duration::from_secs(before.saturating_mul(span).div_ceil(u64::from(ends)).max(1))
    }
}

/// Up to a quarter more, by the lease's name, so that a crowd does not come back together.
fn spread(wait: Duration, lease: &LeaseId) -> Duration {
    let seconds = wait.as_secs().max(1);
    let draw = lease.0.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    Duration::from_secs(seconds + draw % (seconds / 4 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_told_to_come_back_at_the_pace_of_the_ends() {
        let at = |seconds| Instant::BOOT.after(Duration::from_secs(seconds));
        let lease = LeaseId("a".into());
        let full = Why::QueueFull { queued: 3, limit: 3 };
        let mut ends = Ends::default();
        let mut advise = |now, why: &Why| ends.advise(now, (3, None), why, &lease).map(|wait| wait.as_secs());
        assert_eq!(advise(at(0), &full), Some(60 + 97 % 16), "nothing to go by");
        assert_eq!(
            advise(at(0), &Why::NeverFits { need: Default::default(), have: Default::default() }),
            None
        );
        for second in 1..=10 {
            ends.note(at(second));
        }
        assert_eq!(ends.lately(at(10)), Some((9, Duration::from_secs(9))));
        assert_eq!(ends.lately(at(301)), Some((9, Duration::from_secs(300))), "the pace fades");
        assert_eq!(ends.lately(at(310)), None, "one is no pace");
        let mut advise = |now, why: &Why| ends.advise(now, (3, None), why, &lease).map(|wait| wait.as_secs());
        assert_eq!(advise(at(10), &full), Some(4 + 97 % 2), "four in front at one a second");
        assert_eq!(advise(at(10), &full), Some(5 + 97 % 2), "and the one just refused");
        assert_eq!(advise(at(11), &Why::HostDraining), Some(60 + 97 % 16), "no pace ends a drain");
        let blocked = |why| Why::WaitExpired { waited: Duration::ZERO, blocked_by: Some(Box::new(why)) };
        let failing = Why::Backoff { failures: 4, last: "boom".into(), until: at(41) };
        assert_eq!(advise(at(11), &blocked(failing)), Some(30 + 97 % 8), "not before the next try");
        assert_eq!(advise(at(9999), &full), Some(60 + 97 % 16), "an old pace is none");
        let start = Some(Duration::from_secs(2));
        assert_eq!(ends.advise(at(9999), (3, start), &full, &lease).unwrap().as_secs(), 2, "a start is near");
    }
}
