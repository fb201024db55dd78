//! What must always be true of the whole.
//!
//! Looked at after every word in debug builds and in the simulator. It knows nothing of how things came
//! about; it only compares what is there with itself and with the profile.

use std::collections::{BTreeMap, BTreeSet};

use super::Controller;
use super::lease::{Lease, State};
use super::message::{LeaseId, Tenant, Why};
use super::placement;
use super::pool::{Counts, Instance, Life, Pool};
use super::timer::Timer;

/// An invariant that does not hold: what, with the names it concerns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the controller is not as it must be: {0}")]
pub struct Broken(pub String);

impl Controller {
    /// Holds the whole state against what must be true of it.
    ///
    /// # Errors
    /// The first thing that is not as it must be.
    pub fn check(&self) -> Result<(), Broken> {
        self.check_one_instance_one_lease()?;
        for pool in self.pools.values() {
            self.check_pool(pool)?;
        }
        self.check_leases()?;
        self.check_calls()?;
        self.check_permits()?;
        let (by_time, by_thing) = self.timers.len();
        ensure(by_time == by_thing, || "the two maps of timers disagree".into())
    }

    /// Holds a controller whose work is over against what it may still keep: ended leases, and nothing else.
    ///
    /// # Errors
    /// The first thing that is left.
    pub fn check_at_rest(&self) -> Result<(), Broken> {
        ensure(self.homes.is_empty(), || format!("{} instances are left", self.homes.len()))?;
        ensure(self.calls.is_empty(), || format!("{} calls are left", self.calls.len()))?;
        ensure(self.records.is_quiet(), || "something waits for a record".into())?;
        ensure(self.strangers.is_empty(), || format!("{} strangers are left", self.strangers.len()))?;
        let live = self.leases.len() - self.ended.len();
        ensure(live == 0, || format!("{live} leases go on"))
    }

    /// Promise 2: no instance is ever lent twice, and every executing lease has exactly one.
    fn check_one_instance_one_lease(&self) -> Result<(), Broken> {
        let mut lent: BTreeMap<_, &LeaseId> = BTreeMap::new();
        for lease in self.leases.values() {
            let State::Executing { instance, .. } = &lease.state else { continue };
            if let Some(other) = lent.insert(*instance, &lease.id) {
                return Err(Broken(format!("instance {instance} is lent to {other} and {}", lease.id)));
            }
            let life = self.pools[&lease.pool].instances.get(instance).map(|instance| &instance.life);
            let leased = Life::Leased { lease: lease.id.clone(), class: lease.class.clone() };
            ensure(life == Some(&leased), || {
                format!("lease {} executes on {instance}, which is {life:?}", lease.id)
            })?;
        }
        let leased: u32 = self.pools.values().map(|pool| pool.counts.leased).sum();
        ensure(leased as usize == lent.len(), || {
            format!("{leased} instances are leased to {} leases", lent.len())
        })
    }

    fn check_pool(&self, pool: &Pool) -> Result<(), Broken> {
        let name = &pool.name;
        let mut counts = Counts::default();
        let mut ready = BTreeSet::new();
        for (id, instance) in &pool.instances {
            ensure(self.homes.get(id) == Some(name), || format!("{id} has no home in {name}"))?;
            let timed = self.timers.has(&Timer::Instance(name.clone(), *id));
            match &instance.life {
                Life::Starting { .. } | Life::Unseen { .. } => counts.starting += 1,
                Life::Warm { since, .. } => {
                    counts.warm += 1;
                    ready.insert((pool.is_outdated(*id), *since, *id));
                }
                Life::Leased { .. } => counts.leased += 1,
                Life::Stopping { .. } => counts.stopping += 1,
            }
            let leased = matches!(instance.life, Life::Leased { .. });
            ensure(timed != leased, || {
                format!("{id} is {:?}, and its timer is set: {timed}", instance.life)
            })?;
        }
        ensure(counts == pool.counts, || format!("{name} counts {:?} and has {counts:?}", pool.counts))?;
        ensure(ready == pool.ready, || format!("{name}: the ready set is not the warm instances"))?;
        let lends = self.lends();
        ensure(!pool.may_serve() || !lends, || format!("{name}: somebody waits beside a warm one"))?;
        for (class, tally) in &pool.tally.classes {
            let waiting = u64::from(pool.queue.len_of(class));
            ensure(tally.asked == tally.settled() + waiting, || {
                format!("{name}: of class {class} {tally:?}, and {waiting} wait")
            })?;
        }
        for class in pool.spec.classes.keys() {
            let its = |instance: &&Instance| matches!(&instance.life, Life::Leased { class: its, .. } if its == class);
            let (counted, lent) = (pool.lent(class), pool.instances.values().filter(its).count());
            ensure(pool.demand.has(class) == counted, || {
                format!(
                    "{name}: class {class} has {counted} slots, demand knows of {}",
                    pool.demand.has(class)
                )
            })?;
            ensure(counted as usize == lent, || {
                format!("{name}: class {class} has {lent} slots, counted {counted}")
            })?;
        }
        self.check_starts(pool)?;
        ensure(!pool.is_closed() || pool.queue.len() + pool.counts.warm + pool.counts.starting == 0, || {
            format!("{name} is closed and still waits, starts or keeps stock")
        })?;
        let held = |lease: &&Lease| lease.pool == *name && lease.is_held();
        ensure(pool.holds.iter().all(|id| self.leases.get(id).as_ref().is_some_and(held)), || {
            format!("{name}: {:?} are not its held leases", pool.holds)
        })?;
        let written = self.profile.pools.get(name).is_some_and(|spec| *spec == *pool.spec);
        ensure(written != pool.removed, || format!("{name} is not as the profile has it"))?;
        ensure(!pool.removed || !pool.instances.is_empty(), || format!("{name} is gone and still here"))
    }

