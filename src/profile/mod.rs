//! The host profile: what describes a host, from TOML in one file or several layers to checked values.
//!
//! The way: which files there are and which masks which ([`Layers`]); their texts as one tree in which every value
//! knows its file and line (`tree`); the checked [`HostProfile`] (`check`), or what was wrong with it ([`Mistake`]);
//! and back again, each value as a profile would write it, with its origin ([`Effective`]). [`KEYS`] describes every
//! key to people. All mistakes of all layers are found in one pass and reported together; a profile with a
//! mistake is never used.
//!
//! Invariant: a [`HostProfile`] exists only if every rule held, so nobody checks again. What depends on
//! the machine (shares of its memory) is resolved where the machine is known, in `control`.
//!
//! Not here: serde (nothing of this reaches a wire), defaults that depend on the host, what a reload does
//! (`control`).

mod check;
mod effective;
mod keys;
mod layers;
mod mistake;
mod tree;

pub use check::check;
pub use effective::{Change, Effective, Origin, Setting, changes};
pub use keys::{KEYS, Key, Range, Usual};
pub use layers::{LOCAL, Layers, VENDOR, read};
pub use mistake::{Mistake, Mistakes, Reported};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::quantity::{Bytes, MilliCpu, Permille, Rate};

/// A name of something in the profile; cheap to copy around.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// This name.
            pub fn new(name: impl Into<Arc<str>>) -> $name {
                $name(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// A pool's name: `[pool.NAME]`, 1 to 32 characters of `a-z 0-9 -`, beginning with a letter.
    PoolName
}
name! {
    /// A class's name: `[class.NAME]`, spelled like a pool's.
    ClassName
}

name! {
    /// A provider's name: `[provider.NAME]`, spelled like a pool's.
    ProviderName
}

/// One host, as its operator described it and `check` approved it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostProfile {
    /// What concerns the host as a whole.
    pub host: Host,
    /// Latency expectations; `interactive` and `batch` are always there.
    pub classes: BTreeMap<ClassName, Class>,
    /// What can be lent; at least one.
    pub pools: BTreeMap<PoolName, Pool>,
    /// External services with a rate of their own.
    pub providers: BTreeMap<ProviderName, Provider>,
    /// Limits of tenants, by the tenant's name; `*` stands for all that have none of their own.
    pub tenants: BTreeMap<String, TenantLimits>,
}

impl HostProfile {
    /// The limits of this tenant.
    pub fn limits_of(&self, tenant: &str) -> TenantLimits {
        self.tenants.get(tenant).or_else(|| self.tenants.get("*")).copied().unwrap_or_default()
    }
}

/// What one tenant may have: `[tenant.NAME]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TenantLimits {
    /// Leases at once over all pools, waiting ones included; `None` means as many as it likes.
    pub max_leases: Option<u32>,
    /// Of them that may wait for a person; `None` means as many as their pools allow.
    pub max_holds: Option<u32>,
}

/// An external service with a rate of its own, which the leases of this host share: `[provider.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// How many calls it takes in which time.
    pub rate: Rate,
    /// How many of them may come together after a pause; at least 1.
    pub burst: u32,
    /// How many permits may be waited for at once; each holds up an instance.
    pub max_waiting: u32,
    /// The longest that one may be waited for, and the wait of a caller that does not say.
    pub max_wait: Duration,
}

/// What concerns the host as a whole: `[host]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// The name in labels, lease ids and logs; `None` means the machine's own host name.
    pub name: Option<String>,
    /// Memory of the host's total that never belongs to containers.
    pub reserve_memory: Amount,
    /// Cores that never belong to containers.
    pub reserve_cpu: MilliCpu,
    /// The share of the tasks that the kernel can have that never belongs to containers.
    pub reserve_pids: Permille,
    /// MemAvailable that must remain whatever was promised.
    pub floor: Amount,
    /// What must be free on the disks of the engine and of our own state for anything to be started.
    pub disk_floor: Amount,
    /// How far the sum of the instances' `cpus_expect` may exceed the cores that are not reserved.
    pub cpu_overcommit: Permille,
    /// Cold starts that may be under way at once, over all pools; at least 1.
    pub max_starts: u32,
}

/// An amount of memory or of a disk, given outright or as a share of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Outright.
    Bytes(Bytes),
    /// A share of the whole.
    Share(Permille),
}

