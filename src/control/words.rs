//! How the controller's words read: one line of plain English each, and the short name that programs use.
//!
//! The API, the journal and the tool all say it with these, so that one thing is never called by two names.

mod what;

use std::fmt;
use std::time::Duration;

use super::message::{
    Cancelled, Deadline, DiskOf, End, Estimate, Exit, Failure, Interruption, LeaseState, Level, OomLevel,
    Shortage, StartFailure, StopReason, Tier, Why,
};
use crate::profile::ProviderName;
use crate::quantity::{Bytes, Permille, show_duration};

/// The numbers of a limit, in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// What one more would need.
    pub need: u64,
    /// What there is, or what the limit is.
    pub have: u64,
    /// What both are counted in.
    pub unit: &'static str,
}

impl Why {
    /// The limit's name in answers.
    pub const fn code(&self) -> &'static str {
        match self {
            Why::QueueFull { .. } => "queue_full",
            Why::QueueTooLong { .. } => "queue_too_long",
            Why::InstanceHours { .. } => "max_instance_hours",
            Why::TenantLimit { .. } => "tenant_limit",
            Why::MaxHolds { .. } => "max_holds",
            Why::TenantHolds { .. } => "tenant_holds",
            Why::ProviderWaits { .. } | Why::ProviderSpent { .. } => "provider_limit",
            Why::HeldBack { .. } => "held_back",
            Why::WaitExpired { .. } => "wait_expired",
            Why::HostDraining => "host_draining",
            Why::PoolDraining => "pool_draining",
            Why::PoolRemoved => "pool_removed",
            Why::NeverFits { .. } => "never_fits",
            Why::MemoryPromised { .. } => "memory_promised",
            Why::MemoryAvailable { .. } => "memory_available",
            Why::Cpu { .. } => "cpu",
            Why::Pids { .. } => "pids",
            Why::Disk { .. } => "disk",
            Why::Inodes { .. } => "disk_inodes",
            Why::MaxInstances { .. } => "max_instances",
            Why::Starts { .. } => "max_starts",
            Why::StartPace { .. } => "start_pace",
            Why::UnderPressure { .. } => "under_pressure",
            Why::CpuPressure { .. } => "cpu_pressure",
            Why::Recovering { .. } => "recovering",
            Why::Backoff { .. } => "starts_failing",
            Why::NoTelemetry(_) => "no_telemetry",
            Why::WithoutTelemetry { .. } => "without_telemetry",
            Why::EngineUnreachable(_) => "engine_unreachable",
            Why::NotRecorded(_) => "not_recorded",
        }
    }

    /// Its numbers, where it has any.
    pub fn figures(&self) -> Option<Figures> {
        let of = |need, have, unit| Some(Figures { need, have, unit });
        match self {
            Why::NeverFits { need, have }
            | Why::MemoryPromised { need, have }
            | Why::MemoryAvailable { need, have }
            | Why::Disk { need, have, .. } => of(need.get(), have.get(), "bytes"),
            Why::Pids { need, have } => of(*need, *have, "pids"),
            Why::Inodes { need, have, .. } => of(*need, *have, "inodes"),
            Why::Cpu { need, have } => of(need.get(), have.get(), "millicores"),
            Why::QueueFull { queued, limit } => of(u64::from(*queued) + 1, u64::from(*limit), "requests"),
            Why::QueueTooLong { estimate, longest } => {
                of(millis(estimate.wait), millis(*longest), "milliseconds")
            }
            Why::TenantLimit { have, limit } => of(u64::from(*have) + 1, u64::from(*limit), "leases"),
            Why::MaxHolds { have, limit, .. } | Why::TenantHolds { have, limit, .. } => {
                of(u64::from(*have) + 1, u64::from(*limit), "holds")
            }
            Why::ProviderWaits { waiting, limit, .. } => {
                of(u64::from(*waiting) + 1, u64::from(*limit), "waits")
            }
            Why::ProviderSpent { .. } => of(1, 0, "permits"),
            Why::HeldBack { have, held } => of(u64::from(*held) + 1, u64::from(*have), "slots"),
            Why::InstanceHours { used, most, .. } => {
                of(used.as_secs() / 60 + 1, most.as_secs() / 60, "instance-minutes")
            }
            Why::MaxInstances { have, limit } | Why::WithoutTelemetry { have, limit, .. } => {
                of(u64::from(*have) + 1, u64::from(*limit), "instances")
            }
            Why::UnderPressure { shortage, .. } => {
                of(shortage.floor.get(), shortage.available.get(), "bytes")
            }
            Why::CpuPressure { have, limit, .. }
            | Why::Recovering { have, limit }
            | Why::StartPace { have, limit, .. }
            | Why::Starts { have, limit } => of(u64::from(*have) + 1, u64::from(*limit), "starts"),
            Why::WaitExpired { .. }
            | Why::HostDraining
            | Why::PoolDraining
            | Why::PoolRemoved
            | Why::Backoff { .. }
            | Why::NoTelemetry(_)
            | Why::EngineUnreachable(_)
            | Why::NotRecorded(_) => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::QueueFull { queued, limit } => {
                write!(f, "max_queued is reached: {queued} of {limit} wait")
            }
            Why::QueueTooLong { estimate, longest } => too_long(f, estimate, *longest),
            Why::TenantLimit { have, limit } => {
                write!(f, "the tenant's max_leases is reached: {have} of {limit}, those that wait included")
            }
            Why::MaxHolds { have, limit, .. } => f.write_str(&all_held("pool", *have, *limit)),
            Why::TenantHolds { have, limit, .. } => f.write_str(&all_held("tenant", *have, *limit)),
            Why::ProviderWaits { provider, waiting, limit, .. } => {
                f.write_str(&crowded(provider, *waiting, *limit))
            }
            Why::ProviderSpent { provider, .. } => f.write_str(&spent(provider)),
            Why::HeldBack { have, held } => {
                write!(f, "{} free, and {held} held back for other classes", many_are(*have, "slot"))
            }
            Why::WaitExpired { waited, blocked_by: None } => write!(f, "waited {}", show_duration(*waited)),
            Why::WaitExpired { waited, blocked_by: Some(why) } => {
                write!(f, "waited {}, and could not start because {why}", show_duration(*waited))
            }
            Why::HostDraining => write!(f, "the host is under a drain and takes no new work"),
            Why::PoolDraining => write!(f, "the pool is under a drain and takes no new work"),
            Why::PoolRemoved => write!(f, "the pool is in the host's profile no more"),
            Why::NeverFits { need, have } => {
                let (need, have) = apart(*need, *have);
                write!(f, "one instance needs {need}, and the host has {have} for containers in all")
            }
            Why::MemoryPromised { need, have } => {
                let (need, have) = apart(*need, *have);
                f.write_str(&unpromised(need, have))
            }
            Why::MemoryAvailable { need, have } => {
                let (need, have) = apart(*need, *have);
                write!(f, "one more needs {need}, and {have} is available above the floor")
            }
            Why::Cpu { need, have } => {
                write!(f, "one more needs {need} cores, and {have} are not promised yet")
            }
            Why::Pids { need, have } => f.write_str(&short_of_pids(*need, *have)),
            Why::Disk { of, need, have } => {
                let (need, have) = apart(*need, *have);
                write!(f, "{have} is free on the disk of {of}, below the disk_floor of {need}")
            }
            Why::Inodes { of, need, have } => {
                write!(f, "{have} inodes are free on the disk of {of}, and {need} should be")
            }
            Why::MaxInstances { have, limit } => {
                write!(f, "max_instances is reached: {have} of {limit}, those being stopped included")
            }
            Why::InstanceHours { used, most, per, returns_in } => {
                let [used, most, per, again] = [used, most, per, returns_in].map(|time| show_duration(*time));
                write!(f, "instances were there for {used} of {most} in {per}, and there is room in {again}")
            }
            Why::Starts { have, limit } => write!(f, "max_starts is reached: {have} of {limit} under way"),
            Why::StartPace { have, limit, strain } => f.write_str(&paced(*have, *limit, *strain)),
            Why::UnderPressure { shortage, .. } => write!(f, "the host is short of memory: {shortage}"),
            Why::CpuPressure { stalled, have, limit } => f.write_str(&busy(*stalled, *have, *limit)),
            Why::Recovering { have, limit } => f.write_str(&returning(*have, *limit)),
            Why::Backoff { failures, last, .. } => {
                write!(f, "{} failed in a row, the last: {last}", many(*failures, "start"))
            }
            Why::NoTelemetry(why) => write!(f, "the host's state is not known: {why}"),
            Why::WithoutTelemetry { unknown, have, limit } => unseen(f, unknown, (*have, *limit)),
            Why::EngineUnreachable(why) => write!(f, "the container engine does not answer: {why}"),
            Why::NotRecorded(why) => write!(f, "records cannot be written: {why}"),
        }
    }
}

