//! The equations in numbers, and one pool over time: what the rules make of it, and what those that look right would.

use super::*;
use crate::control::demand;
use crate::control::message::{LeaseId, Tenant};
use crate::control::queue::Waiting;
use crate::profile::{HostProfile, check};

fn at(millis: u64) -> Instant {
    Instant::BOOT.after(Duration::from_millis(millis))
}

fn class() -> ClassName {
    ClassName::new("interactive")
}

fn profile(pool: &str) -> HostProfile {
    let text = format!("[pool.p]\nkind = 'sandbox'\nimage = 'i'\nmax_instances = 400\n{pool}");
    check("host.toml", &text).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Half a job a second of 8 s, 240 queued service-seconds to be worked off in a minute, at 70 %: twelve slots.
#[test]
fn the_example_comes_out() {
    let (incoming, backlog) = (0.5 * 8.0, 30.0 * part(8.0, Duration::from_secs(60)));
    assert_eq!((incoming, backlog), (4.0, 4.0));
    assert_eq!(estimated(incoming, backlog, 0.7), 12);
    // The same from arrivals, ends and a queue.
    let profile = profile("warm = { min = 0, max = 100 }\nexpect_runtime = '8s'");
    let pool = &profile.pools["p"];
    let (mut demand, mut queue, mut plan) = (Demand::default(), Queue::default(), Plan::default());
    for step in 0..600 {
        demand.arrived(at(step * 2000), &class(), runtime(pool));
    }
    for lease in 0..30 {
        let (class, tenant) = (class(), Tenant("a".into()));
        let waiting = Waiting { lease: LeaseId(lease.to_string().into()), class, tenant, asked: at(0) };
        queue.join(waiting, at(lease));
    }
    plan.refresh(at(1_199_000), &demand, pool, &profile.classes);
    let terms = plan.terms(pool, &queue, 0);
    assert!((3.9..=4.0).contains(&plan.incoming), "{}", plan.incoming);
    assert_eq!((terms.backlog, terms.estimated), (4.0, 12));
    // All 12 are there or on their way, for those that wait: what is warm beside covers arrivals during a start.
    assert_eq!(terms.stock, plan.cover);
}

#[test]
fn cover_is_the_quantile_of_its_distribution() {
    // Tables of the Poisson distribution: P(D >= 9) = 0.021 and P(D >= 8) = 0.051 at 4, P(D >= 3) = 0.014 at 0.5.
    assert_eq!(cover(4.0, 1.0, 0.05, 100), 9);
    assert_eq!(cover(4.0, 1.0, 0.052, 100), 8);
    assert_eq!(cover(0.5, 1.0, 0.05, 100), 3);
    // Geometric: mean 1 and variance 2, so P(D >= k) = 0.5^k, and 0.5^5 = 0.031.
    assert_eq!(cover(1.0, 2.0, 0.05, 100), 5);
    assert!(cover(4.0, 4.0, 0.05, 100) > cover(4.0, 1.0, 0.05, 100));
    // Where none is next to impossible: near the mean and 1.64 deviations, not at the end.
    assert!((1050..1060).contains(&cover(1000.0, 1.0, 0.05, 4000)), "{}", cover(1000.0, 1.0, 0.05, 4000));
    for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert!(cover(odd, 1.0, 0.05, 7) <= 7, "{odd}");
        assert!(cover(1.0, odd, 0.05, 7) <= 7, "{odd}");
        let _ = estimated(odd, odd, odd);
    }
    assert_eq!(cover(9.0, 1.0, 0.05, 0), 0);
}

#[test]
fn each_waiting_request_is_one_start_and_stock_comes_on_top() {
    for (queued, stock, warm, starting, start, stop) in [
        (0, 2, 2, 0, 0, 0),
        (0, 2, 1, 0, 1, 0),
        (3, 2, 0, 1, 4, 0),
        (0, 1, 4, 0, 0, 3),
        (0, 1, 0, 3, 0, 0), // those under way are let finish
        (0, 1, 1, 2, 0, 0), // and the warm one stays until one of them is warm, too
        (2, 0, 0, 2, 0, 0),
        (0, 0, 1, 5, 0, 1),
    ] {
        assert_eq!(starts_wanted(queued, stock, warm, starting), start);
        assert_eq!(surplus(queued, stock, warm), stop);
    }
}

#[test]
fn what_was_wanted_is_held_for_five_minutes() {
    let mut held = Held::default();
    for (second, stock, largest) in [
        (0, 3, 3),
        (10, 7, 7),
        (20, 5, 7),
        (200, 2, 7),
        (310, 1, 7),
        (311, 1, 5),
        (321, 1, 2),
        (501, 1, 1),
        (502, 9, 9),
    ] {
        held.note(at(second * 1000), stock);
        assert_eq!(held.largest(), largest, "at {second} s");
    }
    assert!(held.stocks.len() <= 2);
}