impl Amount {
    /// What it comes to where the whole is this much.
    pub fn of(self, total: Bytes) -> Bytes {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Share(share) => share.of(total),
        }
    }

    /// Whether it is nothing, whatever the whole is.
    pub fn is_nothing(self) -> bool {
        self == Amount::Bytes(Bytes::ZERO) || self == Amount::Share(Permille::new(0))
    }
}

/// A latency expectation: `[class.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class {
    /// The wait a request of this class expects; the queue serves the earliest arrival + `target_wait`.
    pub target_wait: Duration,
    /// The time in which what waits is to be worked off, where slots allow.
    pub drain_target: Duration,
    /// The longest wait a caller may ask for, and the wait of one that does not say.
    pub max_wait: Duration,
    /// How many requests of this class each tenant may have waiting in one pool, beside those for whom it has or makes
    /// an instance.
    pub max_queued: u32,
    /// Whether one that would wait for longer than it may, by what is known, is refused at once.
    pub refuse_early: bool,
}

/// What a pool's image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Answers DevTools over HTTP and WebSocket on its own loopback.
    Browser,
    /// Runs commands.
    Sandbox,
}

impl Kind {
    /// The word in profiles, labels and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Browser => "browser",
            Kind::Sandbox => "sandbox",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Instances of one image with one set of limits: `[pool.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pool {
    /// What the image is.
    pub kind: Kind,
    /// The class of a request that names none.
    pub default_class: ClassName,
    /// What an instance is made from.
    pub template: Template,
    /// What one instance is expected to need at its peak, until lives have been measured.
    pub memory_expect: Bytes,
    /// Processor time per time that one instance is expected to use; what is measured counts where it is more.
    pub cpus_expect: MilliCpu,
    /// How long a lease is expected to run, until some have ended.
    pub expect_runtime: Duration,
    /// How busy its slots may be on average, for those that wait to find one.
    pub target_utilization: Permille,
    /// The chance that a request may find nothing warm.
    pub miss_target: Permille,
    /// How many are kept warm.
    pub warm: Warm,
    /// The operator's ceiling on instances in any state.
    pub max_instances: u32,
    /// The operator's ceiling on how long they may be there together; `None` means as long as they like.
    pub max_instance_hours: Option<InstanceHours>,
    /// The deadlines of its instances and leases.
    pub deadlines: Deadlines,
    /// Whether what its instances write goes to the journal, too.
    pub journal_output: bool,
    /// What becomes of its leases when the host is short of memory.
    pub on_pressure: OnPressure,
    /// What it does while the host's figures are unknown.
    pub without_telemetry: WithoutTelemetry,
    /// What each class of the host has of its slots.
    pub classes: BTreeMap<ClassName, PoolClass>,
    /// How its leases may wait for a person.
    pub holds: Holds,
    /// The provider that its leases need to get on.
    pub provider: Option<ProviderName>,
}

impl Pool {
    /// The longest that a lease has its slot, where everything takes until its deadline.
    pub fn longest_occupancy(&self) -> Duration {
        let Deadlines { start_timeout, max_runtime, stop_timeout, .. } = self.deadlines;
        start_timeout.saturating_add(max_runtime).saturating_add(stop_timeout)
    }

    /// The longest that the only request of a class waits, where everything takes until its deadline and the pool has
    /// the slots that are guaranteed: `max R + R / g` (see `control`'s `shares`); `None` for a class without a share.
    pub fn longest_wait(&self, class: &str) -> Option<Duration> {
        let occupancy = self.longest_occupancy();
        let guaranteed = self.classes.get(class).is_some_and(|its| its.guaranteed > 0);
        // Its turn is the first one: one occupancy of a slot of its own, after one of somebody else's.
        guaranteed.then(|| occupancy.saturating_add(occupancy))
    }
}

/// How leases of a pool may wait for a person: `hold = { timeout, longest }` and `max_holds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holds {
    /// How long a hold lasts whose caller does not say.
    pub timeout: Duration,
    /// The longest that one may last.
    pub longest: Duration,
    /// How many of its leases may be held at once.
    pub most: u32,
}

impl Holds {
    /// What holds for a pool of so many slots where nothing is written.
    pub const fn of_slots(slots: u32) -> Holds {
        // Half of the slots go on working whatever waits.
        let most = if slots < 2 { 1 } else { slots / 2 };
        // Somebody is called and comes; within an hour, or not any more today.
        Holds { timeout: Duration::from_secs(600), longest: Duration::from_secs(3600), most }
    }
}

/// What one class has of a pool's slots: `class.NAME = { share, hold_back }` of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolClass {
    /// The share of the slots that is guaranteed to it, as it is written.
    pub share: Option<Permille>,
    /// Slots that are lent to no other class.
    pub hold_back: u32,
    /// The slots that come of its share: it gets them before any class gets more than its own. At least 1, but for a pool
    /// with fewer slots than there are classes: there all are 0, and classes take turns by their weight.
    pub guaranteed: u32,
    /// How often it has its turn beside others, where they take turns; in thousandths.
    pub weight: u32,
}

