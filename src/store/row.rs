//! Records as rows: what operators look for in columns of its own, the whole as JSON beside it.
//!
//! Times are nanoseconds since the boot that the row names; [`Kept`] carries them into this one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::Moment;
use super::end::EndText;
use crate::control::message::{
    DrainRecord, End, EnvelopeRecord, Hold, InstanceId, InstanceRecord, InstanceRecordState, LeaseId,
    LeaseRecord, LeaseRecordState, LimitsRecord, Made, PeakWeight, Process, Scope, TaskId, TaskRecord,
    Tenant,
};
use crate::profile::{ClassName, Kind, OnPressure, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// The version of the JSON; a reader takes older ones too.
pub(super) const VERSION: i64 = 1;

/// Something that was written down, with the moment at which it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept<T> {
    /// What.
    pub record: T,
    /// When, and in which boot.
    pub written: Moment,
}

/// An instance with the template it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptInstance {
    /// The instance.
    pub record: InstanceRecord,
    /// The hash of its template.
    pub template: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeaseText {
    kind: String,
    /// Not in rows of older versions.
    #[serde(default)]
    degraded_from: Option<String>,
    class: String,
    tenant: String,
    asked_ns: u64,
    #[serde(default, skip_serializing_if = "is_none")]
    oom_kills: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskText>,
    first_use: Duration,
    idle: Duration,
    runtime: Duration,
    runtime_max: Duration,
    state: StateText,
}

