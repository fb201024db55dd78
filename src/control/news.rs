//! What the world says: samples, listings, the engine, and each instance.
//!
//! News of an instance that is not ours is dropped here; the listing brings it up again if it exists. Words
//! may come late, twice or not at all: each is compared with what is believed, and what no longer applies
//! changes nothing.

use std::time::Duration;

use super::Controller;
use super::envelope;
use super::host::Belief;
use super::message::{
    End, Engine, Exit, Failure, InstanceId, InstanceUse, LeaseId, Listing, News, Oom, OomLevel, Output,
    Sample, StartFailure, StopReason, What,
};
use super::pace::Ended;
use super::pool::{Life, MISSES, PROBE_EVERY, Probing};
use super::timer::Timer;
use crate::quantity::Instant;

/// A container that belongs to nobody is left alone for this long after it was first seen, and until it is
/// seen again: its record may be on its way.
const STRANGER_AGE: Duration = Duration::from_secs(10);
/// One that dies this soon after it was ready has not really been: the start counts as failed.
const INFANCY: Duration = Duration::from_secs(10);

/// The exit code of what was killed.
const KILLED: i64 = 128 + 9;
/// A first process that was killed this soon after the kernel had killed one was that one: its end is heard at once.
const SOON: Duration = Duration::from_secs(2);

impl Controller {
    pub(super) fn take_sample(&mut self, sample: Sample) {
        let now = self.now;
        for (id, seen) in self.belief.take(now, sample) {
            if let (Ok(used), Some(home)) = (&seen.cpu, self.homes.get(&id).cloned()) {
                self.pool(&home).note_cpu(now, id, *used);
            }
            self.take_use(id, seen);
        }
        for pool in self.pools.values_mut() {
            pool.expect();
            pool.expect_cpu(now);
        }
        self.timers.set(Timer::Telemetry, Belief::unknown_at(now));
        self.take_pressure();
    }

    /// What one instance holds, and what the kernel has done to it.
    pub(super) fn take_use(&mut self, id: InstanceId, seen: InstanceUse) {
        let now = self.now;
        let Some(home) = self.homes.get(&id).cloned() else { return };
        let instance = self.pool(&home).instances.get_mut(&id).expect("homes and instances agree");
        let held = seen.memory.as_ref().ok().copied();
        instance.peak = instance.peak.max(held);
        instance.memory.take(now, seen.memory);
        let Ok(kills) = seen.kills else { return };
        // Of one that an earlier daemon made, what was before is not known to be new.
        let before = instance.kills.replace(kills).unwrap_or(kills);
        let Some((level, processes)) = kills.since(before) else { return };
        instance.oom = Some((now, level));
        if level == OomLevel::Own {
            let most = instance.made.template.memory_max;
            instance.peak = Some(envelope::wanted_more_than(instance.peak.unwrap_or(most)).min(most));
        }
        self.was_killed(id, Oom { level, processes, held });
    }

    /// The kernel killed processes of an instance.
    fn was_killed(&mut self, id: InstanceId, oom: Oom) {
        let home = self.homes[&id].clone();
        let life = self.pool(&home).instances[&id].life.clone();
        let what = What::OutOfMemory(oom);
        match life {
            Life::Leased { lease: id_of_lease, .. } => {
                let lease = self.leases.get_mut(&id_of_lease).expect("who has an instance is known");
                lease.oom_kills = lease.oom_kills.saturating_add(oom.processes);
                self.record_lease(&id_of_lease);
                self.tell_of_lease(what, &id_of_lease, Some(id));
            }
            // What is maimed is not lent.
            Life::Warm { .. } => {
                self.tell(what, Some(&home), Some(id));
                self.stop_instance(id, StopReason::OutOfMemory);
            }
            Life::Starting { .. } | Life::Unseen { .. } | Life::Stopping { .. } => {
                self.tell(what, Some(&home), Some(id));
            }
        }
    }

    pub(super) fn take_engine(&mut self, engine: Engine) {
        if engine == self.belief.engine {
            return;
        }
        self.belief.engine = engine.clone();
        match engine {
            Engine::Reachable => {
                self.belief.told_lost = false;
                let now = self.now;
                for pool in self.pools.values_mut() {
                    pool.fortune.forgive(now);
                }
                self.tell(What::EngineBack, None, None);
                self.look_for_unseen();
            }
            Engine::Unreachable(why) => {
                // What was seen once was seen by a listing that can no longer be compared.
                self.strangers.clear();
                // Once an outage, whatever else is said of it.
                if !std::mem::replace(&mut self.belief.told_lost, true) {
                    self.tell(What::EngineLost(why), None, None);
                }
            }
        }
    }

