//! Callers, each with a way of its own: patient ones and such that hang up, synchronous and asynchronous
//! ones, some that watch, renew, release twice or cancel, some that run something that cannot be ended, and
//! some that are never heard of again. Who is refused comes back when it was told to.

use std::time::Duration;

use super::visitors::Visit;
use super::{Happening, World};
use crate::control::message::End;
use crate::control::message::{
    Acquire, Call, CallId, HoldFor, Input, LeaseId, LeaseState, LeaseView, Refusal, Reply, TaskId, Tenant,
    WaitFor,
};
use crate::profile::{ClassName, PoolName, ProviderName};
use crate::quantity::Instant;

/// One who asks for an instance, and comes back a few times.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) request: Acquire,
    pub(super) tries: u32,
    /// Whether it has begun to use its lease.
    works: bool,
    /// What it comes for, where it is of a workload.
    pub(super) visit: Option<Visit>,
}

impl Caller {
    /// One of a workload.
    pub(super) fn visitor(request: Acquire, visit: Visit) -> Caller {
        Caller { request, tries: 0, works: false, visit: Some(visit) }
    }
}

/// What a call was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Acquire(u32),
    Watch(u32),
    /// A permit for the next call of this caller, whose work is over at that time.
    Permit(u32, Instant),
    /// Something whose answer nobody acts on.
    Other,
}

/// An unanswered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) asked: Asked,
    /// Whether its caller has gone.
    pub(super) hung: bool,
}

/// What a caller does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Ask,
    HangUp(CallId),
    Watch,
    Use,
    MovesBytes,
    Renew,
    /// Asks for a permit to call the provider.
    Permit,
    /// Lets its lease wait for a person.
    Hold,
    Resume,
    Release,
    Cancel,
    Overrun,
    /// Uses its lease until that time, as callers of a workload do.
    WorksUntil(Instant),
}

impl World {
    /// A new caller comes.
    pub(super) fn arrive(&mut self) {
        let pools: Vec<PoolName> = self.profile.pools.keys().cloned().collect();
        let pool = pools[self.rng.usize(0..pools.len())].clone();
        let class = [None, None, Some("interactive"), Some("batch")][self.rng.usize(0..4)];
        let seconds = |rng: &mut fastrand::Rng, range| Some(Duration::from_secs(rng.u64(range)));
        // So few names that some are used again, and some for something else.
        let named = self.rng.u32(0..3) == 0;
        let task = named.then(|| TaskId(format!("t{}", self.rng.u32(0..12)).into()));
        let request = Acquire {
            lease: LeaseId("".into()),
            pool,
            class: class.map(ClassName::new),
            tenant: Tenant(["a", "b", "c"][self.rng.usize(0..3)].into()),
            task,
            wait: if self.rng.bool() { None } else { seconds(&mut self.rng, 0..=30) },
            asynchronous: self.rng.u32(0..3) == 0,
            max_runtime: if self.rng.bool() { None } else { seconds(&mut self.rng, 1..=60) },
            idle_timeout: if self.rng.bool() { None } else { seconds(&mut self.rng, 1..=30) },
        };
        self.enter(Caller { request, tries: 0, works: false, visit: None });
    }

    /// Somebody new comes, and asks at once.
    pub(super) fn enter(&mut self, caller: Caller) {
        self.last_caller += 1;
        self.callers.insert(self.last_caller, caller);
        self.act(self.last_caller, Act::Ask);
    }

    /// Asks something, and remembers what for.
    pub(super) fn ask(&mut self, call: Call, asked: Asked) -> CallId {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.open.insert(id, Open { asked, hung: false });
        let wait = Duration::from_micros(self.rng.u64(0..2000));
        self.soon(wait, Happening::Word(Input::Call(id, call)));
        id
    }

    fn act_within(&mut self, number: u32, act: Act, millis: std::ops::Range<u64>) {
        let wait = Duration::from_millis(self.rng.u64(millis));
        self.soon(wait, Happening::Act(number, act));
    }

