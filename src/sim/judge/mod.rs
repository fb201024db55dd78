//! The judge: watches from outside, and does not trust what the controller believes.
//!
//! It hears each word as it is handed in and each output as it comes out, keeps its own small books of them,
//! and says what must not be: an instance lent twice, an answer that is missing or one too many, a start
//! beyond a limit or into the unknown, an end without its cause, a lease that outlives its deadlines.

mod hears;
mod relief;
mod sees;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::control::message::{Acquire, CallId, HostMemory, InstanceId, LeaseId, Scope};
use crate::profile::{HostProfile, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// Nothing is done later than this after it is due: the loop's own delay.
pub(super) const LAG: Duration = Duration::from_millis(50);
/// As long as a figure is believed after it was read.
const BELIEVED: Duration = Duration::from_secs(10);
/// What an instance costs beside its own memory.
const OVERHEAD: Bytes = Bytes::mib(10);

type Found = Result<(), String>;

/// The judge's books.
#[derive(Debug)]
pub(super) struct Judge {
    profile: Arc<HostProfile>,
    now: Instant,
    engine: bool,
    memory: Option<(HostMemory, Instant)>,
    cores: Option<(MilliCpu, Instant)>,
    instances: BTreeMap<InstanceId, Seen>,
    leases: BTreeMap<LeaseId, Known>,
    live: BTreeSet<LeaseId>,
    calls: BTreeMap<CallId, bool>,
    drains: BTreeMap<Scope, Instant>,
    strangers: BTreeMap<InstanceId, Instant>,
    books: relief::Books,
}

/// An instance that was ordered.
#[derive(Debug)]
struct Seen {
    pool: PoolName,
    ready: bool,
    stop: bool,
    /// A word told first that its container is there, or that its process runs.
    exists_at: Option<Instant>,
    runs_at: Option<Instant>,
    /// A word said that its process ended or its container is not there.
    dead: bool,
    absent: bool,
    /// It was probed and has not answered.
    asked: bool,
    silences: u32,
    gone: bool,
    lent: Option<LeaseId>,
    held: Option<(Bytes, Instant)>,
}

/// A lease that was asked for.
#[derive(Debug)]
struct Known {
    request: Acquire,
    call: CallId,
    asked_at: Instant,
    wait: Duration,
    granted: Option<(InstanceId, Instant)>,
    used: bool,
    active_at: Instant,
    deadline: Instant,
    ended: bool,
    /// What was said that may end it.
    released: bool,
    cancelled: bool,
    left: bool,
    overran: bool,
}

impl Judge {
    pub(super) fn new(profile: Arc<HostProfile>) -> Judge {
        Judge {
            profile,
            now: Instant::BOOT,
            engine: false,
            memory: None,
            cores: None,
            instances: BTreeMap::new(),
            leases: BTreeMap::new(),
            live: BTreeSet::new(),
            calls: BTreeMap::new(),
            drains: BTreeMap::new(),
            strangers: BTreeMap::new(),
            books: relief::Books::default(),
        }
    }

    /// Whether nothing that was ordered is left, and no lease goes on.
    pub(super) fn is_quiet(&self) -> bool {
        self.live.is_empty() && self.calls.is_empty()
    }

    /// What goes on still, for a message.
    pub(super) fn unrest(&self) -> String {
        let there: Vec<_> = self.instances.iter().filter(|(_, seen)| !seen.gone).collect();
        format!("leases {:?}, calls {:?}, instances {there:?}", self.live, self.calls)
    }
}
