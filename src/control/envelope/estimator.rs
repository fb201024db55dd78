//! What the peaks of past lives say of the next one.
//!
//! Think of a shop that notes how much each cart held at the till. Carts that are still in the aisles, and those that
//! were left standing, held at least what was seen in them; to leave them out would favour the small ones, which are
//! through sooner. Kaplan and Meier's estimate takes them for what they are:
//!
//! ```text
//! n(x)      the weight of those whose peak reached bucket x; d(x) that of whole lives that peaked in it
//! S(x)      product over y <= x of 1 - d(y) / n(y)            the share that peaks above x
//! usual     the least x with S(x) <= 2 %, plus 15 %           where none is: the highest that was seen
//! beyond h  the least x with S(x) / S(h) <= 10 %              where none is: the kernel's limit
//! ```
//!
//! Buckets are eighths of a doubling below the kernel's limit; a peak counts with its bucket's upper edge. A life weighs
//! one, and half of that 48 h later. A tenant who has most of the weight is counted with no more than all others
//! together, so that a flood of small lives cannot hide what the others need. It is no shield the other way: peaks that
//! are more than 2 % of what is counted are needed, whoever had them.
//!
//! Invariants: weights are whole numbers and saturate; no time makes one grow; `usual` never exceeds the kernel's limit,
//! and before [`ENOUGH`] lives it is what was declared, or was learned of what came before, whichever is more. What
//! was learned long ago fades as a whole and becomes such a former figure.
//!
//! Not here: which lives teach (`Controller`), what is counted with the figures (`Share`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::scale::{self, BUCKETS, scaled};
use crate::control::message::{EnvelopeRecord, PeakWeight, Tenant};
use crate::profile::PoolName;
use crate::quantity::{Bytes, Instant, Permille};

/// Fewer lives say too little of the worst of fifty.
pub(super) const ENOUGH: u32 = 10;
/// The weight of a life that has just ended.
const ONE: u64 = 1_000_000;
/// Weights fade in whole steps, so that rounding does not eat them.
const STEP: Duration = Duration::from_secs(3600);
/// Steps until a weight is half of what it was.
const HALF: f64 = 48.0;
/// Tenants that are told apart; the lightest beyond it count as one crowd.
const TENANTS: usize = 4;

/// The weight of lives that peaked in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Weight {
    /// Of those that ran to their own end.
    whole: u64,
    /// Of those that were cut short, or go on.
    cut: u64,
}

impl Weight {
    fn sum(self) -> u64 {
        self.whole.saturating_add(self.cut)
    }

    fn add(&mut self, other: Weight) {
        self.whole = self.whole.saturating_add(other.whole);
        self.cut = self.cut.saturating_add(other.cut);
    }
}

/// What one life taught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::control) struct Taught {
    pub(in crate::control) tenant: Tenant,
    pub(in crate::control) peak: Bytes,
    /// Whether it ran to its own end, and would not have wanted more.
    pub(in crate::control) whole: bool,
}

/// The past lives of one pool's template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::control) struct Learned {
    max: Bytes,
    /// What was learned before these.
    former: Bytes,
    lives: u32,
    /// When the weights were as they are.
    at: Instant,
    /// By tenant, `None` for the crowd, and bucket.
    weights: BTreeMap<(Option<Tenant>, u8), Weight>,
}

impl Learned {
    /// Of a template with this limit, after another whose envelope was `former`.
    pub(in crate::control) fn after(former: Bytes, max: Bytes) -> Learned {
        Learned { max, former, lives: 0, at: Instant::BOOT, weights: BTreeMap::new() }
    }

    /// What an earlier daemon wrote down of a template with this limit.
    pub(in crate::control) fn of(record: &EnvelopeRecord, max: Bytes) -> Learned {
        let mut learned = Learned::after(record.former, max);
        (learned.lives, learned.at) = (record.lives, record.at);
        for peak in &record.weights {
            let place = (peak.tenant.clone(), scale::within(peak.bucket));
            learned.weights.entry(place).or_default().add(Weight { whole: peak.whole, cut: peak.cut });
        }
        learned
    }

