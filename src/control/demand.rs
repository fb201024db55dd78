//! What callers want of a pool, as far as it can be known from what they have done.
//!
//! Kept for each class and summed, never averaged over classes: how often requests arrive, how long a lease has its slot, and
//! for the pool how uneven arrivals are and how long a start takes. All forget: what was long ago weighs less by `e^(-age / span)`, so
//! each estimate is a few numbers whatever comes, and needs no window to be kept.
//!
//! Estimates are floats and decide nothing; `scaling` makes whole numbers of them. None can be poisoned: time that stands
//! still or jumps ahead only ages them, they are capped, and a quotient without a base is what the profile expects.
//!
//! Not here: what follows for the stock (`scaling`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::profile::ClassName;
use crate::quantity::Instant;

/// Arrivals count for no less than this, and for no less than a lease lasts: below it one request for a long job reads as
/// the first of many, and a pause between two callers as the end of demand.
const ARRIVALS: Duration = Duration::from_secs(60);
/// What counts as a burst.
const BURST: Duration = Duration::from_secs(6);
/// How long a lease counts for the mean service: long runs must have come to their end within it.
const SERVICE: Duration = Duration::from_secs(3600);
/// Arrivals are counted by this much time to see how uneven they are: about the time of a start.
const SLOT: Duration = Duration::from_secs(10);
/// Slots until the unevenness is believed.
const ENOUGH: f64 = 12.0;
/// Starts that are remembered.
const STARTS: usize = 32;
/// What a start is taken to need before one was seen.
const START: Duration = Duration::from_secs(5);
/// No estimate of a rate goes beyond this many a second, nor one of a sum beyond what it comes to in a span.
const MOST: f64 = 1e6;

/// What is known of one pool's demand.
#[derive(Debug, Default)]
pub(super) struct Demand {
    classes: BTreeMap<ClassName, Flow>,
    uneven: Uneven,
    starts: VecDeque<Duration>,
}

/// What a pool says of how long its leases run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runtime {
    pub(super) expect: Duration,
    pub(super) most: Duration,
}

/// The requests of one class.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    steady: Rate,
    /// For how long arrivals count.
    span: Duration,
    burst: Rate,
    service: Service,
}

/// Events a second, that forgets.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    per_s: f64,
    at: Instant,
}

/// Time that leases had slots, and leases that ended.
#[derive(Debug, Clone, Copy, Default)]
struct Service {
    slot_s: f64,
    ended: f64,
    lent: u32,
    at: Instant,
}

/// The mean and the variance of arrivals in a slot of time.
#[derive(Debug, Clone, Copy, Default)]
struct Uneven {
    slot: u64,
    count: f64,
    slots: f64,
    sum: f64,
    squares: f64,
}

impl Demand {
    /// A request arrived that was granted or queued.
    pub(super) fn arrived(&mut self, now: Instant, class: &ClassName, expect: Runtime) {
        let span = self.service(now, class, expect).clamp(ARRIVALS, SERVICE);
        let flow = self.flow(class);
        flow.span = span;
        flow.steady.note(now, span);
        flow.burst.note(now, BURST);
        self.uneven.note(now);
    }

    /// One of this class has a slot from now on.
    pub(super) fn lent(&mut self, now: Instant, class: &ClassName) {
        let service = &mut self.flow(class).service;
        *service = service.aged(now);
        service.lent = service.lent.saturating_add(1);
    }

    /// One of this class has given its slot back; whether it had it to its end, or never really.
    pub(super) fn returned(&mut self, now: Instant, class: &ClassName, ended: bool) {
        let service = &mut self.flow(class).service;
        *service = service.aged(now);
        service.lent = service.lent.saturating_sub(1);
        service.ended += if ended { 1.0 } else { 0.0 };
    }

    /// A start was wanted so long ago, and is ready now.
    pub(super) fn started(&mut self, took: Duration) {
        if self.starts.len() == STARTS {
            self.starts.pop_front();
        }
        self.starts.push_back(took);
    }

    /// How long a start takes in nineteen of twenty cases, from the time when it is wanted.
    pub(super) fn start_p95(&self) -> Duration {
        self.seen_start_p95().unwrap_or(START)
    }

    /// The same, where one was seen.
    pub(super) fn seen_start_p95(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.starts.iter().copied().collect();
        sorted.sort_unstable();
        let place = (sorted.len() * 95).div_ceil(100).saturating_sub(1);
        sorted.get(place).copied()
    }