    pub(super) fn act(&mut self, number: u32, act: Act) {
        let Some(caller) = self.callers.get(&number) else {
            return; // It has got what it came for, and gone.
        };
        let lease = caller.request.lease.clone();
        match act {
            Act::Ask if caller.visit.is_some() => self.ask_as_visitor(number),
            Act::WorksUntil(end) => self.work_until(number, end),
            Act::Ask => self.ask_for_lease(number),
            Act::HangUp(call) => {
                if let Some(open) = self.open.get_mut(&call) {
                    open.hung = true;
                    let wait = Duration::from_micros(self.rng.u64(0..2000));
                    self.soon(wait, Happening::Word(Input::HungUp(call)));
                    self.hangs_up(call);
                }
            }
            Act::Watch => {
                let goal = if self.rng.bool() { WaitFor::Executing } else { WaitFor::Ended };
                let until = Some((goal, Duration::from_millis(self.rng.u64(0..8000))));
                let call = self.ask(Call::Get { lease, until }, Asked::Watch(number));
                if self.one_in(self.faults().hang_up) {
                    self.act_within(number, Act::HangUp(call), 0..4000);
                }
            }
            Act::Use => drop(self.ask(Call::Use(lease), Asked::Other)),
            Act::MovesBytes => self.word(Input::Active(lease, self.now)),
            Act::Renew => {
                let by = Duration::from_secs(self.rng.u64(0..90));
                self.ask(Call::Renew(lease, by), Asked::Other);
            }
            Act::Permit => {
                let wait = self.rng.bool().then(|| Duration::from_secs(self.rng.u64(0..20)));
                let call = self.ask(Call::Permit(lease, ProviderName::new("models"), wait), Asked::Other);
                if self.one_in(self.faults().hang_up) {
                    self.act_within(number, Act::HangUp(call), 0..4000);
                }
            }
            Act::Hold => {
                let lasting = self.rng.bool().then(|| Duration::from_secs(self.rng.u64(0..60)));
                self.ask(Call::Hold(lease, HoldFor { reason: "log in".into(), lasting }), Asked::Other);
            }
            Act::Resume => drop(self.ask(Call::Resume(lease), Asked::Other)),
            Act::Release => drop(self.ask(Call::Release(lease), Asked::Other)),
            Act::Cancel => drop(self.ask(Call::Cancel(lease), Asked::Other)),
            Act::Overrun => drop(self.ask(Call::Overran(lease), Asked::Other)),
        }
    }

    fn ask_for_lease(&mut self, number: u32) {
        if self.calm {
            return;
        }
        self.last_lease += 1;
        let lease = LeaseId(format!("L{}", self.last_lease).into());
        let caller = self.callers.get_mut(&number).expect("who acts is there");
        caller.request.lease = lease;
        caller.tries += 1;
        caller.works = false;
        let request = caller.request.clone();
        let call = self.ask(Call::Acquire(request), Asked::Acquire(number));
        if self.one_in(self.faults().hang_up) {
            self.act_within(number, Act::HangUp(call), 0..12_000);
        }
    }

    /// An answer reaches its caller, or finds it gone.
    pub(super) fn take_reply(&mut self, call: CallId, reply: &Reply) {
        let Some(open) = self.open.remove(&call) else {
            return;
        };
        if let Reply::Pools(pools) = reply {
            for why in pools.iter().filter_map(|pool| pool.blocked_by.as_ref()) {
                self.report.limit(why);
            }
            if self.play.is_some() {
                return self.note_pools(pools);
            }
            self.seen_pools = Some(pools.clone());
        }
        match (open.asked, reply) {
            (Asked::Acquire(number), Reply::Lease(view)) => {
                let granted = matches!(view.state, LeaseState::Executing { .. });
                // Some are gone just as their answer leaves.
                if granted && (open.hung || self.one_in(self.faults().hang_up / 10)) {
                    self.report.count("grants undelivered");
                    self.ask(Call::Undelivered(view.id.clone()), Asked::Other);
                } else if !open.hung {
                    self.go_on(number, view);
                }
            }
            (Asked::Permit(number, end), reply) => self.take_permit((number, end), reply),
            (Asked::Watch(number), Reply::Lease(view)) if !open.hung => self.go_on(number, view),
            (Asked::Acquire(number), Reply::Refused(refusal)) => {
                let Refusal::Limit { why, retry_after, .. } = &**refusal else {
                    if let Refusal::OtherTask(..) = &**refusal {
                        self.report.count("tasks confused");
                    }
                    return;
                };
                self.report.limit(why);
                if self.play.is_some() {
                    return self.turn_away(number, why, *retry_after);
                }
                let tries = self.callers[&number].tries;
                if let Some(wait) = retry_after
                    && tries < 3
                    && !open.hung
                {
                    self.soon(*wait, Happening::Act(number, Act::Ask));
                }
            }
            (Asked::Other, Reply::Permit(permit)) => {
                self.report.count("permits");
                if !permit.waited.is_zero() {
                    self.report.count("permits waited for");
                }
                if self.one_in(self.faults().throttles) {
                    let pause = self.rng.bool().then(|| Duration::from_secs(self.rng.u64(0..30)));
                    self.ask(Call::Throttled(permit.provider.clone(), pause), Asked::Other);
                }
            }
            (Asked::Acquire(_) | Asked::Watch(_) | Asked::Other, _) => {}
        }
    }

