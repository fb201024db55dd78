//! Words on their way: what the world says to the controller, late, lost or doubled, and what the controller
//! wants done.

use std::time::Duration;

use super::engine::Keep;
use super::{Faults, Happening, OWN, SHOWN, Step, World, space, unread};
use crate::control::message::{
    Ceilings, Engine, HostCpu, HostMemory, Input, InstanceRecordState, InstanceUse, Output, Pressure, Record,
    Sample, SliceMemory, What,
};
use crate::profile::{Pool, PoolName};
use crate::quantity::{Bytes, MilliCpu, Permille};

/// How often the daemon lists containers, in seconds; drawn runs do so more often.
const LIST_EVERY: u64 = 15;

impl World {
    /// How much goes wrong now.
    pub(super) fn faults(&self) -> Faults {
        if self.calm { Faults::default() } else { self.faults }
    }

    /// Draws whether something happens that happens so often in a thousand.
    pub(super) fn one_in(&mut self, thousandths: u32) -> bool {
        self.rng.u32(0..1000) < thousandths
    }

    /// Says something to the controller; it may be heard late, twice, or never.
    pub(super) fn word(&mut self, input: Input) {
        let faults = self.faults();
        if self.one_in(faults.lost) {
            return self.report.count("words lost");
        }
        if self.one_in(faults.doubled) {
            self.report.count("words doubled");
            let wait = Duration::from_millis(self.rng.u64(0..4000));
            self.soon(wait, Happening::Word(input.clone()));
        }
        let mut wait = Duration::from_micros(self.rng.u64(0..3000));
        if self.one_in(faults.late) {
            self.report.count("words late");
            wait = Duration::from_millis(self.rng.u64(0..8000));
        }
        self.soon(wait, Happening::Word(input));
    }

    /// Hands a word to the controller, and carries out what it wants; the judge sees both.
    pub(super) fn hear(&mut self, input: Input) -> Result<(), String> {
        if self.down {
            if let Input::Call(call, _) = input {
                self.open.remove(&call);
            }
            return Ok(()); // Nobody listens.
        }
        if let (Input::HungUp(call), Some(_)) = (&input, &self.play) {
            self.open.remove(call); // A patience of a workload is longer than any call is on its way.
        }
        self.report.steps += 1;
        // The whole is held against itself after each word; in a workload, which has many more, at each look.
        let whole = self.checked && (self.play.is_none() || matches!(input, Input::Sample(_)));
        if self.checked {
            self.note_step(&input);
            self.judge.hear(self.now, &input);
        }
        self.controller.step(self.now, input);
        self.drain_outputs()?;
        if self.checked {
            self.judge.rest()?;
        }
        if whole {
            self.controller.check().map_err(|broken| broken.to_string())?;
            // All that follows has followed: the same moment again brings nothing.
            self.controller.step(self.now, Input::Tick);
            if let Some(output) = self.controller.poll_output() {
                return Err(format!("not settled, a tick brings {output:?}"));
            }
        }
        Ok(())
    }

    fn note_step(&mut self, input: &Input) {
        // A look that led to nothing makes room for what did.
        if self.steps.back().is_some_and(|Step(_, input, outputs)| {
            outputs.is_empty() && matches!(input, Input::Sample(_) | Input::Tick)
        }) {
            self.steps.pop_back();
        } else if self.steps.len() == SHOWN {
            self.steps.pop_front();
        }
        self.steps.push_back(Step(self.now, input.clone(), Vec::new()));
    }

    fn drain_outputs(&mut self) -> Result<(), String> {
        let mut batch = Vec::new();
        while let Some(output) = self.controller.poll_output() {
            self.report.output(self.now, &output);
            if self.checked {
                if is_of_memory(&output) {
                    self.judge.expect(self.controller.envelopes())?;
                }
                let judged = self.judge.see(&output);
                self.steps.back_mut().expect("a step is being made").2.push(output.clone());
                judged?;
            }
            self.carry_out(output, &mut batch)?;
        }
        self.give_out(batch);
        Ok(())
    }

    fn carry_out(&mut self, output: Output, batch: &mut Vec<(u64, Record)>) -> Result<(), String> {
        match output {
            Output::Start { instance, pool, made, deadline } => {
                self.order_start(instance, pool.clone(), &made, deadline);
                if self.checked {
                    self.count_containers(&pool, &made)?;
                }
            }
            Output::Stop { instance, .. } => self.order_stop(instance),
            Output::Probe { instance, .. } => self.order_probe(instance),
            Output::Reclaim(id) => self.take_back(id),
            Output::Ceilings(ceilings) => self.set_ceilings(ceilings),
            Output::Reply(call, reply) => self.take_reply(call, &reply),
            Output::Adopt { instance, .. } => self.order_adopt(instance),
            Output::Record(number, record) => batch.push((number, record)),
            Output::Tell(event) => self.take_event(&event),
        }
        Ok(())
    }

