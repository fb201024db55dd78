//! Promises to callers, and when they end.
//!
//! ```text
//! queued -> executing <-> waiting_for_approval
//!    |          |                  |
//!    |          +------------------+-> ended: completed | failed | cancelled | expired | interrupted
//!    +---------------------------------> refused | cancelled
//! ```
//!
//! A queued lease gives up at the wait its caller agreed to. An executing one has three deadlines: the first
//! use, or after it the idle time; the longest run; and a drain's, where there is one. While it waits for a person (`hold`) that
//! has a deadline in place of the idle time. An ended one stays to
//! be asked about for a while. So every state ends whatever the world does.
//!
//! Not here: ending one (`Controller`), since that touches the instance, the queue and the callers.

use std::time::Duration;

use super::message::{CallId, Deadline, End, Hold, InstanceId, Interruption, LeaseId, Tenant, WaitFor};
use super::message::{LeaseRecord, LeaseRecordState, LimitsRecord, TaskRecord};
use super::permits::Wanted;
use super::queue::Place;
use crate::profile::{ClassName, Deadlines, Kind, PoolName};
use crate::quantity::Instant;

/// How long an ended lease can still be asked about.
pub(super) const REMEMBER: Duration = Duration::from_secs(600);
/// How many ended leases are remembered; beyond it the oldest is forgotten first.
pub(super) const REMEMBER_MOST: usize = 4096;
/// How many callers may watch one lease at once.
pub(super) const WATCHERS: usize = 16;

/// A caller's claim on one instance.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    pub(super) pool: PoolName,
    /// The pool that it was asked of, where that sent it on for want of telemetry.
    pub(super) degraded_from: Option<PoolName>,
    /// What that pool lends; the pool may be gone before the lease is forgotten.
    pub(super) kind: Kind,
    pub(super) class: ClassName,
    pub(super) tenant: Tenant,
    /// The task that it is an attempt of.
    pub(super) task: Option<Box<TaskRecord>>,
    pub(super) asked_at: Instant,
    /// Processes of its instance that the kernel killed for want of memory.
    pub(super) oom_kills: u64,
    /// The call that is answered when it is granted or refused.
    pub(super) caller: Option<CallId>,
    /// Calls that are answered when it changes.
    pub(super) watchers: Vec<(CallId, WaitFor)>,
    /// Permits of external providers that it waits for.
    pub(super) permits: Vec<Wanted>,
    /// Whether anything of it was written down.
    pub(super) recorded: bool,
    pub(super) limits: Limits,
    pub(super) state: State,
}

/// What its caller agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) first_use: Duration,
    pub(super) idle: Duration,
    /// From the grant, when nobody renews.
    pub(super) runtime: Duration,
    /// From the grant, however often it is renewed.
    pub(super) runtime_max: Duration,
}

impl Limits {
    /// The pool's, or what the caller asked for where that is less.
    pub(super) fn new(pool: &Deadlines, runtime: Option<Duration>, idle: Option<Duration>) -> Limits {
        Limits {
            first_use: pool.first_use_timeout,
            idle: idle.map_or(pool.idle_timeout, |asked| asked.min(pool.idle_timeout)),
            runtime: runtime.map_or(pool.max_runtime, |asked| asked.min(pool.max_runtime)),
            runtime_max: pool.max_runtime,
        }
    }
}

impl Limits {
    /// These, or those of another pool where they are shorter.
    pub(super) fn within(self, pool: &Deadlines) -> Limits {
        Limits {
            first_use: self.first_use.min(pool.first_use_timeout),
            idle: self.idle.min(pool.idle_timeout),
            runtime: self.runtime.min(pool.max_runtime),
            runtime_max: self.runtime_max.min(pool.max_runtime),
        }
    }
}

/// Where a lease is.
#[derive(Debug)]
pub(super) enum State {
    /// Waits.
    Queued { place: Place, deadline: Instant },
    /// Has an instance.
    Executing {
        instance: InstanceId,
        granted_at: Instant,
        used: bool,
        active_at: Instant,
        deadline: Instant,
        draining: Option<Instant>,
        hold: Option<Hold>,
    },
    /// Is over.
    Ended { end: End, at: Instant, granted_at: Option<Instant> },
}

