//! A lease, asked for and shown.

use serde::{Deserialize, Serialize};

use super::{HoldAnswer, LimitBody, PermitWaitBody, left, millis};
use crate::control::message::{End, LeaseState, LeaseView};
use crate::profile::ProviderName;
use crate::quantity::Instant;

/// `POST /v1/leases`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// The pool to lend from.
    pub pool: String,
    /// The class; the pool's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What you call this request: while a lease of the same name goes on, or after it completed, the answer is that lease;
    /// after another end it is the next attempt, with the place in the queue of the first. Up to 128 visible ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The longest wait, such as `"10s"`; the class's `max_wait` where absent; `"0s"` not to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// Answer at once with 202 and a lease that waits.
    #[serde(default, rename = "async", skip_serializing_if = "std::ops::Not::not")]
    pub asynchronous: bool,
    /// A shorter life than the pool allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<String>,
    /// A shorter idle time than the pool allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<String>,
}

/// `POST /v1/leases/{id}/renew`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewBody {
    /// The lease shall live at least this long from now.
    pub by: String,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseBody {
    /// Its name.
    pub id: String,
    /// Its pool.
    pub pool: String,
    /// The pool that was asked, where the host's state was not known and the request was sent on to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_from: Option<String>,
    /// `browser` or `sandbox`.
    pub kind: String,
    /// Its class.
    pub class: String,
    /// Whose it is.
    pub tenant: String,
    /// What its caller calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The how-manieth attempt of that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// `queued`, `starting`, `executing`, `waiting_for_approval`, `waiting_for_provider`, `draining`, or a terminal state.
    pub state: String,
    /// How long it waited, or has waited so far.
    pub waited_ms: u64,
    /// How long it has had its instance, or had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_ms: Option<u64>,
    /// Its instance, while it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// How many are served until it is, itself included, while it waits: by promised instants and its tenant's turns, where
    /// nobody comes or goes and each class has its share. No further than 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// The limit that keeps an instance from being started for it, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<LimitBody>,
    /// How long it will wait still while it waits, by its place and the pace of the last ends, or by how long starts take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_wait_ms: Option<u64>,
    /// What it waits for, where it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldAnswer>,
    /// Permits that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<PermitWaitBody>,
    /// Time left until its state ends in any case: the wait, the longest run, a hold, a drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_in_ms: Option<u64>,
    /// Time left until it ends for want of activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ends_in_ms: Option<u64>,
    /// Processes of its instance that the kernel killed for want of memory; of a browser each may be a page.
    #[serde(default, skip_serializing_if = "is_none")]
    pub oom_kills: u64,
    /// Why it ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl From<&LeaseView> for LeaseBody {
    fn from(view: &LeaseView) -> LeaseBody {
        let now = view.seen_at;
        let mut body = LeaseBody {
            id: view.id.to_string(),
            pool: view.pool.to_string(),
            degraded_from: view.degraded_from.as_ref().map(ToString::to_string),
            kind: view.kind.to_string(),
            class: view.class.to_string(),
            tenant: view.tenant.to_string(),
            task_id: view.task.as_ref().map(|(id, _)| id.to_string()),
            attempt: view.task.as_ref().map(|(_, attempt)| *attempt),
            state: view.state.code().into(),
            waited_ms: millis(now.since(view.asked_at)),
            running_ms: None,
            instance: None,
            place: None,
            blocked_by: None,
            estimated_wait_ms: None,
            hold: None,
            permits: Vec::new(),
            ends_in_ms: None,
            idle_ends_in_ms: None,
            oom_kills: view.oom_kills,
            reason: None,
            detail: None,
        };
        match &view.state {
            LeaseState::Queued { place, blocked_by, estimate, deadline, .. } => {
                body.place = Some(*place);
                body.estimated_wait_ms = estimate.map(|estimate| millis(estimate.wait));
                body.blocked_by = blocked_by.as_ref().map(LimitBody::from);
                body.ends_in_ms = Some(left(*deadline, now));
            }
            LeaseState::Executing {
                instance,
                granted_at,
                idle_deadline,
                deadline,
                draining,
                hold,
                permits,
                ..
            } => {
                body.waited_ms = millis(granted_at.since(view.asked_at));
                body.running_ms = Some(millis(now.since(*granted_at)));
                body.instance = Some(instance.to_string());
                let others = [*draining, hold.as_ref().map(|hold| hold.until)];
                let ends = others.into_iter().flatten().fold(*deadline, Instant::min);
                body.ends_in_ms = Some(left(ends, now));
                body.idle_ends_in_ms = idle_deadline.map(|at| left(at, now));
                body.hold = hold.as_ref().map(|hold| HoldAnswer::of(hold, now));
                let waits = |(provider, since): &(ProviderName, Instant)| PermitWaitBody {
                    provider: provider.to_string(),
                    waited_ms: millis(now.since(*since)),
                };
                body.permits = permits.iter().map(waits).collect();
            }
            LeaseState::Ended { end, at, granted_at } => {
                body.waited_ms = millis(granted_at.unwrap_or(*at).since(view.asked_at));
                body.running_ms = granted_at.map(|granted| millis(at.since(granted)));
                body.reason = Some(end.reason().into());
                body.detail = Some(End::to_string(end));
            }
        }
        body
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over this way")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}
