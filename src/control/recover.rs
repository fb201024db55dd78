//! The beginning: what an earlier daemon wrote down becomes the state again.
//!
//! A lease goes on with its absolute deadlines, or ends as it would have ended meanwhile. Its idle time begins anew:
//! nobody knows what its caller did while nobody looked, and the daemon's own absence is no silence of a caller's. One that
//! waits for a person goes on waiting, to the same deadline.
//! A warm instance is *unseen* until its keeper has found its first process, opened its door and heard it answer; it
//! counts as one that is on its way, so nothing is started in its place. What was being started or stopped, what is
//! of an earlier boot and what is made from another template is ended. A lent one of another template goes on, and is
//! counted with what its record says that it was made from. A container without a record is nobody's,
//! and goes at its second sighting (`news`): whether it was ever lent cannot be known.
//!
//! A pool that the profile has no more is there again, as removed, while anything of it is: its leases run to their
//! own end, as they do after a reload.
//!
//! After a reboot an executing lease has ended with its host, and one that waits goes on waiting. A drain ends with
//! its boot: it was to empty the host, and a reboot has.
//!
//! Not here: reading records and matching boots and templates (`daemon`), finding containers (`docker`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Controller;
use super::drain::Drain;
use super::envelope::Learned;
use super::host::Figure;
use super::hours::Hours;
use super::lease::{Lease, State};
use super::message::{
    DrainRecord, End, EnvelopeRecord, Failure, InstanceId, InstanceRecord, InstanceRecordState, Interruption,
    LeaseId, LeaseRecord, LeaseRecordState, Made, Output, Process, Record, Recovered, Scope, StopReason,
    What, Why,
};
use super::pool::{Instance, Life, Pool};
use super::queue::Waiting;
use super::timer::Timer;
use crate::profile::PoolName;
use crate::quantity::Instant;

impl Controller {
    /// Takes up what was written down; the first word of a daemon's life.
    pub(super) fn take_recovered(&mut self, recovered: Recovered) {
        let Recovered { last, leases, lost, instances, outdated, drains, envelopes } = recovered;
        self.records.count_from(last);
        for (record, fits) in envelopes {
            self.recover_envelope(&record, fits);
        }
        self.recover_removed(instances.iter().chain(&outdated));
        for (scope, record) in drains {
            self.recover_drain(&scope, record);
        }
        let mut lent = BTreeMap::new();
        let (mut ended, mut queued, mut executing) = (Vec::new(), Vec::new(), Vec::new());
        for record in leases {
            match record.state {
                LeaseRecordState::Ended { .. } => ended.push(record),
                LeaseRecordState::Queued { .. } => queued.push(record),
                LeaseRecordState::Executing { .. } => executing.push(record),
            }
        }
        self.recover_ended(ended);
        for record in lost {
            self.end_unseen(record, End::Interrupted(Interruption::HostLost));
        }
        self.recover_queued(queued);
        for record in executing {
            self.recover_executing(record, &mut lent);
        }
        let live = self.leases.len() - self.ended.len();
        for record in instances {
            self.recover_instance(&record, true, &mut lent);
        }
        for record in outdated {
            self.recover_instance(&record, false, &mut lent);
        }
        // A lease whose instance has no record of its own: that one was damaged, and the lease says enough.
        for (id, lease) in lent {
            self.adopt_leased(id, &lease, None, false);
        }
        for name in self.pools.keys().cloned().collect::<Vec<_>>() {
            self.spread_drain(&name);
            let now = self.now;
            let pool = self.pool(&name);
            // What was warm was wanted: an empty memory of who came is no reason to let it go.
            pool.held.note(now, pool.counts.starting);
        }
        let instances = self.homes.len();
        if live + instances > 0 {
            let count = |many: usize| u32::try_from(many).unwrap_or(u32::MAX);
            self.tell(What::Recovered { leases: count(live), instances: count(instances) }, None, None);
        }
    }

    /// What was learned of another template is the former figure of the pool's own.
    fn recover_envelope(&mut self, record: &EnvelopeRecord, fits: bool) {
        let Some(pool) = self.pools.get_mut(&record.pool) else { return };
        let max = pool.spec.template.memory_max;
        let learned = Learned::of(record, max);
        pool.hours = Hours::of(&record.hours, record.hours_until);
        pool.learned = if fits { learned } else { Learned::after(learned.figure(record.usual), max) };
        pool.expect();
    }