fn unpromised(need: String, have: String) -> String {
    format!(
        "one more needs {need} with room for one to grow, and {have} of the host's memory is not promised yet"
    )
}

fn too_long(f: &mut fmt::Formatter<'_>, estimate: &Estimate, longest: Duration) -> fmt::Result {
    let (wait, longest) = (show_duration(estimate.wait), show_duration(longest));
    write!(f, "it would wait for about {wait}, and may for {longest}: {estimate}")
}

fn unseen(f: &mut fmt::Formatter<'_>, unknown: &str, (have, limit): (u32, u32)) -> fmt::Result {
    let may = many(limit, "instance");
    write!(f, "the host's state is not known ({unknown}); without it the pool may have {may}, and has {have}")
}

impl fmt::Display for Estimate {
    /// What it is made of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = show_duration(self.start);
        if self.behind == 0 {
            return write!(
                f,
                "a start is under way for it and takes {start} at most in nineteen of twenty cases"
            );
        }
        let (slots, span) = (many(self.behind, "slot"), show_duration(self.span));
        write!(
            f,
            "{slots} must come free first, {} did in the last {span}, and a start takes {start}",
            self.ends
        )
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn short_of_pids(need: u64, have: u64) -> String {
    format!(
        "one more may make {need} processes and threads, and {have} of what the kernel can have are neither there, \
         promised nor reserved"
    )
}

fn busy(stalled: Permille, have: u32, limit: u32) -> String {
    format!(
        "some task waited for a processor {stalled} of the last 10s, so fewer starts may be: {have} of {limit} under way"
    )
}

fn paced(have: u32, limit: u32, strain: Permille) -> String {
    format!(
        "no more starts at once than this host has shown to make: {have} of {limit} under way, and the last took {strain} \
         of the time of one alone"
    )
}

fn all_held(whose: &str, have: u32, limit: u32) -> String {
    format!("the {whose}'s max_holds is reached: {have} of {limit} wait for a person")
}

fn crowded(provider: &ProviderName, waiting: u32, limit: u32) -> String {
    format!("max_waiting of provider {provider} is reached: {waiting} of {limit} permits are waited for")
}

fn spent(provider: &ProviderName) -> String {
    format!("provider {provider} takes no further call now: its rate is used up, or it throttles")
}

fn returning(have: u32, limit: u32) -> String {
    format!("memory was short lately and stock returns step by step: {have} of {limit} starts under way")
}

/// Two sizes that differ, so finely that they look it.
fn apart(need: Bytes, have: Bytes) -> (String, String) {
    let coarse = (need.to_string(), have.to_string());
    if coarse.0 != coarse.1 || need == have {
        return coarse;
    }
    let mebibytes = |bytes: Bytes| bytes.get() >> 20;
    if mebibytes(need) != mebibytes(have) {
        return (format!("{} MiB", mebibytes(need)), format!("{} MiB", mebibytes(have)));
    }
    (format!("{} B", need.get()), format!("{} B", have.get()))
}

impl fmt::Display for DiskOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiskOf::Engine => "the container engine",
            DiskOf::State => "our own state",
        })
    }
}

