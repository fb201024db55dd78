//! What follows from the new state: deadlines, then who is served, then what is stopped and started.
//!
//! It runs after every word, from the whole state, so it needs no memory of what changed. Its order is the
//! order of the product: what is over ends first and frees its slot; who waits is served from what is warm;
//! what is too much is stopped; and only then something is started, while every limit leaves room.

use std::cell::OnceCell;

use super::Controller;
use super::admission::{self, Asked};
use super::budget::Promised;
use super::envelope::Share;
use super::host::UNKNOWN_AFTER;
use super::lease::State;
use super::message::{End, Event, InstanceId, LeaseId, Output, Scope, StartFailure, StopReason, What, Why};
use super::placement::{self, Urgency};
use super::pool::{Life, PROBE_EVERY, Pool, Probing};
use super::scaling;
use super::timer::Timer;
use crate::profile::PoolName;

impl Controller {
    pub(super) fn settle(&mut self) {
        while let Some(timer) = self.timers.pop_due(self.now) {
            self.fire(timer);
        }
        self.watch_telemetry();
        self.degrade_waiting();
        self.watch_disks();
        self.watch_ceilings();
        self.settle_providers();
        self.serve_all();
        self.plan_stock();
        self.stop_surplus();
        self.start_wanted();
        while self.make_room() {
            self.start_wanted();
        }
        if self.give_up_surplus() || self.swap_stock() {
            // What is being stopped grows no more, which may be room enough; and what was given up of stock hears why.
            self.start_wanted();
        }
        self.report_drained();
        self.forget_removed();
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Instance(_, id) => self.fire_instance(id),
            Timer::Lease(id) => self.fire_lease(&id),
            Timer::Watch(call) => self.end_watch(call),
            Timer::Permit(call) => self.end_permit(call),
            Timer::Forget => self.forget_ended(),
            // These only make sure that somebody looks.
            Timer::Retry(_) | Timer::Stock(_) | Timer::Provider(_) | Timer::Telemetry => {}
        }
    }

    fn fire_lease(&mut self, id: &LeaseId) {
        let lease = &self.leases[id];
        match &lease.state {
            State::Queued { place, deadline } if *deadline <= self.now => {
                let waited = self.now.since(lease.asked_at);
                let pool = &self.pools[&lease.pool];
                let starting = pool.has_start_for(pool.queue.rank(*place));
                let blocked_by = pool.obstacle(&lease.class).filter(|_| !starting).map(Box::new);
                self.end_lease(id, End::Refused(Why::WaitExpired { waited, blocked_by }));
            }
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
            Life::Unseen { deadline, .. } if deadline <= now => self.fire_unseen(id),
            Life::Starting { deadline } if deadline <= now => {
                self.note_start(id);
                let pool = &self.pools[&home];
                let limit = crate::quantity::show_duration(deadline.since(pool.instances[&id].born));
                self.start_failed(
                    id,
                    StartFailure::NotReady(format!("not ready within start_timeout, {limit}")),
                );
            }
            Life::Warm { expires, .. } if expires <= now => self.stop_instance(id, StopReason::Aged),
            Life::Warm { since, expires, probing: Some(probing) } if probing.next <= now => {
                let probing = Some(Probing { next: now.after(PROBE_EVERY), asked: true, ..probing });
                pool.become_(id, Life::Warm { since, expires, probing });
                let probe = pool.instances[&id].made.template.probe.clone();
                self.out.push_back(Output::Probe { instance: id, probe });
                self.set_instance_timer(id);
            }
            Life::Stopping { since, why, tries, retry_at, told } if retry_at <= now => {
                let life = pool.stopping_life(now, since, why, tries + 1);
                pool.become_(id, life);
                self.out.push_back(Output::Stop { instance: id, grace: std::time::Duration::ZERO });
                if !told {
                    let what = What::InstanceStuck("nothing was heard of its end".into(), tries);
                    self.tell(what, Some(&home), Some(id));
                }
                self.set_instance_timer(id);
            }
            Life::Starting { .. }
            | Life::Unseen { .. }
            | Life::Warm { .. }
            | Life::Leased { .. }
            | Life::Stopping { .. } => {
                self.set_instance_timer(id);
            }
        }
    }

    /// Gives an instance the entry its state asks for; a leased one has none, its lease has.
    pub(super) fn set_instance_timer(&mut self, id: InstanceId) {
        let home = self.homes[&id].clone();
        let at = match &self.pools[&home].instances[&id].life {
            Life::Starting { deadline } | Life::Unseen { deadline, .. } => Some(*deadline),
            Life::Warm { expires, probing, .. } => {
                Some(probing.map_or(*expires, |probing| probing.next.min(*expires)))
            }
            Life::Leased { .. } => None,
            Life::Stopping { retry_at, .. } => Some(*retry_at),
        };
        match at {
            Some(at) => self.timers.set(Timer::Instance(home, id), at),
            None => self.timers.clear(&Timer::Instance(home, id)),
        }
    }

    fn watch_telemetry(&mut self) {
        if self.first_look_is_due() {
            return;
        }
        let known = match self.belief.memory.reading(self.now).known() {
            Ok(_) => None,
            Err(why) => Some(why.to_owned()),
        };
        match (known, self.belief.told_known) {
            (Some(why), true) => {
                self.belief.told_known = false;
                self.tell(What::TelemetryLost(why), None, None);
            }
            (None, false) => {
                self.belief.told_known = true;
                self.tell(What::TelemetryBack, None, None);
            }
            (Some(_), false) | (None, true) => {}
        }
    }

    /// Whether the first look at the host is on its way.
    pub(super) fn first_look_is_due(&self) -> bool {
        self.belief.memory.never_tried() && self.now.since(self.since) <= UNKNOWN_AFTER
    }

    /// Says when a disk becomes too full, and when it is so no more. One that cannot be read says neither.
    fn watch_disks(&mut self) {
        let low = match admission::disk_trouble(&self.profile.host, &self.belief, self.now) {
            Some(Why::NoTelemetry(_)) => return,
            low => low,
        };
        match (low, self.belief.told_disk) {
            (Some(why), false) => {
                self.belief.told_disk = true;
                self.tell(What::DiskLow(why), None, None);
            }
            (None, true) => {
                self.belief.told_disk = false;
                self.tell(What::DiskRoom, None, None);
            }
            (Some(_), true) | (None, false) => {}
        }
    }

    /// Whether anything is lent: nothing is that cannot be written down.
    pub(super) fn lends(&self) -> bool {
        self.records.trouble.is_none()
    }

    /// Gives every warm instance that somebody waits for to who waits for it.
    pub(super) fn serve_all(&mut self) {
        if !self.lends() {
            return;
        }
        for name in self.pools.keys().cloned().collect::<Vec<_>>() {
            loop {
                let pool = &self.pools[&name];
                let Some((.., instance)) = pool.ready.first() else { break };
                let Some(place) = pool.next() else { break };
                let (lease, instance) = (pool.queue.at(place).lease.clone(), *instance);
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
            hold: None,
        };
        let due = lease.due();
        let (home, class) = (lease.pool.clone(), lease.class.clone());
        let caller = lease.caller.take();
        let pool = self.pool(&home);
        pool.dequeue(place, true);
        pool.demand.lent(now, &class);
        pool.tally_of(&class).grant(waited);
        pool.become_(instance, Life::Leased { lease: id.clone(), class });
        self.set_instance_timer(instance);
        self.timers.set(Timer::Lease(id.clone()), due);
        self.tell_of_lease(What::LeaseGranted(waited), id, Some(instance));
        self.record_promise(id, caller);
        if let Some(call) = caller {
            self.show(call, id);
        }
        self.answer_watchers(id);
    }

    /// Looks what demand comes to, and when to look again, as it fades without a word.
    fn plan_stock(&mut self) {
        let now = self.now;
        for (name, pool) in &mut self.pools {
            pool.plan.refresh(now, &pool.demand, &pool.spec, &self.profile.classes);
            let stock = pool.stock();
            pool.held.note(now, stock);
            let rests = pool.held.largest() <= pool.spec.warm.min;
            let timer = Timer::Stock(name.clone());
            match (rests, self.timers.has(&timer)) {
                (false, false) => self.timers.set(timer, now.after(scaling::LOOK)),
                (true, true) => self.timers.clear(&timer),
                (true, false) | (false, true) => {}
            }
        }
    }

    fn stop_surplus(&mut self) {
        for name in self.pools.keys().cloned().collect::<Vec<_>>() {
            let pool = &self.pools[&name];
            let closed = if pool.removed {
                Some(StopReason::Removed)
            } else {
                pool.drain().map(|_| StopReason::Drain)
            };
            if let Some(why) = closed
                && pool.counts.starting > 0
            {
                self.stop_starting(&name, why);
            }
            let pool = &self.pools[&name];
            let first: Vec<_> = pool.dispensable().take(pool.too_many() as usize).collect();
            for id in first {
                let open = if self.pools[&name].is_outdated(id) {
                    StopReason::Outdated
                } else {
                    StopReason::Surplus
                };
                self.stop_instance(id, closed.unwrap_or(open));
            }
        }
    }

    fn stop_starting(&mut self, name: &PoolName, why: StopReason) {
        let starting = self.pools[name].instances.iter().filter(|(_, instance)| instance.life.is_starting());
        for id in starting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.stop_instance(id, why);
        }
    }

    /// Starts what is wanted, one at a time and the most urgent first, since each start changes what is.
    fn start_wanted(&mut self) {
        loop {
            let first = self.stock_that_is_short();
            self.start_beside(first);
            // Where it has been started, or is another's by now, more may begin.
            if self.stock_that_is_short() == first {
                return;
            }
        }
    }

    /// As much of what is wanted as may be; stock that is worth much less leaves this much to what is short.
    fn start_beside(&mut self, first: Option<(u32, Promised)>) {
        let now = self.now;
        let mut wishes: Vec<(Urgency, PoolName)> = Vec::new();
        for pool in self.pools.values_mut() {
            pool.blocked_by = None;
            wishes.extend(placement::urgency(pool).map(|urgency| (urgency, pool.name.clone())));
        }
        let mut starting = self.pools.values().map(|pool| pool.counts.starting).sum();
        // Summed up only when somebody's start depends on it.
        let mut promised: Option<Promised> = None;
        // What waiting requests need that the host has not: refill leaves it to them, and to those that are late so do
        // others that wait, or large ones would wait for ever while small ones pass.
        let (mut ahead, mut late) = (Promised::default(), Promised::default());
        while let Some((urgency, next)) = wishes.iter().min().cloned() {
            wishes.retain(|(_, name)| *name != next);
            let pool = &self.pools[&next];
            let refill = matches!(urgency, Urgency::Refill(_) | Urgency::Exchange);
            let sum = || promised.unwrap_or_else(|| self.promised());
            let mut ahead_of_it = if refill { ahead } else { late };
            if let Some((most, its)) = &first
                && refill
                && placement::outbids(*most, pool.worth_of_next())
            {
                ahead_of_it.join(*its);
            }
            let asked = self.asked(pool, (starting, refill, ahead_of_it), &sum);
            let objection = asked.objection();
            let summed = asked.promised.into_inner();
            promised = promised.or(summed);
            if let Some(why) = objection {
                if let Urgency::Waiting(promised) = urgency
                    && why.is_shortage()
                {
                    ahead.add(Share::of_new(&pool.expected), pool.cpu_expected, &pool.spec);
                    if promised < now {
                        late.add(Share::of_new(&pool.expected), pool.cpu_expected, &pool.spec);
                    }
                }
                let pool = self.pool(&next);
                let its_turn = matches!(why, Why::Starts { .. } | Why::StartPace { .. });
                pool.kept_since = its_turn.then(|| pool.kept_since.unwrap_or(now));
                pool.blocked_by = Some(why);
                continue;
            }
            if let Some(promised) = &mut promised {
                promised.add(Share::of_new(&pool.expected), pool.cpu_expected, &pool.spec);
            }
            starting += 1;
            self.start_one(&next);
            wishes.extend(placement::urgency(&self.pools[&next]).map(|urgency| (urgency, next)));
        }
    }

    /// All that is looked at for one more start of a pool: beside so many, for stock or for who waits, behind those.
    pub(super) fn asked<'a>(
        &'a self,
        pool: &'a Pool,
        (starting, refill, ahead): (u32, bool, Promised),
        sum: &'a dyn Fn() -> Promised,
    ) -> Asked<'a> {
        Asked {
            pool,
            profile: &self.profile,
            belief: &self.belief,
            pace: &self.pace,
            now: self.now,
            sight: self.belief.sight(&self.profile.host, self.now),
            before_look: self.first_look_is_due(),
            starting,
            refill,
            ahead,
            unwritten: self.records.trouble.as_deref(),
            promised: OnceCell::new(),
            sum,
        }
    }

    /// Where requests wait for what the host has no more of: stops what is warm beyond the stock of any pool, though it
    /// was wanted lately, one for each request; those that are being stopped already count.
    fn give_up_surplus(&mut self) -> bool {
        let short = |pool: &&Pool| pool.blocked_by.as_ref().is_some_and(Why::is_shortage);
        let waiting: u32 = self.pools.values().filter(short).map(Pool::lacking).sum();
        let stopping: u32 = self.pools.values().map(|pool| pool.counts.stopping).sum();
        let mut given_up = false;
        for _ in stopping..waiting {
            let spares = self.pools.values().filter(|pool| pool.to_spare() > 0);
            let Some(pool) = spares.max_by_key(|pool| pool.to_spare()) else { break };
            let first = pool.dispensable().next().expect("a pool with a warm one to spare has one");
            self.stop_instance(first, StopReason::Surplus);
            given_up = true;
        }
        given_up
    }

    /// The stock that is worth most of what the host was short of when it was last tried, and what one more of it needs: what is
    /// worth much less leaves that much.
    fn stock_that_is_short(&self) -> Option<(u32, Promised)> {
        let short =
            |pool: &&Pool| pool.lacking() == 0 && pool.blocked_by.as_ref().is_some_and(Why::is_shortage);
        let pool = self.pools.values().filter(short).max_by_key(|pool| pool.worth_of_next())?;
        let mut its = Promised::default();
        its.add(Share::of_new(&pool.expected), pool.cpu_expected, &pool.spec);
        Some((pool.worth_of_next(), its))
    }

    /// Where stock of one pool is short of what the host has, and worth much more than the last of another: stops that one, and says so.
    /// Not while any is being stopped, whose room is not free yet.
    fn swap_stock(&mut self) -> bool {
        let now = self.now;
        let Some((worth, _)) = self.stock_that_is_short() else { return false };
        if self.pools.values().any(|pool| pool.counts.stopping > 0 || pool.lacking() > 0) {
            return false;
        }
        let settled = |pool: &&Pool| {
            let first = pool.dispensable().next().map(|id| &pool.instances[&id].life);
            let since =
                matches!(first, Some(Life::Warm { since, .. }) if now.since(*since) >= placement::SETTLED);
            since && pool.counts.warm > pool.askers()
        };
        let least = self.pools.values().filter(settled).min_by_key(|pool| pool.worth_of_last());
        let Some(pool) = least.filter(|pool| placement::outbids(worth, pool.worth_of_last())) else {
            return false;
        };
        let first = pool.dispensable().next().expect("it has a warm one that has settled");
        self.stop_instance(first, StopReason::Outbid);
        true
    }

    /// What all instances are counted with.
    pub(super) fn promised(&self) -> Promised {
        let mut sum = Promised::default();
        for pool in self.pools.values() {
            sum.join(pool.promised(self.now));
        }
        sum
    }

    fn start_one(&mut self, name: &PoolName) {
        self.ordered = self.ordered.checked_add(1).expect("a run lasts for fewer than 2^32 starts");
        let id = InstanceId { run: self.run, count: self.ordered };
        let now = self.now;
        let alone = self.pools.values().all(|pool| pool.counts.starting == 0);
        let pool = self.pool(name);
        pool.tally.starts = pool.tally.starts.saturating_add(1);
        let (deadline, made) = (pool.begin(id, now, alone), pool.spec.clone());
        self.homes.insert(id, name.clone());
        self.set_instance_timer(id);
        self.record_instance(id);
        self.say_recorded(Output::Start { instance: id, pool: name.clone(), made, deadline });
        let (what, pool) = (What::InstanceStarting, Some(name.clone()));
        self.say_recorded(Output::Tell(Event { what, pool, instance: Some(id), lease: None, tenant: None }));
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
