//! The bars of a workload's run: figures that no workload may bring over what they are held against.
//!
//! ```text
//! surplus     warm ones stopped as too many <= growth of the largest stock of 300 s + requests that waited and left
//! innocent    instances killed for what others held                                                     <= 0
//! idle        seconds in which somebody waits, one more would fit, and nothing starts                   <= 0
//! share       time in which a class that waits has less than is guaranteed, of slots that are there     <= R
//! wait        of each request, those included that wait still, are refused or leave <= R + ceil(i*T/g) * R + lacked
//! ```
//!
//! R is the longest that a lease was seen to have its slot, with its start; i how many of its tenant waited in its class, T how
//! many tenants of that class there were, g the slots that are guaranteed to it (`control`'s `shares`). The promise holds while
//! the pool has its guaranteed slots: the time in which somebody waited and it had not is *lacked*.
//!
//! They are looked at once a second, from outside: the host as it is modelled, callers as they wait, pools as an operator
//! sees them. One more *fits* where it would even if all that is there came to its limit, so that memory that is only
//! expected excuses nobody. What goes wrong excuses what waits, and so does a host below its floor, until it has been
//! over for [`RECOVERS`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::Serialize;

use super::World;
use super::callers::Asked;
use super::tally::Waiting;
use super::workload::{Happens, Workload};
use crate::control::message::{PoolView, Tenant, Why};
use crate::profile::{ClassName, PoolName};
use crate::quantity::{Bytes, Instant};

/// All is as before so long after something went wrong: the longest that a level of pressure outlasts its cause.
const RECOVERS: Duration = Duration::from_secs(300);
/// Stock is kept for so long.
const KEPT: Duration = Duration::from_secs(300);
/// The longest wait between two tries of starts that fail.
const BACKOFF: Duration = Duration::from_secs(60);
/// What a look once a second, and words on their way, may be off.
const LOOK: Duration = Duration::from_secs(3);

/// A figure, and the most that it may be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bar {
    /// Its name.
    pub name: &'static str,
    /// What was found: a count, or seconds.
    pub figure: f64,
    /// The most that it may be.
    pub most: f64,
    /// Where it was found, if anything was: a pool, with a class and a tenant.
    pub at: Option<String>,
}

impl Bar {
    /// Whether the figure is no more than it may be.
    pub fn holds(&self) -> bool {
        self.figure <= self.most
    }
}

/// What is noted for the bars.
#[derive(Debug, Default)]
pub(super) struct Books {
    pools: BTreeMap<PoolName, OfPool>,
    waits: BTreeMap<Waiting, Wait>,
    /// How many of them each tenant has in a class of a pool.
    rows: BTreeMap<(PoolName, ClassName, Tenant), u64>,
    /// When something was last not as it should be.
    troubled_at: Option<Instant>,
    idle: u64,
    idle_at: Option<String>,
    share: Worst,
    wait: Worst,
    /// Since when at each look somebody has waited for longer than its class's `target_wait`, the longest such time, and when
    /// it was last so.
    late_since: Option<Instant>,
    pub(super) late_longest: Duration,
    pub(super) late_last: Option<Instant>,
}

/// A time that came nearest to what it may be, or went furthest beyond.
#[derive(Debug, Default)]
struct Worst {
    found: Option<(Duration, Duration, String)>,
}

#[derive(Debug, Default)]
struct OfPool {
    /// The stocks of the last 300 s that none later exceeded.
    stocks: VecDeque<(Instant, u32)>,
    /// By how much the largest of them has grown.
    grown: u64,
    /// Since when somebody waits and nothing starts though it would fit.
    idle_since: Option<Instant>,
    /// How long somebody has waited while the pool had fewer slots than are guaranteed.
    lacked: Duration,
    /// The longest that a lease had its slot.
    longest: Duration,
    short_since: BTreeMap<ClassName, Instant>,
    tenants: BTreeMap<ClassName, BTreeSet<Tenant>>,
}

/// A request that waits.
#[derive(Debug)]
struct Wait {
    pool: PoolName,
    class: ClassName,
    tenant: Tenant,
    number: u64,
    lacked: Duration,
}

impl Worst {
    fn note(&mut self, found: Duration, most: Duration, at: impl FnOnce() -> String) {
        let share = |found: Duration, most: Duration| found.as_secs_f64() / most.as_secs_f64().max(1e-3);
        let worse =
            |(before, its, _): &(Duration, Duration, String)| share(found, most) > share(*before, *its);
        if self.found.as_ref().is_none_or(worse) {
            self.found = Some((found, most, at()));
        }
    }

