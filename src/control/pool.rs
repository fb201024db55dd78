//! Instances of one pool, and their lives.
//!
//! ```text
//! creating -> starting -> probing -> warm -> leased -> stopping -> gone
//!     |          |           |         |                  ^
//!     +----------+-----------+---------+------------------+
//! ```
//!
//! After a restart of the daemon what was warm is *unseen* until it has been found alive, and then warm again.
//!
//! Each state carries what it has and nothing else, and each has an end: a start its deadline, a warm one
//! its age, a leased one its lease, a stopping one its next try. What is used is destroyed: nothing leads
//! from `leased` back to `warm`. An instance counts against every ceiling until its container is gone.
//!
//! A reload may change what the next instance is made from. Each one keeps the pool as it was made from; one
//! whose template is the pool's still is taken along, so it is of an older template exactly if it is not made from
//! the pool's own `spec`.
//!
//! Invariant: the counts agree with the instances, and `ready` holds exactly the warm ones.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::advice::Ends;
use super::budget::Promised;
use super::demand::Demand;
use super::drain::Drain;
use super::envelope::{Busy, Expected, Learned, Share, Taught};
use super::fortune::Fortune;
use super::host::Figure;
use super::hours::Hours;
use super::message::{
    ClassTally, InstanceId, Kills, LeaseId, OomLevel, PoolTally, Process, Rule, StopReason, Tenant, Why,
};
use super::pace::Alone;
use super::permits::Gate;
use super::queue::{Place, Queue};
use super::scaling::{Held, Plan};
use super::shares::{Shares, Slots};
use crate::profile::{self, ClassName, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// A browser that answers takes a few milliseconds; looking every five seconds costs nothing and bounds
/// how long a hung one can look like stock.
pub(super) const PROBE_EVERY: Duration = Duration::from_secs(5);
/// One missed probe may be a busy moment of the host; two in a row are not.
pub(super) const MISSES: u8 = 2;
/// After the kill, the engine gets this long to say that the container is gone before it is asked again.
const STOP_SLACK: Duration = Duration::from_secs(30);
/// The wait between tries for one that would not go grows to this.
const STOP_RETRY_MAX: Duration = Duration::from_secs(300);

/// One pool with all that belongs to it.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: PoolName,
    pub(super) spec: Arc<profile::Pool>,
    pub(super) instances: BTreeMap<InstanceId, Instance>,
    /// The warm ones: of the newest template first, then longest warm first.
    pub(super) ready: BTreeSet<Turn>,
    pub(super) counts: Counts,
    /// The leases that wait for a person.
    pub(super) holds: BTreeSet<LeaseId>,
    pub(super) queue: Queue,
    shares: Shares,
    pub(super) demand: Demand,
    pub(super) plan: Plan,
    pub(super) tally: PoolTally,
    /// What of stock was wanted lately.
    pub(super) held: Held,
    /// Since when a wanted start waits for one of the host's few.
    pub(super) kept_since: Option<Instant>,
    pub(super) fortune: Fortune,
    /// What its past lives held at their peaks.
    pub(super) learned: Learned,
    /// What one instance of the newest template is expected to need.
    pub(super) expected: Expected,
    /// What those that work use of the processors.
    pub(super) busy: Busy,
    /// What one instance of the newest template is expected to use of them.
    pub(super) cpu_expected: MilliCpu,
    /// How long its instances were there.
    pub(super) hours: Hours,
    /// When its leases ended lately, for the estimate of when to come back.
    pub(super) ends: Ends,
    /// How long the last start took that came to something.
    pub(super) last_start: Option<Duration>,
    /// How long a start takes beside which there is no other.
    pub(super) alone: Alone,
    /// The drain that was asked for this pool alone.
    pub(super) own_drain: Option<Drain>,
    /// The drain that was asked for the whole host.
    pub(super) host_drain: Option<Drain>,
    /// Whether the profile has it no more: it takes no work, and goes when nothing is left of it.
    pub(super) removed: bool,
    /// What the provider that its leases need says, where they need one.
    pub(super) gate: Option<Gate>,
    /// What kept a wanted start back when it was last tried.
    pub(super) blocked_by: Option<Why>,
}

