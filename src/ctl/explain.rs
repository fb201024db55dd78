//! The verb that explains a pool: its equations, line by line, and a table of what bounds the next start.

use std::process::ExitCode;

use super::{Tool, look};
use crate::api::client::path;
use crate::api::wire::{ClassDemandBody, ExplainBody, LimitRowBody};
use crate::quantity::{Bytes, MilliCpu, Permille};

impl Tool {
    pub(super) async fn explain(&self, pool: &str) -> anyhow::Result<ExitCode> {
        let body: ExplainBody = self.client.get(&path(&["pools", pool, "explain"])).await?;
        self.print(&body, text)
    }
}

fn text(it: &ExplainBody) -> String {
    let mut text = format!("{}: {}\n\n", it.pool, it.advice);
    let head = ["CLASS", ">AN HOUR", ">RUNS", ">SLOTS", ">WAITING", ">LEASED", ">GUARANTEED", ">HELD BACK"];
    text += &look::table(&head, &it.classes.iter().map(class).collect::<Vec<_>>());
    text.push('\n');
    for (name, value, unit, from) in equations(it) {
        text += format!("  {name:<9} {value:>7} {unit:<9}  {from}").trim_end();
        text.push('\n');
    }
    if let Some(line) = without(it) {
        text += &line;
    }
    if it.holds > 0 {
        let (holds, most, kept) = (it.holds, it.max_holds, Bytes::new(it.holds_promised_bytes));
        text += &format!(
            "\n  {holds} of the {} lent wait for a person, {most} may; they keep {kept}\n",
            it.leased
        );
    }
    text.push('\n');
    let head = ["LIMIT", ">NEED", ">HAVE", ">SLACK", "KEEPS A START BACK"];
    text += &look::table(&head, &it.limits.iter().map(limit).collect::<Vec<_>>());
    text
}

/// What becomes of new work without telemetry, where the profile says more than that nothing is started or that is so now.
fn without(it: &ExplainBody) -> Option<String> {
    let says = match (it.without_telemetry_slots, &it.without_telemetry_use) {
        (Some(most), _) => format!("starts while it has fewer than {most} instances"),
        (None, Some(other)) => format!("requests that would need a start go to {other}"),
        (None, None) if it.unknown.is_none() => return None,
        (None, None) => "starts nothing".into(),
    };
    let now = it.unknown.as_ref().map_or(String::new(), |unknown| format!(", which is so now: {unknown}"));
    Some(format!("\n  without telemetry it {says}{now}\n"))
}

fn class(it: &ClassDemandBody) -> Vec<String> {
    let slots = it.per_hour as f64 / 3600.0 * it.service_ms as f64 / 1000.0;
    vec![
        it.class.clone(),
        it.per_hour.to_string(),
        look::millis(it.service_ms),
        format!("{slots:.2}"),
        it.waiting.to_string(),
        it.leased.to_string(),
        it.guaranteed.to_string(),
        it.hold_back.to_string(),
    ]
}

/// Each line of the equations: its name, what it comes to, in what, and from what.
fn equations(it: &ExplainBody) -> Vec<(&'static str, String, &'static str, String)> {
    let share = |permille: u32| Permille::new(permille).to_string();
    let (stock, queued, warm) = (it.stock, it.queued, it.warm);
    let more = i64::from(it.estimated_slots) - i64::from(it.leased) - i64::from(queued);
    vec![
        (
            "incoming",
            format!("{:.2}", it.incoming_slots),
            "slots",
            "arrivals * how long they run, over all classes".into(),
        ),
        (
            "backlog",
            format!("{:.2}", it.backlog_slots),
            "slots",
            "those that wait, to be worked off in drain_target".into(),
        ),
        (
            "estimated",
            it.estimated_slots.to_string(),
            "slots",
            format!(
                "({:.2} + {:.2}) / {} busy, rounded up",
                it.incoming_slots,
                it.backlog_slots,
                share(it.target_utilization_permille)
            ),
        ),
        (
            "cover",
            it.cover.to_string(),
            "instances",
            match it.cover {
                0 => "too few come for one to be kept for them".into(),
                cover => format!(
                    "{cover} or more of {} an hour come during a start of {} in at most {} of cases",
                    it.arrivals_per_hour,
                    look::millis(it.start_ms),
                    share(it.miss_target_permille)
                ),
            },
        ),
        (
            "stock",
            stock.to_string(),
            "instances",
            format!(
                "cover {}, or estimated - leased - queued {more}; from {} to {}",
                it.cover, it.warm_min, it.warm_max
            ),
        ),
        (
            "start",
            it.start.to_string(),
            "instances",
            format!("queued {queued} + stock {stock} - warm {warm} - starting {}", it.starting),
        ),
        (
            "stop",
            it.stop.to_string(),
            "instances",
            format!("warm {warm} - queued {queued} - {} as the largest stock of 5m", it.held),
        ),
    ]
}

fn limit(it: &LimitRowBody) -> Vec<String> {
    let unit = it.unit.as_deref().unwrap_or_default();
    let show = |value: u64| match unit {
        "bytes" => Bytes::new(value).to_string(),
        "millicores" => MilliCpu::new(value).to_string(),
        _ => value.to_string(),
    };
    let slack = it.need.zip(it.have).map(|(need, have)| match have.checked_sub(need) {
        Some(slack) => show(slack),
        None => format!("-{}", show(need - have)),
    });
    let mark = match (it.binding, it.blocks) {
        (true, _) => "yes, it binds: ",
        (false, true) => "yes: ",
        (false, false) => "no",
    };
    vec![
        it.limit.clone(),
        it.need.map(show).unwrap_or_default(),
        it.have.map(show).unwrap_or_default(),
        slack.unwrap_or_default(),
        format!("{mark}{}", it.detail.as_deref().unwrap_or_default()),
    ]
}
