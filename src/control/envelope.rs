//! What an instance of a pool is expected to need at its peak.
//!
//! In this version the envelope is what the profile declares, `memory_expect`. One that has outgrown it
//! has disproved the declaration and is counted with the kernel's limit for it, `memory_max`.
//!
//! Not here: adding up (`budget`).

use super::budget::OVERHEAD;
use super::host::{Figure, UNKNOWN_AFTER};
use super::message::Reading;
use crate::profile::Pool;
use crate::quantity::{Bytes, Instant};

/// How one instance counts in the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Share {
    /// What it may come to hold: its part of the ledger.
    pub(super) promised: Bytes,
    /// What of that it does not hold yet: its part of what MemAvailable will still lose.
    pub(super) growth: Bytes,
    /// What of that will be taken outside its cgroup, and so outside the slice.
    pub(super) outside: Bytes,
    /// What it holds now, as far as that is known; all that it may hold where it is not.
    pub(super) held: Bytes,
}

impl Share {
    /// One that does not exist yet: what it costs outside its cgroup is not taken yet, either.
    pub(super) fn of_new(pool: &Pool) -> Share {
        let expect = pool.memory_expect;
        Share {
            promised: expect,
            growth: expect.saturating_add(OVERHEAD),
            outside: OVERHEAD,
            held: Bytes::ZERO,
        }
    }

    /// One that exists, or will. One that is not there yet, or not for long, counts as a new one; one that
    /// cannot be read counts with all that the kernel would let it have, and stops nobody else.
    pub(super) fn of(
        pool: &Pool,
        memory: &Figure<Bytes>,
        exists_since: Option<Instant>,
        now: Instant,
    ) -> Share {
        let max = pool.template.memory_max;
        if memory.never_tried() && exists_since.is_none_or(|since| now.since(since) <= UNKNOWN_AFTER) {
            return Share::of_new(pool);
        }
        match memory.reading(now) {
            Reading::Fresh(held, _) | Reading::Stale(held, _) => {
                let envelope = if held > pool.memory_expect { max } else { pool.memory_expect };
                Share {
                    promised: envelope.max(held),
                    growth: envelope.saturating_sub(held),
                    outside: Bytes::ZERO,
                    held,
                }
            }
            Reading::Unknown(_) => Share { promised: max, growth: max, outside: Bytes::ZERO, held: max },
        }
    }

    /// One that is being stopped: it still holds what it holds and grows no more.
    pub(super) fn stopping(self) -> Share {
        Share { growth: Bytes::ZERO, outside: Bytes::ZERO, ..self }
    }
}
