//! What the kernel does where memory is at its end: it kills a process, and says at which level the end was.

use crate::quantity::Bytes;

/// Counts of one container's cgroup, from its beginning; they only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kills {
    /// Processes of it that the kernel has killed for want of memory, wherever it was wanting.
    pub processes: u64,
    /// How often its own limit was reached, as far as is known: where that has not grown with a kill, a limit above was.
    pub own_limit: u64,
}

/// Where memory was at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OomLevel {
    /// At the instance's own limit, `memory_max`: it wanted more than it may have.
    Own,
    /// Above it, of all containers or of the host: it may be that others wanted more.
    Above,
}

/// The kernel killed processes of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oom {
    /// Where memory was at its end.
    pub level: OomLevel,
    /// How many it killed since the look before.
    pub processes: u64,
    /// What the instance holds after it, where that is known.
    pub held: Option<Bytes>,
}

impl Kills {
    /// What the kernel has done since an earlier look, if anything.
    pub fn since(self, before: Kills) -> Option<(OomLevel, u64)> {
        let processes = self.processes.saturating_sub(before.processes);
        let level = if self.own_limit > before.own_limit { OomLevel::Own } else { OomLevel::Above };
        (processes > 0).then_some((level, processes))
    }
}
