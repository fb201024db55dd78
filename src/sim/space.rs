//! Processors, pids and disks of the drawn host as they are seen: somebody else takes them for a while, and now and then they
//! cannot be read.
//!
//! A chance of their own, so that what else is drawn is the same with and without them.

use std::time::Duration;

use fastrand::Rng;

use super::engine::Keep;
use super::{Happening, World, unread};
use crate::control::message::{Disk, HostPids, Inodes, Read};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// The host's own processes.
const OWN: u64 = 300;
/// Those of one instance.
const EACH: u64 = 4;
/// Both disks.
const DISK: Bytes = Bytes::mib(100 << 10);
const INODES: u64 = 1_000_000;

/// What is to be had.
#[derive(Debug)]
pub(super) struct Space {
    rng: Rng,
    /// Tasks that the kernel can have.
    most: u64,
    /// Tasks of somebody else.
    crowd: u64,
    /// Whether the engine's disk is nearly full, and that of the state.
    full: [bool; 2],
}

/// What one look sees of it.
pub(super) struct Seen {
    pub(super) pids: Read<HostPids>,
    pub(super) disks: [Read<Disk>; 2],
}

impl Space {
    /// So much that nobody notices.
    pub(super) fn plenty(seed: u64) -> Space {
        Space { rng: Rng::with_seed(seed ^ 0x5face), most: 4_194_304, crowd: 0, full: [false; 2] }
    }

    /// Just so much that containers can have so many beside the host's own.
    pub(super) fn just_for(seed: u64, pids: u64) -> Space {
        // A quarter is reserved.
        Space { most: (pids + OWN) * 4 / 3 + 2, ..Space::plenty(seed) }
    }

    /// Nobody else takes anything any more.
    pub(super) fn calm(&mut self) {
        (self.crowd, self.full) = (0, [false; 2]);
    }

    /// Somebody takes nearly all of the processes that are left, or gives them back.
    pub(super) fn crowd(&mut self, comes: bool) {
        self.crowd = if comes { self.rng.u64(0..self.most) } else { 0 };
    }

    /// Somebody fills one disk, or empties both.
    pub(super) fn fill(&mut self, full: bool) {
        self.full = [false; 2];
        self.full[self.rng.usize(0..2)] = full;
    }

    /// What one instance is seen to use of the processors; now and then that is no sane number.
    pub(super) fn cpu(&mut self) -> Read<MilliCpu> {
        match self.rng.u32(0..50) {
            0 => Err(unread()),
            1 => Ok(MilliCpu::new(u64::MAX)),
            _ => Ok(MilliCpu::new(self.rng.u64(0..400))),
        }
    }

    fn disk(&mut self, of: usize) -> Disk {
        let half = Disk {
            total: DISK,
            free: Bytes::new(DISK.get() / 2),
            inodes: Some(Inodes { total: INODES, free: INODES / 2 }),
        };
        match (self.full[of], self.rng.bool()) {
            (false, _) => half,
            (true, true) => Disk { free: Bytes::new(self.rng.u64(0..DISK.get() / 10)), ..half },
            (true, false) => {
                Disk { inodes: Some(Inodes { total: INODES, free: self.rng.u64(0..INODES / 25) }), ..half }
            }
        }
    }
}

impl World {
    /// Somebody takes what there is, and gives it back.
    pub(super) fn prepare_space(&mut self, seconds: u64) {
        for _ in 0..seconds / 20 {
            let rng = &mut self.space.rng;
            let from = Instant::BOOT.after(Duration::from_secs(rng.u64(2..seconds)));
            let until = from.after(Duration::from_secs(rng.u64(1..25)));
            let [begins, ends] = match rng.bool() {
                true if self.faults.crowds => [true, false].map(Happening::Crowd),
                false if self.faults.fills => [true, false].map(Happening::Fills),
                true | false => continue,
            };
            self.at(from, begins);
            self.at(until, ends);
        }
    }

    /// What `measure` would see of it.
    pub(super) fn see_space(&mut self) -> Seen {
        let unreadable = self.faults().unread;
        let running = self.engine.keeps.values().filter(|keep: &&Keep| keep.runs()).count() as u64;
        let space = &mut self.space;
        let ours = running * EACH;
        let there = (OWN + ours + space.crowd).min(space.most);
        let pids = HostPids { most: space.most, there, ours };
        let blind = self.blind;
        let missed = |space: &mut Space| blind || space.rng.u32(0..1000) < unreadable;
        Seen {
            pids: if missed(space) { Err(unread()) } else { Ok(pids) },
            disks: [0, 1].map(|of| if missed(space) { Err(unread()) } else { Ok(space.disk(of)) }),
        }
    }
}
