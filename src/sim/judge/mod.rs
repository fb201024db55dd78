//! The judge: watches from outside, and does not trust what the controller believes.
//!
//! It hears each word as it is handed in and each output as it comes out, keeps its own small books of them,
//! and says what must not be: an instance lent twice, an answer that is missing or one too many, a start
//! beyond a limit or into the unknown, an end without its cause, a lease that outlives its deadlines, something
//! said before it was written.
//!
//! What is over is remembered for a while, since late words and a crash come back to it, and then forgotten: what a word
//! costs here does not grow with the run.

mod hears;
mod holds;
mod permits;
mod relief;
mod restarts;
mod sees;
mod tasks;
mod telemetry;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::control::message::{
    Acquire, CallId, Disk, HostMemory, HostPids, InstanceId, Kills, LeaseId, Scope,
};
use crate::profile::{Deadlines, HostProfile, Pool, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// Nothing is done later than this after it is due: the loop's own delay.
pub(super) const LAG: Duration = Duration::from_millis(50);
/// As long as a figure is believed after it was read.
const BELIEVED: Duration = Duration::from_secs(10);
/// Before so many lives no less counts than what is declared.
const ENOUGH: u32 = 10;
/// What an instance costs beside its own memory.
const OVERHEAD: Bytes = Bytes::mib(10);

/// What is over is remembered for so long: longer than the controller does, and than a disk is full.
const REMEMBER: Duration = Duration::from_secs(1200);

type Found = Result<(), String>;

/// The judge's books.
#[derive(Debug)]
pub(super) struct Judge {
    profile: Arc<HostProfile>,
    now: Instant,
    engine: bool,
    memory: Option<(HostMemory, Instant)>,
    cores: Option<(MilliCpu, Instant)>,
    /// When it was last seen what all containers hold.
    slice: Option<Instant>,
    pids: Option<(HostPids, Instant)>,
    /// The engine's and the state's.
    disks: [Option<(Disk, Instant)>; 2],
    instances: BTreeMap<InstanceId, Seen>,
    /// Those of them that are not gone.
    there: BTreeSet<InstanceId>,
    leases: BTreeMap<LeaseId, Known>,
    live: BTreeSet<LeaseId>,
    /// When each that lives is to be looked at: not later than something is due.
    watched: BTreeSet<(Instant, LeaseId)>,
    /// The lease that a call asked for.
    asked: BTreeMap<CallId, LeaseId>,
    /// Unanswered requests that have a name.
    again: BTreeMap<CallId, Acquire>,
    /// What is over, the oldest first.
    over: VecDeque<(Instant, Over)>,
    /// Unanswered calls, and when they were heard.
    calls: BTreeMap<CallId, Instant>,
    drains: BTreeMap<Scope, Instant>,
    strangers: BTreeMap<InstanceId, Instant>,
    /// What the controller expects one of a pool's newest template to need, and how many lives have taught it that.
    envelopes: BTreeMap<PoolName, (Bytes, u32)>,
    books: relief::Books,
    permits: permits::Books,
    /// The last record that was said to be written.
    written: u64,
}

/// Something that may be forgotten after a while.
#[derive(Debug)]
enum Over {
    Lease(LeaseId),
    Instance(InstanceId),
}

/// An instance that was ordered.
#[derive(Debug)]
struct Seen {
    pool: PoolName,
    /// What it was made from, and the newest description of an equal template.
    made: Arc<Pool>,
    /// Whether an earlier daemon made it from another template: the present one knows only what was written of it.
    older: bool,
    /// The record of its start, and whether its start was ordered.
    record: u64,
    ordered: bool,
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
    /// It was warm when an earlier daemon ended, and has not answered since.
    unseen: bool,
    lent: Option<LeaseId>,
    held: Option<(Bytes, Instant)>,
    /// What the kernel was seen to have done to it, and when that was first more.
    kills: Kills,
    killed_at: Option<Instant>,
}

/// A lease that was asked for.
#[derive(Debug)]
struct Known {
    request: Acquire,
    /// The pool that it is in.
    pool: PoolName,
    /// The pool that was asked, where it was said to be sent on.
    degraded_from: Option<PoolName>,
    call: CallId,
    asked_at: Instant,
    wait: Duration,
    /// The pool's when it was asked for; where it was sent on, the shorter ones of both.
    deadlines: Deadlines,
    granted: Option<(InstanceId, Instant)>,
    /// The record that it is accepted or granted by, and whether anybody was told.
    record: u64,
    told: bool,
    used: bool,
    /// Since when it waits for a person, and until when.
    hold: Option<(Instant, Instant)>,
    /// It was to be held, for so long where that was said; and to be resumed.
    hold_asked: Option<Option<Duration>>,
    resumed: bool,
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
            slice: None,
            pids: None,
            disks: [None; 2],
            instances: BTreeMap::new(),
            there: BTreeSet::new(),
            leases: BTreeMap::new(),
            live: BTreeSet::new(),
            watched: BTreeSet::new(),
            asked: BTreeMap::new(),
            again: BTreeMap::new(),
            over: VecDeque::new(),
            calls: BTreeMap::new(),
            drains: BTreeMap::new(),
            strangers: BTreeMap::new(),
            envelopes: BTreeMap::new(),
            books: relief::Books::default(),
            permits: permits::Books::default(),
            written: 0,
        }
    }

    /// What the controller expects from here on: past lives may say otherwise than the profile, once they are enough.
    pub(super) fn expect(&mut self, envelopes: impl Iterator<Item = (PoolName, Bytes, u32)>) -> Found {
        self.envelopes.clear();
        for (pool, usual, lives) in envelopes {
            let declared =
                self.profile.pools.get(&pool).map(|spec| spec.memory_expect.min(spec.template.memory_max));
            sees::hold(lives >= ENOUGH || declared.is_none_or(|declared| usual >= declared), || {
                format!("{pool} expects {usual} after {lives} lives, and {declared:?} is declared")
            })?;
            self.envelopes.insert(pool, (usual, lives));
        }
        Ok(())
    }

    /// Whether there is such a pool, be it that only something is left of it.
    fn has_pool(&self, pool: &PoolName) -> bool {
        let left = || self.there().any(|seen| seen.pool == *pool);
        self.profile.pools.contains_key(pool) || left()
    }

    /// All instances that are not gone.
    fn there(&self) -> impl Iterator<Item = &Seen> {
        self.there.iter().map(|id| &self.instances[id])
    }

    /// Nothing of this instance is left, as far as it was said.
    fn bury(&mut self, id: InstanceId) {
        if let Some(seen) = self.instances.get_mut(&id) {
            seen.gone = true;
            self.there.remove(&id);
            self.over.push_back((self.now, Over::Instance(id)));
        }
    }

    /// Forgets what has been over for long.
    fn forget(&mut self) {
        while let Some((at, _)) = self.over.front()
            && self.now.since(*at) > REMEMBER
            && let Some((_, over)) = self.over.pop_front()
        {
            match over {
                // A crash may have brought it back.
                Over::Instance(id) if !self.there.contains(&id) => drop(self.instances.remove(&id)),
                Over::Lease(id) if !self.live.contains(&id) => {
                    if let Some(known) = self.leases.remove(&id) {
                        self.asked.remove(&known.call);
                    }
                }
                Over::Instance(_) | Over::Lease(_) => {}
            }
        }
    }

    /// Whether this lease is over; one that is forgotten is.
    fn has_ended(&self, lease: &LeaseId) -> bool {
        self.leases.get(lease).is_none_or(|known| known.ended)
    }

    /// Whether nothing that was ordered is left, and no lease goes on.
    pub(super) fn is_quiet(&self) -> bool {
        self.live.is_empty() && self.calls.is_empty()
    }

    /// What goes on still, for a message.
    pub(super) fn unrest(&self) -> String {
        let there: Vec<_> = self.there.iter().map(|id| (id, &self.instances[id])).collect();
        format!("leases {:?}, calls {:?}, instances {there:?}", self.live, self.calls)
    }
}
