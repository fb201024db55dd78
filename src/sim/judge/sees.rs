//! What the judge says of what comes out.

use std::sync::Arc;
use std::time::Duration;

use super::{BELIEVED, Found, Judge, Known, LAG, OVERHEAD, Over, Seen};
use crate::control::message::{
    Acquire, CallId, Cancelled, Deadline, End, Event, Failure, InstanceId, InstanceRecord,
    InstanceRecordState, Interruption, Kills, LeaseId, LeaseRecordState, LeaseState, LeaseView, Output,
    Record, Refusal, Reply, Scope, StopReason, What, Why,
};
use crate::profile::{Pool, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

impl Judge {
    /// Something came out.
    pub(in crate::sim) fn see(&mut self, output: &Output) -> Found {
        match output {
            Output::Start { instance, made, .. } => self.see_order(*instance, made),
            Output::Record(number, record) => self.see_record(*number, record),
            Output::Adopt { instance, made, .. } => {
                let seen = self.instances.get(instance);
                let counts = |pool: &Pool| (pool.template.memory_max, pool.template.cpus, pool.memory_expect);
                let same = |seen: &Seen| counts(&seen.made) == counts(made);
                let there = seen.is_some_and(|seen| !seen.gone && !seen.stop && same(seen));
                hold(there, || format!("{instance} is adopted as {made:?} and is {seen:?}"))
            }
            Output::Stop { instance, .. } => self.see_stop(*instance),
            Output::Probe { instance, probe } => {
                let seen = self.instances.get_mut(instance).ok_or("a probe of nothing")?;
                seen.asked = true;
                let idle = seen.ready && !seen.stop && seen.lent.is_none();
                let right = idle && *probe == seen.made.template.probe;
                hold(right, || format!("{instance} is probed and is {seen:?}"))
            }
            Output::Reclaim(id) => {
                let idle = self
                    .instances
                    .get(id)
                    .is_some_and(|seen| seen.ready && !seen.stop && seen.lent.is_none());
                hold(idle, || format!("{id} is asked for memory and is not idle"))
            }
            Output::Ceilings(ceilings) => self.see_ceilings(ceilings),
            Output::Reply(call, reply) => self.see_reply(*call, reply),
            Output::Tell(event) => self.see_event(event),
        }
    }

    /// What is decided is written down first; here it is judged, and later that nothing was said too early.
    fn see_record(&mut self, number: u64, record: &Record) -> Found {
        match record {
            Record::Instance(InstanceRecord { id, pool, state: InstanceRecordState::Starting, .. }) => {
                self.see_start(*id, pool, number)
            }
            Record::Gone(id) => {
                if self.instances.get(id).is_some_and(|seen| !seen.ordered) {
                    self.bury(*id);
                }
                Ok(())
            }
            Record::Lease(lease) => {
                let known = self.leases.get_mut(&lease.id).ok_or("a record of an unknown lease")?;
                let granted = matches!(lease.state, LeaseRecordState::Executing { used: false, .. });
                let accepted = matches!(lease.state, LeaseRecordState::Queued { .. });
                if (granted && !known.used) || accepted {
                    (known.record, known.told) = (number, false);
                }
                Ok(())
            }
            Record::Instance(_) | Record::Drain(..) | Record::Undrained(_) | Record::Envelope(_) => Ok(()),
        }
    }

    fn see_order(&mut self, id: InstanceId, made: &Pool) -> Found {
        let seen = self.instances.get_mut(&id).ok_or("a start that was not written down")?;
        seen.ordered = true;
        let right = seen.record <= self.written && !seen.gone && seen.made.template == made.template;
        hold(right, || format!("{id} is started and is {seen:?}"))
    }

    fn see_start(&mut self, id: InstanceId, pool: &PoolName, record: u64) -> Found {
        let now = self.now;
        hold(self.engine, || format!("{id} is started while the engine is known not to answer"))?;
        hold(self.drain_of(pool).is_none(), || format!("{id} is started in {pool}, which is drained"))?;
        self.see_gate(true)?;
        let made = self.profile.pools.get(pool).cloned().map(Arc::new);
        let made =
            made.ok_or_else(|| format!("{id} is started in {pool}, which the profile does not have"))?;
        let (allowed, made_of) = (made.max_instances, Arc::clone(&made));
        let seen = Seen {
            pool: pool.clone(),
            made,
            older: false,
            record,
            ordered: false,
            ready: false,
            stop: false,
            exists_at: None,
            runs_at: None,
            dead: false,
            absent: false,
            asked: false,
            silences: 0,
            gone: false,
            unseen: false,
            lent: None,
            held: None,
            kills: Kills::default(),
            killed_at: None,
        };
        hold(self.instances.insert(id, seen).is_none(), || format!("{id} is started twice"))?;
        self.there.insert(id);
        let there = || self.there();
        let starting = there().filter(|seen| !seen.ready && !seen.stop).count();
        let most = self.profile.host.max_starts;
        hold(starting <= most as usize, || format!("{starting} starts are under way, {most} may be"))?;
        let many = there().filter(|seen| seen.pool == *pool).count();
        hold(many <= allowed as usize, || format!("{pool} has {many} instances, {allowed} may be"))?;
        let Some((memory, _)) = self.memory.filter(|_| self.sees()) else {
            return self.see_start_unseen(id, &made_of);
        };
        let promised: Bytes = there().map(|seen| self.promised(seen)).sum();
        let slack = there().map(|seen| self.slack(seen)).max().unwrap_or_default();
        let promised = promised.saturating_add(slack);
        let instances: u64 = self.profile.pools.values().map(|pool| u64::from(pool.max_instances)).sum();
        let outside = Bytes::new(OVERHEAD.get() * instances);
        let limit = memory.total.saturating_sub(self.profile.host.reserve_memory.of(memory.total));
        let limit = limit.saturating_sub(outside);
        hold(promised <= limit, || format!("{promised} are promised with {id}, of {limit}"))?;
        let floor = self.profile.host.floor.of(memory.total);
        // What was seen available loses what the others have still to grow, and this one.
        let growth: Bytes = there().map(|seen| self.growth(seen)).sum();
        let least = floor.saturating_add(growth).saturating_add(OVERHEAD);
        let available = memory.available;
        hold(available >= least, || format!("{id} is started into {available}, least is {least}"))?;
        let Some((cores, _)) = self.cores.filter(|(_, at)| now.since(*at) <= BELIEVED) else {
            return Err(format!("{id} is started and the host's processors are not known"));
        };
        let host = &self.profile.host;
        let most = cores.saturating_sub(host.reserve_cpu).scaled(host.cpu_overcommit);
        let cpus: MilliCpu = there().map(|seen| seen.made.cpus_expect).sum();
        hold(cpus <= most, || format!("{cpus} cores are promised with {id}, of {most}"))?;
        self.see_space(id)
    }

    /// No start makes more possible that the kernel cannot have, or begins on a disk that is nearly full.
    fn see_space(&self, id: InstanceId) -> Found {
        let now = self.now;
        let Some((pids, _)) = self.pids.filter(|(_, at)| now.since(*at) <= BELIEVED) else {
            return Err(format!("{id} is started and the host's pids are not known"));
        };
        let promised: u64 = self.there().map(|seen| u64::from(seen.made.template.pids)).sum();
        let most = pids.most - pids.most * u64::from(self.profile.host.reserve_pids.get()) / 1000;
        let others = pids.there - pids.ours;
        hold(promised + others <= most, || format!("{promised} and {others} pids with {id}, of {most}"))?;
        for disk in self.disks {
            let Some((disk, _)) = disk.filter(|(_, at)| now.since(*at) <= BELIEVED) else {
                return Err(format!("{id} is started and a disk is not known"));
            };
            let few = disk.inodes.is_some_and(|inodes| inodes.free < inodes.total / 50);
            let floor = self.profile.host.disk_floor.of(disk.total);
            hold(disk.free >= floor && !few, || format!("{id} is started on {disk:?}"))?;
        }
        Ok(())
    }

    /// What it is expected to need, if it needs no more than most.
    pub(super) fn expected(&self, seen: &Seen) -> Bytes {
        let declared = seen.made.memory_expect.min(seen.made.template.memory_max);
        let learned = self.envelopes.get(&seen.pool).filter(|_| !self.is_outdated(seen));
        learned.map_or(declared, |(usual, _)| *usual)
    }

    /// The least that an instance must be counted with.
    fn promised(&self, seen: &Seen) -> Bytes {
        let (expected, most) = (self.expected(seen), seen.made.template.memory_max);
        let has_taught = self.envelopes.get(&seen.pool).is_some_and(|(_, lives)| *lives >= super::ENOUGH);
        match seen.held {
            None => expected,
            Some((held, at)) if self.now.since(at) <= BELIEVED && held <= expected => expected,
            // Of those that grew as large it may be known how much further they went.
            Some((held, at)) if self.now.since(at) <= BELIEVED && has_taught => held,
            Some((held, _)) => most.max(held),
        }
    }

    /// How far it may outgrow its expectation.
    fn slack(&self, seen: &Seen) -> Bytes {
        seen.made.template.memory_max.saturating_sub(self.promised(seen))
    }

    /// The least that an instance will still come to hold.
    fn growth(&self, seen: &Seen) -> Bytes {
        let Some((held, _)) = seen.held else {
            return if seen.stop { Bytes::ZERO } else { self.expected(seen) };
        };
        if seen.stop { Bytes::ZERO } else { self.promised(seen).saturating_sub(held) }
    }

    fn see_stop(&mut self, id: InstanceId) -> Found {
        if let Some(seen) = self.instances.get_mut(&id).filter(|seen| !seen.gone) {
            seen.stop = true;
            let lent = seen.lent.clone();
            let live = lent.is_some_and(|lease| !self.has_ended(&lease));
            return hold(!live, || format!("{id} is stopped under its lease"));
        }
        let since = self.strangers.get(&id).map(|at| self.now.since(*at));
        hold(since >= Some(Duration::from_secs(10)), || format!("stranger {id} is stopped after {since:?}"))
    }

    fn see_reply(&mut self, call: CallId, reply: &Reply) -> Found {
        let heard = self.calls.remove(&call);
        let heard = heard.ok_or_else(|| format!("{call:?} has no question for {reply:?}"))?;
        match reply {
            Reply::Lease(view) => {
                self.see_told(view)?;
                self.see_again(call, view)?;
                let known = self.leases.get(&view.id).ok_or("a lease that nobody asked for")?;
                let queued = matches!(view.state, LeaseState::Queued { .. });
                let blocks = known.call == call && !known.request.asynchronous;
                hold(!(blocks && queued), || format!("{call:?} was to be answered with a decision"))?;
                self.see_view(view)
            }
            Reply::ExplainLease(view) => {
                self.see_told(&view.lease)?;
                self.see_view(&view.lease)
            }
            Reply::Leases(all) => {
                all.iter().try_for_each(|view| self.see_told(view))?;
                all.iter().try_for_each(|view| self.see_view(view))
            }
            Reply::Use { instance, .. } => {
                let lent = self.instances.get(instance).and_then(|seen| seen.lent.as_ref());
                let live = lent.is_some_and(|lease| !self.has_ended(lease));
                // An answer that has waited for a record says how it was.
                hold(live || heard < self.now, || format!("{instance} may be used and is lent to {lent:?}"))
            }
            Reply::Permit(permit) => self.see_permit(call, permit),
            Reply::Refused(refusal) => match &**refusal {
                Refusal::OtherTask(task, _) => self.see_other_task(call, task),
                Refusal::Limit { .. }
                | Refusal::NoSuchPool(..)
                | Refusal::NoSuchClass(..)
                | Refusal::NoSuchProvider(..)
                | Refusal::NoSuchLease(_)
                | Refusal::NotExecuting(_)
                | Refusal::CannotChange(_) => {
                    self.again.remove(&call);
                    self.leave_permit(call);
                    Ok(())
                }
            },
            Reply::Providers(_)
            | Reply::Pools(_)
            | Reply::Explain(_)
            | Reply::Host(_)
            | Reply::Reloaded(_) => Ok(()),
        }
    }

    /// What is told of a lease must have been written.
    fn see_told(&mut self, view: &LeaseView) -> Found {
        let written = self.written;
        let known = self.leases.get_mut(&view.id).ok_or("a view of a lease that nobody asked for")?;
        let promised = match &view.state {
            LeaseState::Executing { .. } => true,
            LeaseState::Queued { .. } => known.request.asynchronous && known.granted.is_none(),
            LeaseState::Ended { .. } => false,
        };
        known.told |= promised;
        hold(!promised || known.record <= written, || format!("{view:?} is told before it is written"))
    }

    fn see_view(&self, view: &LeaseView) -> Found {
        if view.seen_at < self.now {
            return Ok(()); // It has waited for a record, and says how it was.
        }
        let known = self.leases.get(&view.id).ok_or("a view of a lease that nobody asked for")?;
        let (granted, ended) = (known.granted.map(|(instance, _)| instance), known.ended);
        let right = match &view.state {
            LeaseState::Queued { deadline, .. } => {
                granted.is_none() && !ended && *deadline == known.asked_at.after(known.wait)
            }
            LeaseState::Executing { instance, used, deadline, draining, hold, .. } => {
                granted == Some(*instance)
                    && !ended
                    && (*used, *deadline) == (known.used, known.deadline)
                    && hold.as_ref().map(|hold| (hold.since, hold.until)) == known.hold
                    && *draining == self.drain_of(&known.pool)
            }
            LeaseState::Ended { .. } => ended,
        };
        let right = right && view.pool == known.pool && view.degraded_from == known.degraded_from;
        hold(right, || format!("{view:?} is shown of {known:?}"))
    }

    /// When a drain that this pool is under interrupts.
    fn drain_of(&self, pool: &PoolName) -> Option<Instant> {
        let own = self.drains.get(&Scope::Pool(pool.clone()));
        own.into_iter().chain(self.drains.get(&Scope::Host)).min().copied()
    }

    fn see_event(&mut self, event: &Event) -> Found {
        match (&event.what, event.instance, &event.lease) {
            (What::LeaseGranted(_), Some(instance), Some(lease)) => self.see_grant(instance, lease),
            (What::LeaseDegraded { from, .. }, _, Some(lease)) => {
                let pool = event.pool.as_ref().ok_or("a lease is sent on to no pool")?;
                self.see_degraded(lease, from, pool)
            }
            (What::LeaseQueued, _, Some(lease)) => {
                self.live.insert(lease.clone());
                self.watch(lease);
                self.see_alone(lease)?;
                self.see_queued(lease)
            }
            (What::PoolGone, ..) => {
                let pool = event.pool.clone().ok_or("a pool without a name is gone")?;
                self.drains.remove(&Scope::Pool(pool.clone()));
                let right = !self.has_pool(&pool);
                hold(right, || format!("{pool} is gone, and something of it is left"))
            }
            (What::LeaseEnded(end), _, Some(lease)) => self.see_end(lease, end),
            (What::LeaseHeld(..) | What::LeaseResumed(_) | What::HoldRefused(_), ..) => self.see_hold(event),
            (What::Pressure(..) | What::ReliefAsks(..) | What::ReliefEnds(..), ..) => {
                self.see_pressure(event)
            }
            (What::RequestRefused(Why::UnderPressure { .. }), ..) => self.see_gate(false),
            (What::InstanceGone, Some(id), _) => {
                self.bury(id);
                let seen = self.instances.get(&id).ok_or("something unknown is gone")?;
                hold(seen.absent && seen.stop, || format!("{id} is gone and is {seen:?}"))
            }
            (What::InstanceStopping(why), Some(id), _) => {
                let Some(seen) = self.instances.get(&id).filter(|seen| !seen.gone) else {
                    return hold(*why == StopReason::Unknown, || format!("stranger {id} stops for {why:?}"));
                };
                let right = match why {
                    StopReason::Died => seen.dead,
                    StopReason::Outbid => seen.ready && seen.lent.is_none() && !self.is_awaited(&seen.pool),
                    StopReason::OutOfMemory => seen.lent.is_none() && seen.killed_at == Some(self.now),
                    StopReason::Unanswering => seen.silences >= 2 || seen.unseen,
                    StopReason::Drain => self.drain_of(&seen.pool).is_some(),
                    StopReason::Pressure => self.relieved(id, None),
                    StopReason::Removed => !self.profile.pools.contains_key(&seen.pool),
                    StopReason::Outdated => {
                        let exchanged = self.is_outdated(seen)
                            && (!self.is_awaited(&seen.pool) || self.is_above_ceiling(&seen.pool));
                        seen.lent.is_none() && (exchanged || seen.unseen)
                    }
                    StopReason::Used => seen.lent.is_some(),
                    StopReason::StartFailed | StopReason::Aged | StopReason::Surplus => seen.lent.is_none(),
                    StopReason::Interrupted => seen.lent.as_ref().is_none_or(|lease| self.has_ended(lease)),
                    StopReason::Unknown => false,
                };
                hold(right, || format!("{id} stops for {why:?} and is {seen:?}"))
            }
            _ => Ok(()),
        }
    }

    /// No more of a tenant's wait in a class and pool than may, beside those for whom starts were under way or could be.
    fn see_queued(&self, lease: &LeaseId) -> Found {
        let Known { request, pool: place, .. } = &self.leases[lease];
        let pool = &self.profile.pools[place];
        let class = |request: &Acquire| request.class.clone().unwrap_or_else(|| pool.default_class.clone());
        let class_of_it = class(request);
        let waits = |id: &&LeaseId| {
            let known = &self.leases[*id];
            known.granted.is_none()
                && known.pool == *place
                && known.request.tenant == request.tenant
                && class(&known.request) == class_of_it
        };
        let class = &self.profile.classes[&class_of_it];
        // A reload may have lowered the ceiling below what is being started.
        let starts = |seen: &&Seen| seen.pool == *place && !(seen.ready || seen.stop || seen.gone);
        let starting = self.there().filter(starts).count();
        let most = class.max_queued as usize + starting.max(pool.max_instances as usize);
        if self.live.len() <= most {
            return Ok(()); // Whoever they are.
        }
        let many = self.live.iter().filter(waits).count();
        hold(many <= most, || {
            let tenant = &request.tenant;
            format!("{many} of {tenant} in class {class_of_it} wait in {place}, {most} may")
        })
    }

    /// Whether an instance is not of its pool's newest template.
    fn is_outdated(&self, seen: &Seen) -> bool {
        let newest = self.profile.pools.get(&seen.pool);
        let differs = |pool: &Pool| (pool.kind, &pool.template) != (seen.made.kind, &seen.made.template);
        newest.is_some_and(|pool| seen.older || differs(pool))
    }

    /// Whether a pool had more than a reload allows before the last of it was stopped.
    fn is_above_ceiling(&self, pool: &PoolName) -> bool {
        let left = self.there().filter(|seen| seen.pool == *pool && !seen.stop).count();
        self.profile.pools.get(pool).is_some_and(|spec| left >= spec.max_instances as usize)
    }

    /// Whether somebody waits for this pool.
    fn is_awaited(&self, pool: &PoolName) -> bool {
        let waits = |id: &LeaseId| self.leases[id].granted.is_none() && self.leases[id].pool == *pool;
        self.live.iter().any(waits)
    }

    fn see_grant(&mut self, id: InstanceId, lease: &LeaseId) -> Found {
        let now = self.now;
        let pool = self.instances.get(&id).map(|seen| seen.pool.clone());
        pool.map_or(Ok(()), |pool| self.see_gate_of_provider(&pool))?;
        let seen = self.instances.get_mut(&id).ok_or("something unknown is lent")?;
        let known = self.leases.get_mut(lease).ok_or("it is lent to nobody")?;
        let fit = seen.ready && !seen.unseen && !seen.stop && !seen.gone && seen.pool == known.pool;
        hold(fit, || format!("{id} is lent and is {seen:?}"))?;
        hold(seen.lent.is_none(), || format!("{id} is lent to {lease} and was to {:?}", seen.lent))?;
        let free = known.granted.is_none() && !known.ended;
        hold(free, || format!("{lease} is granted and is {known:?}"))?;
        let late = now > known.asked_at.after(known.wait);
        hold(!late, || format!("{lease} is granted after its wait: {known:?}"))?;
        let most = known.deadlines.max_runtime;
        let runtime = known.request.max_runtime.unwrap_or(most).min(most);
        known.granted = Some((id, now));
        known.active_at = now;
        known.deadline = now.after(runtime);
        seen.lent = Some(lease.clone());
        self.live.insert(lease.clone());
        self.watch(lease);
        self.see_alone(lease)
    }

    fn see_end(&mut self, lease: &LeaseId, end: &End) -> Found {
        let known = self.leases.get(lease).ok_or("an unknown lease ended")?;
        hold(!known.ended, || format!("{lease} ended twice"))?;
        let idle = self.idle_deadline(known);
        let drain = self.drain_of(&known.pool);
        let seen = known.granted.map(|(instance, _)| &self.instances[&instance]);
        let due = |at: Instant| at <= self.now;
        let right = match end {
            End::Completed => known.released && seen.is_some(),
            End::Cancelled(Cancelled::ByCaller) => known.cancelled || (known.released && seen.is_none()),
            End::Cancelled(Cancelled::CallerGone) => known.left,
            End::Failed(Failure::Died(_)) => seen.is_some_and(|seen| seen.dead),
            End::Failed(Failure::OutOfMemory(_)) => {
                let soon = |at| self.now.since(at) <= Duration::from_secs(2);
                seen.is_some_and(|seen| seen.dead && seen.killed_at.is_some_and(soon))
            }
            End::Failed(Failure::Vanished) => seen.is_some_and(|seen| seen.absent),
            End::Failed(Failure::Overran) => known.overran,
            End::Expired(Deadline::Runtime) => seen.is_some() && due(known.deadline),
            End::Expired(Deadline::Hold) => seen.is_some() && known.hold.is_some_and(|(_, until)| due(until)),
            End::Expired(Deadline::Idle) => {
                seen.is_some()
                    && known.used
                    && known.hold.is_none()
                    && !self.waits_for_permit(known)
                    && due(idle)
            }
            End::Expired(Deadline::FirstUse) => seen.is_some() && !known.used && due(idle),
            End::Interrupted(Interruption::Pressure) => {
                known.granted.is_some_and(|(id, _)| self.relieved(id, Some(lease)))
            }
            End::Interrupted(Interruption::Drain) => seen.is_some() && drain.is_some_and(due),
            End::Interrupted(Interruption::PoolRemoved) => {
                seen.is_some() && !self.profile.pools.contains_key(&known.pool)
            }
            End::Interrupted(Interruption::HostLost) => false,
            End::Refused(Why::NotRecorded(_)) => !known.told,
            End::Refused(Why::HostDraining | Why::PoolDraining) => seen.is_none() && drain.is_some(),
            End::Refused(Why::PoolRemoved) => seen.is_none() && !self.profile.pools.contains_key(&known.pool),
            End::Refused(why) => {
                let over = due(known.asked_at.after(known.wait));
                matches!(why, Why::WaitExpired { .. }) && seen.is_none() && over
            }
        };
        hold(right, || format!("{lease} ended {end:?} and is {known:?} on {seen:?}"))?;
        if let (End::Refused(Why::NotRecorded(_)), Some((id, _))) = (end, known.granted) {
            // Nobody has had it: it may be lent again.
            self.instances.get_mut(&id).expect("what was lent is known").lent = None;
        }
        self.mark(lease, |known| known.ended = true);
        self.live.remove(lease);
        self.over.push_back((self.now, Over::Lease(lease.clone())));
        Ok(())
    }

    fn idle_deadline(&self, known: &Known) -> Instant {
        let deadlines = &known.deadlines;
        let idle = known.request.idle_timeout.unwrap_or(deadlines.idle_timeout).min(deadlines.idle_timeout);
        known.active_at.after(if known.used { idle } else { deadlines.first_use_timeout })
    }

    /// All that a word led to has come out: no lease is past what it was promised.
    pub(in crate::sim) fn rest(&mut self) -> Found {
        self.rest_of_pressure()?;
        self.rest_of_permits()?;
        self.forget();
        while let Some((at, _)) = self.watched.first()
            && at.after(LAG) < self.now
            && let Some((_, id)) = self.watched.pop_first()
        {
            if self.live.contains(&id) {
                let (due, now) = (self.due(&self.leases[&id]), self.now);
                hold(now <= due.after(LAG), || format!("{id} goes on after {due}: {:?}", self.leases[&id]))?;
                self.watched.insert((due, id));
            }
        }
        Ok(())
    }

    /// Looks at this lease when something of it is due, as things are now; what comes later only puts it off.
    pub(super) fn watch(&mut self, id: &LeaseId) {
        if let Some(known) = self.leases.get(id) {
            self.watched.insert((self.due(known), id.clone()));
        }
    }

    /// When something of this lease is due.
    fn due(&self, known: &Known) -> Instant {
        match known.granted {
            None => known.asked_at.after(known.wait),
            Some(_) => {
                let drain = self.drain_of(&known.pool).unwrap_or(known.deadline);
                let idle =
                    if self.waits_for_permit(known) { known.deadline } else { self.idle_deadline(known) };
                let waits = known.hold.map_or(idle, |(_, until)| until);
                known.deadline.min(waits).min(drain)
            }
        }
    }
}

pub(super) fn hold(right: bool, otherwise: impl FnOnce() -> String) -> Found {
    if right { Ok(()) } else { Err(otherwise()) }
}
