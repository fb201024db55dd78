//! The loop: gathers what is ready, ranks it, reads the clock once, lets the controller decide, and carries
//! out what it wants, in its order.
//!
//! Facts come before requests, because a slot that was just freed should serve the next request; what frees
//! comes before what takes. A turn takes a bounded number of words, so that the loop cannot be kept from its
//! deadlines by a crowd.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::clock;
use super::journal::Journal;
use super::keeper::Keepers;
use super::records::Records;
use crate::api::desk::{Counter, Left, Question, acquires, granted_lease};
use crate::control::Controller;
use crate::control::message::{Call, CallId, Ceilings, Input, Output, Record, Reply, What};
use crate::docker::template_hash;
use crate::gateway::Gateway;
use crate::systemd::{Pulse, status_line};

/// Words in one turn; some microseconds each.
const BATCH: usize = 256;

/// All that the loop holds.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) controller: Controller,
    pub(super) keepers: Keepers,
    pub(super) gateway: Gateway,
    pub(super) journal: Journal,
    pub(super) ceilings: watch::Sender<Option<Ceilings>>,
    pub(super) records: Records,
    pub(super) facts: mpsc::Receiver<Input>,
    pub(super) counter: Counter,
    pub(super) open: BTreeMap<CallId, Waiting>,
    /// Grants that could not be delivered: taken back in the next turn.
    pub(super) undelivered: Vec<Call>,
    pub(super) pulse: Pulse,
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
    /// Says the first word of all, before any other can be heard.
    pub(super) fn begin(&mut self, first: Input) {
        self.turn(Gathered { facts: vec![first], ..Gathered::default() });
    }

    /// Turns until the future is dropped.
    pub(super) async fn run(mut self) {
        loop {
            self.pulse.beat(clock::now(), || status_line(&self.controller.summary()));
            let gathered = self.gather().await;
            self.turn(gathered);
        }
    }

    /// Waits until something is ready or due, then takes all that is ready.
    async fn gather(&mut self) -> Gathered {
        let mut gathered = Gathered::default();
        let due = self.controller.wake().map(|(at, _)| at).into_iter();
        let due = due.chain(self.pulse.due()).chain(self.records.due()).min();
        let due = due.map(|at| at.since(clock::now()));
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
        inputs.iter().for_each(|fact| self.records.hear(fact));
        inputs.extend(self.records.late(now));
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
        self.records.give_out(now);
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Start { instance, pool, made, deadline } => {
                self.keepers.start(instance, pool, made, deadline);
            }
            Output::Stop { instance, grace } => self.keepers.stop(instance, grace),
            Output::Probe { instance, probe } => self.keepers.probe(instance, &probe),
            Output::Adopt { instance, pool, made, process, lease } => {
                self.keepers.adopt(instance, &pool, made, process);
                if let Some(lease) = lease {
                    self.keepers.lent(instance, &lease);
                }
            }
            Output::Record(number, record) => {
                let made = match &record {
                    Record::Instance(instance) => self.controller.made_of(instance.id),
                    Record::Envelope(envelope) => self.controller.spec_of(&envelope.pool),
                    Record::Lease(_) | Record::Gone(_) | Record::Drain(..) | Record::Undrained(_) => None,
                };
                let template = made.map(|pool| template_hash(&pool.template)).unwrap_or_default();
                self.records.take(number, record, template);
            }
            Output::Reclaim(instance) => self.keepers.reclaim(instance),
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
