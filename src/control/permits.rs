//! Permits: who may call an external provider, and who waits for it.
//!
//! Think of a ferry with few seats: those who wait stand in a row on the quay with their luggage, and when the quay is full
//! the road to it is closed, instead of letting more stand there.
//!
//! A lease asks for a permit before each call. What the provider's rate has (`governor`) is given by promised instants, and
//! within a class tenants take turns, as slots are (`queue`); no class has a share of it. While it waits a lease is not idle,
//! and keeps its instance and memory. It waits on its caller's connection, so nothing of it is written down; it leaves with
//! its caller, with its lease, and at its deadline.
//!
//! A pool may name the provider that its leases need. While as many permits are waited for as may be, or the provider wants to
//! hear nothing, the pool lends nothing and starts nothing: each further lease would hold up memory and wait. The gate opens at
//! an instant that is known, because permits go on being given, and a pause ends.
//!
//! Invariant: each permit that is waited for is in its provider's queue, has a deadline, and is known to its lease.
//!
//! Not here: what a call is, and whether it was made. A caller that does not ask is not held up.

use std::time::Duration;

use super::Controller;
use super::governor::{Bucket, PAUSE_MOST};
use super::lease::State;
use super::message::{CallId, LeaseId, Permit, ProviderTally, ProviderView, Refusal, Reply, What, Why};
use super::pool::Pool;
use super::queue::{Place, Queue, Waiting};
use super::timer::Timer;
use crate::profile::{HostProfile, Provider, ProviderName};
use crate::quantity::Instant;

/// A provider with those that wait for it.
#[derive(Debug)]
pub(super) struct Governor {
    name: ProviderName,
    spec: Provider,
    bucket: Bucket,
    queue: Queue,
    tally: ProviderTally,
}

/// A permit that a lease waits for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) call: CallId,
    pub(super) provider: ProviderName,
    pub(super) asked_at: Instant,
    place: Place,
}

/// What a pool's provider says of lending and starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gate {
    /// The figures of its queue, for who looks.
    pub(super) waits: Why,
    /// Why nothing is lent or started, where that is so.
    pub(super) shut: Option<Why>,
}

impl Controller {
    /// Gives a permit, lets the call wait for one, or refuses it.
    pub(super) fn permit(&mut self, call: CallId, id: &LeaseId, asked: (ProviderName, Option<Duration>)) {
        let (now, (name, wait)) = (self.now, asked);
        let Some(lease) = self.leases.get(id) else {
            return self.reply_no_such(call, id);
        };
        if !matches!(lease.state, State::Executing { .. }) {
            return self.reply_not_executing(call, id);
        }
        let (class, tenant) = (lease.class.clone(), lease.tenant.clone());
        let Some(governor) = self.providers.get_mut(&name) else {
            return self.reply_no_such_provider(call, name);
        };
        let wait = wait.map_or(governor.spec.max_wait, |asked| asked.min(governor.spec.max_wait));
        let deadline = now.after(wait);
        let (permit, refusal) = governor.ask(now, deadline);
        if permit {
            self.take_activity(id, now);
            return self.reply(call, Reply::Permit(Permit { provider: name, waited: Duration::ZERO }));
        }
        if let Some(why) = refusal {
            self.take_activity(id, now);
            return self.refuse_permit(call, id, why);
        }
        let target = self.profile.classes.get(&class).map_or(Duration::ZERO, |class| class.target_wait);
        let waiting = Waiting { lease: id.clone(), class, tenant, asked: now };
        let governor = self.providers.get_mut(&name).expect("it was asked just now");
        let place = governor.queue.join(waiting, now.after(target));
        let lease = self.leases.get_mut(id).expect("it was found");
        lease.permits.push(Wanted { call, provider: name, asked_at: now, place });
        self.calls.insert(call, id.clone());
        self.timers.set(Timer::Permit(call), deadline);
        self.take_activity(id, now);
        let due = self.leases[id].due();
        self.timers.set(Timer::Lease(id.clone()), due);
    }

    /// Takes a wait out, for whatever reason; who waited, and for what. Its lease was busy until now.
    fn leave_permit(&mut self, call: CallId) -> Option<(LeaseId, Wanted)> {
        let id = self.calls.get(&call)?.clone();
        let lease = self.leases.get_mut(&id).expect("a waiting call waits for a lease that exists");
        let at = lease.permits.iter().position(|wanted| wanted.call == call)?;
        let wanted = lease.permits.remove(at);
        self.calls.remove(&call);
        self.timers.clear(&Timer::Permit(call));
        self.take_activity(&id, self.now);
        let lease = &self.leases[&id];
        if !lease.is_over() {
            let due = lease.due();
            self.timers.set(Timer::Lease(id.clone()), due);
        }
        Some((id, wanted))
    }

