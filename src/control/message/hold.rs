//! Leases that wait for a person: how that is asked for, and how it is shown.

use std::sync::Arc;
use std::time::Duration;

use crate::quantity::{Bytes, Instant};

/// What a caller asks for whose lease is to wait for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldFor {
    /// What is waited for, in the caller's words; bounded by who reads them.
    pub reason: Arc<str>,
    /// For how long; the pool's `hold.timeout` where `None`, and never beyond its `hold.longest`.
    pub lasting: Option<Duration>,
}

/// A lease's hold: it waits for a person, and its instance waits with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Since when.
    pub since: Instant,
    /// When the lease ends if nobody has resumed it.
    pub until: Instant,
    /// What is waited for, in the caller's words.
    pub reason: Arc<str>,
}

/// What a pool's leases that wait for a person keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldsView {
    /// Leases, each with its slot.
    pub leases: u32,
    /// How many may be: the pool's `max_holds`.
    pub limit: u32,
    /// What their instances are counted with.
    pub promised: Bytes,
}
