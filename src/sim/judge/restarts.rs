//! What a killed daemon may have forgotten, and what not: all that anybody was told is on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::relief::Books;
use super::{Found, Judge, Over};
use crate::control::message::{
    InstanceId, InstanceRecordState, LeaseId, LeaseRecord, LeaseRecordState, Record, Scope, Subject,
};
use crate::profile::{HostProfile, PoolName};
use crate::quantity::Instant;

type Disk = BTreeMap<Subject, Record>;

impl Judge {
    /// The daemon was killed and has left this behind: holds it against what was told, and takes it for the truth.
    pub(in crate::sim) fn crash(&mut self, now: Instant, disk: &Disk) -> Found {
        self.now = now;
        self.calls.clear();
        self.permits.forget();
        self.strangers.clear();
        // The next one begins calm, and knows of nobody that relief has ended.
        self.books = Books::since(now);
        (self.engine, self.written) = (false, 0);
        // What the host has is seen anew.
        (self.memory, self.cores, self.slice) = (None, None, None);
        (self.pids, self.disks) = (None, [None; 2]);
        let leases: BTreeMap<&LeaseId, &LeaseRecord> = disk
            .values()
            .filter_map(|record| match record {
                Record::Lease(lease) => Some((&lease.id, &**lease)),
                Record::Instance(_)
                | Record::Gone(_)
                | Record::Drain(..)
                | Record::Undrained(_)
                | Record::Envelope(_) => None,
            })
            .collect();
        self.live.clear();
        for id in self.leases.keys().cloned().collect::<Vec<_>>() {
            self.remember_lease(&id, leases.get(&id).copied())?;
        }
        for id in self.instances.keys().copied().collect::<Vec<_>>() {
            self.remember_instance(id, disk)?;
        }
        self.drains = disk
            .values()
            .filter_map(|record| match record {
                Record::Drain(scope, drain) => Some((scope.clone(), drain.deadline)),
                Record::Lease(_)
                | Record::Instance(_)
                | Record::Gone(_)
                | Record::Undrained(_)
                | Record::Envelope(_) => None,
            })
            .collect();
        Ok(())
    }

    /// The next daemon begins: what nobody could do meanwhile counts from here.
    pub(in crate::sim) fn begin(&mut self, now: Instant, profile: &Arc<HostProfile>) {
        self.now = now;
        self.profile = profile.clone();
        let left: std::collections::BTreeSet<PoolName> = self.there().map(|seen| seen.pool.clone()).collect();
        self.drains.retain(|scope, _| match scope {
            Scope::Host => true,
            Scope::Pool(pool) => profile.pools.contains_key(pool) || left.contains(pool),
        });
        for seen in self.instances.values_mut().filter(|seen| !seen.gone && !seen.older) {
            match profile.pools.get(&seen.pool) {
                Some(pool) if (pool.kind, &pool.template) == (seen.made.kind, &seen.made.template) => {
                    seen.made = Arc::new(pool.clone());
                }
                Some(_) | None => seen.older = true,
            }
        }
        for id in self.live.clone() {
            self.leases.get_mut(&id).expect("what lives is known").active_at = now;
            self.watch(&id);
        }
        // What was written down is taken to be there.
        for seen in self.instances.values_mut().filter(|seen| !seen.gone) {
            seen.exists_at.get_or_insert(now);
            seen.runs_at.get_or_insert(now);
        }
    }

    fn remember_lease(&mut self, id: &LeaseId, record: Option<&LeaseRecord>) -> Found {
        let known = self.leases.get_mut(id).expect("it was listed");
        known.record = if record.is_some() { 0 } else { known.record };
        // What was said of it and not written down has not been.
        if let Some(record) = record.filter(|record| record.pool != known.pool) {
            known.pool = record.pool.clone();
            known.degraded_from = record.degraded_from.clone();
            known.deadlines.max_runtime = record.limits.runtime_max;
            known.deadlines.first_use_timeout = record.limits.first_use;
            known.deadlines.idle_timeout = record.limits.idle;
        }
        match record.map(|record| &record.state) {
            Some(LeaseRecordState::Executing { instance, granted_at, used, deadline, hold }) => {
                known.hold = hold.as_ref().map(|hold| (hold.since, hold.until));
                known.granted = Some((*instance, *granted_at));
                (known.used, known.deadline, known.ended) = (*used, *deadline, false);
                self.live.insert(id.clone());
            }
            Some(LeaseRecordState::Queued { .. }) => {
                if let Some((instance, _)) = known.granted.take() {
                    self.unlend(instance, id);
                }
                let known = self.leases.get_mut(id).expect("it was listed");
                (known.used, known.ended, known.hold) = (false, false, None);
                self.live.insert(id.clone());
            }
            Some(LeaseRecordState::Ended { .. }) => {
                known.ended = true;
                self.over.push_back((self.now, Over::Lease(id.clone())));
            }
            None => {
                // One that waits on its caller's connection has ended with it.
                if known.told && !known.ended {
                    return Err(format!("{id} was told and is forgotten: {known:?}"));
                }
                known.ended = true;
                self.over.push_back((self.now, Over::Lease(id.clone())));
                let known = &self.leases[id];
                if let Some((instance, _)) = known.granted {
                    self.unlend(instance, id);
                }
            }
        }
        Ok(())
    }

    /// A grant that nobody has heard of and nothing speaks of has not been.
    fn unlend(&mut self, instance: InstanceId, lease: &LeaseId) {
        if let Some(seen) = self.instances.get_mut(&instance)
            && seen.lent.as_ref() == Some(lease)
            && self.leases.get(lease).is_some_and(|known| !known.told)
        {
            seen.lent = None;
        }
    }

    fn remember_instance(&mut self, id: InstanceId, disk: &Disk) -> Found {
        let seen = self.instances.get_mut(&id).expect("it was listed");
        (seen.asked, seen.silences) = (false, 0);
        match disk.get(&Subject::Instance(id)) {
            Some(Record::Instance(record)) => {
                seen.gone = false;
                self.there.insert(id);
                // A reload renews what is expected of it, and leaves its record as it is.
                if let Some(made) = &record.made {
                    Arc::make_mut(&mut seen.made).memory_expect = made.memory_expect;
                }
                match record.state {
                    InstanceRecordState::Warm { .. } => {
                        (seen.ready, seen.stop, seen.unseen) = (true, false, true);
                        let lease = seen.lent.as_ref().and_then(|lease| self.leases.get(lease));
                        if let Some(known) = lease.filter(|known| known.ended) {
                            return Err(format!("{id} was lent, and is warm on the disk: {known:?}"));
                        }
                    }
                    InstanceRecordState::Starting => seen.ordered = true,
                    InstanceRecordState::Stopping => seen.stop = true,
                }
            }
            Some(_) | None => self.bury(id),
        }
        Ok(())
    }
}
