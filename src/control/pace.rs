//! How many cold starts may be under way at once: as many as the host makes without each taking much longer than one alone.
//!
//! Think of a kitchen: one more pan on the fire costs nothing until there is no room between them, and from there on
//! every dish comes late. Nobody can say beforehand how many pans that is; it shows in how long the dishes take.
//!
//! ```text
//! strain    mean over the last starts of  took / alone         1 where they do not disturb each other
//! up        strain <= 1.5, and as many under way as may be     by one each, until the first cut; then by one a round
//! down      strain > 2                                         by a quarter, once for those that were under way
//! ```
//!
//! `max_starts` is the ceiling and 1 the least, so that who waits is always served and one start alone, which strains nothing,
//! brings the rest back. `alone` is kept for each pool, as images differ: the mean of starts beside which there was no other,
//! before one was seen the shortest of all. A start that ran out of time counts as a long one.
//!
//! Invariants: every figure is a whole number within fixed bounds, so that no time, however long, short or out of order, can
//! poison one. Not here: pressure of processors and memory (`pressure`), what is started (`settle`). It is not written down: the
//! next daemon finds out anew, within some starts.

use std::time::Duration;

use super::message::Why;
use crate::quantity::{Instant, Permille};

/// Nobody says more than this of a host that is not large; from here on it is tried.
const FIRST: u32 = 8;
/// The mean forgets: each start is a quarter of it, so that one that was slow by itself is no sign.
const NEW_PART: u32 = 4;
/// One start is no more than this many times as long as one alone, however long it was.
const MOST_STRAIN: u32 = 4000;
/// More than this, and at least half of the time goes into disturbing each other.
const TOO_MUCH: u32 = 2000;
/// Less than this is what starts differ by among themselves.
const LITTLE: u32 = 1500;
/// Of eight parts of what one takes alone, the newest is one.
const ALONE_PART: u32 = 8;

/// How many may be, and what speaks for it. In thousandths.
#[derive(Debug)]
pub(super) struct Pace {
    allowed: u32,
    strain: u32,
    /// When it was last cut: starts from before say nothing about what is allowed since.
    cut: Option<Instant>,
}

/// A start that came to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// When it was ordered.
    pub(super) born: Instant,
    /// How long it took.
    pub(super) took: Duration,
    /// How long one of its pool takes alone.
    pub(super) alone: Option<Duration>,
    /// How many were under way, itself included.
    pub(super) under_way: u32,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { allowed: FIRST * 1000, strain: 1000, cut: None }
    }

    /// How many may be under way now, of at most so many.
    pub(super) fn allows(&self, most: u32) -> u32 {
        (self.allowed / 1000).clamp(1, most.max(1))
    }

    /// What is in the way of one more beside `starting` others, where the ceiling is not.
    pub(super) fn limit(&self, starting: u32, most: u32) -> (Why, bool) {
        let limit = self.allows(most);
        let reached = starting >= limit && limit < most;
        (Why::StartPace { have: starting, limit, strain: Permille::new(self.strain) }, reached)
    }

    /// Takes in a start that ended, where there may be so many.
    pub(super) fn note(&mut self, now: Instant, start: &Ended, most: u32) {
        let Some(alone) = start.alone else { return };
        let took = ratio(start.took, alone);
        self.strain = (self.strain * (NEW_PART - 1) + took) / NEW_PART;
        let all = most.saturating_mul(1000);
        self.allowed = self.allowed.min(all);
        if self.strain > TOO_MUCH {
            if self.cut.is_none_or(|cut| start.born >= cut) {
                self.allowed = (self.allowed / 4 * 3).max(1000);
                self.cut = Some(now);
            }
        } else if self.strain <= LITTLE && start.under_way >= self.allows(most) {
            // A round is as many as may be at once: each of them adds its part of one.
            let step = if self.cut.is_none() { 1000 } else { 1000 / self.allows(most) };
            self.allowed = self.allowed.saturating_add(step).min(all);
        }
    }
}

