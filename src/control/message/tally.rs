//! What has happened in a pool since the daemon began, in counts: they only grow, and each event adds to one place.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{End, Why};
use crate::profile::ClassName;

/// The upper ends of the buckets that times are counted in; whatever takes longer is in one more.
pub const BUCKETS: [Duration; 12] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(1800),
];

/// Times by how long they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram {
    counts: [u64; BUCKETS.len() + 1],
    sum: Duration,
}

impl Histogram {
    /// Counts one more.
    pub fn note(&mut self, took: Duration) {
        let bucket = BUCKETS.partition_point(|end| *end < took);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.sum = self.sum.saturating_add(took);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How long all of them were together.
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// Each bucket's upper end, with how many were in it; the last has none.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        BUCKETS.iter().copied().map(Some).chain([None]).zip(self.counts)
    }

    /// The upper end of the bucket below whose end so many of a hundred were; `None` where there were none, or that
    /// bucket has no end.
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let all = self.count();
        let mut below = 0u64;
        let reached = |(_, count): &(Option<Duration>, u64)| {
            below = below.saturating_add(*count);
            below.saturating_mul(100) >= all.saturating_mul(percent)
        };
        self.buckets().find(reached).filter(|_| all > 0).and_then(|(end, _)| end)
    }
}

/// Counts of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolTally {
    /// By class.
    pub classes: BTreeMap<ClassName, ClassTally>,
    /// Starts that were ordered.
    pub starts: u64,
    /// Starts that failed.
    pub failed: u64,
    /// How long those took that became ready, from the order.
    pub took: Histogram,
}

/// Counts of one class in one pool. `asked` is what was granted, refused or taken back, and what still waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassTally {
    /// Requests; those that an earlier daemon had accepted, too.
    pub asked: u64,
    /// Of them those that were a further attempt of a task.
    pub retried: u64,
    /// Of them granted.
    pub granted: u64,
    /// Of those granted not at once.
    pub waited: u64,
    /// How long those waited that were granted.
    pub waits: Histogram,
    /// Refused, at once or after a wait, by the limit's name.
    pub refused: BTreeMap<&'static str, u64>,
    /// Taken back while they waited.
    pub left: u64,
    /// Leases that had an instance and ended, by their state.
    pub ended: BTreeMap<&'static str, u64>,
}

impl ClassTally {
    /// One asked, for the so-manieth time.
    pub fn ask(&mut self, attempt: u32) {
        self.asked = self.asked.saturating_add(1);
        self.retried = self.retried.saturating_add(u64::from(attempt > 1));
    }

    /// One was granted after this time.
    pub fn grant(&mut self, waited: Duration) {
        self.granted = self.granted.saturating_add(1);
        self.waited = self.waited.saturating_add(u64::from(!waited.is_zero()));
        self.waits.note(waited);
    }

    /// One was refused.
    pub fn refuse(&mut self, why: &Why) {
        add(&mut self.refused, why.code());
    }

    /// One ended; whether it had an instance.
    pub fn end(&mut self, end: &End, executed: bool) {
        match (executed, end) {
            (true, _) => add(&mut self.ended, end.code()),
            (false, End::Refused(why)) => self.refuse(why),
            (false, _) => self.left = self.left.saturating_add(1),
        }
    }

    /// What has come of the requests; the rest waits.
    pub fn settled(&self) -> u64 {
        self.refused
            .values()
            .fold(self.granted, |sum, count| sum.saturating_add(*count))
            .saturating_add(self.left)
    }
}

fn add(counts: &mut BTreeMap<&'static str, u64>, name: &'static str) {
    let count = counts.entry(name).or_default();
    *count = count.saturating_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_below_the_end_of_their_bucket() {
        let mut times = Histogram::default();
        assert_eq!(times.percentile(50), None);
        for millis in [0, 10, 11, 100, 101, 2400, 2_000_000] {
            times.note(Duration::from_millis(millis));
        }
        let filled: Vec<_> = times.buckets().filter(|(_, count)| *count > 0).collect();
        let millis = |millis| Some(Duration::from_millis(millis));
        assert_eq!(
            filled,
            [(millis(10), 2), (millis(100), 2), (millis(250), 1), (millis(2500), 1), (None, 1)]
        );
        assert_eq!((times.count(), times.sum()), (7, Duration::from_millis(2_002_622)));
        assert_eq!(times.percentile(50), millis(100));
        assert_eq!(times.percentile(80), millis(2500));
        assert_eq!(times.percentile(100), None, "beyond the last end");
    }
}
