//! Words of memory pressure: its levels, the figures that decided them, and what relief does about it.

use std::time::Duration;

use crate::quantity::{Bytes, Permille};

/// How short of memory the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Not at all.
    #[default]
    Calm,
    /// Less is available than the floor, or the slice stalls at its ceiling.
    Tight,
    /// Less than half of the floor is available, or the slice hardly gets on.
    Critical,
}

/// The figures that moved a level, or that relief acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The level.
    pub level: Level,
    /// MemAvailable.
    pub available: Bytes,
    /// What of it must remain.
    pub floor: Bytes,
    /// The share of the last ten seconds in which all tasks of the slice waited for memory; `None` where
    /// that is not known.
    pub stalled: Option<Permille>,
}

/// Why relief ends just this one; in the order in which they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// It is being started, and nobody waits for it.
    Refill,
    /// It is warm, and more are warm than wanted.
    Surplus,
    /// It is warm.
    Stock,
    /// Its lease runs longer than was agreed when it was granted, and lives on renewals.
    PastPromise,
    /// Its pool allows that a lease is interrupted.
    Interruptible,
    /// It holds more than was expected of it, further than any other; at the critical level alone.
    Outgrown,
}

/// One that relief ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// Why just this one.
    pub tier: Tier,
    /// What it holds; `None` where that is not known.
    pub held: Option<Bytes>,
}

/// What the slice of all containers holds, and how it fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceMemory {
    /// Memory that the kernel cannot take back; what outlived its container included.
    pub hard: Bytes,
}

/// The hard limits on all containers together, as they should stand at the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceilings {
    /// The kernel lets them have no more memory than this.
    pub memory: Bytes,
    /// Their part of busy processors, where the host's other services together have 100.
    pub cpu_weight: u32,
    /// How many processes and threads they have at most; `None` while that is not known, and is left as it is.
    pub pids: Option<u64>,
}

/// Whether the ceilings stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CeilingsView {
    /// Nobody has said so yet.
    Unset,
    /// They stand.
    Stand(Ceilings),
    /// At least one could not be set: which, and why, in one line.
    Refused(String),
}

/// Memory pressure as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PressureView {
    /// The level.
    pub level: Level,
    /// For how long it has been that.
    pub lasting: Duration,
}
