//! The rate of an external provider, and what is left of it while the provider throttles.
//!
//! Think of a tap over a bucket: each call takes a cup, the tap fills it evenly, and what runs over is lost. Somebody who is
//! told by the provider that it was too much turns the tap down by half; left alone, it opens again bit by bit.
//!
//! ```text
//! permits in any window of length t  <=  burst + rate * t
//! throttled    part = max(1/64, part / 2), once in REACTION; the bucket is emptied, and stays so for `retry_after`
//! left alone   part = min(1, part + 1/16), every STEP
//! ```
//!
//! Multiplicative down and additive up is what lets many that share one provider come to fair parts of it (as TCP does).
//! More workers would make its throttling worse; this makes them fewer calls.
//!
//! Invariants: all are whole numbers, so nothing can be poisoned; no part is ever nothing, no pause longer than
//! [`PAUSE_MOST`], so it always comes back. A bucket begins empty: an earlier daemon may just have given all that was in it.
//!
//! Not here: who waits, and in which order (`permits`). That the provider throttled is not written down; it says so again.

use std::time::Duration;

use crate::profile::Provider;
use crate::quantity::{Instant, Permille};

/// The whole rate, in parts.
const WHOLE: u32 = 64;
/// By so many parts it grows again...
const BACK: u32 = WHOLE / 16;
/// ...in this time: from the smallest part to all of it in less than three minutes.
const STEP: Duration = Duration::from_secs(10);
/// Calls that were under way together are throttled together, and say one thing.
const REACTION: Duration = Duration::from_secs(5);
/// A provider that asks for a longer pause is asked again.
pub(super) const PAUSE_MOST: Duration = Duration::from_secs(600);

/// What of a provider's rate there is now.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// What a permit costs and the most that is kept, in nanoseconds of one part.
    cost: u128,
    most: u128,
    has: u128,
    part: u32,
    /// What is counted up to here.
    at: Instant,
    /// When the part grows next; it matters where it is not the whole.
    grows_at: Instant,
    /// Nothing flows before.
    shut_until: Instant,
    lowered_at: Option<Instant>,
}

impl Bucket {
    /// An empty one.
    pub(super) fn new(spec: &Provider, now: Instant) -> Bucket {
        let (cost, most) = sizes(spec);
        let (at, grows_at, shut_until) = (now, now, now);
        Bucket { cost, most, has: 0, part: WHOLE, at, grows_at, shut_until, lowered_at: None }
    }

    /// Goes by another rate from now on; what was learned of the provider stays.
    pub(super) fn renew(&mut self, spec: &Provider, now: Instant) {
        self.advance(now);
        let before = self.cost;
        (self.cost, self.most) = sizes(spec);
        // As many permits as there were.
        self.has = (self.has * self.cost / before).min(self.most);
    }

    /// Takes a permit out, if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.advance(now);
        let there = self.has >= self.cost && self.shut_until <= self.at;
        if there {
            self.has -= self.cost;
        }
        there
    }

    /// The provider said that it was too much, and perhaps for how long it wants to hear nothing.
    pub(super) fn throttled(&mut self, now: Instant, pause: Option<Duration>) {
        self.advance(now);
        self.has = 0;
        if self.lowered_at.is_none_or(|at| self.at.since(at) >= REACTION) {
            self.part = (self.part / 2).max(1);
            self.lowered_at = Some(self.at);
        }
        self.shut_until = self.shut_until.max(self.at.after(pause.unwrap_or_default().min(PAUSE_MOST)));
        // Whether more is taken well again shows only when something is.
        self.grows_at = self.at.max(self.shut_until).after(STEP);
    }

    /// When the next permit is there, if none is taken before.
    pub(super) fn opens(&self) -> Instant {
        let mut then = self.clone();
        while then.has < then.cost || then.at < then.shut_until {
            let flows = then.at.max(then.shut_until);
            let lacks = (then.cost - then.has.min(then.cost)).div_ceil(u128::from(then.part));
            let full = flows.after(Duration::from_nanos(u64::try_from(lacks).unwrap_or(u64::MAX)));
            let next = if then.is_whole() { full } else { full.min(then.grows_at) };
            if next <= then.at {
                break; // The end of time.
            }
            then.advance(next);
        }
        then.at
    }

    /// Until when the provider wants to hear nothing, where that is so.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        Some(self.shut_until).filter(|until| *until > now)
    }

    /// Whether nothing of the rate is held back.
    pub(super) fn is_whole(&self) -> bool {
        self.part == WHOLE
    }

    /// When more of the rate is back, where less than all is there.
    pub(super) fn grows_at(&self) -> Option<Instant> {
        (!self.is_whole()).then_some(self.grows_at)
    }

    /// What of the rate is used.
    pub(super) fn part(&self) -> Permille {
        Permille::new(self.part * 1000 / WHOLE)
    }

    /// How many permits are there.
    pub(super) fn permits(&self) -> u32 {
        u32::try_from(self.has / self.cost).unwrap_or(u32::MAX)
    }

    /// Lets flow what flows until now.
    pub(super) fn advance(&mut self, now: Instant) {
        while self.at < now {
            let until = if self.is_whole() { now } else { now.min(self.grows_at) };
            let from = self.at.max(self.shut_until).min(until);
            let flowed = until.since(from).as_nanos().saturating_mul(u128::from(self.part));
            self.has = self.has.saturating_add(flowed).min(self.most);
            self.at = until;
            if !self.is_whole() && self.grows_at <= until {
                self.part = (self.part + BACK).min(WHOLE);
                self.grows_at = until.after(STEP);
            }
        }
    }
}

