//! What the judge notes of the words that are handed in.

use std::sync::Arc;

use super::{Judge, Known, Seen};
use crate::control::message::{
    Acquire, Call, CallId, Engine, Input, InstanceId, InstanceUse, LeaseId, Listing, News, Scope,
};
use crate::profile::HostProfile;
use crate::quantity::Instant;

impl Judge {
    /// A word is about to be handed in.
    pub(in crate::sim) fn hear(&mut self, now: Instant, input: &Input) {
        self.now = now;
        match input {
            Input::Tick | Input::Recovered(_) | Input::RecordFailed(..) => {}
            Input::Recorded(upto) => self.written = *upto,
            Input::Sample(sample) => {
                self.books.looked_at = Some(now);
                self.books.stalled = sample.slice_stalled.as_ref().ok().copied();
                if let Ok(slice) = &sample.slice {
                    self.books.slice = Some(slice.hard);
                    self.slice = Some(now);
                }
                if let Ok(memory) = &sample.memory {
                    self.memory = Some((*memory, now));
                    let floor = self.profile.host.floor.of(memory.total);
                    let short = memory.available < floor.saturating_add(floor);
                    if short || self.books.stalled.is_some_and(|share| share.get() >= 100) {
                        self.books.pressed_at = now;
                    }
                }
                if let Ok(cpu) = &sample.cpu {
                    self.cores = Some((cpu.cores, now));
                }
                if let Ok(pids) = &sample.pids {
                    self.pids = Some((*pids, now));
                }
                for (known, disk) in self.disks.iter_mut().zip([&sample.engine_disk, &sample.state_disk]) {
                    *known = disk.as_ref().ok().map(|disk| (*disk, now)).or(*known);
                }
                sample.instances.iter().for_each(|(id, usage)| self.hear_use(*id, usage));
            }
            Input::Looked(id, usage) => self.hear_use(*id, usage),
            Input::Listed(listing) => self.hear_listing(listing),
            Input::Engine(engine) => self.engine = *engine == Engine::Reachable,
            Input::Instance(id, news) => {
                if let Some(seen) = self.instances.get_mut(id) {
                    seen.hear(news, now);
                }
            }
            Input::Ceilings(_) => {}
            Input::Active(lease, at) => self.touch(lease, *at),
            Input::Call(call, asked) => self.hear_call(*call, asked),
            Input::HungUp(call) => {
                if let Some(lease) = self.asked.get(call).cloned() {
                    self.mark(&lease, |known| known.left = true);
                }
                self.leave_permit(*call);
                self.again.remove(call);
                self.calls.remove(call); // One that is handed in later than this is answered to nobody.
            }
        }
    }

    fn hear_use(&mut self, id: InstanceId, usage: &InstanceUse) {
        let Some(seen) = self.instances.get_mut(&id) else { return };
        if let Ok(held) = &usage.memory {
            seen.held = Some((*held, self.now));
        }
        if let Ok(kills) = &usage.kills {
            if kills.processes > seen.kills.processes {
                seen.killed_at = Some(self.now);
            }
            seen.kills = *kills;
        }
    }

