//! May this begin?
//!
//! Two questions at two speeds. A *request* is answered at once: granted, allowed to wait, or refused with
//! the limit that refused it. A *start* is allowed only if every limit leaves room for one more instance,
//! asked in the order in which an operator would want to hear of them: a broken engine or image first, then
//! what the operator set, then what the host has, which takes a sum over all instances.
//!
//! Lending a warm instance needs no memory test: it is in the budget already.
//!
//! Not here: which instance (`placement`), how many are wanted (`scaling`).

use super::budget::{self, OVERHEAD, Promised};
use super::host::Belief;
use super::message::{Engine, Verdict, Why};
use super::pool::Pool;
use crate::profile::{Class, ClassName, Host};
use crate::quantity::{Bytes, Instant};

/// What the host as a whole says of a further start.
#[derive(Debug)]
pub(super) struct Room<'a> {
    pub(super) host: &'a Host,
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
    draining: Option<Why>,
    never: Option<Why>,
) -> Verdict {
    if let Some(why) = draining.or(never) {
        return Verdict::Refuse(why);
    }
    if pool.queue.len() == 0
        && let Some((_, instance)) = pool.ready.first()
    {
        return Verdict::Grant(*instance);
    }
    if no_wait {
        let blocked_by = pool.blocked_by.clone().map(Box::new);
        return Verdict::Refuse(Why::WaitExpired { waited: std::time::Duration::ZERO, blocked_by });
    }
    let (name, class) = class;
    let queued = pool.queue.len_of(name);
    if queued >= class.max_queued {
        return Verdict::Refuse(Why::QueueFull { queued, limit: class.max_queued });
    }
    Verdict::Wait
}

/// Whether not even an empty host has room for one instance; `None` also where its size is not known.
pub(super) fn never_fits(pool: &Pool, host: &Host, belief: &Belief, now: Instant) -> Option<Why> {
    let memory = belief.memory.reading(now);
    let have = budget::memory_limit(host, memory.known().ok()?);
    let need = need(pool);
    (need > have).then_some(Why::NeverFits { need, have })
}

/// What of the engine and the pool itself keeps one more instance from being started now.
pub(super) fn objection_of_pool(pool: &Pool, belief: &Belief, now: Instant) -> Option<Why> {
    if let Engine::Unreachable(why) = &belief.engine {
        return Some(Why::EngineUnreachable(why.clone()));
    }
    if let Some(why) = pool.fortune.objection(now, pool.counts.starting) {
        return Some(why);
    }
    let (have, limit) = (pool.total(), pool.spec.max_instances);
    (have >= limit).then_some(Why::MaxInstances { have, limit })
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
            | Why::NeverFits { .. }
            | Why::MaxInstances { .. }
            | Why::Starts { .. }
            | Why::Backoff { .. }
            | Why::NoTelemetry(_)
            | Why::EngineUnreachable(_) => false,
        }
    }
}

fn memory_objection(pool: &Pool, room: &Room<'_>, now: Instant) -> Option<Why> {
    let reading = room.belief.memory.reading(now);
    let memory = match reading.known() {
        Ok(memory) => memory,
        Err(why) => return Some(Why::NoTelemetry(format!("memory: {why}"))),
    };
    let need = need(pool);
    let have = budget::memory_limit(room.host, memory);
    if need > have {
        return Some(Why::NeverFits { need, have });
    }
    let need = need.saturating_add(room.ahead.memory);
    let have = budget::unpromised(room.host, memory, &room.promised);
    if need > have {
        return Some(Why::MemoryPromised { need, have });
    }
    let have = budget::spare(room.host, memory, &room.promised);
    (need > have).then_some(Why::MemoryAvailable { need, have })
}

fn cpu_objection(pool: &Pool, room: &Room<'_>, now: Instant) -> Option<Why> {
    let reading = room.belief.cpu.reading(now);
    let cpu = match reading.known() {
        Ok(cpu) => cpu,
        Err(why) => return Some(Why::NoTelemetry(format!("cpu: {why}"))),
    };
    let need = pool.spec.template.cpus.saturating_add(room.ahead.cpu);
    let have = budget::unpromised_cpu(room.host, cpu, &room.promised);
    (need > have).then_some(Why::Cpu { need, have })
}

/// What one more instance costs the host.
fn need(pool: &Pool) -> Bytes {
    pool.spec.memory_expect.saturating_add(OVERHEAD)
}