    fn bar(&self, name: &'static str) -> Bar {
        let (found, most, at) = match &self.found {
            Some((found, most, at)) => (*found, *most, Some(at.clone())),
            None => (Duration::ZERO, Duration::ZERO, None),
        };
        Bar { name, figure: found.as_secs_f64(), most: most.as_secs_f64(), at }
    }
}

impl OfPool {
    /// The stock is this now.
    fn stock(&mut self, now: Instant, stock: u32) {
        let largest = |stocks: &VecDeque<(Instant, u32)>| stocks.front().map_or(0, |(_, stock)| *stock);
        let before = largest(&self.stocks);
        while self.stocks.back().is_some_and(|(_, earlier)| *earlier <= stock) {
            self.stocks.pop_back();
        }
        self.stocks.push_back((now, stock));
        self.grown += u64::from(largest(&self.stocks).saturating_sub(before));
        while self.stocks.front().is_some_and(|(at, _)| now.since(*at) > KEPT) {
            self.stocks.pop_front();
        }
    }
}

impl Books {
    /// Somebody begins to wait.
    pub(super) fn asked(
        &mut self,
        request: Waiting,
        (pool, class, tenant): (&PoolName, &ClassName, &Tenant),
    ) {
        let row = self.rows.entry((pool.clone(), class.clone(), tenant.clone())).or_default();
        *row += 1;
        let number = *row;
        // Those that ask together are heard in any order: each may be the last of them.
        let together = self.waits.range_mut((request.0, 0)..=(request.0, u32::MAX)).map(|(_, wait)| wait);
        let own = |wait: &&mut Wait| wait.pool == *pool && wait.class == *class && wait.tenant == *tenant;
        together.filter(own).for_each(|wait| wait.number = number);
        let its = self.pools.entry(pool.clone()).or_default();
        its.tenants.entry(class.clone()).or_default().insert(tenant.clone());
        let (pool, class, tenant) = (pool.clone(), class.clone(), tenant.clone());
        self.waits.insert(request, Wait { pool, class, tenant, number, lacked: its.lacked });
    }

    /// It waits no more, whatever came of it.
    pub(super) fn answered(&mut self, request: Waiting, now: Instant, guaranteed: u32) {
        if let Some(wait) = self.waits.remove(&request) {
            let row = (wait.pool.clone(), wait.class.clone(), wait.tenant.clone());
            *self.rows.get_mut(&row).expect("it waited in it") -= 1;
            self.note_wait(&wait, now.since(request.0), guaranteed);
        }
    }

    fn note_wait(&mut self, wait: &Wait, waited: Duration, guaranteed: u32) {
        let Wait { pool, class, tenant, number, lacked } = wait;
        let its = &self.pools[pool];
        let tenants = its.tenants[class].len() as u64;
        if guaranteed == 0 {
            return; // Where classes take turns there is no bound.
        }
        let turns = (number * tenants).div_ceil(u64::from(guaranteed));
        let turns = u32::try_from(turns).unwrap_or(u32::MAX);
        let bound = its.longest.saturating_mul(turns.saturating_add(1));
        let bound = bound.saturating_add(its.lacked.saturating_sub(*lacked)).saturating_add(LOOK);
        self.wait.note(waited, bound, || format!("{pool}, class {class}, tenant {tenant}"));
    }

    /// For so long no pool had what it should.
    pub(super) fn lack(&mut self, now: Instant, lasting: Duration) {
        self.troubled_at = Some(now);
        for pool in self.pools.values_mut() {
            pool.lacked = pool.lacked.saturating_add(lasting);
        }
    }

    /// Whether at this look somebody has waited for longer than expected.
    pub(super) fn note_late(&mut self, now: Instant, late: bool) {
        if late {
            let since = *self.late_since.get_or_insert(now);
            self.late_longest = self.late_longest.max(now.since(since));
            self.late_last = Some(now);
        } else {
            self.late_since = None;
        }
    }

    /// The daemon began anew, and its stock with it.
    pub(super) fn anew(&mut self) {
        self.pools.values_mut().for_each(|pool| pool.stocks.clear());
    }

    /// What came of it, with the counts of instances that are kept elsewhere.
    pub(super) fn bars(&self, surplus: u64, left: u64, innocent: u64) -> Vec<Bar> {
        let float = |many: u64| super::workload::in_float(many);
        let grown: u64 = self.pools.values().map(|pool| pool.grown).sum();
        vec![
            Bar { name: "surplus", figure: float(surplus), most: float(grown + left), at: None },
            Bar { name: "innocent", figure: float(innocent), most: 0.0, at: None },
            Bar { name: "idle", figure: float(self.idle), most: 0.0, at: self.idle_at.clone() },
            self.share.bar("share"),
            self.wait.bar("wait"),
        ]
    }
}