    fn hear_listing(&mut self, listing: &Listing) {
        for (id, seen) in &mut self.instances {
            // A listing knows nothing of what came after it was asked for.
            let after = |at: Option<Instant>| at.is_some_and(|at| listing.asked_at > at);
            match listing.running.get(id) {
                None => {
                    seen.absent |= after(seen.exists_at);
                    seen.dead |= after(seen.exists_at);
                }
                Some(running) => {
                    seen.exists_at.get_or_insert(listing.asked_at);
                    if *running {
                        seen.runs_at.get_or_insert(listing.asked_at);
                    }
                    seen.dead |= !running && after(seen.runs_at);
                }
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
        let now = self.now;
        self.calls.insert(call, now);
        match asked {
            Call::Acquire(request) => {
                let has_pool = self.profile.pools.contains_key(&request.pool);
                if !has_pool || self.hear_task(call, request) {
                    return; // It is refused, or about a lease that is known.
                }
                let known = self.known(call, request);
                self.asked.insert(call, request.lease.clone());
                self.leases.insert(request.lease.clone(), known);
            }
            Call::Renew(id, by) => {
                self.touch(id, now);
                if let Some((known, granted_at)) = self.executing(id) {
                    let most = self.leases[id].deadlines.max_runtime;
                    let deadline = now.after(*by).min(granted_at.after(most)).max(known);
                    self.leases.get_mut(id).expect("it executes").deadline = deadline;
                }
            }
            Call::Use(id) => self.touch(id, now),
            Call::Hold(id, asked) => self.mark(id, |known| known.hold_asked = Some(asked.lasting)),
            Call::Resume(id) => self.mark(id, |known| known.resumed = true),
            Call::Release(id) => self.mark(id, |known| known.released = true),
            Call::Cancel(id) => self.mark(id, |known| known.cancelled = true),
            Call::Undelivered(id) => self.mark(id, |known| known.left = true),
            Call::Overran(id) => self.mark(id, |known| known.overran = true),
            Call::Drain(Scope::Pool(pool), _) | Call::DrainForNow(Scope::Pool(pool), _)
                if !self.has_pool(pool) => {}
            Call::Drain(scope, window) | Call::DrainForNow(scope, window) => {
                self.drains.insert(scope.clone(), now.after(*window));
                self.live.clone().iter().for_each(|id| self.watch(id));
            }
            Call::Reload(profile) => self.hear_reload(profile),
            Call::Undrain(scope) => drop(self.drains.remove(scope)),
            Call::Permit(id, provider, wait) => self.hear_permit(call, (id, provider, *wait)),
            Call::Providers | Call::Throttled(..) => {}
            Call::Get { .. }
            | Call::Leases
            | Call::Pools
            | Call::Explain(_)
            | Call::ExplainLease(_)
            | Call::Host => {}
        }
    }

    /// A request as it comes.
    fn known(&self, call: CallId, request: &Acquire) -> Known {
        let now = self.now;
        let pool = &self.profile.pools[&request.pool];
        let class = request.class.clone();
        let class = class.unwrap_or_else(|| pool.default_class.clone());
        let deadlines = pool.deadlines.clone();
        let most = self.profile.classes[&class].max_wait;
        Known {
            request: request.clone(),
            pool: request.pool.clone(),
            degraded_from: None,
            call,
            asked_at: now,
            wait: request.wait.unwrap_or(most).min(most),
            deadlines,
            granted: None,
            record: 0,
            told: false,
            used: false,
            hold: None,
            hold_asked: None,
            resumed: false,
            active_at: now,
            deadline: now,
            ended: false,
            released: false,
            cancelled: false,
            left: false,
            overran: false,
        }
    }

    /// What holds from now on. What was made from an equal template counts as made from the new description.
    fn hear_reload(&mut self, profile: &HostProfile) {
        self.permits.renew(profile, self.now);
        self.profile = Arc::new(profile.clone());
        for seen in self.instances.values_mut().filter(|seen| !seen.older) {
            if let Some(pool) = profile.pools.get(&seen.pool)
                && (pool.kind, &pool.template) == (seen.made.kind, &seen.made.template)
            {
                seen.made = Arc::new(pool.clone());
            }
        }
    }

    pub(super) fn mark(&mut self, id: &LeaseId, how: impl FnOnce(&mut Known)) {
        if let Some(known) = self.leases.get_mut(id) {
            how(known);
        }
    }

    /// The end of the longest run and the grant of a lease that executes.
    fn executing(&self, id: &LeaseId) -> Option<(Instant, Instant)> {
        let known = self.leases.get(id).filter(|known| !known.ended)?;
        known.granted.map(|(_, at)| (known.deadline, at))
    }

    pub(super) fn touch(&mut self, id: &LeaseId, at: Instant) {
        if self.executing(id).is_some() {
            let first = !self.leases[id].used;
            self.mark(id, |known| {
                known.used = true;
                known.active_at = known.active_at.max(at);
            });
            if first {
                self.watch(id); // The idle time may be shorter than that for the first use.
            }
        }
    }
}

impl Seen {
    fn hear(&mut self, news: &News, now: Instant) {
        if let News::Created | News::Started(_) | News::Ready = news {
            self.exists_at.get_or_insert(now);
        }
        if let News::Started(_) | News::Ready = news {
            self.runs_at.get_or_insert(now);
        }
        match news {
            News::Ready => (self.ready, self.unseen) = (true, false),
            News::Exited(_) => self.dead = true,
            News::Gone => (self.dead, self.absent) = (true, true),
            News::Probed(answered) => {
                if std::mem::take(&mut self.asked) {
                    self.silences = if *answered { 0 } else { self.silences + 1 };
                }
            }
            News::Created | News::Started(_) | News::StartFailed(_) | News::StopFailed(_) => {}
        }
    }
}
