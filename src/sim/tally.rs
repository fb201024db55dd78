//! What is counted while a workload runs: who waited for how long, who was refused, what the host held.
//!
//! Waits are counted as callers have them, from asking to the answer, in whole steps of three significant digits; so
//! the books stay small however long a run is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{World, bars};
use crate::control::message::{PoolView, StopReason, Why};
use crate::profile::{ClassName, PoolName};
use crate::quantity::{Bytes, Instant};

/// Most points of a line in a plot: more than a screen shows.
const POINTS: u32 = 720;

/// A waiting request: when it was made, and by whom.
pub(super) type Waiting = (Instant, u32);

/// All counts of one run.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) classes: BTreeMap<ClassName, OfClass>,
    /// Callers that came, by stream, and those that left with nothing.
    came: BTreeMap<usize, usize>,
    pub(super) left: u64,
    /// Refusals by their reason, and by what the request waited for where its wait was over.
    pub(super) refusals: BTreeMap<(&'static str, Option<&'static str>), u64>,
    /// Instances that were never lent, by what ended them.
    pub(super) unused: BTreeMap<&'static str, u64>,
    /// How long starts took, from the order until ready.
    pub(super) starts: Waits,
    pub(super) kills: Kills,
    pub(super) calls: Calls,
    /// The most that all containers held, and were promised, and the least that the host had available.
    pub(super) held: Bytes,
    pub(super) promised: Bytes,
    pub(super) available: Option<Bytes>,
    stocks: BTreeMap<PoolName, u32>,
    /// How often the stock of a pool was another one than a second before.
    pub(super) stock_changes: u64,
    pub(super) series: Series,
    pub(super) bars: bars::Books,
}

/// The counts of one class.
#[derive(Debug, Default)]
pub(super) struct OfClass {
    pub(super) requests: u64,
    pub(super) retries: u64,
    pub(super) granted: Waits,
    pub(super) cold: u64,
    pub(super) refused: u64,
    pub(super) gave_up: u64,
    pub(super) waiting: BTreeSet<Waiting>,
}

/// Whom the kernel ended for want of memory, by the limit that was met.
#[derive(Debug, Default)]
pub(super) struct Kills {
    pub(super) own: u64,
    pub(super) slice: u64,
    pub(super) host: u64,
    /// Of the last two, those within what their pool expects.
    pub(super) innocent: u64,
}

/// How many waited for how long.
#[derive(Debug, Default)]
pub(super) struct Waits {
    by_length: BTreeMap<Duration, u64>,
    pub(super) many: u64,
    pub(super) longest: Duration,
}

/// How the run went, in so many equal stretches; of each the highest figure.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The length of a stretch.
    pub every: Duration,
    /// The stretches; what was not seen in one is missing.
    pub points: Vec<Option<Point>>,
}

/// The highest figures of a stretch.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// Instances that are lent, and requests that wait.
    pub demand: u32,
    /// Instances that start, are warm or are lent.
    pub slots: u32,
    /// The longest that a waiting request of each class has waited.
    pub ages: BTreeMap<ClassName, Duration>,
    /// What all containers hold.
    pub held: Bytes,
    /// What they are promised.
    pub promised: Bytes,
    /// What they may hold.
    pub limit: Bytes,
}

/// Calls to external providers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Calls {
    /// Those that had a permit.
    pub(super) made: u64,
    /// Of them those that the provider throttled.
    pub(super) throttled: u64,
    /// Permits that were refused.
    pub(super) refused: u64,
    /// The longest that a permit was waited for.
    pub(super) waited: Duration,
}

impl Tally {
    pub(super) fn new<'a>(classes: impl Iterator<Item = &'a ClassName>, lasts: Duration) -> Tally {
        let every = (lasts / POINTS).max(Duration::from_secs(1));
        let points = lasts.as_nanos().div_ceil(every.as_nanos());
        let points = vec![None; usize::try_from(points).expect("they are some hundred")];
        Tally {
            classes: classes.map(|class| (class.clone(), OfClass::default())).collect(),
            came: BTreeMap::new(),
            left: 0,
            refusals: BTreeMap::new(),
            unused: BTreeMap::new(),
            starts: Waits::default(),
            kills: Kills::default(),
            calls: Calls::default(),
            held: Bytes::ZERO,
            promised: Bytes::ZERO,
            available: None,
            stocks: BTreeMap::new(),
            stock_changes: 0,
            series: Series { every, points },
            bars: bars::Books::default(),
        }
    }

    fn class(&mut self, class: &ClassName) -> &mut OfClass {
        self.classes.get_mut(class).expect("every class of the profile is counted")
    }

    /// Somebody of this stream comes; the how-manieth.
    pub(super) fn came(&mut self, stream: usize) -> usize {
        let many = self.came.entry(stream).or_default();
        *many += 1;
        *many - 1
    }

    pub(super) fn callers(&self) -> u64 {
        self.came.values().map(|many| *many as u64).sum()
    }

    pub(super) fn asked(&mut self, class: &ClassName, request: Waiting, again: bool) {
        let class = self.class(class);
        class.requests += 1;
        class.retries += u64::from(again);
        class.waiting.insert(request);
    }

    pub(super) fn served(&mut self, class: &ClassName, request: Waiting, now: Instant, cold: bool) {
        let class = self.class(class);
        class.waiting.remove(&request);
        class.granted.note(now.since(request.0));
        class.cold += u64::from(cold);
    }

    pub(super) fn gave_up(&mut self, class: &ClassName, request: Waiting) {
        let class = self.class(class);
        class.waiting.remove(&request);
        class.gave_up += 1;
        self.left += 1;
    }

    pub(super) fn refused(&mut self, class: &ClassName, request: Waiting, why: &Why, leaves: bool) {
        let class = self.class(class);
        class.waiting.remove(&request);
        class.refused += 1;
        self.left += u64::from(leaves);
        let waited_for = if let Why::WaitExpired { blocked_by: Some(limit), .. } = why {
            Some(limit.code())
        } else {
            None
        };
        *self.refusals.entry((why.code(), waited_for)).or_default() += 1;
    }

    pub(super) fn unused(&mut self, why: StopReason) {
        *self.unused.entry(why.code()).or_default() += 1;
    }
}

