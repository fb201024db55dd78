//! May this begin?
//!
//! Two questions at two speeds. A *request* is answered at once: granted, allowed to wait, or refused with
//! the limit that refused it. A *start* is allowed only if every limit leaves room for one more instance,
//! asked in the order in which an operator would want to hear of them: a broken engine or image first, then
//! what the operator set, then what the host has, which takes a sum over all instances.
//!
//! Lending a warm instance needs no memory test: it is in the budget already.
//!
//! `max_queued` bounds who waits for somebody else's slot: a host with N slots and a queue of Q takes exactly
//! N + Q requests, warm or cold. So those do not count for whom a start is under way, or for whom one only
//! waits its turn among `max_starts`; where nothing more can be started, all others count.
//!
//! Not here: which instance (`placement`), how many are wanted (`scaling`).

use super::budget::{self, OVERHEAD, Promised};
use super::host::Belief;
use super::message::{Engine, Verdict, Why};
use super::pool::Pool;
use crate::profile::{Class, ClassName, Host, HostProfile};
use crate::quantity::{Bytes, Instant};

/// What the host as a whole says of a further start.
#[derive(Debug)]
pub(super) struct Room<'a> {
    pub(super) profile: &'a HostProfile,
    pub(super) belief: &'a Belief,
    pub(super) promised: Promised,
    /// What is left to those that are served before.
    pub(super) ahead: Promised,
}

/// What becomes of a request that has just arrived.
pub(super) fn request(
    pool: &Pool,
    class: (&ClassName, &Class),
    no_wait: bool,
    barred: Option<Why>,
    startable: impl FnOnce() -> u32,
) -> Verdict {
    if let Some(why) = barred {
        return Verdict::Refuse(why);
    }
    if pool.queue.len() == 0
        && let Some((.., instance)) = pool.ready.first()
    {
        return Verdict::Grant(*instance);
    }
    if no_wait {
        let blocked_by = pool.blocked_by.clone().map(Box::new);
        return Verdict::Refuse(Why::WaitExpired { waited: std::time::Duration::ZERO, blocked_by });
    }
    let (name, class) = class;
    if pool.queue.len_of(name) < class.max_queued {
        return Verdict::Wait; // Most are: what could be started needs a sum over all instances.
    }
    let queued = pool.queue.behind(pool.counts.starting.saturating_add(startable()), name);
    if queued >= class.max_queued {
        return Verdict::Refuse(Why::QueueFull { queued, limit: class.max_queued });
    }
    Verdict::Wait
}

