//! What an instance of a pool is expected to need at its peak.
//!
//! Learned from the peaks of lives that worked (`estimator`); before there are enough of them it is what the profile
//! declares, `memory_expect`. One that has outgrown its envelope has left the many behind, and is counted with what
//! those came to that grew as large: with the kernel's limit for it, `memory_max`, where too few did.
//!
//! A life ends with its container, so that the last look before the stop counts. One that was released ran to its own
//! end; any other might have come to need more. One in which the kernel killed a process at the instance's own limit has
//! wanted more than it was seen to hold: it counts as a whole one with so much more ([`wanted_more_than`]). A kill
//! for a limit above it says nothing of what it needs: that life counts as any that was cut short.
//!
//! Processors are another matter (`busy`): what is used of them is given back at once.
//!
//! Not here: adding up (`budget`).

mod busy;
mod estimator;
mod scale;

pub(super) use busy::Busy;
pub(super) use estimator::{Expected, Learned, Taught};

use super::budget::OVERHEAD;
use super::host::{Figure, UNKNOWN_AFTER};
use super::message::Reading;
use crate::quantity::{Bytes, Instant, Permille};

/// What one is taken to have wanted that held so much when its own limit was reached: 100 MiB more, or a fifth, as the
/// Kubernetes vertical pod autoscaler takes it.
pub(super) fn wanted_more_than(peak: Bytes) -> Bytes {
    peak.saturating_add(Bytes::mib(100)).max(peak.saturating_add(Permille::new(200).of(peak)))
}

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
    /// How far it may outgrow what it is counted with: one that counts with its limit leaves nothing to be afraid of.
    pub(super) slack: Bytes,
}

impl Share {
    /// One that does not exist yet: what it costs outside its cgroup is not taken yet, either.
    pub(super) fn of_new(expected: &Expected) -> Share {
        let expect = expected.usual;
        Share {
            promised: expect,
            growth: expect.saturating_add(OVERHEAD),
            outside: OVERHEAD,
            held: Bytes::ZERO,
            slack: expected.slack(),
        }
    }

    /// One that exists, or will. One that is not there yet, or not for long, counts as a new one; one that
    /// cannot be read counts with all that the kernel would let it have, and stops nobody else.
    pub(super) fn of(
        expected: &Expected,
        memory: &Figure<Bytes>,
        exists_since: Option<Instant>,
        now: Instant,
    ) -> Share {
        let max = expected.max;
        if memory.never_tried() && exists_since.is_none_or(|since| now.since(since) <= UNKNOWN_AFTER) {
            return Share::of_new(expected);
        }
        match memory.reading(now) {
            Reading::Fresh(held, _) | Reading::Stale(held, _) => {
                let envelope = expected.of_one_with(held);
                let promised = envelope.max(held);
                Share {
                    promised,
                    growth: envelope.saturating_sub(held),
                    outside: Bytes::ZERO,
                    held,
                    slack: max.saturating_sub(promised),
                }
            }
            Reading::Unknown(_) => {
                Share { promised: max, growth: max, outside: Bytes::ZERO, held: max, slack: Bytes::ZERO }
            }
        }
    }

    /// One that is being stopped: it still holds what it holds and grows no more.
    pub(super) fn stopping(self) -> Share {
        Share { growth: Bytes::ZERO, outside: Bytes::ZERO, ..self }
    }
}