    /// It as it is written down, with how long instances were there.
    pub(in crate::control) fn record(
        &self,
        pool: &PoolName,
        usual: Bytes,
        (hours, hours_until): (Vec<(Instant, Duration)>, Instant),
    ) -> EnvelopeRecord {
        let weights = self.weights.iter().map(|((tenant, bucket), weight)| PeakWeight {
            tenant: tenant.clone(),
            bucket: *bucket,
            whole: weight.whole,
            cut: weight.cut,
        });
        EnvelopeRecord {
            pool: pool.clone(),
            usual,
            former: self.former,
            lives: self.lives,
            at: self.at,
            weights: weights.collect(),
            hours,
            hours_until,
        }
    }

    /// How many lives have taught it.
    pub(in crate::control) fn lives(&self) -> u32 {
        self.lives
    }

    /// What was learned of what came before.
    pub(in crate::control) fn former(&self) -> Bytes {
        self.former
    }

    /// What it leaves to what comes after it: its envelope where lives have taught that, else what came before it.
    pub(in crate::control) fn figure(&self, usual: Bytes) -> Bytes {
        if self.lives < ENOUGH { self.former } else { usual }
    }

    /// Takes in one life that is over.
    pub(in crate::control) fn learn(&mut self, now: Instant, life: Taught) {
        self.fade(now);
        let weight = if life.whole { Weight { whole: ONE, cut: 0 } } else { Weight { whole: 0, cut: ONE } };
        let place = (Some(life.tenant), self.bucket(life.peak));
        self.weights.entry(place).or_default().add(weight);
        self.lives = self.lives.saturating_add(1);
        let named: Vec<_> = self.sums().into_iter().filter(|(tenant, _)| tenant.is_some()).collect();
        if named.len() > TENANTS
            && let Some((lightest, _)) = named.into_iter().min_by_key(|(_, sum)| *sum)
        {
            let theirs = (lightest.clone(), 0)..=(lightest.clone(), u8::MAX);
            let moved: Vec<_> =
                self.weights.range(theirs).map(|(place, weight)| (place.clone(), *weight)).collect();
            for (place, weight) in moved {
                self.weights.remove(&place);
                self.weights.entry((None, place.1)).or_default().add(weight);
            }
        }
    }

    /// Lets weights fade up to now. What weighs less than half of what is enough says no more than a former figure.
    fn fade(&mut self, now: Instant) {
        // A clock that went back takes nothing away, and goes on from where it is.
        let steps = now.since(self.at).as_nanos() / STEP.as_nanos();
        if self.weights.is_empty() || self.at > now {
            self.at = now;
            return;
        }
        if steps == 0 {
            return;
        }
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let figure = self.figure(self.expect(Bytes::ZERO, &[]).usual);
        self.at = self.at.after(STEP.saturating_mul(steps));
        let left = (-f64::from(steps) / HALF).exp2();
        for weight in self.weights.values_mut() {
            (weight.whole, weight.cut) = (scaled(weight.whole, left), scaled(weight.cut, left));
        }
        self.weights.retain(|_, weight| weight.sum() > 0);
        let sum = self.weights.values().fold(0, |sum: u64, weight| sum.saturating_add(weight.sum()));
        if sum < ONE * u64::from(ENOUGH) / 2 && self.lives >= ENOUGH {
            self.forget(figure, now);
        }
    }

    fn forget(&mut self, figure: Bytes, now: Instant) {
        self.former = figure;
        (self.lives, self.at) = (0, now);
        self.weights.clear();
    }

