//! The verbs about host profiles: which mistakes there are, and what holds.
//!
//! They read the files themselves, as the daemon would, and need none that runs. What a running one goes by is
//! what it read last; `stokerctl reload` shows the difference.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::{Tool, exit};
use crate::profile::{
    Class, ClassName, Effective, HostProfile, Layers, Mistake, Pool, PoolName, Reported, Setting,
};
use crate::quantity::show_duration;

/// Origins stand in one column, but not farther to the right than this.
const ORIGIN_COLUMN: usize = 48;

impl Tool {
    /// The report is the answer here, so it goes to standard output, whole and as it is.
    pub(super) fn check_profile(&self, files: Vec<PathBuf>) -> anyhow::Result<ExitCode> {
        let layers = Layers::of(files);
        let names: Vec<String> = layers.files()?.iter().map(|file| file.display().to_string()).collect();
        let name = names.join(", ");
        let mut notes = Vec::new();
        let (mistakes, found) = match layers.read() {
            Ok(Effective { profile, .. }) => {
                let (pools, classes) = (profile.pools.len(), profile.classes.len());
                notes = long_waits(&profile);
                let told: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
                (Vec::new(), format!("{told}{name}: no mistakes; pools: {pools}, classes: {classes}\n"))
            }
            Err(Reported::Mistakes(mistakes)) => {
                let all = mistakes.as_slice();
                let count =
                    if all.len() == 1 { "1 mistake".into() } else { format!("{} mistakes", all.len()) };
                (all.to_vec(), format!("{mistakes}\n\n{name}: {count}\n"))
            }
            Err(error @ (Reported::Unreadable { .. } | Reported::Missing { .. })) => return Err(error.into()),
        };
        let row = |Mistake { file, line, column, key, problem, hint, .. }: &Mistake| {
            json!({
                "file": file, "line": line, "column": column, "key": key, "problem": problem, "hint": hint,
            })
        };
        let rows: Vec<_> = mistakes.iter().map(row).collect();
        self.print(&json!({ "files": names, "mistakes": rows, "notes": notes }), |_| found)?;
        Ok(if mistakes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::PROFILE) })
    }

    /// The profile as TOML, each value with its origin in a comment. It can be read as a profile again.
    pub(super) fn show_profile(&self, files: Vec<PathBuf>, all: bool) -> anyhow::Result<ExitCode> {
        let layers = Layers::of(files);
        let effective = layers.read()?;
        let mut settings = effective.profile.settings();
        settings.retain(|setting| all || effective.origin(&setting.path()).is_some());
        let rows: Vec<Value> = settings.iter().map(|setting| row(&effective, setting)).collect();
        let disabled: Vec<Value> = effective
            .disabled()
            .into_iter()
            .map(|(pool, at)| json!({ "pool": pool, "file": at.file, "line": at.line }))
            .collect();
        let answer = json!({ "settings": rows, "disabled": disabled });
        self.print(&answer, |_| as_toml(&effective, &settings))
    }
}

/// The pools in which a request may give up before its share comes to it, and why.
fn long_waits(profile: &HostProfile) -> Vec<String> {
    let of_pool = |(name, pool): (&PoolName, &Pool)| {
        let slow = |(class, its): &(&ClassName, &Class)| {
            pool.longest_wait(class.as_str()).is_none_or(|bound| bound > its.max_wait)
        };
        let slow: Vec<String> = profile
            .classes
            .iter()
            .filter(slow)
            .map(|(class, its)| format!("{class} (max_wait {})", show_duration(its.max_wait)))
            .collect();
        let bound = profile.classes.keys().find_map(|class| pool.longest_wait(class.as_str()));
        let occupancy = show_duration(pool.longest_occupancy());
        (!slow.is_empty()).then(|| match bound {
            Some(bound) => format!(
                "pool {name}: where leases take until their deadlines, a request may wait for {} until its class has a slot, \
                 and gives up before: {}; a lease may hold its slot for {occupancy} (start_timeout, max_runtime and \
                 stop_timeout)",
                show_duration(bound),
                slow.join(", ")
            ),
            None => format!(
                "pool {name}: fewer slots (max_instances) than classes, so that none is guaranteed one; a lease may hold its \
                 slot for {occupancy} (start_timeout, max_runtime and stop_timeout)"
            ),
        })
    };
    profile.pools.iter().filter_map(of_pool).collect()
}

fn row(effective: &Effective, setting: &Setting) -> Value {
    let path = setting.path();
    let origin = effective.origin(&path).map(|at| json!({ "file": at.file, "line": at.line }));
    json!({ "key": path, "value": setting.value.as_deref().map(as_json), "origin": origin })
}

/// A TOML value as JSON; it has no dates and no floats.
fn as_json(value: &str) -> Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.and_then(|value| serde_json::to_value(value).ok()).unwrap_or(Value::Null)
}

fn as_toml(effective: &Effective, settings: &[Setting]) -> String {
    let mut text = String::new();
    for table in settings.chunk_by(|one, other| one.table == other.table) {
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}[{}]\n", table[0].table));
        let lines: Vec<(String, &Setting)> = table.iter().map(|setting| (line(setting), setting)).collect();
        let widths = lines.iter().map(|(line, _)| line.chars().count());
        let column = widths.filter(|width| *width <= ORIGIN_COLUMN).max().unwrap_or(0);
        for (line, setting) in &lines {
            let origin = effective.origin(&setting.path()).map_or("default".into(), ToString::to_string);
            text.push_str(&format!("{line:column$}  # {origin}\n"));
        }
    }
    for (pool, at) in effective.disabled() {
        text.push_str(&format!("\n# pool {pool} is not enabled  # {at}\n"));
    }
    text
}

/// What nobody has written and the image or the machine decides is a comment, so that the whole stays a profile.
fn line(setting: &Setting) -> String {
    match &setting.value {
        Some(value) => format!("{} = {value}", setting.key),
        None => format!("# {} is not set", setting.key),
    }
}
