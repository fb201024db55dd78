//! What the host and its containers use, read from the kernel: one [`Sample`] a look.
//!
//! Think of a meter reader with a ring of keys: doors are found and opened once ([`Measure::follow`]),
//! and every round only reads the dials. Files stay open and are read in one piece from their start, so a
//! round costs microseconds a container, and a file whose container is gone says so itself (`ENODEV`).
//!
//! ```text
//! root.rs     where /proc and the cgroups are; where a process's cgroup is
//! file.rs     one kernel file: kept open, bounded, whole
//! host.rs     meminfo, stat, pressure, pids
//! disk.rs     how full the disks are
//! cgroup.rs   memory, processor time and kills of one container, cgroup v1 and v2
//! rate.rs     a counter between two looks
//! slice.rs    all containers together
//! trigger.rs  the kernel's word that tasks stood still
//! reclaim.rs  asking for memory back
//! ```
//!
//! What comes from crates: `cgroups-rs` says which hierarchy the host has and where the v1 controllers are
//! mounted; `procfs` reads the texts of `/proc`. The values of a cgroup are read by parsers of our own,
//! because `cgroups-rs` answers 0 where a file is missing, unreadable or says `max`, and a supervisor that
//! takes "unknown" for "nothing used" overfills its host; the tests compare ours with its values.
//!
//! Invariants: a figure that is missing, mangled, cut short or not allowed is an [`Unread`] with its
//! reason, never 0, and takes no other figure with it. The first look at a counter has no rate. A process's
//! cgroup is read from the process, never put together from names. Instances are read before the host, and
//! MemAvailable last, so that memory taken during a round is missing from what is available.
//!
//! Not here: clocks (`now` comes in), ages of figures and levels of pressure (`control`), setting limits
//! (`daemon`) and freezing, a host that is itself in a limited cgroup.
//!
//! [`Unread`]: crate::control::message::Unread

mod cgroup;
mod disk;
mod file;
mod host;
mod rate;
mod reclaim;
mod root;
mod slice;
mod trigger;

#[cfg(test)]
mod kills_tests;
#[cfg(test)]
mod live;
#[cfg(test)]
mod slice_tests;
#[cfg(test)]
mod space_tests;
#[cfg(test)]
mod tests;

pub use reclaim::Reclaim;
pub use root::{Root, SliceLimits};
pub use trigger::Trigger;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use crate::control::message::{InstanceId, InstanceUse, Sample};
use crate::quantity::Instant;

use cgroup::Cgroup;
use disk::Folder;
use file::Page;
use host::Host;
use root::Place;
use slice::Slice;

/// Reads the host and the followed instances. Its calls block for as long as the kernel takes to answer.
#[derive(Debug)]
pub struct Measure {
    root: Root,
    page: Page,
    host: Host,
    slice: Slice,
    engine_folder: Folder,
    state_folder: Folder,
    instances: BTreeMap<InstanceId, (Place, Cgroup)>,
}

/// Why an instance cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// Its process is gone, or we may not look at it.
    #[error("cannot look at process `{pid}`")]
    Process {
        /// Which.
        pid: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel's list of the process's cgroups says something else than it should.
    #[error("cannot tell the cgroup of process `{pid}`: {why}")]
    Odd {
        /// Which.
        pid: u32,
        /// What was wrong, in one line.
        why: String,
    },
    /// The process is not in a cgroup of its own: the figures would be those of the whole host.
    #[error("process `{pid}` is in the cgroup `{path}`, which is not its own")]
    NotItsOwn {
        /// Which.
        pid: u32,
        /// In which.
        path: String,
    },
    /// The cgroup, or a file in it, cannot be opened.
    #[error("cannot open `{path}`")]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Measure {
    /// Nothing is followed, and nothing opened, yet.
    pub fn new(root: Root) -> Measure {
        Measure {
            host: Host::new(&root),
            slice: Slice::new(&root),
            engine_folder: Folder::default(),
            state_folder: Folder::default(),
            root,
            page: Page::new(),
            instances: BTreeMap::new(),
        }
    }

    /// Looks from the next sample on how full the disk of the engine's files is.
    pub fn engine_is_at(&mut self, folder: PathBuf) {
        self.engine_folder.is_at(folder);
    }

    /// The same of our own state.
    pub fn state_is_at(&mut self, folder: PathBuf) {
        self.state_folder.is_at(folder);
    }

    /// Measures this instance from the next sample on; `pid` is its container's first process.
    ///
    /// An instance that was followed already is found anew, and its rates begin again. Costs four or five open
    /// files an instance until it is forgotten.
    ///
    /// # Errors
    /// When the process has no cgroup of its own that can be opened; nothing of that instance is followed then.
    pub fn follow(&mut self, instance: InstanceId, pid: u32) -> Result<(), MeasureError> {
        self.instances.remove(&instance);
        let place = self.root.place_of(pid, &mut self.page)?;
        let cgroup = Cgroup::open(&place)?;
        self.instances.insert(instance, (place, cgroup));
        Ok(())
    }

    /// Measures this instance no more, and closes its files.
    pub fn forget(&mut self, instance: InstanceId) {
        self.instances.remove(&instance);
    }

    /// A way to ask the kernel for memory of this instance; `None` where it is not followed, or there is none.
    pub fn reclaim(&self, instance: InstanceId) -> Option<Reclaim> {
        let (place, _) = self.instances.get(&instance)?;
        slice::reclaim_file(place).map(Reclaim::new)
    }

    /// Looks at one instance alone; `None` where it is not followed. Its rate is then that since this look, or the one before.
    pub fn look_at(&mut self, instance: InstanceId, now: Instant) -> Option<InstanceUse> {
        let (_, cgroup) = self.instances.get_mut(&instance)?;
        Some(cgroup.read(now, &mut self.page))
    }

    /// Which instances are measured.
    pub fn followed(&self) -> impl Iterator<Item = InstanceId> {
        self.instances.keys().copied()
    }

    /// Looks at everything once. `now` is read by the caller just before: rates divide by the time since the last one.
    pub fn sample(&mut self, now: Instant) -> Sample {
        let mut instances = BTreeMap::new();
        for (instance, (_, cgroup)) in &mut self.instances {
            instances.insert(*instance, cgroup.read(now, &mut self.page));
        }
        // After its parts: what one takes in between is then counted as outliving another, not as nothing.
        let slice = self.slice.memory(&mut self.page);
        let slice_stalled = self.slice.stalled(&mut self.page);
        let reclaims = self.slice.reclaims();
        let pids = self.host.pids(self.slice.pids(&mut self.page), &mut self.page);
        let (engine_disk, state_disk) = (self.engine_folder.disk(), self.state_folder.disk());
        let cpu = self.host.cpu(&mut self.page);
        let pressure = self.host.pressure(&mut self.page);
        let memory = self.host.memory(&mut self.page);
        Sample {
            memory,
            cpu,
            pressure,
            slice,
            slice_stalled,
            pids,
            engine_disk,
            state_disk,
            reclaims,
            instances,
        }
    }
}