impl Level {
    /// Its name in answers.
    pub const fn code(self) -> &'static str {
        match self {
            Level::Calm => "calm",
            Level::Tight => "tight",
            Level::Critical => "critical",
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} available, floor {}", self.available, self.floor)?;
        match self.stalled {
            Some(stalled) if stalled.get() > 0 => write!(f, ", containers stalled {stalled} of the last 10s"),
            Some(_) | None => Ok(()),
        }
    }
}

impl Tier {
    /// Its short name.
    pub const fn code(self) -> &'static str {
        match self {
            Tier::Refill => "refill",
            Tier::Surplus => "surplus",
            Tier::Stock => "stock",
            Tier::PastPromise => "past_promise",
            Tier::Interruptible => "interruptible",
            Tier::Outgrown => "outgrown",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::Refill => "is being started for stock",
            Tier::Surplus => "is warm beyond the stock",
            Tier::Stock => "is warm",
            Tier::PastPromise => "is lent for longer than was agreed at its grant",
            Tier::Interruptible => "is lent by a pool that allows an interruption",
            Tier::Outgrown => "is lent and has furthest outgrown its envelope",
        })
    }
}

/// `1 start`, `2 starts`.
fn many_are(count: u32, what: &str) -> String {
    format!("{} {}", many(count, what), if count == 1 { "is" } else { "are" })
}

