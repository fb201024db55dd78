//! A workload: who comes to a host, how its instances behave, and what goes wrong when; read from TOML.
//!
//! ```toml
//! lasts = "1h"
//! [machine]                 # the modelled host
//! memory = "64GiB"
//! cores = "32"
//! [instance.python]         # how instances of a pool of the host profile behave
//! start = { law = "lognormal", mean = "800ms", sigma = 0.3 }
//! idle = "30MiB"
//! [stream.tools]            # callers: when they come, for what, and how long
//! pool = "python"
//! rate = "2/s"
//! runs = { law = "pareto", mean = "20s", alpha = 1.5, most = "10m" }
//! memory = { law = "lognormal", mean = "100MiB", sigma = 0.5 }
//! calls_every = "2s"        # where the pool has a provider: each call waits for a permit
//! [faults]
//! fails = "1%"
//! [[event]]
//! what = "blind"
//! at = "20m"
//! lasts = "30s"
//! ```
//!
//! [`Raw`](raw) is the file as it is written; this is what a run goes by. A workload is read beside the host profile
//! that it is for, so that every pool and class that it names is there.

mod raw;
mod values;

pub(super) use values::in_float;

use std::collections::BTreeMap;
use std::time::Duration;

use super::law::Law;
use super::options::Faults;
use crate::control::message::Tenant;
use crate::profile::{ClassName, HostProfile, Mistakes, PoolName};
use crate::quantity::{Bytes, MilliCpu, Permille};

/// Who comes to a host, how its instances behave, and what goes wrong when.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// How long it goes on, if nobody says otherwise.
    pub lasts: Duration,
    /// The modelled host.
    pub machine: Machine,
    /// How instances behave, for each pool of the profile.
    pub instances: BTreeMap<PoolName, Behaviour>,
    /// Who comes.
    pub streams: Vec<Stream>,
    /// What goes wrong at any time.
    pub faults: Faults,
    /// What happens at given times.
    pub events: Vec<Event>,
}

/// The modelled host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Its memory.
    pub memory: Bytes,
    /// Its processors.
    pub cores: MilliCpu,
    /// What its own services hold.
    pub own: Bytes,
    /// What each container costs outside its own limit.
    pub overhead: Bytes,
}

/// How instances of one pool behave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behaviour {
    /// From the order to the answer of the probe, on an idle host; seconds.
    pub start: Law,
    /// By this much of it each start that is under way beside it makes it longer.
    pub contention: Permille,
    /// From the order to stop until nothing is left.
    pub stop: Duration,
    /// What one holds that is not lent.
    pub idle: Bytes,
}

/// Callers of one sort.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Which pool they ask.
    pub pool: PoolName,
    /// With which class; the pool's own where that is not said.
    pub class: ClassName,
    /// Who they are, one after the other.
    pub tenants: Vec<Tenant>,
    /// When they come.
    pub arrivals: Arrivals,
    /// How many ask at once each time.
    pub at_once: u32,
    /// When the first may come, from the beginning.
    pub from: Duration,
    /// When no more come.
    pub until: Duration,
    /// How long they use what they are lent; seconds.
    pub runs: Law,
    /// What its instance comes to hold; bytes.
    pub memory: Law,
    /// In which time it does.
    pub grows_in: Duration,
    /// What it goes on to grow by; bytes a second.
    pub leak: f64,
    /// The processors that it keeps busy.
    pub cpu: MilliCpu,
    /// How often they call their pool's provider while they work, each time with a permit; never where that is not said.
    pub calls_every: Option<Duration>,
    /// The longest wait that they ask for; their class's where that is not said.
    pub wait: Option<Duration>,
    /// When they hang up, waiting still.
    pub gives_up: Option<Duration>,
    /// How often they come back after a refusal.
    pub retries: u32,
    /// When they come back; when they are told to where that is not said, and not at all where nobody says so.
    pub retry_after: Option<Duration>,
}

/// When callers come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// So many a second on average, each independent of the others (Poisson).
    Poisson(f64),
    /// So many together, again and again after this.
    Bursts(Duration, u32),
}

/// Something that happens at a given time.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When, from the beginning.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// What.
    pub what: Happens,
}

/// What can happen at a given time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happens {
    /// Nothing of the host can be measured.
    Blind,
    /// The engine does not answer.
    EngineAway,
    /// The disk of the store is full.
    DiskFull,
    /// The daemon is killed; the next one begins some seconds later.
    Crash,
    /// The host stands still, and its clock goes on: it was suspended.
    Sleep,
    /// External providers throttle every call.
    Throttle,
    /// Somebody else holds so much memory.
    Hog(Bytes),
    /// A pool, or the whole host, is drained with this window, and takes work again when it is over.
    Drain(Option<PoolName>, Duration),
}

impl Workload {
    /// Reads a workload for the host of this profile; `file` is what its mistakes call it.
    ///
    /// # Errors
    /// What is wrong in it: the first thing that is no workload at all, or all that is wrong between its parts.
    pub fn read(file: &str, text: &str, profile: &HostProfile) -> Result<Workload, Mistakes> {
        raw::read(file, text, profile)
    }
}
