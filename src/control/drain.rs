//! One way out: take no new work, let running work end within a window, then reclaim.
//!
//! The deadline is absolute. A drain that has emptied its pool stays closed until it is taken back: drained
//! is a state that an operator asked for, not one to slip out of. A drain of nothing has ended as it begins.
//!
//! Not here: SIGTERM. It ends the daemon and drains nothing.

use crate::quantity::Instant;

/// A drain under way, or done and not taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drain {
    /// When it was asked for.
    pub(super) since: Instant,
    /// When it interrupts what still runs.
    pub(super) deadline: Instant,
    /// Whether the journal was told that nothing is left.
    pub(super) told_empty: bool,
}

impl Drain {
    /// Of two drains over one pool the one that ends sooner holds.
    pub(super) fn sooner(one: Option<Drain>, other: Option<Drain>) -> Option<Drain> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if one.deadline <= other.deadline { one } else { other }),
            (one, other) => one.or(other),
        }
    }
}
