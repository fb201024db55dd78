//! Belief about this machine: what was measured, how old it is, and whether the engine answers.
//!
//! Think of a gauge with a dust-covered glass: the needle may be right, but one should know for how
//! long nobody has looked. A figure is fresh while it is read on time, stale for a while after that,
//! then unknown. Unknown may block growth, a shrink or a kill; it never causes one and never raises
//! what is admitted. That rule stands here, in [`Figure::reading`], and nowhere else.
//!
//! Not here: reading anything (`measure`), the level of pressure (`pressure`), and what follows from them
//! (`admission`, `budget`, `relief`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::message::{
    Disk, DiskOf, Engine, HostCpu, HostMemory, HostPids, InstanceId, InstanceUse, Pressure, Read, Reading,
    Sample, SliceMemory, Unread,
};
use super::pressure::Gauge;
use crate::profile::Host;
use crate::quantity::{Instant, Permille};

/// The daemon looks once a second (`measure`); two looks may be missed before a figure is old.
const STALE_AFTER: Duration = Duration::from_secs(3);
/// Memory can be gone in seconds when browsers start; ten is as long as an old figure is worth having.
pub(super) const UNKNOWN_AFTER: Duration = Duration::from_secs(10);
const _: () = assert!(STALE_AFTER.as_nanos() < UNKNOWN_AFTER.as_nanos());

/// One measured figure with the time it was last read.
#[derive(Debug, Clone)]
pub(super) struct Figure<T> {
    last: Option<(T, Instant)>,
    trouble: Option<String>,
}

impl<T> Default for Figure<T> {
    fn default() -> Figure<T> {
        Figure { last: None, trouble: None }
    }
}

impl<T: Clone> Figure<T> {
    /// One that nobody has read, for this reason: unknown from the beginning, and not merely young.
    pub(super) fn unread(why: &str) -> Figure<T> {
        Figure { last: None, trouble: Some(why.to_owned()) }
    }

    /// Takes in what was read, or why it could not be.
    pub(super) fn take(&mut self, now: Instant, read: Read<T>) {
        match read {
            Ok(value) => {
                self.last = Some((value, now));
                self.trouble = None;
            }
            Err(Unread(why)) => self.trouble = Some(why),
        }
    }

    /// What is known now.
    pub(super) fn reading(&self, now: Instant) -> Reading<T> {
        let trouble = || self.trouble.clone();
        match &self.last {
            Some((value, at)) if now.since(*at) <= STALE_AFTER => Reading::Fresh(value.clone(), *at),
            Some((value, at)) if now.since(*at) <= UNKNOWN_AFTER => Reading::Stale(value.clone(), *at),
            Some(_) => Reading::Unknown(trouble().unwrap_or_else(|| "no sample for too long".into())),
            None => Reading::Unknown(trouble().unwrap_or_else(|| "not sampled yet".into())),
        }
    }

    /// What was read just now, and nothing older.
    pub(super) fn read_at(&self, now: Instant) -> Option<&T> {
        self.last.as_ref().filter(|(_, at)| *at == now && self.trouble.is_none()).map(|(value, _)| value)
    }

    /// The last value that could be read, however old: for what does not change while a host is up, and nothing else.
    pub(super) fn last(&self) -> Option<&T> {
        self.last.as_ref().map(|(value, _)| value)
    }

    /// Whether nobody has tried to read it yet.
    pub(super) fn never_tried(&self) -> bool {
        self.last.is_none() && self.trouble.is_none()
    }
}

impl<T> Reading<T> {
    /// The same of something that follows from the value.
    pub fn map<U>(self, into: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Reading::Fresh(value, at) => Reading::Fresh(into(value), at),
            Reading::Stale(value, at) => Reading::Stale(into(value), at),
            Reading::Unknown(why) => Reading::Unknown(why),
        }
    }

    /// The value, fresh or stale; why there is none otherwise.
    ///
    /// # Errors
    /// When the figure is unknown.
    pub fn known(&self) -> Result<&T, &str> {
        match self {
            Reading::Fresh(value, _) | Reading::Stale(value, _) => Ok(value),
            Reading::Unknown(why) => Err(why),
        }
    }
}

