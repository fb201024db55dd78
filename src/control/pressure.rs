//! How short of memory the host is: a level that rises soon and falls late.
//!
//! Think of the water line of a ship: when a wave washes over it nobody throws cargo out; when it stays under
//! for two seconds somebody does, and afterwards nothing is loaded until it has stayed dry for a while.
//!
//! ```text
//!            rises when it holds for                      falls, by one, when it is over for
//! critical   at once                                      10 s
//! tight      2 s                                          10 s
//! ```
//!
//! Two things judge. *MemAvailable against the floor*, since that is what the host was promised. And the
//! *stalls of the slice itself*, but only where memory is near its end, on the host or below the slice's
//! ceiling: a container that meets its own limit stalls too, and that is its own matter. The host's own
//! stalls judge nothing: they wake the daemon up to look, and no more.
//!
//! Invariants: a level moves on a look, and only on one that saw MemAvailable; unknown moves nothing. Neither
//! a figure that comes and goes nor one that is lost keeps the gate shut for ever: a level that has lasted for
//! [`LONGEST`] falls at the first look that speaks against it.
//!
//! Not here: what follows (`relief`, `admission`).

use std::time::Duration;

use super::message::{Level, Shortage, Why};
use crate::quantity::{Bytes, Instant, Permille};

/// A start or a page's load dips for a second; longer is no dip. The daemon looks each second.
const RISE: Duration = Duration::from_secs(2);
/// What was freed is filled again within seconds, if it is; the kernel's averages take ten to forget.
const FALL: Duration = Duration::from_secs(10);
/// No level lasts longer against what is seen.
const LONGEST: Duration = Duration::from_secs(120);
/// All tasks of the slice stand still for a tenth of the time: below it, work goes on as if nothing were.
const STALLED: Permille = Permille::new(100);
/// Two fifths: less than systemd-oomd's 60 %, at which it kills; ours acts first.
const STALLED_BADLY: Permille = Permille::new(400);
/// Once relief began, it goes on until there is so much more than the floor, an eighth of it and at most half a
/// gigabyte: else the next page's load would begin it again.
const MARGIN: u64 = 8;
const MARGIN_MAX: Bytes = Bytes::mib(512);
/// The slice is near its ceiling when less than a sixteenth of that is left.
const NEAR: u64 = 16;
/// Stock returns by one start at a time at first, by one more each...
const STEP: Duration = Duration::from_secs(15);
/// ...until this long after the level became calm.
const RECOVERY: Duration = Duration::from_secs(60);
/// Some task waits for a processor all the time: more starts at once only make each of them slower. A busy host is at
/// 90 % and works well.
const CPU_BUSY: Permille = Permille::new(980);
/// And this is where it is over.
const CPU_FREE: Permille = Permille::new(900);

const _: () = assert!(RISE.as_nanos() < FALL.as_nanos() && FALL.as_nanos() < LONGEST.as_nanos());

/// What one look says of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) available: Bytes,
    pub(super) floor: Bytes,
    /// What the slice holds, and its ceiling; `None` where that is not known.
    pub(super) slice: Option<(Bytes, Bytes)>,
    /// The slice's stalls; `None` where they are not known.
    pub(super) stalled: Option<Permille>,
}

impl Seen {
    /// The level that these figures speak for, when it is `now` this one.
    fn level(&self, now: Level) -> Level {
        self.by_available(now).max(self.by_stalls())
    }

    fn by_available(&self, now: Level) -> Level {
        let Seen { available, floor, .. } = *self;
        let margin = match now {
            Level::Calm => Bytes::ZERO,
            Level::Tight | Level::Critical => Bytes::new(floor.get() / MARGIN).min(MARGIN_MAX),
        };
        if available < Bytes::new(floor.get() / 2) {
            Level::Critical
        } else if available < floor.saturating_add(margin) {
            Level::Tight
        } else {
            Level::Calm
        }
    }

    fn by_stalls(&self) -> Level {
        let host_is_near = self.available < self.floor.saturating_add(self.floor);
        let slice_is_near = self
            .slice
            .is_some_and(|(hard, ceiling)| ceiling.saturating_sub(hard) < Bytes::new(ceiling.get() / NEAR));
        match self.stalled {
            Some(share) if (host_is_near || slice_is_near) && share >= STALLED_BADLY => Level::Critical,
            Some(share) if (host_is_near || slice_is_near) && share >= STALLED => Level::Tight,
            Some(_) | None => Level::Calm,
        }
    }
}

