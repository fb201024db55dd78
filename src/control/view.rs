//! The controller as callers and operators see it. Everything shown is taken from the state that decides:
//! no figure is kept for showing alone, so none can disagree.

use std::collections::BTreeMap;

use super::Controller;
use super::admission;
use super::budget;
use super::drain::Drain;
use super::lease::{Lease, State};
use super::message::{
    ClassView, Disk, DiskView, DrainView, Engine, HostView, LeaseState, LeaseView, PidsView, PoolView,
    PressureView, Summary, Why,
};
use super::pool::{Life, Pool};
use crate::profile::ClassName;
use crate::quantity::Bytes;

impl Controller {
    /// The host in a few figures; it costs a look at each pool, and none at an instance.
    pub fn summary(&self) -> Summary {
        let (engine, drain) = (self.belief.engine.clone(), None);
        let trouble = self.trouble();
        let mut all = Summary { warm: 0, leased: 0, starting: 0, queued: 0, engine, drain, trouble };
        let mut instances = 0;
        for pool in self.pools.values() {
            all.warm += pool.counts.warm;
            all.leased += pool.counts.leased;
            all.starting += pool.counts.starting;
            all.queued += pool.queue.len();
            instances += pool.total();
        }
        all.drain = self.drain.map(|drain| view_drain(drain, all.leased, instances));
        all
    }

    /// What keeps every pool from lending or starting.
    fn trouble(&self) -> Option<Why> {
        if let Some(why) = &self.records.trouble {
            return Some(Why::NotRecorded(why.clone()));
        }
        let memory = self.belief.memory.reading(self.now);
        // Before the first look nothing is wrong yet.
        let tried = !self.belief.memory.never_tried();
        let unknown = memory.known().err().filter(|_| tried).map(|why| Why::NoTelemetry(why.to_owned()));
        let disk = || admission::disk_trouble(&self.profile.host, &self.belief, self.now);
        // One that is not known yet is looked at with the engine's first word.
        unknown.or_else(|| disk().filter(|why| !matches!(why, Why::NoTelemetry(_))))
    }

    pub(super) fn view_lease(&self, lease: &Lease) -> LeaseView {
        let rank = match lease.state {
            State::Queued { place, .. } => self.pools[&lease.pool].queue.rank(place),
            State::Executing { .. } | State::Ended { .. } => 0,
        };
        self.view_lease_at(lease, rank)
    }

    /// All leases, newest first.
    pub(super) fn view_leases(&self) -> Vec<LeaseView> {
        let ranks: BTreeMap<_, _> =
            self.pools.values().map(|pool| (&pool.name, pool.queue.ranks())).collect();
        let view = |lease: &Lease| match lease.state {
            State::Queued { place, .. } => self.view_lease_at(lease, ranks[&lease.pool][&place]),
            State::Executing { .. } | State::Ended { .. } => self.view_lease_at(lease, 0),
        };
        let mut all: Vec<_> = self.leases.values().map(view).collect();
        all.sort_by(|one, other| (other.asked_at, &other.id).cmp(&(one.asked_at, &one.id)));
        all
    }

    /// A lease whose place in the queue is known, if it is in one.
    fn view_lease_at(&self, lease: &Lease, rank: u32) -> LeaseView {
        LeaseView {
            id: lease.id.clone(),
            pool: lease.pool.clone(),
            degraded_from: lease.degraded_from.clone(),
            kind: lease.kind,
            class: lease.class.clone(),
            tenant: lease.tenant.clone(),
            task: lease.task.as_ref().map(|task| (task.id.clone(), task.attempt)),
            asked_at: lease.asked_at,
            oom_kills: lease.oom_kills,
            state: self.view_state(lease, rank),
            seen_at: self.now,
        }
    }

    pub(super) fn view_pool(&self, pool: &Pool) -> PoolView {
        let now = self.now;
        let held = |instance: &super::pool::Instance| instance.memory.reading(now).known().ok().copied();
        let stuck = |life: &Life| matches!(life, Life::Stopping { tries, .. } if *tries > 1);
        let leased = pool.counts.leased;
        PoolView {
            name: pool.name.clone(),
            kind: pool.spec.kind,
            image: pool.spec.template.image.clone(),
            starting: pool.counts.starting,
            warm: pool.counts.warm,
            stock: pool.stock(),
            leased,
            stopping: pool.counts.stopping,
            stuck: count(pool.instances.values().filter(|instance| stuck(&instance.life)).count()),
            queued: pool.queue.len(),
            oldest_wait: pool.queue.oldest().map(|asked| now.since(asked)),
            outdated: count(pool.instances.keys().filter(|id| pool.is_outdated(**id)).count()),
            removed: pool.removed,
            max_instances: pool.spec.max_instances,
            holds: self.view_holds(pool),
            classes: self.view_classes(pool),
            starts: (pool.tally.starts, pool.tally.failed),
            took: pool.tally.took,
            memory: pool.instances.values().filter_map(held).sum(),
            unmeasured: count(pool.instances.values().filter(|instance| held(instance).is_none()).count()),
            envelope: pool.expected.usual,
            lives: pool.learned.lives(),
            memory_expect: pool.spec.memory_expect,
            cpu_expected: pool.cpu_expected,
            promised: pool.promised(now).memory,
            drain: pool.drain().map(|drain| view_drain(drain, leased, pool.total())),
            blocked_by: pool.blocked_by.clone(),
            seen_at: now,
        }
    }

