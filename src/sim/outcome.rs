//! What came of the run of a workload: all its figures, for a table, for JSON and for plots.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::World;
use super::bars::Bar;
use super::tally::{OfClass, Series};
use super::workload::in_float;
use crate::quantity::Instant;

/// What came of a run. Equal runs have equal outcomes, to the byte.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Where all draws came from.
    pub seed: u64,
    /// How long it lasted, in virtual seconds.
    pub lasted_s: f64,
    /// Who came.
    pub callers: Callers,
    /// Requests and waits, by class; classes that nobody asked for are left out.
    pub classes: Vec<Class>,
    /// Refusals by reason; behind a slash what a request waited for whose wait was over.
    pub refusals: BTreeMap<String, u64>,
    /// How leases ended, refused ones included.
    pub ends: BTreeMap<String, u64>,
    /// Instances that were made.
    pub instances: Instances,
    /// The memory of the host.
    pub memory: Memory,
    /// Whom the kernel ended for want of memory.
    pub kills: Kills,
    /// Calls to external providers, by those who make any.
    pub calls: Calls,
    /// How often the stock that is wanted of a pool was another one than a second before.
    pub stock_changes: u64,
    /// What no workload may exceed.
    pub bars: Vec<Bar>,
    /// Words that the controller took.
    pub words: u64,
    /// All that the controller gave out, folded together.
    pub digest: String,
    /// How it went.
    #[serde(skip)]
    pub series: Series,
}

/// Who came.
#[derive(Debug, Clone, Serialize)]
pub struct Callers {
    /// All of them.
    pub came: u64,
    /// Those who hung up, or were refused and did not come back.
    pub left_with_nothing: u64,
    /// How often each asked on average.
    pub attempts: Option<f64>,
    /// The longest time in which, at each look once a second, somebody had waited for longer than its class's `target_wait`.
    pub late_longest_s: f64,
    /// When that was last so, from the beginning.
    pub late_last_s: Option<f64>,
}

/// Requests of one class, and how long those waited that were granted.
#[derive(Debug, Clone, Serialize)]
pub struct Class {
    /// Its name.
    pub class: String,
    /// All requests.
    pub requests: u64,
    /// Those of callers who had been refused before.
    pub retries: u64,
    /// Those that were granted.
    pub granted: u64,
    /// Those granted on an instance that was not ready when they were made.
    pub cold: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those whose caller hung up.
    pub gave_up: u64,
    /// Those that wait still.
    pub waiting: u64,
    /// Half of the granted waited no longer.
    pub wait_p50_ms: Option<f64>,
    /// 95 of 100.
    pub wait_p95_ms: Option<f64>,
    /// 99 of 100.
    pub wait_p99_ms: Option<f64>,
    /// The longest.
    pub wait_max_ms: Option<f64>,
}

/// Instances that were made.
#[derive(Debug, Clone, Serialize)]
pub struct Instances {
    /// Starts that were ordered.
    pub created: u64,
    /// Starts that failed.
    pub failed: u64,
    /// How long nineteen of twenty starts took at most, from the order until ready.
    pub start_p95_ms: Option<f64>,
    /// The longest that one took.
    pub start_max_ms: Option<f64>,
    /// Those that were never lent, by what ended them.
    pub unused: BTreeMap<String, u64>,
}

/// The memory of the host.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// What containers may hold together.
    pub limit_bytes: Option<u64>,
    /// The most that they held.
    pub held_peak_bytes: u64,
    /// The most that they were promised.
    pub promised_peak_bytes: u64,
    /// The least that was available.
    pub available_least_bytes: Option<u64>,
    /// What should remain available.
    pub floor_bytes: u64,
}

/// Calls to external providers.
#[derive(Debug, Clone, Serialize)]
pub struct Calls {
    /// Those that had a permit.
    pub made: u64,
    /// Of them those that the provider throttled all the same.
    pub throttled: u64,
    /// Permits that were refused.
    pub permits_refused: u64,
    /// The longest that a permit was waited for.
    pub permit_wait_max_ms: f64,
}

