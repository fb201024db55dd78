//! `stokerctl simulate`: what a host would do with a workload, in virtual time, without a daemon.
//!
//! It reads the profile as the daemon would and drives the daemon's own controller (`sim`). The figures are the answer;
//! progress there is none, since a day takes seconds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::{Tool, look, say};
use crate::profile::{Layers, Reported};
use crate::quantity::{Bytes, show_duration};
use crate::sim::workload::Workload;
use crate::sim::{Bar, Game, Outcome, play, plot};

/// The longest line of names with their counts.
const LINE: usize = 88;

/// What is simulated.
#[derive(Debug, Args)]
pub(super) struct Simulate {
    /// Layers of one host profile, a later over an earlier
    #[arg(required = true)]
    profile: Vec<PathBuf>,
    /// Who comes, how instances behave, and what goes wrong when
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// Where all draws come from; equal seeds give equal figures
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How many hours, instead of what the workload says
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    hours: Option<Duration>,
    /// Also hold all that the controller does against what must be; slower
    #[arg(long)]
    check: bool,
    /// Draw how it went, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// Reads a number of hours.
fn hours(text: &str) -> Result<Duration, String> {
    let hours: f64 = text.parse().map_err(|_| "it is not a number of hours")?;
    // As many as a workload may last.
    if !(1.0 / 3600.0..=31.0 * 24.0).contains(&hours) {
        return Err("expected at least a second and at most 744 hours".into());
    }
    Ok(Duration::from_secs_f64(hours * 3600.0))
}

impl Tool {
    pub(super) fn simulate(&self, asked: Simulate) -> anyhow::Result<ExitCode> {
        let profile = Layers::of(asked.profile).read()?.profile;
        let file = asked.workload.display().to_string();
        let text = std::fs::read_to_string(&asked.workload)
            .with_context(|| format!("cannot read the workload `{file}`"))?;
        let workload = Workload::read(&file, &text, &profile).map_err(Reported::from)?;
        let lasts = asked.hours.unwrap_or(workload.lasts);
        let game = Game { profile, workload, seed: asked.seed, lasts, checked: asked.check };
        let outcome = play(&game).map_err(|broken| anyhow::anyhow!("{broken}"))?;
        if let Some(folder) = &asked.plots {
            self.draw(folder, &outcome)?;
        }
        let code = self.print(&outcome, table)?;
        let missed: Vec<String> = outcome.missed().map(said).collect();
        anyhow::ensure!(missed.is_empty(), "{}", missed.join("; "));
        Ok(code)
    }

    fn draw(&self, folder: &Path, outcome: &Outcome) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        for plot::Plot { file, svg } in plot::plots(&outcome.series) {
            let file = folder.join(file);
            std::fs::write(&file, svg).with_context(|| format!("cannot write `{}`", file.display()))?;
            if !self.json {
                say(&format!("drawn: {}", file.display()));
            }
        }
        Ok(())
    }
}

/// A figure that is more than it may be.
fn said(Bar { name, figure, most, at }: &Bar) -> String {
    let at = at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
    format!("{name}: {figure:.0}, and at most {most:.0} may be{at}")
}