impl Lease {
    /// One that was written down.
    pub(super) fn of(record: LeaseRecord, state: State) -> Lease {
        let LeaseRecord {
            id,
            pool,
            degraded_from,
            kind,
            class,
            tenant,
            task,
            asked_at,
            oom_kills,
            limits,
            ..
        } = record;
        let LimitsRecord { first_use, idle, runtime, runtime_max } = limits;
        let limits = Limits { first_use, idle, runtime, runtime_max };
        Lease {
            id,
            pool,
            degraded_from,
            kind,
            class,
            tenant,
            task,
            asked_at,
            oom_kills,
            caller: None,
            watchers: Vec::new(),
            permits: Vec::new(),
            recorded: true,
            limits,
            state,
        }
    }

    /// It as it is written down.
    pub(super) fn record(&self) -> LeaseRecord {
        let Limits { first_use, idle, runtime, runtime_max } = self.limits;
        let state = match &self.state {
            State::Queued { place: (promised, arrival), deadline } => {
                LeaseRecordState::Queued { promised: *promised, arrival: *arrival, deadline: *deadline }
            }
            State::Executing { instance, granted_at, used, deadline, hold, .. } => {
                LeaseRecordState::Executing {
                    instance: *instance,
                    granted_at: *granted_at,
                    used: *used,
                    deadline: *deadline,
                    hold: hold.clone(),
                }
            }
            State::Ended { end, at, granted_at } => {
                LeaseRecordState::Ended { end: end.clone(), at: *at, granted_at: *granted_at }
            }
        };
        LeaseRecord {
            id: self.id.clone(),
            pool: self.pool.clone(),
            degraded_from: self.degraded_from.clone(),
            kind: self.kind,
            class: self.class.clone(),
            tenant: self.tenant.clone(),
            task: self.task.clone(),
            asked_at: self.asked_at,
            oom_kills: self.oom_kills,
            limits: LimitsRecord { first_use, idle, runtime, runtime_max },
            state,
        }
    }

    /// The how-manieth attempt it is of what its caller wants done.
    pub(super) fn attempt(&self) -> u32 {
        self.task.as_ref().map_or(1, |task| task.attempt)
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }

    /// When its idle time is over, counted from its last activity, or before the first from its grant; after a
    /// restart of the daemon from that, whatever came before it. One that waits for a person or a provider is not idle.
    pub(super) fn idle_deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Executing { .. } if !self.permits.is_empty() => None,
            State::Executing { hold: Some(_), .. } => None,
            State::Executing { used: true, active_at, .. } => Some(active_at.after(self.limits.idle)),
            State::Executing { active_at, .. } => Some(active_at.after(self.limits.first_use)),
            State::Queued { .. } | State::Ended { .. } => None,
        }
    }

    /// The next time at which something about it may have to end.
    pub(super) fn due(&self) -> Instant {
        match &self.state {
            State::Queued { deadline, .. } => *deadline,
            State::Executing { deadline, draining, hold, .. } => {
                let waits = hold.as_ref().map(|hold| hold.until).or(self.idle_deadline());
                let first = [*draining, waits].into_iter().flatten().min();
                first.map_or(*deadline, |first| first.min(*deadline))
            }
            State::Ended { at, .. } => at.after(REMEMBER),
        }
    }

    /// How an executing one ends now, if it does.
    pub(super) fn overdue(&self, now: Instant) -> Option<End> {
        let State::Executing { used, deadline, draining, hold, .. } = &self.state else {
            return None;
        };
        if draining.is_some_and(|at| at <= now) {
            Some(End::Interrupted(Interruption::Drain))
        } else if *deadline <= now {
            Some(End::Expired(Deadline::Runtime))
        } else if hold.as_ref().is_some_and(|hold| hold.until <= now) {
            Some(End::Expired(Deadline::Hold))
        } else if self.idle_deadline().is_some_and(|at| at <= now) {
            Some(End::Expired(if *used { Deadline::Idle } else { Deadline::FirstUse }))
        } else {
            None
        }
    }

    /// Whether somebody who waits for this has waited long enough.
    pub(super) fn has_reached(&self, goal: WaitFor) -> bool {
        match (&self.state, goal) {
            (State::Ended { .. }, _) | (State::Executing { hold: None, .. }, WaitFor::Executing) => true,
            (State::Queued { .. } | State::Executing { .. }, _) => false,
        }
    }

    /// Its caller did something at that time. Whether that was the first use: then its next deadline may be
    /// nearer than the one before, where it is always farther otherwise.
    #[must_use]
    pub(super) fn touch(&mut self, at: Instant) -> bool {
        let State::Executing { used, active_at, .. } = &mut self.state else {
            return false;
        };
        *active_at = at.max(*active_at);
        !std::mem::replace(used, true)
    }
}
