//! `GET /v1/pools/{name}/explain`: why a pool has what it has.

use serde::{Deserialize, Serialize};

use super::millis;
use crate::control::message::{ClassDemandView, ExplainView, LimitView, Why};
use crate::profile::WithoutTelemetry;
use crate::quantity::{Bytes, MilliCpu};

/// The equations of a pool's stock with the numbers of now, and what bounds its next start.
///
/// ```text
/// incoming  = sum over classes of  per_hour / 3600 * service            [slots]
/// backlog   = sum over those that wait of  min(1, service / drain_target)  [slots]
/// estimated = ceil((incoming + backlog) / target_utilization)           [slots]
/// cover     = smallest w with P(arrivals in start_ms >= w) <= miss_target  [instances]
/// stock     = clamp(max(cover, estimated - leased - queued), warm_min, warm_max)
/// start     = max(0, queued + stock - (warm + starting))
/// stop      = max(0, warm - queued - held)
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainBody {
    /// The pool.
    pub pool: String,
    /// Its classes.
    pub classes: Vec<ClassDemandBody>,
    /// Slots that arrivals keep busy, to a thousandth.
    pub incoming_slots: f64,
    /// Slots that those that wait come to, to a thousandth.
    pub backlog_slots: f64,
    /// How busy slots may be, in thousandths.
    pub target_utilization_permille: u32,
    /// Slots for all demand.
    pub estimated_slots: u32,
    /// Arrivals an hour that `cover` is for: the steady rate, or that of the last seconds where it is higher.
    pub arrivals_per_hour: u64,
    /// How long a start takes in nineteen of twenty cases, from when it is wanted; 60 s at most.
    pub start_ms: u64,
    /// Variance over mean of arrivals: 1 for independent ones, more where they come together.
    pub unevenness: f64,
    /// The chance that a request may find nothing warm, in thousandths.
    pub miss_target_permille: u32,
    /// Warm ones that cover the arrivals during a start.
    pub cover: u32,
    /// `warm.min` of the profile.
    pub warm_min: u32,
    /// `warm.max` of the profile.
    pub warm_max: u32,
    /// How many are to be warm.
    pub stock: u32,
    /// The largest stock of the last five minutes.
    pub held: u32,
    /// Requests that wait, without those for whom nothing is left that is not held back for others.
    pub queued: u32,
    /// Instances ready and not lent.
    pub warm: u32,
    /// Instances being started.
    pub starting: u32,
    /// Instances lent.
    pub leased: u32,
    /// Instances being stopped.
    pub stopping: u32,
    /// Leases that wait for a person, each with its slot.
    #[serde(default)]
    pub holds: u32,
    /// How many may.
    #[serde(default)]
    pub max_holds: u32,
    /// What their instances are counted with.
    #[serde(default)]
    pub holds_promised_bytes: u64,
    /// Starts that are wanted beside those under way.
    pub start: u32,
    /// Warm ones that are too many.
    pub stop: u32,
    /// What becomes of new work while the host's state is not known: `stop`, `slots` or `use`.
    #[serde(default)]
    pub without_telemetry: String,
    /// How many instances it may have then, where that is `slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_telemetry_slots: Option<u32>,
    /// The pool that requests go to then, where that is `use`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_telemetry_use: Option<String>,
    /// What of the host's state is not known now, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// All that may keep the next start back, in the order in which it is asked.
    pub limits: Vec<LimitRowBody>,
    /// What would change the answer.
    pub advice: String,
}

/// What is known of a class in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassDemandBody {
    /// The class.
    pub class: String,
    /// Arrivals an hour.
    pub per_hour: u64,
    /// How long a lease has its slot on average.
    pub service_ms: u64,
    /// How many wait.
    pub waiting: u32,
    /// How many have a slot.
    pub leased: u32,
    /// Slots that are guaranteed to it.
    pub guaranteed: u32,
    /// Slots that are lent to no other class.
    pub hold_back: u32,
}

