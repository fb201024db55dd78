//! The controller's state as callers and operators see it: copies, complete in themselves.

use std::time::Duration;

use super::{
    CeilingsView, ClassTally, Disk, Engine, Exit, Histogram, Hold, HoldsView, HostCpu, HostMemory, HostPids,
    InstanceId, LeaseId, OomLevel, Pressure, PressureView, SliceMemory, TaskId, Tenant, Why,
};
use crate::profile::{ClassName, Kind, PoolName, ProviderName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// A lease as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// Its name.
    pub id: LeaseId,
    /// Its pool.
    pub pool: PoolName,
    /// The pool that it was asked of, where that sent it on for want of telemetry.
    pub degraded_from: Option<PoolName>,
    /// What that pool lends.
    pub kind: Kind,
    /// Its class.
    pub class: ClassName,
    /// Whose it is.
    pub tenant: Tenant,
    /// The task that it is for, and the how-manieth attempt of it.
    pub task: Option<(TaskId, u32)>,
    /// When the request arrived.
    pub asked_at: Instant,
    /// How many processes the kernel has killed in its instance for want of memory.
    pub oom_kills: u64,
    /// Its state with what belongs to it.
    pub state: LeaseState,
    /// What this was seen at.
    pub seen_at: Instant,
}

/// The states of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// Waits for an instance.
    Queued {
        /// Its place in its pool's queue, from 1.
        place: u32,
        /// Whether an instance is being started that will be its own if nothing changes.
        starting: bool,
        /// The limit that keeps one from being started.
        blocked_by: Option<Why>,
        /// How long it will wait still, where that can be known.
        estimate: Option<Estimate>,
        /// When it gives up.
        deadline: Instant,
    },
    /// Its caller has an instance.
    Executing {
        /// Which.
        instance: InstanceId,
        /// Since when.
        granted_at: Instant,
        /// Whether the caller has used it at all.
        used: bool,
        /// When it ends for want of activity (or of a first use); never while it waits for a person.
        idle_deadline: Option<Instant>,
        /// When it ends in any case.
        deadline: Instant,
        /// When a drain ends it, where one is under way: callers see `draining`.
        draining: Option<Instant>,
        /// What it waits for, where it waits for a person: callers see `waiting_for_approval`.
        hold: Option<Hold>,
        /// The providers that it waits for permits of, with since when: callers see `waiting_for_provider`.
        permits: Vec<(ProviderName, Instant)>,
    },
    /// It ended.
    Ended {
        /// How.
        end: End,
        /// When.
        at: Instant,
        /// When it was granted, if it was.
        granted_at: Option<Instant>,
    },
}

/// How long a request will wait, and what that is made of: `behind * span / ends + start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// How long.
    pub wait: Duration,
    /// Slots that have to come free until it is served, its own included; none where a start is under way for it.
    pub behind: u32,
    /// Leases of the pool that ended lately,
    pub ends: u32,
    /// within this time.
    pub span: Duration,
    /// How long a start takes in nineteen of twenty cases.
    pub start: Duration,
}

/// The honest ends of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Its caller released it.
    Completed,
    /// Its instance failed it.
    Failed(Failure),
    /// Its caller took it back, or was gone.
    Cancelled(Cancelled),
    /// A deadline passed.
    Expired(Deadline),
    /// Something above it ended it.
    Interrupted(Interruption),
    /// It was never granted: a limit refused it.
    Refused(Why),
}

/// How an instance failed its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Its first process ended.
    Died(Exit),
    /// The kernel killed its first process for want of memory.
    OutOfMemory(OomLevel),
    /// Its container vanished.
    Vanished,
    /// What the caller ran went past its own limit and could not be ended alone.
    Overran,
}

/// Who took a lease back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// Its caller said so.
    ByCaller,
    /// Its caller hung up while it waited, or before it heard of the grant.
    CallerGone,
}

/// The deadlines of a granted lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// `first_use_timeout`.
    FirstUse,
    /// `idle_timeout`.
    Idle,
    /// `max_runtime`.
    Runtime,
    /// A hold's own.
    Hold,
}

/// What interrupts a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The window of a drain was over.
    Drain,
    /// The host was short of memory.
    Pressure,
    /// The host itself went down.
    HostLost,
    /// The host profile has its pool no more.
    PoolRemoved,
}

