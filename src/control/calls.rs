//! What callers and operators ask, and the answers that can be given at once.

use std::sync::Arc;
use std::time::Duration;

use super::Controller;
use super::admission::{self, Who};
use super::budget::Promised;
use super::drain::Drain;
use super::lease::{Lease, Limits, State, WATCHERS};
use super::message::{
    Acquire, Call, CallId, Cancelled, DrainRecord, End, Event, Failure, LeaseId, Output, Record, Refusal,
    Reply, Scope, TaskRecord, Tenant, Verdict, WaitFor, What, Why,
};
use super::queue::Waiting;
use super::scaling;
use super::timer::Timer;
use crate::profile::{Class, ClassName, PoolName};
use crate::quantity::Instant;

/// A request on its way into a queue or to its refusal.
struct Arrival {
    request: Acquire,
    /// What it is for, where that has a name.
    task: Option<Box<TaskRecord>>,
    /// The pool that was asked, where the request is for another one now.
    degraded_from: Option<PoolName>,
}

impl Controller {
    /// Answers a call, or keeps it until it can be answered.
    pub(super) fn take_call(&mut self, call: CallId, asked: Call) {
        self.look_at_gates();
        match asked {
            Call::Acquire(request) => self.acquire(call, request),
            Call::Get { lease, until } => self.get(call, &lease, until),
            Call::Leases => {
                let all = self.view_leases();
                self.reply(call, Reply::Leases(all));
            }
            Call::Use(lease) => self.use_lease(call, &lease),
            Call::Renew(lease, by) => self.renew(call, &lease, by),
            Call::Hold(lease, asked) => self.hold(call, &lease, asked),
            Call::Resume(lease) => self.resume(call, &lease),
            Call::Permit(lease, provider, wait) => self.permit(call, &lease, (provider, wait)),
            Call::Providers => self.reply_providers(call),
            Call::Throttled(provider, pause) => self.take_throttled(call, provider, pause),
            Call::Release(lease) => {
                let queued = self.leases.get(&lease).is_some_and(|l| matches!(l.state, State::Queued { .. }));
                let end = if queued { End::Cancelled(Cancelled::ByCaller) } else { End::Completed };
                self.end_and_show(call, &lease, end);
            }
            Call::Cancel(lease) => self.end_and_show(call, &lease, End::Cancelled(Cancelled::ByCaller)),
            Call::Undelivered(lease) => {
                self.end_and_show(call, &lease, End::Cancelled(Cancelled::CallerGone));
            }
            Call::Overran(lease) => self.end_and_show(call, &lease, End::Failed(Failure::Overran)),
            Call::Pools => {
                let pools = self.pools.values().map(|pool| self.view_pool(pool)).collect();
                self.reply(call, Reply::Pools(pools));
            }
            Call::Explain(name) => {
                let reply = match self.pools.get(&name) {
                    Some(pool) => Reply::Explain(Box::new(self.explain(pool))),
                    None => Reply::Refused(Box::new(Refusal::NoSuchPool(
                        name,
                        self.pools.keys().cloned().collect(),
                    ))),
                };
                self.reply(call, reply);
            }
            Call::ExplainLease(id) => match self.leases.get(&id) {
                Some(lease) => {
                    let view = self.explain_lease(lease);
                    self.reply(call, Reply::ExplainLease(Box::new(view)));
                }
                None => self.reply_no_such(call, &id),
            },
            Call::Host => self.reply_host(call),
            Call::Drain(scope, window) => {
                if self.begin_drain(call, &scope, window) {
                    self.record_drain(&scope);
                    self.reply_host_recorded(call);
                }
            }
            Call::DrainForNow(scope, window) => {
                // Whoever goes down has no say in a drain that an operator wants over sooner.
                let sooner = self.drain_of(&scope).map(|drain| drain.deadline.since(self.now));
                let window = sooner.map_or(window, |sooner| sooner.min(window));
                if self.begin_drain(call, &scope, window) {
                    self.reply_host(call);
                }
            }
            Call::Undrain(scope) => self.end_drain(call, &scope),
            Call::Reload(profile) => self.reload(call, *profile),
        }
    }

