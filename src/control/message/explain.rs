//! Why a pool has what it has: the equations of its stock with the numbers of now, and all that bounds its next start.

use std::time::Duration;

use super::{HoldsView, LeaseView, Why};
use crate::control::words::Figures;
use crate::profile::{ClassName, PoolName, WithoutTelemetry};
use crate::quantity::{Instant, Permille};

/// All of it. Numbers of slots and of requests that are no whole ones are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainView {
    /// The pool.
    pub pool: PoolName,
    /// What is known of each class that asks or waits.
    pub classes: Vec<ClassDemandView>,
    /// Slots that arrivals keep busy: the sum of rate times service.
    pub incoming_milli: u64,
    /// Slots that those that wait come to.
    pub backlog_milli: u64,
    /// How busy slots may be.
    pub target_utilization: Permille,
    /// Slots for all demand.
    pub estimated: u32,
    /// Arrivals an hour that `cover` is for: the steady rate, or that of the last seconds.
    pub per_hour: u64,
    /// How long a start takes in nineteen of twenty cases, from when it is wanted.
    pub lead: Duration,
    /// Variance over mean of arrivals, in thousandths; 1000 for independent ones.
    pub unevenness_milli: u64,
    /// The chance that one may find nothing warm.
    pub miss_target: Permille,
    /// Warm ones that cover the arrivals during a start.
    pub cover: u32,
    /// `warm.min` and `warm.max`.
    pub bounds: (u32, u32),
    /// What is to be warm.
    pub stock: u32,
    /// The largest stock of the last five minutes.
    pub held: u32,
    /// Requests that wait, and may be lent a slot.
    pub queued: u32,
    /// Instances by state.
    pub warm: u32,
    /// Being started.
    pub starting: u32,
    /// Lent.
    pub leased: u32,
    /// Being stopped.
    pub stopping: u32,
    /// What those that are lent and wait for a person keep.
    pub holds: HoldsView,
    /// Starts that are wanted now, beside those under way.
    pub start: u32,
    /// Warm ones that are too many now.
    pub stop: u32,
    /// What the profile says of it while the host's state is not known.
    pub without_telemetry: WithoutTelemetry,
    /// What of that is not known now, and why.
    pub unknown: Option<String>,
    /// All that may keep the next start back, in the order in which it is asked.
    pub limits: Vec<LimitView>,
}

/// What is known of one class in one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassDemandView {
    /// The class.
    pub class: ClassName,
    /// Arrivals an hour.
    pub per_hour: u64,
    /// How long a lease has its slot on average, as expected or as measured.
    pub service: Duration,
    /// How many wait.
    pub waiting: u32,
    /// How many have a slot.
    pub leased: u32,
    /// Slots that are guaranteed to it.
    pub guaranteed: u32,
    /// Slots that are lent to no other.
    pub hold_back: u32,
}

/// One thing that may keep a start back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitView {
    /// Its name in answers.
    pub name: &'static str,
    /// What one more needs and what there is, where these are numbers.
    pub figures: Option<Figures>,
    /// What it says where it keeps one back.
    pub objection: Option<Why>,
    /// Whether it is the first that does.
    pub binding: bool,
}

/// Why a lease is as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseExplainView {
    /// The lease.
    pub lease: LeaseView,
    /// What it waits for, while it waits.
    pub waits: Option<WaitView>,
}

/// Where one that waits stands, and who is served before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitView {
    /// All that wait for the pool.
    pub queued: u32,
    /// Its place among those of its tenant and class, from 1.
    pub of_tenant: u32,
    /// How many of its tenant and class wait.
    pub own: u32,
    /// Tenants of its class that wait, and take turns.
    pub tenants: u32,
    /// The instant it was promised for.
    pub promised: Instant,
    /// Whether it is the one that gets the next slot.
    pub next: bool,
    /// Each class that waits, with the rule by which it comes to the next slot.
    pub classes: Vec<ClassTurnView>,
    /// The longest that it can wait; none for a class without a share.
    pub bound: Option<BoundView>,
}

/// A class that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassTurnView {
    /// The class.
    pub class: ClassName,
    /// How many of it wait.
    pub waiting: u32,
    /// How many of it have a slot.
    pub leased: u32,
    /// Slots that are guaranteed to it.
    pub guaranteed: u32,
    /// Slots that are lent to no other.
    pub hold_back: u32,
    /// When the next of it is served.
    pub turn: Rule,
}

/// By which rule a class comes to the next slot; the earlier rule goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// It gave the slot back while it had no more than its share and waited.
    Own,
    /// It has less than its share.
    BelowShare,
    /// It has its share: the earliest promise goes first.
    ByPromise,
    /// There are fewer slots than classes: they take turns by their weights.
    ByTurns,
    /// What is free is held back for other classes.
    HeldBack,
}

/// The bound of shares: `occupancy + ceil(of_tenant * tenants / guaranteed) * occupancy`, while the pool has the slots that
/// are guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundView {
    /// The longest that a lease has its slot: start, run and stop, each to its deadline.
    pub occupancy: Duration,
    /// Slots that are guaranteed to its class.
    pub guaranteed: u32,
    /// What it comes to.
    pub wait: Duration,
}
