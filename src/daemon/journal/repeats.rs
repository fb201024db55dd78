//! What is said over and over is said once in a while, with how often it was.
//!
//! Only what anybody can cause as often as he likes is held back: refusals, failed starts, throttling, and the coming and going of
//! the engine, of measurements, of room on disks, of the store, of pressure and of ceilings. Every transition of a lease or an instance is an
//! entry of its own, always.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::control::message::{Event, Tenant, What};
use crate::profile::PoolName;
use crate::quantity::Instant;

/// So many of a kind are written one by one...
const AT_ONCE: u32 = 5;
/// ...within this time; the rest of it is said together at its end.
const WINDOW: Duration = Duration::from_secs(10);
/// Kinds that are counted apart; beyond them everything is written.
const KINDS: usize = 256;

/// What counts as the same.
type Kind = (&'static str, &'static str, Option<PoolName>, Option<Tenant>);

/// What was said lately.
#[derive(Debug, Default)]
pub(super) struct Repeats(BTreeMap<Kind, Window>);

#[derive(Debug)]
struct Window {
    ends: Instant,
    said: u32,
    /// The last one that was held back, and how many were.
    held: Option<(Event, u64)>,
}

impl Repeats {
    /// What to write of this event now, and how many like it were held back before.
    pub(super) fn pass(&mut self, event: Event, now: Instant) -> Option<(Event, u64)> {
        let Some(kind) = kind(&event) else { return Some((event, 0)) };
        self.0.retain(|_, window| window.ends > now || window.held.is_some());
        if !self.0.contains_key(&kind) && self.0.len() >= KINDS {
            return Some((event, 0));
        }
        let window = self.0.entry(kind).or_insert(Window { ends: now.after(WINDOW), said: 0, held: None });
        if window.said < AT_ONCE {
            window.said += 1;
            return Some((event, 0));
        }
        let count = window.held.as_ref().map_or(0, |(_, count)| *count);
        window.held = Some((event, count + 1));
        None
    }

    /// When something that was held back is to be said.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.values().filter(|window| window.held.is_some()).map(|window| window.ends).min()
    }

    /// What is to be said now: the last of each kind, with how many there were before it.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(Event, u64)> {
        let due = self.0.values_mut().filter(|window| window.ends <= now);
        let mut said = Vec::new();
        for window in due {
            if let Some((event, count)) = window.held.take() {
                said.push((event, count - 1));
                // What goes on is said once a window.
                (window.ends, window.said) = (now.after(WINDOW), AT_ONCE);
            }
        }
        said
    }

    /// All that is held back.
    pub(super) fn all(self) -> impl Iterator<Item = (Event, u64)> {
        self.0.into_values().filter_map(|window| window.held).map(|(event, count)| (event, count - 1))
    }
}

fn kind(event: &Event) -> Option<Kind> {
    let of = |what, reason| Some((what, reason, event.pool.clone(), event.tenant.clone()));
    match &event.what {
        What::RequestRefused(why) => of("refused", why.code()),
        What::HoldRefused(why) => of("hold_refused", why.code()),
        What::PermitRefused(why) => of("permit_refused", why.code()),
        What::ProviderThrottled(..) => of("provider_throttled", ""),
        What::ProviderBack(_) => of("provider_whole", ""),
        What::InstanceStartFailed(_) => of("start_failed", ""),
        What::OutOfMemory(oom) => of("out_of_memory", oom.level.code()),
        What::EngineLost(_) => of("engine", ""),
        What::EngineBack => of("engine", ""),
        What::TelemetryLost(_) => of("telemetry", ""),
        What::TelemetryBack => of("telemetry", ""),
        What::DiskLow(_) => of("disk", ""),
        What::DiskRoom => of("disk", ""),
        What::Pressure(_, now) => of("pressure", now.level.code()),
        What::CeilingsStand(_) => of("ceilings_stand", ""),
        What::CeilingsRefused(_) => of("ceilings_refused", ""),
        What::StoreLost(_) => of("store", ""),
        What::StoreBack => of("store", ""),
        What::InstanceStarting
        | What::InstanceWarm(_)
        | What::InstanceFound
        | What::InstanceStopping(_)
        | What::InstanceStuck(..)
        | What::InstanceGone
        | What::LeaseQueued
        | What::LeaseDegraded { .. }
        | What::LeaseGranted(_)
        | What::LeaseHeld(..)
        | What::LeaseResumed(_)
        | What::LeaseEnded(_)
        | What::DrainBegan(_)
        | What::Drained
        | What::ReliefAsks(..)
        | What::ReliefEnds(..)
        | What::Recovered { .. }
        | What::Undrained
        | What::ProfileChanged(_)
        | What::ProfileReloaded(_)
        | What::ReloadRefused(_)
        | What::PoolGone => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::Why;

    fn refused(tenant: &str) -> Event {
        let (what, tenant) = (What::RequestRefused(Why::HostDraining), Some(Tenant(tenant.into())));
        Event { what, pool: None, instance: None, lease: None, tenant }
    }

    #[test]
    fn a_storm_is_some_entries_and_then_one_a_window() {
        let mut repeats = Repeats::default();
        let begin = Instant::from_nanos(0);
        let written = (0..1000).filter(|_| repeats.pass(refused("a"), begin).is_some()).count();
        assert_eq!(written, 5);
        assert!(repeats.pass(refused("b"), begin).is_some(), "another tenant's are its own");
        assert_eq!(repeats.due(begin), []);
        let end = repeats.next_due().unwrap();
        assert_eq!(end, begin.after(WINDOW));
        assert_eq!(repeats.due(end), [(refused("a"), 994)]);
        assert_eq!(repeats.next_due(), None);
        // It goes on: one entry a window.
        assert!(repeats.pass(refused("a"), end).is_none());
        assert_eq!(repeats.due(end.after(WINDOW)), [(refused("a"), 0)]);
        // After a quiet window it is news again.
        assert!(repeats.pass(refused("a"), end.after(WINDOW * 3)).is_some());
    }

    #[test]
    fn lives_are_never_held_back_and_kinds_are_bounded() {
        let mut repeats = Repeats::default();
        let now = Instant::from_nanos(0);
        let gone = Event { what: What::InstanceGone, ..refused("a") };
        assert!((0..100).all(|_| repeats.pass(gone.clone(), now).is_some()));
        for tenant in 0..1000 {
            assert!(repeats.pass(refused(&tenant.to_string()), now).is_some());
        }
        assert_eq!(repeats.0.len(), KINDS);
        assert_eq!(repeats.all().count(), 0);
    }
}
