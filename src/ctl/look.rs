//! How answers look: tables for people, one line a thing, aligned.
//!
//! Colour only underlines what a word says too, only on a terminal, and never with `NO_COLOR`.

use std::io::IsTerminal;

use crate::api::wire::{ChangeBody, DiskBody, FigureBody, HostBody, LeaseBody, PoolBody, ProviderBody};
use crate::quantity::{Bytes, MilliCpu, Permille, show_duration};

/// Rows under a head, each column as wide as its widest cell. Numbers are right-aligned by their head's `>`.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let name = head[column].trim_start_matches('>').chars().count();
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(name)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let mut line = String::new();
        for ((cell, width), name) in cells.zip(&widths).zip(head) {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            let (before, after) = if name.starts_with('>') { (gap.as_str(), "") } else { ("", gap.as_str()) };
            line.push_str(&format!("{before}{cell}{after}  "));
        }
        format!("{}\n", line.trim_end())
    };
    let mut text = line(&mut head.iter().map(|name| name.trim_start_matches('>').to_owned()));
    for row in rows {
        text.push_str(&line(&mut row.iter().cloned()));
    }
    text
}

/// The host at a glance.
pub(super) fn host(host: &HostBody) -> String {
    let state = match (&host.drain, host.ready) {
        (Some(drain), _) if drain.instances == 0 => "drained",
        (Some(_), _) => "draining",
        (None, true) => "ready",
        (None, false) => "not ready",
    };
    let dot = paint("●", if host.ready { Green } else { Yellow });
    let mut text = format!("{dot} {} is {state}, up {}\n", host.name, millis(host.up_ms));
    let mut say = |name: &str, value: String| text.push_str(&format!("  {name:>9}: {value}\n"));
    say("version", host.version.clone());
    say(
        "engine",
        match &host.engine.detail {
            None => "answers".into(),
            Some(why) => format!("does not answer: {why}"),
        },
    );
    say(
        "memory",
        figure(&host.memory, |memory| {
            let of = |bytes| Bytes::new(bytes).to_string();
            format!("{} of {} available", of(memory.available_bytes), of(memory.total_bytes))
        }),
    );
    if let (Some(limit), Some(floor)) = (host.memory_limit_bytes, host.floor_bytes) {
        let (promised, limit) = (Bytes::new(host.memory_promised_bytes), Bytes::new(limit));
        say("promised", format!("{promised} of {limit} for containers, floor {}", Bytes::new(floor)));
    }
    say(
        "cpu",
        figure(&host.cpu, |cpu| {
            format!("{} of {} cores busy", MilliCpu::new(cpu.busy_millis), MilliCpu::new(cpu.cores_millis))
        }),
    );
    say(
        "stalls",
        figure(&host.pressure, |stalls| {
            let share = |permille| Permille::new(permille).to_string();
            let (memory, full) = (share(stalls.memory_some_permille), share(stalls.memory_full_permille));
            let (cpu, io) = (share(stalls.cpu_some_permille), share(stalls.io_some_permille));
            format!("memory {memory} (all tasks {full}), cpu {cpu}, disk {io} of the last 10s")
        }),
    );
    say("pressure", format!("{} for {}", host.pressure_level, millis(host.pressure_level_ms)));
    say("ceiling", ceiling(host));
    say("pids", pids(host));
    say(
        "disk",
        format!("{} for the engine, {} for our state", disk(&host.engine_disk), disk(&host.state_disk)),
    );
    say("starts", starts(host));
    if let Some(drain) = &host.drain {
        let what = match (drain.instances, drain.leases) {
            (0, _) => "nothing is left; `stokerctl undrain` takes work again".into(),
            (left, 0) => format!("{left} instances left, all being stopped"),
            (left, lent) => {
                let until = millis(drain.interrupts_in_ms);
                format!("{lent} leases and {left} instances left, interrupts in {until}")
            }
        };
        say("drain", what);
    }
    text
}

