//! Every word spoken to the controller or by it. Reading this page is reading the product.
//!
//! What it shows of itself is in `views`, what it tells the journal in `events`, what it writes down in `records`, what
//! concerns memory pressure in `pressure`, what it refuses, and why, in `why`, leases that wait for a person in `hold`, and
//! those that wait for an external provider in `permits`.
//!
//! [`Input`] is what the world, the callers and the operator say; [`Output`] is what the controller
//! wants done or said. What is seen ([`Sample`], [`Listing`], [`News`]) is whole and never a
//! difference, so that a word that was lost is healed by the next. A refusal is an answer, not an error.

mod events;
mod explain;
mod hold;
mod names;
mod oom;
mod permits;
mod pressure;
mod records;
mod space;
mod tally;
mod views;
mod why;

pub use events::{Event, StopReason, What};
pub use explain::{
    BoundView, ClassDemandView, ClassTurnView, ExplainView, LeaseExplainView, LimitView, Rule, WaitView,
};
pub use hold::{Hold, HoldFor, HoldsView};
pub use names::{CallId, InstanceId, LeaseId, TaskId, Tenant};
pub use oom::{Kills, Oom, OomLevel};
pub use permits::{Permit, ProviderTally, ProviderView};
pub use pressure::{Ceilings, CeilingsView, Level, PressureView, Shortage, SliceMemory, Tier, Victim};
pub use records::{
    DrainRecord, EnvelopeRecord, InstanceRecord, InstanceRecordState, LeaseRecord, LeaseRecordState,
    LimitsRecord, Made, PeakWeight, Process, Record, Recovered, Subject, TaskRecord,
};
pub use space::{Disk, DiskOf, HostPids, Inodes};
pub use tally::{BUCKETS, ClassTally, Histogram, PoolTally};
pub use views::{
    Cancelled, ClassView, Deadline, DiskView, DrainView, End, Estimate, Failure, HostView, Interruption,
    LeaseState, LeaseView, PidsView, PoolView, Reading, Summary,
};
pub use why::{Refusal, Verdict, Why};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::profile::{Change, ClassName, HostProfile, Pool, PoolName, Probe, ProviderName};
use crate::quantity::{Bytes, Instant, MilliCpu, Permille};

// ---------------------------------------------------------------- in

/// Everything that can be said to the controller.
#[derive(Debug, Clone)]
pub enum Input {
    /// Nothing happened but time.
    Tick,
    /// One look at the whole host.
    Sample(Box<Sample>),
    /// One look at one instance alone, between two samples.
    Looked(InstanceId, InstanceUse),
    /// One listing of all our containers.
    Listed(Listing),
    /// Whether the engine answers at all.
    Engine(Engine),
    /// Something about one instance.
    Instance(InstanceId, News),
    /// The lease's instance moved bytes or ran something for its caller at that time.
    Active(LeaseId, Instant),
    /// A caller asks.
    Call(CallId, Call),
    /// The caller of an unanswered call is gone.
    HungUp(CallId),
    /// These ceilings stand, or why one of them does not, in one line.
    Ceilings(Result<Ceilings, String>),
    /// What an earlier daemon wrote down; the first word of all, where there is a store.
    Recovered(Box<Recovered>),
    /// All records up to this number are written.
    Recorded(u64),
    /// Records up to this number that are not written yet could not be, for this reason; they are tried again.
    RecordFailed(u64, String),
}

/// One look at the whole host; instances are read first, MemAvailable last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Memory of the host.
    pub memory: Read<HostMemory>,
    /// Processors of the host and how busy they were since the sample before.
    pub cpu: Read<HostCpu>,
    /// Stalled time of all tasks of the host.
    pub pressure: Read<Pressure>,
    /// What all containers hold together, what outlived its container included.
    pub slice: Read<SliceMemory>,
    /// The share of the last ten seconds in which all tasks of the slice waited for memory.
    pub slice_stalled: Read<Permille>,
    /// Processes and threads of the host.
    pub pids: Read<HostPids>,
    /// The disk of the engine.
    pub engine_disk: Read<Disk>,
    /// The disk of our own state.
    pub state_disk: Read<Disk>,
    /// Whether the kernel takes memory back from a container when asked (`memory.reclaim`).
    pub reclaims: bool,
    /// Each instance that could be looked for; one that is missing was not measured.
    pub instances: BTreeMap<InstanceId, InstanceUse>,
}

