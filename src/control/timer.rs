//! What is due when: one entry for each thing that has a deadline.
//!
//! A lease's idle deadline moves away with every byte its caller sends; the entry does not. When it falls due
//! the thing itself says whether its time has really come, and otherwise gets a new entry. So activity
//! costs nothing here.
//!
//! Invariant: a thing has at most one entry, and both maps agree.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{CallId, InstanceId, LeaseId};
use crate::profile::{PoolName, ProviderName};
use crate::quantity::Instant;

/// A thing that can fall due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A state of an instance ends, or it is to be probed.
    Instance(PoolName, InstanceId),
    /// A state of a lease ends.
    Lease(LeaseId),
    /// A caller has watched for as long as it wanted.
    Watch(CallId),
    /// A caller has waited for a permit for as long as that may be.
    Permit(CallId),
    /// A provider has a permit for who waits, or more of its rate is back.
    Provider(ProviderName),
    /// A pool whose starts failed may try again.
    Retry(PoolName),
    /// The lease that ended longest ago is to be forgotten.
    Forget,
    /// Demand of the last minute has become less.
    Stock(PoolName),
    /// The last sample has become too old to be believed.
    Telemetry,
}

impl Timer {
    /// What is due, in words.
    const fn what(&self) -> &'static str {
        match self {
            Timer::Instance(..) => "an instance's deadline or probe",
            Timer::Lease(_) => "a lease's deadline",
            Timer::Watch(_) => "the end of a caller's watch",
            Timer::Permit(_) => "the end of a wait for a provider",
            Timer::Provider(_) => "a permit of a provider, or more of its rate",
            Timer::Retry(_) => "the next try of a pool whose starts failed",
            Timer::Forget => "an ended lease to be forgotten",
            Timer::Stock(_) => "a smaller stock",
            Timer::Telemetry => "the age of the last sample",
        }
    }
}

/// All that is due, in order.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(Instant, Timer)>,
    by_thing: BTreeMap<Timer, Instant>,
}

impl Timers {
    /// Gives this thing its one entry.
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(before) = self.by_thing.insert(timer.clone(), at) {
            self.by_time.remove(&(before, timer.clone()));
        }
        self.by_time.insert((at, timer));
    }

    /// Takes this thing's entry away, if it has one.
    pub(super) fn clear(&mut self, timer: &Timer) {
        if let Some(at) = self.by_thing.remove(timer) {
            self.by_time.remove(&(at, timer.clone()));
        }
    }

    /// The next thing that is due, taken out.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, timer) = self.by_time.pop_first()?;
        self.by_thing.remove(&timer);
        Some(timer)
    }

    /// When the next thing is due, and what it is.
    pub(super) fn next(&self) -> Option<(Instant, &'static str)> {
        self.by_time.first().map(|(at, timer)| (*at, timer.what()))
    }

    /// Whether this thing has an entry.
    pub(super) fn has(&self, timer: &Timer) -> bool {
        self.by_thing.contains_key(timer)
    }

    /// How many entries there are, seen from both sides.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.by_time.len(), self.by_thing.len())
    }
}