/// A rule for how many starts are wanted and how many warm ones are stopped.
trait Rule {
    fn decide(&mut self, pool: &Model, now: Instant) -> (u32, u32);
}

/// One pool: starts take two seconds, and every request has an instance of its own.
#[derive(Default)]
struct Model {
    demand: Demand,
    queue: Queue,
    places: VecDeque<(Instant, u64)>,
    starting: Vec<u64>,
    warm: u32,
    running: Vec<u64>,
    created: u32,
    unused: u32,
    waited: u32,
    largest: u32,
}

const START_MS: u64 = 2000;

impl Model {
    /// Runs until `until`; `jobs` are when each arrives and how long it runs, in order, in milliseconds.
    fn run(&mut self, jobs: &[(u64, u64)], until: u64, pool: &Pool, rule: &mut dyn Rule) {
        let mut jobs = jobs.iter().copied().peekable();
        let mut lengths = VecDeque::new();
        for now in (0..until).step_by(100) {
            let due = |ends: &mut Vec<u64>| {
                let before = ends.len();
                ends.retain(|end| *end > now);
                before - ends.len()
            };
            for _ in 0..due(&mut self.running) {
                self.demand.returned(at(now), &class(), true);
            }
            let ready = due(&mut self.starting);
            (0..ready).for_each(|_| self.demand.started(Duration::from_millis(START_MS)));
            self.warm += u32::try_from(ready).unwrap();
            while let Some((_, length)) = jobs.next_if(|(at, _)| *at <= now) {
                self.demand.arrived(at(now), &class(), runtime(pool));
                let lease = LeaseId(now.to_string().into());
                let waiting = Waiting { lease, class: class(), tenant: Tenant("a".into()), asked: at(now) };
                self.places.push_back(self.queue.join(waiting, at(now)));
                lengths.push_back(length);
                self.waited += u32::from(self.warm < self.queue.len());
            }
            while self.warm > 0
                && let Some(place) = self.places.pop_front()
            {
                self.queue.serve(place);
                self.warm -= 1;
                self.demand.lent(at(now), &class());
                self.running.push(now + lengths.pop_front().unwrap());
            }
            let (start, stop) = rule.decide(self, at(now));
            let stop = stop.min(self.warm);
            (self.warm, self.unused) = (self.warm - stop, self.unused + stop);
            self.created += start;
            self.starting.extend((0..start).map(|_| now + START_MS));
            let all = self.warm as usize + self.starting.len() + self.running.len();
            self.largest = self.largest.max(u32::try_from(all).unwrap());
        }
    }

    fn live(&self) -> u32 {
        self.warm + u32::try_from(self.starting.len() + self.running.len()).unwrap()
    }
}

/// The rule of this module.
struct Ours<'a> {
    profile: &'a HostProfile,
    plan: Plan,
    held: Held,
    stock: u32,
}

impl<'a> Ours<'a> {
    fn new(profile: &'a HostProfile) -> Ours<'a> {
        Ours { profile, plan: Plan::default(), held: Held::default(), stock: 0 }
    }
}

impl Rule for Ours<'_> {
    fn decide(&mut self, model: &Model, now: Instant) -> (u32, u32) {
        let pool = &self.profile.pools["p"];
        self.plan.touch();
        self.plan.refresh(now, &model.demand, pool, &self.profile.classes);
        let leased = u32::try_from(model.running.len()).unwrap();
        let stock = self.plan.terms(pool, &model.queue, leased).stock;
        self.stock = self.stock.max(stock);
        self.held.note(now, stock);
        let queued = model.queue.len();
        let starting = u32::try_from(model.starting.len()).unwrap();
        (starts_wanted(queued, stock, model.warm, starting), surplus(queued, self.held.largest(), model.warm))
    }
}

/// The rule that looks right: the whole is held at the largest total of the last five minutes.
struct TotalHeld<'a>(Ours<'a>, Held);

impl Rule for TotalHeld<'_> {
    fn decide(&mut self, model: &Model, now: Instant) -> (u32, u32) {
        let pool = &self.0.profile.pools["p"];
        self.0.plan.touch();
        self.0.plan.refresh(now, &model.demand, pool, &self.0.profile.classes);
        let leased = u32::try_from(model.running.len()).unwrap();
        let terms = self.0.plan.terms(pool, &model.queue, leased);
        self.1.note(now, (leased + model.queue.len() + terms.stock).max(terms.estimated));
        let total = self.1.largest();
        (total.saturating_sub(model.live()), model.live().saturating_sub(total))
    }
}