/// A budget of time: `max_instance_hours = { hours, per }` of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceHours {
    /// Hours that instances may be there, added up over all of them...
    pub hours: u32,
    /// ...within this time.
    pub per: Duration,
}

/// What becomes of a pool's leases when the host is short of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPressure {
    /// They go on, but for one that has outgrown what was expected of it, at the critical level.
    Keep,
    /// They may be interrupted, after all that is warm.
    Interrupt,
}

impl OnPressure {
    /// The word in profiles.
    pub const fn as_str(self) -> &'static str {
        match self {
            OnPressure::Keep => "keep",
            OnPressure::Interrupt => "interrupt",
        }
    }
}

/// What a pool does about new work while the host's figures are unknown. What is warm is lent in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithoutTelemetry {
    /// It starts nothing.
    Stop,
    /// It starts while it has fewer than so many instances, and the host would have room if all grew to their limits.
    Slots(u32),
    /// It starts nothing, and requests that would need a start go to this pool.
    Use(PoolName),
}

/// What an instance is made from; two instances of equal templates are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Template {
    /// Image name, tag or digest, as the engine knows it.
    pub image: String,
    /// The command instead of the image's own.
    pub command: Option<Vec<String>>,
    /// Environment given to the container; operator's words, never a secret of the host.
    pub env: BTreeMap<String, String>,
    /// The kernel's limit for one instance, swap included (there is none).
    pub memory_max: Bytes,
    /// Processor time per time it may use.
    pub cpus: MilliCpu,
    /// Processes and threads it may have.
    pub pids: u32,
    /// Open files each process may have.
    pub nofile: u32,
    /// Size of `/dev/shm`; counts towards `memory_max`.
    pub shm: Bytes,
    /// Writable folders in memory with their sizes, all counted towards `memory_max`.
    pub tmpfs: BTreeMap<String, Bytes>,
    /// Whether the image's own files are read-only.
    pub read_only: bool,
    /// The user inside, instead of the image's own; never root.
    pub user: Option<String>,
    /// What it may reach.
    pub network: Network,
    /// How it shows that it is ready.
    pub probe: Probe,
}

/// What an instance may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Its own loopback and nothing else.
    None,
    /// The engine's default bridge, unfiltered: whatever this host reaches.
    Bridge,
}

impl Network {
    /// The word in profiles and the engine's name of the network.
    pub const fn as_str(self) -> &'static str {
        match self {
            Network::None => "none",
            Network::Bridge => "bridge",
        }
    }
}

/// How an instance shows that it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// This port on its own loopback answers `GET /json/version` with 200.
    DevTools {
        /// The port.
        port: u16,
    },
    /// This command inside it ends with exit code 0.
    Command(Vec<String>),
}

/// How many instances are kept warm: `warm = { min, max, max_age }`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warm {
    /// The stock that is kept when nothing is known of demand.
    pub min: u32,
    /// The largest stock; at least `min`.
    pub max: u32,
    /// A warm instance older than this is replaced.
    pub max_age: Duration,
    /// Where fewer than one request in this time comes, nothing more than `min` is kept for the next one.
    pub keep: Duration,
}

/// The deadlines of a pool's instances and leases; none is ever infinite.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// From the order to start until the probe has answered.
    pub start_timeout: Duration,
    /// From the grant until the caller first uses it.
    pub first_use_timeout: Duration,
    /// Without any activity.
    pub idle_timeout: Duration,
    /// From the grant, whatever happens.
    pub max_runtime: Duration,
    /// From the polite signal to the kill.
    pub stop_timeout: Duration,
}
