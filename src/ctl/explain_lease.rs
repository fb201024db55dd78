//! The verb that explains a lease: where it stands and what it waits for, or how it ended.

use std::process::ExitCode;

use super::{Tool, look};
use crate::api::client::path;
use crate::api::wire::{ClassTurnBody, LeaseExplainBody, LimitBody, WaitBody};

impl Tool {
    pub(super) async fn explain_lease(&self, lease: &str) -> anyhow::Result<ExitCode> {
        let body: LeaseExplainBody = self.client.get(&path(&["leases", lease, "explain"])).await?;
        self.print(&body, text)
    }
}

fn text(it: &LeaseExplainBody) -> String {
    let lease = &it.lease;
    let mut text = format!("{}: {}\n\n", lease.id, it.summary);
    let mut say = |name: &str, value: String| text.push_str(&format!("  {name:>9}: {value}\n"));
    say("lease", format!("of {}, class {}, tenant {}", lease.pool, lease.class, lease.tenant));
    if let Some(asked) = &lease.degraded_from {
        say("sent on", look::sent_on(asked, &lease.pool));
    }
    say("waited", look::millis(lease.waited_ms));
    if let Some(ran) = lease.running_ms {
        say("ran", look::millis(ran));
    }
    if let Some(waits) = &it.waits {
        for (name, value) in standing(it, waits) {
            say(name, value);
        }
    }
    if let Some(ends) = lease.ends_in_ms {
        say(if it.waits.is_some() { "gives up" } else { "ends" }, format!("in {}", look::millis(ends)));
    }
    for (name, limit) in
        [("in its way", &lease.blocked_by), ("refused by", &it.refused_by), ("behind it", &it.waited_for)]
    {
        if let Some(limit) = limit {
            text.push_str(&format!(" {name:>10}: {}\n", numbers(limit)));
        }
    }
    if let Some(waits) = &it.waits {
        let head = ["CLASS", ">WAITING", ">LEASED", ">GUARANTEED", ">HELD BACK", "COMES TO THE NEXT SLOT"];
        text.push('\n');
        text += &look::table(&head, &waits.classes.iter().map(class).collect::<Vec<_>>());
    }
    text
}

/// Where it stands, a line each.
fn standing(it: &LeaseExplainBody, waits: &WaitBody) -> Vec<(&'static str, String)> {
    let place = it.lease.place.unwrap_or_default();
    let next = if waits.next { ", and the next slot is its own" } else { "" };
    let promised = match u64::try_from(waits.promised_in_ms) {
        Ok(left) => format!("in {}", look::millis(left)),
        Err(_) => format!("{} ago: it is late", look::millis(waits.promised_in_ms.unsigned_abs())),
    };
    let mut lines = vec![
        ("place", format!("{place} of {} that wait for the pool{next}", waits.queued)),
        (
            "turn",
            format!(
                "number {} of its tenant's {} in its class, of which {}",
                waits.of_tenant,
                waits.own,
                tenants(waits.tenants)
            ),
        ),
        ("promised", promised),
        (
            "estimate",
            match &waits.estimate {
                Some(estimate) => {
                    format!("about {} more: {}", look::millis(estimate.wait_ms), estimate.detail)
                }
                None => "none: there is nothing to go by".into(),
            },
        ),
    ];
    if let Some(bound) = &waits.bound {
        let occupancy = look::millis(bound.occupancy_ms);
        lines.push((
            "bound",
            format!(
                "{} = {occupancy} + ceil({} * {} / {}) * {occupancy}: the longest that a slot is held, place * tenants / \
                 guaranteed",
                look::millis(bound.wait_ms),
                waits.of_tenant,
                waits.tenants,
                bound.guaranteed
            ),
        ));
    }
    lines
}

fn tenants(count: u32) -> String {
    if count == 1 { "1 tenant takes turns".into() } else { format!("{count} tenants take turns") }
}

/// A limit with what it needs and has.
fn numbers(limit: &LimitBody) -> String {
    let figures = limit.need.zip(limit.have).zip(limit.unit.as_ref());
    let figures =
        figures.map_or(String::new(), |((need, have), unit)| format!(" (needs {need}, has {have} {unit})"));
    format!("{}{figures}: {}", limit.limit, limit.detail)
}

fn class(it: &ClassTurnBody) -> Vec<String> {
    vec![
        it.class.clone(),
        it.waiting.to_string(),
        it.leased.to_string(),
        it.guaranteed.to_string(),
        it.hold_back.to_string(),
        it.detail.clone(),
    ]
}