    /// Brings back pools that are not in the profile any more, as what is left of them was made from.
    fn recover_removed<'a>(&mut self, records: impl Iterator<Item = &'a InstanceRecord>) {
        let mut newest: BTreeMap<&PoolName, (Instant, &Made)> = BTreeMap::new();
        for record in records.filter(|record| !self.pools.contains_key(&record.pool)) {
            let Some(made) = &record.made else { continue };
            let latest = newest.entry(&record.pool).or_insert((record.born, made));
            if latest.0 <= record.born {
                *latest = (record.born, made);
            }
        }
        for (name, (_, made)) in newest {
            let mut pool = Pool::new(name.clone(), made.clone().pool());
            pool.removed = true;
            self.pools.insert(name.clone(), pool);
        }
    }

    fn recover_drain(&mut self, scope: &Scope, record: DrainRecord) {
        let known = scope.pool().is_none_or(|name| self.pools.contains_key(name));
        if !known {
            return self.record(Record::Undrained(scope.clone()));
        }
        let DrainRecord { since, deadline } = record;
        self.set_drain(scope, Some(Drain { since, deadline, told_empty: false }));
    }

    fn recover_ended(&mut self, mut records: Vec<LeaseRecord>) {
        records.sort_by_key(|record| match record.state {
            LeaseRecordState::Ended { at, .. } => at,
            LeaseRecordState::Queued { .. } | LeaseRecordState::Executing { .. } => self.now,
        });
        for record in records {
            let LeaseRecordState::Ended { end, at, granted_at } = record.state.clone() else { continue };
            let id = record.id.clone();
            self.recover_task(&record, Some(at));
            self.leases.insert(id.clone(), Lease::of(record, State::Ended { end, at, granted_at }));
            self.ended.push_back(id);
        }
        self.forget_ended();
    }

    fn recover_queued(&mut self, mut records: Vec<LeaseRecord>) {
        records.sort_by_key(|record| match record.state {
            LeaseRecordState::Queued { promised, arrival, .. } => (promised, arrival),
            LeaseRecordState::Executing { .. } | LeaseRecordState::Ended { .. } => (self.now, 0),
        });
        for mut record in records {
            let LeaseRecordState::Queued { promised, deadline, .. } = record.state else { continue };
            let Some(pool) = self.pools.get_mut(&record.pool) else {
                self.end_unseen(record, End::Refused(Why::PoolRemoved));
                continue;
            };
            // Its end was not written any more; it has none to wait for.
            if let Some(why) = pool.closed_by() {
                self.end_unseen(record, End::Refused(why));
                continue;
            }
            if !self.profile.classes.contains_key(&record.class) {
                record.class = pool.spec.default_class.clone();
            }
            let id = record.id.clone();
            let waiting = Waiting {
                lease: id.clone(),
                class: record.class.clone(),
                tenant: record.tenant.clone(),
                asked: record.asked_at,
            };
            let place = pool.queue.join(waiting, promised);
            pool.tally_of(&record.class).ask(record.task.as_ref().map_or(1, |task| task.attempt));
            self.count_live(&record.tenant);
            self.timers.set(Timer::Lease(id.clone()), deadline);
            self.recover_task(&record, None);
            self.leases.insert(id, Lease::of(record, State::Queued { place, deadline }));
        }
    }

    fn recover_executing(&mut self, record: LeaseRecord, lent: &mut BTreeMap<InstanceId, LeaseId>) {
        let LeaseRecordState::Executing { instance, granted_at, used, deadline, hold } = record.state.clone()
        else {
            return;
        };
        if !self.pools.contains_key(&record.pool) {
            // Nothing says what it was made from, so it cannot be counted.
            self.out.push_back(Output::Stop { instance, grace: Duration::ZERO });
            return self.end_unseen(record, End::Interrupted(Interruption::PoolRemoved));
        }
        if lent.contains_key(&instance) {
            return self.end_unseen(record, End::Failed(Failure::Vanished));
        }
        let active_at = self.now;
        self.recover_task(&record, None);
        let state =
            State::Executing { instance, granted_at, used, active_at, deadline, draining: None, hold };
        let lease = Lease::of(record, state);
        if lease.is_held() {
            self.pool(&lease.pool).holds.insert(lease.id.clone());
        }
        lent.insert(instance, lease.id.clone());
        self.count_live(&lease.tenant);
        self.timers.set(Timer::Lease(lease.id.clone()), lease.due());
        self.leases.insert(lease.id.clone(), lease);
    }

    /// Ends a lease that went on when it was written down and cannot go on.
    fn end_unseen(&mut self, record: LeaseRecord, end: End) {
        let (id, at) = (record.id.clone(), self.now);
        let granted_at = match record.state {
            LeaseRecordState::Executing { granted_at, .. } => Some(granted_at),
            LeaseRecordState::Queued { .. } | LeaseRecordState::Ended { .. } => None,
        };
        self.recover_task(&record, Some(at));
        let lease = Lease::of(record, State::Ended { end: end.clone(), at, granted_at });
        self.leases.insert(id.clone(), lease);
        self.tell_of_lease(What::LeaseEnded(end), &id, None);
        self.record_lease(&id);
        self.ended.push_back(id);
        self.forget_ended();
    }

    fn recover_instance(
        &mut self,
        record: &InstanceRecord,
        fits: bool,
        lent: &mut BTreeMap<InstanceId, LeaseId>,
    ) {
        let id = record.id;
        if let Some(lease) = lent.remove(&id) {
            return self.adopt_leased(id, &lease, Some(record), fits);
        }
        let Some(pool) = self.pools.get(&record.pool) else {
            self.out.push_back(Output::Stop { instance: id, grace: Duration::ZERO });
            return self.record(Record::Gone(id));
        };
        let (now, removed) = (self.now, pool.removed);
        match record.state {
            InstanceRecordState::Warm { since, expires } if fits => {
                let deadline = now.after(self.pools[&record.pool].spec.deadlines.start_timeout);
                self.take_in(record, Life::Unseen { since, expires, deadline }, true);
                self.adopt(id, record.process, None);
            }
            InstanceRecordState::Warm { .. }
            | InstanceRecordState::Starting
            | InstanceRecordState::Stopping => {
                let why = match record.state {
                    InstanceRecordState::Warm { .. } if removed => StopReason::Removed,
                    InstanceRecordState::Warm { .. } => StopReason::Outdated,
                    InstanceRecordState::Starting | InstanceRecordState::Stopping => StopReason::Interrupted,
                };
                let life = Life::Unseen { since: now, expires: now, deadline: now };
                self.take_in(record, life, fits);
                self.stop_instance(id, why);
            }
        }
    }

    fn adopt_leased(&mut self, id: InstanceId, lease: &LeaseId, record: Option<&InstanceRecord>, fits: bool) {
        let pool = self.leases[lease].pool.clone();
        let found = InstanceRecord {
            id,
            pool: pool.clone(),
            born: record.map_or(self.now, |record| record.born),
            process: record.and_then(|record| record.process),
            made: record.and_then(|record| record.made.clone()),
            state: InstanceRecordState::Stopping,
        };
        let class = self.leases[lease].class.clone();
        let (now, home) = (self.now, found.pool.clone());
        self.take_in(&found, Life::Leased { lease: lease.clone(), class: class.clone() }, fits);
        self.pool(&home).demand.lent(now, &class);
        self.adopt(id, found.process, Some(lease.clone()));
    }

    fn adopt(&mut self, instance: InstanceId, process: Option<Process>, lease: Option<LeaseId>) {
        let pool = self.homes[&instance].clone();
        let made = Arc::clone(&self.pools[&pool].instances[&instance].made);
        self.out.push_back(Output::Adopt { instance, pool, made, process, lease });
    }

    /// An instance that was written down exists, as far as is known; what it holds is not known.
    fn take_in(&mut self, record: &InstanceRecord, life: Life, fits: bool) {
        let InstanceRecord { id, pool, born, process, made, .. } = record.clone();
        let now = self.now;
        let spec = &self.pools[&pool].spec;
        // One that is not the pool's own says that it is of another template.
        let made = match made {
            _ if fits => Arc::clone(spec),
            Some(made) => Arc::new(made.pool()),
            None => Arc::new((**spec).clone()),
        };
        // Of a pool that is rebuilt from records there is no newer template.
        let made = if made == *spec && self.pools[&pool].removed { Arc::clone(spec) } else { made };
        let instance = Instance {
            made,
            made_known: fits,
            born,
            alone: false,
            wanted: born,
            exists_since: Some(now),
            runs_since: Some(now),
            peak: None,
            kills: None,
            oom: None,
            worked: None,
            memory: Figure::unread("not looked at since the daemon began"),
            process,
            life,
        };
        self.homes.insert(id, pool.clone());
        self.pool(&pool).take_in(id, instance);
        self.set_instance_timer(id);
    }

    /// The engine answers: what is still to be found has its whole time from here on.
    pub(super) fn look_for_unseen(&mut self) {
        let now = self.now;
        let mut unseen = Vec::new();
        for pool in self.pools.values_mut() {
            let later = now.after(pool.spec.deadlines.start_timeout);
            for (id, instance) in &mut pool.instances {
                if let Life::Unseen { deadline, .. } = &mut instance.life {
                    *deadline = later;
                    unseen.push(*id);
                }
            }
        }
        unseen.into_iter().for_each(|id| self.set_instance_timer(id));
    }

    /// A warm one that was written down has not been found alive in time. While the engine does not answer
    /// nothing is known of it, and it is waited for.
    pub(super) fn fire_unseen(&mut self, id: InstanceId) {
        if self.belief.engine == super::message::Engine::Reachable {
            return self.stop_instance(id, StopReason::Unanswering);
        }
        let home = self.homes[&id].clone();
        let now = self.now;
        let pool = self.pool(&home);
        let later = now.after(pool.spec.deadlines.start_timeout);
        let instance = pool.instances.get_mut(&id).expect("homes and instances agree");
        if let Life::Unseen { deadline, .. } = &mut instance.life {
            *deadline = later;
        }
        self.set_instance_timer(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::{Input, LimitsRecord, Tenant};
    use crate::profile::{ClassName, Kind};

    #[test]
    fn what_is_left_of_a_pool_that_nothing_is_known_of_is_stopped_at_once() {
        let profile = "[pool.python]\nkind = \"sandbox\"\nimage = \"i\"\nwarm = { min = 0, max = 0 }\n";
        let profile = crate::profile::check("host.toml", profile).unwrap();
        let instance = InstanceId { run: 7, count: 1 };
        let record = InstanceRecord {
            id: instance,
            pool: PoolName::new("gone"),
            born: Instant::BOOT,
            process: None,
            made: None,
            state: InstanceRecordState::Starting,
        };
        let recovered = Recovered { outdated: vec![record], ..Recovered::default() };
        let mut controller = Controller::new(profile, "host".into(), 8, Instant::BOOT);
        controller.handle(Instant::BOOT, Input::Recovered(Box::new(recovered)));
        let given: Vec<_> = std::iter::from_fn(|| controller.poll_output()).collect();
        assert!(given.contains(&Output::Stop { instance, grace: Duration::ZERO }), "{given:?}");
        assert!(given.contains(&Output::Record(1, Record::Gone(instance))), "{given:?}");
    }

    /// A daemon died between the record of a drain and that of the refusals behind it.
    #[test]
    fn who_waits_in_a_pool_that_is_closed_is_refused() {
        let profile = "[pool.python]\nkind = \"sandbox\"\nimage = \"i\"\nwarm = { min = 0, max = 0 }\n";
        let profile = crate::profile::check("host.toml", profile).unwrap();
        let (python, second) = (PoolName::new("python"), Duration::from_secs(1));
        let limits = LimitsRecord { first_use: second, idle: second, runtime: second, runtime_max: second };
        let later = Instant::BOOT.after(second);
        let lease = LeaseRecord {
            id: LeaseId("r1".into()),
            pool: python.clone(),
            degraded_from: None,
            kind: Kind::Sandbox,
            class: ClassName::new("interactive"),
            tenant: Tenant("ann".into()),
            task: None,
            asked_at: Instant::BOOT,
            oom_kills: 0,
            limits,
            state: LeaseRecordState::Queued { promised: later, arrival: 1, deadline: later },
        };
        let cases = [(Scope::Host, Why::HostDraining), (Scope::Pool(python), Why::PoolDraining)];
        for (scope, why) in cases {
            let drain = DrainRecord { since: Instant::BOOT, deadline: later };
            let recovered = Recovered {
                leases: vec![lease.clone()],
                drains: vec![(scope, drain)],
                ..Recovered::default()
            };
            let mut controller = Controller::new(profile.clone(), "host".into(), 1, Instant::BOOT);
            controller.handle(Instant::BOOT, Input::Recovered(Box::new(recovered)));
            let ended = std::iter::from_fn(|| controller.poll_output()).find_map(|output| {
                let Output::Record(_, Record::Lease(lease)) = output else { return None };
                Some(lease.state)
            });
            let Some(LeaseRecordState::Ended { end, .. }) = ended else { panic!("it is {ended:?}") };
            assert_eq!(end, End::Refused(why));
        }
    }
}