/// A figure as it was read, or why it could not be. Its age is the controller's to keep (`host`).
pub type Read<T> = Result<T, Unread>;

/// Why a figure could not be read: one line for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread(pub String);

/// Memory of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    /// All of it.
    pub total: Bytes,
    /// What the kernel says could be used without swapping (MemAvailable).
    pub available: Bytes,
}

/// Processors of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostCpu {
    /// How many there are, in thousandths.
    pub cores: MilliCpu,
    /// How many were busy, on average since the sample before.
    pub busy: MilliCpu,
}

/// PSI: the share of the last ten seconds in which tasks stood still for want of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited for memory.
    pub memory_some: Permille,
    /// All tasks waited for memory.
    pub memory_full: Permille,
    /// Some task waited for a processor.
    pub cpu_some: Permille,
    /// Some task waited for the disk.
    pub io_some: Permille,
}

/// What one instance uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceUse {
    /// Memory that the kernel cannot take back (the design's `hard`).
    pub memory: Read<Bytes>,
    /// Processor time per time, on average since the sample before.
    pub cpu: Read<MilliCpu>,
    /// What the kernel has done to it for want of memory.
    pub kills: Read<Kills>,
}

/// All our containers as the engine listed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// When the listing was asked for: it says nothing about what came later.
    pub asked_at: Instant,
    /// Each container of ours, by its instance, and whether its first process runs.
    pub running: BTreeMap<InstanceId, bool>,
}

/// Whether the engine answers. Unreachable means unknown, never dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// It answers.
    Reachable,
    /// It does not; why, in one line.
    Unreachable(String),
}

/// What can be heard of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Its container exists.
    Created,
    /// Its first process runs: this one.
    Started(Process),
    /// Its probe answered.
    Ready,
    /// It will not become ready; nothing of it is known to remain, or `Stop` will be needed.
    StartFailed(StartFailure),
    /// Its first process has ended.
    Exited(Exit),
    /// A probe of a warm one answered (`true`) or did not.
    Probed(bool),
    /// Its container no longer exists.
    Gone,
    /// It could not be stopped or removed; why, in one line.
    StopFailed(String),
}

/// Why a start came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartFailure {
    /// The engine does not have the image.
    ImageMissing(String),
    /// The probe never answered in time.
    NotReady(String),
    /// The first process ended before it was ready.
    Died(Exit),
    /// It ended so soon after it was ready that the start counts for none.
    DiedYoung(Exit),
    /// The engine refused or failed.
    Engine(String),
}

/// How a first process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, 128 + signal where a signal ended it; `None` where nobody saw.
    pub code: Option<i64>,
}

/// What a caller or operator asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Lend me an instance.
    Acquire(Acquire),
    /// Show a lease; at once, or when `until` is reached.
    Get {
        /// Which.
        lease: LeaseId,
        /// Answer when this is reached, or the lease ended, or the time is over; or at once, where as many
        /// watch it as may.
        until: Option<(WaitFor, Duration)>,
    },
    /// Show all leases.
    Leases,
    /// The caller uses the lease now: may it, and which instance is it?
    Use(LeaseId),
    /// Move `max_runtime`'s deadline to at least this long from now; never shortens.
    Renew(LeaseId, Duration),
    /// The lease waits for a person from now on; or goes on waiting, for another time and reason.
    Hold(LeaseId, HoldFor),
    /// The person has done what was waited for.
    Resume(LeaseId),
    /// The lease is about to call this provider: may it? Answered when it may, or after so long at most; the provider's
    /// `max_wait` where `None`, and never above it.
    Permit(LeaseId, ProviderName, Option<Duration>),
    /// The caller is done.
    Release(LeaseId),
    /// End it for this reason, whatever its state.
    Cancel(LeaseId),
    /// A grant could not be delivered: its caller is gone.
    Undelivered(LeaseId),
    /// Something the caller ran ended the lease: it ran past its limit.
    Overran(LeaseId),
    /// Show all pools.
    Pools,
    /// Say why a pool has what it has.
    Explain(PoolName),
    /// Say why a lease is as it is.
    ExplainLease(LeaseId),
    /// Show all providers.
    Providers,
    /// This provider has throttled a call, and perhaps said for how long it wants to hear nothing.
    Throttled(ProviderName, Option<Duration>),
    /// Show the host.
    Host,
    /// Take no new work, let running work end within the window, then reclaim.
    Drain(Scope, Duration),
    /// The same, and the next daemon knows nothing of it: for a host that goes down, and for a removal.
    DrainForNow(Scope, Duration),
    /// Take work again.
    Undrain(Scope),
    /// Go by this profile from now on; or, where something in it cannot change while the daemon runs, not at all.
    Reload(Box<HostProfile>),
}