/// When a warm one has its turn to be lent: those of an older template last, then by how long it is warm.
pub(super) type Turn = (bool, Instant, InstanceId);

/// How many instances are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) starting: u32,
    pub(super) warm: u32,
    pub(super) leased: u32,
    pub(super) stopping: u32,
}

/// One container of a pool.
#[derive(Debug)]
pub(super) struct Instance {
    /// The pool as it was made from.
    pub(super) made: Arc<profile::Pool>,
    /// Whether `made` is all that it was made from. Of another template that an earlier daemon used it is what its record
    /// says, and such a one is never taken for one of the newest template.
    pub(super) made_known: bool,
    /// When its start was ordered.
    pub(super) born: Instant,
    /// Whether no other start was under way then.
    pub(super) alone: bool,
    /// When its start was wanted, which may be before.
    pub(super) wanted: Instant,
    /// When its container was first known to exist; a listing from before says nothing about it.
    pub(super) exists_since: Option<Instant>,
    /// When its first process was first known to run, which is later; a listing from before may have seen
    /// it not running yet.
    pub(super) runs_since: Option<Instant>,
    /// What it holds, as far as measured.
    pub(super) memory: Figure<Bytes>,
    /// The most that it was seen to hold, or is taken to have wanted.
    pub(super) peak: Option<Bytes>,
    /// What the kernel had done to it for want of memory, as far as it was looked at.
    pub(super) kills: Option<Kills>,
    /// When the kernel last did, and where memory was at its end.
    pub(super) oom: Option<(Instant, OomLevel)>,
    /// Whose work it did, once that is over, and whether the work came to its own end.
    pub(super) worked: Option<(Tenant, bool)>,
    /// Its first process, once it was seen to run.
    pub(super) process: Option<Process>,
    pub(super) life: Life,
}

/// Where an instance is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Life {
    /// Ordered; its container is being made, its process started, its probe asked.
    Starting { deadline: Instant },
    /// Was warm when an earlier daemon last wrote it down, and has not been seen since.
    Unseen { since: Instant, expires: Instant, deadline: Instant },
    /// Ready and not lent.
    Warm { since: Instant, expires: Instant, probing: Option<Probing> },
    /// Lent.
    Leased { lease: LeaseId, class: ClassName },
    /// Being stopped and removed, for the `tries`-th time; whether the journal knows that this try failed.
    Stopping { since: Instant, why: StopReason, tries: u32, retry_at: Instant, told: bool },
}

/// How a warm one is asked whether it still answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probing {
    /// When it is asked next.
    pub(super) next: Instant,
    /// Whether it was asked and has not answered; an answer that nobody waits for says nothing.
    pub(super) asked: bool,
    /// How often in a row it did not.
    pub(super) misses: u8,
}

impl Life {
    /// Whether it is on its way to being warm.
    pub(super) fn is_starting(&self) -> bool {
        match self {
            Life::Starting { .. } | Life::Unseen { .. } => true,
            Life::Warm { .. } | Life::Leased { .. } | Life::Stopping { .. } => false,
        }
    }
}

impl Pool {
    /// A pool with nothing in it.
    pub(super) fn new(name: PoolName, spec: profile::Pool) -> Pool {
        let max = spec.template.memory_max;
        Pool {
            name,
            learned: Learned::after(Bytes::ZERO, max),
            expected: Expected::declared(spec.memory_expect, max),
            busy: Busy::new(spec.template.cpus),
            cpu_expected: spec.cpus_expect,
            spec: Arc::new(spec),
            instances: BTreeMap::new(),
            ready: BTreeSet::new(),
            counts: Counts::default(),
            holds: BTreeSet::new(),
            queue: Queue::default(),
            shares: Shares::default(),
            demand: Demand::default(),
            plan: Plan::default(),
            tally: PoolTally::default(),
            held: Held::default(),
            kept_since: None,
            fortune: Fortune::default(),
            hours: Hours::default(),
            ends: Ends::default(),
            last_start: None,
            alone: Alone::default(),
            own_drain: None,
            host_drain: None,
            removed: false,
            gate: None,
            blocked_by: None,
        }
    }