fn many(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            // A shell's convention, and the engine's: 128 and the signal's number.
            Some(code @ 129..=192) => write!(f, "signal {}", code - 128),
            Some(code) => write!(f, "exit code {code}"),
            None => write!(f, "nobody saw how"),
        }
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartFailure::ImageMissing(image) => write!(f, "the engine has no image `{image}`"),
            StartFailure::NotReady(why) => write!(f, "{why}"),
            StartFailure::Died(exit) => write!(f, "it ended before it was ready ({exit})"),
            StartFailure::DiedYoung(exit) => write!(f, "it ended soon after it was ready ({exit})"),
            StartFailure::Engine(why) => write!(f, "{why}"),
        }
    }
}

impl End {
    /// The terminal state's name.
    pub const fn code(&self) -> &'static str {
        match self {
            End::Completed => "completed",
            End::Failed(_) => "failed",
            End::Cancelled(_) => "cancelled",
            End::Expired(_) => "expired",
            End::Interrupted(_) => "interrupted",
            End::Refused(_) => "refused",
        }
    }

    /// What of that state it was, as a short name.
    pub const fn reason(&self) -> &'static str {
        match self {
            End::Completed => "released",
            End::Failed(Failure::Died(_)) => "died",
            End::Failed(Failure::OutOfMemory(_)) => "out_of_memory",
            End::Failed(Failure::Vanished) => "vanished",
            End::Failed(Failure::Overran) => "overran",
            End::Cancelled(Cancelled::ByCaller) => "by_caller",
            End::Cancelled(Cancelled::CallerGone) => "caller_gone",
            End::Expired(Deadline::FirstUse) => "first_use_timeout",
            End::Expired(Deadline::Idle) => "idle_timeout",
            End::Expired(Deadline::Runtime) => "max_runtime",
            End::Expired(Deadline::Hold) => "hold",
            End::Interrupted(Interruption::Drain) => "drain",
            End::Interrupted(Interruption::Pressure) => "pressure",
            End::Interrupted(Interruption::HostLost) => "host_lost",
            End::Interrupted(Interruption::PoolRemoved) => "pool_removed",
            End::Refused(why) => why.code(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Completed => write!(f, "its caller released it"),
            End::Failed(Failure::Died(exit)) => write!(f, "its instance ended ({exit})"),
            End::Failed(Failure::OutOfMemory(level)) => {
                write!(f, "the kernel killed its instance {}", level.place())
            }
            End::Failed(Failure::Vanished) => write!(f, "its container vanished"),
            End::Failed(Failure::Overran) => write!(f, "what was run in it went past its limit"),
            End::Cancelled(Cancelled::ByCaller) => write!(f, "its caller took it back"),
            End::Cancelled(Cancelled::CallerGone) => write!(f, "its caller hung up"),
            End::Expired(Deadline::FirstUse) => write!(f, "nobody used it within first_use_timeout"),
            End::Expired(Deadline::Idle) => write!(f, "nobody used it for idle_timeout"),
            End::Expired(Deadline::Runtime) => write!(f, "it ran for max_runtime"),
            End::Expired(Deadline::Hold) => write!(f, "it waited for a person, who did not come in time"),
            End::Interrupted(Interruption::Drain) => write!(f, "the window of a drain was over"),
            End::Interrupted(Interruption::Pressure) => write!(f, "the host was short of memory"),
            End::Interrupted(Interruption::HostLost) => write!(f, "the host went down"),
            End::Interrupted(Interruption::PoolRemoved) => {
                write!(f, "the host profile has its pool no more")
            }
            End::Refused(why) => write!(f, "{why}"),
        }
    }
}