/// So many times as long, in thousandths; one that takes no time takes as long as any.
fn ratio(took: Duration, alone: Duration) -> u32 {
    let times = took.as_micros().saturating_mul(1000).checked_div(alone.as_micros()).unwrap_or(1000);
    u32::try_from(times).unwrap_or(MOST_STRAIN).min(MOST_STRAIN)
}

/// How long a start takes beside which there is no other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Alone {
    mean: Option<Duration>,
    /// Whether it is of one that was alone.
    sure: bool,
}

impl Alone {
    pub(super) fn get(self) -> Option<Duration> {
        self.mean
    }

    /// Takes in how long one took, and whether no other was under way meanwhile.
    pub(super) fn note(&mut self, took: Duration, alone: bool) {
        let mean = match (self.mean, self.sure, alone) {
            (None, ..) | (Some(_), false, true) => took,
            (Some(mean), false, false) => mean.min(took),
            (Some(mean), true, false) => mean,
            // One of them may have been slow for a reason of its own.
            (Some(mean), true, true) => {
                let most = mean.saturating_mul(MOST_STRAIN / 1000).max(Duration::from_millis(1));
                (mean.saturating_mul(ALONE_PART - 1).saturating_add(took.min(most))) / ALONE_PART
            }
        };
        self.mean = Some(mean);
        self.sure |= alone;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::BOOT.after(Duration::from_millis(millis))
    }

    /// A host on which a start takes a second alone, and with `n` others `1 + n * others` seconds, more where `n` starts want more
    /// processors than there are; `most` is the ceiling, `None` for a number that nothing moves.
    struct Host {
        contention: f64,
        cores: f64,
        pace: Option<Pace>,
        most: u32,
    }

    impl Host {
        /// Serves a burst of so many: how long until all are ready, and how long the slowest took, in seconds. Whoever is
        /// under way gets on at the rate that the others leave it, as on a real host.
        fn serve(&mut self, burst: u32, now: &mut f64, alone: &mut Alone) -> (f64, f64) {
            let (mut left, mut done, began) = (burst, 0, *now);
            let mut under_way: Vec<(f64, f64, bool)> = Vec::new();
            let mut slowest: f64 = 0.0;
            while done < burst {
                let allowed = self.pace.as_ref().map_or(self.most, |pace| pace.allows(self.most));
                while left > 0 && under_way.len() < allowed as usize {
                    under_way.iter_mut().for_each(|(.., lone)| *lone = false);
                    under_way.push((*now, 1.0, under_way.is_empty()));
                    left -= 1;
                }
                let many = under_way.len() as f64;
                let slow = (1.0 + self.contention * (many - 1.0)) * (many / self.cores).max(1.0);
                let least = under_way.iter().map(|(_, work, _)| *work).fold(f64::MAX, f64::min);
                *now += least * slow;
                let crowd = u32::try_from(under_way.len()).unwrap();
                under_way.iter_mut().for_each(|(_, work, _)| *work -= least);
                let place = under_way.iter().position(|(_, work, _)| *work < 1e-9).unwrap();
                let (born, _, lone) = under_way.remove(place);
                done += 1;
                slowest = slowest.max(*now - born);
                let took = Duration::from_secs_f64(*now - born);
                alone.note(took, lone);
                let time = |seconds: f64| Instant::BOOT.after(Duration::from_secs_f64(seconds));
                let ended = Ended { born: time(born), took, alone: alone.get(), under_way: crowd };
                if let Some(pace) = &mut self.pace {
                    pace.note(time(*now), &ended, self.most);
                }
            }
            (*now - began, slowest)
        }
    }

    /// Bursts one after the other; how long the last three took, and the slowest start in them.
    fn bursts(contention: f64, cores: f64, most: u32, fixed: bool) -> (f64, f64) {
        let mut host = Host { contention, cores, pace: (!fixed).then(Pace::new), most };
        let (mut now, mut alone) = (0.0, Alone::default());
        host.serve(1, &mut now, &mut alone);
        let all: Vec<_> = (0..6).map(|_| host.serve(60, &mut now, &mut alone)).collect();
        let last = &all[3..];
        (last.iter().map(|(time, _)| time).sum(), last.iter().map(|(_, slow)| *slow).fold(0.0, f64::max))
    }

