//! What the judge says of leases that wait for a person.

use std::time::Duration;

use super::sees::hold;
use super::{Found, Judge, Known};
use crate::control::message::{Event, LeaseId, What, Why};
use crate::profile::Holds;

impl Judge {
    pub(super) fn see_hold(&mut self, event: &Event) -> Found {
        let lease = event.lease.as_ref().ok_or("a hold of no lease")?;
        let known = self.leases.get(lease).ok_or("a hold of an unknown lease")?;
        hold(known.granted.is_some() && !known.ended, || format!("{lease} is held and is {known:?}"))?;
        if let What::LeaseHeld(lasting, _) = &event.what {
            return self.see_held(lease, *lasting);
        }
        if let What::HoldRefused(why) = &event.what {
            return self.see_hold_refused(lease, why);
        }
        let What::LeaseResumed(after) = &event.what else { return Err(format!("{event:?} is no hold")) };
        let (now, resumed) = (self.now, known.resumed);
        let since = known.hold.map(|(since, _)| since);
        let right = resumed && since.is_some_and(|since| now.since(since) == *after);
        hold(right, || format!("{lease} is resumed after {after:?} and was held since {since:?}"))?;
        self.touch(lease, now);
        self.mark(lease, |known| (known.hold, known.resumed) = (None, false));
        self.watch(lease);
        Ok(())
    }

    fn see_held(&mut self, lease: &LeaseId, lasting: Duration) -> Found {
        let (now, known) = (self.now, &self.leases[lease]);
        let since = known.hold.map_or(now, |(since, _)| since);
        let asked = known.hold_asked.ok_or_else(|| format!("nobody has asked that {lease} be held"))?;
        // What holds for a pool that the profile has no more, the profile does not say.
        if let Some(holds) = self.holds_of(known) {
            let until = now.after(asked.unwrap_or(holds.timeout)).min(since.after(holds.longest));
            hold(until.since(now) == lasting, || format!("{lease} is held for {lasting:?}: {known:?}"))?;
            let (of_pool, of_tenant, most) = self.count_holds(known);
            let more = known.hold.is_none();
            let right = !more || (of_pool < holds.most && most.is_none_or(|most| of_tenant < most));
            hold(right, || {
                format!("{lease} is held beside {of_pool} of its pool, {of_tenant} of its tenant")
            })?;
        }
        self.touch(lease, now);
        self.mark(lease, |known| (known.hold, known.hold_asked) = (Some((since, now.after(lasting))), None));
        self.watch(lease);
        Ok(())
    }

    fn see_hold_refused(&self, lease: &LeaseId, why: &Why) -> Found {
        let known = &self.leases[lease];
        let (of_pool, of_tenant, most) = self.count_holds(known);
        let right = if let Why::MaxHolds { have, .. } = why {
            *have == of_pool && self.holds_of(known).is_none_or(|holds| of_pool >= holds.most)
        } else if let Why::TenantHolds { have, .. } = why {
            *have == of_tenant && most.is_some_and(|most| of_tenant >= most)
        } else {
            false
        };
        hold(right && known.hold.is_none(), || format!("{lease} may not be held for {why:?}: {known:?}"))
    }

    fn holds_of(&self, known: &Known) -> Option<Holds> {
        self.profile.pools.get(&known.pool).map(|pool| pool.holds)
    }

    /// How many leases of its pool and of its tenant wait for a person, and how many of the tenant's may.
    fn count_holds(&self, known: &Known) -> (u32, u32, Option<u32>) {
        let held = || self.live.iter().map(|id| &self.leases[id]).filter(|other| other.hold.is_some());
        let of_pool = held().filter(|other| other.pool == known.pool).count();
        let of_tenant = held().filter(|other| other.request.tenant == known.request.tenant).count();
        let count = |many| u32::try_from(many).expect("they are few");
        let most = self.profile.limits_of(&known.request.tenant.0).max_holds;
        (count(of_pool), count(of_tenant), most)
    }
}
