//! What a pool does while the host's figures are unknown: `without_telemetry`.
//!
//! One pool may send its requests to another one. Where such a way leads is looked at when all pools are read: it
//! must come to an end, at a pool of the same kind.

use std::collections::BTreeMap;

use crate::profile::check::fields::Fields;
use crate::profile::check::{MOST_INSTANCES, shape};
use crate::profile::mistake::Wrong;
use crate::profile::tree::{Data, Table, Value, quote};
use crate::profile::{Pool, PoolName, WithoutTelemetry};

const KEY: &str = "without_telemetry";
const EXPECTED: &str = "\"stop\", { slots = 20 } or { use = \"POOL\" }";

/// Reads what a pool says of it.
pub(super) fn of(fields: &mut Fields<'_>) -> WithoutTelemetry {
    // What nobody can see is not to be filled.
    fields.read(KEY, without).or(WithoutTelemetry::Stop).value
}

fn without(value: &Value) -> Result<WithoutTelemetry, Wrong> {
    match &value.data {
        Data::Text(word) if word == "stop" => Ok(WithoutTelemetry::Stop),
        Data::Table(table) => in_table(value, table),
        Data::Text(_)
        | Data::Whole(_)
        | Data::Number(_)
        | Data::Flag(_)
        | Data::Date
        | Data::List(_)
        | Data::Broken => Err(shape::unexpected(value, EXPECTED)),
    }
}

fn in_table(value: &Value, table: &Table) -> Result<WithoutTelemetry, Wrong> {
    if let Some(entry) = table.0.iter().find(|(key, _)| !matches!(key.as_str(), "slots" | "use")) {
        let wrong = Wrong::new(format!("there is no such key, {}", quote(entry.0)));
        return Err(wrong.at(&entry.1.key).hint("the keys known here are slots, use".to_owned()));
    }
    match (table.0.get("slots"), table.0.get("use")) {
        (Some(slots), None) => shape::count(1..=MOST_INSTANCES)(&slots.value)
            .map(WithoutTelemetry::Slots)
            .map_err(|wrong| wrong.at(&slots.value.place)),
        (None, Some(other)) => {
            let name = shape::text("a pool's name", |name| !name.is_empty());
            let name = name(&other.value).map_err(|wrong| wrong.at(&other.value.place))?;
            Ok(WithoutTelemetry::Use(PoolName::new(name)))
        }
        (Some(_), Some(other)) => {
            let wrong = Wrong::new("expected one of `slots` and `use`, found both").at(&other.key);
            Err(wrong.hint("where an earlier layer says the other one, take it out there".to_owned()))
        }
        (None, None) => {
            Err(Wrong::new(format!("expected {EXPECTED}, found an empty table")).at(&value.place))
        }
    }
}

/// Notes where a way from pool to pool leads nowhere, to another kind, or in a circle. `complete` says whether all
/// pools that are written are in `pools`.
pub(super) fn hold_together(tables: &Fields<'_>, pools: &BTreeMap<PoolName, Pool>, complete: bool) {
    for (name, mut fields) in tables.sections("[pool.chromium]") {
        let Some(pool) = pools.get(name) else { continue };
        let WithoutTelemetry::Use(other) = &pool.without_telemetry else { continue };
        let place = fields.read(KEY, without).or(WithoutTelemetry::Stop).place;
        let wrong = match pools.get(other) {
            None if complete => {
                let known: Vec<String> = pools.keys().map(|name| quote(name.as_str())).collect();
                let wrong = Wrong::new(format!("there is no pool {}", quote(other.as_str())));
                wrong.hint(format!("there are {}", known.join(", ")))
            }
            None => continue, // What is wrong with it has been noted.
            Some(its) if its.kind != pool.kind => {
                let (kind, found) = (pool.kind, its.kind);
                let wrong = format!("expected a pool of kind {kind}, as this one, found {other}, a {found}");
                Wrong::new(wrong).hint("callers of one kind can do nothing with the other".to_owned())
            }
            Some(_) => match circle(name, other, pools) {
                Some(way) => Wrong::new(format!("expected a way that ends, found the circle {way}")),
                None => continue,
            },
        };
        fields.clash(&place, KEY, wrong);
    }
}

/// The way from a pool through the next one, if it comes back.
fn circle(name: &str, next: &PoolName, pools: &BTreeMap<PoolName, Pool>) -> Option<String> {
    let (mut way, mut next) = (vec![name], next);
    while next.as_str() != name {
        // A circle that this one only leads into is told of those that are in it.
        if way.contains(&next.as_str()) {
            return None;
        }
        way.push(next.as_str());
        let WithoutTelemetry::Use(other) = &pools.get(next)?.without_telemetry else { return None };
        next = other;
    }
    way.push(name);
    Some(way.join(" -> "))
}