/// How many more instances of this pool there is room for, were they started one after the other.
pub(super) fn startable(pool: &Pool, room: &Room<'_>, now: Instant) -> u32 {
    let (memory, cpu) = (room.belief.memory.reading(now), room.belief.cpu.reading(now));
    let slice = room.belief.slice.reading(now);
    let (Ok(memory), Ok(slice), Ok(cpu)) = (memory.known(), slice.known(), cpu.known()) else {
        return 0;
    };
    if objection_of_pool(pool, room.belief, now).is_some() {
        return 0;
    }
    let Room { profile, promised, .. } = room;
    let has = budget::Has { profile, memory, slice };
    let ledger = has.unpromised(promised).saturating_sub(promised.slack.max(pool.expected.slack()));
    let by_ledger = ledger.get().checked_div(pool.expected.usual.get()).unwrap_or(0);
    let memory = by_ledger.min(has.spare(promised).get() / need_of(pool).get());
    let cpu = budget::unpromised_cpu(&profile.host, cpu, promised).get();
    let cpu = cpu.checked_div(pool.spec.template.cpus.get()).unwrap_or(cpu);
    // A reload may have lowered the ceiling below what there is.
    let free = pool.spec.max_instances.saturating_sub(pool.total());
    u32::try_from(memory.min(cpu)).unwrap_or(u32::MAX).min(free)
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

/// What of the engine, the pool itself and memory's pressure keeps one more instance from being started now.
pub(super) fn objection_of_pool(pool: &Pool, belief: &Belief, now: Instant) -> Option<Why> {
    if let Engine::Unreachable(why) = &belief.engine {
        return Some(Why::EngineUnreachable(why.clone()));
    }
    if let Some(why) = pool.fortune.objection(now, pool.counts.starting) {
        return Some(why);
    }
    let (have, limit) = (pool.total(), pool.spec.max_instances);
    if have >= limit {
        return Some(Why::MaxInstances { have, limit });
    }
    belief.gauge.objection(now)
}

/// Whether as many starts are under way as may be.
pub(super) fn objection_of_starts(host: &Host, have: u32) -> Option<Why> {
    (have >= host.max_starts).then_some(Why::Starts { have, limit: host.max_starts })
}

/// What of the host keeps one more instance of this pool from being started now.
pub(super) fn objection_of_host(pool: &Pool, room: &Room<'_>, now: Instant) -> Option<Why> {
    memory_objection(pool, room, now).or_else(|| cpu_objection(pool, room, now))
}

impl Why {
    /// Whether it is something of the host that others could use up.
    pub(super) const fn is_shortage(&self) -> bool {
        match self {
            Why::MemoryPromised { .. } | Why::MemoryAvailable { .. } | Why::Cpu { .. } => true,
            Why::QueueFull { .. }
            | Why::WaitExpired { .. }
            | Why::HostDraining
            | Why::PoolDraining
            | Why::PoolRemoved
            | Why::NeverFits { .. }
            | Why::MaxInstances { .. }
            | Why::Starts { .. }
            | Why::Backoff { .. }
            | Why::UnderPressure { .. }
            | Why::CpuPressure { .. }
            | Why::Recovering { .. }
            | Why::NoTelemetry(_)
            | Why::EngineUnreachable(_)
            | Why::NotRecorded(_) => false,
        }
    }
}

fn memory_objection(pool: &Pool, room: &Room<'_>, now: Instant) -> Option<Why> {
    let reading = room.belief.memory.reading(now);
    let memory = match reading.known() {
        Ok(memory) => memory,
        Err(why) => return Some(Why::NoTelemetry(format!("memory: {why}"))),
    };
    if let Some(why) = never_fits(pool, room.profile, room.belief, now) {
        return Some(why);
    }
    let reading = room.belief.slice.reading(now);
    let slice = match reading.known() {
        Ok(slice) => slice,
        Err(why) => return Some(Why::NoTelemetry(format!("memory of all containers: {why}"))),
    };
    let has = budget::Has { profile: room.profile, memory, slice };
    let slack = room.promised.slack.max(room.ahead.slack).max(pool.expected.slack());
    let need = pool.expected.usual.saturating_add(room.ahead.memory).saturating_add(slack);
    let have = has.unpromised(&room.promised);
    if need > have {
        return Some(Why::MemoryPromised { need, have });
    }
    let need = need_of(pool).saturating_add(room.ahead.growth);
    let have = has.spare(&room.promised);
    (need > have).then_some(Why::MemoryAvailable { need, have })
}

fn cpu_objection(pool: &Pool, room: &Room<'_>, now: Instant) -> Option<Why> {
    let reading = room.belief.cpu.reading(now);
    let cpu = match reading.known() {
        Ok(cpu) => cpu,
        Err(why) => return Some(Why::NoTelemetry(format!("cpu: {why}"))),
    };
    let need = pool.spec.template.cpus.saturating_add(room.ahead.cpu);
    let have = budget::unpromised_cpu(&room.profile.host, cpu, &room.promised);
    (need > have).then_some(Why::Cpu { need, have })
}

/// What one more instance costs the host.
fn need_of(pool: &Pool) -> Bytes {
    pool.expected.usual.saturating_add(OVERHEAD)
}
