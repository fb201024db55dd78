//! Relief: when the host is short of memory, who gives it back first.
//!
//! Think of a lift over its weight: empty boxes leave before people do, and one at a time, because after each
//! the needle has to settle.
//!
//! ```text
//! tight      refill under way; surplus warm, then stock, the least needed first (asked to give back before);
//!            leases past their promise; leases whose pool allows it
//! critical   the same; then the lease that has furthest outgrown what was expected of it; interactive ones, and those that
//!            wait for a person, last
//! ```
//!
//! A lease that holds no more than was expected of it, in a pool that keeps its leases, is never ended here.
//!
//! Invariants: it acts on a look that saw the host and still speaks for pressure, never between two looks and
//! never on an old one; one victim each settle time; nobody is ended whose memory is not known, but what is idle.
//! What it frees is not lent again until the level is calm (`pressure`), so it comes to an end.
//!
//! Not here: when the host is short (`pressure`), and the return of stock, which is nobody's decision: it is
//! wanted all the time, and started when the gate opens.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::Controller;
use super::budget;
use super::demand;
use super::lease::{Lease, State};
use super::message::{
    End, InstanceId, Interruption, LeaseId, Level, Output, Shortage, StopReason, Tier, Victim, What,
};
use super::pool::{Life, Pool};
use super::pressure::Seen;
use crate::profile::OnPressure;
use crate::quantity::{Bytes, Instant};

/// The engine kills and removes a container within a second, and MemAvailable says so at the next look.
const SETTLE: Duration = Duration::from_secs(3);
/// One that will not go frees nothing: after this long it is the turn of the next.
const STUCK: Duration = Duration::from_secs(15);
/// A lease is not ended for less than this.
const LEAST: Bytes = Bytes::mib(16);
/// The class of people who wait.
const INTERACTIVE: &str = "interactive";

/// Where a lease stands in the order: interactive ones and held ones last, then by why it may go, then by how much that frees.
type Place = (bool, Tier, Reverse<Bytes>);

/// What relief has done since the level was last calm.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// When it last did something, and whom it ended.
    last: Option<(Instant, Option<InstanceId>)>,
    /// Who was asked to give memory back.
    asked: BTreeSet<InstanceId>,
}

impl Controller {
    /// Moves the level by what was just seen, and acts on it.
    pub(super) fn take_pressure(&mut self) {
        let now = self.now;
        let cpu = self.belief.pressure.read_at(now).map(|stalls| stalls.cpu_some);
        self.belief.gauge.look_at_cpu(cpu);
        let Some(memory) = self.belief.memory.read_at(now).copied() else {
            return; // Unknown moves nothing.
        };
        let ceiling = budget::memory_limit(&self.profile, &memory);
        let seen = Seen {
            available: memory.available,
            floor: self.profile.host.floor.of(memory.total),
            slice: self.belief.slice.read_at(now).map(|slice| (slice.hard, ceiling)),
            stalled: self.belief.slice_stalled.read_at(now).copied(),
        };
        if let Some(before) = self.belief.gauge.look(now, &seen)
            && let Some(shortage) = self.belief.gauge.shortage()
        {
            self.tell(What::Pressure(before, shortage), None, None);
        }
        match self.belief.gauge.pressing() {
            Some(shortage) => self.relieve(shortage),
            None if self.belief.gauge.level() == Level::Calm => self.relief = Relief::default(),
            None => {}
        }
    }

    fn relieve(&mut self, shortage: Shortage) {
        let now = self.now;
        let due = self.relief.last.is_none_or(|(at, ended)| {
            let there = ended.is_some_and(|id| self.homes.contains_key(&id));
            now.since(at) >= if there { STUCK } else { SETTLE }
        });
        if !due || (shortage.level == Level::Tight && self.ask_back(shortage)) {
            return;
        }
        if let Some((id, lease, victim)) = self.victim(shortage.level) {
            self.relief.last = Some((now, Some(id)));
            let pool = self.homes[&id].clone();
            match lease {
                None => {
                    self.tell(What::ReliefEnds(victim, shortage), Some(&pool), Some(id));
                    self.stop_instance(id, StopReason::Pressure);
                }
                Some(lease) => {
                    self.tell_of_lease(What::ReliefEnds(victim, shortage), &lease, Some(id));
                    self.end_lease_for(
                        &lease,
                        End::Interrupted(Interruption::Pressure),
                        StopReason::Pressure,
                    );
                }
            }
        }
    }