    pub(super) fn take_activity(&mut self, id: &LeaseId, at: Instant) {
        let at = at.min(self.now);
        if let Some(lease) = self.leases.get_mut(id)
            && lease.touch(at)
        {
            let due = lease.due();
            self.timers.set(Timer::Lease(id.clone()), due);
            self.record_lease(id);
        }
    }

    pub(super) fn take_news(&mut self, id: InstanceId, news: News) {
        let Some(home) = self.homes.get(&id).cloned() else {
            return;
        };
        let now = self.now;
        let instance = self.pool(&home).instances.get_mut(&id).expect("homes and instances agree");
        match news {
            News::Created => {
                instance.exists_since.get_or_insert(now);
            }
            News::Started(process) => {
                instance.process = Some(process);
                instance.exists_since.get_or_insert(now);
                instance.runs_since.get_or_insert(now);
            }
            News::Ready => self.became_ready(id),
            News::StartFailed(failure) => {
                if instance.life.is_starting() {
                    self.start_failed(id, failure);
                }
            }
            News::Exited(exit) => self.exited(id, exit),
            News::Probed(answered) => self.probed(id, answered),
            News::Gone => self.gone(id),
            News::StopFailed(why) => {
                if let Life::Stopping { tries, told: told @ false, .. } = &mut instance.life {
                    *told = true;
                    let tries = *tries;
                    self.tell(What::InstanceStuck(why, tries), Some(&home), Some(id));
                }
            }
        }
    }

    /// Compares a whole listing with what is believed, and heals what was missed.
    pub(super) fn take_listing(&mut self, listing: &Listing) {
        for instances in self.pools.values_mut().map(|pool| &mut pool.instances) {
            for (id, instance) in instances.iter_mut() {
                let Some(running) = listing.running.get(id) else { continue };
                instance.exists_since.get_or_insert(listing.asked_at);
                if *running {
                    instance.runs_since.get_or_insert(listing.asked_at);
                }
            }
        }
        // A listing that was asked for before the container was there says nothing about it: its making may be
        // under way, also behind an order to stop it. One from before its process ran says no more than that
        // the process had not begun.
        let before = |since: Option<Instant>| since.is_some_and(|since| since < listing.asked_at);
        let known: Vec<(InstanceId, bool, bool, Life)> = self
            .pools
            .values()
            .flat_map(|pool| &pool.instances)
            .map(|(id, it)| (*id, before(it.exists_since), before(it.runs_since), it.life.clone()))
            .collect();
        for (id, existed, ran, life) in known {
            let running = listing.running.get(&id);
            match (life, running) {
                (_, None) if existed => self.gone(id),
                (Life::Unseen { .. } | Life::Warm { .. } | Life::Leased { .. }, Some(false)) if ran => {
                    self.exited(id, Exit { code: None });
                }
                (
                    Life::Starting { .. }
                    | Life::Unseen { .. }
                    | Life::Warm { .. }
                    | Life::Leased { .. }
                    | Life::Stopping { .. },
                    _,
                ) => {}
            }
        }
        self.meet_strangers(listing);
    }

    /// Containers that bear our labels and belong to nobody go at the second sighting.
    fn meet_strangers(&mut self, listing: &Listing) {
        let homes = &self.homes;
        self.strangers.retain(|id, _| listing.running.contains_key(id) && !homes.contains_key(id));
        for id in
            listing.running.keys().filter(|id| !self.homes.contains_key(id)).copied().collect::<Vec<_>>()
        {
            let first_seen = *self.strangers.entry(id).or_insert(listing.asked_at);
            if listing.asked_at.since(first_seen) >= STRANGER_AGE {
                self.out.push_back(Output::Stop { instance: id, grace: Duration::ZERO });
                self.tell(What::InstanceStopping(StopReason::Unknown), None, Some(id));
            }
        }
    }

    fn became_ready(&mut self, id: InstanceId) {
        let now = self.now;
        let home = self.homes[&id].clone();
        if let Life::Starting { .. } = self.pools[&home].instances[&id].life {
            self.note_start(id);
        }
        let pool = self.pool(&home);
        let instance = &pool.instances[&id];
        let (took, wanted) = (now.since(instance.born), instance.wanted);
        let (life, what) = match instance.life {
            Life::Starting { .. } => {
                let life = pool.warm_life(id, now);
                pool.last_start = Some(took);
                pool.tally.took.note(took);
                pool.demand.started(now.since(wanted));
                pool.plan.touch();
                pool.fortune.succeeded();
                (life, What::InstanceWarm(took))
            }
            Life::Unseen { since, expires, .. } => {
                (pool.seen_life(id, now, since, expires), What::InstanceFound)
            }
            // Said twice, or it is being stopped already.
            Life::Warm { .. } | Life::Leased { .. } | Life::Stopping { .. } => return,
        };
        pool.become_(id, life);
        let instance = pool.instances.get_mut(&id).expect("it became warm just now");
        instance.exists_since.get_or_insert(now);
        instance.runs_since.get_or_insert(now);
        self.set_instance_timer(id);
        self.record_instance(id);
        self.tell(what, Some(&home), Some(id));
    }