#[derive(Debug, Serialize, Deserialize)]
struct TaskText {
    id: String,
    attempt: u32,
    first_ns: u64,
    class: Option<String>,
    max_runtime: Option<Duration>,
    idle_timeout: Option<Duration>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StateText {
    Queued {
        promised_ns: u64,
        arrival: u64,
        deadline_ns: u64,
    },
    Executing {
        instance: String,
        granted_ns: u64,
        used: bool,
        deadline_ns: u64,
        #[serde(default)]
        hold: Option<HoldText>,
    },
    Ended {
        #[serde(with = "EndText")]
        end: End,
        at_ns: u64,
        granted_ns: Option<u64>,
    },
}

/// A lease that waits for a person.
#[derive(Debug, Serialize, Deserialize)]
struct HoldText {
    since_ns: u64,
    until_ns: u64,
    reason: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InstanceText {
    born_ns: u64,
    process: Option<(u32, u64)>,
    #[serde(default)]
    made: Option<MadeText>,
    state: LifeText,
}

#[derive(Debug, Serialize, Deserialize)]
struct MadeText {
    kind: String,
    image: String,
    memory_max: u64,
    memory_expect: u64,
    cpus_milli: u64,
    #[serde(default)]
    pids: u32,
    devtools: Option<u16>,
    stop_timeout: Duration,
    journal_output: bool,
    on_pressure: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LifeText {
    Starting,
    Warm { since_ns: u64, expires_ns: u64 },
    Stopping,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DrainText {
    since_ns: u64,
    deadline_ns: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EnvelopeText {
    usual: u64,
    former: u64,
    lives: u32,
    at_ns: u64,
    /// Tenant, bucket, and the weights of whole and of cut lives.
    weights: Vec<(Option<String>, u8, u64, u64)>,
    /// Beginning and length.
    #[serde(default)]
    hours: Vec<(u64, Duration)>,
    #[serde(default)]
    hours_until_ns: u64,
}

/// The columns of a lease that are there for people, and for finding what must not be lent again.
pub(super) struct LeaseColumns {
    pub(super) state: &'static str,
    pub(super) reason: Option<&'static str>,
    pub(super) instance: Option<String>,
    pub(super) ended: bool,
}

pub(super) fn lease_columns(record: &LeaseRecord) -> LeaseColumns {
    match &record.state {
        LeaseRecordState::Queued { .. } => {
            LeaseColumns { state: "queued", reason: None, instance: None, ended: false }
        }
        LeaseRecordState::Executing { instance, hold, .. } => LeaseColumns {
            state: if hold.is_some() { "waiting_for_approval" } else { "executing" },
            reason: None,
            instance: Some(instance.to_string()),
            ended: false,
        },
        LeaseRecordState::Ended { end, .. } => {
            LeaseColumns { state: end.code(), reason: Some(end.reason()), instance: None, ended: true }
        }
    }
}

pub(super) const fn instance_state(record: &InstanceRecord) -> &'static str {
    match record.state {
        InstanceRecordState::Starting => "starting",
        InstanceRecordState::Warm { .. } => "warm",
        InstanceRecordState::Stopping => "stopping",
    }
}

pub(super) fn scope_name(scope: &Scope) -> String {
    match scope {
        Scope::Host => "host".into(),
        Scope::Pool(name) => format!("pool {name}"),
    }
}

pub(super) fn read_scope(name: &str) -> Option<Scope> {
    match name.strip_prefix("pool ") {
        Some(pool) => Some(Scope::Pool(PoolName::new(pool))),
        None => (name == "host").then_some(Scope::Host),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over this way")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

fn kind_of(word: &str) -> Option<Kind> {
    [Kind::Browser, Kind::Sandbox].into_iter().find(|kind| kind.as_str() == word)
}

/// What a text that has an unknown word in a lease's state is refused with: it names all that are known.
#[cfg(test)]
pub(super) fn unknown_word(text: &str) -> String {
    serde_json::from_str::<StateText>(text).unwrap_err().to_string()
}

impl LeaseText {
    pub(super) fn of(record: &LeaseRecord) -> LeaseText {
        let LimitsRecord { first_use, idle, runtime, runtime_max } = record.limits;
        let state = match &record.state {
            LeaseRecordState::Queued { promised, arrival, deadline } => StateText::Queued {
                promised_ns: promised.as_nanos(),
                arrival: *arrival,
                deadline_ns: deadline.as_nanos(),
            },
            LeaseRecordState::Executing { instance, granted_at, used, deadline, hold } => {
                StateText::Executing {
                    instance: instance.to_string(),
                    granted_ns: granted_at.as_nanos(),
                    used: *used,
                    deadline_ns: deadline.as_nanos(),
                    hold: hold.as_ref().map(HoldText::of),
                }
            }
            LeaseRecordState::Ended { end, at, granted_at } => StateText::Ended {
                end: end.clone(),
                at_ns: at.as_nanos(),
                granted_ns: granted_at.map(Instant::as_nanos),
            },
        };
        LeaseText {
            kind: record.kind.to_string(),
            degraded_from: record.degraded_from.as_ref().map(ToString::to_string),
            class: record.class.to_string(),
            tenant: record.tenant.to_string(),
            asked_ns: record.asked_at.as_nanos(),
            oom_kills: record.oom_kills,
            task: record.task.as_deref().map(TaskText::of),
            first_use,
            idle,
            runtime,
            runtime_max,
            state,
        }
    }

    /// The lease, its times carried from when it was written into the boot of `now`.
    pub(super) fn record(self, id: &str, pool: &str, written: &Moment, now: &Moment) -> Option<LeaseRecord> {
        let time = |nanos| written.carry(Instant::from_nanos(nanos), now);
        let state = match self.state {
            StateText::Queued { promised_ns, arrival, deadline_ns } => {
                LeaseRecordState::Queued { promised: time(promised_ns), arrival, deadline: time(deadline_ns) }
            }
            StateText::Executing { instance, granted_ns, used, deadline_ns, hold } => {
                LeaseRecordState::Executing {
                    instance: instance.parse().ok()?,
                    granted_at: time(granted_ns),
                    used,
                    deadline: time(deadline_ns),
                    hold: hold.map(|hold| Hold {
                        since: time(hold.since_ns),
                        until: time(hold.until_ns),
                        reason: hold.reason.into(),
                    }),
                }
            }
            StateText::Ended { end, at_ns, granted_ns } => {
                LeaseRecordState::Ended { end, at: time(at_ns), granted_at: granted_ns.map(time) }
            }
        };
        Some(LeaseRecord {
            id: LeaseId(id.into()),
            pool: PoolName::new(pool),
            degraded_from: self.degraded_from.map(PoolName::new),
            kind: kind_of(&self.kind)?,
            class: ClassName::new(self.class),
            tenant: Tenant(self.tenant.into()),
            asked_at: time(self.asked_ns),
            oom_kills: self.oom_kills,
            task: self.task.map(|task| Box::new(task.record(time))),
            limits: LimitsRecord {
                first_use: self.first_use,
                idle: self.idle,
                runtime: self.runtime,
                runtime_max: self.runtime_max,
            },
            state,
        })
    }
}

impl HoldText {
    fn of(hold: &Hold) -> HoldText {
        let Hold { since, until, reason } = hold;
        HoldText { since_ns: since.as_nanos(), until_ns: until.as_nanos(), reason: reason.to_string() }
    }
}

impl TaskText {
    fn of(task: &TaskRecord) -> TaskText {
        TaskText {
            id: task.id.to_string(),
            attempt: task.attempt,
            first_ns: task.first.as_nanos(),
            class: task.class.as_ref().map(ToString::to_string),
            max_runtime: task.max_runtime,
            idle_timeout: task.idle_timeout,
        }
    }

    fn record(self, time: impl Fn(u64) -> Instant) -> TaskRecord {
        TaskRecord {
            id: TaskId(self.id.into()),
            attempt: self.attempt,
            first: time(self.first_ns),
            class: self.class.map(ClassName::new),
            max_runtime: self.max_runtime,
            idle_timeout: self.idle_timeout,
        }
    }
}

impl InstanceText {
    pub(super) fn of(record: &InstanceRecord) -> InstanceText {
        let state = match record.state {
            InstanceRecordState::Starting => LifeText::Starting,
            InstanceRecordState::Warm { since, expires } => {
                LifeText::Warm { since_ns: since.as_nanos(), expires_ns: expires.as_nanos() }
            }
            InstanceRecordState::Stopping => LifeText::Stopping,
        };
        let process = record.process.map(|process| (process.pid, process.began));
        let made = record.made.as_ref().map(MadeText::of);
        InstanceText { born_ns: record.born.as_nanos(), process, made, state }
    }

    /// The instance, its times carried likewise.
    pub(super) fn record(
        self,
        id: InstanceId,
        pool: &str,
        written: &Moment,
        now: &Moment,
    ) -> Option<InstanceRecord> {
        let time = |nanos| written.carry(Instant::from_nanos(nanos), now);
        let state = match self.state {
            LifeText::Starting => InstanceRecordState::Starting,
            LifeText::Warm { since_ns, expires_ns } => {
                InstanceRecordState::Warm { since: time(since_ns), expires: time(expires_ns) }
            }
            LifeText::Stopping => InstanceRecordState::Stopping,
        };
        let process = self.process.map(|(pid, began)| Process { pid, began });
        let made = match self.made {
            Some(made) => Some(made.made()?),
            None => None,
        };
        Some(InstanceRecord { id, pool: PoolName::new(pool), born: time(self.born_ns), process, made, state })
    }
}

impl MadeText {
    fn of(made: &Made) -> MadeText {
        MadeText {
            kind: made.kind.to_string(),
            image: made.image.clone(),
            memory_max: made.memory_max.get(),
            memory_expect: made.memory_expect.get(),
            cpus_milli: made.cpus.get(),
            pids: made.pids,
            devtools: made.devtools,
            stop_timeout: made.stop_timeout,
            journal_output: made.journal_output,
            on_pressure: made.on_pressure.as_str().into(),
        }
    }

    fn made(self) -> Option<Made> {
        Some(Made {
            kind: kind_of(&self.kind)?,
            image: self.image,
            memory_max: Bytes::new(self.memory_max),
            memory_expect: Bytes::new(self.memory_expect),
            cpus: MilliCpu::new(self.cpus_milli),
            pids: self.pids,
            devtools: self.devtools,
            stop_timeout: self.stop_timeout,
            journal_output: self.journal_output,
            on_pressure: [OnPressure::Keep, OnPressure::Interrupt]
                .into_iter()
                .find(|word| word.as_str() == self.on_pressure)?,
        })
    }
}

impl DrainText {
    pub(super) fn of(record: &DrainRecord) -> DrainText {
        DrainText { since_ns: record.since.as_nanos(), deadline_ns: record.deadline.as_nanos() }
    }

    pub(super) fn record(&self, written: &Moment, now: &Moment) -> DrainRecord {
        let time = |nanos| written.carry(Instant::from_nanos(nanos), now);
        DrainRecord { since: time(self.since_ns), deadline: time(self.deadline_ns) }
    }
}

impl EnvelopeText {
    pub(super) fn of(record: &EnvelopeRecord) -> EnvelopeText {
        let weights = record.weights.iter().map(|weight| {
            let tenant = weight.tenant.as_ref().map(ToString::to_string);
            (tenant, weight.bucket, weight.whole, weight.cut)
        });
        EnvelopeText {
            usual: record.usual.get(),
            former: record.former.get(),
            lives: record.lives,
            at_ns: record.at.as_nanos(),
            weights: weights.collect(),
            hours: record.hours.iter().map(|(at, used)| (at.as_nanos(), *used)).collect(),
            hours_until_ns: record.hours_until.as_nanos(),
        }
    }

    pub(super) fn record(self, pool: &str, written: &Moment, now: &Moment) -> EnvelopeRecord {
        let time = |nanos| written.carry(Instant::from_nanos(nanos), now);
        let weights = self.weights.into_iter().map(|(tenant, bucket, whole, cut)| {
            let tenant = tenant.map(|name| Tenant(name.into()));
            PeakWeight { tenant, bucket, whole, cut }
        });
        EnvelopeRecord {
            pool: PoolName::new(pool),
            usual: Bytes::new(self.usual),
            former: Bytes::new(self.former),
            lives: self.lives,
            at: time(self.at_ns),
            weights: weights.collect(),
            hours: self.hours.into_iter().map(|(at, used)| (time(at), used)).collect(),
            hours_until: time(self.hours_until_ns),
        }
    }
}
