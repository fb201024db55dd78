//! What `stokerctl simulate` costs: an hour of the busy host that is shipped, for each lease that was granted.
//!
//! In virtual time, so nothing is waited for. Beside it, the same hour with every decision held against what must be.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use stoker::profile;
use stoker::sim::workload::Workload;
use stoker::sim::{Game, play};
use tokio::time::Instant;

use super::figure::{Figure, Runs};
use super::stage::say_error;

const RUNS: usize = 5;

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    say_error("simulating an hour of the busy mixed host");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let profile = profile::read(&root.join("profiles/mixed-256g.toml"))?;
    let text = std::fs::read_to_string(root.join("workloads/mixed-day.toml")).context("cannot read it")?;
    let workload = Workload::read("mixed-day.toml", &text, &profile)?;
    let lasts = Duration::from_secs(3600);
    let game = Game { profile, workload, seed: 1, lasts, checked: false };
    let fast = (0..RUNS).map(|_| each_lease(&game)).collect::<Result<Vec<_>, _>>()?;
    let checked = each_lease(&Game { checked: true, ..game })?;
    let figure = Runs::new(fast, "µs")?.figure("simulating: one lease of an hour of the mixed host");
    Ok(vec![figure.against("the same with all checks (`--check`), one run", checked)])
}

/// Microseconds for each lease that was granted.
fn each_lease(game: &Game) -> anyhow::Result<f64> {
    let began = Instant::now();
    let outcome = play(game).map_err(|broken| anyhow::anyhow!("{broken}"))?;
    let took = began.elapsed().as_secs_f64() * 1e6;
    let granted: u64 = outcome.classes.iter().map(|class| class.granted).sum();
    Ok(took / f64::from(u32::try_from(granted).context("more than there can be")?))
}