    /// A start came to its end: it became ready, or its time was over.
    pub(super) fn note_start(&mut self, id: InstanceId) {
        let now = self.now;
        let home = self.homes[&id].clone();
        let under_way = self.pools.values().map(|pool| pool.counts.starting).sum();
        let none_since = id.count == self.ordered;
        let pool = self.pool(&home);
        let instance = &pool.instances[&id];
        let (born, took) = (instance.born, now.since(instance.born));
        // What was given up says only that it takes longer.
        if now < born.after(pool.spec.deadlines.start_timeout) {
            pool.alone.note(took, instance.alone && none_since);
        }
        let ended = Ended { born, took, alone: pool.alone.get(), under_way };
        self.pace.note(now, &ended, self.profile.host.max_starts);
    }

    /// Counts a failed start against its pool, also one that was found out late, and clears away what there
    /// is of it.
    pub(super) fn start_failed(&mut self, id: InstanceId, failure: StartFailure) {
        let now = self.now;
        let home = self.homes[&id].clone();
        let pool = self.pool(&home);
        let instance = &pool.instances[&id];
        let (born, why) = (instance.born, failure.to_string());
        pool.tally.failed = pool.tally.failed.saturating_add(1);
        let retry_at = match instance.life {
            Life::Warm { .. } => pool.fortune.died_young(born, now, why),
            Life::Starting { .. } | Life::Unseen { .. } | Life::Leased { .. } | Life::Stopping { .. } => {
                pool.fortune.failed(born, now, why)
            }
        };
        self.timers.set(Timer::Retry(home.clone()), retry_at);
        self.tell(What::InstanceStartFailed(failure), Some(&home), Some(id));
        self.stop_instance(id, StopReason::StartFailed);
    }

    fn exited(&mut self, id: InstanceId, exit: Exit) {
        let now = self.now;
        let home = self.homes[&id].clone();
        match self.pool(&home).instances[&id].life.clone() {
            Life::Starting { .. } => self.start_failed(id, StartFailure::Died(exit)),
            Life::Warm { since, .. } if now.since(since) < INFANCY => {
                self.start_failed(id, StartFailure::DiedYoung(exit));
            }
            Life::Unseen { .. } | Life::Warm { .. } => self.stop_instance(id, StopReason::Died),
            Life::Leased { lease, .. } => {
                let oom = self.pool(&home).instances[&id].oom;
                let oom = oom.filter(|(at, _)| exit.code == Some(KILLED) && now.since(*at) <= SOON);
                let failure = oom.map_or(Failure::Died(exit), |(_, level)| Failure::OutOfMemory(level));
                self.end_lease_for(&lease, End::Failed(failure), StopReason::Died)
            }
            Life::Stopping { .. } => {}
        }
    }

    fn probed(&mut self, id: InstanceId, answered: bool) {
        let now = self.now;
        let home = self.homes[&id].clone();
        let pool = self.pool(&home);
        let instance = pool.instances.get_mut(&id).expect("homes and instances agree");
        let Life::Warm { probing: Some(probing @ Probing { asked: true, .. }), .. } = &mut instance.life
        else {
            return; // Said twice, or lent or stopped since it was asked: its answer concerns nobody.
        };
        let misses = if answered { 0 } else { probing.misses.saturating_add(1) };
        *probing = Probing { next: now.after(PROBE_EVERY), asked: false, misses };
        if misses >= MISSES {
            self.stop_instance(id, StopReason::Unanswering);
        } else {
            self.set_instance_timer(id);
        }
    }

    /// The container of an instance is not there any more. Where that was not ordered, the order to stop
    /// still goes out: it clears up behind a start that is at work, and ends whoever keeps the instance.
    fn gone(&mut self, id: InstanceId) {
        let home = self.homes[&id].clone();
        match self.pool(&home).instances[&id].life.clone() {
            Life::Starting { .. } | Life::Unseen { .. } | Life::Warm { .. } => {
                self.exited(id, Exit { code: None });
            }
            Life::Leased { lease, .. } => {
                self.end_lease_for(&lease, End::Failed(Failure::Vanished), StopReason::Died);
            }
            Life::Stopping { .. } => {
                self.forget_instance(id);
                self.tell(What::InstanceGone, Some(&home), Some(id));
            }
        }
    }
}
