//! The host of a workload: its memory and processors, and what they do to instances.
//!
//! ```text
//! start     drawn * (1 + contention * other starts) * max(1, wanted / cores)       [time]
//! wanted    sum of what callers keep busy, and `cpus` for each start               [cores]
//! memory    idle until it is lent; then to the drawn peak in `grows_in`, and on by the leak    [bytes]
//! available total - own - hog - sum of memory - overhead for each container        [bytes]
//! ```
//!
//! Once a second all of it moves and the controller is shown it, as `measure` would show it. Just before, the kernel
//! ends who is beyond a limit: an instance its own; the largest of all, where all together are beyond the ceiling that
//! the controller asked for, or where the host has nothing left. A victim of the last two that was within what its
//! pool expects is innocent.
//!
//! Deliberately absent: tasks and disks, of which there are plenty; swap, page cache, and stalls for memory, which what cannot be reclaimed does not cause;
//! callers whose work gets slower where processors are short.

use std::collections::BTreeMap;
use std::time::Duration;

use super::engine::{Keep, Step};
use super::{Happening, World, space, unread};
use crate::control::message::{
    HostCpu, HostMemory, Input, InstanceId, InstanceUse, Pressure, Sample, SliceMemory,
};
use crate::profile::{Pool, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu, Permille};

/// What the host knows of one instance.
#[derive(Debug)]
pub(super) struct Modelled {
    /// How long its start takes, and its end.
    pub(super) start: Duration,
    pub(super) stop: Duration,
    /// What it grows by from look to look, until its peak, and what the peak grows by.
    pub(super) step: Bytes,
    pub(super) leak: Bytes,
    /// When it became ready.
    pub(super) ready_at: Option<Instant>,
    /// When it was lent, if it was.
    pub(super) lent_at: Option<Instant>,
    /// The processors that it keeps busy.
    pub(super) cpu: MilliCpu,
    /// What its pool expects, and its limit.
    expect: Bytes,
    most: Bytes,
}

impl Modelled {
    /// Its probe answered; where that is for the first time, its start keeps no processor busy any more.
    pub(super) fn is_ready(&mut self, now: Instant) {
        if self.ready_at.is_none() {
            (self.ready_at, self.cpu) = (Some(now), MilliCpu::new(0));
        }
    }
}

/// By which limit the kernel ends somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Own,
    Slice,
    Host,
}

impl World {
    /// An instance of this pool as the host has it, and what it holds at first; none in a drawn run.
    pub(super) fn model_instance(&mut self, pool: &PoolName, spec: &Pool) -> Option<(Modelled, Bytes)> {
        let play = self.play.as_ref()?;
        let behaviour = play.workload.instances[pool];
        let starts = self.engine.keeps.values().filter(|keep| keep.is_starting()).count();
        let beside = f64::from(behaviour.contention.get()) / 1000.0
            * f64::from(u32::try_from(starts).unwrap_or(u32::MAX));
        let (wanted, cores) = (as_cores(self.wanted_cpu()), as_cores(self.cores));
        let seconds = behaviour.start.draw(&mut self.rng) * (1.0 + beside) * (wanted / cores).max(1.0);
        let modelled = Modelled {
            start: Duration::from_secs_f64(seconds),
            stop: behaviour.stop,
            step: Bytes::ZERO,
            leak: Bytes::ZERO,
            ready_at: None,
            lent_at: None,
            cpu: spec.template.cpus,
            expect: spec.memory_expect,
            most: spec.template.memory_max,
        };
        Some((modelled, behaviour.idle))
    }

    /// All processors that are wanted now.
    fn wanted_cpu(&self) -> MilliCpu {
        self.engine
            .keeps
            .values()
            .filter_map(|keep| keep.modelled.as_ref())
            .map(|modelled| modelled.cpu)
            .sum()
    }

