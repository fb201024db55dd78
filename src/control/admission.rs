//! May this begin?
//!
//! Two questions at two speeds. A *request* is answered at once: granted, allowed to wait, or refused with
//! the limit that refused it. A *start* is allowed only if every limit leaves room for one more instance,
//! asked in the order in which an operator would want to hear of them: a broken engine or image first, then
//! what the operator set, then what the host has, which takes a sum over all instances.
//!
//! Lending a warm instance needs no memory test: it is in the budget already.
//!
//! `max_queued` bounds who of a tenant waits for somebody else's slot: a host with N slots and a queue of Q takes
//! exactly N + Q requests of one tenant, warm or cold, and no tenant can fill the queue for another. So those do not
//! count for whom a start is under way, or for whom one only waits its turn among `max_starts`; where nothing more can
//! be started, all others count.
//!
//! Not here: which instance (`placement`), how many are wanted (`scaling`).

use std::cell::OnceCell;

use super::budget::{self, OVERHEAD, Promised};
use super::host::Belief;
use super::message::{Disk, DiskOf, Engine, Tenant, Verdict, Why};
use super::pace::Pace;
use super::pool::Pool;
use super::queue;
use super::words::Figures;
use crate::profile::{Class, ClassName, Host, HostProfile};
use crate::quantity::{Bytes, Instant};

/// Who asks.
#[derive(Debug)]
pub(super) struct Who<'a> {
    pub(super) class: (&'a ClassName, &'a Class),
    pub(super) tenant: &'a Tenant,
    /// Whether it wants what is warm or nothing.
    pub(super) no_wait: bool,
}

/// What becomes of a request that has just arrived.
pub(super) fn request(
    pool: &Pool,
    who: &Who<'_>,
    barred: Option<Why>,
    startable: impl FnOnce() -> u32,
) -> Verdict {
    if let Some(why) = barred {
        return Verdict::Refuse(why);
    }
    let (name, class) = who.class;
    // Whoever waits beside a warm one may not have it, so it overtakes nobody.
    if let Some((.., instance)) = pool.ready.first()
        && pool.next().is_none()
        && pool.may_have(name)
    {
        return Verdict::Grant(*instance);
    }
    if who.no_wait {
        let blocked_by = pool.obstacle(name).map(Box::new);
        return Verdict::Refuse(Why::WaitExpired { waited: std::time::Duration::ZERO, blocked_by });
    }
    let all = pool.queue.len();
    if all >= queue::MOST {
        return Verdict::Refuse(Why::QueueFull { queued: all, limit: queue::MOST });
    }
    if pool.queue.own(name, who.tenant) < class.max_queued {
        return Verdict::Wait; // Most are: what could be started needs a sum over all instances.
    }
    let served = pool.counts.starting.saturating_add(startable());
    let queued = pool.queue.own_behind(served, name, who.tenant);
    if queued >= class.max_queued {
        return Verdict::Refuse(Why::QueueFull { queued, limit: class.max_queued });
    }
    Verdict::Wait
}

/// How many more instances of its pool there is room for, were they started one after the other.
pub(super) fn startable(asked: &Asked<'_>) -> u32 {
    let Asked { pool, profile, belief, now, .. } = asked;
    let (memory, cpu) = (belief.memory.reading(*now), belief.cpu.reading(*now));
    let slice = belief.slice.reading(*now);
    let pids = belief.pids.reading(*now);
    let (Ok(memory), Ok(slice), Ok(cpu), Ok(pids)) =
        (memory.known(), slice.known(), cpu.known(), pids.known())
    else {
        return 0;
    };
    // These are no matter of how many.
    if OF_POOL.iter().any(|limit| limit(asked).objection.is_some())
        || disk_trouble(&profile.host, belief, *now).is_some()
    {
        return 0;
    }
    let promised = asked.promised();
    let has = budget::Has { profile, memory, slice };
    let ledger = has.unpromised(promised).saturating_sub(promised.slack.max(pool.expected.slack()));
    let by_ledger = ledger.get().checked_div(pool.expected.usual.get()).unwrap_or(0);
    let memory = by_ledger.min(has.spare(promised).get() / need_of(pool).get());
    let cpu = budget::unpromised_cpu(&profile.host, cpu, promised).get();
    let cpu = cpu.checked_div(pool.cpu_expected.get()).unwrap_or(cpu);
    let pids = budget::unpromised_pids(&profile.host, pids, promised);
    let pids = pids.checked_div(u64::from(pool.spec.template.pids)).unwrap_or(pids);
    // A reload may have lowered the ceiling below what there is.
    let free = pool.spec.max_instances.saturating_sub(pool.total());
    u32::try_from(memory.min(cpu).min(pids)).unwrap_or(u32::MAX).min(free)
}