    /// A start that is wanted and not made has a reason, and one that waits for a time is woken up then.
    fn check_starts(&self, pool: &Pool) -> Result<(), Broken> {
        let name = &pool.name;
        let wanted = placement::urgency(pool);
        ensure(wanted.is_none() || pool.blocked_by.is_some(), || {
            format!("{name} wants a start for {wanted:?}, and nothing keeps it from it")
        })?;
        let shut = pool.shut().zip(pool.spec.provider.clone());
        ensure(shut.is_none_or(|(_, its)| self.timers.has(&Timer::Provider(its))), || {
            format!("{name} is shut by its provider for ever")
        })?;
        let sleeps = matches!(pool.blocked_by, Some(Why::Backoff { until, .. }) if until > self.now);
        ensure(!sleeps || self.timers.has(&Timer::Retry(name.clone())), || format!("{name} sleeps for ever"))
    }

    /// Every lease has an end, and is where its state says.
    fn check_leases(&self) -> Result<(), Broken> {
        let mut queued = 0;
        let mut tenants: BTreeMap<Tenant, u32> = BTreeMap::new();
        for (id, lease) in &self.leases {
            let over = matches!(lease.state, State::Ended { .. });
            if !over {
                *tenants.entry(lease.tenant.clone()).or_default() += 1;
            }
            ensure(self.timers.has(&Timer::Lease(id.clone())) != over, || {
                format!("lease {id} has no deadline")
            })?;
            match &lease.state {
                State::Queued { place, .. } => {
                    queued += 1;
                    let holds = self.pools[&lease.pool].queue.holds(*place, id);
                    ensure(holds, || format!("lease {id} is queued and not in the queue"))?;
                }
                State::Executing { .. } => {
                    let noted = self.pools[&lease.pool].holds.contains(id);
                    ensure(noted == lease.is_held(), || format!("lease {id} is held, and not noted so"))?;
                    ensure(lease.caller.is_none(), || format!("lease {id} is granted and nobody was told"))?;
                }
                State::Ended { .. } => {
                    let quiet = lease.caller.is_none() && lease.watchers.is_empty();
                    ensure(quiet, || format!("lease {id} has ended and somebody was not told"))?;
                }
            }
        }
        for (name, lease) in self.tasks.going_on() {
            let goes_on = lease.and_then(|id| self.leases.get(id)).is_some_and(|lease| {
                let its = lease.task.as_ref().is_some_and(|task| task.id == name.1);
                its && lease.tenant == name.0 && !lease.is_over()
            });
            ensure(goes_on, || format!("task {} of {} is kept for a lease that is over", name.1, name.0))?;
        }
        ensure(tenants == self.tenants, || format!("tenants have {tenants:?}, counted {:?}", self.tenants))?;
        let places: u32 = self.pools.values().map(|pool| pool.queue.len()).sum();
        ensure(places == queued, || format!("{places} places for {queued} queued leases"))?;
        let over = self.leases.values().filter(|lease| matches!(lease.state, State::Ended { .. })).count();
        ensure(self.timers.has(&Timer::Forget) == (over > 0), || "ended leases are kept for ever".into())?;
        ensure(over == self.ended.len(), || format!("{over} leases ended, {} remembered", self.ended.len()))
    }

    /// Every permit that is waited for is in its provider's queue, and ends.
    fn check_permits(&self) -> Result<(), Broken> {
        let mut waiting = 0;
        for lease in self.leases.values() {
            for wanted in &lease.permits {
                waiting += 1;
                let governor = self.providers.get(&wanted.provider);
                let queued = governor.is_some_and(|governor| governor.has(wanted, &lease.id));
                let ends = self.timers.has(&Timer::Permit(wanted.call));
                let right = queued && ends && lease.instance().is_some();
                ensure(right, || format!("{} waits for {wanted:?} in vain", lease.id))?;
            }
        }
        for (name, governor) in &self.providers {
            let looks = governor.waiting() == 0 || self.timers.has(&Timer::Provider(name.clone()));
            ensure(looks, || format!("nobody looks when {name} has a permit"))?;
        }
        let queued: u32 = self.providers.values().map(super::permits::Governor::waiting).sum();
        ensure(queued == waiting, || format!("{queued} places for {waiting} permits"))
    }

    /// Every call that waits is waited for by its lease, and the other way round.
    fn check_calls(&self) -> Result<(), Broken> {
        let mut waiting = 0;
        for lease in self.leases.values() {
            let permits = lease.permits.iter().map(|wanted| &wanted.call);
            for call in lease.watchers.iter().map(|(call, _)| call).chain(&lease.caller).chain(permits) {
                waiting += 1;
                ensure(self.calls.get(call) == Some(&lease.id), || format!("call {call:?} is not kept"))?;
            }
        }
        ensure(waiting == self.calls.len(), || {
            format!("{} calls wait, leases know {waiting}", self.calls.len())
        })
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken(otherwise())) }
}