    /// What the next life is expected to need, where so much is declared and these go on, each with its peak so far.
    pub(in crate::control) fn expect(&self, declared: Bytes, running: &[Bytes]) -> Expected {
        if self.lives < ENOUGH {
            return Expected::declared(declared.max(self.former), self.max);
        }
        let mut buckets = self.counted();
        for peak in running {
            buckets[usize::from(self.bucket(*peak))].add(Weight { whole: 0, cut: ONE });
        }
        let highest = || buckets.iter().rposition(|weight| weight.sum() > 0).unwrap_or(BUCKETS - 1);
        let edge = edge(self.max, first_below(&buckets, 0, 0.02).unwrap_or_else(highest));
        let usual = edge.saturating_add(Permille::new(150).of(edge)).min(self.max);
        Expected { usual, max: self.max, buckets: Some(Box::new(buckets)) }
    }

    /// The weight of each tenant's lives, and of the crowd's.
    fn sums(&self) -> BTreeMap<&Option<Tenant>, u64> {
        let mut sums: BTreeMap<&Option<Tenant>, u64> = BTreeMap::new();
        for ((tenant, _), weight) in &self.weights {
            let sum = sums.entry(tenant).or_default();
            *sum = sum.saturating_add(weight.sum());
        }
        sums
    }

    /// The weight in each bucket, the heaviest tenant's cut to what all others have.
    fn counted(&self) -> [Weight; BUCKETS] {
        let sums = self.sums();
        let all = sums.values().fold(0, |all: u64, sum| all.saturating_add(*sum));
        let mut buckets = [Weight::default(); BUCKETS];
        for ((tenant, bucket), weight) in &self.weights {
            let own = sums[tenant];
            let others = all.saturating_sub(own);
            let heavy = tenant.is_some() && others > 0 && own > others;
            let share = if heavy { others as f64 / own as f64 } else { 1.0 };
            let weight = Weight { whole: scaled(weight.whole, share), cut: scaled(weight.cut, share) };
            buckets[usize::from(scale::within(*bucket))].add(weight);
        }
        buckets
    }

    fn bucket(&self, peak: Bytes) -> u8 {
        bucket(self.max, peak)
    }
}

/// What one instance is expected to need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::control) struct Expected {
    /// Its envelope.
    pub(in crate::control) usual: Bytes,
    /// The kernel's limit for it.
    pub(in crate::control) max: Bytes,
    buckets: Option<Box<[Weight; BUCKETS]>>,
}

impl Expected {
    /// As somebody said, and not as lives have taught.
    pub(in crate::control) fn declared(usual: Bytes, max: Bytes) -> Expected {
        Expected { usual: usual.min(max), max, buckets: None }
    }

    /// The envelope of one that holds so much.
    pub(in crate::control) fn of_one_with(&self, held: Bytes) -> Bytes {
        if held <= self.usual {
            return self.usual;
        }
        let above = usize::from(bucket(self.max, held)) + 1;
        let beyond = self.buckets.as_ref().and_then(|buckets| first_below(buckets.as_slice(), above, 0.1));
        beyond.map_or(self.max, |beyond| edge(self.max, beyond))
    }

    /// How far it may outgrow its envelope.
    pub(in crate::control) fn slack(&self) -> Bytes {
        self.max.saturating_sub(self.usual)
    }
}

/// The first bucket, from this one on, above which no more than this share peaks of those that reached the first.
fn first_below(buckets: &[Weight], from: usize, share: f64) -> Option<usize> {
    let mut reached = buckets.iter().skip(from).fold(0, |sum: u64, weight| sum.saturating_add(weight.sum()));
    let mut above = 1.0;
    for (place, weight) in buckets.iter().enumerate().skip(from) {
        if weight.whole > 0 {
            above *= 1.0 - weight.whole as f64 / reached as f64;
        }
        // Rounding must not make one of fifty more than 2 %.
        if weight.whole > 0 && above <= share + 1e-9 {
            return Some(place);
        }
        reached = reached.saturating_sub(weight.sum());
    }
    None
}

/// The most that a bucket stands for.
fn edge(max: Bytes, bucket: usize) -> Bytes {
    Bytes::new(scale::edge(max.get(), bucket))
}

fn bucket(max: Bytes, peak: Bytes) -> u8 {
    scale::bucket(max.get(), peak.get())
}

#[cfg(test)]
mod tests;
