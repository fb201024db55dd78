//! What the judge says of what begins while the host cannot be seen: only what a pool's `without_telemetry` allows.

use super::{BELIEVED, Found, Judge, OVERHEAD};
use crate::control::message::{InstanceId, LeaseId};
use crate::profile::{Pool, PoolName, WithoutTelemetry};
use crate::quantity::{Bytes, MilliCpu};

use super::sees::hold;

impl Judge {
    /// Whether all that starts depend on was read lately.
    pub(super) fn sees(&self) -> bool {
        let host = [
            self.memory.map(|(_, at)| at),
            self.cores.map(|(_, at)| at),
            self.slice,
            self.pids.map(|(_, at)| at),
        ];
        let disks = self.disks.iter().map(|disk| disk.map(|(_, at)| at));
        let disks = disks.filter(|_| !self.profile.host.disk_floor.is_nothing());
        host.into_iter().chain(disks).all(|at| at.is_some_and(|at| self.now.since(at) <= BELIEVED))
    }

    /// A start while the host is not known: never beyond the pool's number, nor beyond what the host was last
    /// seen to have, were all to grow to their limits.
    pub(super) fn see_start_unseen(&self, id: InstanceId, made: &Pool) -> Found {
        let WithoutTelemetry::Slots(most) = made.without_telemetry else {
            return Err(format!("{id} is started and the host is not known"));
        };
        let pool = &self.instances[&id].pool;
        let many = self.there().filter(|seen| seen.pool == *pool).count();
        hold(many <= most as usize, || {
            format!("{pool} has {many} instances, {most} may be while nobody sees")
        })?;
        if let Some((memory, _)) = self.memory {
            let limit = memory.total.saturating_sub(self.profile.host.reserve_memory.of(memory.total));
            let outside: u64 = self.profile.pools.values().map(|pool| u64::from(pool.max_instances)).sum();
            let limit = limit.saturating_sub(Bytes::new(OVERHEAD.get() * outside));
            let all: Bytes = self.there().map(|seen| seen.made.template.memory_max).sum();
            hold(all <= limit, || format!("{all} may come to be held with {id}, of {limit}"))?;
        }
        let Some((cores, _)) = self.cores else { return Ok(()) };
        let host = &self.profile.host;
        let most = cores.saturating_sub(host.reserve_cpu).scaled(host.cpu_overcommit);
        let cpus: MilliCpu = self.there().map(|seen| seen.made.cpus_expect).sum();
        hold(cpus <= most, || format!("{cpus} cores are promised with {id}, of {most}"))
    }

    /// A request is sent on: only by what the pools say, and only while nobody sees.
    pub(super) fn see_degraded(&mut self, lease: &LeaseId, from: &PoolName, to: &PoolName) -> Found {
        hold(!self.sees(), || format!("{lease} is sent on from {from} to {to}, and the host is known"))?;
        let known = self.leases.get_mut(lease).ok_or("nobody asked for what is sent on")?;
        hold(known.granted.is_none() && !known.ended, || format!("{lease} is sent on and is {known:?}"))?;
        let asked = known.degraded_from.get_or_insert(known.pool.clone()).clone();
        hold(asked == *from, || format!("{lease} is sent on from {from}, and {asked} was asked"))?;
        let mut at = known.pool.clone();
        while at != *to {
            match self.profile.pools.get(&at).map(|pool| &pool.without_telemetry) {
                Some(WithoutTelemetry::Use(other)) => at = other.clone(),
                other => return Err(format!("{lease} is sent on to {to}, and {at} says {other:?}")),
            }
        }
        let (of, its) = (&mut known.deadlines, &self.profile.pools[to].deadlines);
        of.max_runtime = of.max_runtime.min(its.max_runtime);
        of.idle_timeout = of.idle_timeout.min(its.idle_timeout);
        of.first_use_timeout = of.first_use_timeout.min(its.first_use_timeout);
        known.pool = to.clone();
        Ok(())
    }
}