    /// The caller of an unanswered call is gone: what waited for nobody but it leaves the queue.
    pub(super) fn take_hang_up(&mut self, call: CallId) {
        if self.give_up_permit(call) {
            return;
        }
        let Some(id) = self.calls.remove(&call) else {
            // Its answer waits for a record, or was given: one that cannot be delivered is heard of elsewhere.
            if let Some(id) = self.records.unsay(call) {
                self.end_lease(&id, End::Cancelled(Cancelled::CallerGone));
            }
            return;
        };
        self.timers.clear(&Timer::Watch(call));
        let lease = self.leases.get_mut(&id).expect("a waiting call waits for a lease that exists");
        if lease.caller == Some(call) {
            lease.caller = None;
            self.end_lease(&id, End::Cancelled(Cancelled::CallerGone));
        } else {
            lease.watchers.retain(|(watcher, _)| *watcher != call);
        }
    }

    /// A watcher has watched for as long as it wanted.
    pub(super) fn end_watch(&mut self, call: CallId) {
        let Some(id) = self.calls.remove(&call) else {
            return;
        };
        let lease = self.leases.get_mut(&id).expect("a waiting call waits for a lease that exists");
        lease.watchers.retain(|(watcher, _)| *watcher != call);
        self.show(call, &id);
    }

    fn acquire(&mut self, call: CallId, mut request: Acquire) {
        let (class_name, class) = match self.class_of(&request) {
            Ok(found) => found,
            Err(refusal) => return self.reply(call, Reply::Refused(Box::new(refusal))),
        };
        if self.take_known_task(call, &request) {
            return;
        }
        let task = self.attempt(&request);
        let other = self.stand_in(&request.pool);
        let degraded_from = other.map(|other| std::mem::replace(&mut request.pool, other));
        let wait = request.wait.map_or(class.max_wait, |asked| asked.min(class.max_wait));
        let pool = &self.pools[&request.pool];
        let never = admission::never_fits(pool, &self.profile, &self.belief, self.now);
        let unwritten = self.records.trouble.clone().map(Why::NotRecorded);
        let barred = pool
            .closed_by()
            .or(never)
            .or(unwritten)
            .or_else(|| self.tenant_limit(&request.tenant))
            .or_else(|| admission::pressed(pool, &self.belief, self.now));
        let startable = || {
            let sum = || self.promised();
            admission::startable(&self.asked(pool, (0, false, Promised::default()), &sum))
        };
        let who = Who { class: (&class_name, &class), tenant: &request.tenant, no_wait: wait.is_zero() };
        let verdict = admission::request(pool, &who, barred, startable);
        let first = task.as_ref().map_or(self.now, |task| task.first);
        let verdict = match verdict {
            Verdict::Wait => {
                let why = self.too_long(&request, first, (&class_name, &class), wait);
                why.map_or(Verdict::Wait, Verdict::Refuse)
            }
            Verdict::Grant(_) | Verdict::Refuse(_) => verdict,
        };
        if let Verdict::Refuse(why) = verdict {
            return self.refuse(call, Arrival { request, task, degraded_from }, class_name, why);
        }
        let asynchronous = request.asynchronous;
        let degraded = degraded_from.is_some();
        let arrival = Arrival { request, task, degraded_from };
        let id = self.enter(call, arrival, (class_name, &class), wait);
        if degraded {
            self.note_degraded(&id);
        }
        if verdict == Verdict::Wait {
            self.tell_of_lease(What::LeaseQueued, &id, None);
        }
        if !asynchronous {
            self.calls.insert(call, id.clone());
        }
        if let Verdict::Grant(_) = verdict {
            // Before anybody looks at its deadline: one that may not wait need not.
            self.serve_all();
        }
        if asynchronous {
            // The answer tells what the request has led to: a grant, a start, or what is in its way.
            self.settle();
            if matches!(self.leases[&id].state, State::Queued { .. }) {
                self.record_promise(&id, Some(call));
            } else {
                self.records.promised_to(&id, call);
            }
            self.show(call, &id);
        }
    }

