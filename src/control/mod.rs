//! THE BRAIN: pure, decides, never acts.
//!
//! ```text
//!              Input                    Output
//! measure ---> Sample                   Start, Stop, Probe, Adopt ---> docker
//! docker  ---> Listed, Instance         Reclaim, Ceilings         ---> the kernel, systemd
//! api     ---> Call, HungUp             Reply                     ---> api
//! store   ---> Recovered, Recorded      Record                    ---> store
//! daemon  ---> Ceilings                 Tell                      ---> journal
//! clock   ---> Tick
//! ```
//!
//! The controller has three verbs. [`Controller::handle`] takes one word and the time; after it,
//! [`Controller::poll_output`] is called until it is empty, and [`Controller::wake`] says when to come back
//! if nothing else happens, and for what. Outputs are carried out in their order. [`Controller::summary`] says how it
//! stands, for who shows it between questions.
//!
//! Invariants: no clock, no chance, no IO, no async in here; equal inputs give equal outputs. What must be
//! true of the whole stands in [`check`](Controller::check), and is looked at after every word in debug
//! builds and in the simulator. Our own mistakes are asserted; what the world does is handled.
//!
//! Deliberately absent: traits for the outside, callbacks, how records are kept.

mod admission;
mod advice;
mod budget;
mod calls;
mod ceiling;
mod check;
mod degrade;
mod demand;
mod drain;
mod ending;
mod envelope;
mod estimate;
mod explain;
mod fortune;
mod governor;
mod hold;
mod host;
mod hours;
mod lease;
mod made;
pub mod message;
mod news;
mod pace;
mod permits;
mod placement;
mod pool;
mod pressure;
mod queue;
mod records;
mod recover;
mod relief;
mod reload;
mod scaling;
mod settle;
mod shares;
mod stock;
mod tasks;
mod timer;
mod view;
pub mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use self::ceiling::Ceiling;
use self::drain::Drain;
use self::host::Belief;
use self::lease::Lease;
use self::message::{CallId, Event, Input, InstanceId, LeaseId, Output, Reply, Tenant, What};
use self::pace::Pace;
use self::permits::Governor;
use self::pool::Pool;
use self::records::Records;
use self::relief::Relief;
use self::tasks::Tasks;
use self::timer::{Timer, Timers};
use crate::profile::{self, HostProfile, PoolName, ProviderName};
use crate::quantity::{Bytes, Instant};

/// Everything the daemon knows and decides, in one place and without a clock.
#[derive(Debug)]
pub struct Controller {
    profile: HostProfile,
    name: String,
    run: u32,
    since: Instant,
    now: Instant,
    /// Starts ordered so far; the names of instances are counted from it.
    ordered: u32,
    belief: Belief,
    pools: BTreeMap<PoolName, Pool>,
    /// The pool of each instance that exists.
    homes: BTreeMap<InstanceId, PoolName>,
    leases: BTreeMap<LeaseId, Lease>,
    /// How many leases of each tenant go on or wait.
    tenants: BTreeMap<Tenant, u32>,
    tasks: Tasks,
    /// Ended leases, oldest end first.
    ended: VecDeque<LeaseId>,
    /// Calls that wait for an answer, and the lease they wait for.
    calls: BTreeMap<CallId, LeaseId>,
    /// Containers that were listed and belong to nobody, and when they were first seen.
    strangers: BTreeMap<InstanceId, Instant>,
    /// External providers, each with those that wait for it.
    providers: BTreeMap<ProviderName, Governor>,
    drain: Option<Drain>,
    /// How many starts may be at once.
    pace: Pace,
    relief: Relief,
    ceiling: Ceiling,
    records: Records,
    timers: Timers,
    out: VecDeque<Output>,
}

impl Controller {
    /// A controller of an empty host with this name; `run` tells this run's instances from an earlier one's.
    pub fn new(profile: HostProfile, name: String, run: u32, now: Instant) -> Controller {
        let pools = profile
            .pools
            .iter()
            .map(|(name, spec)| (name.clone(), Pool::new(name.clone(), spec.clone())))
            .collect();
        let governor = |(name, spec)| (ProviderName::clone(name), Governor::new(name, spec, now));
        let providers = profile.providers.iter().map(governor).collect();
        let mut timers = Timers::default();
        timers.set(Timer::Telemetry, Belief::unknown_at(now));
        Controller {
            profile,
            name,
            run,
            since: now,
            now,
            ordered: 0,
            belief: Belief::new(),
            pools,
            homes: BTreeMap::new(),
            leases: BTreeMap::new(),
            tenants: BTreeMap::new(),
            tasks: Tasks::default(),
            ended: VecDeque::new(),
            calls: BTreeMap::new(),
            strangers: BTreeMap::new(),
            providers,
            drain: None,
            pace: Pace::new(),
            relief: Relief::default(),
            ceiling: Ceiling::new(),
            records: Records::default(),
            timers,
            out: VecDeque::new(),
        }
    }

