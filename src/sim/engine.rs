//! A container engine, and the keepers of instances in front of it, as `daemon` has them: one at a time for
//! each instance, so that a stop waits for a create that is under way.
//!
//! Containers are made after drawn latencies, fail, never get ready, die, refuse to stop for a while, or are
//! removed by somebody else. While the engine is away nothing can be made, stopped or heard, and what runs
//! goes on. In the run of a workload the latencies and the memory are those of its host (`machine`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::Modelled;
use super::{Happening, World};
use crate::control::message::{
    Exit, Input, InstanceId, InstanceUse, Kills, Listing, News, Process, StartFailure,
};
use crate::profile::{Pool, PoolName};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// The exit code of what the kernel killed.
const KILLED: i64 = 137;

/// The engine with its containers.
#[derive(Debug, Default)]
pub(super) struct Engine {
    /// Whether it does not answer.
    pub(super) away: bool,
    pub(super) keeps: BTreeMap<InstanceId, Keep>,
}

/// One instance, from the order to make it until nothing is left.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) pool: Option<PoolName>,
    stage: Stage,
    /// An order to stop came while it was being made.
    stop: bool,
    /// The daemon that made it has ended: nobody starts what was only made.
    left: bool,
    stubborn_until: Instant,
    mute: bool,
    /// What it holds, and to what it grows.
    pub(super) held: Bytes,
    pub(super) peak: Bytes,
    /// What the kernel has done to it.
    pub(super) kills: Kills,
    /// What the host of a workload knows of it beside.
    pub(super) modelled: Option<Modelled>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Making,
    /// Its container is there, and its first process is not yet.
    Made,
    Runs,
    Exited,
    Nothing,
}

/// What happens to an instance next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Its container is made, and this becomes of it.
    Made(Fate),
    /// Its first process begins, and this becomes of it.
    Begins(Fate),
    Ready,
    /// Its keeper gives up at the deadline.
    GivesUp,
    Dies(i64),
    /// The kernel kills a process of it, for its own limit or one above; its first one, where that is said.
    Killed {
        own: bool,
        first: bool,
    },
    Vanishes,
    Stops,
    Probed,
    /// A new keeper takes it over.
    Adopts,
}

/// How a start goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Fails(StartFailure),
    Hangs(Instant),
    Dies,
    Works,
}

impl Keep {
    /// A container of an earlier daemon, or of nobody.
    pub(super) fn stranger() -> Keep {
        Keep { stage: Stage::Runs, ..Keep::made(None, Bytes::mib(100), Instant::BOOT, false) }
    }

    fn made(pool: Option<PoolName>, peak: Bytes, stubborn_until: Instant, mute: bool) -> Keep {
        Keep {
            pool,
            stage: Stage::Making,
            stop: false,
            left: false,
            stubborn_until,
            mute,
            held: Bytes::mib(40),
            peak,
            kills: Kills::default(),
            modelled: None,
        }
    }

    /// Whether there is a container, or will be one.
    pub(super) fn counts(&self) -> bool {
        self.stage != Stage::Nothing
    }

    /// What it held at the last look.
    pub(super) fn held(&self) -> Bytes {
        if self.stage == Stage::Runs { self.held } else { Bytes::ZERO }
    }

    /// Whether its first process runs.
    pub(super) fn runs(&self) -> bool {
        self.stage == Stage::Runs
    }

    /// Whether it is on its way to be ready.
    pub(super) fn is_starting(&self) -> bool {
        let ready = self.modelled.as_ref().is_some_and(|modelled| modelled.ready_at.is_some());
        match self.stage {
            Stage::Making | Stage::Made => !self.left,
            Stage::Runs => !ready,
            Stage::Exited | Stage::Nothing => false,
        }
    }

    /// Grows, from one look to the next: to its peak in some of them, or as the host of a workload has it.
    pub(super) fn grow(&mut self) {
        let missing = self.peak.get().saturating_sub(self.held.get());
        let by = match &mut self.modelled {
            None => missing / 4,
            Some(modelled) => {
                self.peak = self.peak.saturating_add(modelled.leak);
                missing.min(modelled.step.get())
            }
        };
        self.held = self.held.saturating_add(Bytes::new(by));
    }
}