/// The level, and how it came about.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    level: Level,
    since: Instant,
    /// Looks have spoken for a higher level since then.
    above_since: Option<Instant>,
    /// Looks have spoken for a lower level since then.
    below_since: Option<Instant>,
    /// What the last look said, and whether that was pressing.
    last: Option<(Shortage, bool)>,
    /// When the level last became calm.
    calmed: Option<Instant>,
    /// The processors are too busy for several starts at once; how busy.
    cpu: Option<Permille>,
}

impl Gauge {
    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// Since when it is that.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Takes in one look; the level that was before, where it moved.
    pub(super) fn look(&mut self, now: Instant, seen: &Seen) -> Option<Level> {
        let before = self.level;
        let wanted = seen.level(before);
        if wanted > before {
            self.below_since = None;
            let since = *self.above_since.get_or_insert(now);
            if wanted == Level::Critical || now.since(since) >= RISE {
                self.become_(now, wanted);
            }
        } else {
            self.above_since = None;
            let below = wanted < before;
            self.below_since = below.then(|| self.below_since.unwrap_or(now));
            let held = self.below_since.is_some_and(|since| now.since(since) >= FALL);
            let flaps = seen.level(Level::Calm) < before && now.since(self.since) >= LONGEST;
            if held || flaps {
                let lower = if before == Level::Critical { Level::Tight } else { Level::Calm };
                self.become_(now, lower);
            }
        }
        let Seen { available, floor, stalled, .. } = *seen;
        let pressing = self.level > Level::Calm && seen.level(self.level) > Level::Calm;
        self.last = Some((Shortage { level: self.level, available, floor, stalled }, pressing));
        (self.level != before).then_some(before)
    }

    fn become_(&mut self, now: Instant, level: Level) {
        (self.level, self.since) = (level, now);
        (self.above_since, self.below_since) = (None, None);
        if level == Level::Calm {
            self.calmed = Some(now);
        }
    }

    /// Takes in how busy the processors are; unknown gates nothing.
    pub(super) fn look_at_cpu(&mut self, stalled: Option<Permille>) {
        let bar = if self.cpu.is_some() { CPU_FREE } else { CPU_BUSY };
        self.cpu = stalled.filter(|share| *share >= bar);
    }

    /// The figures of the last look.
    pub(super) fn shortage(&self) -> Option<Shortage> {
        self.last.map(|(shortage, _)| shortage)
    }

    /// The figures of the last look, where they still speak for a level above calm.
    pub(super) fn pressing(&self) -> Option<Shortage> {
        self.last.filter(|(_, pressing)| *pressing).map(|(shortage, _)| shortage)
    }

    /// Whether nothing may be started now.
    pub(super) fn objection(&self, now: Instant) -> Option<Why> {
        let shortage = self.shortage().filter(|_| self.level > Level::Calm)?;
        let falls = self.below_since.unwrap_or(now).after(FALL);
        Some(Why::UnderPressure { shortage, until: falls.min(self.since.after(LONGEST)).max(now) })
    }