    /// The classes that anything is known of.
    pub(super) fn classes(&self) -> impl Iterator<Item = &ClassName> {
        self.classes.keys()
    }

    /// Arrivals of a class a second.
    pub(super) fn rate(&self, now: Instant, class: &ClassName) -> f64 {
        self.classes.get(class).map_or(0.0, |flow| flow.steady.get(now, flow.span))
    }

    /// Arrivals of all classes a second: the steady rate, or that of the last seconds where it is higher. One alone is no burst.
    pub(super) fn rate_of_all(&self, now: Instant) -> f64 {
        let sum =
            |rate: fn(&Flow, Instant) -> f64| self.classes.values().map(|flow| rate(flow, now)).sum::<f64>();
        let burst = sum(|flow, now| flow.burst.get(now, BURST)) - 1.0 / BURST.as_secs_f64();
        sum(|flow, now| flow.steady.get(now, flow.span)).max(burst)
    }

    /// How long a lease of this class has its slot on average: slot-seconds, those of running ones included, over ends;
    /// what is expected before any has ended, and never above the longest.
    pub(super) fn service(&self, now: Instant, class: &ClassName, expect: Runtime) -> Duration {
        let Runtime { expect, most } = expect;
        let known = self.classes.get(class).map(|flow| flow.service.aged(now)).filter(|it| it.ended > 1e-6);
        let mean = known.map(|service| service.slot_s / service.ended);
        mean.map_or(expect, |mean| Duration::try_from_secs_f64(mean).unwrap_or(most)).min(most)
    }

    /// Variance over mean of the arrivals in a slot of time: 1 for independent ones, more where they come together.
    pub(super) fn unevenness(&self) -> f64 {
        self.uneven.get()
    }

    /// How many of this class have a slot.
    pub(super) fn has(&self, class: &ClassName) -> u32 {
        self.classes.get(class).map_or(0, |flow| flow.service.lent)
    }

    /// Forgets the classes that are not known and have no slot.
    pub(super) fn forget_classes(&mut self, is_known: impl Fn(&ClassName) -> bool) {
        self.classes.retain(|class, flow| is_known(class) || flow.service.lent > 0);
    }

    fn flow(&mut self, class: &ClassName) -> &mut Flow {
        if !self.classes.contains_key(class) {
            self.classes.insert(class.clone(), Flow::default());
        }
        self.classes.get_mut(class).expect("it was put there just now")
    }
}

/// A number as a whole one: what is beyond the range becomes its end, and what is no number nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` does just that")]
pub(super) fn whole(number: f64) -> u32 {
    number as u32
}

/// What remains after a time of what forgets within a span.
fn left(age: Duration, span: Duration) -> f64 {
    (-age.as_secs_f64() / span.as_secs_f64()).exp()
}

impl Rate {
    fn note(&mut self, now: Instant, span: Duration) {
        self.per_s = (self.get(now, span) + 1.0 / span.as_secs_f64()).min(MOST);
        self.at = now.max(self.at);
    }

    fn get(&self, now: Instant, span: Duration) -> f64 {
        self.per_s * left(now.since(self.at), span)
    }
}

impl Service {
    fn aged(self, now: Instant) -> Service {
        let left = left(now.since(self.at), SERVICE);
        let had = f64::from(self.lent) * SERVICE.as_secs_f64() * (1.0 - left);
        let most = MOST * SERVICE.as_secs_f64();
        Service {
            slot_s: (self.slot_s * left + had).min(most),
            ended: (self.ended * left).min(most),
            lent: self.lent,
            at: now.max(self.at),
        }
    }
}

impl Uneven {
    fn note(&mut self, now: Instant) {
        let slot = now.as_nanos() / u64::try_from(SLOT.as_nanos()).expect("it is short");
        if slot > self.slot {
            self.close(slot - self.slot);
            self.slot = slot;
        }
        self.count = (self.count + 1.0).min(MOST);
    }

    /// Ends the slot, and as many empty ones as went by.
    fn close(&mut self, many: u64) {
        let span = SERVICE.as_secs_f64() / SLOT.as_secs_f64();
        let left = (-1.0 / span).exp();
        self.slots = self.slots * left + 1.0;
        self.sum = self.sum * left + self.count;
        self.squares = self.squares * left + self.count * self.count;
        self.count = 0.0;
        // Of a silence that was longer than the span nothing else is left.
        let empty = f64::from(u32::try_from(many - 1).unwrap_or(u32::MAX)).min(10.0 * span);
        let aged = left.powf(empty);
        self.slots = self.slots * aged + (1.0 - aged) / (1.0 - left);
        self.sum *= aged;
        self.squares *= aged;
    }