    /// Whether this caller comes back after it lost its connection.
    pub(super) fn may_ask_again(&self, number: u32) -> bool {
        self.play.is_some() || self.callers[&number].tries < 3
    }

    fn go_on(&mut self, number: u32, view: &LeaseView) {
        let caller = self.callers.get_mut(&number).expect("who is answered is there");
        if caller.request.lease != view.id {
            caller.request.lease = view.id.clone();
            self.report.count("tasks asked for again");
        }
        match &view.state {
            LeaseState::Executing { instance, .. } if self.play.is_some() => self.serve(number, *instance),
            LeaseState::Queued { blocked_by, .. } => {
                if let Some(why) = blocked_by {
                    self.report.limit(why);
                }
                if self.one_in(self.faults().crash) {
                    self.report.count("callers forgot");
                } else if self.rng.u32(0..12) == 0 {
                    let act = if self.rng.bool() { Act::Release } else { Act::Cancel };
                    self.act_within(number, act, 0..3000);
                } else {
                    self.act_within(number, Act::Watch, 0..1000);
                }
            }
            LeaseState::Executing { .. } if !self.callers[&number].works => self.work(number),
            LeaseState::Executing { .. } => {}
            LeaseState::Ended { end, .. } => {
                if let End::Refused(why) = end {
                    self.report.limit(why);
                }
            }
        }
    }

    /// Draws what a caller does with its lease.
    fn work(&mut self, number: u32) {
        self.callers.get_mut(&number).expect("who is served is there").works = true;
        if self.one_in(self.faults().crash) {
            self.report.count("callers crashed");
            if self.rng.bool() {
                self.act_within(number, Act::Use, 0..3000);
            }
            return;
        }
        self.act_within(number, Act::Use, 1..4000);
        let work = [3_000, 10_000, 40_000, 90_000][self.rng.usize(0..4)];
        for _ in 0..self.rng.u32(0..12) {
            let act = if self.rng.u32(0..5) < 2 { Act::Renew } else { Act::MovesBytes };
            self.act_within(number, act, 1..work);
        }
        if self.rng.u32(0..4) == 0 {
            self.act_within(number, Act::Watch, 1..work);
        }
        for _ in 0..self.rng.u32(0..8).saturating_sub(3) {
            self.act_within(number, Act::Permit, 1..work);
        }
        for _ in 0..self.rng.u32(0..8).saturating_sub(5) {
            self.act_within(number, Act::Hold, 1..work);
            if self.rng.bool() {
                self.act_within(number, Act::Resume, 1..work);
            }
        }
        match self.rng.u32(0..12) {
            0 => self.act_within(number, Act::Cancel, 1..work),
            1 => self.act_within(number, Act::Overrun, 1..work),
            2 => {
                self.act_within(number, Act::Release, 1..work);
                self.act_within(number, Act::Release, 1..work);
            }
            _ => self.act_within(number, Act::Release, 1..work),
        }
    }

    /// Somebody looks, or meddles with a lease that is not theirs.
    pub(super) fn peek(&mut self) {
        let lease = LeaseId(format!("L{}", self.rng.u64(0..=self.last_lease + 1)).into());
        let call = match self.rng.u32(0..40) {
            0 => Call::Cancel(lease),
            1 => Call::Release(lease),
            2..=5 => Call::Host,
            6..=9 => Call::Leases,
            10..=17 => Call::Get { lease, until: None },
            18..=19 => Call::ExplainLease(lease),
            20 => Call::Providers,
            _ => Call::Pools,
        };
        self.ask(call, Asked::Other);
    }
}
