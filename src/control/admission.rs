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
//! While a figure of the host is unknown, each pool says by itself whether it goes on (`without_telemetry`): by a count
//! of its own and, as far as the host was ever seen, with room for all to grow to their limits. A test of which the
//! figure is known is made all the same: what is unknown never raises what is admitted.
//!
//! Not here: which instance (`placement`), how many are wanted (`scaling`).

use std::cell::OnceCell;

use super::budget::{self, OVERHEAD, Promised};
use super::host::{Belief, Sight};
use super::message::{Disk, DiskOf, Engine, Tenant, Verdict, Why};
use super::pace::Pace;
use super::pool::Pool;
use super::queue;
use super::words::Figures;
use crate::profile::{Class, ClassName, Host, HostProfile, WithoutTelemetry};
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
    let Asked { pool, sight, .. } = asked;
    // These are no matter of how many.
    let whole = OF_POOL.iter().filter_map(|limit| limit(asked)).chain(asked.disks());
    if whole.into_iter().any(|limit| limit.objection.is_some()) {
        return 0;
    }
    let room = match (sight, asked.goes_on_with()) {
        (Ok(sight), _) => asked.room(sight),
        (Err(_), Some(most)) => asked.room_unseen(most),
        (Err(_), None) => 0,
    };
    // A reload may have lowered the ceiling below what there is.
    u32::try_from(room).unwrap_or(u32::MAX).min(pool.spec.max_instances.saturating_sub(pool.total()))
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
    belief.gauge.objection(now).filter(|_| pool.needs_a_start())
}

/// A start that is wished for, and all that is looked at for it.
pub(super) struct Asked<'a> {
    pub(super) pool: &'a Pool,
    pub(super) profile: &'a HostProfile,
    pub(super) belief: &'a Belief,
    pub(super) now: Instant,
    pub(super) pace: &'a Pace,
    /// What is known of the host, or what of it is not and why.
    pub(super) sight: Result<Sight, String>,
    /// Whether the first look is on its way: until then no pool goes on without.
    pub(super) before_look: bool,
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