    /// The caller of a permit that is waited for is gone; whether there was one.
    pub(super) fn give_up_permit(&mut self, call: CallId) -> bool {
        let Some((_, wanted)) = self.leave_permit(call) else { return false };
        let governor = self.providers.get_mut(&wanted.provider).expect("its provider is there");
        governor.queue.leave(wanted.place);
        governor.tally.left = governor.tally.left.saturating_add(1);
        true
    }

    /// A permit was waited for as long as that may be.
    pub(super) fn end_permit(&mut self, call: CallId) {
        let Some((id, wanted)) = self.leave_permit(call) else { return };
        let now = self.now;
        let governor = self.providers.get_mut(&wanted.provider).expect("its provider is there");
        governor.queue.leave(wanted.place);
        let why = governor.spent(now);
        governor.tally.refused = governor.tally.refused.saturating_add(1);
        self.refuse_permit(call, &id, why);
    }

    /// A lease is over, and with it what it waited for.
    pub(super) fn end_permits(&mut self, id: &LeaseId) {
        let calls: Vec<CallId> = self.leases[id].permits.iter().map(|wanted| wanted.call).collect();
        for call in calls {
            self.give_up_permit(call);
            self.reply_not_executing(call, id);
        }
    }

    fn refuse_permit(&mut self, call: CallId, id: &LeaseId, why: Why) {
        let lease = &self.leases[id];
        let (pool, class, instance) = (lease.pool.clone(), lease.class.clone(), lease.instance());
        let degraded_from = lease.degraded_from.clone();
        self.tell_of_lease(What::PermitRefused(why.clone()), id, instance);
        let retry_after = self.retry_after(&pool, id, &why);
        let refusal =
            Refusal::Limit { why, pool, class, retry_after, lease: Some(id.clone()), degraded_from };
        self.reply(call, Reply::Refused(Box::new(refusal)));
    }

    fn reply_no_such_provider(&mut self, call: CallId, name: ProviderName) {
        let known = self.providers.keys().cloned().collect();
        self.reply(call, Reply::Refused(Box::new(Refusal::NoSuchProvider(name, known))));
    }

    /// A provider has throttled a call: it is called less, and comes back by itself.
    pub(super) fn take_throttled(&mut self, call: CallId, name: ProviderName, pause: Option<Duration>) {
        let now = self.now;
        let Some(governor) = self.providers.get_mut(&name) else {
            return self.reply_no_such_provider(call, name);
        };
        governor.bucket.throttled(now, pause);
        governor.tally.throttled = governor.tally.throttled.saturating_add(1);
        let (part, view) = (governor.bucket.part(), governor.view(now));
        let lasting = pause.unwrap_or_default().min(PAUSE_MOST);
        self.tell(What::ProviderThrottled(name, part, lasting), None, None);
        self.reply(call, Reply::Providers(vec![view]));
    }

    pub(super) fn reply_providers(&mut self, call: CallId) {
        let now = self.now;
        let all = self.providers.values().map(|governor| governor.view(now)).collect();
        self.reply(call, Reply::Providers(all));
    }

    /// Gives what permits there are, opens and shuts the gates of pools, and looks again when that may change.
    pub(super) fn settle_providers(&mut self) {
        let now = self.now;
        for name in self.providers.keys().cloned().collect::<Vec<_>>() {
            let governor = self.providers.get_mut(&name).expect("it is listed");
            let was_whole = governor.bucket.is_whole();
            governor.bucket.advance(now);
            if !was_whole && governor.bucket.is_whole() {
                self.tell(What::ProviderBack(name.clone()), None, None);
            }
            self.serve_permits(&name);
            let timer = Timer::Provider(name.clone());
            match self.providers[&name].looks_again(now) {
                Some(at) => self.timers.set(timer, at),
                None => self.timers.clear(&timer),
            }
        }
        self.look_at_gates();
    }

    fn serve_permits(&mut self, name: &ProviderName) {
        let now = self.now;
        loop {
            let governor = self.providers.get_mut(name).expect("it is served");
            let Some(place) = governor.queue.heads().map(|(_, place)| place).min() else { return };
            if !governor.bucket.take(now) {
                return;
            }
            let id = governor.queue.at(place).lease.clone();
            governor.queue.serve(place);
            let its = self.leases[&id].permits.iter().find(|it| it.provider == *name && it.place == place);
            let call = its.expect("who waits for a permit is known to its lease").call;
            let (_, wanted) = self.leave_permit(call).expect("it was found just now");
            let waited = now.since(wanted.asked_at);
            self.providers.get_mut(name).expect("it is served").tally.waits.note(waited);
            self.reply(call, Reply::Permit(Permit { provider: name.clone(), waited }));
        }
    }

