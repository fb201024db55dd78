//! How many instances are wanted.
//!
//! ```text
//! incoming  = sum over classes of  arrival rate * mean service                  [slots]
//! backlog   = sum over those that wait of  min(1, service / drain_target)       [slots]
//! estimated = ceil((incoming + backlog) / target_utilization)                   [slots]
//! cover     = smallest w with P(D >= w) <= miss_target; D = arrivals in a start [instances]
//! stock     = clamp(max(cover, estimated - leased - queued), warm.min, warm.max) [instances]
//! start     = max(0, queued + stock - (warm + starting))                        [instances]
//! stop      = max(0, warm - queued - largest stock of the last 300 s)           [instances]
//! ```
//!
//! Each waiting request needs exactly one start, since an instance is used once; the stock comes on top. Rules that looked
//! right and failed, each kept as a test:
//!
//! - Only removal is held back. Were the total held for 300 s, what claims consume would be replaced for no one.
//! - The rate of the last seconds counts for `cover` alone. Through `estimated` one request of a ten minutes' job would
//!   read as a hundred slots.
//! - Demand is summed over classes, never averaged: the mean of a second and an hour says nothing of either.
//!
//! D is Poisson until arrivals were seen to come together; then it has their variance (negative binomial). `cover` is nothing
//! only where fewer than one request in `warm.keep` comes. One that is warm is worth more than one that is being started, so
//! only the warm ones are counted when some are too many.
//!
//! Where not all stock fits on the host, pools compete for it (`placement`): one more warm one of a pool is *worth* the
//! chance that it is needed, times what its absence costs, for each byte.
//!
//! Not here: estimates (`demand`), failing starts (`fortune`), whether there is room (`admission`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::demand::{self, Demand, Runtime};
use super::queue::Queue;
use crate::profile::{Class, ClassName, Pool};
use crate::quantity::{Bytes, Instant};

/// What was wanted within this time is not stopped: a pause in demand is longer than a pause between two callers.
const HOLD: Duration = Duration::from_secs(300);
/// A start that takes longer covers no more arrivals: whoever waits that long has a start of its own by then.
const LEAD_MOST: Duration = Duration::from_secs(60);
/// Between two looks at what fades by itself.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// No promise is shorter than this, in seconds.
const PROMISE_LEAST: f64 = 0.1;
/// A plan this old is made anew.
const FRESH: Duration = Duration::from_secs(1);

/// What demand comes to, as far as it does not change with each claim; made anew every second, and with each arrival.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Plan {
    made_at: Instant,
    /// Whether nothing has happened since that changes it.
    fresh: bool,
    /// Slots that arrivals keep busy.
    pub(super) incoming: f64,
    /// Of each class: the part of a slot that one that waits stands for.
    parts: BTreeMap<ClassName, f64>,
    /// Arrivals a second, for `cover`.
    pub(super) rate: f64,
    /// The time of a start, from when it is wanted.
    pub(super) lead: Duration,
    /// Variance over mean of arrivals.
    pub(super) unevenness: f64,
    /// How many warm ones cover the arrivals during a start.
    pub(super) cover: u32,
    /// What waits of a start come to in an hour, were nothing ever warm, in lengths of what each class was promised.
    broken: f64,
}

/// What the equations come to now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Terms {
    /// Slots that those that wait come to.
    pub(super) backlog: f64,
    /// Slots that all demand comes to.
    pub(super) estimated: u32,
    /// What is to be warm.
    pub(super) stock: u32,
}

impl Plan {
    /// Something happened that changes it.
    pub(super) fn touch(&mut self) {
        self.fresh = false;
    }

    /// Makes it anew where it is no longer fresh.
    pub(super) fn refresh(
        &mut self,
        now: Instant,
        demand: &Demand,
        pool: &Pool,
        classes: &BTreeMap<ClassName, Class>,
    ) {
        if self.fresh && now.since(self.made_at) < FRESH {
            return;
        }
        let service = |class: &ClassName| demand.service(now, class, runtime(pool)).as_secs_f64();
        let rate = demand.rate_of_all(now);
        let lead = demand.start_p95().min(LEAD_MOST);
        let unevenness = demand.unevenness();
        let quiet = rate * pool.warm.keep.as_secs_f64() < 1.0;
        let mean = rate * lead.as_secs_f64();
        let incoming = demand.classes().map(|class| demand.rate(now, class) * service(class)).sum();
        let miss = f64::from(pool.miss_target.get()) / 1000.0;
        let promises = |class: &ClassName| {
            let promise = classes.get(class).map_or(Duration::ZERO, |class| class.target_wait);
            lead.as_secs_f64() / promise.as_secs_f64().max(PROMISE_LEAST)
        };
        let broken = demand.classes().map(|class| demand.rate(now, class) * 3600.0 * promises(class)).sum();
        *self = Plan {
            made_at: now,
            fresh: true,
            // A rate never fades to nothing; what comes more seldom than anything is kept for is none.
            incoming: if quiet { 0.0 } else { incoming },
            parts: classes
                .iter()
                .map(|(name, class)| (name.clone(), part(service(name), class.drain_target)))
                .collect(),
            rate,
            lead,
            unevenness,
            cover: if quiet { 0 } else { cover(mean, unevenness, miss, pool.warm.max) },
            broken: if quiet { 0.0 } else { broken },
        };
    }