/// What is believed of the host.
#[derive(Debug)]
pub(super) struct Belief {
    /// Its memory.
    pub(super) memory: Figure<HostMemory>,
    /// Its processors.
    pub(super) cpu: Figure<HostCpu>,
    /// Its stalls.
    pub(super) pressure: Figure<Pressure>,
    /// What all containers hold.
    pub(super) slice: Figure<SliceMemory>,
    /// How the slice stalls for memory.
    pub(super) slice_stalled: Figure<Permille>,
    /// Its processes and threads.
    pub(super) pids: Figure<HostPids>,
    /// The disk of the engine.
    pub(super) engine_disk: Figure<Disk>,
    /// The disk of our own state.
    pub(super) state_disk: Figure<Disk>,
    /// Whether a container can be asked to give memory back.
    pub(super) reclaims: bool,
    /// How short of memory the host is.
    pub(super) gauge: Gauge,
    /// The engine.
    pub(super) engine: Engine,
    /// Whether the journal was told that memory is known.
    pub(super) told_known: bool,
    /// Whether the journal was told that a disk is nearly full.
    pub(super) told_disk: bool,
    /// Whether the journal was told that the engine does not answer.
    pub(super) told_lost: bool,
}

impl Belief {
    /// Nothing is known yet, the engine included.
    pub(super) fn new() -> Belief {
        Belief {
            memory: Figure::default(),
            cpu: Figure::default(),
            pressure: Figure::default(),
            slice: Figure::default(),
            slice_stalled: Figure::default(),
            pids: Figure::default(),
            engine_disk: Figure::default(),
            state_disk: Figure::default(),
            reclaims: false,
            gauge: Gauge::default(),
            engine: Engine::Unreachable("not asked yet".into()),
            told_known: true,
            told_disk: false,
            told_lost: false,
        }
    }

    /// Takes in one look at the host; hands back what it says of the instances.
    pub(super) fn take(&mut self, now: Instant, sample: Sample) -> BTreeMap<InstanceId, InstanceUse> {
        self.memory.take(now, sample.memory);
        self.cpu.take(now, sample.cpu);
        self.pressure.take(now, sample.pressure);
        self.slice.take(now, sample.slice);
        self.slice_stalled.take(now, sample.slice_stalled);
        self.pids.take(now, sample.pids);
        self.engine_disk.take(now, sample.engine_disk);
        self.state_disk.take(now, sample.state_disk);
        self.reclaims = sample.reclaims;
        sample.instances
    }

    /// The figures that a start is tested with.
    ///
    /// # Errors
    /// The first that is unknown, and why.
    pub(super) fn sight(&self, host: &Host, now: Instant) -> Result<Sight, String> {
        let memory = *self.memory.reading(now).known().map_err(|why| format!("memory: {why}"))?;
        let slice = self.slice.reading(now);
        let slice = *slice.known().map_err(|why| format!("memory of all containers: {why}"))?;
        let cpu = *self.cpu.reading(now).known().map_err(|why| format!("cpu: {why}"))?;
        let pids = *self.pids.reading(now).known().map_err(|why| format!("pids: {why}"))?;
        for (of, disk) in [(DiskOf::Engine, &self.engine_disk), (DiskOf::State, &self.state_disk)] {
            if !host.disk_floor.is_nothing() {
                disk.reading(now).known().map_err(|why| format!("disk of {of}: {why}"))?;
            }
        }
        Ok(Sight { memory, slice, cpu, pids })
    }

    /// When the figures of a look at `now` stop being believed.
    pub(super) fn unknown_at(now: Instant) -> Instant {
        now.after(UNKNOWN_AFTER).after(Duration::from_nanos(1))
    }
}

/// What is known of the host, where all of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) memory: HostMemory,
    pub(super) slice: SliceMemory,
    pub(super) cpu: HostCpu,
    pub(super) pids: HostPids,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_ages_from_fresh_to_stale_to_unknown() {
        let at = |seconds| Instant::BOOT.after(Duration::from_secs(seconds));
        let mut figure = Figure::default();
        assert_eq!(figure.reading(at(0)), Reading::Unknown("not sampled yet".into()));
        figure.take(at(10), Ok(7));
        assert_eq!(figure.reading(at(13)), Reading::Fresh(7, at(10)));
        figure.take(at(13), Err(Unread("file is gone".into())));
        assert_eq!(figure.reading(at(13)), Reading::Fresh(7, at(10)), "one failed look changes nothing");
        assert_eq!(figure.reading(at(14)), Reading::Stale(7, at(10)));
        assert_eq!(figure.reading(at(21)), Reading::Unknown("file is gone".into()));
        figure.take(at(22), Ok(8));
        assert_eq!(figure.reading(at(22)), Reading::Fresh(8, at(22)));
    }
}