    /// What each pool's provider says of lending and starting, as of now.
    pub(super) fn look_at_gates(&mut self) {
        let now = self.now;
        for pool in self.pools.values_mut() {
            let its = pool.spec.provider.as_ref().and_then(|name| self.providers.get(name));
            pool.gate = its.map(|governor| governor.gate(now));
        }
    }

    /// Goes by these providers from now on. What is waited for of one that is gone ends.
    pub(super) fn renew_providers(&mut self, profile: &HostProfile) {
        let now = self.now;
        let gone = |name: &&ProviderName| !profile.providers.contains_key(*name);
        for name in self.providers.keys().filter(gone).cloned().collect::<Vec<_>>() {
            let waiting: Vec<LeaseId> = self.providers[&name].queue.leases().cloned().collect();
            let mut left = Vec::new();
            for id in waiting {
                let its = self.leases[&id].permits.iter().find(|wanted| wanted.provider == name);
                let call = its.expect("who waits for a permit is known to its lease").call;
                self.give_up_permit(call);
                left.push(call);
            }
            self.providers.remove(&name);
            self.timers.clear(&Timer::Provider(name.clone()));
            left.into_iter().for_each(|call| self.reply_no_such_provider(call, name.clone()));
        }
        for (name, spec) in &profile.providers {
            match self.providers.get_mut(name) {
                Some(governor) => {
                    governor.bucket.renew(spec, now);
                    governor.spec = spec.clone();
                }
                None => drop(self.providers.insert(name.clone(), Governor::new(name, spec, now))),
            }
        }
    }
}

impl Governor {
    pub(super) fn new(name: &ProviderName, spec: &Provider, now: Instant) -> Governor {
        Governor {
            name: name.clone(),
            spec: spec.clone(),
            bucket: Bucket::new(spec, now),
            queue: Queue::default(),
            tally: ProviderTally::default(),
        }
    }

    /// Whether there is a permit at once for who asks now, or why it need not wait until then.
    fn ask(&mut self, now: Instant, deadline: Instant) -> (bool, Option<Why>) {
        if self.queue.len() == 0 && self.bucket.take(now) {
            self.tally.waits.note(Duration::ZERO);
            return (true, None);
        }
        let refusal = if self.queue.len() >= self.spec.max_waiting {
            Some(self.waits())
        } else {
            // Where not even the next one is there in time, a wait would only hold up an instance.
            Some(self.spent(now)).filter(|_| self.bucket.opens() > deadline || deadline <= now)
        };
        self.tally.refused = self.tally.refused.saturating_add(u64::from(refusal.is_some()));
        (false, refusal)
    }

    fn waits(&self) -> Why {
        Why::ProviderWaits {
            provider: self.name.clone(),
            waiting: self.queue.len(),
            limit: self.spec.max_waiting,
            until: self.bucket.opens(),
        }
    }

    fn spent(&self, now: Instant) -> Why {
        Why::ProviderSpent { provider: self.name.clone(), until: self.bucket.opens().max(now) }
    }

    fn gate(&self, now: Instant) -> Gate {
        let paused = self.bucket.paused_until(now);
        let shut = if self.queue.len() >= self.spec.max_waiting {
            Some(self.waits())
        } else {
            paused.map(|until| Why::ProviderSpent { provider: self.name.clone(), until })
        };
        Gate { waits: self.waits(), shut }
    }

    /// When something changes by itself: a permit is there for who waits, a pause ends, more of the rate is back.
    fn looks_again(&self, now: Instant) -> Option<Instant> {
        let next = (self.queue.len() > 0).then(|| self.bucket.opens());
        [next, self.bucket.paused_until(now), self.bucket.grows_at()].into_iter().flatten().min()
    }

    fn view(&self, now: Instant) -> ProviderView {
        let mut bucket = self.bucket.clone();
        bucket.advance(now);
        ProviderView {
            name: self.name.clone(),
            rate: self.spec.rate,
            burst: self.spec.burst,
            part: bucket.part(),
            permits: bucket.permits(),
            waiting: self.queue.len(),
            max_waiting: self.spec.max_waiting,
            oldest_wait: self.queue.oldest().map(|asked| now.since(asked)),
            paused_until: bucket.paused_until(now),
            next: bucket.opens(),
            tally: self.tally.clone(),
            seen_at: now,
        }
    }

    /// How many wait, and whether this lease is the one at that place.
    pub(super) fn has(&self, wanted: &Wanted, lease: &LeaseId) -> bool {
        self.queue.holds(wanted.place, lease)
    }

    pub(super) fn waiting(&self) -> u32 {
        self.queue.len()
    }
}

impl Pool {
    /// Why its provider keeps it from lending and starting, where it does.
    pub(super) fn shut(&self) -> Option<&Why> {
        self.gate.as_ref().and_then(|gate| gate.shut.as_ref())
    }
}
