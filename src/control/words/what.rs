//! What has happened, as a line of the journal.

use std::fmt;
use std::time::Duration;

use super::many;
use crate::control::message::{Oom, What};
use crate::profile::{Change, ProviderName};
use crate::quantity::{Permille, show_duration};

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::InstanceStarting => write!(f, "instance is being started"),
            What::InstanceFound => write!(f, "instance of an earlier daemon is warm"),
            What::InstanceWarm(took) => write!(f, "instance is warm after {}", show_duration(*took)),
            What::InstanceStartFailed(why) => write!(f, "instance could not be started: {why}"),
            What::InstanceStopping(why) => write!(f, "instance is being stopped: {why}"),
            What::InstanceStuck(why, tries) => {
                write!(f, "instance would not stop at try {tries}: {why}, trying again")
            }
            What::OutOfMemory(oom) => killed(f, oom),
            What::InstanceGone => write!(f, "instance is gone"),
            What::LeaseQueued => write!(f, "lease waits"),
            What::LeaseDegraded { from, unknown } => {
                write!(f, "asked of {from}, and sent on here while the host's state is not known: {unknown}")
            }
            What::LeaseGranted(waited) => write!(f, "lease granted after {}", show_duration(*waited)),
            What::LeaseHeld(lasting, reason) => {
                write!(f, "lease waits for a person for {}: {reason}", show_duration(*lasting))
            }
            What::LeaseResumed(after) => write!(f, "lease goes on after {}", show_duration(*after)),
            What::HoldRefused(why) => write!(f, "lease may not wait for a person: {why}"),
            What::PermitRefused(why) => write!(f, "no permit for the lease: {why}"),
            What::ProviderThrottled(name, part, pause) => f.write_str(&throttles(name, *part, *pause)),
            What::ProviderBack(provider) => write!(f, "all of the rate of provider {provider} is used again"),
            What::LeaseEnded(end) => write!(f, "lease {}: {end}", end.code()),
            What::RequestRefused(why) => write!(f, "request refused: {why}"),
            What::DrainBegan(Duration::ZERO) => write!(f, "drain began, interrupts what still runs"),
            What::DrainBegan(window) => {
                write!(f, "drain began, interrupts what still runs in {}", show_duration(*window))
            }
            What::Drained => write!(f, "drained: nothing is left"),
            What::Undrained => write!(f, "drain taken back"),
            What::ProfileChanged(change) => write!(f, "profile: {change}"),
            What::ProfileReloaded(0) => write!(f, "profile reloaded: nothing has changed"),
            What::ProfileReloaded(count) => write!(f, "profile reloaded: {}", many(*count, "change")),
            What::ReloadRefused(change) => f.write_str(&not_reloaded(change)),
            What::PoolGone => write!(f, "pool is gone: nothing of it is left"),
            What::EngineBack => write!(f, "the container engine answers"),
            What::EngineLost(why) => {
                write!(f, "the container engine does not answer, starting nothing: {why}")
            }
            What::TelemetryLost(why) => {
                write!(f, "the host's memory is not known, starting only what a pool may without: {why}")
            }
            What::TelemetryBack => write!(f, "the host's memory is known"),
            What::DiskLow(why) => write!(f, "{why}, starting nothing"),
            What::DiskRoom => write!(f, "the disks have room"),
            What::Pressure(before, now) => {
                write!(f, "memory pressure is {}, was {}: {now}", now.level.code(), before.code())
            }
            What::ReliefAsks(many, why) => {
                write!(f, "relief asks {} to give memory back: {why}", many_warm(*many))
            }
            What::ReliefEnds(victim, why) => {
                let held = victim.held.map_or("an unknown amount".into(), |held| held.to_string());
                write!(f, "relief ends one that {}, and holds {held}: {why}", victim.tier)
            }
            What::CeilingsStand(stand) => {
                let (memory, weight) = (stand.memory, stand.cpu_weight);
                write!(f, "all containers together have at most {memory}, and a CPU weight of {weight}")
            }
            What::CeilingsRefused(why) => {
                write!(f, "a limit on all containers together cannot be set, going on without it: {why}")
            }
            What::StoreLost(why) => {
                write!(f, "records cannot be written, lending and starting nothing: {why}")
            }
            What::StoreBack => write!(f, "records can be written"),
            What::Recovered { leases, instances } => f.write_str(&taking_up(*leases, *instances)),
        }
    }
}

fn killed(f: &mut fmt::Formatter<'_>, oom: &Oom) -> fmt::Result {
    let Oom { level, processes, held } = oom;
    let es = if *processes == 1 { "" } else { "es" };
    write!(f, "the kernel killed {processes} process{es} of the instance {}", level.place())?;
    held.map_or(Ok(()), |held| write!(f, "; it holds {held} now"))
}

fn throttles(provider: &ProviderName, part: Permille, pause: Duration) -> String {
    let pause = match pause {
        Duration::ZERO => String::new(),
        pause => format!(", and nothing for {}", show_duration(pause)),
    };
    format!("provider {provider} throttles: {part} of its rate is used{pause}")
}

fn not_reloaded(change: &Change) -> String {
    format!("profile not reloaded, going on with the one there was: {change}: a restart can change it")
}

fn taking_up(leases: u32, instances: u32) -> String {
    format!("taking up {} and {} of an earlier daemon", many(leases, "lease"), many(instances, "instance"))
}

fn many_warm(count: u32) -> String {
    many(count, "idle warm instance")
}