impl World {
    /// The pools were looked at: what is to be held against bars is noted.
    pub(super) fn note_bars(&mut self, pools: &[PoolView]) {
        let (now, memory) = (self.now, self.memory);
        let floor = self.profile.host.floor.of(memory);
        let low = self.available() < floor.saturating_add(Bytes::new(floor.get() / 8));
        let fits: Vec<bool> = pools.iter().map(|pool| self.would_fit(pool, pools)).collect();
        let starting: u32 = pools.iter().map(|pool| pool.starting).sum();
        let leased = self.engine.keeps.values().filter_map(|keep| {
            let modelled = keep.modelled.as_ref()?;
            let had =
                now.since(modelled.lent_at?).saturating_add(modelled.start).saturating_add(modelled.stop);
            Some((keep.pool.clone()?, had))
        });
        let leased: Vec<_> = leased.collect();
        let Some(play) = &mut self.play else { return };
        let books = &mut play.tally.bars;
        if low || self.down || self.store.full || is_troubled(&play.workload, now) {
            books.troubled_at = Some(now);
        }
        let calm = books.troubled_at.is_none_or(|at| now.since(at) > RECOVERS);
        for (pool, had) in leased {
            let its = books.pools.entry(pool).or_default();
            its.longest = its.longest.max(had);
        }
        for (pool, fits) in pools.iter().zip(fits) {
            let its = books.pools.entry(pool.name.clone()).or_default();
            its.stock(now, pool.stock);
            note_idle((its, &mut books.idle, &mut books.idle_at), pool, calm && fits && starting == 0);
            note_share((its, &mut books.share), pool, calm);
        }
    }

    /// Whether one more of this pool would have room, were all that is there at its limit, and all that other pools are asked for:
    /// one that is late reserves what it needs. Slack is kept beside.
    fn would_fit(&self, pool: &PoolView, pools: &[PoolView]) -> bool {
        let Some(play) = &self.play else { return false };
        let many = |pool: &PoolView| u64::from(pool.starting + pool.warm + pool.leased + pool.stopping);
        let host = &self.profile.host;
        let spare = |spec: &crate::profile::Pool| spec.template.memory_max.saturating_sub(spec.memory_expect);
        let slack = self.profile.pools.values().map(spare).max().unwrap_or_default();
        let (mut memory, mut cpu, mut outside) = (slack.get(), 0, 0);
        for other in pools {
            let Some(spec) = self.profile.pools.get(&other.name) else { return false };
            let more = if other.name == pool.name { 1 } else { other.queued };
            let many = many(other) + u64::from(more);
            memory += many * spec.template.memory_max.get();
            cpu += many * spec.template.cpus.get();
            outside += many * play.workload.machine.overhead.get();
        }
        let cores = self.cores.saturating_sub(host.reserve_cpu).scaled(host.cpu_overcommit);
        let least = host.floor.of(self.memory).get() + outside + memory.saturating_sub(self.held().get());
        many(pool) < u64::from(pool.max_instances)
            && self.calls_are_taken(&pool.name)
            && cpu <= cores.get()
            && play.ceiling.is_some_and(|ceiling| memory <= ceiling.get())
            && self.available().get() >= least
    }

    /// Whether the provider that this pool needs is not waited for by as many as may: it starts nothing then.
    fn calls_are_taken(&self, pool: &PoolName) -> bool {
        let provider = self.profile.pools[pool].provider.as_ref();
        let waiting = self.open.values().filter(|open| matches!(open.asked, Asked::Permit(..))).count();
        provider.is_none_or(|name| waiting < self.profile.providers[name].max_waiting as usize)
    }

    /// Those who wait still are held to it, too.
    pub(super) fn bars(&mut self) -> Vec<Bar> {
        let (now, profile) = (self.now, self.profile.clone());
        let tally = &mut self.play.as_mut().expect("a workload was played").tally;
        for (request, wait) in std::mem::take(&mut tally.bars.waits) {
            let guaranteed =
                profile.pools[&wait.pool].classes.get(&wait.class).map_or(0, |its| its.guaranteed);
            tally.bars.note_wait(&wait, now.since(request.0), guaranteed);
        }
        let left: u64 = tally.classes.values().map(|class| class.gave_up).sum();
        let expired = tally.refusals.iter().filter(|((code, _), _)| *code == "wait_expired");
        let left = left + expired.map(|(_, many)| *many).sum::<u64>();
        let surplus = tally.unused.get("surplus").copied().unwrap_or(0);
        tally.bars.bars(surplus, left, tally.kills.innocent)
    }
}

