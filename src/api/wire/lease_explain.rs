//! `GET /v1/leases/{id}/explain`: why a lease waits, or was refused, or ended.

use serde::{Deserialize, Serialize};

use super::{LeaseBody, LimitBody, left, millis};
use crate::control::message::{
    ClassTurnView, End, Estimate, LeaseExplainView, LeaseState, Rule, WaitView, Why,
};

/// Why a lease is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseExplainBody {
    /// The lease.
    pub lease: LeaseBody,
    /// The answer as a sentence.
    pub summary: String,
    /// Where it stands, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<WaitBody>,
    /// The limit that refused it, with its numbers, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<LimitBody>,
    /// What it waited for in the end, where its wait was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<LimitBody>,
}

/// Where a lease that waits stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitBody {
    /// All that wait for the pool.
    pub queued: u32,
    /// Its place among those of its tenant and class, from 1.
    pub of_tenant: u32,
    /// How many of its tenant and class wait.
    pub own: u32,
    /// Tenants of its class that wait, and take turns.
    pub tenants: u32,
    /// Time until the instant it was promised for; below zero where that is past.
    pub promised_in_ms: i64,
    /// Whether it gets the next slot.
    pub next: bool,
    /// How long it will wait still, and what that is made of, where it can be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateBody>,
    /// The longest that it can wait, while the pool has the slots that are guaranteed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundBody>,
    /// Each class that waits.
    pub classes: Vec<ClassTurnBody>,
}

/// `wait_ms = behind * span_ms / ends + start_ms`, or a start alone where nothing is behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimateBody {
    /// How long.
    pub wait_ms: u64,
    /// Slots that have to come free until it is served, its own included.
    pub behind: u32,
    /// Leases of the pool that ended lately,
    pub ends: u32,
    /// within this time.
    pub span_ms: u64,
    /// How long a start takes in nineteen of twenty cases.
    pub start_ms: u64,
    /// The same as a sentence.
    pub detail: String,
}

/// `wait_ms = occupancy_ms + ceil(of_tenant * tenants / guaranteed) * occupancy_ms`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundBody {
    /// What it comes to.
    pub wait_ms: u64,
    /// The longest that a lease has its slot: start, run and stop, each to its deadline.
    pub occupancy_ms: u64,
    /// Slots that are guaranteed to its class.
    pub guaranteed: u32,
}

/// A class that waits, and when it is its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassTurnBody {
    /// The class.
    pub class: String,
    /// How many of it wait.
    pub waiting: u32,
    /// How many of it have a slot.
    pub leased: u32,
    /// Slots that are guaranteed to it.
    pub guaranteed: u32,
    /// Slots that are lent to no other class.
    pub hold_back: u32,
    /// The rule by which it comes to the next slot: `own`, `below_share`, `by_promise`, `by_turns` or `held_back`.
    pub rule: String,
    /// The same as a sentence.
    pub detail: String,
}

impl From<&LeaseExplainView> for LeaseExplainBody {
    fn from(view: &LeaseExplainView) -> LeaseExplainBody {
        let (refused_by, waited_for) = match &view.lease.state {
            LeaseState::Ended { end: End::Refused(why), .. } => {
                let behind =
                    if let Why::WaitExpired { blocked_by, .. } = why { blocked_by.as_deref() } else { None };
                (Some(LimitBody::from(why)), behind.map(LimitBody::from))
            }
            LeaseState::Ended { .. } | LeaseState::Queued { .. } | LeaseState::Executing { .. } => {
                (None, None)
            }
        };
        LeaseExplainBody {
            lease: LeaseBody::from(&view.lease),
            summary: summary(view),
            waits: view.waits.as_ref().map(|waits| wait_body(view, waits)),
            refused_by,
            waited_for,
        }
    }
}

fn summary(view: &LeaseExplainView) -> String {
    match &view.lease.state {
        LeaseState::Queued { starting: true, .. } => "it waits for a start that is under way for it".into(),
        LeaseState::Queued { place, blocked_by: Some(why), .. } => {
            format!("it waits at place {place}, because {why}")
        }
        LeaseState::Queued { place, blocked_by: None, .. } => format!("it waits at place {place}"),
        LeaseState::Executing { draining: None, .. } => "it has its instance".into(),
        LeaseState::Executing { draining: Some(_), .. } => "it has its instance, and a drain ends it".into(),
        LeaseState::Ended { end, .. } => format!("it is {}: {end}", end.code()),
    }
}

fn wait_body(view: &LeaseExplainView, waits: &WaitView) -> WaitBody {
    let now = view.lease.seen_at;
    let estimate = match &view.lease.state {
        LeaseState::Queued { estimate, .. } => estimate.as_ref(),
        LeaseState::Executing { .. } | LeaseState::Ended { .. } => None,
    };
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    WaitBody {
        queued: waits.queued,
        of_tenant: waits.of_tenant,
        own: waits.own,
        tenants: waits.tenants,
        promised_in_ms: signed(left(waits.promised, now)) - signed(left(now, waits.promised)),
        next: waits.next,
        estimate: estimate.map(EstimateBody::from),
        bound: waits.bound.map(|bound| BoundBody {
            wait_ms: millis(bound.wait),
            occupancy_ms: millis(bound.occupancy),
            guaranteed: bound.guaranteed,
        }),
        classes: waits.classes.iter().map(ClassTurnBody::from).collect(),
    }
}

impl From<&Estimate> for EstimateBody {
    fn from(estimate: &Estimate) -> EstimateBody {
        EstimateBody {
            wait_ms: millis(estimate.wait),
            behind: estimate.behind,
            ends: estimate.ends,
            span_ms: millis(estimate.span),
            start_ms: millis(estimate.start),
            detail: estimate.to_string(),
        }
    }
}

impl From<&ClassTurnView> for ClassTurnBody {
    fn from(view: &ClassTurnView) -> ClassTurnBody {
        let (rule, detail) = match view.turn {
            Rule::Own => ("own", "first: a slot that it gave back while it waited is its own"),
            Rule::BelowShare => ("below_share", "before classes that have their share, as it has less"),
            Rule::ByPromise => ("by_promise", "it has its share: the earliest promise goes first"),
            Rule::ByTurns => ("by_turns", "fewer slots than classes: they take turns by weight"),
            Rule::HeldBack => ("held_back", "not now: what is free is held back for others"),
        };
        ClassTurnBody {
            class: view.class.to_string(),
            waiting: view.waiting,
            leased: view.leased,
            guaranteed: view.guaranteed,
            hold_back: view.hold_back,
            rule: rule.into(),
            detail: detail.into(),
        }
    }
}