    fn view_classes(&self, pool: &Pool) -> Vec<ClassView> {
        let holds = self.holds_by_class(pool);
        let of = |class| view_class(pool, class, holds.get(class).copied().unwrap_or(0));
        self.profile.classes.keys().map(of).collect()
    }

    pub(super) fn view_host(&self) -> HostView {
        let now = self.now;
        let memory = self.belief.memory.reading(now);
        let (host, gauge) = (&self.profile.host, &self.belief.gauge);
        let limit: Option<Bytes> =
            memory.known().ok().map(|memory| budget::memory_limit(&self.profile, memory));
        let floor = memory.known().ok().map(|memory| host.floor.of(memory.total));
        let (mut starting, mut leased, mut total) = (0, 0, 0);
        for pool in self.pools.values() {
            starting += pool.counts.starting;
            leased += pool.counts.leased;
            total += pool.total();
        }
        let promised = self.promised();
        let disk = |of: Disk| DiskView { of, floor: budget::disk_floor(host, &of).0 };
        let stocked =
            |pool: &Pool| pool.is_closed() || pool.counts.warm + pool.counts.leased >= pool.spec.warm.min;
        HostView {
            name: self.name.clone(),
            seen_at: now,
            since: self.since,
            ready: self.belief.engine == Engine::Reachable
                && memory.known().is_ok()
                && self.belief.cpu.reading(now).known().is_ok()
                && self.drain.is_none()
                && self.pools.values().all(stocked),
            cpu: self.belief.cpu.reading(now),
            pressure: self.belief.pressure.reading(now),
            shortage: PressureView {
                level: gauge.level(),
                lasting: now.since(gauge.since().max(self.since)),
            },
            pids: self.belief.pids.reading(now).map(|of| PidsView {
                of,
                limit: budget::pids_limit(host, &of),
                promised: promised.pids,
            }),
            engine_disk: self.belief.engine_disk.reading(now).map(disk),
            state_disk: self.belief.state_disk.reading(now).map(disk),
            slice: self.belief.slice.reading(now),
            ceilings: self.ceiling.view.clone(),
            memory,
            memory_limit: limit,
            memory_promised: promised.memory,
            floor,
            starts: (starting, self.pace.allows(host.max_starts)),
            max_starts: host.max_starts,
            engine: self.belief.engine.clone(),
            drain: self.drain.map(|drain| view_drain(drain, leased, total)),
        }
    }

    fn view_state(&self, lease: &Lease, rank: u32) -> LeaseState {
        match &lease.state {
            State::Queued { deadline, .. } => {
                let pool = &self.pools[&lease.pool];
                let starting = pool.has_start_for(rank);
                let blocked_by = pool.obstacle(&lease.class).filter(|_| !starting);
                LeaseState::Queued {
                    place: rank,
                    starting,
                    estimate: pool.estimate(self.now, rank, pool.counts.starting, blocked_by.as_ref()),
                    blocked_by,
                    deadline: *deadline,
                }
            }
            State::Executing { instance, granted_at, used, deadline, draining, hold, .. } => {
                LeaseState::Executing {
                    instance: *instance,
                    granted_at: *granted_at,
                    used: *used,
                    idle_deadline: lease.idle_deadline(),
                    deadline: *deadline,
                    draining: *draining,
                    hold: hold.clone(),
                    permits: lease.permits.iter().map(|it| (it.provider.clone(), it.asked_at)).collect(),
                }
            }
            State::Ended { end, at, granted_at } => {
                LeaseState::Ended { end: end.clone(), at: *at, granted_at: *granted_at }
            }
        }
    }
}

fn view_class(pool: &Pool, class: &ClassName, holds: u32) -> ClassView {
    let its = pool.spec.classes.get(class).copied().unwrap_or_default();
    ClassView {
        class: class.clone(),
        waiting: pool.queue.len_of(class),
        leased: pool.lent(class),
        guaranteed: its.guaranteed,
        hold_back: its.hold_back,
        holds,
        tally: pool.tally.classes.get(class).cloned().unwrap_or_default(),
    }
}

fn view_drain(drain: Drain, leases: u32, instances: u32) -> DrainView {
    DrainView { since: drain.since, deadline: drain.deadline, leases, instances }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).expect("instances are bounded by max_instances")
}