    /// Puts a request into its pool's queue, as a lease that waits.
    fn enter(
        &mut self,
        call: CallId,
        arrival: Arrival,
        (class_name, class): (ClassName, &Class),
        wait: Duration,
    ) -> LeaseId {
        let (now, Arrival { request, task, degraded_from }) = (self.now, arrival);
        let id = request.lease.clone();
        let (first, is_new) = self.let_in(&request.tenant, task.as_deref(), &id);
        let tenant = request.tenant;
        let asked_of = degraded_from.as_ref().map(|from| Arc::clone(&self.pools[from].spec));
        let pool = self.pool(&request.pool);
        if is_new {
            pool.demand.arrived(now, &class_name, scaling::runtime(&pool.spec));
            pool.plan.touch();
        }
        pool.tally_of(&class_name).ask(task.as_deref().map_or(1, |task| task.attempt));
        let waiting = Waiting {
            lease: request.lease.clone(),
            class: class_name.clone(),
            tenant: tenant.clone(),
            asked: now,
        };
        let place = pool.queue.join(waiting, first.after(class.target_wait));
        let limits = Limits::new(&pool.spec.deadlines, request.max_runtime, request.idle_timeout);
        let limits = asked_of.map_or(limits, |spec| limits.within(&spec.deadlines));
        let deadline = now.after(wait);
        let lease = Lease {
            id: id.clone(),
            kind: pool.spec.kind,
            pool: request.pool,
            degraded_from,
            class: class_name,
            tenant: tenant.clone(),
            task,
            asked_at: now,
            oom_kills: 0,
            caller: (!request.asynchronous).then_some(call),
            watchers: Vec::new(),
            permits: Vec::new(),
            recorded: false,
            limits,
            state: State::Queued { place, deadline },
        };
        let before = self.leases.insert(id.clone(), lease);
        assert!(before.is_none(), "lease names are drawn and never come twice");
        self.count_live(&tenant);
        self.timers.set(Timer::Lease(id.clone()), deadline);
        id
    }

    /// Whether a tenant has as many leases as it may.
    fn tenant_limit(&self, tenant: &Tenant) -> Option<Why> {
        let limit = self.profile.limits_of(&tenant.0).max_leases?;
        let have = self.tenants.get(tenant).copied().unwrap_or(0);
        (have >= limit).then_some(Why::TenantLimit { have, limit })
    }

    fn class_of(&self, request: &Acquire) -> Result<(ClassName, Class), Refusal> {
        let Some(pool) = self.pools.get(&request.pool).filter(|pool| !pool.removed) else {
            return Err(Refusal::NoSuchPool(
                request.pool.clone(),
                self.profile.pools.keys().cloned().collect(),
            ));
        };
        let name = request.class.clone().unwrap_or_else(|| pool.spec.default_class.clone());
        match self.profile.classes.get(&name) {
            Some(class) => Ok((name, class.clone())),
            None => Err(Refusal::NoSuchClass(name, self.profile.classes.keys().cloned().collect())),
        }
    }

    fn refuse(&mut self, call: CallId, arrival: Arrival, class: ClassName, why: Why) {
        let Arrival { request, task, degraded_from } = arrival;
        let attempt = task.map_or(1, |task| task.attempt);
        let Acquire { lease, pool, tenant, .. } = request;
        let tally = self.pool(&pool).tally_of(&class);
        tally.ask(attempt);
        tally.refuse(&why);
        let retry_after = self.retry_after(&pool, &lease, &why);
        let event = Event {
            what: What::RequestRefused(why.clone()),
            pool: Some(pool.clone()),
            instance: None,
            lease: None,
            tenant: Some(tenant),
        };
        self.out.push_back(Output::Tell(event));
        let refusal = Refusal::Limit { why, pool, class, retry_after, lease: None, degraded_from };
        self.reply(call, Reply::Refused(Box::new(refusal)));
    }