/// Processes and threads.
fn pids(host: &HostBody) -> String {
    figure(&host.pids, |pids| {
        let (there, most, ours) = (pids.there, pids.most, pids.in_containers);
        format!("{there} of {most}, {ours} in containers; {} of {} promised", pids.promised, pids.limit)
    })
}

/// Cold starts under way, and how many may be.
fn starts(host: &HostBody) -> String {
    let under_way = format!("{} of {} under way", host.starting, host.starting_limit);
    match host.starting_limit < host.max_starts {
        true => format!("{under_way}; up to {} where that does not make them slow", host.max_starts),
        false => under_way,
    }
}

/// How much of a disk is free.
fn disk(disk: &FigureBody<DiskBody>) -> String {
    figure(disk, |disk| {
        let of = |bytes| Bytes::new(bytes).to_string();
        format!("{} of {} free (floor {})", of(disk.free_bytes), of(disk.total_bytes), of(disk.floor_bytes))
    })
}

/// What all containers hold, and the kernel's limit on that.
fn ceiling(host: &HostBody) -> String {
    let holds = figure(&host.containers, |all| Bytes::new(all.hard_bytes).to_string());
    match (&host.ceilings.detail, host.ceilings.memory_bytes) {
        (Some(why), _) => format!("containers hold {holds}; not set: {why}"),
        (None, Some(limit)) => format!("containers hold {holds} of at most {}", Bytes::new(limit)),
        (None, None) => format!("containers hold {holds}; not set yet"),
    }
}

/// All pools, a line each, and below it what keeps them.
pub(super) fn pools(pools: &[PoolBody]) -> String {
    let head = [
        "POOL",
        "KIND",
        ">WARM",
        ">STARTING",
        ">LEASED",
        ">STOPPING",
        ">QUEUED",
        ">MAX",
        ">HOLDS",
        ">PROMISED",
    ];
    let rows: Vec<Vec<String>> = pools
        .iter()
        .map(|pool| {
            vec![
                pool.name.clone(),
                pool.kind.clone(),
                format!("{}/{}", pool.warm, pool.stock),
                pool.starting.to_string(),
                pool.leased.to_string(),
                pool.stopping.to_string(),
                pool.queued.to_string(),
                pool.max_instances.to_string(),
                holds(pool),
                Bytes::new(pool.promised_bytes).to_string(),
            ]
        })
        .collect();
    let mut text = table(&head, &rows);
    for pool in pools {
        for note in notes(pool) {
            text.push_str(&format!("{} {}: {note}\n", paint("!", Yellow), pool.name));
        }
    }
    text
}

/// All providers, a line each, and below it which of them want to hear nothing.
pub(super) fn providers(providers: &[ProviderBody]) -> String {
    if providers.is_empty() {
        return "no providers\n".into();
    }
    let head = [
        "PROVIDER",
        ">RATE",
        ">BURST",
        ">USED",
        ">PERMITS",
        ">NEXT IN",
        ">WAITING",
        ">GIVEN",
        ">REFUSED",
        ">THROTTLED",
    ];
    let row = |it: &ProviderBody| {
        vec![
            it.name.clone(),
            it.rate.clone(),
            it.burst.to_string(),
            Permille::new(it.used_permille).to_string(),
            it.permits.to_string(),
            millis(it.next_in_ms),
            format!("{}/{}", it.waiting, it.max_waiting),
            it.given.to_string(),
            it.refused.to_string(),
            it.throttled.to_string(),
        ]
    };
    let mut text = table(&head, &providers.iter().map(row).collect::<Vec<_>>());
    for it in providers {
        if let Some(paused) = it.paused_ms {
            let paused = millis(paused);
            text.push_str(&format!(
                "{} {}: wants to hear nothing for {paused}\n",
                paint("!", Yellow),
                it.name
            ));
        }
    }
    text
}