    /// Asks the idle warm ones, each once, where the kernel can do that; whether any was asked.
    fn ask_back(&mut self, shortage: Shortage) -> bool {
        if !self.belief.reclaims {
            return false;
        }
        let ready = self.pools.values().flat_map(|pool| &pool.ready).map(|(.., id)| *id);
        let asked: Vec<InstanceId> = ready.filter(|id| !self.relief.asked.contains(id)).collect();
        if asked.is_empty() {
            return false;
        }
        let many = u32::try_from(asked.len()).unwrap_or(u32::MAX);
        self.relief.last = Some((self.now, None));
        self.relief.asked.extend(asked.iter().copied());
        self.tell(What::ReliefAsks(many, shortage), None, None);
        self.out.extend(asked.into_iter().map(Output::Reclaim));
        true
    }

    /// Who goes next at this level: nobody where nobody may.
    fn victim(&self, level: Level) -> Option<(InstanceId, Option<LeaseId>, Victim)> {
        if let Some((id, tier)) = self.refill_under_way().or_else(|| self.least_needed()) {
            return Some((id, None, Victim { tier, held: self.held(id) }));
        }
        let leases = self.leases.values().filter_map(|lease| self.as_victim(lease, level));
        let (_, id, lease, victim) = leases.min_by_key(|(order, ..)| *order)?;
        Some((id, Some(lease.clone()), victim))
    }

    /// The youngest start that nobody waits for.
    fn refill_under_way(&self) -> Option<(InstanceId, Tier)> {
        let idle = self.pools.values().filter(|pool| pool.counts.starting > pool.queue.len());
        let starting =
            idle.flat_map(|pool| &pool.instances).filter(|(_, it)| matches!(it.life, Life::Starting { .. }));
        starting.map(|(id, _)| (*id, Tier::Refill)).max()
    }

    /// Of the warm ones, one of the pool that needs its own the least; there, the one that holds the most.
    fn least_needed(&self) -> Option<(InstanceId, Tier)> {
        let need = |pool: &Pool| {
            let tier = if pool.counts.warm > pool.stock() { Tier::Surplus } else { Tier::Stock };
            // What is asked for in a day, for each that there is.
            (tier, demand::whole(pool.demand.rate_of_all(self.now) * 86_400.0) / pool.counts.warm.max(1))
        };
        let candidates = self.pools.values().flat_map(|pool| {
            let need = need(pool);
            // Also those of an earlier daemon that have not answered yet: nobody has them.
            pool.instances.iter().filter_map(move |(id, instance)| match instance.life {
                Life::Warm { since, .. } | Life::Unseen { since, .. } => {
                    Some((need, Reverse(self.held(*id)), since, *id))
                }
                Life::Starting { .. } | Life::Leased { .. } | Life::Stopping { .. } => None,
            })
        });
        candidates.min().map(|((tier, _), _, _, id)| (id, tier))
    }

    /// How a lease stands in the order, if it may go at this level.
    fn as_victim<'a>(
        &self,
        lease: &'a Lease,
        level: Level,
    ) -> Option<(Place, InstanceId, &'a LeaseId, Victim)> {
        let State::Executing { instance, granted_at, .. } = lease.state else { return None };
        let held = self.held(instance).filter(|held| *held >= LEAST)?;
        let spec = &self.pools[&lease.pool].spec;
        let last = lease.class.as_str() == INTERACTIVE || lease.is_held();
        let pool = &self.pools[&lease.pool];
        let above = held.saturating_sub(pool.expected_of(&pool.instances[&instance]).usual);
        let (tier, most) = if self.now > granted_at.after(lease.limits.runtime) {
            (Tier::PastPromise, held)
        } else if spec.on_pressure == OnPressure::Interrupt {
            (Tier::Interruptible, held)
        } else if level == Level::Critical && above > Bytes::ZERO {
            (Tier::Outgrown, above)
        } else {
            return None;
        };
        if last && level < Level::Critical {
            return None;
        }
        let victim = Victim { tier, held: Some(held) };
        Some(((last, tier, Reverse(most)), instance, &lease.id, victim))
    }

    fn held(&self, id: InstanceId) -> Option<Bytes> {
        let pool = self.homes.get(&id).and_then(|home| self.pools.get(home))?;
        pool.instances.get(&id)?.memory.reading(self.now).known().ok().copied()
    }
}
