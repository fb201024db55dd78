//! What the judge says of external providers: never too many calls, nobody who waits too long, and too many who wait.
//!
//! It knows nothing of throttling: whatever callers report, the provider's rate and burst are the most.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sees::hold;
use super::{Found, Judge, Known, LAG};
use crate::control::message::{CallId, LeaseId, Permit};
use crate::profile::{HostProfile, PoolName, Provider, ProviderName};
use crate::quantity::Instant;

/// The judge's books of providers.
#[derive(Debug, Default)]
pub(super) struct Books {
    waiting: BTreeMap<CallId, Wait>,
    rates: BTreeMap<ProviderName, Rate>,
}

/// A permit that was asked for and not answered.
#[derive(Debug)]
struct Wait {
    lease: LeaseId,
    provider: ProviderName,
    asked_at: Instant,
    deadline: Instant,
}

/// What may be given at most: time that has not been used up by permits.
#[derive(Debug)]
struct Rate {
    unused: Duration,
    at: Instant,
    /// How many may wait; more for a while, where a reload has lowered it.
    waits: u32,
}

impl Books {
    /// A daemon has died, and who waited with it.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Another profile holds: what was unused of a rate may count for more by another.
    pub(super) fn renew(&mut self, profile: &HostProfile, now: Instant) {
        for (name, spec) in &profile.providers {
            let before = self.rates.get(name).map_or(0, |rate| rate.waits);
            let rate = Rate { unused: full(spec), at: now, waits: before.max(spec.max_waiting) };
            self.rates.insert(name.clone(), rate);
        }
    }

    fn many(&self, provider: &ProviderName) -> u32 {
        let its = self.waiting.values().filter(|wait| wait.provider == *provider);
        u32::try_from(its.count()).expect("they are few")
    }
}

fn full(spec: &Provider) -> Duration {
    spec.rate.interval() * spec.burst
}

impl Judge {
    pub(super) fn hear_permit(&mut self, call: CallId, asked: (&LeaseId, &ProviderName, Option<Duration>)) {
        let (now, (lease, provider, wait)) = (self.now, asked);
        let Some(spec) = self.profile.providers.get(provider) else { return };
        let deadline = now.after(wait.unwrap_or(spec.max_wait).min(spec.max_wait));
        self.touch(lease, now);
        let (lease, provider) = (lease.clone(), provider.clone());
        self.permits.waiting.insert(call, Wait { lease, provider, asked_at: now, deadline });
    }

    /// A wait is over, for whatever reason: its lease is idle from now on.
    pub(super) fn leave_permit(&mut self, call: CallId) {
        if let Some(wait) = self.permits.waiting.remove(&call) {
            self.touch(&wait.lease, self.now);
            self.watch(&wait.lease);
        }
    }

    /// Whether a lease waits for a permit: it is not idle.
    pub(super) fn waits_for_permit(&self, known: &Known) -> bool {
        self.permits.waiting.values().any(|wait| wait.lease == known.request.lease)
    }

    pub(super) fn see_permit(&mut self, call: CallId, permit: &Permit) -> Found {
        let now = self.now;
        let wait = self.permits.waiting.get(&call).ok_or("a permit for nobody")?;
        let right = wait.provider == permit.provider
            && now.since(wait.asked_at) == permit.waited
            && now <= wait.deadline;
        hold(right, || format!("{permit:?} is given to {wait:?}"))?;
        self.leave_permit(call);
        let spec = self.profile.providers.get(&permit.provider);
        let spec = spec.ok_or_else(|| format!("{permit:?} is given, and there is no such provider"))?;
        let new = || Rate { unused: full(spec), at: now, waits: spec.max_waiting };
        let rate = self.permits.rates.entry(permit.provider.clone()).or_insert_with(new);
        let unused = rate.unused.saturating_add(now.since(rate.at)).min(full(spec));
        let left = unused.checked_sub(spec.rate.interval());
        (rate.unused, rate.at) = (left.unwrap_or_default(), now);
        hold(left.is_some(), || {
            format!("{permit:?} is one more than {} and a burst of {}", spec.rate, spec.burst)
        })
    }

    /// A lease of this pool is granted: not while as many as may wait for the provider that it needs.
    pub(super) fn see_gate_of_provider(&self, pool: &PoolName) -> Found {
        let spec = self.profile.pools.get(pool);
        let Some(name) = spec.and_then(|pool| pool.provider.as_ref()) else { return Ok(()) };
        let (waiting, limit) = (self.permits.many(name), self.profile.providers[name].max_waiting);
        hold(waiting < limit, || format!("{pool} lends, and {waiting} of {limit} wait for {name}"))
    }

    pub(super) fn rest_of_permits(&mut self) -> Found {
        let now = self.now;
        for wait in self.permits.waiting.values() {
            hold(now <= wait.deadline.after(LAG), || format!("{wait:?} goes on at {now}"))?;
        }
        for (name, spec) in &self.profile.providers {
            let many = self.permits.many(name);
            if let Some(rate) = self.permits.rates.get_mut(name) {
                rate.waits = if many <= spec.max_waiting { spec.max_waiting } else { rate.waits };
            }
            let most = self.permits.rates.get(name).map_or(spec.max_waiting, |rate| rate.waits);
            hold(many <= most, || format!("{many} wait for {name}, {most} may"))?;
        }
        Ok(())
    }
}