/// Whether not even an empty host has room for one instance that grows to its limit; `None` also where the
/// host's size is not known.
pub(super) fn never_fits(pool: &Pool, profile: &HostProfile, belief: &Belief, now: Instant) -> Option<Why> {
    let memory = belief.memory.reading(now);
    let have = budget::memory_limit(profile, memory.known().ok()?);
    let need = pool.spec.template.memory_max;
    (need > have).then_some(Why::NeverFits { need, have })
}

/// Whether memory is too short for a request that would need a start: none is warm, and none on its way.
pub(super) fn pressed(pool: &Pool, belief: &Belief, now: Instant) -> Option<Why> {
    let needs_a_start = pool.ready.is_empty() && pool.queue.len() >= pool.counts.starting;
    belief.gauge.objection(now).filter(|_| needs_a_start)
}

/// A start that is wished for, and all that is looked at for it.
pub(super) struct Asked<'a> {
    pub(super) pool: &'a Pool,
    pub(super) profile: &'a HostProfile,
    pub(super) belief: &'a Belief,
    pub(super) now: Instant,
    pub(super) pace: &'a Pace,
    /// Starts of all pools that are under way.
    pub(super) starting: u32,
    /// Whether nobody waits for it.
    pub(super) refill: bool,
    /// What is left to those that are served before.
    pub(super) ahead: Promised,
    /// Why nothing can be written down, where that is so.
    pub(super) unwritten: Option<&'a str>,
    /// What all instances are counted with, summed up only when it is asked for.
    pub(super) promised: OnceCell<Promised>,
    pub(super) sum: &'a dyn Fn() -> Promised,
}

/// One thing that may keep a start back: what it would need and what there is, as far as these are numbers, and whether it
/// does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    /// As [`Why::code`] names it.
    pub(super) name: &'static str,
    pub(super) figures: Option<Figures>,
    pub(super) objection: Option<Why>,
}