/// All leases, a line each.
pub(super) fn leases(leases: &[LeaseBody]) -> String {
    if leases.is_empty() {
        return "no leases\n".into();
    }
    let head =
        ["LEASE", "POOL", "CLASS", "TENANT", "STATE", ">WAITED", ">RUNNING", ">ENDS IN", ">IDLE ENDS IN"];
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".into(), millis);
    let rows: Vec<Vec<String>> = leases
        .iter()
        .map(|lease| {
            vec![
                lease.id.clone(),
                lease.pool.clone(),
                lease.class.clone(),
                lease.tenant.clone(),
                lease.state.clone(),
                millis(lease.waited_ms),
                time(lease.running_ms),
                time(lease.ends_in_ms),
                time(lease.idle_ends_in_ms),
            ]
        })
        .collect();
    let mut text = table(&head, &rows);
    for lease in leases {
        if let Some(asked) = &lease.degraded_from {
            text.push_str(&format!("{} {}: {}\n", paint("!", Yellow), lease.id, sent_on(asked, &lease.pool)));
        }
        if let Some(hold) = &lease.hold {
            text.push_str(&format!(
                "{} {}: waits for a person: {}\n",
                paint("!", Yellow),
                lease.id,
                hold.reason
            ));
        }
        let note = match (&lease.detail, &lease.blocked_by, lease.place) {
            (Some(detail), _, _) => detail.clone(),
            (None, Some(limit), Some(place)) => format!("place {place}{}, {}", about(lease), limit.detail),
            (None, _, Some(place)) => format!("place {place}{}", about(lease)),
            (None, _, None) => continue,
        };
        text.push_str(&format!("{} {}: {note}\n", paint("!", Yellow), lease.id));
    }
    text
}

/// How long one that waits will wait, where that is known.
fn about(lease: &LeaseBody) -> String {
    lease.estimated_wait_ms.map_or(String::new(), |wait| format!(", about {} more", millis(wait)))
}

/// What is said of a lease that another pool than its own was asked for.
pub(super) fn sent_on(asked: &str, pool: &str) -> String {
    format!("asked of {asked}, and sent on to {pool} while the host's state was not known")
}

/// Everything about one thing, a line each; a list of things is a table below.
pub(super) fn fields(thing: &serde_json::Value) -> String {
    let Some(map) = thing.as_object() else { return format!("{thing}\n") };
    let is_list = |value: &serde_json::Value| value.is_array();
    let plain = map.iter().filter(|(_, value)| !is_list(value));
    let shown: Vec<(&str, String)> = plain.map(|(key, value)| field(key, value)).collect();
    let widest = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text: String = shown.iter().map(|(name, value)| format!("{name:>widest$}: {value}\n")).collect();
    for list in map.values().filter_map(serde_json::Value::as_array).filter(|list| !list.is_empty()) {
        text.push_str(&format!("\n{}", rows(list)));
    }
    text
}

/// A key and its value, with the unit of the key's name in the value.
fn field<'a>(key: &'a str, value: &serde_json::Value) -> (&'a str, String) {
    match (key.strip_suffix("_ms"), key.strip_suffix("_bytes"), value) {
        (Some(name), _, serde_json::Value::Number(ms)) => (name, millis(ms.as_u64().unwrap_or(0))),
        (_, Some(name), serde_json::Value::Number(n)) => {
            (name, Bytes::new(n.as_u64().unwrap_or(0)).to_string())
        }
        (_, _, serde_json::Value::String(said)) => (key, said.clone()),
        (_, _, serde_json::Value::Object(inner)) => {
            let counts =
                || inner.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
            (
                key,
                inner
                    .get("detail")
                    .or(inner.get("reason"))
                    .and_then(|d| d.as_str())
                    .map_or_else(counts, str::to_owned),
            )
        }
        (_, _, value) => (key, value.to_string()),
    }
}