    fn get(&self) -> f64 {
        let mean = self.sum / self.slots;
        if self.slots < ENOUGH || mean < 1e-9 {
            return 1.0;
        }
        let variance = self.squares / self.slots - mean * mean;
        (variance / mean).clamp(1.0, MOST)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::BOOT.after(Duration::from_millis(millis))
    }

    fn class() -> ClassName {
        ClassName::new("batch")
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const SOON: Runtime = Runtime { expect: Duration::from_secs(7), most: HOUR };

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut demand = Demand::default();
        for step in 0..600 {
            demand.arrived(at(step * 500), &class(), SOON);
        }
        let rate = demand.rate(at(300_000), &class());
        assert!((1.95..2.05).contains(&rate), "{rate}");
        assert!(demand.rate(at(360_000), &class()) < 0.4 * rate);
        assert!(demand.rate(at(3_600_000), &class()) < 1e-9);
        // A burst is seen within seconds.
        let mut demand = Demand::default();
        (0..10).for_each(|step| demand.arrived(at(step * 100), &class(), SOON));
        assert!(demand.rate(at(1000), &class()) < 0.2);
        assert!(demand.rate_of_all(at(1000)) > 1.2);
        // One alone is none.
        let mut demand = Demand::default();
        demand.arrived(at(1000), &class(), SOON);
        assert!(demand.rate_of_all(at(1000)) < 0.02);
    }

    #[test]
    fn mean_service_counts_those_that_run() {
        let mut demand = Demand::default();
        let mean = |demand: &Demand, now| demand.service(at(now), &class(), SOON).as_secs_f64();
        assert_eq!(mean(&demand, 0), 7.0);
        (0..3).for_each(|_| demand.lent(at(0), &class()));
        assert_eq!(mean(&demand, 60_000), 7.0, "before any end");
        demand.returned(at(60_000), &class(), true);
        // 3 * 60 s of slots over one end.
        assert!((178.0..=180.0).contains(&mean(&demand, 60_000)));
        demand.returned(at(60_000), &class(), false);
        demand.returned(at(60_000), &class(), true);
        assert!((88.0..=90.0).contains(&mean(&demand, 60_000)));
        assert_eq!(
            demand.service(at(60_000), &class(), Runtime { most: Duration::from_secs(5), ..SOON }).as_secs(),
            5,
            "capped"
        );
    }

    #[test]
    fn nineteen_of_twenty_starts_take_no_longer() {
        let mut demand = Demand::default();
        assert_eq!(demand.start_p95(), START);
        (1..=100).for_each(|seconds| demand.started(Duration::from_secs(seconds)));
        assert_eq!(demand.start_p95().as_secs(), 99, "of the last 32, those from 69 to 100");
    }

    #[test]
    fn those_that_come_ten_at_a_time_are_uneven() {
        let unevenness = |many: u64| {
            let mut demand = Demand::default();
            // Every 30 s on average, at times that no slot divides.
            for step in 0..400 {
                (0..many).for_each(|_| demand.arrived(at(step * 29_989), &class(), SOON));
            }
            demand.unevenness()
        };
        assert!(unevenness(1) < 1.1, "{}", unevenness(1));
        assert!(unevenness(10) > 5.0, "{}", unevenness(10));
    }

    proptest! {
        /// Whatever happens, and however time goes, every estimate is a number that can be used.
        #[test]
        fn nothing_poisons_an_estimate(steps in prop::collection::vec((any::<u64>(), 0u8..4), 0..200)) {
            let mut demand = Demand::default();
            for (time, what) in steps {
                let now = Instant::from_nanos(time);
                match what {
                    0 => demand.arrived(now, &class(), SOON),
                    1 => demand.lent(now, &class()),
                    2 => demand.returned(now, &class(), time % 2 == 0),
                    _ => demand.started(Duration::from_nanos(time)),
                }
                for rate in [demand.rate(now, &class()), demand.rate_of_all(now)] {
                    prop_assert!((0.0..=2.0 * MOST).contains(&rate), "{rate}");
                }
                prop_assert!((1.0..=MOST).contains(&demand.unevenness()), "{}", demand.unevenness());
                prop_assert!(demand.service(now, &class(), SOON) <= HOUR);
            }
        }
    }
}