/// A request for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// The name that the lease will have; drawn outside.
    pub lease: LeaseId,
    /// From which pool.
    pub pool: PoolName,
    /// With which expectation; the pool's own where `None`.
    pub class: Option<ClassName>,
    /// For whom.
    pub tenant: Tenant,
    /// What the caller calls it, so that the same request may be made again.
    pub task: Option<TaskId>,
    /// How long it may wait in the queue; the class's `max_wait` where `None`, and never above it.
    pub wait: Option<Duration>,
    /// Whether to answer at once with the waiting lease, instead of when it is granted or refused.
    pub asynchronous: bool,
    /// A shorter life than the pool's `max_runtime`.
    pub max_runtime: Option<Duration>,
    /// A shorter patience than the pool's `idle_timeout`.
    pub idle_timeout: Option<Duration>,
}

/// What a caller that watches a lease waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// That it is executing and waits for nobody, or has ended.
    Executing,
    /// That it has ended.
    Ended,
}

/// What a drain concerns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Every pool, and the host as a whole.
    Host,
    /// One pool.
    Pool(PoolName),
}

// ---------------------------------------------------------------- out

/// What the controller wants done or said, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Make this instance of this pool, until its probe answers or `deadline` has come.
    Start {
        /// Its name.
        instance: InstanceId,
        /// Its pool.
        pool: PoolName,
        /// The pool as it is now: what the instance is made from, whatever a reload brings later.
        made: Arc<Pool>,
        /// When it must be ready.
        deadline: Instant,
    },
    /// Stop and remove whatever there is of this instance.
    Stop {
        /// Its name.
        instance: InstanceId,
        /// Time between the polite signal and the kill.
        grace: Duration,
    },
    /// Ask this warm instance whether it still answers.
    Probe {
        /// Its name.
        instance: InstanceId,
        /// How, as it was made.
        probe: Probe,
    },
    /// Take over this instance, which an earlier daemon made: find its first process, which must be this one
    /// where it is known, open its door, and say that it is ready once its probe answers.
    Adopt {
        /// Its name.
        instance: InstanceId,
        /// Its pool.
        pool: PoolName,
        /// The pool as it was made from, as far as that is known.
        made: Arc<Pool>,
        /// Its first process, as it was written down.
        process: Option<Process>,
        /// The lease that it is lent to, if it is.
        lease: Option<LeaseId>,
    },
    /// Ask the kernel to take back from this idle warm instance what it can.
    Reclaim(InstanceId),
    /// Make these the hard limits on all containers together, and keep them so.
    Ceilings(Ceilings),
    /// Write this down; all records of one word are written together or not at all.
    Record(u64, Record),
    /// Answer this call.
    Reply(CallId, Reply),
    /// Say this in the journal.
    Tell(Event),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The lease as it stands.
    Lease(Box<LeaseView>),
    /// All of them, newest first.
    Leases(Vec<LeaseView>),
    /// The lease may be used: this is its instance.
    Use {
        /// Its instance.
        instance: InstanceId,
        /// Its pool.
        pool: PoolName,
    },
    /// The lease may call its provider once.
    Permit(Permit),
    /// Providers, by name: all, or the one that was asked about.
    Providers(Vec<ProviderView>),
    /// All pools, by name.
    Pools(Vec<PoolView>),
    /// Why a pool has what it has.
    Explain(Box<ExplainView>),
    /// Why a lease is as it is.
    ExplainLease(Box<LeaseExplainView>),
    /// The host.
    Host(Box<HostView>),
    /// The profile holds; this is what has changed.
    Reloaded(Vec<Change>),
    /// No.
    Refused(Box<Refusal>),
}
