//! Another profile while everything runs.
//!
//! Think of a shop that changes its prices at noon: who has paid keeps what was agreed, who stands in the queue
//! keeps the place and the wait, and everybody after goes by the new list.
//!
//! A new pool begins. One that is in the profile no more takes no work: who waits is refused, what is warm
//! stops, leases run to their own end, and when nothing is left of it the pool is gone. A changed template makes no
//! lease end; the warm ones of the older template are exchanged one at a time (`settle`), and serve as long as no
//! newer one does. So a template whose starts fail takes nothing away, but for the one that made room where there
//! was none. Limits, stock and the host's reserve hold at once for whatever is decided next; a lease keeps the
//! deadlines that it was asked for with.
//!
//! Not here: reading and checking files (`profile`). What cannot change while the daemon runs is refused by name,
//! and then nothing changes.

use super::Controller;
use super::message::{
    CallId, End, Event, InstanceId, LeaseId, Output, Record, Refusal, Reply, Scope, What, Why,
};
use super::pool::Pool;
use super::timer::Timer;
use crate::profile::{self, Change, HostProfile, PoolName};

impl Controller {
    /// Goes by this profile from now on, if it can.
    pub(super) fn reload(&mut self, call: CallId, profile: HostProfile) {
        let changes = profile::changes(&self.profile, &profile);
        if let Some(change) = self.unchangeable(&profile, &changes) {
            self.tell(What::ReloadRefused(change.clone()), None, None);
            return self.reply(call, Reply::Refused(Box::new(Refusal::CannotChange(change))));
        }
        for change in &changes {
            let pool = change.key.strip_prefix("pool.").and_then(|rest| rest.split('.').next());
            let pool = pool.map(PoolName::new);
            self.tell(What::ProfileChanged(change.clone()), pool.as_ref(), None);
        }
        let now = self.now;
        self.renew_providers(&profile);
        for (name, spec) in &profile.pools {
            match self.pools.get_mut(name) {
                Some(pool) => pool.renew(spec.clone(), now),
                None => {
                    let mut pool = Pool::new(name.clone(), spec.clone());
                    pool.host_drain = self.drain;
                    self.pools.insert(name.clone(), pool);
                }
            }
        }
        let gone = |name: &&PoolName| !profile.pools.contains_key(*name);
        for name in self.pools.keys().filter(gone).cloned().collect::<Vec<_>>() {
            self.remove_pool(&name);
        }
        self.profile = profile;
        let count = u32::try_from(changes.len()).expect("a profile has far fewer keys");
        self.tell(What::ProfileReloaded(count), None, None);
        self.reply(call, Reply::Reloaded(changes));
    }

    /// What in this profile cannot change while the daemon runs: the host's name, which containers and leases bear.
    fn unchangeable(&self, profile: &HostProfile, changes: &[Change]) -> Option<Change> {
        let named = changes.iter().find(|change| change.key == "host.name")?;
        // Writing down the name that it has changes nothing.
        (profile.host.name.as_deref() != Some(&self.name)).then(|| named.clone())
    }

    /// Sends away who waits for a pool; what it has is stopped, or ends, as the whole settles.
    fn remove_pool(&mut self, name: &PoolName) {
        self.pool(name).removed = true;
        let waiting: Vec<LeaseId> = self.pools[name].queue.leases().cloned().collect();
        for lease in waiting {
            self.end_lease(&lease, End::Refused(Why::PoolRemoved));
        }
    }

    /// Forgets removed pools of which nothing is left, with the drains that were asked for them.
    pub(super) fn forget_removed(&mut self) {
        let empty = |pool: &&Pool| pool.removed && pool.instances.is_empty();
        for name in self.pools.values().filter(empty).map(|pool| pool.name.clone()).collect::<Vec<_>>() {
            let pool = self.pools.remove(&name).expect("it was found just now");
            if pool.own_drain.is_some() {
                self.record(Record::Undrained(Scope::Pool(name.clone())));
            }
            self.timers.clear(&Timer::Stock(name.clone()));
            self.timers.clear(&Timer::Retry(name.clone()));
            let event =
                Event { what: What::PoolGone, pool: Some(name), instance: None, lease: None, tenant: None };
            self.out.push_back(Output::Tell(event));
        }
    }

    /// Where an exchange needs room that the older one takes: stops one such in each pool whose turn it is. Whether
    /// it has stopped any.
    pub(super) fn make_room(&mut self) -> bool {
        let going: Vec<InstanceId> = self.pools.values().filter_map(Pool::to_make_room).collect();
        for id in &going {
            self.stop_instance(*id, super::message::StopReason::Outdated);
        }
        !going.is_empty()
    }
}

impl Pool {
    /// Whether the next exchange of a warm one of an older template may begin: one at a time, and none while
    /// somebody waits.
    pub(super) fn may_exchange(&self) -> bool {
        self.outdated().is_some() && self.counts.starting == 0 && self.queue.len() == 0 && !self.is_closed()
    }

    /// The one that is stopped before its successor is started, because that finds no room beside it. So the
    /// stock is one short for the time of a start, which nobody waits for.
    fn to_make_room(&self) -> Option<InstanceId> {
        let why = self.blocked_by.as_ref()?;
        let helps = why.is_shortage() || matches!(why, Why::MaxInstances { .. });
        (helps && self.counts.stopping == 0 && self.may_exchange()).then(|| self.outdated()).flatten()
    }
}