    /// What one more warm one avoids where there are so many, in thousandths of `broken` for each GiB that it is expected to
    /// need: the chance that more come during a start, times what their waits come to.
    pub(super) fn worth(&self, have: u32, need: Bytes) -> u32 {
        let mean = self.rate * self.lead.as_secs_f64();
        let avoided = self.broken * chance_of_more(mean, self.unevenness, have);
        let gib = need.get().max(1) as f64 / f64::from(1 << 30);
        demand::whole(1000.0 * avoided / gib).min(u32::MAX - 1)
    }

    /// What it comes to with so many waiting and leased.
    pub(super) fn terms(&self, pool: &Pool, queue: &Queue, leased: u32) -> Terms {
        let waiting = self.parts.iter().map(|(class, part)| part * f64::from(queue.len_of(class)));
        let backlog = waiting.sum();
        let estimated = estimated(self.incoming, backlog, f64::from(pool.target_utilization.get()) / 1000.0);
        let more = estimated.saturating_sub(leased).saturating_sub(queue.len());
        let stock = self.cover.max(more).clamp(pool.warm.min, pool.warm.max);
        Terms { backlog, estimated, stock }
    }
}

/// What a pool says of how long its leases run.
pub(super) fn runtime(pool: &Pool) -> Runtime {
    Runtime { expect: pool.expect_runtime, most: pool.deadlines.max_runtime }
}

/// The part of a slot that one waiting request stands for: all of one where it takes as long as the backlog may.
fn part(service_s: f64, drain_target: Duration) -> f64 {
    (service_s / drain_target.as_secs_f64().max(1e-3)).min(1.0)
}

/// Slots for all demand, so that no more than this part of them is busy.
fn estimated(incoming: f64, backlog: f64, utilization: f64) -> u32 {
    demand::whole(((incoming + backlog) / utilization).ceil())
}

/// The smallest number that is reached by arrivals with no more than this chance, at most `most`: of a Poisson distribution
/// with this mean, or, where variance over mean is above 1, of a negative binomial one.
fn cover(mean: f64, unevenness: f64, miss: f64, most: u32) -> u32 {
    if mean.is_nan() || mean <= 0.0 {
        return 1.min(most);
    }
    let mut below = 0.0;
    for (count, chance) in (0..most).zip(chances(mean, unevenness)) {
        if 1.0 - below <= miss {
            return count.max(1);
        }
        below += chance;
    }
    most
}

/// The chance that more than so many come.
fn chance_of_more(mean: f64, unevenness: f64, than: u32) -> f64 {
    if mean.is_nan() || mean <= 0.0 {
        return 0.0;
    }
    let below: f64 = chances(mean, unevenness).take(than.saturating_add(1) as usize).sum();
    (1.0 - below).clamp(0.0, 1.0)
}

/// The chances of none, of one, and so on.
fn chances(mean: f64, unevenness: f64) -> impl Iterator<Item = f64> {
    // Below this both are the same in double precision's reach.
    let poisson = unevenness < 1.001;
    let size = mean / (unevenness - 1.0).max(1e-9);
    // In logarithms, since the chance of none is less than any float where many come.
    let none = if poisson { -mean } else { -size * (mean / size).ln_1p() };
    let next = move |chance: &mut f64, count: u32| {
        let this = chance.exp();
        let k = f64::from(count);
        *chance += if poisson {
            (mean / (k + 1.0)).ln()
        } else {
            ((k + size) / (k + 1.0) * (mean / (size + mean))).ln()
        };
        Some(this)
    };
    (0..=u32::MAX).scan(none, next)
}

/// The largest stock of the last while.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Later ones are smaller: each is the largest since its time.
    stocks: VecDeque<(Instant, u32)>,
}

impl Held {
    /// This many are wanted now.
    pub(super) fn note(&mut self, now: Instant, stock: u32) {
        while self.stocks.back().is_some_and(|(_, before)| *before <= stock) {
            self.stocks.pop_back();
        }
        self.stocks.push_back((now, stock));
        while self.stocks.front().is_some_and(|(at, _)| now.since(*at) > HOLD) {
            self.stocks.pop_front();
        }
    }

    /// The largest that was noted within the time.
    pub(super) fn largest(&self) -> u32 {
        self.stocks.front().map_or(0, |(_, stock)| *stock)
    }
}

/// How many more starts are wanted.
pub(super) fn starts_wanted(queued: u32, stock: u32, warm: u32, starting: u32) -> u32 {
    queued.saturating_add(stock).saturating_sub(warm + starting)
}

/// How many warm ones are too many, where so many were wanted lately.
pub(super) fn surplus(queued: u32, held: u32, warm: u32) -> u32 {
    warm.saturating_sub(queued.saturating_add(held))
}

#[cfg(test)]
mod tests;
