//! What crosses the wire: JSON bodies, and how they come from the controller's words.
//!
//! Serde stops here: inner types are free to change. Only additions are made to what is here. A number
//! carries its unit in its name; a duration that a person writes is text with a unit (`"30s"`).

mod class;
mod explain;
mod hold;
mod host;
mod lease;
mod lease_explain;
mod provider;
mod reload;

pub use class::ClassBody;
pub use explain::{ClassDemandBody, ExplainBody, LimitRowBody};
pub use hold::{HoldAnswer, HoldBody};
pub use host::{
    CeilingsBody, ContainersBody, CpuBody, DiskBody, HostBody, MemoryBody, PidsBody, PressureBody,
};
pub use lease::{AcquireBody, LeaseBody, RenewBody};
pub use lease_explain::{BoundBody, ClassTurnBody, EstimateBody, LeaseExplainBody, WaitBody};
pub use provider::{PermitAnswer, PermitBody, PermitWaitBody, ProviderBody, Providers, ThrottledBody};
pub use reload::{ChangeBody, MistakeBody, Reloaded};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::control::message::{DrainView, PoolView, Reading, Why};
use crate::quantity::Instant;

/// `POST /v1/host/drain`, `POST /v1/pools/{name}/drain`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// How long running leases may go on; `"1h"` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Whether it ends with the daemon, instead of with an undrain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_now: bool,
}

/// `POST /v1/leases/{id}/exec`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecBody {
    /// The command and its arguments; no shell unless it names one.
    pub command: Vec<String>,
    /// Environment on top of the container's.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub env: std::collections::BTreeMap<String, String>,
    /// The folder it runs in; the image's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Text for its standard input, which is closed behind it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdin: String,
    /// How long it may run; `"60s"` where absent. What runs longer ends the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// The answer to an exec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecAnswer {
    /// Its exit code, 128 + signal where a signal ended it; null where it ran past its limit.
    pub exit_code: Option<i64>,
    /// Its standard output; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Its standard error, likewise.
    pub stderr: String,
    /// Whether output beyond the limit was dropped.
    pub stdout_truncated: bool,
    /// Whether output beyond the limit was dropped.
    pub stderr_truncated: bool,
    /// Whether it ran past its limit; the lease has ended then.
    pub timed_out: bool,
}

/// A limit with its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitBody {
    /// Its name.
    pub limit: String,
    /// What it says, as a sentence.
    pub detail: String,
    /// What one more would need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<u64>,
    /// What there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub have: Option<u64>,
    /// What both are counted in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolBody {
    /// Its name.
    pub name: String,
    /// `browser` or `sandbox`.
    pub kind: String,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_wait_ms: Option<u64>,
    /// Instances in any state that were made from an older template.
    #[serde(default)]
    pub outdated: u32,
    /// The profile has it no more: what is left of it runs out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Its classes.
    #[serde(default)]
    pub classes: Vec<ClassBody>,
    /// The operator's ceiling on instances in any state.
    pub max_instances: u32,
    /// Leases that wait for a person.
    #[serde(default)]
    pub holds: u32,
    /// How many may be at once.
    #[serde(default)]
    pub max_holds: u32,
    /// What the instances of those that are count with.
    #[serde(default)]
    pub holds_promised_bytes: u64,
    /// What its instances hold, those that could be measured.
    pub memory_bytes: u64,
    /// Instances of which that is not known.
    pub unmeasured: u32,
    /// What one instance is expected to need at its peak: learned from past lives, or `memory_expect`.
    #[serde(default)]
    pub envelope_bytes: u64,
    /// How many past lives have taught that; below 10 `memory_expect` counts.
    #[serde(default)]
    pub envelope_lives: u32,
    /// What the profile declares of one instance.
    #[serde(default)]
    pub memory_expect_bytes: u64,
    /// What one instance is expected to use of the processors: `cpus_expect`, or, where that is more, what those that work
    /// do not exceed in nineteen of twenty looks.
    pub cpus_millis: u64,
    /// What its instances are counted with.
    pub promised_bytes: u64,
    /// The drain it is under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainAnswer>,
    /// What keeps more from being started, where more are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<LimitBody>,
}

/// A drain under way, or done and not taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainAnswer {
    /// How long ago it was asked for.
    pub since_ms: u64,
    /// Time left until it interrupts what still runs.
    pub interrupts_in_ms: u64,
    /// Leases that still run.
    pub leases: u32,
    /// Instances that still exist; 0 means drained.
    pub instances: u32,
}

/// The container engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineBody {
    /// Whether it answers.
    pub reachable: bool,
    /// Why not, where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A measured figure: `fresh`, `stale` or `unknown`, with its age or its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FigureBody<T> {
    /// `fresh`, `stale` or `unknown`.
    pub telemetry: String,
    /// How old it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The figure itself; absent, never zero, where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
}

/// A list, in an object so that more can be said beside it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leases {
    /// Newest first.
    pub leases: Vec<LeaseBody>,
}

/// A list, in an object so that more can be said beside it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pools {
    /// By name.
    pub pools: Vec<PoolBody>,
}

impl From<&Why> for LimitBody {
    fn from(why: &Why) -> LimitBody {
        let figures = why.figures();
        LimitBody {
            limit: why.code().into(),
            detail: why.to_string(),
            need: figures.map(|figures| figures.need),
            have: figures.map(|figures| figures.have),
            unit: figures.map(|figures| figures.unit.into()),
        }
    }
}

impl From<&PoolView> for PoolBody {
    fn from(view: &PoolView) -> PoolBody {
        PoolBody {
            name: view.name.to_string(),
            kind: view.kind.to_string(),
            image: view.image.clone(),
            starting: view.starting,
            warm: view.warm,
            stock: view.stock,
            leased: view.leased,
            stopping: view.stopping,
            stuck: view.stuck,
            queued: view.queued,
            oldest_wait_ms: view.oldest_wait.map(millis),
            outdated: view.outdated,
            removed: view.removed,
            classes: view.classes.iter().map(ClassBody::from).collect(),
            max_instances: view.max_instances,
            holds: view.holds.leases,
            max_holds: view.holds.limit,
            holds_promised_bytes: view.holds.promised.get(),
            memory_bytes: view.memory.get(),
            unmeasured: view.unmeasured,
            envelope_bytes: view.envelope.get(),
            envelope_lives: view.lives,
            memory_expect_bytes: view.memory_expect.get(),
            cpus_millis: view.cpu_expected.get(),
            promised_bytes: view.promised.get(),
            drain: view.drain.as_ref().map(|drain| drain_answer(drain, view.seen_at)),
            blocked_by: view.blocked_by.as_ref().map(LimitBody::from),
        }
    }
}

fn figure<T, B>(reading: &Reading<T>, now: Instant, body: impl Fn(&T) -> B) -> FigureBody<B> {
    let (telemetry, at, detail) = match reading {
        Reading::Fresh(_, at) => ("fresh", Some(*at), None),
        Reading::Stale(_, at) => ("stale", Some(*at), None),
        Reading::Unknown(why) => ("unknown", None, Some(why.clone())),
    };
    FigureBody {
        telemetry: telemetry.into(),
        age_ms: at.map(|at| millis(now.since(at))),
        detail,
        value: reading.known().ok().map(body),
    }
}

fn drain_answer(drain: &DrainView, now: Instant) -> DrainAnswer {
    DrainAnswer {
        since_ms: millis(now.since(drain.since)),
        interrupts_in_ms: left(drain.deadline, now),
        leases: drain.leases,
        instances: drain.instances,
    }
}

fn left(until: Instant, now: Instant) -> u64 {
    millis(until.since(now))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