impl World {
    pub(super) fn order_start(&mut self, id: InstanceId, pool: PoolName, spec: &Pool, deadline: Instant) {
        let faults = self.faults();
        if self.one_in(faults.lost) {
            return self.report.count("orders lost");
        }
        let peak = self.draw_peak(spec);
        let fate = if self.one_in(faults.fails) {
            Fate::Fails(match self.rng.u32(0..3) {
                0 => StartFailure::ImageMissing("i".into()),
                1 => StartFailure::Died(Exit { code: Some(1) }),
                _ => StartFailure::Engine("no space left on device".into()),
            })
        } else if self.one_in(faults.hangs) {
            Fate::Hangs(deadline)
        } else if self.one_in(faults.dies / 4) {
            Fate::Dies
        } else {
            Fate::Works
        };
        let stubborn = if self.one_in(faults.stubborn) { self.rng.u64(1..=150) } else { 0 };
        let mute = self.one_in(faults.mute);
        let stubborn_until = self.now.after(Duration::from_secs(stubborn));
        let mut keep = Keep::made(Some(pool.clone()), Bytes::new(peak), stubborn_until, mute);
        if let Some((modelled, idle)) = self.model_instance(&pool, spec) {
            (keep.held, keep.peak, keep.modelled) = (idle, idle, Some(modelled));
        }
        self.engine.keeps.insert(id, keep);
        let slow = if self.rng.u32(0..20) == 0 { 8000 } else { 400 };
        self.start_goes_on(id, Step::Made(fate), 20..slow);
    }

    /// What it comes to hold. One in ten needs more than was expected of it.
    fn draw_peak(&mut self, spec: &Pool) -> u64 {
        let (expect, most) = (spec.memory_expect.get(), spec.template.memory_max.get());
        if self.one_in(self.faults().leaks) {
            most
        } else if self.rng.u32(0..10) == 0 {
            self.rng.u64(expect..=most)
        } else {
            expect * 3 / 4
        }
    }

    pub(super) fn order_stop(&mut self, id: InstanceId) {
        let faults = self.faults();
        if self.one_in(faults.lost) {
            return self.report.count("orders lost");
        }
        match self.engine.keeps.get_mut(&id) {
            Some(keep) if matches!(keep.stage, Stage::Making | Stage::Made) && !keep.left => keep.stop = true,
            Some(_) | None => self.stop_soon(id),
        }
    }

    pub(super) fn order_probe(&mut self, id: InstanceId) {
        self.engine_soon(id, Step::Probed, 1..500);
    }

    /// The kernel takes from an idle one what it can: some of what it holds, often nothing.
    pub(super) fn take_back(&mut self, id: InstanceId) {
        self.report.count("reclaims");
        let part = self.rng.u64(0..4);
        if let Some(keep) = self.engine.keeps.get_mut(&id) {
            keep.held = Bytes::new(keep.held.get() - keep.held.get() * part / 8);
        }
    }

    pub(super) fn order_adopt(&mut self, id: InstanceId) {
        let faults = self.faults();
        if self.one_in(faults.lost) {
            return self.report.count("orders lost");
        }
        self.engine_soon(id, Step::Adopts, 1..200);
    }

    /// A new keeper looks for what an earlier one made; while the engine is away it goes on looking.
    fn adopts(&mut self, id: InstanceId) {
        if self.engine.away {
            return self.engine_soon(id, Step::Adopts, 900..1100);
        }
        let seen = self.engine.keeps.get(&id).map(|keep| (keep.stage, keep.mute));
        match seen {
            Some((Stage::Runs, mute)) => {
                self.report.count("adopted");
                self.news(id, News::Started(process(id)));
                if !mute || self.rng.bool() {
                    self.engine_soon(id, Step::Ready, 1..300);
                }
            }
            Some((Stage::Made | Stage::Exited, _)) => self.news(id, News::Exited(Exit { code: None })),
            Some((Stage::Making | Stage::Nothing, _)) | None => self.news(id, News::Gone),
        }
    }

