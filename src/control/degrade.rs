//! Requests that are sent on to another pool while the host's figures are unknown (`without_telemetry`'s `use`).
//!
//! Think of a ferry in fog: whoever has a boat waiting is rowed over, and the others are sent to the bridge. Only a
//! request that would need a start is sent on, when it comes or while it waits; its lease says of which pool it was
//! asked, and stays where it is when the fog lifts. It keeps its promised instant and its wait, and has the shorter
//! deadlines of both pools.
//!
//! Not here: what that pool may start without telemetry (`admission`), that ways through pools end (`profile`).

use super::Controller;
use super::lease::State;
use super::message::{LeaseId, What};
use super::queue::{self, Waiting};
use super::scaling;
use crate::profile::{PoolName, WithoutTelemetry};

impl Controller {
    /// The pool that a request for this one is sent on to, if it is.
    pub(super) fn stand_in(&self, asked: &PoolName) -> Option<PoolName> {
        let first = &self.pools[asked];
        if first.is_closed() || !self.is_blind() {
            return None;
        }
        let mut last = first;
        while last.needs_a_start()
            && let WithoutTelemetry::Use(other) = &last.spec.without_telemetry
        {
            last = self.pools.get(other).filter(|pool| !pool.is_closed())?;
        }
        (last.name != first.name).then(|| last.name.clone())
    }

    /// Sends on who waits and has no start under way.
    pub(super) fn degrade_waiting(&mut self) {
        for name in self.pools.keys().cloned().collect::<Vec<_>>() {
            let pool = &self.pools[&name];
            let starting = pool.counts.starting;
            if !matches!(pool.spec.without_telemetry, WithoutTelemetry::Use(_))
                || pool.queue.len() <= starting
                || self.stand_in(&name).is_none()
            {
                continue;
            }
            let ranks = pool.queue.ranks();
            let behind = ranks.into_iter().filter(|(_, rank)| *rank > starting);
            let behind: Vec<LeaseId> = behind.map(|(place, _)| pool.queue.at(place).lease.clone()).collect();
            for lease in behind {
                match self.stand_in(&name) {
                    Some(other) if self.pools[&other].queue.len() < queue::MOST => {
                        self.send_on(&lease, &other)
                    }
                    Some(_) | None => break,
                }
            }
        }
    }

    fn send_on(&mut self, id: &LeaseId, to: &PoolName) {
        let now = self.now;
        let lease = self.leases.get_mut(id).expect("who waits has a lease");
        let State::Queued { place, .. } = lease.state else {
            unreachable!("only queued leases are in the queue");
        };
        let (class, tenant, asked) = (lease.class.clone(), lease.tenant.clone(), lease.asked_at);
        let attempt = lease.attempt();
        let from = std::mem::replace(&mut lease.pool, to.clone());
        self.pool(&from).dequeue(place, false);
        let pool = self.pool(to);
        pool.demand.arrived(now, &class, scaling::runtime(&pool.spec));
        pool.plan.touch();
        pool.tally_of(&class).ask(attempt);
        let waiting = Waiting { lease: id.clone(), class, tenant, asked };
        let joined = pool.queue.join(waiting, place.0);
        let deadlines = pool.spec.deadlines.clone();
        let lease = self.leases.get_mut(id).expect("it was there just now");
        lease.limits = lease.limits.within(&deadlines);
        lease.degraded_from.get_or_insert_with(|| from.clone()); // Sent on once more, it is still of the first.
        if let State::Queued { place, .. } = &mut lease.state {
            *place = joined;
        }
        let (recorded, class) = (lease.recorded, lease.class.clone());
        self.pool(&from).tally_of(&class).degrade();
        self.tell_degraded(id);
        if recorded {
            self.record_lease(id);
        }
    }

    /// A request has just come to another pool than the one that was asked.
    pub(super) fn note_degraded(&mut self, id: &LeaseId) {
        let lease = &self.leases[id];
        let (class, attempt) = (lease.class.clone(), lease.attempt());
        if let Some(from) = lease.degraded_from.clone() {
            let tally = self.pool(&from).tally_of(&class);
            tally.ask(attempt);
            tally.degrade();
            self.tell_degraded(id);
        }
    }

    fn tell_degraded(&mut self, id: &LeaseId) {
        let unknown = self.belief.sight(&self.profile.host, self.now).err().unwrap_or_default();
        if let Some(from) = self.leases[id].degraded_from.clone() {
            self.tell_of_lease(What::LeaseDegraded { from, unknown }, id, None);
        }
    }

    /// Whether a figure that starts depend on is unknown, and not merely on its way.
    fn is_blind(&self) -> bool {
        self.belief.sight(&self.profile.host, self.now).is_err() && !self.first_look_is_due()
    }
}