    /// Begins an instance's life; whether no other start is under way.
    pub(super) fn begin(&mut self, id: InstanceId, now: Instant, alone: bool) -> Instant {
        let deadline = now.after(self.spec.deadlines.start_timeout);
        let life = Life::Starting { deadline };
        let instance = Instance {
            made: Arc::clone(&self.spec),
            made_known: true,
            born: now,
            alone,
            wanted: self.kept_since.take().unwrap_or(now),
            exists_since: None,
            runs_since: None,
            memory: Figure::default(),
            peak: None,
            kills: Some(Kills::default()),
            oom: None,
            worked: None,
            process: None,
            life,
        };
        let before = self.instances.insert(id, instance);
        assert!(before.is_none(), "instance names are counted up, never used twice");
        self.counts.starting += 1;
        deadline
    }

    /// Moves an instance to another state; all bookkeeping of states is here and in [`Pool::bury`].
    pub(super) fn become_(&mut self, id: InstanceId, life: Life) {
        let instance = self.instances.get_mut(&id).expect("only known instances change");
        let before = std::mem::replace(&mut instance.life, life.clone());
        let outdated = self.is_outdated(id);
        self.uncount(id, &before, outdated);
        self.count(id, &life, outdated);
    }

    /// Takes in an instance that an earlier daemon made.
    pub(super) fn take_in(&mut self, id: InstanceId, instance: Instance) {
        let life = instance.life.clone();
        let before = self.instances.insert(id, instance);
        assert!(before.is_none(), "each instance has one record");
        self.count(id, &life, self.is_outdated(id));
    }

    fn count(&mut self, id: InstanceId, life: &Life, outdated: bool) {
        match life {
            // One that is only to be found again will be warm as one that is being started will, and sooner.
            Life::Starting { .. } | Life::Unseen { .. } => self.counts.starting += 1,
            Life::Warm { since, .. } => {
                self.counts.warm += 1;
                self.ready.insert((outdated, *since, id));
            }
            Life::Leased { class, .. } => {
                self.counts.leased += 1;
                let spec = Arc::clone(&self.spec);
                self.shares.lend(class, Pool::slots(&spec));
            }
            Life::Stopping { .. } => self.counts.stopping += 1,
        }
    }

    /// Forgets an instance of which nothing remains.
    pub(super) fn bury(&mut self, id: InstanceId) -> Option<Instance> {
        let outdated = self.instances.contains_key(&id) && self.is_outdated(id);
        let instance = self.instances.remove(&id)?;
        self.uncount(id, &instance.life, outdated);
        Some(instance)
    }

    fn uncount(&mut self, id: InstanceId, life: &Life, outdated: bool) {
        match life {
            Life::Starting { .. } | Life::Unseen { .. } => self.counts.starting -= 1,
            Life::Warm { since, .. } => {
                self.counts.warm -= 1;
                assert!(
                    self.ready.remove(&(outdated, *since, id)),
                    "a warm instance is among the ready ones"
                );
            }
            Life::Leased { lease, class } => {
                self.counts.leased -= 1;
                self.holds.remove(lease);
                let spec = Arc::clone(&self.spec);
                let waits = self.queue.len_of(class) > 0;
                self.shares.give_back(class, Pool::slots(&spec), waits);
            }
            Life::Stopping { .. } => self.counts.stopping -= 1,
        }
    }

