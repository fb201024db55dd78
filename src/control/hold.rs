//! Leases that wait for a person (`waiting_for_approval`): a log-in that somebody has to make, a step that somebody has
//! to allow.
//!
//! Think of a table whose guest has gone out for a moment: the coat is on the chair, nobody else is seated there, and it
//! is not kept for ever.
//!
//! A lease that is held keeps its instance and its memory, and is never idle. It is among the last that relief takes. Its
//! other deadlines go on, since whoever waits for its slot is promised them: `max_runtime`, which may be renewed meanwhile,
//! and the window of a drain. It ends `expired{hold}` where nobody has resumed it by its own deadline, which outlives the
//! daemon. Resumed, its idle time begins anew. One that is held already may be held on, for another reason and time, and
//! never for longer than `hold.longest` from its beginning.
//!
//! Because what is held is kept from others and does no work, how many may be has a ceiling for each pool and tenant.
//!
//! Invariant: a pool's `holds` are exactly its leases that are held.

use std::collections::BTreeMap;

use super::Controller;
use super::lease::{Lease, State};
use super::message::{CallId, Hold, HoldFor, HoldsView, LeaseId, Refusal, Reply, Tenant, What, Why};
use super::pool::Pool;
use super::timer::Timer;
use crate::profile::ClassName;
use crate::quantity::{Bytes, Instant};

impl Controller {
    /// Lets a lease wait for a person, or wait on.
    pub(super) fn hold(&mut self, call: CallId, id: &LeaseId, asked: HoldFor) {
        let now = self.now;
        let Some(lease) = self.leases.get(id) else {
            return self.reply_no_such(call, id);
        };
        let State::Executing { hold: before, .. } = &lease.state else {
            return self.reply_not_executing(call, id);
        };
        let since = before.as_ref().map(|hold| hold.since);
        if since.is_none()
            && let Some(why) = self.holds_limit(lease)
        {
            return self.refuse_hold(call, id, why);
        }
        let holds = self.pools[&lease.pool].spec.holds;
        let longest = since.unwrap_or(now).after(holds.longest);
        let until = now.after(asked.lasting.unwrap_or(holds.timeout)).min(longest);
        let hold = Hold { since: since.unwrap_or(now), until, reason: asked.reason };
        self.tell_of_lease(What::LeaseHeld(until.since(now), hold.reason.clone()), id, lease.instance());
        let lease = self.leases.get_mut(id).expect("it was found");
        lease.hold(now, Some(hold));
        let home = lease.pool.clone();
        self.pool(&home).holds.insert(id.clone());
        self.record_and_show(call, id);
    }

    /// The person has done it: the lease goes on. One that is not held is shown as it is, so that this can be repeated.
    pub(super) fn resume(&mut self, call: CallId, id: &LeaseId) {
        let now = self.now;
        let Some(lease) = self.leases.get_mut(id) else {
            return self.reply_no_such(call, id);
        };
        if !matches!(lease.state, State::Executing { .. }) {
            return self.reply_not_executing(call, id);
        }
        let Some(hold) = lease.hold(now, None) else {
            return self.show(call, id);
        };
        let (home, instance) = (lease.pool.clone(), lease.instance());
        self.pool(&home).holds.remove(id);
        self.tell_of_lease(What::LeaseResumed(now.since(hold.since)), id, instance);
        self.record_and_show(call, id);
        self.answer_watchers(id);
    }

    fn record_and_show(&mut self, call: CallId, id: &LeaseId) {
        let due = self.leases[id].due();
        self.timers.set(Timer::Lease(id.clone()), due);
        self.record_lease(id);
        self.show(call, id);
    }

    fn refuse_hold(&mut self, call: CallId, id: &LeaseId, why: Why) {
        let lease = &self.leases[id];
        let (pool, class, instance) = (lease.pool.clone(), lease.class.clone(), lease.instance());
        let degraded_from = lease.degraded_from.clone();
        self.tell_of_lease(What::HoldRefused(why.clone()), id, instance);
        let retry_after = self.retry_after(&pool, id, &why);
        let refusal =
            Refusal::Limit { why, pool, class, retry_after, lease: Some(id.clone()), degraded_from };
        self.reply(call, Reply::Refused(Box::new(refusal)));
    }

    /// Why a lease that is not held may not be: the pool has, or its tenant, as many as may be.
    fn holds_limit(&self, lease: &Lease) -> Option<Why> {
        let pool = &self.pools[&lease.pool];
        let limit = pool.spec.holds.most;
        let (have, until) = self.count_holds(std::iter::once(pool), None);
        if have >= limit {
            return Some(Why::MaxHolds { have, limit, until });
        }
        let limit = self.profile.limits_of(&lease.tenant.0).max_holds?;
        let (have, until) = self.count_holds(self.pools.values(), Some(&lease.tenant));
        (have >= limit).then_some(Why::TenantHolds { have, limit, until })
    }

    /// How many leases of these pools are held, and of this tenant where one is named; and when the next of them ends.
    fn count_holds<'a>(
        &self,
        pools: impl Iterator<Item = &'a Pool>,
        tenant: Option<&Tenant>,
    ) -> (u32, Instant) {
        let leases = pools.flat_map(|pool| &pool.holds).map(|id| &self.leases[id]);
        let its = leases.filter(|lease| tenant.is_none_or(|tenant| lease.tenant == *tenant));
        let (mut have, mut next) = (0, None);
        for lease in its {
            have += 1;
            let due = lease.due();
            next = Some(next.map_or(due, |next: Instant| next.min(due)));
        }
        (have, next.unwrap_or(self.now))
    }

    /// What a pool's held leases keep.
    pub(super) fn view_holds(&self, pool: &Pool) -> HoldsView {
        let instances = pool.holds.iter().filter_map(|id| self.leases[id].instance());
        let promised: Bytes =
            instances.map(|id| pool.share_of(&pool.instances[&id], self.now).promised).sum();
        HoldsView { leases: pool.held_leases(), limit: pool.spec.holds.most, promised }
    }

    /// How many of each class a pool's held leases are.
    pub(super) fn holds_by_class(&self, pool: &Pool) -> BTreeMap<ClassName, u32> {
        let mut classes = BTreeMap::new();
        for id in &pool.holds {
            *classes.entry(self.leases[id].class.clone()).or_default() += 1;
        }
        classes
    }
}

impl Pool {
    fn held_leases(&self) -> u32 {
        u32::try_from(self.holds.len()).expect("they are no more than instances")
    }
}

impl Lease {
    /// Its instance, while it has one.
    pub(super) fn instance(&self) -> Option<super::message::InstanceId> {
        match self.state {
            State::Executing { instance, .. } => Some(instance),
            State::Queued { .. } | State::Ended { .. } => None,
        }
    }

    /// Whether it waits for a person.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.state, State::Executing { hold: Some(_), .. })
    }

    /// Puts this hold in the place of the one before, which comes back. Where it is another one its caller has just used it.
    fn hold(&mut self, now: Instant, new: Option<Hold>) -> Option<Hold> {
        let State::Executing { hold, .. } = &mut self.state else { return None };
        let before = std::mem::replace(hold, new.clone());
        if before != new {
            let _ = self.touch(now); // First use or not, its entry is set anew.
        }
        before
    }
}
