//! What is written down so that it survives the daemon, and what is read back when the next one begins.
//!
//! A record is the whole state of its subject and never a difference: the newest one of each subject is all
//! that has to be read. Control knows nothing of how or where they are written (`store`).

use std::time::Duration;

use super::{End, Hold, InstanceId, LeaseId, Scope, TaskId, Tenant};
use crate::profile::{ClassName, Kind, OnPressure, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// One thing that changed, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A lease.
    Lease(Box<LeaseRecord>),
    /// An instance of which something may exist.
    Instance(InstanceRecord),
    /// Nothing of this instance remains.
    Gone(InstanceId),
    /// A drain that is under way, or done and not taken back.
    Drain(Scope, DrainRecord),
    /// A drain that was taken back.
    Undrained(Scope),
    /// What the lives of a pool's instances have taught.
    Envelope(EnvelopeRecord),
}

/// What a record is about: a newer one of the same subject replaces it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A lease.
    Lease(LeaseId),
    /// An instance.
    Instance(InstanceId),
    /// A drain.
    Drain(Scope),
    /// What a pool's instances need.
    Envelope(PoolName),
}

/// A lease as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRecord {
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
    /// When the request arrived.
    pub asked_at: Instant,
    /// Processes of its instance that the kernel killed for want of memory.
    pub oom_kills: u64,
    /// The task that it is an attempt of.
    pub task: Option<Box<TaskRecord>>,
    /// Its deadlines' lengths.
    pub limits: LimitsRecord,
    /// Its state.
    pub state: LeaseRecordState,
}

/// An attempt of a task as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRecord {
    /// What its caller calls it.
    pub id: TaskId,
    /// Which attempt of it, from 1.
    pub attempt: u32,
    /// When the task was first asked for.
    pub first: Instant,
    /// The class that was asked for.
    pub class: Option<ClassName>,
    /// The life that was asked for.
    pub max_runtime: Option<Duration>,
    /// The patience that was asked for.
    pub idle_timeout: Option<Duration>,
}

/// What its caller agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsRecord {
    /// Patience for the first use.
    pub first_use: Duration,
    /// Patience after it.
    pub idle: Duration,
    /// Length of its run when nobody renews.
    pub runtime: Duration,
    /// Length of its run however often it is renewed.
    pub runtime_max: Duration,
}

/// Where a lease is. A request whose caller waits on its connection ends with the daemon, and is not written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseRecordState {
    /// Waits; it was accepted with 202.
    Queued {
        /// The instant it was promised for, which is its place in the queue.
        promised: Instant,
        /// Its turn among those of the same promise.
        arrival: u64,
        /// When it gives up.
        deadline: Instant,
    },
    /// Has an instance.
    Executing {
        /// Which.
        instance: InstanceId,
        /// Since when.
        granted_at: Instant,
        /// Whether its caller has used it at all.
        used: bool,
        /// When it ends in any case.
        deadline: Instant,
        /// What it waits for, where it waits for a person.
        hold: Option<Hold>,
    },
    /// Is over.
    Ended {
        /// How.
        end: End,
        /// When.
        at: Instant,
        /// When it was granted, if it was.
        granted_at: Option<Instant>,
    },
}

/// An instance as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceRecord {
    /// Its name.
    pub id: InstanceId,
    /// Its pool.
    pub pool: PoolName,
    /// When its start was ordered.
    pub born: Instant,
    /// Its first process, once it ran.
    pub process: Option<Process>,
    /// What it was made from; `None` in records of a program that did not write it down.
    pub made: Option<Made>,
    /// Its state.
    pub state: InstanceRecordState,
}

/// What an instance was made from, as far as it counts while the instance exists: enough to go on with one whose
/// template or pool the profile has no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// What its image is.
    pub kind: Kind,
    /// Its image.
    pub image: String,
    /// The kernel's limit for it.
    pub memory_max: Bytes,
    /// What it was expected to need.
    pub memory_expect: Bytes,
    /// Processor time per time it may use.
    pub cpus: MilliCpu,
    /// Processes and threads that it may have.
    pub pids: u32,
    /// The port at which it answers DevTools, if it does.
    pub devtools: Option<u16>,
    /// From the polite signal to the kill.
    pub stop_timeout: Duration,
    /// Whether what it writes goes to the journal, too.
    pub journal_output: bool,
    /// What becomes of its lease when the host is short of memory.
    pub on_pressure: OnPressure,
}