    /// What of this step happens although the daemon and its keepers are gone. The engine ends what it was asked to
    /// make, and there it stays.
    pub(super) fn outlives(&mut self, id: InstanceId, step: Step) -> Option<Step> {
        let there = self.rng.bool();
        let keep = self.engine.keeps.get_mut(&id)?;
        (keep.stop, keep.left) = (false, true);
        match step {
            Step::Made(_) => {
                keep.stage = if there { Stage::Made } else { Stage::Nothing };
                None
            }
            Step::Begins(_) => {
                keep.stage = if there { Stage::Runs } else { Stage::Made };
                None
            }
            Step::Stops => there.then_some(step),
            Step::Dies(_) | Step::Killed { .. } | Step::Vanishes => Some(step),
            Step::Ready | Step::GivesUp | Step::Probed | Step::Adopts => None,
        }
    }

    /// The next step of a start: one of the three that its time is spent on, where the host is modelled.
    fn start_goes_on(&mut self, id: InstanceId, step: Step, millis: std::ops::Range<u64>) {
        match self.modelled(id).map(|modelled| modelled.start / 3) {
            Some(wait) => self.soon(wait, Happening::Engine(id, step)),
            None => self.engine_soon(id, step, millis),
        }
    }

    fn stop_soon(&mut self, id: InstanceId) {
        match self.modelled(id).map(|modelled| modelled.stop) {
            Some(wait) => self.soon(wait, Happening::Engine(id, Step::Stops)),
            None => self.engine_soon(id, Step::Stops, 30..600),
        }
    }

    fn modelled(&self, id: InstanceId) -> Option<&Modelled> {
        self.engine.keeps.get(&id)?.modelled.as_ref()
    }

    fn engine_soon(&mut self, id: InstanceId, step: Step, millis: std::ops::Range<u64>) {
        let wait = Duration::from_millis(self.rng.u64(millis));
        self.soon(wait, Happening::Engine(id, step));
    }

    pub(super) fn engine_step(&mut self, id: InstanceId, step: Step) {
        match step {
            Step::Stops => self.try_to_stop(id),
            Step::Adopts => self.adopts(id),
            Step::Made(fate) => self.made(id, fate),
            Step::Begins(fate) => self.begins(id, &fate),
            Step::Killed { own, first } => self.killed(id, own, first),
            Step::Ready | Step::GivesUp | Step::Dies(_) | Step::Vanishes | Step::Probed => {
                self.runs_on(id, &step);
            }
        }
    }

    fn made(&mut self, id: InstanceId, fate: Fate) {
        let away = self.engine.away;
        let keep = self.engine.keeps.get_mut(&id).expect("what is being made is kept");
        let stop = keep.stop;
        match fate {
            _ if away => {
                // It may be there all the same.
                keep.stage = if self.rng.bool() { Stage::Runs } else { Stage::Nothing };
                self.news(id, News::StartFailed(StartFailure::Engine("connection refused".into())));
            }
            Fate::Fails(failure) => {
                keep.stage = if self.rng.bool() { Stage::Exited } else { Stage::Nothing };
                self.news(id, News::StartFailed(failure));
            }
            Fate::Hangs(_) | Fate::Dies | Fate::Works => {
                keep.stage = Stage::Made;
                self.news(id, News::Created);
                // The order to stop waits for the start.
                return self.start_goes_on(id, Step::Begins(fate), 5..600);
            }
        }
        if stop {
            self.stop_soon(id);
        }
    }

    fn begins(&mut self, id: InstanceId, fate: &Fate) {
        let away = self.engine.away;
        let keep = self.engine.keeps.get_mut(&id).expect("what is being started is kept");
        let stop = keep.stop;
        if away {
            // It may run all the same.
            keep.stage = if self.rng.bool() { Stage::Runs } else { Stage::Exited };
            self.news(id, News::StartFailed(StartFailure::Engine("connection refused".into())));
        } else {
            keep.stage = Stage::Runs;
            self.news(id, News::Started(process(id)));
            self.begin_life(id, fate);
        }
        if stop {
            self.stop_soon(id);
        }
    }

