//! What follows from the new state: deadlines, then who is served, then what is stopped and started.
//!
//! It runs after every word, from the whole state, so it needs no memory of what changed. Its order is the
//! order of the product: what is over ends first and frees its slot; who waits is served from what is warm;
//! what is too much is stopped; and only then something is started, while every limit leaves room.

use super::Controller;
use super::admission::{self, Room};
use super::budget::Promised;
use super::lease::{REMEMBER_MOST, State};
use super::message::{
    End, InstanceId, LeaseId, Output, Refusal, Reply, Scope, StartFailure, StopReason, What, Why,
};
use super::placement::{self, Urgency};
use super::pool::{Life, PROBE_EVERY};
use super::scaling;
use super::timer::Timer;
use crate::profile::PoolName;

impl Controller {
    pub(super) fn settle(&mut self) {
        while let Some(timer) = self.timers.pop_due(self.now) {
            self.fire(timer);
        }
        self.watch_telemetry();
        self.serve_all();
        self.stop_surplus();
        self.start_wanted();
        self.report_drained();
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Instance(_, id) => self.fire_instance(id),
            Timer::Lease(id) => self.fire_lease(&id),
            Timer::Watch(call) => self.end_watch(call),
            // These only make sure that somebody looks.
            Timer::Retry(_) | Timer::Drain(_) | Timer::Stock(_) | Timer::Telemetry => {}
        }
    }

    fn fire_lease(&mut self, id: &LeaseId) {
        let lease = &self.leases[id];
        match &lease.state {
            State::Queued { deadline, .. } if *deadline <= self.now => {
                let waited = self.now.since(lease.asked_at);
                let blocked_by = self.pools[&lease.pool].blocked_by.clone().map(Box::new);
                self.end_lease(id, End::Refused(Why::WaitExpired { waited, blocked_by }));
            }
            State::Ended { .. } if lease.due() <= self.now => self.forget_lease(id),
            State::Queued { .. } | State::Executing { .. } | State::Ended { .. } => {
                match lease.overdue(self.now) {
                    Some(end) => self.end_lease(id, end),
                    None => self.timers.set(Timer::Lease(id.clone()), lease.due()),
                }
            }
        }
    }

    fn fire_instance(&mut self, id: InstanceId) {
        let now = self.now;
        let home = self.homes[&id].clone();
        let pool = self.pool(&home);
        match pool.instances[&id].life.clone() {
            Life::Starting { deadline } if deadline <= now => {
                let limit = crate::quantity::show_duration(pool.spec.deadlines.start_timeout);
                self.start_failed(
                    id,
                    StartFailure::NotReady(format!("not ready within start_timeout, {limit}")),
                );
            }
            Life::Warm { expires, .. } if expires <= now => self.stop_instance(id, StopReason::Aged),
            Life::Warm { probe_at: Some(at), .. } if at <= now => {
                if let Some(Life::Warm { probe_at, .. }) = pool.instances.get_mut(&id).map(|i| &mut i.life) {
                    *probe_at = Some(now.after(PROBE_EVERY)); // Also if its answer is lost.
                }
                self.out.push_back(Output::Probe { instance: id, pool: home });
                self.set_instance_timer(id);
            }
            Life::Stopping { since, why, tries, retry_at } if retry_at <= now => {
                let life = pool.stopping_life(now, since, why, tries + 1);
                pool.become_(id, life);
                self.out.push_back(Output::Stop { instance: id, grace: std::time::Duration::ZERO });
                let what = What::InstanceStuck("nothing was heard of its end".into(), tries);
                self.tell(what, Some(&home), Some(id));
                self.set_instance_timer(id);
            }
            Life::Starting { .. } | Life::Warm { .. } | Life::Leased { .. } | Life::Stopping { .. } => {
                self.set_instance_timer(id);
            }
        }
    }

    /// Gives an instance the entry its state asks for; a leased one has none, its lease has.
    pub(super) fn set_instance_timer(&mut self, id: InstanceId) {
        let home = self.homes[&id].clone();
        let at = match &self.pools[&home].instances[&id].life {
            Life::Starting { deadline } => Some(*deadline),
            Life::Warm { expires, probe_at, .. } => Some(probe_at.unwrap_or(*expires).min(*expires)),
            Life::Leased { .. } => None,
            Life::Stopping { retry_at, .. } => Some(*retry_at),
        };
        match at {
            Some(at) => self.timers.set(Timer::Instance(home, id), at),
            None => self.timers.clear(&Timer::Instance(home, id)),
        }
    }

    fn watch_telemetry(&mut self) {
        let known = match self.belief.memory.reading(self.now).known() {
            Ok(_) => None,
            Err(why) => Some(why.to_owned()),
        };
        match (known, self.belief.told_known) {
            (Some(why), true) => {
                self.belief.told_known = false;
                if self.now.since(self.since) > std::time::Duration::ZERO {
                    self.tell(What::TelemetryLost(why), None, None);
                }
            }
            (None, false) => {
                self.belief.told_known = true;
                self.tell(What::TelemetryBack, None, None);
            }
            (Some(_), false) | (None, true) => {}
        }
    }

    /// Gives every warm instance that somebody waits for to who waits for it.
    pub(super) fn serve_all(&mut self) {
        for name in self.pools.keys().cloned().collect::<Vec<_>>() {
            loop {
                let pool = &self.pools[&name];
                let (Some((lease, _)), Some((_, instance))) = (pool.queue.head(), pool.ready.first()) else {
                    break;
                };
                let (lease, instance) = (lease.clone(), *instance);
                self.grant(&lease, instance);
            }
        }
    }

    fn grant(&mut self, id: &LeaseId, instance: InstanceId) {
        let now = self.now;
        let lease = self.leases.get_mut(id).expect("who waits has a lease");
        let State::Queued { place, .. } = lease.state else {
            unreachable!("only queued leases are in the queue");
        };
        let waited = now.since(lease.asked_at);
        lease.state = State::Executing {
            instance,
            granted_at: now,
            used: false,
            active_at: now,
            deadline: now.after(lease.limits.runtime),
            draining: None,
        };
        let due = lease.due();
        let home = lease.pool.clone();
        let caller = lease.caller.take();
        let pool = self.pool(&home);
        pool.queue.leave(place);
        pool.become_(instance, Life::Leased { lease: id.clone() });
        self.set_instance_timer(instance);
        self.timers.set(Timer::Lease(id.clone()), due);
        if let Some(call) = caller {
            self.show(call, id);
        }
        self.tell_of_lease(What::LeaseGranted(waited), id, Some(instance));
        self.answer_watchers(id);
    }

    /// Ends a lease for its own reasons: what it used is destroyed.
    pub(super) fn end_lease(&mut self, id: &LeaseId, end: End) {
        self.end_lease_for(id, end, StopReason::Used);
    }

    /// Ends a lease, whatever its state; one that has ended stays as it is.
    pub(super) fn end_lease_for(&mut self, id: &LeaseId, end: End, stop: StopReason) {
        let now = self.now;
        let lease = self.leases.get_mut(id).expect("only known leases are ended");
        let home = lease.pool.clone();
        let mut used = None;
        let granted_at = match lease.state {
            State::Ended { .. } => return,
            State::Queued { place, .. } => {
                self.pools.get_mut(&home).expect("a lease's pool exists").queue.leave(place);
                None
            }
            State::Executing { instance, granted_at, .. } => {
                used = Some(instance);
                Some(granted_at)
            }
        };
        lease.state = State::Ended { end: end.clone(), at: now, granted_at };
        let (due, caller) = (lease.due(), lease.caller.take());
        self.timers.set(Timer::Lease(id.clone()), due);
        self.ended.push_back(id.clone());
        self.tell_of_lease(What::LeaseEnded(end.clone()), id, used);
        if let Some(call) = caller {
            self.answer_ended(call, id, end);
        }
        self.answer_watchers(id);
        if let Some(instance) = used {
            self.pool(&home).ends.note(now);
            self.stop_instance(instance, stop);
        }
        if self.ended.len() > REMEMBER_MOST {
            let oldest = self.ended[0].clone();
            self.forget_lease(&oldest);
        }
    }

    /// Answers the caller of a request that ended before it was granted.
    fn answer_ended(&mut self, call: super::message::CallId, id: &LeaseId, end: End) {
        let End::Refused(why) = end else {
            return self.show(call, id);
        };
        let (pool, class) = (self.leases[id].pool.clone(), self.leases[id].class.clone());
        let retry_after = self.retry_after(&pool, id, &why);
        let refusal = Refusal::Limit { why, pool, class, retry_after, lease: Some(id.clone()) };
        self.reply(call, Reply::Refused(Box::new(refusal)));
    }

    fn answer_watchers(&mut self, id: &LeaseId) {
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

    fn forget_lease(&mut self, id: &LeaseId) {
        self.leases.remove(id);
        self.timers.clear(&Timer::Lease(id.clone()));
        self.ended.retain(|ended| ended != id);
    }

    /// Begins an instance's end, unless it has begun.
    pub(super) fn stop_instance(&mut self, id: InstanceId, why: StopReason) {
        let now = self.now;
        let home = self.homes[&id].clone();
        let pool = self.pool(&home);
        // What is used or broken has nothing to finish; what goes in good order may do so.
        let grace = match why {
            StopReason::Aged | StopReason::Surplus | StopReason::Drain => pool.spec.deadlines.stop_timeout,
            StopReason::Used
            | StopReason::StartFailed
            | StopReason::Died
            | StopReason::Unanswering
            | StopReason::Unknown => std::time::Duration::ZERO,
        };
        if matches!(pool.instances[&id].life, Life::Stopping { .. }) {
            return;
        }
        let life = pool.stopping_life(now, now, why, 1);
        pool.become_(id, life);
        self.set_instance_timer(id);
        self.out.push_back(Output::Stop { instance: id, grace });
        self.tell(What::InstanceStopping(why), Some(&home), Some(id));
    }

    fn stop_surplus(&mut self) {
        let now = self.now;
        for name in self.pools.keys().cloned().collect::<Vec<_>>() {
            let pool = &self.pools[&name];
            let (stock, counts) = (pool.stock(now), pool.counts);
            let (why, many) = if pool.drain().is_some() {
                let starting = pool.instances.iter().filter(|(_, i)| matches!(i.life, Life::Starting { .. }));
                for id in starting.map(|(id, _)| *id).collect::<Vec<_>>() {
                    self.stop_instance(id, StopReason::Drain);
                }
                (StopReason::Drain, counts.warm)
            } else {
                let many = scaling::surplus(pool.queue.len(), stock, counts.warm, counts.starting);
                (StopReason::Surplus, many)
            };
            let oldest: Vec<_> =
                self.pools[&name].ready.iter().take(many as usize).map(|(_, id)| *id).collect();
            for id in oldest {
                self.stop_instance(id, why);
            }
            let pool = &self.pools[&name];
            match pool.demand.shrinks_at(now, &pool.spec.warm) {
                Some(at) => self.timers.set(Timer::Stock(name), at),
                None => self.timers.clear(&Timer::Stock(name)),
            }
        }
    }

    fn start_wanted(&mut self) {
        let now = self.now;
        let mut wishes: Vec<(Urgency, PoolName)> = Vec::new();
        for pool in self.pools.values_mut() {
            pool.blocked_by = None;
            wishes.extend(placement::urgency(pool, now).map(|urgency| (urgency, pool.name.clone())));
        }
        if wishes.is_empty() {
            return;
        }
        let mut promised = Promised::default();
        let mut starting = 0;
        for pool in self.pools.values() {
            promised.join(pool.promised(now));
            starting += pool.counts.starting;
        }
        // One start at a time to the most urgent pool, since each start changes what is urgent.
        while let Some(next) = wishes.iter().min().map(|(_, name)| name.clone()) {
            let room = Room { host: &self.profile.host, belief: &self.belief, promised, starting };
            let pool = &self.pools[&next];
            wishes.retain(|(_, name)| *name != next);
            if let Some(why) = admission::objection_to_start(pool, &room, now) {
                self.pool(&next).blocked_by = Some(why);
                continue;
            }
            promised.add(super::envelope::Share::of_new(&pool.spec), pool.spec.template.cpus);
            starting += 1;
            self.start_one(&next);
            wishes.extend(placement::urgency(&self.pools[&next], now).map(|urgency| (urgency, next)));
        }
    }

    fn start_one(&mut self, name: &PoolName) {
        self.ordered = self.ordered.checked_add(1).expect("a run lasts for fewer than 2^32 starts");
        let id = InstanceId { run: self.run, count: self.ordered };
        let now = self.now;
        let deadline = self.pool(name).begin(id, now);
        self.homes.insert(id, name.clone());
        self.set_instance_timer(id);
        self.out.push_back(Output::Start { instance: id, pool: name.clone(), deadline });
        self.tell(What::InstanceStarting, Some(name), Some(id));
    }

    fn report_drained(&mut self) {
        for pool in self.pools.values_mut() {
            let empty = pool.instances.is_empty();
            if let Some(drain) = &mut pool.own_drain
                && empty
                && !drain.told_empty
            {
                drain.told_empty = true;
                let event = super::message::Event {
                    what: What::Drained,
                    pool: Some(pool.name.clone()),
                    instance: None,
                    lease: None,
                    tenant: None,
                };
                self.out.push_back(Output::Tell(event));
            }
        }
        let empty = self.homes.is_empty();
        if let Some(drain) = &mut self.drain
            && empty
            && !drain.told_empty
        {
            drain.told_empty = true;
            self.tell(What::Drained, Scope::Host.pool(), None);
        }
    }
}
