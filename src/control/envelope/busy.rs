//! How busy instances that work keep the processors: what they use in nineteen of twenty looks.
//!
//! Each look at each leased instance counts once, in a bucket of a scale that ends at `cpus`, the kernel's limit for one; a
//! look's weight halves each hour. Looks are many and their figure only adds to what is declared, so that it is
//! known within a minute of work and need not be written down.
//!
//! It saturates at the limit, whatever was measured; a clock that went back takes nothing away, one that jumped ahead
//! makes it forget. Before a minute of looks, and again when as few are left, nothing is said.

use std::time::Duration;

use super::scale::{BUCKETS, bucket, edge, scaled};
use crate::quantity::{Instant, MilliCpu};

/// The weight of a look.
const ONE: u64 = 1000;
/// So many looks say something.
const ENOUGH: u64 = 60;
/// Weights fade in whole steps, so that rounding does not eat them.
const STEP: Duration = Duration::from_secs(60);
/// Steps until a weight is half of what it was.
const HALF: f64 = 60.0;

/// The looks of one pool's template.
#[derive(Debug, Clone)]
pub(in crate::control) struct Busy {
    max: MilliCpu,
    weights: [u64; BUCKETS],
    /// When the weights were as they are.
    at: Instant,
}

impl Busy {
    /// Of a template with this limit.
    pub(in crate::control) fn new(max: MilliCpu) -> Busy {
        Busy { max, weights: [0; BUCKETS], at: Instant::BOOT }
    }

    /// Takes in what one used.
    pub(in crate::control) fn note(&mut self, now: Instant, used: MilliCpu) {
        self.fade(now);
        let weight = &mut self.weights[usize::from(bucket(self.max.get(), used.get()))];
        *weight = weight.saturating_add(ONE);
    }

    /// What is not exceeded in nineteen of twenty looks, up to the end of its bucket; `None` where too few say so.
    pub(in crate::control) fn p95(&mut self, now: Instant) -> Option<MilliCpu> {
        self.fade(now);
        let all = self.weights.iter().fold(0, |all: u64, weight| all.saturating_add(*weight));
        if all < ENOUGH * ONE {
            return None;
        }
        let mut below = 0u64;
        let place = self.weights.iter().position(|weight| {
            below = below.saturating_add(*weight);
            u128::from(below) * 20 >= u128::from(all) * 19
        });
        Some(MilliCpu::new(edge(self.max.get(), place.unwrap_or(BUCKETS - 1))))
    }

    fn fade(&mut self, now: Instant) {
        if self.at > now || self.weights.iter().all(|weight| *weight == 0) {
            self.at = now;
            return;
        }
        let steps = now.since(self.at).as_nanos() / STEP.as_nanos();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if steps == 0 {
            return;
        }
        self.at = self.at.after(STEP.saturating_mul(steps));
        let left = (-f64::from(steps) / HALF).exp2();
        self.weights.iter_mut().for_each(|weight| *weight = scaled(*weight, left));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CORES: MilliCpu = MilliCpu::cores(2);

    fn at(seconds: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(seconds))
    }

    fn noted(looks: impl IntoIterator<Item = u64>) -> Busy {
        let mut busy = Busy::new(CORES);
        (1..).zip(looks).for_each(|(second, used)| busy.note(at(second), MilliCpu::new(used)));
        busy
    }

    #[test]
    fn nineteen_of_twenty_looks_use_no_more() {
        assert_eq!(noted([100; 59]).p95(at(60)), None, "too few");
        let usual = |looks: Vec<u64>| noted(looks).p95(at(200)).unwrap().get();
        assert!((300..=330).contains(&usual(vec![300; 100])), "to an eighth of a doubling above");
        let spikes = |one_in: u64| (0..200).map(|look| if look % one_in == 0 { 1900 } else { 300 }).collect();
        assert!(usual(spikes(25)) < 400, "4 % are not one of twenty");
        assert!(usual(spikes(10)) >= 1900);
        assert_eq!(usual(vec![u64::MAX; 100]), CORES.get(), "it ends at the limit");
        assert!(usual(vec![0; 100]) < 10);
    }

    #[test]
    fn what_was_is_forgotten_and_a_clock_that_jumps_is_no_harm() {
        let mut busy = noted(std::iter::repeat_n(1500, 600));
        for second in 0..3 * 3600 {
            busy.note(at(600 + second), MilliCpu::new(200));
        }
        assert!(busy.p95(at(600 + 3 * 3600)).unwrap().get() < 250);
        assert!(busy.p95(at(0)).is_some(), "back");
        assert_eq!(busy.p95(at(1 << 40)), None, "and far ahead");
    }

    proptest! {
        #[test]
        fn nothing_poisons_it(
            looks in prop::collection::vec((any::<u64>(), any::<u64>()), 0..300),
            max in 0u64..=1_024_000,
        ) {
            let mut busy = Busy::new(MilliCpu::new(max));
            for (time, used) in looks {
                busy.note(Instant::from_nanos(time), MilliCpu::new(used));
                prop_assert!(busy.p95(Instant::from_nanos(time)).is_none_or(|p95| p95.get() <= max));
            }
        }
    }
}