fn table(outcome: &Outcome) -> String {
    let Outcome { callers, instances, memory, kills, .. } = outcome;
    let lasted = show_duration(Duration::from_secs_f64(outcome.lasted_s));
    let mut text = format!("{lasted} with seed {}\n\n{}\n", outcome.seed, waits(outcome));
    let mut add = |name: &str, value: String| text.push_str(&format!("{name:>12}: {value}\n"));
    add("callers", format!("{} came, {} left with nothing", callers.came, callers.left_with_nothing));
    let often = callers.attempts.map_or_else(|| "-".into(), |often| format!("{often:.2}"));
    let seconds = |seconds| show_duration(Duration::from_secs_f64(seconds));
    let last = callers.late_last_s.map_or_else(|| "never".into(), |at| format!("last at {}", seconds(at)));
    add(
        "attempts",
        format!("{often} of each; somebody late for {} at most, {last}", seconds(callers.late_longest_s)),
    );
    add("refused", listed(&outcome.refusals));
    add("ended", listed(&outcome.ends));
    let unused: u64 = instances.unused.values().sum();
    let failed = if instances.failed > 0 { format!(", {} failed", instances.failed) } else { String::new() };
    let part = share(unused, instances.created);
    add("instances", format!("{} made{failed}, {unused} never lent ({part})", instances.created));
    if let (Some(p95), Some(longest)) = (instances.start_p95_ms, instances.start_max_ms) {
        add("starts", format!("19 of 20 took at most {}, the longest {}", millis(p95), millis(longest)));
    }
    add("never lent", listed(&instances.unused));
    let size = |bytes: u64| Bytes::new(bytes).to_string();
    let limit = memory.limit_bytes.map_or_else(|| "a limit that is not known".into(), size);
    let (held, promised) = (size(memory.held_peak_bytes), size(memory.promised_peak_bytes));
    add("memory", format!("{held} held and {promised} promised at most, of {limit}"));
    let least = memory.available_least_bytes.map_or_else(|| "-".into(), size);
    add(
        "available",
        format!("{least} at least, of {}; floor {}", size(memory.total_bytes), size(memory.floor_bytes)),
    );
    let (own, slice, host) = (kills.own, kills.slice, kills.host);
    add(
        "killed",
        format!(
            "{own} by their own limit, {slice} by that of all, {host} by the host's end; {} innocent",
            kills.innocent
        ),
    );
    let calls = &outcome.calls;
    if calls.made + calls.permits_refused > 0 {
        let waited = millis(calls.permit_wait_max_ms);
        add(
            "calls",
            format!(
                "{} with a permit, which took {waited} at most; {} throttled, {} permits refused",
                calls.made, calls.throttled, calls.permits_refused
            ),
        );
    }
    add("stock", format!("was changed {} times", outcome.stock_changes));
    let bars: Vec<String> = outcome
        .bars
        .iter()
        .map(|Bar { name, figure, most, .. }| format!("{name} {figure:.0}/{most:.0}"))
        .collect();
    add("bars", format!("{} (found / at most)", bars.join(", ")));
    add("words", format!("{} to the controller; digest {}", outcome.words, outcome.digest));
    text
}

/// How the classes fared.
fn waits(outcome: &Outcome) -> String {
    let head = [
        "CLASS",
        ">REQUESTS",
        ">RETRIES",
        ">GRANTED",
        ">COLD",
        ">REFUSED",
        ">GAVE UP",
        ">WAITING",
        ">P50",
        ">P95",
        ">P99",
        ">MAX",
    ];
    let wait = |ms: Option<f64>| ms.map_or_else(|| "-".into(), millis);
    let rows: Vec<Vec<String>> = outcome
        .classes
        .iter()
        .map(|class| {
            vec![
                class.class.clone(),
                class.requests.to_string(),
                class.retries.to_string(),
                class.granted.to_string(),
                share(class.cold, class.granted),
                class.refused.to_string(),
                class.gave_up.to_string(),
                class.waiting.to_string(),
                wait(class.wait_p50_ms),
                wait(class.wait_p95_ms),
                wait(class.wait_p99_ms),
                wait(class.wait_max_ms),
            ]
        })
        .collect();
    look::table(&head, &rows)
}

/// Names with their counts, the most first; as many a line as people read.
fn listed(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let mut all: Vec<(&String, &u64)> = counts.iter().collect();
    all.sort_by_key(|(_, many)| std::cmp::Reverse(**many));
    let mut lines: Vec<String> = Vec::new();
    for (name, many) in all {
        let item = format!("{name} {many}");
        match lines.last_mut() {
            Some(line) if line.len() + item.len() < LINE => line.push_str(&format!(", {item}")),
            Some(_) | None => lines.push(item),
        }
    }
    if lines.is_empty() { "-".into() } else { lines.join(&format!(",\n{:14}", "")) }
}

fn share(part: u64, whole: u64) -> String {
    match (part * 1000).checked_div(whole) {
        Some(share) => format!("{}.{}%", share / 10, share % 10),
        None => "-".into(),
    }
}

/// To three digits: most waits are of milliseconds, some of hours.
fn millis(ms: f64) -> String {
    match ms {
        _ if ms < 10.0 => format!("{ms:.1}ms"),
        _ if ms < 1000.0 => format!("{ms:.0}ms"),
        _ if ms < 10_000.0 => format!("{:.2}s", ms / 1000.0),
        _ => show_duration(Duration::from_secs_f64(ms / 1000.0)),
    }
}
