//! One entry: its level, its message, its id in the catalog, and its fields.
//!
//! The level says who wakes up: an error someone at night, a warning someone in the morning, the rest nobody.
//! A field that does not apply is left out.

use std::time::Duration;

use super::output::{Said, Spoken};
use crate::control::message::{
    End, Event, Exit, Failure, Interruption, Level, Shortage, StartFailure, What, Why,
};
use crate::control::words::Figures;
use crate::quantity::Bytes;
use crate::systemd::catalog;

/// Writes that entries before this one are missing.
pub(super) fn dropped(count: u64) {
    tracing::warn!(
        message_id = catalog::DROPPED.id,
        stoker_count = count,
        "{count} entries before this one were dropped: the journal took none"
    );
}

/// Writes one transition; `more` of its kind came shortly before it and were held back.
pub(super) fn transition(event: &Event, more: u64) {
    let text = match more {
        0 => event.what.to_string(),
        _ => format!("{} (and {more} more like it)", event.what),
    };
    let id = catalog::of(&event.what).id;
    let pool = event.pool.as_ref().map(ToString::to_string);
    let instance = event.instance.as_ref().map(ToString::to_string);
    let lease = event.lease.as_ref().map(ToString::to_string);
    let tenant = event.tenant.as_ref().map(ToString::to_string);
    let degraded_from =
        if let What::LeaseDegraded { from, .. } = &event.what { Some(from.to_string()) } else { None };
    let (state, reason) = state_and_reason(&event.what);
    let Numbers { took, waited, count, exit, held, limit } = Numbers::of(&event.what);
    let repeated = (more > 0).then_some(more);
    // A level is part of an entry's type, so each level writes the fields anew.
    macro_rules! entry {
        ($level:ident) => {
            tracing::$level!(
                message_id = id,
                stoker_pool = pool,
                stoker_instance = instance,
                stoker_lease = lease,
                stoker_tenant = tenant,
                stoker_state = state,
                stoker_reason = reason,
                stoker_degraded_from = degraded_from,
                stoker_took_ms = took.map(millis),
                stoker_waited_ms = waited.map(millis),
                stoker_count = count,
                stoker_exit_code = exit,
                stoker_held = held,
                stoker_need = limit.map(|limit| limit.need),
                stoker_have = limit.map(|limit| limit.have),
                stoker_unit = limit.map(|limit| limit.unit),
                stoker_repeated = repeated,
                "{text}"
            )
        };
    }
    if matches!(event.what, What::StoreLost(_)) {
        entry!(error); // Nothing can be lent until somebody makes room.
    } else if is_trouble(&event.what) {
        entry!(warn);
    } else {
        entry!(info);
    }
}

