//! Admission's answers, and every limit that refuses or makes wait.

use std::time::Duration;

use super::{DiskOf, Estimate, InstanceId, LeaseId, LeaseView, Shortage, TaskId};
use crate::profile::{Change, ClassName, PoolName, ProviderName};
use crate::quantity::{Bytes, Instant, MilliCpu, Permille};

/// Admission's answer to a request or a start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// This warm instance serves it now.
    Grant(InstanceId),
    /// It must wait; a start may or may not be under way for it.
    Wait,
    /// It cannot be.
    Refuse(Why),
}

/// A limit that refuses, or makes wait. Every one has a name, and numbers where there are any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// As many as may wait are waiting.
    QueueFull {
        /// Waiting of this tenant in this class and pool, those not counted for whom something can be started; where that
        /// is the limit, of all.
        queued: u32,
        /// The class's `max_queued`, or the most that may wait in one pool.
        limit: u32,
    },
    /// It would wait for longer than it may.
    QueueTooLong {
        /// How long it would wait.
        estimate: Estimate,
        /// How long it may.
        longest: Duration,
    },
    /// The longest wait is over.
    WaitExpired {
        /// How long it waited.
        waited: Duration,
        /// What it waited for at the end.
        blocked_by: Option<Box<Why>>,
    },
    /// The host takes no new work.
    HostDraining,
    /// The pool takes no new work.
    PoolDraining,
    /// The pool is in the profile no more.
    PoolRemoved,
    /// Not even an empty host has room for one.
    NeverFits {
        /// What one needs that grows to its limit.
        need: Bytes,
        /// What the host has for containers.
        have: Bytes,
    },
    /// The sum of what instances may come to need would exceed what the host has for them.
    MemoryPromised {
        /// What one more needs, with the slack for one instance to grow to its limit; for refill, with what the
        /// requests need that wait for memory already.
        need: Bytes,
        /// What is not promised yet.
        have: Bytes,
    },
    /// The host has not enough memory available now.
    MemoryAvailable {
        /// What one more needs, without the slack; for refill, as above.
        need: Bytes,
        /// What is available above the floor, less what the others have still to grow.
        have: Bytes,
    },
    /// The processors are promised.
    Cpu {
        /// What one more needs, as above.
        need: MilliCpu,
        /// What is not promised yet.
        have: MilliCpu,
    },
    /// Processes and threads that the kernel can have: those that instances may make are promised.
    Pids {
        /// What one more may make, its `pids`, as above.
        need: u64,
        /// What is neither promised, nor there, nor the host's reserve.
        have: u64,
    },
    /// A disk is so full that the engine or the store may soon break.
    Disk {
        /// Whose.
        of: DiskOf,
        /// What must be free.
        need: Bytes,
        /// What is free.
        have: Bytes,
    },
    /// The same of its inodes.
    Inodes {
        /// Whose.
        of: DiskOf,
        /// How many must be free.
        need: u64,
        /// How many are free.
        have: u64,
    },
    /// The operator's ceiling on the pool's instances.
    MaxInstances {
        /// How many there are, in any state.
        have: u32,
        /// `max_instances`.
        limit: u32,
    },
    /// The operator's ceiling on how long the pool's instances may be there together.
    InstanceHours {
        /// How long they were, within the time.
        used: Duration,
        /// How long they may be.
        most: Duration,
        /// Within this time.
        per: Duration,
        /// After which time there is room again, at the earliest.
        returns_in: Duration,
    },
    /// The tenant has as many leases as it may.
    TenantLimit {
        /// How many it has, those that wait included.
        have: u32,
        /// Its `max_leases`.
        limit: u32,
    },
    /// As many leases of the pool wait for a person as may.
    MaxHolds {
        /// How many do.
        have: u32,
        /// The pool's `max_holds`.
        limit: u32,
        /// When the next of them ends, at the latest.
        until: Instant,
    },
    /// As many leases of the tenant wait for a person as may.
    TenantHolds {
        /// How many do.
        have: u32,
        /// The tenant's `max_holds`.
        limit: u32,
        /// When the next of them ends, at the latest.
        until: Instant,
    },
    /// As many permits of a provider are waited for as may be.
    ProviderWaits {
        /// Which.
        provider: ProviderName,
        /// How many are.
        waiting: u32,
        /// Its `max_waiting`.
        limit: u32,
        /// When the next of them is given.
        until: Instant,
    },
    /// A provider has no permit now: its rate is used up, or it throttles.
    ProviderSpent {
        /// Which.
        provider: ProviderName,
        /// When the next one is there, at the earliest.
        until: Instant,
    },
    /// What is free is held back for other classes.
    HeldBack {
        /// Slots that are free.
        have: u32,
        /// How many of them, or more, are held back for others.
        held: u32,
    },
    /// As many cold starts as may be are under way.
    Starts {
        /// Under way.
        have: u32,
        /// `max_starts`.
        limit: u32,
    },
    /// More at once than the host has shown to make without each taking much longer than one alone.
    StartPace {
        /// Under way.
        have: u32,
        /// How many may be now; `max_starts` is more.
        limit: u32,
        /// How long the last ones took, as a share of one alone.
        strain: Permille,
    },
    /// Starts of this pool fail; the next try is later.
    Backoff {
        /// How many failed in a row.
        failures: u32,
        /// What the last one said.
        last: String,
        /// When the next one is tried.
        until: Instant,
    },
    /// The host is short of memory; not before this instant is it otherwise.
    UnderPressure {
        /// The figures.
        shortage: Shortage,
        /// When the level may fall, at the earliest.
        until: Instant,
    },
    /// The processors are so busy that fewer starts at once are enough.
    CpuPressure {
        /// The share of the last ten seconds in which some task waited for a processor.
        stalled: Permille,
        /// Starts under way.
        have: u32,
        /// How many may be: for who waits half of `max_starts`, for stock one.
        limit: u32,
    },
    /// Memory was short lately, and stock returns step by step.
    Recovering {
        /// Starts under way.
        have: u32,
        /// How many may be, for stock.
        limit: u32,
    },
    /// The host's memory or processors are not known: what of them, and why.
    NoTelemetry(String),
    /// The same, and the pool has as many instances as it may have without.
    WithoutTelemetry {
        /// What is not known, and why.
        unknown: String,
        /// How many there are, in any state.
        have: u32,
        /// `without_telemetry`'s `slots`.
        limit: u32,
    },
    /// The engine does not answer.
    EngineUnreachable(String),
    /// What is lent could not be written down.
    NotRecorded(String),
}

/// A refusal with what the caller needs to do better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A limit refused; the pool and class it concerns, and when to try again.
    Limit {
        /// Which, with its numbers.
        why: Why,
        /// The pool.
        pool: PoolName,
        /// The class.
        class: ClassName,
        /// When trying again may help; `None` where it will not.
        retry_after: Option<Duration>,
        /// The lease that ended this way, where there was one.
        lease: Option<LeaseId>,
        /// The pool that was asked, where the request was sent on to this one.
        degraded_from: Option<PoolName>,
    },
    /// There is no such pool; the ones there are.
    NoSuchPool(PoolName, Vec<PoolName>),
    /// The pool's host has no such class; the ones there are.
    NoSuchClass(ClassName, Vec<ClassName>),
    /// There is no such provider; the ones there are.
    NoSuchProvider(ProviderName, Vec<ProviderName>),
    /// There is no such lease, or none any more.
    NoSuchLease(LeaseId),
    /// This task was asked for with other wishes; its last lease, where there was one.
    OtherTask(TaskId, Option<LeaseId>),
    /// The lease is not in a state for that.
    NotExecuting(Box<LeaseView>),
    /// The new profile changes what a daemon that runs cannot change.
    CannotChange(Change),
}
