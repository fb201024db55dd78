//! The store, and the daemon's ends: what was written outlives the daemon, and nothing else does.
//!
//! All records of one word are one batch, and batches are written in their order. A daemon that is killed may have
//! had some of them written without hearing of it. While the disk is full nothing is written; the store keeps the
//! newest of each subject and tries again, as the real one does.
//!
//! A killed daemon takes its keepers and its callers' connections along. The engine goes on with what it was asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::callers::{Act, Asked};
use super::{Happening, World};
use crate::control::Controller;
use crate::control::message::{Input, InstanceId, LeaseRecordState, Record, Recovered, Subject};
use crate::profile::{HostProfile, PoolName, Template};

/// How many ended leases the disk keeps.
const KEPT: usize = 10_000;

/// What is on the disk, and what is on its way there.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// The newest record of each subject that was written.
    pub(super) written: BTreeMap<Subject, Record>,
    /// The last number that was written.
    last: u64,
    /// What was given out and is not written yet.
    queue: VecDeque<Vec<(u64, Record)>>,
    /// What each instance was made from, when it was first written down.
    made: BTreeMap<InstanceId, Template>,
    /// Leases that have ended, oldest end first.
    ended: VecDeque<Subject>,
    /// What the instances were made from that a pool's envelope was learned of.
    taught: BTreeMap<PoolName, Template>,
    pub(super) full: bool,
}

impl Store {
    fn write(&mut self, batch: Vec<(u64, Record)>) {
        for (number, record) in batch {
            self.last = number;
            match record {
                Record::Gone(id) => {
                    self.made.remove(&id);
                    self.written.remove(&record.subject());
                }
                Record::Undrained(_) => drop(self.written.remove(&record.subject())),
                Record::Lease(lease) if matches!(lease.state, LeaseRecordState::Ended { .. }) => {
                    let subject = Subject::Lease(lease.id.clone());
                    self.ended.push_back(subject.clone());
                    self.written.insert(subject, Record::Lease(lease));
                    if self.ended.len() > KEPT
                        && let Some(oldest) = self.ended.pop_front()
                    {
                        self.written.remove(&oldest);
                    }
                }
                Record::Lease(_) | Record::Instance(_) | Record::Drain(..) | Record::Envelope(_) => {
                    self.written.insert(record.subject(), record);
                }
            }
        }
    }

    /// All that was written, as the next daemon reads it beside its profile.
    fn read(&self, profile: &HostProfile) -> Recovered {
        let mut recovered = Recovered { last: self.last, ..Recovered::default() };
        for record in self.written.values().cloned() {
            match record {
                Record::Lease(lease) => recovered.leases.push(*lease),
                Record::Instance(instance) => {
                    let pool = profile.pools.get(&instance.pool);
                    let fits = pool.is_some_and(|pool| self.made.get(&instance.id) == Some(&pool.template));
                    if fits { &mut recovered.instances } else { &mut recovered.outdated }.push(instance);
                }
                Record::Drain(scope, drain) => recovered.drains.push((scope, drain)),
                Record::Envelope(envelope) => {
                    let pool = profile.pools.get(&envelope.pool);
                    let fits =
                        pool.is_some_and(|pool| self.taught.get(&envelope.pool) == Some(&pool.template));
                    recovered.envelopes.push((envelope, fits));
                }
                Record::Gone(_) | Record::Undrained(_) => {}
            }
        }
        recovered
    }
}

impl World {
    /// Takes what one word has given out to be written.
    pub(super) fn give_out(&mut self, batch: Vec<(u64, Record)>) {
        if batch.is_empty() {
            return;
        }
        for (_, record) in &batch {
            if let Record::Instance(instance) = record
                && let Some(made) = self.controller.made_of(instance.id)
            {
                self.store.made.entry(instance.id).or_insert_with(|| made.template.clone());
            }
            if let Record::Envelope(envelope) = record
                && let Some(made) = self.controller.spec_of(&envelope.pool)
            {
                self.store.taught.insert(envelope.pool.clone(), made.template.clone());
            }
        }
        let on_its_way = self.play.is_some() && !self.store.queue.is_empty();
        self.store.queue.push_back(batch);
        if on_its_way {
            return; // It comes for all that stands before it.
        }
        // A disk at work takes its time now and then; longer than this the daemon does not wait for it.
        let wait = match self.rng.u32(0..20) {
            0 if !self.calm && self.play.is_none() => Duration::from_millis(self.rng.u64(0..2000)),
            _ => Duration::from_micros(self.rng.u64(20..2000)),
        };
        self.soon(wait, Happening::Store);
    }

    /// The store writes all that stands before it, or cannot.
    pub(super) fn write(&mut self) -> Result<(), String> {
        let Some(last) = self.store.queue.back().and_then(|batch| batch.last()) else {
            return Ok(());
        };
        let upto = last.0;
        if self.store.full {
            self.report.count("records failed");
            self.soon(Duration::from_secs(1), Happening::Store);
            return self.hear(Input::RecordFailed(upto, "database or disk is full".into()));
        }
        while let Some(batch) = self.store.queue.pop_front() {
            self.store.write(batch);
        }
        self.hear(Input::Recorded(upto))
    }

    /// The daemon is killed.
    pub(super) fn crash(&mut self) -> Result<(), String> {
        if self.down {
            return Ok(());
        }
        self.report.count("restarts");
        self.down = true;
        let many = if self.store.full { 0 } else { self.rng.usize(0..=self.store.queue.len()) };
        let written: Vec<_> = self.store.queue.drain(..many).collect();
        written.into_iter().for_each(|batch| self.store.write(batch));
        self.store.queue.clear();
        for (at, happening) in std::mem::take(&mut self.heap) {
            let happening = *happening;
            if let Happening::Engine(id, step) = happening {
                if let Some(step) = self.outlives(id, step) {
                    self.heap.insert(at, Box::new(Happening::Engine(id, step)));
                }
            } else if !matches!(happening, Happening::Word(_) | Happening::Listed(_) | Happening::Store) {
                self.heap.insert(at, Box::new(happening));
            }
        }
        for (_, open) in std::mem::take(&mut self.open) {
            let wait = Duration::from_millis(self.rng.u64(0..5000));
            match open.asked {
                Asked::Acquire(number) if self.may_ask_again(number) && !open.hung => {
                    self.soon(wait, Happening::Act(number, Act::Ask));
                }
                Asked::Permit(number, end) => {
                    self.soon(wait, Happening::Act(number, Act::WorksUntil(end.after(wait))));
                }
                Asked::Watch(number) if !open.hung => self.soon(wait, Happening::Act(number, Act::Watch)),
                Asked::Acquire(_) | Asked::Watch(_) | Asked::Other => {}
            }
        }
        let wait = Duration::from_millis(self.rng.u64(20..6000));
        self.soon(wait, Happening::Begins);
        self.judge.crash(self.now, &self.store.written)
    }

    /// The next daemon begins.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        self.down = false;
        self.run += 1;
        let profile = self.profiles[self.files].clone();
        self.controller = Controller::new((*profile).clone(), "simulated".into(), self.run, self.now);
        let recovered = self.store.read(&profile);
        let executing = |lease: &&crate::control::message::LeaseRecord| {
            matches!(lease.state, LeaseRecordState::Executing { .. })
        };
        for _ in recovered.leases.iter().filter(executing) {
            self.report.count("leases kept");
        }
        self.judge.begin(self.now, &profile);
        if let Some(play) = &mut self.play {
            play.tally.bars.anew();
        }
        self.hear(Input::Recovered(Box::new(recovered)))
    }
}
