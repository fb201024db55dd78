//! Why a pool has what it has. Nothing is computed for showing alone: the equations are those of `scaling`, and the limits
//! are asked by the functions that admission asks.
//!
//! Of a lease that waits it is told where it stands, which rule of the queue serves whom before it, and the bound.

use super::Controller;
use super::budget::Promised;
use super::demand::whole;
use super::lease::{Lease, State};
use super::message::{
    BoundView, ClassDemandView, ClassTurnView, ExplainView, LeaseExplainView, LimitView, WaitView, Why,
};
use super::pool::Pool;
use super::queue::Place;
use super::scaling;
use crate::profile::ClassName;
use crate::quantity::Instant;

impl Controller {
    /// A pool as it stands.
    pub(super) fn explain(&self, pool: &Pool) -> ExplainView {
        let (now, spec, plan, terms) = (self.now, &pool.spec, &pool.plan, pool.terms());
        let (counts, queued, stock) = (pool.counts, pool.askers(), pool.stock());
        ExplainView {
            pool: pool.name.clone(),
            classes: self.profile.classes.keys().map(|class| explain_class(pool, class, now)).collect(),
            incoming_milli: thousandths(plan.incoming),
            backlog_milli: thousandths(terms.backlog),
            target_utilization: spec.target_utilization,
            estimated: terms.estimated,
            per_hour: u64::from(whole(plan.rate * 3600.0)),
            lead: plan.lead,
            unevenness_milli: thousandths(plan.unevenness),
            miss_target: spec.miss_target,
            cover: plan.cover,
            bounds: (spec.warm.min, spec.warm.max),
            stock,
            held: pool.wanted_lately(),
            queued,
            warm: counts.warm,
            starting: counts.starting,
            leased: counts.leased,
            stopping: counts.stopping,
            holds: self.view_holds(pool),
            start: scaling::starts_wanted(queued, stock, counts.warm, counts.starting),
            stop: pool.too_many(),
            without_telemetry: spec.without_telemetry.clone(),
            unknown: self.belief.sight(&self.profile.host, now).err(),
            limits: self.explain_limits(pool),
        }
    }

    /// A lease as it stands.
    pub(super) fn explain_lease(&self, lease: &Lease) -> LeaseExplainView {
        let waits = match lease.state {
            State::Queued { place, .. } => Some(explain_wait(&self.pools[&lease.pool], lease, place)),
            State::Executing { .. } | State::Ended { .. } => None,
        };
        LeaseExplainView { lease: self.view_lease(lease), waits }
    }

    /// All that may keep the next start of this pool back, were one wished for now.
    fn explain_limits(&self, pool: &Pool) -> Vec<LimitView> {
        let starting = self.pools.values().map(|pool| pool.counts.starting).sum();
        let refill = pool.askers() <= pool.counts.starting + pool.counts.warm;
        let sum = || self.promised();
        let asked = self.asked(pool, (starting, refill, Promised::default()), &sum);
        let closed = pool.closed_by();
        let drain = LimitView {
            name: closed.as_ref().map_or("pool_draining", Why::code),
            figures: None,
            objection: closed,
            binding: false,
        };
        let others = asked.limits().map(|limit| LimitView {
            name: limit.name,
            figures: limit.figures,
            objection: limit.objection,
            binding: false,
        });
        let mut limits: Vec<LimitView> = std::iter::once(drain).chain(others).collect();
        if let Some(first) = limits.iter_mut().find(|limit| limit.objection.is_some()) {
            first.binding = true;
        }
        limits
    }
}

fn explain_class(pool: &Pool, class: &ClassName, now: Instant) -> ClassDemandView {
    let its = pool.spec.classes.get(class).copied().unwrap_or_default();
    ClassDemandView {
        class: class.clone(),
        per_hour: u64::from(whole(pool.demand.rate(now, class) * 3600.0)),
        service: pool.demand.service(now, class, scaling::runtime(&pool.spec)),
        waiting: pool.queue.len_of(class),
        leased: pool.lent(class),
        guaranteed: its.guaranteed,
        hold_back: its.hold_back,
    }
}

fn explain_wait(pool: &Pool, lease: &Lease, place: Place) -> WaitView {
    let queue = &pool.queue;
    let (of_tenant, tenants) = (queue.own_rank(place), queue.tenants(&lease.class));
    let classes = queue.heads().map(|(class, _)| {
        let its = pool.spec.classes.get(class).copied().unwrap_or_default();
        ClassTurnView {
            class: class.clone(),
            waiting: queue.len_of(class),
            leased: pool.lent(class),
            guaranteed: its.guaranteed,
            hold_back: its.hold_back,
            turn: pool.turn_of(class),
        }
    });
    let classes: Vec<ClassTurnView> = classes.collect();
    let guaranteed = pool.spec.classes.get(&lease.class).map_or(0, |its| its.guaranteed);
    let occupancy = pool.spec.longest_occupancy();
    let turns = of_tenant.saturating_mul(tenants).div_ceil(guaranteed.max(1));
    let wait = occupancy.saturating_add(occupancy.saturating_mul(turns));
    WaitView {
        queued: queue.len(),
        of_tenant,
        own: queue.own(&lease.class, &lease.tenant),
        tenants,
        promised: place.0,
        next: pool.next() == Some(place),
        classes,
        bound: (guaranteed > 0).then_some(BoundView { occupancy, guaranteed, wait }),
    }
}

fn thousandths(number: f64) -> u64 {
    u64::from(whole((number * 1000.0).round()))
}