    /// Takes one word. A time that lies before the last one counts as the last one.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.step(now, input);
        if cfg!(debug_assertions)
            && let Err(broken) = self.check()
        {
            panic!("{broken}");
        }
    }

    /// As [`Controller::handle`], for who looks at [`Controller::check`] itself.
    pub(crate) fn step(&mut self, now: Instant, input: Input) {
        self.now = now.max(self.now);
        self.pools.values_mut().for_each(|pool| pool.add_hours(self.now));
        match input {
            Input::Tick => {}
            Input::Sample(sample) => self.take_sample(*sample),
            Input::Looked(id, seen) => self.take_use(id, seen),
            Input::Listed(listing) => self.take_listing(&listing),
            Input::Engine(engine) => self.take_engine(engine),
            Input::Instance(id, news) => self.take_news(id, news),
            Input::Active(lease, at) => self.take_activity(&lease, at),
            Input::Call(call, asked) => self.take_call(call, asked),
            Input::HungUp(call) => self.take_hang_up(call),
            Input::Ceilings(heard) => self.take_ceilings(heard),
            Input::Recovered(recovered) => self.take_recovered(*recovered),
            Input::Recorded(upto) => self.take_recorded(upto),
            Input::RecordFailed(upto, why) => self.take_record_failed(upto, &why),
        }
        self.settle();
    }

    /// The next thing to do or say.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When to call [`Controller::handle`] with a tick if nothing else happens, and what is due then.
    pub fn wake(&self) -> Option<(Instant, &'static str)> {
        self.timers.next()
    }

    /// The pool as an instance was made from, for as long as it is there.
    pub fn made_of(&self, instance: InstanceId) -> Option<&Arc<profile::Pool>> {
        let pool = &self.pools[self.homes.get(&instance)?];
        pool.instances.get(&instance).map(|instance| &instance.made)
    }

    /// The description that a pool's next instance is made from.
    pub fn spec_of(&self, pool: &PoolName) -> Option<&Arc<profile::Pool>> {
        self.pools.get(pool).map(|pool| &pool.spec)
    }

    /// What one instance of each pool's newest template is expected to need, and how many lives have taught that; for who
    /// keeps books of its own.
    pub(crate) fn envelopes(&self) -> impl Iterator<Item = (PoolName, Bytes, u32)> {
        self.pools.values().map(|pool| (pool.name.clone(), pool.expected.usual, pool.learned.lives()))
    }

    fn reply(&mut self, call: CallId, reply: Reply) {
        self.calls.remove(&call);
        match &reply {
            Reply::Lease(_) | Reply::Leases(_) | Reply::ExplainLease(_) | Reply::Use { .. } => {
                self.say_recorded(Output::Reply(call, reply));
            }
            Reply::Pools(_)
            | Reply::Permit(_)
            | Reply::Providers(_)
            | Reply::Explain(_)
            | Reply::Host(_)
            | Reply::Reloaded(_)
            | Reply::Refused(_) => {
                self.out.push_back(Output::Reply(call, reply));
            }
        }
    }

    fn tell(&mut self, what: What, pool: Option<&PoolName>, instance: Option<InstanceId>) {
        let event = Event { what, pool: pool.cloned(), instance, lease: None, tenant: None };
        self.out.push_back(Output::Tell(event));
    }

    fn tell_of_lease(&mut self, what: What, lease: &LeaseId, instance: Option<InstanceId>) {
        let (pool, tenant) = match self.leases.get(lease) {
            Some(lease) => (Some(lease.pool.clone()), Some(lease.tenant.clone())),
            None => (None, None),
        };
        self.out.push_back(Output::Tell(Event { what, pool, instance, lease: Some(lease.clone()), tenant }));
    }

    fn pool(&mut self, name: &PoolName) -> &mut Pool {
        self.pools.get_mut(name).expect("a pool is there as long as anything names it")
    }
}