    /// When a refused caller may come back; `None` where no time will mend it.
    pub(super) fn retry_after(&mut self, pool: &PoolName, lease: &LeaseId, why: &Why) -> Option<Duration> {
        let now = self.now;
        let pool = self.pool(pool);
        let queued = pool.queue.len();
        let start = pool.last_start.unwrap_or(pool.spec.deadlines.start_timeout);
        let start = (pool.counts.starting > 0).then_some(start);
        pool.ends.advise(now, (queued, start), why, lease)
    }

    fn get(&mut self, call: CallId, id: &LeaseId, until: Option<(WaitFor, Duration)>) {
        let now = self.now;
        match (self.leases.get_mut(id), until) {
            (None, _) => self.reply_no_such(call, id),
            (Some(lease), Some((goal, wait)))
                if !lease.has_reached(goal) && lease.watchers.len() < WATCHERS =>
            {
                lease.watchers.push((call, goal));
                self.calls.insert(call, id.clone());
                self.timers.set(Timer::Watch(call), now.after(wait));
            }
            (Some(_), _) => self.show(call, id),
        }
    }

    fn use_lease(&mut self, call: CallId, id: &LeaseId) {
        let now = self.now;
        let Some(lease) = self.leases.get_mut(id) else {
            return self.reply_no_such(call, id);
        };
        let Some(instance) = lease.instance() else {
            return self.reply_not_executing(call, id);
        };
        let reply = Reply::Use { instance, pool: lease.pool.clone() };
        self.take_activity(id, now);
        self.reply(call, reply);
    }

    fn renew(&mut self, call: CallId, id: &LeaseId, by: Duration) {
        let now = self.now;
        let Some(lease) = self.leases.get_mut(id) else {
            return self.reply_no_such(call, id);
        };
        let most = lease.limits.runtime_max;
        if let State::Executing { deadline, granted_at, .. } = &mut lease.state {
            *deadline = now.after(by).min(granted_at.after(most)).max(*deadline);
            let _ = lease.touch(now); // First use or not, its entry is set anew.
            let due = lease.due();
            self.timers.set(Timer::Lease(id.clone()), due);
            self.record_lease(id);
            self.show(call, id);
        } else {
            self.reply_not_executing(call, id);
        }
    }

    /// Ends a lease, if it has not ended, and answers with how it stands. So a release can be repeated.
    fn end_and_show(&mut self, call: CallId, id: &LeaseId, end: End) {
        if !self.leases.contains_key(id) {
            return self.reply_no_such(call, id);
        }
        self.end_lease(id, end);
        self.show(call, id);
    }

    /// Answers with a lease as it stands.
    pub(super) fn show(&mut self, call: CallId, id: &LeaseId) {
        let view = self.view_lease(&self.leases[id]);
        self.reply(call, Reply::Lease(Box::new(view)));
    }

    pub(super) fn reply_no_such(&mut self, call: CallId, id: &LeaseId) {
        self.reply(call, Reply::Refused(Box::new(Refusal::NoSuchLease(id.clone()))));
    }

    /// It has no instance, for what only one that has may.
    pub(super) fn reply_not_executing(&mut self, call: CallId, id: &LeaseId) {
        let refusal = Refusal::NotExecuting(Box::new(self.view_lease(&self.leases[id])));
        self.reply(call, Reply::Refused(Box::new(refusal)));
    }

    fn reply_host(&mut self, call: CallId) {
        let view = self.view_host();
        self.reply(call, Reply::Host(Box::new(view)));
    }

    /// As [`Controller::reply_host`], once what was asked is written down.
    fn reply_host_recorded(&mut self, call: CallId) {
        let view = self.view_host();
        self.calls.remove(&call);
        self.say_recorded(Output::Reply(call, Reply::Host(Box::new(view))));
    }