/// A limit, where it applies.
type Test = fn(&Asked<'_>) -> Option<Limit>;

/// What keeps a pool from starting any, and the pressure on all.
const OF_POOL: [Test; 7] = [
    |asked| Some(Limit::plain("not_recorded", asked.unwritten.map(|why| Why::NotRecorded(why.to_owned())))),
    |asked| {
        let Engine::Unreachable(why) = &asked.belief.engine else {
            return Some(Limit::plain("engine_unreachable", None));
        };
        Some(Limit::plain("engine_unreachable", Some(Why::EngineUnreachable(why.clone()))))
    },
    |asked| {
        let Asked { pool, now, .. } = asked;
        Some(Limit::plain("starts_failing", pool.fortune.objection(*now, pool.counts.starting)))
    },
    |asked| {
        let (have, limit) = (asked.pool.total(), asked.pool.spec.max_instances);
        Some(Limit::of(Why::MaxInstances { have, limit }, have >= limit))
    },
    |asked| {
        let gate = asked.pool.gate.as_ref()?;
        let says = gate.shut.as_ref().unwrap_or(&gate.waits);
        Some(Limit { name: says.code(), figures: says.figures(), objection: gate.shut.clone() })
    },
    |asked| {
        let Asked { pool, now, .. } = asked;
        let (why, reached) = pool.hours.limit(*now, pool.spec.max_instance_hours?);
        Some(Limit::of(why, reached))
    },
    |asked| Some(Limit::plain("under_pressure", asked.belief.gauge.objection(asked.now))),
];

/// What the host has for so many and no more.
const OF_HOST: [Test; 8] = [
    |asked| {
        let (have, limit) = (asked.starting, asked.profile.host.max_starts);
        Some(Limit::of(Why::Starts { have, limit }, have >= limit))
    },
    |asked| {
        let (why, reached) = asked.pace.limit(asked.starting, asked.profile.host.max_starts);
        Some(Limit::of(why, reached))
    },
    |asked| {
        let starts = (asked.starting, asked.profile.host.max_starts);
        let objection = asked.belief.gauge.objection_to_more(asked.now, starts, asked.refill);
        Some(Limit::plain(objection.as_ref().map_or("cpu_pressure", Why::code), objection))
    },
    |asked| asked.telemetry(),
    |asked| asked.memory_promised(),
    |asked| asked.memory_available(),
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
        OF_POOL.iter().chain(&OF_HOST).filter_map(|limit| limit(self)).chain(self.disks())
    }

    /// The first thing that keeps it back.
    pub(super) fn objection(&self) -> Option<Why> {
        self.limits().find_map(|limit| limit.objection)
    }

    fn promised(&self) -> &Promised {
        self.promised.get_or_init(self.sum)
    }

    /// How many instances the pool may have without what is unknown, where it goes on without.
    fn goes_on_with(&self) -> Option<u32> {
        match self.pool.spec.without_telemetry {
            WithoutTelemetry::Slots(most) if !self.before_look => Some(most),
            WithoutTelemetry::Slots(_) | WithoutTelemetry::Stop | WithoutTelemetry::Use(_) => None,
        }
    }

    /// Whether what was once seen may stand for what is not.
    fn goes_on(&self) -> bool {
        self.sight.is_ok() || self.goes_on_with().is_some()
    }

    /// What is unknown, where something is.
    fn telemetry(&self) -> Option<Limit> {
        let unknown = self.sight.as_ref().err()?.clone();
        Some(match self.goes_on_with() {
            None => Limit::plain("no_telemetry", Some(Why::NoTelemetry(unknown))),
            Some(limit) => {
                let have = self.pool.total();
                Limit::of(Why::WithoutTelemetry { unknown, have, limit }, have >= limit)
            }
        })
    }

    /// The ledger: unseen, that of the worst case, where the host's size was ever seen.
    fn memory_promised(&self) -> Option<Limit> {
        let Asked { pool, profile, .. } = self;
        let (need, have) = match &self.sight {
            Ok(sight) => {
                if let Some(why) = self.never_fits() {
                    return Some(Limit::plain("memory_promised", Some(why)));
                }
                let slack = self.promised().slack.max(self.ahead.slack).max(pool.expected.slack());
                let need = pool.expected.usual.saturating_add(self.ahead.memory).saturating_add(slack);
                (need, self.has(sight).unpromised(self.promised()))
            }
            Err(_) => {
                let memory = self.belief.memory.last().filter(|_| self.goes_on())?;
                let need = pool.spec.template.memory_max.saturating_add(self.ahead.most);
                (need, budget::memory_limit(profile, memory).saturating_sub(self.promised().most))
            }
        };
        Some(Limit::of(Why::MemoryPromised { need, have }, need > have))
    }

    /// What is measured: above the floor and below the ceiling, or above the floor alone where only that is seen.
    fn memory_available(&self) -> Option<Limit> {
        let need = need_of(self.pool).saturating_add(self.ahead.growth);
        let have = match &self.sight {
            Ok(sight) => {
                if let Some(why) = self.never_fits() {
                    return Some(Limit::plain("memory_available", Some(why)));
                }
                self.has(sight).spare(self.promised())
            }
            Err(_) => {
                let memory = *self.belief.memory.reading(self.now).known().ok().filter(|_| self.goes_on())?;
                budget::above_floor(self.profile, &memory, self.promised())
            }
        };
        Some(Limit::of(Why::MemoryAvailable { need, have }, need > have))
    }

    /// The disks, as far as they are known: what is not stands in `telemetry`.
    fn disks(&self) -> impl Iterator<Item = Limit> {
        let disks = OF_DISKS.iter().map(|limit| limit(&self.profile.host, self.belief, self.now));
        disks.filter(|limit| !matches!(limit.objection, Some(Why::NoTelemetry(_))))
    }

    /// Cores do not change while a host is up: those that were last seen count.
    fn cpu(&self) -> Option<Limit> {
        let cpu = self.belief.cpu.last().filter(|_| self.goes_on())?;
        let need = self.pool.cpu_expected.saturating_add(self.ahead.cpu);
        let have = budget::unpromised_cpu(&self.profile.host, cpu, self.promised());
        Some(Limit::of(Why::Cpu { need, have }, need > have))
    }

    fn never_fits(&self) -> Option<Why> {
        never_fits(self.pool, self.profile, self.belief, self.now)
    }

    fn has<'s>(&'s self, sight: &'s Sight) -> budget::Has<'s> {
        budget::Has { profile: self.profile, memory: &sight.memory, slice: &sight.slice }
    }

    /// How many more the host has room for, in all that was just seen.
    fn room(&self, sight: &Sight) -> u64 {
        let Asked { pool, profile, .. } = self;
        let (promised, has) = (self.promised(), self.has(sight));
        let ledger = has.unpromised(promised).saturating_sub(promised.slack.max(pool.expected.slack()));
        let by_ledger = ledger.get().checked_div(pool.expected.usual.get()).unwrap_or(0);
        let memory = by_ledger.min(has.spare(promised).get() / need_of(pool).get());
        let cpu = budget::unpromised_cpu(&profile.host, &sight.cpu, promised).get();
        let cpu = cpu.checked_div(pool.cpu_expected.get()).unwrap_or(cpu);
        let pids = budget::unpromised_pids(&profile.host, &sight.pids, promised);
        memory.min(cpu).min(pids.checked_div(u64::from(pool.spec.template.pids)).unwrap_or(pids))
    }

    /// The same for a pool that may have `most` without what is unknown, as far as the host was ever seen.
    fn room_unseen(&self, most: u32) -> u64 {
        let Asked { pool, profile, belief, now, .. } = self;
        let (promised, template) = (self.promised(), &pool.spec.template);
        let ledger = belief.memory.last().map(|memory| {
            let unpromised = budget::memory_limit(profile, memory).saturating_sub(promised.most);
            unpromised.get() / template.memory_max.get()
        });
        let reading = belief.memory.reading(*now);
        let spare = reading.known().ok();
        let spare =
            spare.map(|memory| budget::above_floor(profile, memory, promised).get() / need_of(pool).get());
        let cpu = belief.cpu.last().map(|cpu| budget::unpromised_cpu(&profile.host, cpu, promised).get());
        let cpu = cpu.and_then(|cpu| cpu.checked_div(pool.cpu_expected.get()));
        let own = u64::from(most.saturating_sub(pool.total()));
        [ledger, spare, cpu].into_iter().flatten().fold(own, u64::min)
    }

    fn pids(&self) -> Option<Limit> {
        let pids = &self.sight.as_ref().ok()?.pids;
        let need = u64::from(self.pool.spec.template.pids).saturating_add(self.ahead.pids);
        let have = budget::unpromised_pids(&self.profile.host, pids, self.promised());
        Some(Limit::of(Why::Pids { need, have }, need > have))
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
            | Why::WithoutTelemetry { .. }
            | Why::EngineUnreachable(_)
            | Why::NotRecorded(_) => false,
        }
    }
}

/// What one more instance costs the host.
fn need_of(pool: &Pool) -> Bytes {
    pool.expected.usual.saturating_add(OVERHEAD)
}
