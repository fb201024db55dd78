//! How a lease ends, and an instance begins to: whatever the reason and the state, by these few lines.
//!
//! A lease that ends is told to the journal, then to its caller and to those who watch it; what it used is
//! stopped. It is remembered for a while, so that a release can be repeated and an end be asked for.

use std::time::Duration;

use super::Controller;
use super::lease::{REMEMBER_MOST, State};
use super::message::{
    CallId, End, InstanceId, LeaseId, Output, Record, Refusal, Reply, StopReason, Tenant, What,
};
use super::pool::Life;
use super::timer::Timer;

/// When memory is short, what is to give it back gets no longer than this to end by itself.
const SHORT_GRACE: Duration = Duration::from_secs(2);

impl Controller {
    /// Ends a lease for its own reasons: what it used is destroyed.
    pub(super) fn end_lease(&mut self, id: &LeaseId, end: End) {
        self.end_lease_for(id, end, StopReason::Used);
    }

    /// Ends a lease, whatever its state; one that has ended stays as it is.
    pub(super) fn end_lease_for(&mut self, id: &LeaseId, end: End, stop: StopReason) {
        let now = self.now;
        let lease = self.leases.get_mut(id).expect("only known leases are ended");
        let (home, class) = (lease.pool.clone(), lease.class.clone());
        let mut used = None;
        let granted_at = match lease.state {
            State::Ended { .. } => return,
            State::Queued { place, .. } => {
                self.pools.get_mut(&home).expect("a lease's pool exists").dequeue(place, false);
                None
            }
            State::Executing { instance, granted_at, used: worked, .. } => {
                used = Some(instance);
                // Who did nothing with it has not shown what work needs.
                let worked = worked.then(|| (lease.tenant.clone(), end == End::Completed));
                let pool = self.pools.get_mut(&home).expect("a lease's pool exists");
                pool.instances.get_mut(&instance).expect("it executes on one").worked = worked;
                Some(granted_at)
            }
        };
        lease.state = State::Ended { end: end.clone(), at: now, granted_at };
        let (caller, tenant) = (lease.caller.take(), lease.tenant.clone());
        self.end_permits(id);
        self.count_over(&tenant);
        self.rest_task(id);
        self.record_end(id);
        self.timers.clear(&Timer::Lease(id.clone()));
        self.ended.push_back(id.clone());
        self.tell_of_lease(What::LeaseEnded(end.clone()), id, used);
        if let Some(call) = caller {
            self.answer_ended(call, id, end.clone());
        }
        self.answer_watchers(id);
        let pool = self.pool(&home);
        pool.tally_of(&class).end(&end, used.is_some());
        if let Some(instance) = used {
            pool.ends.note(now);
            pool.demand.returned(now, &class, true);
            self.stop_instance(instance, stop);
        }
        self.forget_ended();
    }

    /// A lease of this tenant goes on or waits from now on.
    pub(super) fn count_live(&mut self, tenant: &Tenant) {
        *self.tenants.entry(tenant.clone()).or_default() += 1;
    }

    /// One of this tenant's is over.
    pub(super) fn count_over(&mut self, tenant: &Tenant) {
        let live = self.tenants.get_mut(tenant).expect("a live lease's tenant is counted");
        *live -= 1;
        if *live == 0 {
            self.tenants.remove(tenant);
        }
    }

    /// Answers the caller of a request that ended before it was granted.
    fn answer_ended(&mut self, call: CallId, id: &LeaseId, end: End) {
        let End::Refused(why) = end else {
            return self.show(call, id);
        };
        let lease = &self.leases[id];
        let (pool, class) = (lease.pool.clone(), lease.class.clone());
        let degraded_from = lease.degraded_from.clone();
        let retry_after = self.retry_after(&pool, id, &why);
        let lease = Some(id.clone());
        let refusal = Refusal::Limit { why, pool, class, retry_after, lease, degraded_from };
        self.reply(call, Reply::Refused(Box::new(refusal)));
    }

    pub(super) fn answer_watchers(&mut self, id: &LeaseId) {
        let lease = self.leases.get_mut(id).expect("only known leases are watched");
        let watchers = std::mem::take(&mut lease.watchers);
        let (reached, kept): (Vec<_>, Vec<_>) =
            watchers.into_iter().partition(|(_, goal)| lease.has_reached(*goal));
        lease.watchers = kept;
        for (call, _) in reached {
            self.timers.clear(&Timer::Watch(call));
            self.show(call, id);
        }
    }

    /// Forgets leases that ended long enough ago, and the oldest where they are too many.
    pub(super) fn forget_ended(&mut self) {
        self.timers.clear(&Timer::Forget);
        while let Some(oldest) = self.ended.front() {
            let due = self.leases[oldest].due();
            if due > self.now && self.ended.len() <= REMEMBER_MOST {
                return self.timers.set(Timer::Forget, due);
            }
            self.leases.remove(oldest);
            self.ended.pop_front();
        }
    }

    /// Forgets an instance of which nothing is, or ever was.
    pub(super) fn forget_instance(&mut self, id: InstanceId) {
        let home = self.homes.remove(&id).expect("only known instances are forgotten");
        let now = self.now;
        let pool = self.pool(&home);
        let gone = pool.bury(id).expect("homes and instances agree");
        let counted = pool.spec.max_instance_hours.is_some();
        let written = pool.learn_from(now, gone) || counted;
        let usual = pool.expected.usual;
        let taught = written.then(|| pool.learned.record(&home, usual, pool.hours.record()));
        self.timers.clear(&Timer::Instance(home, id));
        self.record(Record::Gone(id));
        if let Some(envelope) = taught {
            self.record(Record::Envelope(envelope));
        }
    }

    /// Begins an instance's end, unless it has begun.
    pub(super) fn stop_instance(&mut self, id: InstanceId, why: StopReason) {
        let now = self.now;
        let home = self.homes[&id].clone();
        let pool = self.pool(&home);
        // What is used or broken has nothing to finish; what goes in good order may do so.
        let grace = match why {
            StopReason::Aged
            | StopReason::Surplus
            | StopReason::Outbid
            | StopReason::Drain
            | StopReason::Outdated
            | StopReason::Removed => pool.spec.deadlines.stop_timeout,
            StopReason::Used
            | StopReason::StartFailed
            | StopReason::Died
            | StopReason::OutOfMemory
            | StopReason::Unanswering
            | StopReason::Unknown
            | StopReason::Interrupted => Duration::ZERO,
            StopReason::Pressure => pool.spec.deadlines.stop_timeout.min(SHORT_GRACE),
        };
        if matches!(pool.instances[&id].life, Life::Stopping { .. }) {
            return;
        }
        let life = pool.stopping_life(now, now, why, 1);
        pool.become_(id, life);
        if self.records.unsay_start(id) {
            return self.forget_instance(id); // Nobody was asked to make it.
        }
        self.set_instance_timer(id);
        self.record_instance(id);
        self.out.push_back(Output::Stop { instance: id, grace });
        self.tell(What::InstanceStopping(why), Some(&home), Some(id));
    }
}