/// Whom the kernel ended for want of memory.
#[derive(Debug, Clone, Serialize)]
pub struct Kills {
    /// By their own limit.
    pub own: u64,
    /// By the ceiling of all containers.
    pub slice: u64,
    /// By the end of the host's memory.
    pub host: u64,
    /// Of the last two, those that held no more than their pool expects.
    pub innocent: u64,
}

impl Outcome {
    /// The bars that do not hold.
    pub fn missed(&self) -> impl Iterator<Item = &Bar> {
        self.bars.iter().filter(|bar| !bar.holds())
    }

    pub(super) fn of(world: &World, seed: u64, bars: Vec<Bar>) -> Outcome {
        let play = world.play.as_ref().expect("a workload was played");
        let tally = &play.tally;
        let count = |what| world.report.counts.get(what).copied().unwrap_or(0);
        let text = |(name, many): (&&'static str, &u64)| ((*name).to_owned(), *many);
        let refusal = |((code, waited_for), many): (&(&str, Option<&str>), &u64)| {
            (waited_for.map_or_else(|| (*code).to_owned(), |limit| format!("{code}/{limit}")), *many)
        };
        let requests = tally.classes.values().map(|class| class.requests).sum();
        let asked = tally.classes.iter().filter(|(_, class)| class.requests > 0);
        Outcome {
            seed,
            lasted_s: world.now.since(Instant::BOOT).as_secs_f64(),
            callers: Callers {
                came: tally.callers(),
                left_with_nothing: tally.left,
                attempts: (tally.callers() > 0).then(|| in_float(requests) / in_float(tally.callers())),
                late_longest_s: in_float(tally.bars.late_longest.as_secs()),
                late_last_s: tally.bars.late_last.map(|at| in_float(at.since(Instant::BOOT).as_secs())),
            },
            classes: asked.map(|(name, class)| Class::of(name.as_str(), class)).collect(),
            refusals: tally.refusals.iter().map(refusal).collect(),
            ends: world.report.ends.iter().map(text).collect(),
            instances: Instances {
                created: count("starts"),
                failed: count("starts failed"),
                start_p95_ms: tally.starts.quantile(950).map(in_millis),
                start_max_ms: (tally.starts.many > 0).then(|| in_millis(tally.starts.longest)),
                unused: tally.unused.iter().map(text).collect(),
            },
            memory: Memory {
                total_bytes: world.memory.get(),
                limit_bytes: play.ceiling.map(|limit| limit.get()),
                held_peak_bytes: tally.held.get(),
                promised_peak_bytes: tally.promised.get(),
                available_least_bytes: tally.available.map(|least| least.get()),
                floor_bytes: world.profile.host.floor.of(world.memory).get(),
            },
            kills: Kills {
                own: tally.kills.own,
                slice: tally.kills.slice,
                host: tally.kills.host,
                innocent: tally.kills.innocent,
            },
            calls: Calls {
                made: tally.calls.made,
                throttled: tally.calls.throttled,
                permits_refused: tally.calls.refused,
                permit_wait_max_ms: in_millis(tally.calls.waited),
            },
            stock_changes: tally.stock_changes,
            bars,
            words: world.report.steps,
            digest: format!("{:016x}", world.report.digest),
            series: tally.series.clone(),
        }
    }
}

impl Class {
    fn of(name: &str, class: &OfClass) -> Class {
        let wait = |thousandths| class.granted.quantile(thousandths).map(in_millis);
        Class {
            class: name.to_owned(),
            requests: class.requests,
            retries: class.retries,
            granted: class.granted.many,
            cold: class.cold,
            refused: class.refused,
            gave_up: class.gave_up,
            waiting: class.waiting.len() as u64,
            wait_p50_ms: wait(500),
            wait_p95_ms: wait(950),
            wait_p99_ms: wait(990),
            wait_max_ms: (class.granted.many > 0).then(|| in_millis(class.granted.longest)),
        }
    }
}

/// In milliseconds, to the microsecond.
fn in_millis(wait: Duration) -> f64 {
    in_float(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)) / 1000.0
}