/// Where an instance is. That it is lent stands in the record of its lease, which is written with the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceRecordState {
    /// Was ordered.
    Starting,
    /// Became ready; a lease that names it says that it was lent.
    Warm {
        /// When.
        since: Instant,
        /// When it is too old to be kept.
        expires: Instant,
    },
    /// Is being ended.
    Stopping,
}

/// The first process of a container: its number, and when it began, so that no other is taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// As this host counts processes.
    pub pid: u32,
    /// Its beginning in the kernel's ticks since the host's start (`/proc/PID/stat`, field 22).
    pub began: u64,
}

/// A drain as it is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainRecord {
    /// When it was asked for.
    pub since: Instant,
    /// When it interrupts what still runs.
    pub deadline: Instant,
}

/// What was learned of the memory that instances of a pool's newest template need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeRecord {
    /// The pool.
    pub pool: PoolName,
    /// The envelope when this was written.
    pub usual: Bytes,
    /// What was learned before, of an older template or long ago.
    pub former: Bytes,
    /// How many lives have taught it.
    pub lives: u32,
    /// When the weights were as they are.
    pub at: Instant,
    /// Where past lives peaked.
    pub weights: Vec<PeakWeight>,
    /// How long instances were there, by the beginning of the part of the time that it was in.
    pub hours: Vec<(Instant, Duration)>,
    /// That is added up until then.
    pub hours_until: Instant,
}

/// How much lives weigh that peaked alike; a life that has just ended weighs a million.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeakWeight {
    /// Whose they were; `None` for the many who had few.
    pub tenant: Option<Tenant>,
    /// Eighths of a doubling up to the kernel's limit, which is 63.
    pub bucket: u8,
    /// Of lives that ran to their own end.
    pub whole: u64,
    /// Of lives that were cut short.
    pub cut: u64,
}

/// All that an earlier daemon of this host wrote down; the first word that a controller hears.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// The last number that was given to a record.
    pub last: u64,
    /// Leases that wait, go on, or ended lately.
    pub leases: Vec<LeaseRecord>,
    /// Leases that were executing when the host itself went down: their instances cannot be any more.
    pub lost: Vec<LeaseRecord>,
    /// Instances of this boot whose template is as it was.
    pub instances: Vec<InstanceRecord>,
    /// Instances of an earlier boot, of another template, or of a pool that is not in the profile.
    pub outdated: Vec<InstanceRecord>,
    /// Drains of this boot.
    pub drains: Vec<(Scope, DrainRecord)>,
    /// What was learned of each pool, and whether of the template that it has now.
    pub envelopes: Vec<(EnvelopeRecord, bool)>,
}

impl Record {
    /// What it is about.
    pub fn subject(&self) -> Subject {
        match self {
            Record::Lease(lease) => Subject::Lease(lease.id.clone()),
            Record::Instance(InstanceRecord { id, .. }) | Record::Gone(id) => Subject::Instance(*id),
            Record::Drain(scope, _) | Record::Undrained(scope) => Subject::Drain(scope.clone()),
            Record::Envelope(envelope) => Subject::Envelope(envelope.pool.clone()),
        }
    }

    /// Whether it must be there after the host lost its power. What runs is gone by then and its record is of
    /// no use; a request that was accepted, and how a lease ended, are answered for.
    pub fn survives_host(&self) -> bool {
        match self {
            Record::Lease(lease) => match lease.state {
                LeaseRecordState::Queued { .. } | LeaseRecordState::Ended { .. } => true,
                LeaseRecordState::Executing { .. } => false,
            },
            Record::Instance(_)
            | Record::Gone(_)
            | Record::Drain(..)
            | Record::Undrained(_)
            | Record::Envelope(_) => false,
        }
    }
}
