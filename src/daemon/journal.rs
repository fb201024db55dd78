//! Transitions as journal entries: one each, with the fields that find it again.
//!
//! The level says who wakes up: an error someone at night, a warning someone in the morning, the rest nobody.

use crate::control::message::{Event, What};

/// Writes one transition.
pub(super) fn write(event: &Event) {
    let text = event.what.to_string();
    let pool = event.pool.as_ref().map(ToString::to_string);
    let instance = event.instance.as_ref().map(ToString::to_string);
    let lease = event.lease.as_ref().map(ToString::to_string);
    let tenant = event.tenant.as_ref().map(ToString::to_string);
    let (state, reason) = state_and_reason(&event.what);
    // A level is part of an entry's type, so the same fields stand here twice.
    if is_trouble(&event.what) {
        tracing::warn!(
            stoker_pool = pool,
            stoker_instance = instance,
            stoker_lease = lease,
            stoker_tenant = tenant,
            stoker_state = state,
            stoker_reason = reason,
            "{text}"
        );
    } else {
        tracing::info!(
            stoker_pool = pool,
            stoker_instance = instance,
            stoker_lease = lease,
            stoker_tenant = tenant,
            stoker_state = state,
            stoker_reason = reason,
            "{text}"
        );
    }
}

/// Whether somebody should look at it in the morning.
fn is_trouble(what: &What) -> bool {
    match what {
        What::InstanceStartFailed(_)
        | What::InstanceStuck(..)
        | What::EngineLost(_)
        | What::TelemetryLost(_) => true,
        What::InstanceStarting
        | What::InstanceWarm(_)
        | What::InstanceStopping(_)
        | What::InstanceGone
        | What::LeaseQueued
        | What::LeaseGranted(_)
        | What::LeaseEnded(_)
        | What::RequestRefused(_)
        | What::DrainBegan(_)
        | What::Drained
        | What::Undrained
        | What::EngineBack
        | What::TelemetryBack => false,
    }
}

/// The state that was entered, and why, as the short names of the API.
fn state_and_reason(what: &What) -> (&'static str, Option<&'static str>) {
    match what {
        What::InstanceStarting => ("starting", None),
        What::InstanceWarm(_) => ("warm", None),
        What::InstanceStartFailed(_) => ("start_failed", None),
        What::InstanceStopping(why) => ("stopping", Some(why.code())),
        What::InstanceStuck(..) => ("stuck", None),
        What::InstanceGone => ("gone", None),
        What::LeaseQueued => ("queued", None),
        What::LeaseGranted(_) => ("executing", None),
        What::LeaseEnded(end) => (end.code(), Some(end.reason())),
        What::RequestRefused(why) => ("refused", Some(why.code())),
        What::DrainBegan(_) => ("draining", None),
        What::Drained => ("drained", None),
        What::Undrained => ("undrained", None),
        What::EngineBack => ("engine_reachable", None),
        What::EngineLost(_) => ("engine_unreachable", None),
        What::TelemetryLost(_) => ("telemetry_unknown", None),
        What::TelemetryBack => ("telemetry_known", None),
    }
}