impl World {
    /// The host was looked at, and all containers held this.
    pub(super) fn note_look(&mut self, held: Bytes) {
        let (available, down, now) = (self.available(), self.down, self.now);
        let tally = &mut self.play.as_mut().expect("a workload is played").tally;
        tally.held = tally.held.max(held);
        if down {
            tally.bars.lack(now, Duration::from_secs(1));
        }
        tally.available = Some(tally.available.map_or(available, |least| least.min(available)));
        self.ask(crate::control::message::Call::Pools, super::callers::Asked::Other);
    }

    /// The pools were looked at, as by an operator, once a second.
    pub(super) fn note_pools(&mut self, pools: &[PoolView]) {
        let held = self.held();
        self.note_bars(pools);
        let profile = self.profile.clone();
        let Some(play) = &mut self.play else { return };
        let (tally, now) = (&mut play.tally, self.now);
        let mut point = Point { held, limit: play.ceiling.unwrap_or_default(), ..Point::default() };
        for PoolView { name, stock, starting, warm, leased, queued, promised, .. } in pools {
            point.demand += leased + queued;
            point.slots += starting + warm + leased;
            point.promised = point.promised.saturating_add(*promised);
            let before = tally.stocks.insert(name.clone(), *stock);
            tally.stock_changes += u64::from(before.is_some_and(|before| before != *stock));
        }
        let oldest = |class: &OfClass| class.waiting.first().map_or(Duration::ZERO, |(at, _)| now.since(*at));
        point.ages = tally.classes.iter().map(|(name, class)| (name.clone(), oldest(class))).collect();
        let late = |(class, age): (&ClassName, &Duration)| *age > profile.classes[class].target_wait;
        let late = point.ages.iter().any(late);
        tally.bars.note_late(now, late);
        tally.promised = tally.promised.max(point.promised);
        let stretch = now.since(Instant::BOOT).as_nanos() / tally.series.every.as_nanos();
        if let Some(place) = usize::try_from(stretch).ok().and_then(|at| tally.series.points.get_mut(at)) {
            match place {
                Some(before) => before.raise(point),
                None => *place = Some(point),
            }
        }
    }
}

impl Point {
    fn raise(&mut self, other: Point) {
        self.demand = self.demand.max(other.demand);
        self.slots = self.slots.max(other.slots);
        self.held = self.held.max(other.held);
        self.promised = self.promised.max(other.promised);
        self.limit = self.limit.max(other.limit);
        for (class, age) in other.ages {
            let mine = self.ages.entry(class).or_default();
            *mine = age.max(*mine);
        }
    }
}

impl Waits {
    pub(super) fn note(&mut self, wait: Duration) {
        *self.by_length.entry(coarse(wait)).or_default() += 1;
        self.many += 1;
        self.longest = self.longest.max(wait);
    }

    /// The shortest wait that this share of all did not exceed; none where nobody waited.
    pub(super) fn quantile(&self, thousandths: u64) -> Option<Duration> {
        let rank = (self.many * thousandths).div_ceil(1000);
        let mut seen = 0;
        let reached = |(_, many): &(&Duration, &u64)| {
            seen += **many;
            seen >= rank
        };
        self.by_length.iter().find(reached).map(|(wait, _)| (*wait).min(self.longest))
    }
}

/// Rounded up to three significant digits of microseconds.
fn coarse(wait: Duration) -> Duration {
    let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
    let mut step = 1;
    while micros / step >= 1000 {
        step *= 10;
    }
    Duration::from_micros(micros.div_ceil(step).saturating_mul(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_waits_that_so_many_did_not_exceed() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(500), None);
        (1..=100).for_each(|ms| waits.note(Duration::from_millis(ms)));
        for (share, ms) in [(500, 50), (950, 95), (990, 99), (1000, 100), (1, 1)] {
            assert_eq!(waits.quantile(share), Some(Duration::from_millis(ms)), "{share}");
        }
        waits.note(Duration::from_micros(123_456_789));
        assert_eq!(waits.quantile(1000), Some(Duration::from_micros(123_456_789)), "never above the longest");
    }
}