/// Numbers that look random enough: the high bits of a linear congruence (Knuth's MMIX).
fn draws() -> impl Iterator<Item = f64> {
    let next = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((*state >> 11) as f64 / (1u64 << 53) as f64)
    };
    let mut state = 7;
    std::iter::from_fn(move || next(&mut state))
}

/// Independent arrivals at this rate a second, each with this length.
fn poisson(rate: f64, seconds: u64, length_ms: u64) -> Vec<(u64, u64)> {
    let mut now = 0.0;
    draws()
        .map(|draw| {
            now += -(1.0 - draw).ln() / rate * 1000.0;
            (u64::from(demand::whole(now)), length_ms)
        })
        .take_while(|(at, _)| *at < seconds * 1000)
        .collect()
}

/// Fifty jobs at once, and then nobody: what is made is the jobs and the stock. A total that is held replaces each that was
/// claimed, for nobody.
#[test]
fn only_removal_is_held_back() {
    let profile = profile("warm = { min = 0, max = 60 }\nexpect_runtime = '8s'");
    let jobs: Vec<_> = (0..50).map(|job| (job * 100, 8000)).collect();
    let (mut model, mut ours) = (Model::default(), Ours::new(&profile));
    model.run(&jobs, 1_500_000, &profile.pools["p"], &mut ours);
    assert!(model.created <= 50 + ours.stock, "{} made for 50 jobs, stock {}", model.created, ours.stock);
    assert_eq!((model.live(), model.queue.len()), (0, 0), "all of it ends");

    let mut held = Model::default();
    held.run(&jobs, 1_500_000, &profile.pools["p"], &mut TotalHeld(Ours::new(&profile), Held::default()));
    assert!(
        held.created >= model.created + 50,
        "the other rule makes {}, ours {}",
        held.created,
        model.created
    );
}

/// One request of ten minutes is one request, however the last seconds look.
#[test]
fn one_long_job_is_no_flood() {
    let profile = profile("warm = { min = 0, max = 200 }\nexpect_runtime = '10m'");
    let pool = &profile.pools["p"];
    let mut demand = Demand::default();
    demand.arrived(at(1000), &class(), runtime(pool));
    let mut plan = Plan::default();
    plan.refresh(at(1000), &demand, pool, &profile.classes);
    assert!(plan.terms(pool, &Queue::default(), 1).stock <= 4, "{plan:?}");
    // With the rate of the last seconds, one in six of them, it would be a hundred and more.
    assert!(estimated(600.0 / 6.0, 0.0, 0.7) > 100);
}

/// With independent arrivals no more than the wanted part waits for a start, once a start's time is known.
#[test]
fn hardly_anybody_waits_for_a_start() {
    let profile = profile("warm = { min = 1, max = 40 }\nexpect_runtime = '8s'\nmiss_target = '5%'");
    let jobs = poisson(1.0, 3600, 8000);
    let (mut model, mut ours) = (Model::default(), Ours::new(&profile));
    model.run(&jobs, 4_500_000, &profile.pools["p"], &mut ours);
    let many = u32::try_from(jobs.len()).unwrap();
    assert!(model.waited * 20 <= many, "{} of {many} waited", model.waited);
    assert!(model.created <= many + ours.stock, "{} made for {many}, stock {}", model.created, ours.stock);
    assert_eq!(model.live(), 1, "warm.min is left");
}

/// Demand that goes up and down by a little makes nothing and ends nothing.
#[test]
fn small_changes_of_demand_end_nothing() {
    let profile = profile("warm = { min = 1, max = 40 }\nexpect_runtime = '8s'");
    let jobs: Vec<_> = (0..600).map(|job| (job * 2000 + (job % 3) * 500, 8000)).collect();
    let (mut model, mut ours) = (Model::default(), Ours::new(&profile));
    model.run(&jobs, 1_200_000, &profile.pools["p"], &mut ours);
    assert_eq!(model.unused, 0, "stock is stopped while demand goes on");
}

/// Two classes, one of a second and one of an hour: each with its own rate. The mean of both says neither.
#[test]
fn classes_are_summed_and_not_averaged() {
    let profile = profile("warm = { min = 0, max = 400 }\nmax_runtime = '2h'");
    let pool = &profile.pools["p"];
    let (short, long) = (ClassName::new("interactive"), ClassName::new("batch"));
    let mut demand = Demand::default();
    for second in 0..3600u64 {
        demand.arrived(at(second * 1000), &short, runtime(pool));
        demand.lent(at(second * 1000), &short);
        demand.returned(at(second * 1000 + 1000), &short, true);
    }
    demand.arrived(at(3_600_000), &long, runtime(pool));
    let mut plan = Plan::default();
    plan.refresh(at(3_600_000), &demand, pool, &profile.classes);
    assert!(
        (1.5..3.0).contains(&plan.incoming),
        "one slot for the short, one for the one just come: {}",
        plan.incoming
    );
}
