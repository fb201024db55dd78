//! The slice of all our containers: what they hold together, how it stalls, and whether it gives back.
//!
//! Its memory is more than the sum of its containers': pages of a container that is gone stay charged to it until
//! they are given back. A slice that does not exist holds nothing, and that is known: systemd ends an empty one,
//! and makes it again with the next container.

use std::fs::File;
use std::path::PathBuf;

use crate::control::message::{Read, SliceMemory};
use crate::quantity::{Bytes, Permille};

use super::MeasureError;
use super::Root;
use super::cgroup::Cgroup;
use super::file::{Page, Standing, TEXT_MAX, unread};
use super::host::stalled;
use super::root::Place;

/// The slice's files, those that could be opened.
#[derive(Debug)]
pub(super) struct Slice {
    place: Read<Place>,
    /// `None` until it was found, and again after it failed.
    open: Option<Open>,
    pressure: Option<Standing>,
    pids: Option<Standing>,
}

#[derive(Debug)]
struct Open {
    cgroup: Cgroup,
    reclaims: bool,
}

impl Slice {
    pub(super) fn new(root: &Root) -> Slice {
        let pressure = root.slice_pressure().map(|dir| Standing::new(&dir, "memory.pressure", TEXT_MAX));
        let place = root.slice().map_err(|why| unread("the slice of all containers", why));
        let dir = root.slice_limits().ok().and_then(|limits| Some(limits.pids.ok()?.parent()?.to_owned()));
        let pids = dir.map(|dir| Standing::new(&dir, "pids.current", TEXT_MAX));
        Slice { place, open: None, pressure, pids }
    }

    pub(super) fn memory(&mut self, page: &mut Page) -> Read<SliceMemory> {
        let place = self.place.as_ref().map_err(Clone::clone)?;
        let open = match self.open.take() {
            Some(open) => open,
            None => match Cgroup::open(place) {
                Ok(cgroup) => Open { cgroup, reclaims: reclaim_file(place).is_some() },
                Err(MeasureError::Open { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    return Ok(SliceMemory { hard: Bytes::ZERO });
                }
                Err(error) => return Err(unread("the slice of all containers", error)),
            },
        };
        let hard = open.cgroup.memory(page)?;
        self.open = Some(open);
        Ok(SliceMemory { hard })
    }

    /// The share of the last ten seconds in which all of its tasks waited for memory.
    pub(super) fn stalled(&mut self, page: &mut Page) -> Read<Permille> {
        match &mut self.pressure {
            Some(pressure) => pressure.read(page, |text| stalled(text, "full ")),
            None => Err(unread("memory.pressure", "the host has none of a cgroup")),
        }
    }

    /// How many processes and threads it has; none where that cannot be told, so that they count as others' beside what is promised.
    pub(super) fn pids(&mut self, page: &mut Page) -> u64 {
        let number = |text: &str| text.trim_end().parse().map_err(|_| "it is no number");
        self.pids.as_mut().and_then(|pids| pids.read(page, number).ok()).unwrap_or(0)
    }

    /// Whether the kernel would take memory back from one of its containers.
    pub(super) fn reclaims(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.reclaims)
    }
}

/// Where a write asks the kernel to take memory back, if we may: cgroup v2 since Linux 5.19.
pub(super) fn reclaim_file(place: &Place) -> Option<File> {
    let Place::Unified(dir) = place else { return None };
    let path: PathBuf = dir.join("memory.reclaim");
    File::options().write(true).open(path).ok()
}
