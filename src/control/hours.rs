//! How long a pool's instances were there, added up over the last hours: the operator's budget of instance-hours.
//!
//! ```text
//! used = sum over instances of the time that they were there within `per`        [instance-hours]
//! ```
//!
//! An instance counts from its order until nothing is left of it, whatever it does. Time is added up word by word in
//! 48 parts of `per`, and a part counts until all of it is over: the sum is of `per` and up to a part more, never less. What runs
//! goes on beyond the budget; only starts wait for room.
//!
//! It is written down with the pool's envelope, each time that an instance is gone. Of the time between that and the next
//! daemon's first word those count that are still there then.

use std::collections::VecDeque;
use std::time::Duration;

use super::message::Why;
use crate::profile::InstanceHours;
use crate::quantity::Instant;

/// Parts that `per` is counted in.
const PARTS: u32 = 48;

/// The time that was used, by part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hours {
    /// The beginning of each part in which there was one, and the time of all instances in it.
    parts: VecDeque<(Instant, Duration)>,
    /// All is added up until then.
    until: Instant,
}

impl Hours {
    /// What an earlier daemon wrote down.
    pub(super) fn of(parts: &[(Instant, Duration)], until: Instant) -> Hours {
        Hours { parts: parts.iter().copied().collect(), until }
    }

    /// It as it is written down.
    pub(super) fn record(&self) -> (Vec<(Instant, Duration)>, Instant) {
        (self.parts.iter().copied().collect(), self.until)
    }

    /// So many instances were there until now.
    pub(super) fn add(&mut self, now: Instant, instances: u32, budget: Option<InstanceHours>) {
        let Some(InstanceHours { per, .. }) = budget else {
            return *self = Hours { until: now, ..Hours::default() };
        };
        let part = (per / PARTS).max(Duration::from_secs(1));
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // What was longer ago would be forgotten at once.
        let first = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(per)));
        let mut from = self.until.max(first);
        while from < now && instances > 0 {
            let begins = Instant::from_nanos(from.as_nanos() / nanos(part) * nanos(part));
            let to = begins.after(part).min(now);
            let used = to.since(from).saturating_mul(instances);
            match self.parts.back_mut() {
                Some((at, sum)) if *at >= begins => *sum = sum.saturating_add(used),
                Some(_) | None => self.parts.push_back((begins, used)),
            }
            from = to;
        }
        while self.parts.front().is_some_and(|(at, _)| at.after(part).after(per) <= now) {
            self.parts.pop_front();
        }
        self.until = now.max(self.until);
    }

    /// What the budget says to one more, and whether it is used up.
    pub(super) fn limit(&self, now: Instant, budget: InstanceHours) -> (Why, bool) {
        let most = Duration::from_secs(3600).saturating_mul(budget.hours);
        let used = self.parts.iter().fold(Duration::ZERO, |sum, (_, used)| sum.saturating_add(*used));
        let reached = used >= most;
        let part = (budget.per / PARTS).max(Duration::from_secs(1));
        let mut left = used;
        let back = self.parts.iter().find(|(_, used)| {
            left = left.saturating_sub(*used);
            left < most
        });
        let back = back.filter(|_| reached).map(|(at, _)| at.after(part).after(budget.per));
        let returns_in = back.map_or(Duration::ZERO, |at| at.since(now));
        (Why::InstanceHours { used, most, per: budget.per, returns_in }, reached)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUDGET: InstanceHours = InstanceHours { hours: 4, per: Duration::from_secs(48 * 3600) };

    fn at(minutes: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(minutes * 60))
    }

    /// Minutes used, and minutes until room returns where it is used up.
    fn said(hours: &Hours, now: Instant) -> (u64, Option<u64>) {
        let (why, reached) = hours.limit(now, BUDGET);
        let Why::InstanceHours { used, returns_in, .. } = why else { unreachable!("it is of hours") };
        (used.as_secs() / 60, reached.then_some(returns_in.as_secs() / 60))
    }

    #[test]
    fn time_is_added_up_and_returns_when_it_is_long_ago() {
        let mut hours = Hours::default();
        hours.add(at(30), 0, Some(BUDGET));
        hours.add(at(90), 2, Some(BUDGET));
        assert_eq!(said(&hours, at(90)), (120, None));
        hours.add(at(210), 1, Some(BUDGET));
        assert_eq!(said(&hours, at(210)), (240, Some(49 * 60 - 210)), "the first hour's leaves after 49");
        hours.add(at(49 * 60 - 1), 0, Some(BUDGET));
        assert_eq!(said(&hours, at(49 * 60 - 1)), (240, Some(1)));
        hours.add(at(49 * 60), 0, Some(BUDGET));
        assert_eq!(said(&hours, at(49 * 60)), (180, None));
        hours.add(at(10), 100, Some(BUDGET));
        assert_eq!(said(&hours, at(49 * 60)), (180, None), "a clock that went back adds nothing");
        let (parts, until) = hours.record();
        assert_eq!(Hours::of(&parts, until), hours);
        hours.add(at(50 * 60), 1, None);
        assert_eq!(said(&hours, at(50 * 60)), (0, None), "there is no budget");
    }

    proptest! {
        #[test]
        fn nothing_poisons_it(steps in prop::collection::vec((any::<u64>(), any::<u32>()), 0..50), minutes in 60u64..45_000) {
            let budget = InstanceHours { hours: 1, per: Duration::from_secs(minutes * 60) };
            let mut hours = Hours::default();
            for (time, instances) in steps {
                hours.add(Instant::from_nanos(time), instances, Some(budget));
                prop_assert!(hours.parts.len() <= PARTS as usize + 2, "{}", hours.parts.len());
                let _ = hours.limit(Instant::from_nanos(time), budget);
            }
            let end = hours.until.after(budget.per * 2);
            hours.add(end, 0, Some(budget));
            prop_assert!(!hours.limit(end, budget).1 || end == Instant::from_nanos(u64::MAX));
        }
    }
}