    fn record_drain(&mut self, scope: &Scope) {
        let record = match self.drain_of(scope) {
            Some(Drain { since, deadline, .. }) => {
                Record::Drain(scope.clone(), DrainRecord { since, deadline })
            }
            None => Record::Undrained(scope.clone()),
        };
        self.record(record);
    }

    /// Whether it began; where there is no such pool the call is answered.
    fn begin_drain(&mut self, call: CallId, scope: &Scope, window: Duration) -> bool {
        if let Scope::Pool(name) = scope
            && !self.pools.contains_key(name)
        {
            let refusal = Refusal::NoSuchPool(name.clone(), self.pools.keys().cloned().collect());
            self.reply(call, Reply::Refused(Box::new(refusal)));
            return false;
        }
        let deadline = self.now.after(window);
        let since = self.drain_of(scope).map_or(self.now, |drain| drain.since);
        self.set_drain(scope, Some(Drain { since, deadline, told_empty: false }));
        self.tell(What::DrainBegan(window), scope.pool(), None);
        for name in self.pools_in(scope) {
            self.empty_pool(&name);
        }
        true
    }

    /// Sends away who waits, stops who is not lent, and tells the lent ones their deadline.
    fn empty_pool(&mut self, name: &PoolName) {
        let why = if self.drain.is_some() { Why::HostDraining } else { Why::PoolDraining };
        let waiting: Vec<LeaseId> = self.pools[name].queue.leases().cloned().collect();
        for lease in waiting {
            self.end_lease(&lease, End::Refused(why.clone()));
        }
        self.spread_drain(name);
    }

    fn end_drain(&mut self, call: CallId, scope: &Scope) {
        if let Scope::Pool(name) = scope
            && !self.pools.contains_key(name)
        {
            let refusal = Refusal::NoSuchPool(name.clone(), self.pools.keys().cloned().collect());
            return self.reply(call, Reply::Refused(Box::new(refusal)));
        }
        if self.drain_of(scope).is_some() {
            self.set_drain(scope, None);
            self.tell(What::Undrained, scope.pool(), None);
            self.record_drain(scope);
            for name in self.pools_in(scope) {
                self.spread_drain(&name);
            }
        }
        self.reply_host_recorded(call);
    }

    /// Makes a pool's leases agree with the drain the pool is under.
    pub(super) fn spread_drain(&mut self, name: &PoolName) {
        let until: Option<Instant> = self.pools[name].drain().map(|drain| drain.deadline);
        for lease in self.leases.values_mut().filter(|lease| lease.pool == *name) {
            if let State::Executing { draining, .. } = &mut lease.state {
                *draining = until;
                let due = lease.due();
                self.timers.set(Timer::Lease(lease.id.clone()), due);
            }
        }
    }

    pub(super) fn pools_in(&self, scope: &Scope) -> Vec<PoolName> {
        match scope {
            Scope::Host => self.pools.keys().cloned().collect(),
            Scope::Pool(name) => vec![name.clone()],
        }
    }

    fn drain_of(&self, scope: &Scope) -> Option<Drain> {
        match scope {
            Scope::Host => self.drain,
            Scope::Pool(name) => self.pools.get(name).and_then(|pool| pool.own_drain),
        }
    }

    pub(super) fn set_drain(&mut self, scope: &Scope, drain: Option<Drain>) {
        match scope {
            Scope::Host => {
                self.drain = drain;
                for pool in self.pools.values_mut() {
                    pool.host_drain = drain;
                }
            }
            Scope::Pool(name) => self.pool(name).own_drain = drain,
        }
    }
}

impl Scope {
    /// The pool it concerns, if it concerns one.
    pub(super) fn pool(&self) -> Option<&PoolName> {
        match self {
            Scope::Host => None,
            Scope::Pool(name) => Some(name),
        }
    }
}
