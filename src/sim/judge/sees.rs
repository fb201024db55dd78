//! What the judge says of what comes out.

use std::time::Duration;

use super::{BELIEVED, Found, Judge, Known, LAG, OVERHEAD, Seen};
use crate::control::message::{
    CallId, Cancelled, Deadline, End, Event, Failure, InstanceId, Interruption, LeaseId, LeaseState,
    LeaseView, Output, Reply, Scope, StopReason, What, Why,
};
use crate::profile::PoolName;
use crate::quantity::{Bytes, Instant, MilliCpu};

impl Judge {
    /// Something came out.
    pub(in crate::sim) fn see(&mut self, output: &Output) -> Found {
        match output {
            Output::Start { instance, pool, .. } => self.see_start(*instance, pool),
            Output::Stop { instance, .. } => self.see_stop(*instance),
            Output::Probe { instance, .. } => {
                let seen = self.instances.get_mut(instance).ok_or("a probe of nothing")?;
                seen.asked = true;
                let idle = seen.ready && !seen.stop && seen.lent.is_none();
                hold(idle, || format!("{instance} is probed and is {seen:?}"))
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

    fn see_start(&mut self, id: InstanceId, pool: &PoolName) -> Found {
        let now = self.now;
        hold(self.engine, || format!("{id} is started while the engine is known not to answer"))?;
        hold(self.drain_of(pool).is_none(), || format!("{id} is started in {pool}, which is drained"))?;
        self.see_gate(true)?;
        let spec = &self.profile.pools[pool];
        let seen = Seen {
            pool: pool.clone(),
            ready: false,
            stop: false,
            exists_at: None,
            runs_at: None,
            dead: false,
            absent: false,
            asked: false,
            silences: 0,
            gone: false,
            lent: None,
            held: None,
        };
        hold(self.instances.insert(id, seen).is_none(), || format!("{id} is started twice"))?;
        let there = || self.instances.values().filter(|seen| !seen.gone);
        let starting = there().filter(|seen| !seen.ready && !seen.stop).count();
        let most = self.profile.host.max_starts;
        hold(starting <= most as usize, || format!("{starting} starts are under way, {most} may be"))?;
        let many = there().filter(|seen| seen.pool == *pool).count();
        let most = spec.max_instances;
        hold(many <= most as usize, || format!("{pool} has {many} instances, {most} may be"))?;
        let Some((memory, _)) = self.memory.filter(|(_, at)| now.since(*at) <= BELIEVED) else {
            return Err(format!("{id} is started and the host's memory is not known"));
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
        let cpus: MilliCpu = there().map(|seen| self.profile.pools[&seen.pool].template.cpus).sum();
        hold(cpus <= most, || format!("{cpus} cores are promised with {id}, of {most}"))
    }

    /// The least that an instance must be counted with.
    fn promised(&self, seen: &Seen) -> Bytes {
        let spec = &self.profile.pools[&seen.pool];
        match seen.held {
            None => spec.memory_expect,
            Some((held, at)) if self.now.since(at) <= BELIEVED && held <= spec.memory_expect => {
                spec.memory_expect
            }
            Some((held, _)) => spec.template.memory_max.max(held),
        }
    }

    /// How far it may outgrow its expectation.
    fn slack(&self, seen: &Seen) -> Bytes {
        let spec = &self.profile.pools[&seen.pool];
        spec.template.memory_max.saturating_sub(spec.memory_expect)
    }

    /// The least that an instance will still come to hold.
    fn growth(&self, seen: &Seen) -> Bytes {
        let Some((held, _)) = seen.held else {
            return if seen.stop { Bytes::ZERO } else { self.profile.pools[&seen.pool].memory_expect };
        };
        if seen.stop { Bytes::ZERO } else { self.promised(seen).saturating_sub(held) }
    }

    fn see_stop(&mut self, id: InstanceId) -> Found {
        if let Some(seen) = self.instances.get_mut(&id).filter(|seen| !seen.gone) {
            seen.stop = true;
            let live = seen.lent.as_ref().is_some_and(|lease| !self.leases[lease].ended);
            return hold(!live, || format!("{id} is stopped under its lease"));
        }
        let since = self.strangers.get(&id).map(|at| self.now.since(*at));
        hold(since >= Some(Duration::from_secs(10)), || format!("stranger {id} is stopped after {since:?}"))
    }

    fn see_reply(&mut self, call: CallId, reply: &Reply) -> Found {
        hold(self.calls.remove(&call).is_some(), || format!("{call:?} has no question for {reply:?}"))?;
        match reply {
            Reply::Lease(view) => {
                let known = self.leases.get(&view.id).ok_or("a lease that nobody asked for")?;
                let queued = matches!(view.state, LeaseState::Queued { .. });
                let blocks = known.call == call && !known.request.asynchronous;
                hold(!(blocks && queued), || format!("{call:?} was to be answered with a decision"))?;
                self.see_view(view)
            }
            Reply::Leases(all) => all.iter().try_for_each(|view| self.see_view(view)),
            Reply::Use { instance, .. } => {
                let lent = self.instances.get(instance).and_then(|seen| seen.lent.as_ref());
                let live = lent.is_some_and(|lease| !self.leases[lease].ended);
                hold(live, || format!("{instance} may be used and is lent to {lent:?}"))
            }
            Reply::Pools(_) | Reply::Host(_) | Reply::Refused(_) => Ok(()),
        }
    }

    fn see_view(&self, view: &LeaseView) -> Found {
        let known = self.leases.get(&view.id).ok_or("a view of a lease that nobody asked for")?;
        let (granted, ended) = (known.granted.map(|(instance, _)| instance), known.ended);
        let right = match &view.state {
            LeaseState::Queued { deadline, .. } => {
                granted.is_none() && !ended && *deadline == known.asked_at.after(known.wait)
            }
            LeaseState::Executing { instance, used, deadline, draining, .. } => {
                granted == Some(*instance)
                    && !ended
                    && (*used, *deadline) == (known.used, known.deadline)
                    && *draining == self.drain_of(&known.request.pool)
            }
            LeaseState::Ended { .. } => ended,
        };
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
            (What::LeaseQueued, _, Some(lease)) => {
                self.live.insert(lease.clone());
                Ok(())
            }
            (What::LeaseEnded(end), _, Some(lease)) => self.see_end(lease, end),
            (What::Pressure(..) | What::ReliefAsks(..) | What::ReliefEnds(..), ..) => {
                self.see_pressure(event)
            }
            (What::RequestRefused(Why::UnderPressure { .. }), ..) => self.see_gate(false),
            (What::InstanceGone, Some(id), _) => {
                let seen = self.instances.get_mut(&id).ok_or("something unknown is gone")?;
                seen.gone = true;
                hold(seen.absent && seen.stop, || format!("{id} is gone and is {seen:?}"))
            }
            (What::InstanceStopping(why), Some(id), _) => {
                let Some(seen) = self.instances.get(&id).filter(|seen| !seen.gone) else {
                    return hold(*why == StopReason::Unknown, || format!("stranger {id} stops for {why:?}"));
                };
                let right = match why {
                    StopReason::Died => seen.dead,
                    StopReason::Unanswering => seen.silences >= 2,
                    StopReason::Drain => self.drain_of(&seen.pool).is_some(),
                    StopReason::Pressure => self.relieved(id, None),
                    StopReason::Used => seen.lent.is_some(),
                    StopReason::StartFailed | StopReason::Aged | StopReason::Surplus => seen.lent.is_none(),
                    StopReason::Unknown => false,
                };
                hold(right, || format!("{id} stops for {why:?} and is {seen:?}"))
            }
            _ => Ok(()),
        }
    }

    fn see_grant(&mut self, id: InstanceId, lease: &LeaseId) -> Found {
        let now = self.now;
        let seen = self.instances.get_mut(&id).ok_or("something unknown is lent")?;
        let known = self.leases.get_mut(lease).ok_or("it is lent to nobody")?;
        let fit = seen.ready && !seen.stop && !seen.gone && seen.pool == known.request.pool;
        hold(fit, || format!("{id} is lent and is {seen:?}"))?;
        hold(seen.lent.is_none(), || format!("{id} is lent to {lease} and was to {:?}", seen.lent))?;
        let free = known.granted.is_none() && !known.ended;
        hold(free, || format!("{lease} is granted and is {known:?}"))?;
        let late = now > known.asked_at.after(known.wait);
        hold(!late, || format!("{lease} is granted after its wait: {known:?}"))?;
        let most = self.profile.pools[&seen.pool].deadlines.max_runtime;
        let runtime = known.request.max_runtime.unwrap_or(most).min(most);
        known.granted = Some((id, now));
        known.active_at = now;
        known.deadline = now.after(runtime);
        seen.lent = Some(lease.clone());
        self.live.insert(lease.clone());
        Ok(())
    }

    fn see_end(&mut self, lease: &LeaseId, end: &End) -> Found {
        let known = self.leases.get(lease).ok_or("an unknown lease ended")?;
        hold(!known.ended, || format!("{lease} ended twice"))?;
        let idle = self.idle_deadline(known);
        let drain = self.drain_of(&known.request.pool);
        let seen = known.granted.map(|(instance, _)| &self.instances[&instance]);
        let due = |at: Instant| at <= self.now;
        let right = match end {
            End::Completed => known.released && seen.is_some(),
            End::Cancelled(Cancelled::ByCaller) => known.cancelled || (known.released && seen.is_none()),
            End::Cancelled(Cancelled::CallerGone) => known.left,
            End::Failed(Failure::Died(_)) => seen.is_some_and(|seen| seen.dead),
            End::Failed(Failure::Vanished) => seen.is_some_and(|seen| seen.absent),
            End::Failed(Failure::Overran) => known.overran,
            End::Expired(Deadline::Runtime) => seen.is_some() && due(known.deadline),
            End::Expired(Deadline::Idle) => seen.is_some() && known.used && due(idle),
            End::Expired(Deadline::FirstUse) => seen.is_some() && !known.used && due(idle),
            End::Interrupted(Interruption::Pressure) => {
                known.granted.is_some_and(|(id, _)| self.relieved(id, Some(lease)))
            }
            End::Interrupted(Interruption::Drain) => seen.is_some() && drain.is_some_and(due),
            End::Refused(Why::HostDraining | Why::PoolDraining) => seen.is_none() && drain.is_some(),
            End::Refused(why) => {
                let over = due(known.asked_at.after(known.wait));
                matches!(why, Why::WaitExpired { .. }) && seen.is_none() && over
            }
        };
        hold(right, || format!("{lease} ended {end:?} and is {known:?} on {seen:?}"))?;
        self.mark(lease, |known| known.ended = true);
        self.live.remove(lease);
        Ok(())
    }

    fn idle_deadline(&self, known: &Known) -> Instant {
        let deadlines = &self.profile.pools[&known.request.pool].deadlines;
        let idle = known.request.idle_timeout.unwrap_or(deadlines.idle_timeout).min(deadlines.idle_timeout);
        known.active_at.after(if known.used { idle } else { deadlines.first_use_timeout })
    }

    /// All that a word led to has come out: no lease is past what it was promised.
    pub(in crate::sim) fn rest(&self) -> Found {
        self.rest_of_pressure()?;
        for id in &self.live {
            let known = &self.leases[id];
            let due = match known.granted {
                None => known.asked_at.after(known.wait),
                Some(_) => {
                    let drain = self.drain_of(&known.request.pool).unwrap_or(known.deadline);
                    known.deadline.min(self.idle_deadline(known)).min(drain)
                }
            };
            hold(self.now <= due.after(LAG), || format!("{id} goes on after {due}: {known:?}"))?;
        }
        Ok(())
    }
}

pub(super) fn hold(right: bool, otherwise: impl FnOnce() -> String) -> Found {
    if right { Ok(()) } else { Err(otherwise()) }
}
