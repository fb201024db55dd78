//! Who holds how much, and what the host has for them.
//!
//! Two pictures of the same memory. The *ledger* adds what every instance may come to need and what outlived its
//! container, compares it with what the kernel lets all containers have, and leaves *slack* for one instance,
//! whichever may outgrow its expectation the furthest, to grow to its limit without another being killed:
//!
//! ```text
//! limit    = total - reserve - max_instances * overhead        the slice's hard ceiling (`ceiling`)
//! ledger     sum + residual + new + slack  <=  limit           slack = max(memory_max - envelope)
//!                                                              residual = max(0, slice's hard - sum of hard)
//! measured   available - floor - growth  >=  new + overhead    and the same below the ceiling, without overhead:
//!            limit - slice's hard - growth  >=  new
//! ```
//!
//! The first holds even if all grow to what is expected and one beyond. The *measured* one begins with what the
//! kernel says there is now, on the host and below the ceiling, and takes away what the instances have still to
//! grow: it holds even if somebody outside our containers eats the host. A start must fit both.
//!
//! While the host's figures are unknown, a pool that goes on without them (`without_telemetry`) is held to a ledger of
//! the worst case: the sum of all `memory_max` within the limit of the total that was last seen.
//! Processors and pids have a ledger alone: `sum + new <= what there is for containers`. Of a disk nothing is promised, as
//! nothing is declared of what an instance writes to it; it only must not be nearly full.
//!
//! The sums are taken anew each time a start is wished for: a few hundred additions, and nothing to drift.
//!
//! Not here: the verdict (`admission`).

use super::envelope::Share;
use super::message::{Disk, HostCpu, HostMemory, HostPids, Inodes, SliceMemory};
use crate::profile::{Host, HostProfile, Pool};
use crate::quantity::{Bytes, MilliCpu, Permille};

/// What one instance costs outside its own cgroup: the engine's shim. About 10 MiB each on Docker 20.10.
pub(super) const OVERHEAD: Bytes = Bytes::mib(10);

/// A file system has them for files of 16 KiB and is full of larger ones: two of a hundred are many files still.
const INODES_FLOOR: Permille = Permille::new(20);

/// What is promised to instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Promised {
    /// The ledger's sum.
    pub(super) memory: Bytes,
    /// What of it is not held yet.
    pub(super) growth: Bytes,
    /// What of that will be taken outside the slice.
    pub(super) outside: Bytes,
    /// What the instances hold, as far as that is known.
    pub(super) held: Bytes,
    /// The sum of what each is expected to use of the processors.
    pub(super) cpu: MilliCpu,
    /// The sum of their `pids`.
    pub(super) pids: u64,
    /// The furthest that one of them may outgrow its expectation.
    pub(super) slack: Bytes,
    /// The sum of their `memory_max`: what they come to if all grow to their limits.
    pub(super) most: Bytes,
}

impl Promised {
    /// Adds one instance of this pool that is expected to use so much of the processors.
    pub(super) fn add(&mut self, share: Share, cpu: MilliCpu, pool: &Pool) {
        self.memory = self.memory.saturating_add(share.promised);
        self.held = self.held.saturating_add(share.held);
        self.outside = self.outside.saturating_add(share.outside);
        self.growth = self.growth.saturating_add(share.growth);
        self.cpu = self.cpu.saturating_add(cpu);
        self.pids = self.pids.saturating_add(u64::from(pool.template.pids));
        self.slack = self.slack.max(share.slack);
        self.most = self.most.saturating_add(pool.template.memory_max);
    }

    /// Adds what another pool has promised.
    pub(super) fn join(&mut self, other: Promised) {
        self.memory = self.memory.saturating_add(other.memory);
        self.growth = self.growth.saturating_add(other.growth);
        self.held = self.held.saturating_add(other.held);
        self.outside = self.outside.saturating_add(other.outside);
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.pids = self.pids.saturating_add(other.pids);
        self.slack = self.slack.max(other.slack);
        self.most = self.most.saturating_add(other.most);
    }
}

/// What the host has for containers, in all: also the slice's hard ceiling, so each instance's cost outside the
/// slice is taken off first.
pub(super) fn memory_limit(profile: &HostProfile, memory: &HostMemory) -> Bytes {
    let instances: u64 = profile.pools.values().map(|pool| u64::from(pool.max_instances)).sum();
    let outside = Bytes::new(OVERHEAD.get().saturating_mul(instances));
    memory.total.saturating_sub(profile.host.reserve_memory.of(memory.total)).saturating_sub(outside)
}

/// What the host has, as measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Has<'a> {
    pub(super) profile: &'a HostProfile,
    pub(super) memory: &'a HostMemory,
    pub(super) slice: &'a SliceMemory,
}

impl Has<'_> {
    /// What of the limit is not promised yet, nor held by what outlived its container.
    pub(super) fn unpromised(&self, promised: &Promised) -> Bytes {
        let residual = self.slice.hard.saturating_sub(promised.held);
        let limit = memory_limit(self.profile, self.memory);
        limit.saturating_sub(promised.memory).saturating_sub(residual)
    }

    /// What is available above the floor and below the ceiling, once all have grown as far as they may.
    pub(super) fn spare(&self, promised: &Promised) -> Bytes {
        let above_floor = above_floor(self.profile, self.memory, promised);
        let below_ceiling = memory_limit(self.profile, self.memory).saturating_sub(self.slice.hard);
        // What one more costs outside the slice is no matter of the ceiling.
        let inside = promised.growth.saturating_sub(promised.outside);
        let below_ceiling = below_ceiling.saturating_sub(inside).saturating_add(OVERHEAD);
        above_floor.min(below_ceiling)
    }
}

/// What is available above the floor, once all have grown as far as they may.
pub(super) fn above_floor(profile: &HostProfile, memory: &HostMemory, promised: &Promised) -> Bytes {
    let floor = profile.host.floor.of(memory.total);
    memory.available.saturating_sub(floor).saturating_sub(promised.growth)
}

/// What the processors can still be promised.
pub(super) fn unpromised_cpu(host: &Host, cpu: &HostCpu, promised: &Promised) -> MilliCpu {
    let ours = cpu.cores.saturating_sub(host.reserve_cpu).scaled(host.cpu_overcommit);
    ours.saturating_sub(promised.cpu)
}

/// How many processes and threads containers may have together.
pub(super) fn pids_limit(host: &Host, pids: &HostPids) -> u64 {
    pids.most.saturating_sub(of_many(host.reserve_pids, pids.most))
}

/// How many of them can still be promised: those of the host's own are there, and each instance counts with all that it may
/// make, or with what it has, where what outlived others makes that more.
pub(super) fn unpromised_pids(host: &Host, pids: &HostPids, promised: &Promised) -> u64 {
    let own = pids.there.saturating_sub(pids.ours);
    pids_limit(host, pids).saturating_sub(own).saturating_sub(promised.pids.max(pids.ours))
}

/// What must be free on this disk, and how many of its inodes; none where no floor is wanted.
pub(super) fn disk_floor(host: &Host, disk: &Disk) -> (Bytes, u64) {
    let floor = host.disk_floor.of(disk.total);
    let inodes = disk.inodes.filter(|_| floor > Bytes::ZERO);
    (floor, inodes.map_or(0, |Inodes { total, .. }| of_many(INODES_FLOOR, total)))
}

fn of_many(share: Permille, all: u64) -> u64 {
    share.of(Bytes::new(all)).get()
}
