//! Transitions, for the journal: what happened to what, and why.

use std::sync::Arc;
use std::time::Duration;

use super::{Ceilings, End, InstanceId, LeaseId, Level, Oom, Shortage, StartFailure, Tenant, Victim, Why};
use crate::profile::{Change, PoolName, ProviderName};
use crate::quantity::Permille;

/// A transition, for the journal: what happened to what, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub what: What,
    /// Its pool, where it concerns one.
    pub pool: Option<PoolName>,
    /// Its instance, where it concerns one.
    pub instance: Option<InstanceId>,
    /// Its lease, where it concerns one.
    pub lease: Option<LeaseId>,
    /// Whose it is, where it is someone's.
    pub tenant: Option<Tenant>,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A start was ordered.
    InstanceStarting,
    /// It became warm after this long.
    InstanceWarm(Duration),
    /// It was warm when an earlier daemon ended, and answers.
    InstanceFound,
    /// A start came to nothing.
    InstanceStartFailed(StartFailure),
    /// It is being stopped, for this reason.
    InstanceStopping(StopReason),
    /// It would not go; what was said, and which try this was.
    InstanceStuck(String, u32),
    /// The kernel killed processes of the instance for want of memory; its first process may live on.
    OutOfMemory(Oom),
    /// Nothing of it remains.
    InstanceGone,
    /// A request waits.
    LeaseQueued,
    /// A request was sent on to this pool, because what the other one needs to know of the host is unknown.
    LeaseDegraded {
        /// The pool that was asked.
        from: PoolName,
        /// What is unknown, and why.
        unknown: String,
    },
    /// A request was granted after waiting this long.
    LeaseGranted(Duration),
    /// A lease waits for a person, so long at most, for this reason.
    LeaseHeld(Duration, Arc<str>),
    /// A person has done what a lease waited for, after this long.
    LeaseResumed(Duration),
    /// A lease may not wait for a person.
    HoldRefused(Why),
    /// A lease gets no permit to call its provider.
    PermitRefused(Why),
    /// A provider throttled: so much of its rate is used now, and nothing for so long.
    ProviderThrottled(ProviderName, Permille, Duration),
    /// All of a provider's rate is used again.
    ProviderBack(ProviderName),
    /// A lease ended.
    LeaseEnded(End),
    /// A request was refused at once, without a lease.
    RequestRefused(Why),
    /// A drain began, and interrupts what still runs after this long.
    DrainBegan(Duration),
    /// A drain has emptied what it was for.
    Drained,
    /// A drain was taken back.
    Undrained,
    /// A reload changed this.
    ProfileChanged(Change),
    /// A reload is done, with so many changes.
    ProfileReloaded(u32),
    /// A reload was refused, because this cannot change.
    ReloadRefused(Change),
    /// A pool that the profile has no more is empty, and gone.
    PoolGone,
    /// The engine answers again.
    EngineBack,
    /// The engine does not answer.
    EngineLost(String),
    /// The host's memory can no longer be told; starts stop.
    TelemetryLost(String),
    /// It can again.
    TelemetryBack,
    /// A disk is nearly full, by these figures; starts stop.
    DiskLow(Why),
    /// All disks have room again.
    DiskRoom,
    /// The level of memory pressure was this, and by these figures is another one.
    Pressure(Level, Shortage),
    /// Relief asks so many idle warm instances to give memory back.
    ReliefAsks(u32, Shortage),
    /// Relief ends this one.
    ReliefEnds(Victim, Shortage),
    /// The hard limits on all containers stand.
    CeilingsStand(Ceilings),
    /// One of the hard limits on all containers could not be set: which, and why.
    CeilingsRefused(String),
    /// Records cannot be written; nothing is lent and nothing started.
    StoreLost(String),
    /// They can again.
    StoreBack,
    /// What an earlier daemon wrote down was taken up.
    Recovered {
        /// Leases that go on.
        leases: u32,
        /// Instances that may exist.
        instances: u32,
    },
}

/// Why an instance is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Its lease ended; what is used is destroyed.
    Used,
    /// Its start failed or took too long.
    StartFailed,
    /// Its first process ended.
    Died,
    /// Nobody had it, and the kernel killed a process of it.
    OutOfMemory,
    /// Stock of another pool is worth more, and the host has not room for both.
    Outbid,
    /// It stopped answering while warm.
    Unanswering,
    /// It was warm for `max_age`.
    Aged,
    /// More are warm than wanted.
    Surplus,
    /// A drain reclaims it.
    Drain,
    /// The host is short of memory.
    Pressure,
    /// It was made from an older template, or in an earlier boot.
    Outdated,
    /// Its pool is in the profile no more.
    Removed,
    /// The engine has it, and no record of ours does.
    Unknown,
    /// It was being started or stopped when the daemon ended.
    Interrupted,
}
