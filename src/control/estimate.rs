//! How long a request will wait, as far as that can be known.
//!
//! Think of a counter at which numbers are called: who knows how many are before and how fast they were called lately
//! knows about when, and who has seen no number called knows nothing.
//!
//! ```text
//! wait = start                                            where a start is under way for it
//! wait = behind * span / ends + start                     where leases have to end first, of which `ends` did in `span`
//! ```
//!
//! A class may refuse who would wait for longer than it may (`refuse_early`). That can never hold a pool shut, though
//! whoever is refused makes no lease that could end: refused is only who waits for leases to end, so never one for whom
//! a start is under way or could be made; and while no lease ends the pace fades, and is none after five minutes.
//!
//! Not here: when a refused caller should come back (`advice`), which takes the same pace.

use std::time::Duration;

use super::Controller;
use super::admission;
use super::budget::Promised;
use super::message::{Acquire, Estimate, Why};
use super::pool::Pool;
use crate::profile::{Class, ClassName};
use crate::quantity::Instant;

impl Pool {
    /// What the one that is served as the `rank`-th of those that wait has still to wait for, where so many of them have
    /// a start and this is in the way of the rest.
    pub(super) fn estimate(
        &self,
        now: Instant,
        rank: u32,
        coming: u32,
        in_the_way: Option<&Why>,
    ) -> Option<Estimate> {
        let start = self.demand.seen_start_p95();
        if rank <= coming {
            return start.map(|start| Estimate { wait: start, start, ..Estimate::default() });
        }
        if in_the_way.is_some_and(|why| !why.ends_with_leases()) {
            return None;
        }
        let (ends, span) = self.ends.lately(now)?;
        let (behind, start) = (rank - coming, start.unwrap_or_default());
        let wait = (span.saturating_mul(behind) / ends).saturating_add(start);
        Some(Estimate { wait, behind, ends, span, start })
    }
}

impl Controller {
    /// Why a request need not wait, where its class refuses early: it would wait for longer than it may.
    pub(super) fn too_long(
        &self,
        request: &Acquire,
        first: Instant,
        (name, class): (&ClassName, &Class),
        longest: Duration,
    ) -> Option<Why> {
        if !class.refuse_early {
            return None;
        }
        let pool = &self.pools[&request.pool];
        let place = (first.after(class.target_wait), u64::MAX);
        let rank = pool.queue.rank_of(name, &request.tenant, place);
        let sum = || self.promised();
        let asked = self.asked(pool, (0, false, Promised::default()), &sum);
        // What is startable and held back for others is not for this one.
        let startable = if pool.may_have(name) { admission::startable(&asked) } else { 0 };
        let coming = pool.counts.starting.saturating_add(startable);
        let objection = if pool.may_have(name) { asked.objection() } else { None };
        let estimate = pool.estimate(self.now, rank, coming, objection.as_ref())?;
        (estimate.behind > 0 && estimate.wait > longest).then_some(Why::QueueTooLong { estimate, longest })
    }
}

impl Why {
    /// Whether it is over when leases have ended.
    const fn ends_with_leases(&self) -> bool {
        match self {
            Why::MemoryPromised { .. }
            | Why::MemoryAvailable { .. }
            | Why::Cpu { .. }
            | Why::Pids { .. }
            | Why::MaxInstances { .. }
            | Why::WithoutTelemetry { .. }
            | Why::HeldBack { .. } => true,
            Why::QueueFull { .. }
            | Why::QueueTooLong { .. }
            | Why::WaitExpired { .. }
            | Why::HostDraining
            | Why::PoolDraining
            | Why::PoolRemoved
            | Why::NeverFits { .. }
            | Why::TenantLimit { .. }
            | Why::MaxHolds { .. }
            | Why::TenantHolds { .. }
            | Why::ProviderWaits { .. }
            | Why::ProviderSpent { .. }
            | Why::InstanceHours { .. }
            | Why::Disk { .. }
            | Why::Inodes { .. }
            | Why::Starts { .. }
            | Why::StartPace { .. }
            | Why::Backoff { .. }
            | Why::UnderPressure { .. }
            | Why::CpuPressure { .. }
            | Why::Recovering { .. }
            | Why::NoTelemetry(_)
            | Why::EngineUnreachable(_)
            | Why::NotRecorded(_) => false,
        }
    }
}