/// Writes what a container said.
pub(super) fn line(spoken: &Spoken) {
    let pool = spoken.pool.to_string();
    let instance = spoken.instance.to_string();
    let lease = spoken.lease.as_ref().map(ToString::to_string);
    match &spoken.said {
        Said::Line { stream, text } => tracing::info!(
            message_id = catalog::OUTPUT.id,
            stoker_pool = pool,
            stoker_instance = instance,
            stoker_lease = lease,
            stoker_stream = stream,
            "{text}"
        ),
        Said::Dropped(count) => tracing::warn!(
            message_id = catalog::OUTPUT_DROPPED.id,
            stoker_pool = pool,
            stoker_instance = instance,
            stoker_lease = lease,
            stoker_count = count,
            "{count} lines of the instance are missing here: it writes faster than the journal is to be filled"
        ),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whether somebody should look at it in the morning.
fn is_trouble(what: &What) -> bool {
    match what {
        What::InstanceStartFailed(_)
        | What::InstanceStuck(..)
        | What::OutOfMemory(_)
        | What::EngineLost(_)
        | What::TelemetryLost(_)
        | What::DiskLow(_)
        | What::ReliefEnds(..)
        | What::CeilingsRefused(_)
        | What::StoreLost(_)
        | What::ReloadRefused(_) => true,
        // What was lent is gone, and its caller had no part in it.
        What::LeaseEnded(
            End::Failed(Failure::Died(_) | Failure::OutOfMemory(_) | Failure::Vanished)
            | End::Interrupted(Interruption::HostLost | Interruption::Pressure),
        ) => true,
        What::Pressure(_, now) => now.level > Level::Calm,
        What::InstanceStarting
        | What::InstanceFound
        | What::InstanceWarm(_)
        | What::InstanceStopping(_)
        | What::InstanceGone
        | What::LeaseQueued
        | What::LeaseDegraded { .. }
        | What::LeaseGranted(_)
        | What::LeaseHeld(..)
        | What::LeaseResumed(_)
        | What::HoldRefused(_)
        | What::PermitRefused(_)
        | What::ProviderThrottled(..)
        | What::ProviderBack(_)
        | What::LeaseEnded(_)
        | What::RequestRefused(_)
        | What::DrainBegan(_)
        | What::Drained
        | What::Undrained
        | What::ProfileChanged(_)
        | What::ProfileReloaded(_)
        | What::PoolGone
        | What::EngineBack
        | What::StoreBack
        | What::Recovered { .. }
        | What::TelemetryBack
        | What::DiskRoom
        | What::ReliefAsks(..)
        | What::CeilingsStand(_) => false,
    }
}

/// The state that was entered, and why, as the short names of the API.
fn state_and_reason(what: &What) -> (&'static str, Option<&'static str>) {
    match what {
        What::InstanceStarting => ("starting", None),
        What::InstanceWarm(_) | What::InstanceFound => ("warm", None),
        What::InstanceStartFailed(_) => ("start_failed", None),
        What::InstanceStopping(why) => ("stopping", Some(why.code())),
        What::InstanceStuck(..) => ("stuck", None),
        What::OutOfMemory(oom) => ("out_of_memory", Some(oom.level.code())),
        What::InstanceGone => ("gone", None),
        What::LeaseQueued => ("queued", None),
        What::LeaseDegraded { .. } => ("degraded", Some("no_telemetry")),
        What::LeaseGranted(_) => ("executing", None),
        What::LeaseHeld(..) => ("waiting_for_approval", None),
        What::LeaseResumed(_) => ("executing", Some("resumed")),
        What::HoldRefused(why) => ("executing", Some(why.code())),
        What::PermitRefused(why) => ("executing", Some(why.code())),
        What::ProviderThrottled(..) => ("provider_throttled", None),
        What::ProviderBack(_) => ("provider_whole", None),
        What::LeaseEnded(end) => (end.code(), Some(end.reason())),
        What::RequestRefused(why) => ("refused", Some(why.code())),
        What::DrainBegan(_) => ("draining", None),
        What::Drained => ("drained", None),
        What::Undrained => ("undrained", None),
        What::ProfileChanged(_) => ("profile_changed", None),
        What::ProfileReloaded(_) => ("profile_reloaded", None),
        What::ReloadRefused(_) => ("profile_refused", Some("cannot_change")),
        What::PoolGone => ("pool_gone", None),
        What::EngineBack => ("engine_reachable", None),
        What::EngineLost(_) => ("engine_unreachable", None),
        What::TelemetryLost(_) => ("telemetry_unknown", None),
        What::TelemetryBack => ("telemetry_known", None),
        What::DiskLow(why) => ("disk_low", Some(why.code())),
        What::DiskRoom => ("disk_room", None),
        What::Pressure(before, now) => (now.level.code(), Some(before.code())),
        What::ReliefAsks(..) => ("relief", Some("reclaim")),
        What::ReliefEnds(victim, _) => ("relief", Some(victim.tier.code())),
        What::CeilingsStand(_) => ("ceilings_stand", None),
        What::CeilingsRefused(_) => ("ceilings_refused", None),
        What::StoreLost(_) => ("store_failing", None),
        What::StoreBack => ("store_writing", None),
        What::Recovered { .. } => ("recovered", None),
    }
}

/// The numbers that belong to a transition, or decided it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    took: Option<Duration>,
    waited: Option<Duration>,
    count: Option<u64>,
    exit: Option<i64>,
    /// Bytes that one held which is ended.
    held: Option<u64>,
    limit: Option<Figures>,
}

/// What must remain and what there is.
fn figures(shortage: &Shortage) -> Figures {
    Figures { need: shortage.floor.get(), have: shortage.available.get(), unit: "bytes" }
}

impl Numbers {
    fn of(what: &What) -> Numbers {
        let none = Numbers::default();
        match what {
            What::InstanceWarm(took) => Numbers { took: Some(*took), ..none },
            What::LeaseGranted(waited) => Numbers { waited: Some(*waited), ..none },
            What::InstanceStuck(_, tries) => Numbers { count: Some(u64::from(*tries)), ..none },
            What::OutOfMemory(oom) => {
                Numbers { count: Some(oom.processes), held: oom.held.map(Bytes::get), ..none }
            }
            What::ProfileReloaded(changes) => Numbers { count: Some(u64::from(*changes)), ..none },
            What::LeaseHeld(lasting, _) => Numbers { took: Some(*lasting), ..none },
            What::LeaseResumed(after) => Numbers { waited: Some(*after), ..none },
            What::RequestRefused(why)
            | What::HoldRefused(why)
            | What::PermitRefused(why)
            | What::DiskLow(why)
            | What::LeaseEnded(End::Refused(why)) => Numbers::of_limit(why),
            What::LeaseEnded(End::Failed(Failure::Died(Exit { code })))
            | What::InstanceStartFailed(
                StartFailure::Died(Exit { code }) | StartFailure::DiedYoung(Exit { code }),
            ) => Numbers { exit: *code, ..none },
            What::Pressure(_, shortage) => Numbers { limit: Some(figures(shortage)), ..none },
            What::ReliefAsks(many, shortage) => {
                Numbers { count: Some(u64::from(*many)), limit: Some(figures(shortage)), ..none }
            }
            What::ReliefEnds(victim, shortage) => {
                Numbers { held: victim.held.map(Bytes::get), limit: Some(figures(shortage)), ..none }
            }
            What::InstanceStarting
            | What::InstanceFound
            | What::InstanceStartFailed(_)
            | What::InstanceStopping(_)
            | What::InstanceGone
            | What::LeaseQueued
            | What::LeaseDegraded { .. }
            | What::LeaseEnded(_)
            | What::DrainBegan(_)
            | What::Drained
            | What::Undrained
            | What::ProfileChanged(_)
            | What::ReloadRefused(_)
            | What::PoolGone
            | What::EngineBack
            | What::EngineLost(_)
            | What::TelemetryLost(_)
            | What::StoreLost(_)
            | What::StoreBack
            | What::Recovered { .. }
            | What::TelemetryBack
            | What::ProviderThrottled(..)
            | What::ProviderBack(_)
            | What::DiskRoom
            | What::CeilingsStand(_)
            | What::CeilingsRefused(_) => none,
        }
    }

    fn of_limit(why: &Why) -> Numbers {
        if let Why::WaitExpired { waited, blocked_by } = why {
            // What it waited for says why it waited.
            let limit = blocked_by.as_ref().and_then(|why| why.figures());
            return Numbers { waited: Some(*waited), limit, ..Numbers::default() };
        }
        Numbers { limit: why.figures(), ..Numbers::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_numbers_that_decided_it() {
        let full = Why::QueueFull { queued: 8, limit: 8 };
        let limit = Some(Figures { need: 9, have: 8, unit: "requests" });
        let none = Numbers::default;
        assert_eq!(Numbers::of(&What::RequestRefused(full.clone())), Numbers { limit, ..none() });
        let waited = Duration::from_secs(15);
        let expired = Why::WaitExpired { waited, blocked_by: Some(Box::new(full)) };
        let ended = What::LeaseEnded(End::Refused(expired));
        assert_eq!(Numbers::of(&ended), Numbers { waited: Some(waited), limit, ..none() });
        let died = What::LeaseEnded(End::Failed(Failure::Died(Exit { code: Some(137) })));
        assert_eq!(Numbers::of(&died), Numbers { exit: Some(137), ..none() });
    }
}