    fn slots(spec: &profile::Pool) -> Slots<'_> {
        Slots { classes: &spec.classes, all: spec.max_instances }
    }

    /// Who is served next of those that wait, if a slot may be lent to anybody.
    pub(super) fn next(&self) -> Option<Place> {
        let open = self.shut().is_none();
        open.then(|| self.shares.next(&self.queue, Pool::slots(&self.spec))).flatten()
    }

    /// The counts of a class.
    pub(super) fn tally_of(&mut self, class: &ClassName) -> &mut ClassTally {
        self.tally.classes.entry(class.clone()).or_default()
    }

    /// Whether a request that comes now has nothing warm to go to, and no start under way.
    pub(super) fn needs_a_start(&self) -> bool {
        self.ready.is_empty() && self.queue.len() >= self.counts.starting
    }

    /// Whether one that is warm could be lent to one that waits.
    pub(super) fn may_serve(&self) -> bool {
        !self.ready.is_empty() && self.next().is_some()
    }

    /// Takes one out of the queue, because it is served, or because it is not.
    pub(super) fn dequeue(&mut self, place: Place, served: bool) {
        let class = self.queue.at(place).class.clone();
        if served {
            self.queue.serve(place);
        } else {
            self.queue.leave(place);
        }
        if self.queue.len_of(&class) == 0 {
            self.shares.waits_no_more(&class);
        }
    }

    /// How many of those that wait may be lent a slot, were there any.
    pub(super) fn askers(&self) -> u32 {
        let slots = Pool::slots(&self.spec);
        let of = |class: &ClassName| self.queue.len_of(class).min(self.shares.room_of(class, slots));
        self.queue.heads().map(|(class, _)| of(class)).sum()
    }

    /// How many of those that wait have neither a warm one nor one under way.
    pub(super) fn lacking(&self) -> u32 {
        self.askers().saturating_sub(self.counts.warm + self.counts.starting)
    }

    /// What keeps a request of this class from being served: slots that are held back, the provider that is needed, or what keeps a start back.
    pub(super) fn obstacle(&self, class: &ClassName) -> Option<Why> {
        let slots = Pool::slots(&self.spec);
        match self.shares.held_back(class, slots) {
            Some((have, held)) => Some(Why::HeldBack { have, held }),
            None => self.shut().or(self.blocked_by.as_ref()).cloned(),
        }
    }

    /// Whether a slot may be lent to this class.
    pub(super) fn may_have(&self, class: &ClassName) -> bool {
        self.shut().is_none() && self.shares.held_back(class, Pool::slots(&self.spec)).is_none()
    }

    /// By which rule a class that waits comes to the next slot.
    pub(super) fn turn_of(&self, class: &ClassName) -> Rule {
        self.shares.turn_of(class, Pool::slots(&self.spec))
    }

    /// How many leases of this class have a slot.
    pub(super) fn lent(&self, class: &ClassName) -> u32 {
        self.shares.lent(class)
    }

    /// The state of an instance that became ready now.
    pub(super) fn warm_life(&self, id: InstanceId, now: Instant) -> Life {
        self.seen_life(id, now, now, now.after(jittered(self.spec.warm.max_age, id)))
    }

    /// The state of an instance that is seen now, and was warm before.
    pub(super) fn seen_life(&self, id: InstanceId, now: Instant, since: Instant, expires: Instant) -> Life {
        let probing = match &self.instances[&id].made.template.probe {
            profile::Probe::DevTools { .. } => {
                Some(Probing { next: now.after(PROBE_EVERY), asked: false, misses: 0 })
            }
            // A command in a sandbox costs the engine some 40 ms; its first process is watched instead.
            profile::Probe::Command(_) => None,
        };
        Life::Warm { since, expires, probing }
    }

    /// The state of an instance that is to be stopped now, for the first or a further time.
    pub(super) fn stopping_life(&self, now: Instant, since: Instant, why: StopReason, tries: u32) -> Life {
        let patience = self.spec.deadlines.stop_timeout.saturating_add(STOP_SLACK);
        let retry = patience.saturating_mul(1 << (tries - 1).min(8)).min(STOP_RETRY_MAX.max(patience));
        Life::Stopping { since, why, tries, retry_at: now.after(retry), told: false }
    }

    /// What one of its instances is expected to need: one of an older template no less than was declared of it, and
    /// was learned of that one.
    pub(super) fn expected_of(&self, instance: &Instance) -> Cow<'_, Expected> {
        if Arc::ptr_eq(&instance.made, &self.spec) {
            return Cow::Borrowed(&self.expected);
        }
        let usual = instance.made.memory_expect.max(self.learned.former());
        Cow::Owned(Expected::declared(usual, instance.made.template.memory_max))
    }

    /// What it is expected to use of the processors: one of an older template as was declared of it.
    fn cpu_expected_of(&self, instance: &Instance) -> MilliCpu {
        let newest = Arc::ptr_eq(&instance.made, &self.spec);
        if newest { self.cpu_expected } else { instance.made.cpus_expect }
    }

    /// Takes in what one that works uses of the processors.
    pub(super) fn note_cpu(&mut self, now: Instant, id: InstanceId, used: MilliCpu) {
        let instance = &self.instances[&id];
        let works = matches!(instance.life, Life::Leased { .. }) && Arc::ptr_eq(&instance.made, &self.spec);
        if works {
            self.busy.note(now, used);
        }
    }

    /// Its instances were there until now.
    pub(super) fn add_hours(&mut self, now: Instant) {
        self.hours.add(now, self.total(), self.spec.max_instance_hours);
    }

    /// The most of what is declared and what was measured.
    pub(super) fn expect_cpu(&mut self, now: Instant) {
        let declared = self.spec.cpus_expect;
        self.cpu_expected = self.busy.p95(now).map_or(declared, |measured| declared.max(measured));
    }

    /// Takes in what was learned, and what is going on, as of now.
    pub(super) fn expect(&mut self) {
        let running = self.instances.values().filter(|instance| matches!(instance.life, Life::Leased { .. }));
        let running = running.filter(|instance| Arc::ptr_eq(&instance.made, &self.spec));
        let running: Vec<Bytes> = running.filter_map(|instance| instance.peak).collect();
        self.expected = self.learned.expect(self.spec.memory_expect, &running);
    }

    /// Learns from an instance that is gone; whether it taught anything.
    pub(super) fn learn_from(&mut self, now: Instant, gone: Instance) -> bool {
        let newest = Arc::ptr_eq(&gone.made, &self.spec) && !self.removed;
        let (Some((tenant, whole)), Some(peak), true) = (gone.worked, gone.peak, newest) else {
            return false;
        };
        // Where its own limit ended something of it, it is known what it wanted.
        let whole = whole || matches!(gone.oom, Some((_, OomLevel::Own)));
        self.learned.learn(now, Taught { tenant, peak, whole });
        self.expect();
        true
    }

    /// What this pool's instances are counted with.
    pub(super) fn promised(&self, now: Instant) -> Promised {
        let mut sum = Promised::default();
        for instance in self.instances.values() {
            sum.add(self.share_of(instance, now), self.cpu_expected_of(instance), &instance.made);
        }
        sum
    }

    /// What one of its instances is counted with.
    pub(super) fn share_of(&self, instance: &Instance, now: Instant) -> Share {
        let expected = self.expected_of(instance);
        let share = Share::of(&expected, &instance.memory, instance.exists_since, now);
        match instance.life {
            Life::Stopping { .. } => share.stopping(),
            Life::Starting { .. } | Life::Unseen { .. } | Life::Warm { .. } | Life::Leased { .. } => share,
        }
    }

    /// The drain it is under: the sooner one, where there are two.
    pub(super) fn drain(&self) -> Option<Drain> {
        Drain::sooner(self.own_drain, self.host_drain)
    }

    /// Whether a start is under way for the one at this place of the queue, from 1, if nothing changes.
    pub(super) fn has_start_for(&self, rank: u32) -> bool {
        rank <= self.counts.starting
    }

    /// Goes by another description from now on. What was made from an equal template is taken along.
    pub(super) fn renew(&mut self, spec: profile::Pool, now: Instant) {
        let spec = Arc::new(spec);
        if !same_template(&spec, &self.spec) {
            // What made starts fail may have been the template.
            self.fortune.forgive(now);
            self.alone = Alone::default();
            self.busy = Busy::new(spec.template.cpus);
            let former = self.learned.figure(self.expected.usual);
            self.learned = Learned::after(former, spec.template.memory_max);
        }
        let same = |instance: &&mut Instance| instance.made_known && same_template(&instance.made, &spec);
        for instance in self.instances.values_mut().filter(same) {
            instance.made = Arc::clone(&spec);
        }
        let queue = &self.queue;
        self.tally.classes.retain(|class, _| spec.classes.contains_key(class) || queue.len_of(class) > 0);
        self.demand.forget_classes(|class| spec.classes.contains_key(class));
        self.spec = spec;
        self.removed = false;
        self.expect();
        self.expect_cpu(now);
        let since = |instance: &Instance| match instance.life {
            Life::Warm { since, .. } => Some(since),
            Life::Starting { .. } | Life::Unseen { .. } | Life::Leased { .. } | Life::Stopping { .. } => None,
        };
        let warm = self.instances.iter().filter_map(|(id, instance)| Some((*id, since(instance)?)));
        self.ready = warm.map(|(id, since)| (self.is_outdated(id), since, id)).collect();
    }

    /// Whether an instance was made from an older template.
    pub(super) fn is_outdated(&self, id: InstanceId) -> bool {
        !Arc::ptr_eq(&self.instances[&id].made, &self.spec)
    }

    /// The warm one of an older template that has been warm longest, if there is one.
    pub(super) fn outdated(&self) -> Option<InstanceId> {
        self.ready.iter().find(|(outdated, ..)| *outdated).map(|(.., id)| *id)
    }

    /// The warm ones in the order in which they are given up: of an older template first, then longest warm.
    pub(super) fn dispensable(&self) -> impl Iterator<Item = InstanceId> {
        let of = |wanted: bool| self.ready.iter().filter(move |(outdated, ..)| *outdated == wanted);
        of(true).chain(of(false)).map(|(.., id)| *id)
    }

    /// Instances in any state.
    pub(super) fn total(&self) -> u32 {
        let Counts { starting, warm, leased, stopping } = self.counts;
        starting + warm + leased + stopping
    }

    /// Why it takes no work, if it does not: it is removed, or drained.
    pub(super) fn closed_by(&self) -> Option<Why> {
        match (self.removed, self.host_drain, self.own_drain) {
            (true, _, _) => Some(Why::PoolRemoved),
            (false, Some(_), _) => Some(Why::HostDraining),
            (false, None, Some(_)) => Some(Why::PoolDraining),
            (false, None, None) => None,
        }
    }

    /// Whether it takes no work.
    pub(super) fn is_closed(&self) -> bool {
        self.closed_by().is_some()
    }
}

/// Whether instances of both are interchangeable.
fn same_template(one: &profile::Pool, other: &profile::Pool) -> bool {
    (one.kind, &one.template) == (other.kind, &other.template)
}

/// This age less up to a fifth, by the instance's name, so that those made together do not go together.
fn jittered(age: Duration, id: InstanceId) -> Duration {
    // 2654435761 is Knuth's multiplicative hash: neighbours land far apart.
    let spread = (id.count ^ id.run).wrapping_mul(2_654_435_761) % 200;
    age - age * spread / 1000
}
