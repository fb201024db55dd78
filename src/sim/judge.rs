//! The judge: watches from outside, and does not trust what the controller believes.
//!
//! It hears each word as it is handed in and each output as it comes out, keeps its own small books of them,
//! and says what must not be: an instance lent twice, an answer that is missing or one too many, a start
//! beyond a limit or into the unknown, an end without its cause, a lease that outlives its deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::control::message::{
    Acquire, Call, CallId, Cancelled, Deadline, End, Engine, Event, Failure, HostMemory, Input, InstanceId,
    LeaseId, LeaseState, LeaseView, Listing, News, Output, Reply, Scope, StopReason, What, Why,
};
use crate::profile::{HostProfile, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// Nothing is done later than this after it is due: the loop's own delay.
pub(super) const LAG: Duration = Duration::from_millis(50);
/// As long as a figure is believed after it was read.
const BELIEVED: Duration = Duration::from_secs(10);
/// What an instance costs beside its own memory.
const OVERHEAD: Bytes = Bytes::mib(10);

type Found = Result<(), String>;

/// The judge's books.
#[derive(Debug)]
pub(super) struct Judge {
    profile: Arc<HostProfile>,
    now: Instant,
    engine: bool,
    memory: Option<(HostMemory, Instant)>,
    cores: Option<(MilliCpu, Instant)>,
    instances: BTreeMap<InstanceId, Seen>,
    leases: BTreeMap<LeaseId, Known>,
    live: BTreeSet<LeaseId>,
    calls: BTreeMap<CallId, bool>,
    drains: BTreeMap<Scope, Instant>,
    strangers: BTreeMap<InstanceId, Instant>,
}

/// An instance that was ordered.
#[derive(Debug)]
struct Seen {
    pool: PoolName,
    ordered_at: Instant,
    ready: bool,
    stop: bool,
    /// A word said that its process ended or its container is not there.
    dead: bool,
    absent: bool,
    /// It was probed and has not answered.
    asked: bool,
    silences: u32,
    gone: bool,
    lent: Option<LeaseId>,
    held: Option<(Bytes, Instant)>,
}

/// A lease that was asked for.
#[derive(Debug)]
struct Known {
    request: Acquire,
    call: CallId,
    asked_at: Instant,
    wait: Duration,
    granted: Option<(InstanceId, Instant)>,
    used: bool,
    active_at: Instant,
    deadline: Instant,
    ended: bool,
    /// What was said that may end it.
    released: bool,
    cancelled: bool,
    left: bool,
    overran: bool,
}

impl Judge {
    pub(super) fn new(profile: Arc<HostProfile>) -> Judge {
        Judge {
            profile,
            now: Instant::BOOT,
            engine: false,
            memory: None,
            cores: None,
            instances: BTreeMap::new(),
            leases: BTreeMap::new(),
            live: BTreeSet::new(),
            calls: BTreeMap::new(),
            drains: BTreeMap::new(),
            strangers: BTreeMap::new(),
        }
    }

    /// Whether nothing that was ordered is left, and no lease goes on.
    pub(super) fn is_quiet(&self) -> bool {
        self.live.is_empty() && self.calls.is_empty()
    }

    /// What goes on still, for a message.
    pub(super) fn unrest(&self) -> String {
        let there: Vec<_> = self.instances.iter().filter(|(_, seen)| !seen.gone).collect();
        format!("leases {:?}, calls {:?}, instances {there:?}", self.live, self.calls)
    }

    // ------------------------------------------------------------ words

    /// A word is about to be handed in.
    pub(super) fn hear(&mut self, now: Instant, input: &Input) -> Found {
        self.now = now;
        match input {
            Input::Tick => {}
            Input::Sample(sample) => {
                if let Ok(memory) = &sample.memory {
                    self.memory = Some((*memory, now));
                }
                if let Ok(cpu) = &sample.cpu {
                    self.cores = Some((cpu.cores, now));
                }
                for (id, usage) in &sample.instances {
                    if let (Some(seen), Ok(held)) = (self.instances.get_mut(id), &usage.memory) {
                        seen.held = Some((*held, now));
                    }
                }
            }
            Input::Listed(listing) => self.hear_listing(listing),
            Input::Engine(engine) => self.engine = *engine == Engine::Reachable,
            Input::Instance(id, news) => {
                if let Some(seen) = self.instances.get_mut(id) {
                    seen.hear(news);
                }
            }
            Input::Active(lease, at) => self.touch(lease, *at),
            Input::Call(call, asked) => self.hear_call(*call, asked),
            Input::HungUp(call) => {
                for known in self.leases.values_mut().filter(|known| known.call == *call) {
                    known.left = true;
                }
                self.calls.remove(call); // One that is handed in later than this is answered to nobody.
            }
        }
        Ok(())
    }

    fn hear_listing(&mut self, listing: &Listing) {
        for (id, seen) in &mut self.instances {
            if listing.asked_at > seen.ordered_at {
                let running = listing.running.get(id);
                seen.absent |= running.is_none();
                seen.dead |= running != Some(&true);
            }
        }
        let instances = &self.instances;
        let strange = |id: &InstanceId| instances.get(id).is_none_or(|seen| seen.gone);
        self.strangers.retain(|id, _| listing.running.contains_key(id));
        for id in listing.running.keys().filter(|id| strange(id)) {
            self.strangers.entry(*id).or_insert(listing.asked_at);
        }
    }

    fn hear_call(&mut self, call: CallId, asked: &Call) {
        self.calls.insert(call, false);
        let now = self.now;
        match asked {
            Call::Acquire(request) => {
                let class = request.class.clone();
                let class = class.unwrap_or_else(|| self.profile.pools[&request.pool].default_class.clone());
                let most = self.profile.classes[&class].max_wait;
                let known = Known {
                    request: request.clone(),
                    call,
                    asked_at: now,
                    wait: request.wait.unwrap_or(most).min(most),
                    granted: None,
                    used: false,
                    active_at: now,
                    deadline: now,
                    ended: false,
                    released: false,
                    cancelled: false,
                    left: false,
                    overran: false,
                };
                self.leases.insert(request.lease.clone(), known);
            }
            Call::Renew(id, by) => {
                self.touch(id, now);
                if let Some((known, granted_at)) = self.executing(id) {
                    let most = self.profile.pools[&self.leases[id].request.pool].deadlines.max_runtime;
                    let deadline = now.after(*by).min(granted_at.after(most)).max(known);
                    self.leases.get_mut(id).expect("it executes").deadline = deadline;
                }
            }
            Call::Use(id) => self.touch(id, now),
            Call::Release(id) => self.mark(id, |known| known.released = true),
            Call::Cancel(id) => self.mark(id, |known| known.cancelled = true),
            Call::Undelivered(id) => self.mark(id, |known| known.left = true),
            Call::Overran(id) => self.mark(id, |known| known.overran = true),
            Call::Drain(scope, window) => drop(self.drains.insert(scope.clone(), now.after(*window))),
            Call::Undrain(scope) => drop(self.drains.remove(scope)),
            Call::Get { .. } | Call::Leases | Call::Pools | Call::Host => {}
        }
    }

    fn mark(&mut self, id: &LeaseId, how: impl FnOnce(&mut Known)) {
        if let Some(known) = self.leases.get_mut(id) {
            how(known);
        }
    }

    /// The end of the longest run and the grant of a lease that executes.
    fn executing(&self, id: &LeaseId) -> Option<(Instant, Instant)> {
        let known = self.leases.get(id).filter(|known| !known.ended)?;
        known.granted.map(|(_, at)| (known.deadline, at))
    }

    fn touch(&mut self, id: &LeaseId, at: Instant) {
        if self.executing(id).is_some() {
            self.mark(id, |known| {
                known.used = true;
                known.active_at = known.active_at.max(at);
            });
        }
    }

    // ------------------------------------------------------------ outputs

    /// Something came out.
    pub(super) fn see(&mut self, output: &Output) -> Found {
        match output {
            Output::Start { instance, pool, .. } => self.see_start(*instance, pool),
            Output::Stop { instance, .. } => self.see_stop(*instance),
            Output::Probe { instance, .. } => {
                let seen = self.instances.get_mut(instance).ok_or("a probe of nothing")?;
                seen.asked = true;
                let idle = seen.ready && !seen.stop && seen.lent.is_none();
                hold(idle, || format!("{instance} is probed and is {seen:?}"))
            }
            Output::Reply(call, reply) => self.see_reply(*call, reply),
            Output::Tell(event) => self.see_event(event),
        }
    }

    fn see_start(&mut self, id: InstanceId, pool: &PoolName) -> Found {
        let now = self.now;
        hold(self.engine, || format!("{id} is started while the engine is known not to answer"))?;
        hold(self.drain_of(pool).is_none(), || format!("{id} is started in {pool}, which is drained"))?;
        let spec = &self.profile.pools[pool];
        let seen = Seen {
            pool: pool.clone(),
            ordered_at: now,
            ready: false,
            stop: false,
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
        let limit = memory.total.saturating_sub(self.profile.host.reserve_memory.of(memory.total));
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
        let promised = match seen.held {
            None => spec.memory_expect,
            Some((held, at)) if self.now.since(at) <= BELIEVED && held <= spec.memory_expect => {
                spec.memory_expect
            }
            Some((held, _)) => spec.template.memory_max.max(held),
        };
        promised.saturating_add(OVERHEAD)
    }

    /// The least that an instance will still come to hold.
    fn growth(&self, seen: &Seen) -> Bytes {
        let Some((held, _)) = seen.held else {
            return if seen.stop { Bytes::ZERO } else { self.profile.pools[&seen.pool].memory_expect };
        };
        if seen.stop {
            Bytes::ZERO
        } else {
            self.promised(seen).saturating_sub(held).saturating_sub(OVERHEAD)
        }
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
            End::Interrupted(_) => seen.is_some() && drain.is_some_and(due),
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
    pub(super) fn rest(&self) -> Found {
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

impl Seen {
    fn hear(&mut self, news: &News) {
        match news {
            News::Ready => self.ready = true,
            News::Exited(_) => self.dead = true,
            News::Gone => (self.dead, self.absent) = (true, true),
            News::Probed(answered) => {
                if std::mem::take(&mut self.asked) {
                    self.silences = if *answered { 0 } else { self.silences + 1 };
                }
            }
            News::Created | News::Started | News::StartFailed(_) | News::StopFailed(_) => {}
        }
    }
}

fn hold(right: bool, otherwise: impl FnOnce() -> String) -> Found {
    if right { Ok(()) } else { Err(otherwise()) }
}