/// Whether something of the file goes wrong now; what comes after a suspend comes so much later.
fn is_troubled(workload: &Workload, now: Instant) -> bool {
    let slept = |before: Duration| -> Duration {
        let sleeps = workload.events.iter().filter(|event| event.what == Happens::Sleep && event.at < before);
        sleeps.map(|event| event.lasts).sum()
    };
    workload.events.iter().any(|event| {
        let begins = Instant::BOOT.after(event.at).after(slept(event.at));
        begins <= now && now <= begins.after(event.lasts)
    })
}

fn note_idle((its, idle, at): (&mut OfPool, &mut u64, &mut Option<String>), pool: &PoolView, may: bool) {
    let waits = pool.classes.iter().any(|class| {
        let others = pool.classes.iter().filter(|other| other.class != class.class);
        let held: u32 = others.map(|other| other.hold_back.saturating_sub(other.leased)).sum();
        class.waiting > 0 && pool.leased + held < pool.max_instances
    });
    let now = pool.seen_at;
    let since = if may && waits && pool.drain.is_none() {
        its.idle_since.unwrap_or(now)
    } else {
        its.idle_since = None;
        return;
    };
    its.idle_since = Some(since);
    let backoff = matches!(pool.blocked_by, Some(Why::Backoff { .. }));
    let excused = if backoff { BACKOFF } else { Duration::ZERO };
    if now.since(since) > excused {
        *idle += 1;
        at.get_or_insert_with(|| format!("{} at {now}, {:?}", pool.name, pool.blocked_by));
    }
}

fn note_share((its, worst): (&mut OfPool, &mut Worst), pool: &PoolView, calm: bool) {
    let guaranteed: u32 = pool.classes.iter().map(|class| class.guaranteed).sum();
    let has = pool.starting + pool.warm + pool.leased >= guaranteed;
    if !has && pool.queued > 0 {
        its.lacked = its.lacked.saturating_add(Duration::from_secs(1));
    }
    for class in &pool.classes {
        let short = class.waiting > 0 && class.leased < class.guaranteed;
        if !(calm && has && short && pool.drain.is_none()) {
            its.short_since.remove(&class.class);
            continue;
        }
        let since = *its.short_since.entry(class.class.clone()).or_insert(pool.seen_at);
        let (found, most) = (pool.seen_at.since(since), its.longest.saturating_add(LOOK));
        worst.note(found, most, || format!("{}, class {}", pool.name, class.class));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(seconds))
    }

    fn names() -> (PoolName, ClassName, Tenant) {
        (PoolName::new("p"), ClassName::new("c"), Tenant("t".into()))
    }

    /// Waits of so many seconds that were asked for one after the other, on one guaranteed slot that is had for ten at most.
    fn waits(lengths: &[u64]) -> Bar {
        let mut books = Books::default();
        let (pool, class, tenant) = names();
        for number in 0..lengths.len() {
            books.asked((at(number as u64), 0), (&pool, &class, &tenant));
        }
        books.pools.get_mut(&pool).unwrap().longest = Duration::from_secs(10);
        for (number, length) in lengths.iter().enumerate() {
            books.answered((at(number as u64), 0), at(number as u64 + length), 1);
        }
        books.bars(0, 0, 0).pop().unwrap()
    }

    #[test]
    fn a_wait_is_held_to_the_bound_of_its_place() {
        assert!(waits(&[20, 30, 40]).holds());
        let bar = waits(&[20, 34, 40]);
        assert!(!bar.holds() && bar.figure == 34.0 && bar.most == 33.0, "{bar:?}");
    }

    #[test]
    fn stock_that_came_and_went_within_its_time_has_grown_once() {
        let mut pool = OfPool::default();
        (0..100).for_each(|second| pool.stock(at(second), if second % 2 == 0 { 2 } else { 9 }));
        assert_eq!(pool.grown, 9);
        pool.stock(at(500), 2);
        pool.stock(at(501), 6);
        assert_eq!(pool.grown, 13, "the nine are forgotten, and two were there");
        let books = Books { pools: [(names().0, pool)].into(), ..Books::default() };
        let surplus = |many| books.bars(many, 2, 0)[0].holds();
        assert!(surplus(15) && !surplus(16));
    }

    #[test]
    fn one_that_is_killed_for_others_is_one_too_many() {
        let innocent = |many| Books::default().bars(0, 0, many)[1].holds();
        assert!(innocent(0) && !innocent(1));
    }
}