/// A pool as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// Its name.
    pub name: PoolName,
    /// What it lends.
    pub kind: Kind,
    /// Its image.
    pub image: String,
    /// Instances being started.
    pub starting: u32,
    /// Instances ready and not lent.
    pub warm: u32,
    /// How many warm ones are wanted.
    pub stock: u32,
    /// Instances lent.
    pub leased: u32,
    /// Instances being stopped.
    pub stopping: u32,
    /// Of those, the ones that would not go at the first try.
    pub stuck: u32,
    /// Requests waiting.
    pub queued: u32,
    /// How long the oldest of them has waited.
    pub oldest_wait: Option<Duration>,
    /// Instances in any state that were made from an older template.
    pub outdated: u32,
    /// Whether the profile has it no more, and only what is left of it is here.
    pub removed: bool,
    /// `max_instances`.
    pub max_instances: u32,
    /// Its leases that wait for a person.
    pub holds: HoldsView,
    /// Its classes.
    pub classes: Vec<ClassView>,
    /// Starts that were ordered since the daemon began, and how many of them failed.
    pub starts: (u64, u64),
    /// How long those took that became ready.
    pub took: Histogram,
    /// What its instances hold, those that could be measured.
    pub memory: Bytes,
    /// Instances of which that is not known.
    pub unmeasured: u32,
    /// What one instance is expected to need: learned from past lives, or declared.
    pub envelope: Bytes,
    /// How many lives have taught that.
    pub lives: u32,
    /// `memory_expect`: what is declared.
    pub memory_expect: Bytes,
    /// What one of them is expected to use of the processors: `cpus_expect`, or what was measured where that is more.
    pub cpu_expected: MilliCpu,
    /// What its instances are counted with.
    pub promised: Bytes,
    /// The drain it is under.
    pub drain: Option<DrainView>,
    /// What keeps more from being started, where more are wanted.
    pub blocked_by: Option<Why>,
    /// What this was seen at.
    pub seen_at: Instant,
}

/// One class of a pool as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassView {
    /// Its name.
    pub class: ClassName,
    /// How many wait.
    pub waiting: u32,
    /// How many have a slot.
    pub leased: u32,
    /// Slots that are guaranteed to it.
    pub guaranteed: u32,
    /// Slots that are lent to no other class.
    pub hold_back: u32,
    /// How many of those that have a slot wait for a person.
    pub holds: u32,
    /// What has happened since the daemon began.
    pub tally: ClassTally,
}

/// A drain as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainView {
    /// When it began.
    pub since: Instant,
    /// When it interrupts what still runs.
    pub deadline: Instant,
    /// Leases that still run.
    pub leases: u32,
    /// Instances that still exist.
    pub instances: u32,
}

/// The host as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    /// Its name.
    pub name: String,
    /// What this was seen at.
    pub seen_at: Instant,
    /// When the controller began.
    pub since: Instant,
    /// Its memory.
    pub memory: Reading<HostMemory>,
    /// Its processors.
    pub cpu: Reading<HostCpu>,
    /// Its stalls.
    pub pressure: Reading<Pressure>,
    /// How short of memory it is.
    pub shortage: PressureView,
    /// Its processes and threads.
    pub pids: Reading<PidsView>,
    /// The disk of the engine.
    pub engine_disk: Reading<DiskView>,
    /// The disk of our own state.
    pub state_disk: Reading<DiskView>,
    /// What all containers hold.
    pub slice: Reading<SliceMemory>,
    /// Whether the hard limits on all containers stand.
    pub ceilings: CeilingsView,
    /// What containers may have together, where the total is known.
    pub memory_limit: Option<Bytes>,
    /// What is promised to them.
    pub memory_promised: Bytes,
    /// What must remain available, where the total is known.
    pub floor: Option<Bytes>,
    /// Cold starts under way, and how many may be now.
    pub starts: (u32, u32),
    /// How many may be at most.
    pub max_starts: u32,
    /// The engine.
    pub engine: Engine,
    /// The drain it is under.
    pub drain: Option<DrainView>,
    /// Whether every pool has what it should: its smallest stock, unless it is drained.
    pub ready: bool,
}

/// Processes and threads of the host, and what of them containers may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PidsView {
    /// As they were counted.
    pub of: HostPids,
    /// How many containers may have together.
    pub limit: u64,
    /// How many the instances may have together.
    pub promised: u64,
}

/// A disk, and what of it must be free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskView {
    /// As it was seen.
    pub of: Disk,
    /// What must be free.
    pub floor: Bytes,
}

/// The host in a few figures, for one line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Instances that are ready and not lent.
    pub warm: u32,
    /// Instances that are lent.
    pub leased: u32,
    /// Instances that are becoming ready.
    pub starting: u32,
    /// Requests that wait.
    pub queued: u32,
    /// The engine.
    pub engine: Engine,
    /// The drain the host is under.
    pub drain: Option<DrainView>,
    /// Why nothing can be lent or started, where the host itself is the reason.
    pub trouble: Option<Why>,
}

/// A figure with its age: missing is not zero, and old is not new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// Read when it should have been.
    Fresh(T, Instant),
    /// The last one that could be read, some time ago.
    Stale(T, Instant),
    /// Not known.
    Unknown(String),
}
