//! The loop: gathers what is ready, ranks it, reads the clock once, lets the controller decide, and carries
//! out what it wants, in its order.
//!
//! Facts come before requests, because a slot that was just freed should serve the next request; what frees
//! comes before what takes. A turn takes a bounded number of words, so that the loop cannot be kept from its
//! deadlines by a crowd.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::clock;
use super::journal::Journal;
use super::keeper::Keepers;
use super::look::Eyes;
use crate::api::desk::{Counter, Left, Question, acquires, granted_lease};
use crate::control::Controller;
use crate::control::message::{Call, CallId, Ceilings, Input, Output, Reply, What};
use crate::gateway::Gateway;
use crate::profile::{HostProfile, Pool, PoolName};

/// Words in one turn; some microseconds each.
const BATCH: usize = 256;

/// All that the loop holds.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) controller: Controller,
    pub(super) pools: BTreeMap<PoolName, Arc<Pool>>,
    pub(super) keepers: Keepers,
    pub(super) gateway: Gateway,
    pub(super) journal: Journal,
    pub(super) eyes: Eyes,
    pub(super) ceilings: watch::Sender<Option<Ceilings>>,
    pub(super) facts: mpsc::Receiver<Input>,
    pub(super) counter: Counter,
    pub(super) open: BTreeMap<CallId, Waiting>,
    /// Grants that could not be delivered: taken back in the next turn.
    pub(super) undelivered: Vec<Call>,
}

/// A caller that has no answer yet.
#[derive(Debug)]
pub(super) struct Waiting {
    answer: oneshot::Sender<Reply>,
    acquires: bool,
}

/// What one turn has gathered, in the order in which it is handled.
#[derive(Debug, Default)]
struct Gathered {
    facts: Vec<Input>,
    left: Vec<Left>,
    questions: Vec<Question>,
}

impl Turns {
    /// The pools of a profile, as instances are made from them.
    pub(super) fn pools_of(profile: &HostProfile) -> BTreeMap<PoolName, Arc<Pool>> {
        profile.pools.iter().map(|(name, pool)| (name.clone(), Arc::new(pool.clone()))).collect()
    }

    /// Turns until the future is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let gathered = self.gather().await;
            self.turn(gathered);
        }
    }

    /// Waits until something is ready or due, then takes all that is ready.
    async fn gather(&mut self) -> Gathered {
        let mut gathered = Gathered::default();
        let due = self.controller.wake().map(|(at, _)| at.since(clock::now()));
        let waiting = !self.undelivered.is_empty();
        tokio::select! {
            biased;
            () = std::future::ready(()), if waiting => {}
            Some(fact) = self.facts.recv() => gathered.facts.push(fact),
            Some(left) = self.counter.left.recv() => gathered.left.push(left),
            Some(question) = self.counter.questions.recv() => gathered.questions.push(question),
            () = sleep(due.unwrap_or_default()), if due.is_some() => {}
        }
        while gathered.facts.len() < BATCH
            && let Ok(fact) = self.facts.try_recv()
        {
            gathered.facts.push(fact);
        }
        while gathered.left.len() < BATCH
            && let Ok(left) = self.counter.left.try_recv()
        {
            gathered.left.push(left);
        }
        while gathered.questions.len() < BATCH
            && let Ok(question) = self.counter.questions.try_recv()
        {
            gathered.questions.push(question);
        }
        gathered
    }

    fn turn(&mut self, gathered: Gathered) {
        let now = clock::now();
        let mut inputs = gathered.facts;
        // Activity before the deadlines that it moves.
        inputs.extend(self.gateway.take_active().into_iter().map(|lease| Input::Active(lease, now)));
        for left in gathered.left {
            self.open.remove(&left.call);
            inputs.push(Input::HungUp(left.call));
            inputs.extend(left.granted.map(|lease| Input::Call(left.call, Call::Undelivered(lease))));
        }
        // These answer nobody: their call's number belongs to no open question any more.
        inputs.extend(self.undelivered.drain(..).map(|call| Input::Call(CallId(u64::MAX), call)));
        let (mut freeing, mut taking) = (Vec::new(), Vec::new());
        for Question { id, call, answer } in gathered.questions {
            let acquires = acquires(&call);
            self.open.insert(id, Waiting { answer, acquires });
            if acquires { &mut taking } else { &mut freeing }.push(Input::Call(id, call));
        }
        inputs.append(&mut freeing);
        inputs.append(&mut taking);
        inputs.push(Input::Tick);
        for input in inputs {
            self.controller.handle(now, input);
            while let Some(output) = self.controller.poll_output() {
                self.carry_out(output);
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Start { instance, pool, deadline } => {
                let spec = self.pools[&pool].clone();
                self.keepers.start(instance, pool, spec, deadline);
            }
            Output::Stop { instance, grace } => self.keepers.stop(instance, grace),
            Output::Probe { instance, pool } => {
                self.keepers.probe(instance, &self.pools[&pool].template.probe)
            }
            Output::Reclaim(instance) => self.eyes.reclaim(instance),
            // A look at them is due at once; what was wanted before is wanted no more.
            Output::Ceilings(ceilings) => drop(self.ceilings.send_replace(Some(ceilings))),
            Output::Reply(call, reply) => self.answer(call, reply),
            Output::Tell(event) => {
                if let (What::LeaseGranted(_), Some(instance), Some(lease)) =
                    (&event.what, event.instance, &event.lease)
                {
                    self.keepers.lent(instance, lease);
                }
                self.journal.tell(event);
            }
        }
    }

    fn answer(&mut self, call: CallId, reply: Reply) {
        let Some(Waiting { answer, acquires }) = self.open.remove(&call) else {
            return; // Its caller has left and was reported.
        };
        if let Err(reply) = answer.send(reply)
            && acquires
        {
            self.undelivered.extend(granted_lease(&reply).map(Call::Undelivered));
        }
    }
}