    /// Whether one more start beside `starting` others, of so many that may be, is too many now; `refill` where nobody
    /// waits for it. Busy processors halve the starts for those who wait, and leave one for stock: never none.
    pub(super) fn objection_to_more(
        &self,
        now: Instant,
        (starting, most): (u32, u32),
        refill: bool,
    ) -> Option<Why> {
        let limit = if refill { 1 } else { (most / 2).max(1) };
        if let Some(stalled) = self.cpu.filter(|_| starting >= limit) {
            return Some(Why::CpuPressure { stalled, have: starting, limit });
        }
        let passed = now.since(self.calmed.filter(|_| refill)?);
        let limit = 1 + u32::try_from(passed.as_secs() / STEP.as_secs()).unwrap_or(u32::MAX);
        let few = passed < RECOVERY && starting >= limit;
        few.then_some(Why::Recovering { have: starting, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Bytes = Bytes::mib(800);

    fn at(seconds: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(seconds))
    }

    fn seen(available: u64) -> Seen {
        Seen { available: Bytes::mib(available), floor: FLOOR, slice: None, stalled: None }
    }

    /// Looks once a second at these, and shows the level after each.
    fn levels(looks: impl IntoIterator<Item = u64>) -> String {
        let mut gauge = Gauge::default();
        let mut shown = String::new();
        for (second, available) in (0..).zip(looks) {
            gauge.look(at(second), &seen(available));
            shown.push(match gauge.level() {
                Level::Calm => '-',
                Level::Tight => 't',
                Level::Critical => 'C',
            });
        }
        shown
    }

    #[test]
    fn a_dip_is_none_and_a_fall_takes_ten_seconds_of_calm() {
        assert_eq!(levels([900, 700, 700, 900, 700, 900]), "------", "no two seconds of it");
        assert_eq!(levels([900, 700, 700, 700]), "---t");
        assert_eq!(levels([[300; 1].as_slice(), &[950; 25]].concat()), "CCCCCCCCCCCttttttttttt----"[..26]);
        // 850 is above the floor, and less than an eighth above it: enough to stay calm, not to become it.
        assert_eq!(levels([[700; 3].as_slice(), &[850; 12]].concat()), "--ttttttttttttt");
    }

    #[test]
    fn what_flaps_does_not_keep_the_gate_shut_for_ever() {
        let mut flapping = vec![700; 3];
        flapping.extend((0..140).map(|second| if second % 5 == 3 { 700 } else { 1000 }));
        let shown = levels(flapping);
        assert_eq!(shown.find("t-"), Some(2 + 120 - 1), "{shown}");
    }

    #[test]
    fn the_slices_own_stalls_count_where_memory_is_near_its_end() {
        let ceiling = Bytes::mib(1600);
        for (available, hard, stalled, level) in [
            (9000, 100, 900, Level::Calm), // A container at its own limit.
            (9000, 1550, 900, Level::Critical),
            (9000, 1550, 150, Level::Tight),
            (9000, 1550, 50, Level::Calm),
            (1500, 100, 150, Level::Tight),
            (1500, 100, 500, Level::Critical),
        ] {
            let slice = Some((Bytes::mib(hard), ceiling));
            let seen = Seen { slice, stalled: Some(Permille::new(stalled)), ..seen(available) };
            assert_eq!(seen.level(Level::Calm), level, "{seen:?}");
        }
    }

    #[test]
    fn stock_returns_step_by_step_and_always_returns() {
        let mut gauge = Gauge::default();
        assert_eq!(gauge.objection_to_more(at(0), (9, 20), true), None, "there was no pressure");
        gauge.look(at(0), &seen(100));
        assert!(gauge.objection(at(0)).is_some());
        for second in 1..=22 {
            gauge.look(at(second), &seen(2000));
        }
        assert_eq!((gauge.level(), gauge.since()), (Level::Calm, at(22)));
        let most = |second| {
            (0..20).find(|starting| gauge.objection_to_more(at(second), (*starting, 20), true).is_some())
        };
        assert_eq!(
            [22, 36, 37, 52, 67, 81, 82].map(most),
            [1, 1, 2, 3, 4, 4, 20].map(|n| (n < 20).then_some(n))
        );
        assert_eq!(gauge.objection_to_more(at(22), (9, 20), false), None, "who waits is served");
    }

    #[test]
    fn busy_processors_leave_some_starts_and_unknown_ones_all() {
        let mut gauge = Gauge::default();
        let mut may = |share: Option<u32>| {
            gauge.look_at_cpu(share.map(Permille::new));
            [false, true].map(|refill| {
                (0..9).find(|starting| gauge.objection_to_more(at(0), (*starting, 5), refill).is_some())
            })
        };
        assert_eq!(may(Some(979)), [None, None]);
        assert_eq!(may(Some(980)), [Some(2), Some(1)]);
        assert_eq!(may(Some(900)), [Some(2), Some(1)]);
        assert_eq!(may(Some(899)), [None, None]);
        assert_eq!(may(Some(1000)), [Some(2), Some(1)]);
        assert_eq!(may(None), [None, None]);
    }
}
