//! Who waits for a pool, and in which order.
//!
//! A request's promised instant is its arrival plus its class's `target_wait`; the earliest promise is
//! served first, so a class that expects to wait long never delays one that does not by more than the
//! difference, and within a class it is first come, first served. Each class has a bound of its own on how
//! many may wait behind those whom starts will serve, so that one cannot fill the queue for the other.
//!
//! Joining and leaving are O(log n); telling a place counts.
//!
//! Not here: the lease itself (`lease`), whether it may wait at all (`admission`).

use std::collections::BTreeMap;

use super::message::LeaseId;
use crate::profile::ClassName;
use crate::quantity::Instant;

/// A place in the order: the promised instant, then the order of arrival.
pub(super) type Place = (Instant, u64);

/// The requests that wait for one pool.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: BTreeMap<Place, (LeaseId, ClassName, Instant)>,
    by_class: BTreeMap<ClassName, u32>,
    arrivals: u64,
}

impl Queue {
    /// Lets one in, to be served by its promise.
    pub(super) fn join(
        &mut self,
        lease: LeaseId,
        class: ClassName,
        asked: Instant,
        promised: Instant,
    ) -> Place {
        self.arrivals += 1;
        let place = (promised, self.arrivals);
        *self.by_class.entry(class.clone()).or_default() += 1;
        self.order.insert(place, (lease, class, asked));
        place
    }

    /// Takes one out, whatever its place.
    pub(super) fn leave(&mut self, place: Place) {
        let (_, class, _) = self.order.remove(&place).expect("a queued lease holds its place");
        let count = self.by_class.get_mut(&class).expect("its class was counted when it joined");
        *count -= 1;
        if *count == 0 {
            self.by_class.remove(&class);
        }
    }

    /// Who is served next, and its promise.
    pub(super) fn head(&self) -> Option<(&LeaseId, Instant)> {
        self.order.first_key_value().map(|((promised, _), (lease, _, _))| (lease, *promised))
    }

    /// The promise of the one that is next when so many are served before it.
    pub(super) fn promise_behind(&self, served: u32) -> Option<Instant> {
        self.order.keys().nth(served as usize).map(|(promised, _)| *promised)
    }

    /// How many wait.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.order.len()).expect("the classes' bounds are far below u32::MAX")
    }

    /// How many of this class wait.
    pub(super) fn len_of(&self, class: &ClassName) -> u32 {
        self.by_class.get(class).copied().unwrap_or(0)
    }

    /// How many of this class wait behind the first `served` of all.
    pub(super) fn behind(&self, served: u32, class: &ClassName) -> u32 {
        let behind = self.order.values().skip(served as usize).filter(|(_, its, _)| its == class);
        u32::try_from(behind.count()).expect("the classes' bounds are far below u32::MAX")
    }

    /// How many wait in front of this one, itself included.
    pub(super) fn rank(&self, place: Place) -> u32 {
        u32::try_from(self.order.range(..=place).count()).expect("the classes' bounds are far below u32::MAX")
    }

    /// When the one that has waited longest arrived.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.order.values().map(|(_, _, asked)| *asked).min()
    }

    /// All that wait, in order.
    pub(super) fn leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.order.values().map(|(lease, _, _)| lease)
    }

    /// Whether this lease holds this place.
    pub(super) fn holds(&self, place: Place, lease: &LeaseId) -> bool {
        self.order.get(&place).is_some_and(|(id, _, _)| id == lease)
    }
}