    /// What outgrew a limit is ended, the host is looked at, and the look is handed in.
    pub(super) fn look_at_machine(&mut self) {
        self.end_what_outgrew();
        let unreadable = self.faults().unread;
        let (mut instances, mut hard) = (BTreeMap::new(), Bytes::ZERO);
        for (id, keep) in self.engine.keeps.iter().filter(|(_, keep)| keep.runs()) {
            hard = hard.saturating_add(keep.held);
            let missed = unreadable > 0 && self.rng.u32(0..1000) < unreadable;
            let memory = if missed { Err(unread()) } else { Ok(keep.held) };
            let cpu = Ok(keep.modelled.as_ref().map_or(MilliCpu::new(0), |modelled| modelled.cpu));
            let kills = Ok(keep.kills);
            instances.insert(*id, InstanceUse { memory, cpu, kills });
        }
        let wanted = self.wanted_cpu();
        let busy = wanted.min(self.cores);
        let waits = wanted.saturating_sub(busy).get() * 1000 / wanted.get().max(1);
        let memory = HostMemory { total: self.memory, available: self.available() };
        self.note_look(hard);
        let none = Permille::new(0);
        let cpu_some = Permille::new(u32::try_from(waits).unwrap_or(1000));
        let space::Seen { pids, disks: [engine_disk, state_disk] } = self.see_space();
        let sample = Sample {
            memory: self.seen(memory),
            cpu: self.seen(HostCpu { cores: self.cores, busy }),
            pressure: self.seen(Pressure { memory_some: none, memory_full: none, cpu_some, io_some: none }),
            slice: self.seen(SliceMemory { hard }),
            slice_stalled: self.seen(none),
            pids,
            engine_disk,
            state_disk,
            reclaims: self.reclaims,
            instances,
        };
        self.word(Input::Sample(Box::new(sample)));
    }

    fn seen<T>(&self, figure: T) -> Result<T, crate::control::message::Unread> {
        if self.blind { Err(unread()) } else { Ok(figure) }
    }

    /// What nobody holds.
    pub(super) fn available(&self) -> Bytes {
        let machine = &self.play.as_ref().expect("a workload is played").workload.machine;
        let there = self.engine.keeps.values().filter(|keep| keep.runs());
        let held: Bytes = there.map(|keep| keep.held.saturating_add(machine.overhead)).sum();
        self.memory.saturating_sub(machine.own).saturating_sub(self.hog).saturating_sub(held)
    }

    fn end_what_outgrew(&mut self) {
        let outgrown =
            |keep: &&Keep| keep.modelled.as_ref().is_some_and(|modelled| keep.held > modelled.most);
        let own = self.engine.keeps.iter().filter(|(_, keep)| keep.runs() && outgrown(keep));
        for id in own.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.kill(id, Limit::Own);
        }
        let ceiling = self.play.as_ref().and_then(|play| play.ceiling);
        while ceiling.is_some_and(|ceiling| self.held() > ceiling) {
            self.kill_largest(Limit::Slice);
        }
        while self.available() == Bytes::ZERO && self.held() > Bytes::ZERO {
            self.kill_largest(Limit::Host);
        }
    }

    /// What all containers hold.
    pub(super) fn held(&self) -> Bytes {
        self.engine.keeps.values().map(Keep::held).sum()
    }

    fn kill_largest(&mut self, limit: Limit) {
        let running = self.engine.keeps.iter().filter(|(_, keep)| keep.runs());
        if let Some((id, _)) = running.max_by_key(|(id, keep)| (keep.held, **id)) {
            self.kill(*id, limit);
        }
    }

    fn kill(&mut self, id: InstanceId, limit: Limit) {
        let keep = &self.engine.keeps[&id];
        let innocent = keep.modelled.as_ref().is_some_and(|modelled| keep.held <= modelled.expect);
        let kills = &mut self.play.as_mut().expect("a workload is played").tally.kills;
        match limit {
            Limit::Own => kills.own += 1,
            Limit::Slice => kills.slice += 1,
            Limit::Host => kills.host += 1,
        }
        kills.innocent += u64::from(innocent && limit != Limit::Own);
        self.engine_step(id, Step::Killed { own: limit == Limit::Own, first: true });
    }

    /// Nothing moves for so long, and the clock goes on: what was to happen happens so much later.
    pub(super) fn sleep(&mut self, lasting: Duration) {
        self.now = self.now.after(lasting);
        if let Some(play) = &mut self.play {
            play.tally.bars.lack(self.now, lasting);
        }
        let later = |((at, order), happening): ((Instant, u64), Box<Happening>)| {
            ((at.after(lasting), order), happening)
        };
        self.heap = std::mem::take(&mut self.heap).into_iter().map(later).collect();
    }
}

fn as_cores(cpu: MilliCpu) -> f64 {
    f64::from(u32::try_from(cpu.get()).unwrap_or(u32::MAX)) / 1000.0
}
