//! What a run has seen: counts, so that it shows what it exercised.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::control::message::{End, Output, What, Why};
use crate::quantity::{Instant, show_duration};

/// What one run, or several, have seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Words that the controller took.
    pub steps: u64,
    /// Leases by the reason of their end.
    pub ends: BTreeMap<&'static str, u64>,
    /// Limits that a caller was told of, as a refusal or as what it waits for.
    pub limits: BTreeMap<&'static str, u64>,
    /// Everything else that is worth counting.
    pub counts: BTreeMap<&'static str, u64>,
    /// The longest wait that ended in a grant.
    pub longest_wait: Duration,
    /// Virtual time that passed.
    pub passed: Duration,
    /// All outputs in their order, folded together: equal runs have equal ones.
    pub digest: u64,
}

impl Report {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Notes a limit, and what is behind it.
    pub(super) fn limit(&mut self, why: &Why) {
        *self.limits.entry(why.code()).or_default() += 1;
        if let Why::WaitExpired { blocked_by: Some(why), .. } = why {
            self.limit(why);
        }
    }

    /// Notes something that came out.
    pub(super) fn output(&mut self, now: Instant, output: &Output) {
        let (kind, number) = match output {
            Output::Start { instance, .. } => (1, u64::from(instance.count)),
            Output::Stop { instance, .. } => (2, u64::from(instance.count)),
            Output::Probe { instance, .. } => (3, u64::from(instance.count)),
            Output::Reply(call, _) => (4, call.0),
            Output::Adopt { instance, .. } => (6, u64::from(instance.count)),
            Output::Record(number, _) => (7, *number),
            Output::Reclaim(instance) => (8, u64::from(instance.count)),
            Output::Ceilings(ceilings) => (9, ceilings.memory.get()),
            Output::Tell(event) => (5, event.instance.map_or(0, |instance| u64::from(instance.count))),
        };
        for part in [now.as_nanos(), kind, number] {
            self.digest = (self.digest ^ part).wrapping_mul(0x0100_0000_01b3);
        }
        match output {
            Output::Start { .. } => self.count("starts"),
            Output::Probe { .. } => self.count("probes"),
            Output::Tell(event) => self.what(&event.what),
            Output::Stop { .. }
            | Output::Reply(..)
            | Output::Adopt { .. }
            | Output::Record(..)
            | Output::Reclaim(_)
            | Output::Ceilings(_) => {}
        }
    }

    fn what(&mut self, what: &What) {
        match what {
            What::LeaseEnded(End::Refused(Why::NotRecorded(_))) => self.count("grants undone"),
            What::LeaseEnded(end) => *self.ends.entry(end.reason()).or_default() += 1,
            What::LeaseDegraded { .. } => self.count("leases sent on"),
            What::LeaseGranted(waited) => {
                self.count("grants");
                self.longest_wait = self.longest_wait.max(*waited);
            }
            What::LeaseHeld(..) => self.count("holds"),
            What::LeaseResumed(_) => self.count("resumed"),
            What::HoldRefused(why) | What::PermitRefused(why) => self.limit(why),
            What::ProviderThrottled(..) => self.count("throttled"),
            What::ProviderBack(_) => self.count("providers back"),
            What::InstanceStartFailed(_) => self.count("starts failed"),
            What::InstanceStopping(why) => self.count(why.code()),
            What::InstanceStuck(..) => self.count("stops failed"),
            What::OutOfMemory(_) => self.count("kills for want of memory"),
            What::DrainBegan(_) => self.count("drains"),
            What::ProfileReloaded(0) => self.count("reloads of nothing"),
            What::ProfileReloaded(_) => self.count("reloads"),
            What::PoolGone => self.count("pools gone"),
            What::EngineLost(_) => self.count("engine lost"),
            What::TelemetryLost(_) => self.count("telemetry lost"),
            What::DiskLow(_) => self.count("disk low"),
            What::Pressure(_, now) => self.count(now.level.code()),
            What::ReliefEnds(victim, _) => self.count(victim.tier.code()),
            What::ReliefAsks(..) => self.count("asks"),
            What::CeilingsRefused(_) => self.count("ceilings refused"),
            What::StoreLost(_) => self.count("store lost"),
            What::InstanceStarting
            | What::InstanceWarm(_)
            | What::InstanceFound
            | What::InstanceGone
            | What::LeaseQueued
            | What::RequestRefused(_)
            | What::Drained
            | What::Undrained
            | What::ProfileChanged(_)
            | What::ReloadRefused(_)
            | What::EngineBack
            | What::TelemetryBack
            | What::DiskRoom
            | What::CeilingsStand(_)
            | What::StoreBack
            | What::Recovered { .. } => {}
        }
    }

    /// Adds what another run has seen.
    pub fn add(&mut self, other: &Report) {
        for (mine, others) in [
            (&mut self.ends, &other.ends),
            (&mut self.limits, &other.limits),
            (&mut self.counts, &other.counts),
        ] {
            for (name, count) in others {
                *mine.entry(name).or_default() += count;
            }
        }
        self.steps += other.steps;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.passed += other.passed;
        self.digest ^= other.digest;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = |counts: &BTreeMap<&str, u64>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        let (passed, wait) = (show_duration(self.passed), show_duration(self.longest_wait));
        writeln!(f, "{} steps in {passed}, longest wait {wait}, digest {:016x}", self.steps, self.digest)?;
        writeln!(f, "leases: {}", counts(&self.ends))?;
        writeln!(f, "limits: {}", counts(&self.limits))?;
        write!(f, "others: {}", counts(&self.counts))
    }
}