    #[test]
    fn a_burst_is_served_no_later_and_no_start_takes_long() {
        for (contention, cores) in [(0.0, 8.0), (0.05, 8.0), (0.1, 4.0), (0.3, 4.0), (1.0, 2.0)] {
            let (fixed, crowded) = bursts(contention, cores, 32, true);
            let (served, slowest) = bursts(contention, cores, 32, false);
            let what =
                format!("{contention}, {cores} cores: {served} s of {fixed} s, {slowest} s of {crowded} s");
            assert!(served <= 1.05 * fixed, "{what}");
            assert!(slowest <= 4.0, "{what}");
        }
    }

    #[test]
    fn a_host_that_is_not_strained_comes_to_its_ceiling() {
        let (served, slowest) = bursts(0.0, 64.0, 32, false);
        assert!(slowest < 1.01 && served < 3.0 * 3.0, "{served} s, {slowest} s");
    }

    #[test]
    fn one_slow_start_is_no_sign_and_several_are() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::new();
        let mut note = |time, took: u32| {
            let ended = Ended { born: at(time), took: second * took, alone: Some(second), under_way: 8 };
            pace.note(at(time + 1), &ended, 16);
            pace.allows(16)
        };
        assert_eq!([note(0, 1), note(2, 1), note(4, 50)], [9, 9, 9], "eight are fewer than nine");
        assert_eq!(note(6, 50), 6, "strained");
        assert_eq!(note(3, 50), 6, "it was under way before");
        assert_eq!([8, 10, 12, 14].map(|time| note(time, 50)), [5, 3, 2, 2]);
        assert_eq!([16, 18].map(|time| note(time, 50)), [1, 1], "never none");
        let back: BTreeSet<u32> = (20..90).map(|time| note(time, 1)).collect();
        assert_eq!(back, (1..=9).collect(), "and it returns as far as it is used");
    }

    #[test]
    fn what_one_takes_alone_follows_those_that_are() {
        let millis = Duration::from_millis;
        let mut alone = Alone::default();
        let mut note = |took, lone| {
            alone.note(millis(took), lone);
            u64::try_from(alone.get().unwrap().as_millis()).unwrap()
        };
        assert_eq!([note(900, false), note(700, false), note(800, false)], [900, 700, 700], "the shortest");
        assert_eq!([note(1000, true), note(100, false)], [1000, 1000], "one that was alone knows");
        assert_eq!(note(1800, true), 1100);
        assert_eq!(note(3_600_000, true), 1512, "four times as long and no more");
        assert_eq!((0..60).map(|_| note(500, true)).last(), Some(500));
    }

    proptest! {
        /// Whatever times come, and in whatever order, between one and the ceiling may be under way.
        #[test]
        fn nothing_poisons_it(
            steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>(), 0u32..99), 0..200),
            most in 1u32..=64,
        ) {
            let (mut pace, mut alone) = (Pace::new(), Alone::default());
            for (time, took, lone, under_way) in steps {
                let took = Duration::from_nanos(took);
                alone.note(took, lone);
                let ended = Ended { born: Instant::from_nanos(time / 2), took, alone: alone.get(), under_way };
                pace.note(Instant::from_nanos(time), &ended, most);
                prop_assert!((1..=most).contains(&pace.allows(most)));
                prop_assert!(pace.strain <= MOST_STRAIN);
            }
            // And it returns.
            for step in 0..10_000 {
                let ended = Ended {
                    born: Instant::from_nanos(u64::MAX),
                    took: Duration::from_secs(1),
                    alone: Some(Duration::from_secs(1)),
                    under_way: 64,
                };
                pace.note(Instant::from_nanos(step), &ended, most);
            }
            prop_assert_eq!(pace.allows(most), most);
        }
    }
}