    fn begin_life(&mut self, id: InstanceId, fate: &Fate) {
        let faults = self.faults();
        match fate {
            Fate::Hangs(deadline) => {
                self.at(deadline.after(Duration::from_millis(5)), Happening::Engine(id, Step::GivesUp));
            }
            Fate::Dies => self.engine_soon(id, Step::Dies(1), 10..2000),
            Fate::Works | Fate::Fails(_) => self.start_goes_on(id, Step::Ready, 100..1500),
        }
        if self.one_in(faults.dies) {
            let most = if self.rng.bool() { 12_000 } else { 90_000 };
            let code = [0, 1, 137][self.rng.usize(0..3)];
            self.engine_soon(id, Step::Dies(code), 1600..most);
        }
        if self.one_in(faults.killed) {
            let step = Step::Killed { own: self.rng.bool(), first: self.rng.bool() };
            self.engine_soon(id, step, 1600..60_000);
        }
        if self.one_in(faults.vanishes) {
            self.engine_soon(id, Step::Vanishes, 50..60_000);
        }
    }

    /// Its keeper looks at it at once when its first process has ended, or the engine tells of it.
    fn killed(&mut self, id: InstanceId, own: bool, first: bool) {
        let Some(keep) = self.engine.keeps.get_mut(&id).filter(|keep| keep.runs()) else { return };
        keep.kills.processes += 1;
        keep.kills.own_limit += u64::from(own);
        let (memory, cpu, kills) = (Ok(keep.held), Ok(MilliCpu::new(0)), Ok(keep.kills));
        if first {
            keep.stage = Stage::Exited;
        }
        if self.engine.away && !first {
            return;
        }
        self.word(Input::Looked(id, InstanceUse { memory, cpu, kills }));
        if first && !self.engine.away {
            // Said behind the look, whatever becomes of that one.
            let exit = News::Exited(Exit { code: Some(KILLED) });
            self.soon(Duration::from_millis(3), Happening::Word(Input::Instance(id, exit)));
        }
    }

    fn runs_on(&mut self, id: InstanceId, step: &Step) {
        let heard = !self.engine.away;
        let Some(keep) = self.engine.keeps.get_mut(&id).filter(|keep| keep.stage == Stage::Runs) else {
            if *step == Step::Probed {
                self.news(id, News::Probed(false));
            }
            return;
        };
        let news = match step {
            Step::Ready => {
                if let Some(modelled) = &mut keep.modelled {
                    modelled.is_ready(self.now);
                }
                News::Ready
            }
            Step::GivesUp => News::StartFailed(StartFailure::NotReady("not ready in time".into())),
            Step::Dies(code) => {
                keep.stage = Stage::Exited;
                News::Exited(Exit { code: Some(*code) })
            }
            Step::Vanishes => {
                keep.stage = Stage::Nothing;
                News::Gone
            }
            // A browser that falls silent does so after a while.
            Step::Probed => News::Probed(!keep.mute || self.rng.bool()),
            Step::Made(_) | Step::Begins(_) | Step::Killed { .. } | Step::Stops | Step::Adopts => {
                unreachable!("handled before")
            }
        };
        // Events are the engine's to tell; probes and deadlines are the keeper's own.
        if heard || matches!(step, Step::Ready | Step::GivesUp | Step::Probed) {
            self.news(id, news);
        }
    }

    fn try_to_stop(&mut self, id: InstanceId) {
        let now = self.now;
        match self.engine.keeps.get(&id) {
            _ if self.engine.away => self.news(id, News::StopFailed("connection refused".into())),
            Some(keep) if keep.stubborn_until > now && keep.stage == Stage::Runs => {
                self.news(id, News::StopFailed("it would not die".into()));
            }
            Some(_) | None => {
                self.engine.keeps.remove(&id);
                self.news(id, News::Gone);
            }
        }
    }

    fn news(&mut self, id: InstanceId, news: News) {
        self.word(Input::Instance(id, news));
    }

    /// All containers, as the engine lists them now.
    pub(super) fn listing(&self) -> Listing {
        let listed = |stage| matches!(stage, Stage::Made | Stage::Runs | Stage::Exited);
        let there = self.engine.keeps.iter().filter(|(_, keep)| listed(keep.stage));
        Listing {
            asked_at: self.now,
            running: there.map(|(id, keep)| (*id, keep.stage == Stage::Runs)).collect(),
        }
    }
}

fn process(id: InstanceId) -> Process {
    Process { pid: id.count, began: u64::from(id.count) }
}
