//! Who holds how much, and what the host has for them.
//!
//! Two pictures of the same memory. The *ledger* adds what every instance may come to need and compares it
//! with the host's total less the reserve, and leaves *slack* for one instance, whichever may outgrow its
//! expectation the furthest, to grow to its limit without another being killed:
//!
//! ```text
//! sum + new + slack <= total - reserve        slack = max(memory_max - memory_expect)
//! ```
//!
//! It holds even if all grow to what is expected and one beyond. The *measured* one begins
//! with what the kernel says is available now and takes away what the instances have still to grow: it
//! holds even if somebody outside our containers eats the host. A start must fit both.
//!
//! The sums are taken anew each time a start is wished for: a few hundred additions, and nothing to drift.
//!
//! Not here: the verdict (`admission`).

use super::envelope::Share;
use super::message::{HostCpu, HostMemory};
use crate::profile::{Host, Pool};
use crate::quantity::{Bytes, MilliCpu};

/// What one instance costs outside its own cgroup: the engine's shim. About 10 MiB each on Docker 20.10.
pub(super) const OVERHEAD: Bytes = Bytes::mib(10);

/// What is promised to instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Promised {
    /// The ledger's sum.
    pub(super) memory: Bytes,
    /// What of it is not held yet.
    pub(super) growth: Bytes,
    /// The sum of their `cpus`.
    pub(super) cpu: MilliCpu,
    /// The furthest that one of them may outgrow its expectation.
    pub(super) slack: Bytes,
}

impl Promised {
    /// Adds one instance of this pool.
    pub(super) fn add(&mut self, share: Share, pool: &Pool) {
        self.memory = self.memory.saturating_add(share.promised).saturating_add(OVERHEAD);
        self.growth = self.growth.saturating_add(share.growth);
        self.cpu = self.cpu.saturating_add(pool.template.cpus);
        self.slack = self.slack.max(slack(pool));
    }

    /// Adds what another pool has promised.
    pub(super) fn join(&mut self, other: Promised) {
        self.memory = self.memory.saturating_add(other.memory);
        self.growth = self.growth.saturating_add(other.growth);
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.slack = self.slack.max(other.slack);
    }
}

/// How far one instance may outgrow what is expected of it.
pub(super) fn slack(pool: &Pool) -> Bytes {
    pool.template.memory_max.saturating_sub(pool.memory_expect)
}

/// What the host has for containers, in all.
pub(super) fn memory_limit(host: &Host, memory: &HostMemory) -> Bytes {
    memory.total.saturating_sub(host.reserve_memory.of(memory.total))
}

/// What of that is not promised yet.
pub(super) fn unpromised(host: &Host, memory: &HostMemory, promised: &Promised) -> Bytes {
    memory_limit(host, memory).saturating_sub(promised.memory)
}

/// What is available above the floor once all have grown as far as they may.
pub(super) fn spare(host: &Host, memory: &HostMemory, promised: &Promised) -> Bytes {
    let above_floor = memory.available.saturating_sub(host.floor.of(memory.total));
    above_floor.saturating_sub(promised.growth)
}

/// What the processors can still be promised.
pub(super) fn unpromised_cpu(host: &Host, cpu: &HostCpu, promised: &Promised) -> MilliCpu {
    let ours = cpu.cores.saturating_sub(host.reserve_cpu).scaled(host.cpu_overcommit);
    ours.saturating_sub(promised.cpu)
}
