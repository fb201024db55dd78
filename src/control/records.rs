//! Written before said: what is told to a caller, or asked of the engine, leaves once its record is written.
//!
//! ```text
//! decide --> Record(n) --> … store … --> Recorded(n) --> Reply, Start
//!                                   \--> RecordFailed(n) --> undone, and a refusal instead of the reply
//! ```
//!
//! The order lives here and nowhere else: the daemon carries out each output as it comes. A reply that shows a
//! lease, and an order to start, wait behind all records that were given out before them; refusals, stops, probes
//! and the journal wait for nothing.
//!
//! When records cannot be written nothing is lent and nothing is started, until one can be again. A grant that
//! nobody has heard of is undone: its instance is warm again, for nobody has had it. What has happened whatever
//! is written (an end, a renewal) stays, is told, and is written when that works again: the store keeps the newest
//! of each subject and tries.
//!
//! Invariant: what is held back is in the order of its numbers, and nothing is held behind what is settled.

use std::collections::{BTreeMap, VecDeque};

use super::Controller;
use super::lease::State;
use super::message::{
    CallId, End, InstanceId, InstanceRecord, InstanceRecordState, LeaseId, Made, Output, Record, Refusal,
    Reply, What, Why,
};
use super::pool::Life;
use super::timer::Timer;

/// What was given out to be written, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The last number that was given.
    last: u64,
    /// Nothing waits for records up to this one: they are written, or have failed and were answered for.
    settled: u64,
    /// Outputs, each with the record that must be written before it leaves.
    held: VecDeque<(u64, Output)>,
    /// Grants and acceptances that nobody has heard of, by the record that must be written first.
    promises: BTreeMap<u64, Promise>,
    /// Why records cannot be written now.
    pub(super) trouble: Option<String>,
}

/// A grant or an acceptance that nobody has heard of.
#[derive(Debug)]
struct Promise {
    lease: LeaseId,
    /// The call that is to hear of it.
    caller: Option<CallId>,
}

impl Records {
    /// Goes on counting behind an earlier run's records.
    pub(super) fn count_from(&mut self, last: u64) {
        (self.last, self.settled) = (last, last);
    }

    /// Whether nothing waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.held.is_empty() && self.promises.is_empty()
    }

    /// Takes back the answer to a caller who is gone; the lease that it was granted by it, if it was.
    pub(super) fn unsay(&mut self, caller: CallId) -> Option<LeaseId> {
        self.held.retain(|(_, output)| !matches!(output, Output::Reply(call, _) if *call == caller));
        let promise = self.promises.values().find(|promise| promise.caller == Some(caller))?;
        Some(promise.lease.clone())
    }

    /// What was promised of this lease is to be heard by this call.
    pub(super) fn promised_to(&mut self, lease: &LeaseId, caller: CallId) {
        for promise in self.promises.values_mut().filter(|promise| promise.lease == *lease) {
            promise.caller = Some(caller);
        }
    }

    /// Takes back an order to start that has not left; whether there was one.
    pub(super) fn unsay_start(&mut self, id: InstanceId) -> bool {
        let before = self.held.len();
        self.held.retain(|(_, output)| match output {
            Output::Start { instance, .. } => *instance != id,
            Output::Tell(event) => event.what != What::InstanceStarting || event.instance != Some(id),
            Output::Reply(..)
            | Output::Stop { .. }
            | Output::Probe { .. }
            | Output::Adopt { .. }
            | Output::Reclaim(_)
            | Output::Ceilings(_)
            | Output::Record(..) => true,
        });
        self.held.len() < before
    }

    /// What waited for records up to this one.
    fn settle(&mut self, upto: u64) -> Vec<Output> {
        self.settled = self.settled.max(upto.min(self.last));
        let free = self.held.iter().take_while(|(after, _)| *after <= self.settled).count();
        self.held.drain(..free).map(|(_, output)| output).collect()
    }

    /// The promises that depend on records up to this one.
    fn take_promises(&mut self, upto: u64) -> Vec<Promise> {
        let later = self.promises.split_off(&(upto + 1));
        std::mem::replace(&mut self.promises, later).into_values().collect()
    }
}

impl Controller {
    /// Gives this out to be written.
    pub(super) fn record(&mut self, record: Record) {
        self.records.last += 1;
        self.out.push_back(Output::Record(self.records.last, record));
    }

    /// Writes down a lease as it is.
    pub(super) fn record_lease(&mut self, id: &LeaseId) {
        let lease = self.leases.get_mut(id).expect("only known leases are written down");
        lease.recorded = true;
        let record = Record::Lease(Box::new(lease.record()));
        self.record(record);
    }

    /// Writes down how a lease ended, if any of it was written down before: a request that was refused while
    /// its caller waited leaves nothing to be asked about.
    pub(super) fn record_end(&mut self, id: &LeaseId) {
        if self.leases[id].recorded {
            self.record_lease(id);
        }
    }

    /// Writes down a lease that somebody is promised by it: its failure undoes the promise.
    pub(super) fn record_promise(&mut self, id: &LeaseId, caller: Option<CallId>) {
        self.record_lease(id);
        self.records.promises.insert(self.records.last, Promise { lease: id.clone(), caller });
    }