    fn set_ceilings(&mut self, ceilings: Ceilings) {
        if let Some(play) = &mut self.play {
            play.ceiling = Some(ceilings.memory);
            return self.word(Input::Ceilings(Ok(ceilings)));
        }
        let refused = self.one_in(100).then(|| "permission denied".to_owned());
        self.word(Input::Ceilings(refused.map_or(Ok(ceilings), Err)));
    }

    /// As the engine has them: no start makes more containers of a pool than it may have, whatever got lost.
    fn count_containers(&self, name: &PoolName, made: &Pool) -> Result<(), String> {
        let keeps = self.engine.keeps.values();
        let many = keeps.filter(|keep| keep.pool.as_ref() == Some(name) && keep.counts()).count();
        if many > made.max_instances as usize {
            return Err(format!("the engine has {many} of {name}, {} may be", made.max_instances));
        }
        Ok(())
    }

    /// Looks at the host, as `measure` does.
    pub(super) fn look(&mut self) {
        if self.over {
            return;
        }
        let every = if self.calm { 3000 } else { 1000 };
        self.soon(Duration::from_millis(every), Happening::Look);
        self.engine.keeps.values_mut().for_each(Keep::grow);
        if self.play.is_some() {
            return self.look_at_machine();
        }
        let unreadable = self.faults().unread;
        let mut used = OWN.saturating_add(self.hog);
        // What outlived its container is little, and goes in the end.
        let mut hard = if self.calm { Bytes::ZERO } else { Bytes::mib(self.rng.u64(0..8)) };
        let mut instances = std::collections::BTreeMap::new();
        for (id, keep) in &self.engine.keeps {
            if !keep.runs() {
                continue;
            }
            let held = keep.held();
            used = used.saturating_add(held);
            hard = hard.saturating_add(held);
            let draw = self.rng.u32(0..1000);
            let cpu = self.space.cpu();
            let memory = if draw < unreadable { Err(unread()) } else { Ok(held) };
            // Some are not looked for at all.
            if draw % 50 != 49 || unreadable == 0 {
                instances.insert(*id, InstanceUse { memory, cpu, kills: Ok(keep.kills) });
            }
        }
        let memory = HostMemory { total: self.memory, available: self.memory.saturating_sub(used) };
        let none = Permille::new(0);
        // A machine that is short of memory stands still; one that is not may all the same.
        let stalls = self.faults().stalls && (self.hog > Bytes::ZERO || self.rng.u32(0..100) == 0);
        let stalled = Permille::new(if stalls { self.rng.u32(0..1000) } else { 0 });
        let cpu = Permille::new(if stalls { self.rng.u32(900..1000) } else { 0 });
        let blind_to_slice = self.blind || self.one_in(unreadable);
        let space::Seen { pids, disks: [engine_disk, state_disk] } = self.see_space();
        let sample = Sample {
            memory: if self.blind { Err(unread()) } else { Ok(memory) },
            cpu: if self.blind {
                Err(unread())
            } else {
                Ok(HostCpu { cores: self.cores, busy: MilliCpu::new(0) })
            },
            pressure: Ok(Pressure { memory_some: none, memory_full: none, cpu_some: cpu, io_some: none }),
            slice: if blind_to_slice { Err(unread()) } else { Ok(SliceMemory { hard }) },
            slice_stalled: if blind_to_slice { Err(unread()) } else { Ok(stalled) },
            pids,
            engine_disk,
            state_disk,
            reclaims: self.reclaims,
            instances,
        };
        self.word(Input::Sample(Box::new(sample)));
    }

    /// Asks the engine for all containers, as `daemon` does.
    pub(super) fn list(&mut self) {
        if self.over {
            return;
        }
        if self.engine.away {
            self.soon(Duration::from_secs(1), Happening::List);
            return self.word(Input::Engine(Engine::Unreachable("connection refused".into())));
        }
        let every = if self.play.is_some() {
            LIST_EVERY
        } else if self.calm {
            10
        } else {
            5
        };
        self.soon(Duration::from_secs(every), Happening::List);
        let listing = self.listing();
        self.word(Input::Engine(Engine::Reachable));
        // An engine at work lets a listing wait: what it says is as old as the question.
        let slow = if self.rng.bool() { 0 } else { self.rng.u64(0..3000) };
        self.soon(Duration::from_millis(slow), Happening::Listed(listing));
    }
}

/// Whether what instances are expected to need has decided this.
fn is_of_memory(output: &Output) -> bool {
    match output {
        Output::Record(_, Record::Instance(record)) => record.state == InstanceRecordState::Starting,
        Output::Tell(event) => matches!(event.what, What::ReliefEnds(..)),
        Output::Record(..)
        | Output::Start { .. }
        | Output::Stop { .. }
        | Output::Probe { .. }
        | Output::Adopt { .. }
        | Output::Reclaim(_)
        | Output::Ceilings(_)
        | Output::Reply(..) => false,
    }
}