fn sizes(spec: &Provider) -> (u128, u128) {
    let cost = spec.rate.interval().as_nanos().saturating_mul(u128::from(WHOLE));
    (cost, cost.saturating_mul(u128::from(spec.burst)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::quantity::Rate;

    fn spec(rate: &str, burst: u32) -> Provider {
        let profile = format!(
            "[provider.p]\nrate = \"{rate}\"\nburst = {burst}\n[pool.q]\nkind = 'sandbox'\nimage = 'i'\n"
        );
        crate::profile::check("host.toml", &profile).unwrap().providers["p"].clone()
    }

    fn at(millis: u64) -> Instant {
        Instant::BOOT.after(Duration::from_millis(millis))
    }

    #[test]
    fn a_pause_fills_the_bucket_and_no_more() {
        let mut bucket = Bucket::new(&spec("60/min", 3), at(0));
        assert!(!bucket.take(at(999)));
        assert_eq!(bucket.opens(), at(1000));
        assert!(bucket.take(at(1000)) && !bucket.take(at(1000)));
        let taken = |bucket: &mut Bucket, now| (0..9).filter(|_| bucket.take(at(now))).count();
        assert_eq!(taken(&mut bucket, 3000), 2);
        assert_eq!(taken(&mut bucket, 1_000_000_000), 3);
        assert!(!bucket.take(at(0)), "a clock that goes back gives nothing");
    }

    #[test]
    fn throttled_it_gives_half_and_comes_back_by_itself() {
        let mut bucket = Bucket::new(&spec("60/min", 1), at(0));
        // Ten that were under way say it: once is enough.
        (0..10).for_each(|call| bucket.throttled(at(call * 10), None));
        assert_eq!(bucket.part(), Permille::new(500));
        assert_eq!(bucket.opens(), at(90 + 2000));
        bucket.throttled(at(6000), Some(Duration::from_secs(20)));
        assert_eq!((bucket.part(), bucket.paused_until(at(6000))), (Permille::new(250), Some(at(26_000))));
        let parts = |bucket: &mut Bucket, seconds: &[u64]| {
            let part = |second: &u64| {
                bucket.advance(at(second * 1000));
                bucket.part().get()
            };
            seconds.iter().map(part).collect::<Vec<_>>()
        };
        assert_eq!(
            parts(&mut bucket, &[26, 35, 36, 46, 136, 146, 999]),
            [250, 250, 312, 375, 937, 1000, 1000]
        );
        bucket.throttled(at(999_000), Some(Duration::MAX));
        assert_eq!(bucket.opens(), at(999_000).after(PAUSE_MOST).after(Duration::from_secs(2)));
    }

    #[test]
    fn another_rate_keeps_what_was_learned() {
        let mut bucket = Bucket::new(&spec("60/min", 4), at(0));
        bucket.advance(at(9000));
        assert_eq!(bucket.permits(), 4);
        bucket.renew(&spec("600/min", 4), at(9000));
        assert_eq!(bucket.permits(), 4);
        bucket.throttled(at(9000), None);
        bucket.renew(&spec("1/h", 4), at(9000));
        assert_eq!((bucket.permits(), bucket.part()), (0, Permille::new(500)));
    }

    proptest! {
        /// However it is asked and throttled: never more than the rate and the burst, always again, and when it says.
        #[test]
        fn never_too_much_and_always_again(
            (count, unit, burst) in (1u32..500, prop::sample::select(vec!["s", "min", "h"]), 1u32..20),
            steps in prop::collection::vec((0u64..20_000, 0u32..12, 0u64..2000), 1..200),
        ) {
            let rate = format!("{count}/{unit}");
            let spec = spec(&rate, burst);
            let mut bucket = Bucket::new(&spec, at(0));
            let (mut now, mut given) = (0, Vec::new());
            for (pause, what, seconds) in steps {
                now += pause;
                match what {
                    0 => bucket.throttled(at(now), None),
                    1 => bucket.throttled(at(now), Some(Duration::from_secs(seconds))),
                    _ => while bucket.take(at(now)) { given.push(now) },
                }
                let opens = bucket.opens();
                let mut asked = bucket.clone();
                prop_assert!(asked.take(opens), "it opens at {opens} and gives nothing");
                let mut early = bucket.clone();
                prop_assert!(opens <= at(now) || !early.take(Instant::from_nanos(opens.as_nanos() - 1)));
            }
            let interval = Rate::parse(&rate).unwrap().interval();
            for (first, from) in given.iter().enumerate() {
                for (last, to) in given.iter().enumerate().skip(first) {
                    let most = u128::from(burst) + u128::from(to - from) * 1_000_000 / interval.as_nanos();
                    prop_assert!((last - first + 1) as u128 <= most, "{first} to {last} of {given:?}");
                }
            }
            bucket.advance(at(now).after(PAUSE_MOST).after(STEP * 16));
            prop_assert!(bucket.is_whole() && bucket.paused_until(bucket.at).is_none());
        }
    }
}