impl LeaseState {
    /// The state's name for callers: a lease under a drain is `draining`, also where it waits for a person.
    pub const fn code(&self) -> &'static str {
        match self {
            LeaseState::Queued { starting: false, .. } => "queued",
            LeaseState::Queued { starting: true, .. } => "starting",
            LeaseState::Executing { draining: None, hold: None, permits, .. } if permits.is_empty() => {
                "executing"
            }
            LeaseState::Executing { draining: None, hold: None, .. } => "waiting_for_provider",
            LeaseState::Executing { draining: None, hold: Some(_), .. } => "waiting_for_approval",
            LeaseState::Executing { draining: Some(_), .. } => "draining",
            LeaseState::Ended { end, .. } => end.code(),
        }
    }
}

impl StopReason {
    /// Its short name.
    pub const fn code(self) -> &'static str {
        match self {
            StopReason::Used => "used",
            StopReason::StartFailed => "start_failed",
            StopReason::Died => "died",
            StopReason::OutOfMemory => "out_of_memory",
            StopReason::Outbid => "outbid",
            StopReason::Unanswering => "unanswering",
            StopReason::Aged => "aged",
            StopReason::Surplus => "surplus",
            StopReason::Drain => "drain",
            StopReason::Pressure => "pressure",
            StopReason::Outdated => "outdated",
            StopReason::Removed => "removed",
            StopReason::Unknown => "unknown",
            StopReason::Interrupted => "interrupted",
        }
    }
}

impl OomLevel {
    /// Its short name.
    pub const fn code(self) -> &'static str {
        match self {
            OomLevel::Own => "own",
            OomLevel::Above => "above",
        }
    }

    /// Where that is, in a sentence.
    const fn place(self) -> &'static str {
        match self {
            OomLevel::Own => "at its own limit of memory (memory_max)",
            OomLevel::Above => "for want of memory above it, of all containers or the host",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::Used => "its lease ended",
            StopReason::StartFailed => "its start failed",
            StopReason::Died => "its first process ended",
            StopReason::OutOfMemory => "the kernel killed a process of it",
            StopReason::Outbid => "stock of another pool is worth more",
            StopReason::Unanswering => "it stopped answering",
            StopReason::Aged => "it was warm for max_age",
            StopReason::Surplus => "more are warm than wanted",
            StopReason::Drain => "its pool is drained",
            StopReason::Pressure => "the host is short of memory",
            StopReason::Outdated => "it is of an older template or an earlier boot",
            StopReason::Removed => "its pool is in the profile no more",
            StopReason::Unknown => "it belongs to nobody",
            StopReason::Interrupted => "it was under way when the daemon ended",
        })
    }
}