/// One thing that may keep a start back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitRowBody {
    /// Its name.
    pub limit: String,
    /// What one more needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<u64>,
    /// What there is, or what the limit is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub have: Option<u64>,
    /// What both are counted in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether it keeps a start back now.
    pub blocks: bool,
    /// Whether it is the first that does: the one that binds.
    pub binding: bool,
    /// What it says where it keeps one back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl From<&ExplainView> for ExplainBody {
    fn from(view: &ExplainView) -> ExplainBody {
        let (without, slots_then, other) = match &view.without_telemetry {
            WithoutTelemetry::Stop => ("stop", None, None),
            WithoutTelemetry::Slots(most) => ("slots", Some(*most), None),
            WithoutTelemetry::Use(other) => ("use", None, Some(other.to_string())),
        };
        ExplainBody {
            pool: view.pool.to_string(),
            classes: view.classes.iter().map(ClassDemandBody::from).collect(),
            incoming_slots: slots(view.incoming_milli),
            backlog_slots: slots(view.backlog_milli),
            target_utilization_permille: view.target_utilization.get(),
            estimated_slots: view.estimated,
            arrivals_per_hour: view.per_hour,
            start_ms: millis(view.lead),
            unevenness: slots(view.unevenness_milli),
            miss_target_permille: view.miss_target.get(),
            cover: view.cover,
            warm_min: view.bounds.0,
            warm_max: view.bounds.1,
            stock: view.stock,
            held: view.held,
            queued: view.queued,
            warm: view.warm,
            starting: view.starting,
            leased: view.leased,
            stopping: view.stopping,
            holds: view.holds.leases,
            max_holds: view.holds.limit,
            holds_promised_bytes: view.holds.promised.get(),
            start: view.start,
            stop: view.stop,
            without_telemetry: without.into(),
            without_telemetry_slots: slots_then,
            without_telemetry_use: other,
            unknown: view.unknown.clone(),
            limits: view.limits.iter().map(LimitRowBody::from).collect(),
            advice: advice(view),
        }
    }
}

/// A number of thousandths; an `f64` has all that a `u32` of them has.
fn slots(milli: u64) -> f64 {
    f64::from(u32::try_from(milli).unwrap_or(u32::MAX)) / 1000.0
}

impl From<&ClassDemandView> for ClassDemandBody {
    fn from(view: &ClassDemandView) -> ClassDemandBody {
        ClassDemandBody {
            class: view.class.to_string(),
            per_hour: view.per_hour,
            service_ms: millis(view.service),
            waiting: view.waiting,
            leased: view.leased,
            guaranteed: view.guaranteed,
            hold_back: view.hold_back,
        }
    }
}

impl From<&LimitView> for LimitRowBody {
    fn from(view: &LimitView) -> LimitRowBody {
        LimitRowBody {
            limit: view.name.into(),
            need: view.figures.map(|figures| figures.need),
            have: view.figures.map(|figures| figures.have),
            unit: view.figures.map(|figures| figures.unit.into()),
            blocks: view.objection.is_some(),
            binding: view.binding,
            detail: view.objection.as_ref().map(Why::to_string),
        }
    }
}

/// What would change the answer, by what binds.
fn advice(view: &ExplainView) -> String {
    let Some(why) = view.limits.iter().find(|limit| limit.binding).and_then(|limit| limit.objection.as_ref())
    else {
        return match (view.start, view.stop) {
            (0, 0) => "nothing more is wanted; one more would be started if it were".into(),
            (0, many) => format!("{many} warm ones are too many and will be stopped"),
            (many, _) => format!("{many} more are wanted, and nothing keeps them back"),
        };
    };
    let next = match view.start {
        0 => "nothing more is wanted; one more would be kept back",
        _ => "the next start is kept back",
    };
    let lacks = why.figures().map(|its| (its.unit, its.need.saturating_sub(its.have), its.have));
    let more = match lacks.filter(|_| !matches!(why, Why::UnderPressure { .. } | Why::Disk { .. })) {
        Some(("bytes", lacks, _)) => format!("one more slot needs {} more", Bytes::new(lacks)),
        Some(("millicores", lacks, _)) => format!("one more slot needs {} cores more", MilliCpu::new(lacks)),
        _ if matches!(why, Why::WithoutTelemetry { .. }) => why.to_string(),
        Some(("instances", _, limit)) => {
            format!("one of the {limit} has to end, or max_instances to be raised")
        }
        Some(("starts", _, limit)) if matches!(why, Why::Starts { .. }) => {
            format!("one of {limit} starts has to end, or max_starts to be raised")
        }
        Some(("instance-minutes", ..)) => format!("{why}, or max_instance_hours is to be raised"),
        Some(("pids", lacks, _)) => format!(
            "one more slot needs {lacks} more: less pids of the pool, or more kernel.pid_max and kernel.threads-max"
        ),
        _ => why.to_string(),
    };
    format!("{next}: {more}")
}