    /// Writes down an instance as it is.
    pub(super) fn record_instance(&mut self, id: InstanceId) {
        let pool = &self.pools[&self.homes[&id]];
        let instance = &pool.instances[&id];
        let state = match instance.life {
            Life::Starting { .. } => InstanceRecordState::Starting,
            Life::Warm { since, expires, .. } | Life::Unseen { since, expires, .. } => {
                InstanceRecordState::Warm { since, expires }
            }
            Life::Leased { .. } => unreachable!("that it is lent stands in its lease's record"),
            Life::Stopping { .. } => InstanceRecordState::Stopping,
        };
        let (born, process, made) = (instance.born, instance.process, Some(Made::of(&instance.made)));
        let record = InstanceRecord { id, pool: pool.name.clone(), born, process, made, state };
        self.record(Record::Instance(record));
    }

    /// Says or orders this once all that was given out so far is written.
    pub(super) fn say_recorded(&mut self, output: Output) {
        if self.records.settled < self.records.last {
            self.records.held.push_back((self.records.last, output));
        } else {
            self.out.push_back(output);
        }
    }

    /// All records up to this one are written.
    pub(super) fn take_recorded(&mut self, upto: u64) {
        if self.records.trouble.take().is_some() {
            self.tell(What::StoreBack, None, None);
        }
        self.records.take_promises(upto);
        self.out.extend(self.records.settle(upto));
    }

    /// Records up to this one that are not written yet could not be; the store goes on trying.
    pub(super) fn take_record_failed(&mut self, upto: u64, why: &str) {
        if self.records.trouble.replace(why.to_owned()).is_none() {
            self.tell(What::StoreLost(why.to_owned()), None, None);
        }
        let held = self.records.settle(upto);
        let mut undone = BTreeMap::new();
        for Promise { lease, .. } in self.records.take_promises(upto) {
            if let Some(instance) = self.undo(&lease, why) {
                undone.insert(lease, instance);
            }
        }
        for output in held {
            match output {
                Output::Start { instance, .. } => self.forget_instance(instance),
                Output::Reply(call, reply) => {
                    let reply = self.amended(reply, &undone);
                    self.out.push_back(Output::Reply(call, reply));
                }
                // An instance that was never asked for was not started, either.
                Output::Tell(_) => {}
                Output::Stop { .. }
                | Output::Probe { .. }
                | Output::Adopt { .. }
                | Output::Reclaim(_)
                | Output::Ceilings(_)
                | Output::Record(..) => {
                    unreachable!("these wait for no record")
                }
            }
        }
    }

    /// Takes back what was promised of a lease; its instance, where it had one. `None` where it has ended
    /// already, which leaves nothing to take back.
    fn undo(&mut self, id: &LeaseId, why: &str) -> Option<Option<InstanceId>> {
        let now = self.now;
        let lease = self.leases.get_mut(id).filter(|lease| !lease.is_over())?;
        let (home, tenant, class) = (lease.pool.clone(), lease.tenant.clone(), lease.class.clone());
        let end = End::Refused(Why::NotRecorded(why.to_owned()));
        let before =
            std::mem::replace(&mut lease.state, State::Ended { end: end.clone(), at: now, granted_at: None });
        let mut lent = None;
        let tally = self.pool(&home).tally_of(&class);
        if matches!(before, State::Executing { .. }) {
            tally.granted = tally.granted.saturating_sub(1); // It was never told.
        }
        tally.end(&end, false);
        self.end_permits(id);
        match before {
            State::Queued { place, .. } => self.pool(&home).dequeue(place, false),
            State::Executing { instance, .. } => {
                lent = Some(instance);
                let pool = self.pool(&home);
                pool.demand.returned(now, &class, false);
                let life = pool.warm_life(instance, now);
                pool.become_(instance, life);
                self.set_instance_timer(instance);
                self.record_instance(instance);
            }
            State::Ended { .. } => unreachable!("these were filtered out"),
        }
        self.timers.clear(&Timer::Lease(id.clone()));
        self.count_over(&tenant);
        self.rest_task(id);
        self.ended.push_back(id.clone());
        self.tell_of_lease(What::LeaseEnded(end), id, lent);
        self.record_lease(id);
        self.answer_watchers(id);
        self.forget_ended();
        Some(lent)
    }

    /// An answer that has waited for records that failed: what was undone is refused and not shown.
    fn amended(&mut self, reply: Reply, undone: &BTreeMap<LeaseId, Option<InstanceId>>) -> Reply {
        let refused = match &reply {
            Reply::Lease(view) => undone.contains_key(&view.id).then(|| view.id.clone()),
            Reply::ExplainLease(view) => undone.contains_key(&view.lease.id).then(|| view.lease.id.clone()),
            Reply::Use { instance, .. } => {
                undone.iter().find(|(_, lent)| **lent == Some(*instance)).map(|(lease, _)| lease.clone())
            }
            Reply::Leases(_)
            | Reply::Permit(_)
            | Reply::Providers(_)
            | Reply::Pools(_)
            | Reply::Explain(_)
            | Reply::Host(_)
            | Reply::Reloaded(_)
            | Reply::Refused(_) => None,
        };
        match (refused, reply) {
            (Some(lease), _) => Reply::Refused(Box::new(self.not_recorded(lease))),
            (None, Reply::Leases(mut all)) => {
                all.retain(|view| !undone.contains_key(&view.id));
                Reply::Leases(all)
            }
            (None, reply) => reply,
        }
    }

    fn not_recorded(&mut self, id: LeaseId) -> Refusal {
        let lease = &self.leases[&id];
        let (pool, class) = (lease.pool.clone(), lease.class.clone());
        let degraded_from = lease.degraded_from.clone();
        let why = Why::NotRecorded(self.records.trouble.clone().unwrap_or_default());
        let retry_after = self.retry_after(&pool, &id, &why);
        Refusal::Limit { why, pool, class, retry_after, lease: Some(id), degraded_from }
    }
}