/// What keeps a pool from starting any, and the pressure on all.
const OF_POOL: [fn(&Asked<'_>) -> Limit; 6] = [
    |asked| Limit::plain("not_recorded", asked.unwritten.map(|why| Why::NotRecorded(why.to_owned()))),
    |asked| {
        let Engine::Unreachable(why) = &asked.belief.engine else {
            return Limit::plain("engine_unreachable", None);
        };
        Limit::plain("engine_unreachable", Some(Why::EngineUnreachable(why.clone())))
    },
    |asked| {
        let Asked { pool, now, .. } = asked;
        Limit::plain("starts_failing", pool.fortune.objection(*now, pool.counts.starting))
    },
    |asked| {
        let (have, limit) = (asked.pool.total(), asked.pool.spec.max_instances);
        Limit::of(Why::MaxInstances { have, limit }, have >= limit)
    },
    |asked| {
        let Asked { pool, now, .. } = asked;
        let limit = pool.spec.max_instance_hours.map(|budget| pool.hours.limit(*now, budget));
        limit.map_or(Limit::plain("max_instance_hours", None), |(why, reached)| Limit::of(why, reached))
    },
    |asked| Limit::plain("under_pressure", asked.belief.gauge.objection(asked.now)),
];

/// What the host has for so many and no more.
const OF_HOST: [fn(&Asked<'_>) -> Limit; 7] = [
    |asked| {
        let (have, limit) = (asked.starting, asked.profile.host.max_starts);
        Limit::of(Why::Starts { have, limit }, have >= limit)
    },
    |asked| {
        let (why, reached) = asked.pace.limit(asked.starting, asked.profile.host.max_starts);
        Limit::of(why, reached)
    },
    |asked| {
        let starts = (asked.starting, asked.profile.host.max_starts);
        let objection = asked.belief.gauge.objection_to_more(asked.now, starts, asked.refill);
        Limit::plain(objection.as_ref().map_or("cpu_pressure", Why::code), objection)
    },
    |asked| asked.memory("memory_promised", Asked::memory_promised),
    |asked| asked.memory("memory_available", Asked::memory_available),
    |asked| asked.cpu(),
    |asked| asked.pids(),
];

/// Whether the host's disks have room, for however many.
const OF_DISKS: [fn(&Host, &Belief, Instant) -> Limit; 2] = [
    |host, belief, now| {
        disk("disk", (host, belief, now), |of, disk, (need, _)| {
            (Why::Disk { of, need, have: disk.free }, disk.free < need)
        })
    },
    |host, belief, now| {
        disk("disk_inodes", (host, belief, now), |of, disk, (_, need)| {
            let have = disk.inodes.map_or(0, |inodes| inodes.free);
            (Why::Inodes { of, need, have }, have < need)
        })
    },
];

/// A test of each disk, with what of it must be free: the first that fails, else the one with the least to spare. Where nothing
/// must be free nobody needs to know.
fn disk(
    name: &'static str,
    (host, belief, now): (&Host, &Belief, Instant),
    test: impl Fn(DiskOf, &Disk, (Bytes, u64)) -> (Why, bool),
) -> Limit {
    if host.disk_floor.is_nothing() {
        return Limit::plain(name, None);
    }
    let disks = [(DiskOf::Engine, &belief.engine_disk), (DiskOf::State, &belief.state_disk)];
    let [first, second] = disks.map(|(of, disk)| match disk.reading(now).known() {
        Ok(disk) => {
            let (why, reached) = test(of, disk, budget::disk_floor(host, disk));
            Limit::of(why, reached)
        }
        Err(why) => Limit::plain(name, Some(Why::NoTelemetry(format!("disk of {of}: {why}")))),
    });
    let spare = |limit: &Limit| limit.figures.map_or(u64::MAX, |its| its.have.saturating_sub(its.need));
    let second_is_tighter =
        first.objection.is_none() && (second.objection.is_some() || spare(&second) < spare(&first));
    if second_is_tighter { second } else { first }
}

/// Which disk keeps everything from being started, if one does.
pub(super) fn disk_trouble(host: &Host, belief: &Belief, now: Instant) -> Option<Why> {
    OF_DISKS.iter().find_map(|limit| limit(host, belief, now).objection)
}

impl Limit {
    /// One without numbers.
    fn plain(name: &'static str, objection: Option<Why>) -> Limit {
        Limit { name, figures: objection.as_ref().and_then(Why::figures), objection }
    }

    /// One that is reached or not.
    fn of(why: Why, reached: bool) -> Limit {
        Limit { name: why.code(), figures: why.figures(), objection: reached.then_some(why) }
    }
}

impl Asked<'_> {
    /// All limits, in the order in which an operator would want to hear of them.
    pub(super) fn limits(&self) -> impl Iterator<Item = Limit> {
        let disks = OF_DISKS.iter().map(|limit| limit(&self.profile.host, self.belief, self.now));
        OF_POOL.iter().chain(&OF_HOST).map(|limit| limit(self)).chain(disks)
    }

    /// The first thing that keeps it back.
    pub(super) fn objection(&self) -> Option<Why> {
        self.limits().find_map(|limit| limit.objection)
    }

    fn promised(&self) -> &Promised {
        self.promised.get_or_init(self.sum)
    }

    /// One of the two tests of memory, where there is something to test with.
    fn memory(&self, name: &'static str, test: impl Fn(&Self, &budget::Has<'_>) -> (Why, bool)) -> Limit {
        let Asked { pool, profile, belief, now, .. } = self;
        let unknown =
            |what: &str, why: &str| Limit::plain(name, Some(Why::NoTelemetry(format!("{what}: {why}"))));
        let (memory, slice) = (belief.memory.reading(*now), belief.slice.reading(*now));
        let memory = match memory.known() {
            Ok(memory) => memory,
            Err(why) => return unknown("memory", why),
        };
        if let Some(why) = never_fits(pool, profile, belief, *now) {
            return Limit::plain(name, Some(why));
        }
        let slice = match slice.known() {
            Ok(slice) => slice,
            Err(why) => return unknown("memory of all containers", why),
        };
        let (why, reached) = test(self, &budget::Has { profile, memory, slice });
        Limit::of(why, reached)
    }

    fn memory_promised(&self, has: &budget::Has<'_>) -> (Why, bool) {
        let slack = self.promised().slack.max(self.ahead.slack).max(self.pool.expected.slack());
        let need = self.pool.expected.usual.saturating_add(self.ahead.memory).saturating_add(slack);
        let have = has.unpromised(self.promised());
        (Why::MemoryPromised { need, have }, need > have)
    }

    fn memory_available(&self, has: &budget::Has<'_>) -> (Why, bool) {
        let need = need_of(self.pool).saturating_add(self.ahead.growth);
        let have = has.spare(self.promised());
        (Why::MemoryAvailable { need, have }, need > have)
    }

    fn cpu(&self) -> Limit {
        let reading = self.belief.cpu.reading(self.now);
        let cpu = match reading.known() {
            Ok(cpu) => cpu,
            Err(why) => return Limit::plain("cpu", Some(Why::NoTelemetry(format!("cpu: {why}")))),
        };
        let need = self.pool.cpu_expected.saturating_add(self.ahead.cpu);
        let have = budget::unpromised_cpu(&self.profile.host, cpu, self.promised());
        Limit::of(Why::Cpu { need, have }, need > have)
    }

    fn pids(&self) -> Limit {
        let reading = self.belief.pids.reading(self.now);
        let pids = match reading.known() {
            Ok(pids) => pids,
            Err(why) => return Limit::plain("pids", Some(Why::NoTelemetry(format!("pids: {why}")))),
        };
        let need = u64::from(self.pool.spec.template.pids).saturating_add(self.ahead.pids);
        let have = budget::unpromised_pids(&self.profile.host, pids, self.promised());
        Limit::of(Why::Pids { need, have }, need > have)
    }
}

impl Why {
    /// Whether it is something of the host that others could use up.
    pub(super) const fn is_shortage(&self) -> bool {
        match self {
            Why::MemoryPromised { .. } | Why::MemoryAvailable { .. } | Why::Cpu { .. } | Why::Pids { .. } => {
                true
            }
            Why::QueueFull { .. }
            | Why::WaitExpired { .. }
            | Why::HostDraining
            | Why::PoolDraining
            | Why::PoolRemoved
            | Why::NeverFits { .. }
            | Why::TenantLimit { .. }
            | Why::HeldBack { .. }
            | Why::MaxInstances { .. }
            | Why::InstanceHours { .. }
            | Why::Starts { .. }
            | Why::StartPace { .. }
            | Why::Backoff { .. }
            | Why::UnderPressure { .. }
            | Why::CpuPressure { .. }
            | Why::Recovering { .. }
            | Why::Disk { .. }
            | Why::Inodes { .. }
            | Why::NoTelemetry(_)
            | Why::EngineUnreachable(_)
            | Why::NotRecorded(_) => false,
        }
    }
}

/// What one more instance costs the host.
fn need_of(pool: &Pool) -> Bytes {
    pool.expected.usual.saturating_add(OVERHEAD)
}