/// Things of one kind, a line each; what only some have is empty with the others.
fn rows(list: &[serde_json::Value]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for key in list.iter().filter_map(serde_json::Value::as_object).flat_map(serde_json::Map::keys) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let is_number = |key: &str| list.iter().any(|it| it[key].is_number());
    let name = |key: &str| field(key, &serde_json::json!(0)).0.replace('_', " ").to_uppercase();
    let head: Vec<String> =
        keys.iter().map(|key| format!("{}{}", if is_number(key) { ">" } else { "" }, name(key))).collect();
    let cell = |it: &serde_json::Value, key: &str| match it.get(key) {
        Some(value) => field(key, value).1,
        None => String::new(),
    };
    let cells = list.iter().map(|it| keys.iter().map(|key| cell(it, key)).collect());
    table(&head.iter().map(String::as_str).collect::<Vec<_>>(), &cells.collect::<Vec<_>>())
}

/// What a reload has changed, a line each.
pub(super) fn changes(changes: &[ChangeBody]) -> String {
    if changes.is_empty() {
        return "nothing has changed\n".into();
    }
    let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let rows: Vec<Vec<String>> =
        changes.iter().map(|change| vec![change.key.clone(), side(&change.from), side(&change.to)]).collect();
    table(&["KEY", "FROM", "TO"], &rows)
}

/// What warming up still waits for, on one line.
pub(super) fn warming(pools: &[PoolBody]) -> String {
    let each = pools.iter().filter(|pool| pool.drain.is_none()).map(|pool| {
        let blocked = pool.blocked_by.as_ref().map_or(String::new(), |limit| format!(" ({})", limit.detail));
        format!("{} {} of {} warm, {} starting{blocked}", pool.name, pool.warm, pool.stock, pool.starting)
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Milliseconds as people read them.
pub(super) fn millis(ms: u64) -> String {
    show_duration(std::time::Duration::from_millis(ms))
}

/// What a pool's instances hold; what is not known is no zero.
fn holds(pool: &PoolBody) -> String {
    match (pool.memory_bytes, pool.unmeasured) {
        (0, 1..) => "?".into(),
        (bytes, 0) => Bytes::new(bytes).to_string(),
        (bytes, _) => format!("{} + ?", Bytes::new(bytes)),
    }
}

fn notes(pool: &PoolBody) -> Vec<String> {
    let mut notes = Vec::new();
    if pool.removed {
        notes.push("in the profile no more: its leases run out".into());
    }
    if pool.outdated > 0 {
        let is = if pool.outdated == 1 { "instance is" } else { "instances are" };
        notes.push(format!("{} {is} of an older template", pool.outdated));
    }
    if let Some(drain) = &pool.drain {
        notes.push(match drain.instances {
            0 => "drained".into(),
            left => format!("draining, {left} instances left"),
        });
    }
    if pool.holds > 0 {
        let kept = Bytes::new(pool.holds_promised_bytes);
        let (many, most) = (pool.holds, pool.max_holds);
        notes.push(format!("{many} of at most {most} leases wait for a person and keep {kept}"));
    }
    if let Some(limit) = &pool.blocked_by {
        notes.push(format!("starts nothing: {}", limit.detail));
    }
    if pool.stuck > 0 {
        notes.push(format!("{} instances would not stop at the first try", pool.stuck));
    }
    if let Some(wait) = pool.oldest_wait_ms {
        notes.push(format!("the oldest request has waited {}", millis(wait)));
    }
    notes
}

fn figure<T>(figure: &FigureBody<T>, say: impl Fn(&T) -> String) -> String {
    match (&figure.value, figure.age_ms) {
        (Some(value), Some(age)) if figure.telemetry == "stale" => {
            format!("{}, {} ago", say(value), millis(age))
        }
        (Some(value), _) => say(value),
        (None, _) => format!("unknown: {}", figure.detail.as_deref().unwrap_or("no reason given")),
    }
}

#[derive(Clone, Copy)]
enum Colour {
    Green,
    Yellow,
}
use Colour::{Green, Yellow};

fn paint(text: &str, colour: Colour) -> String {
    if !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some() {
        return text.into();
    }
    let code = match colour {
        Green => 32,
        Yellow => 33,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        let rows = [["a", "1"], ["bcd", "100"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(table(&["NAME", ">N"], &rows), "NAME    N\na       1\nbcd   100\n");
    }
}
