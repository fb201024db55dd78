//! The callers of a workload: they ask, wait on their connection, use what they get, and give it back.
//!
//! While the daemon is down they wait in the socket's backlog; who lost its connection asks again. Who is refused
//! comes back as its stream says. One whose instance dies learns of it when it is done.

use std::time::Duration;

use super::callers::{Act, Asked, Caller};
use super::tally::Waiting;
use super::workload::Stream;
use super::{Happening, World};
use crate::control::message::{
    Acquire, Call, CallId, Event, Input, InstanceId, LeaseId, StopReason, What, Why,
};
use crate::quantity::{Bytes, Instant, MilliCpu};

/// How long a caller waits before it tries a daemon again that is not there.
pub(super) const AGAIN: Duration = Duration::from_millis(200);

/// What a caller of a workload comes for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    stream: usize,
    /// When its present request was made, while it waits for the answer.
    asked_at: Option<Instant>,
}

impl World {
    fn stream(&self, visit: Visit) -> &Stream {
        &self.play.as_ref().expect("only a workload has visitors").workload.streams[visit.stream]
    }

    pub(super) fn stream_of(&self, number: u32) -> &Stream {
        self.stream(self.visit_of(number))
    }

    fn tally(&mut self) -> &mut super::tally::Tally {
        &mut self.play.as_mut().expect("only a workload has visitors").tally
    }

    fn visit_of(&self, number: u32) -> Visit {
        self.callers[&number].visit.expect("it is a caller of a workload")
    }

    /// One of this stream comes.
    pub(super) fn visit(&mut self, stream: usize) {
        let visit = Visit { stream, asked_at: None };
        let turn = self.tally().came(stream);
        let stream = self.stream(visit);
        let request = Acquire {
            lease: LeaseId("".into()),
            pool: stream.pool.clone(),
            class: Some(stream.class.clone()),
            tenant: stream.tenants[turn % stream.tenants.len()].clone(),
            task: None,
            wait: stream.wait,
            asynchronous: false,
            max_runtime: None,
            idle_timeout: None,
        };
        self.enter(Caller::visitor(request, visit));
    }

    /// Asks, for the first time or again.
    pub(super) fn ask_as_visitor(&mut self, number: u32) {
        if self.down {
            return self.soon(AGAIN, Happening::Act(number, Act::Ask));
        }
        let now = self.now;
        self.last_lease += 1;
        let lease = LeaseId(format!("L{}", self.last_lease).into());
        let caller = self.callers.get_mut(&number).expect("who asks is there");
        caller.request.lease = lease;
        let request = caller.request.clone();
        let visit = caller.visit.as_mut().expect("it is a caller of a workload");
        // Who lost its connection goes on with the request that it had.
        let new = visit.asked_at.is_none();
        let asked_at = *visit.asked_at.get_or_insert(now);
        let visit = *visit;
        if new {
            caller.tries += 1;
            let again = caller.tries > 1;
            let class = self.stream(visit).class.clone();
            self.tally().asked(&class, (now, number), again);
            self.tally().bars.asked((now, number), (&request.pool, &class, &request.tenant));
        }
        let patience = self.stream(visit).gives_up;
        let call = self.ask(Call::Acquire(request), Asked::Acquire(number));
        if let Some(patience) = patience {
            self.at(asked_at.after(patience).max(now), Happening::Act(number, Act::HangUp(call)));
        }
    }

    /// It hangs up while it waits.
    pub(super) fn give_up(&mut self, number: u32) {
        let visit = self.visit_of(number);
        let class = self.stream(visit).class.clone();
        let asked_at = visit.asked_at.expect("who hangs up has asked");
        self.tally().gave_up(&class, (asked_at, number));
        self.answered(visit, (asked_at, number));
        self.callers.remove(&number);
    }

    /// It is lent this instance, and uses it for as long as it is drawn to.
    pub(super) fn serve(&mut self, number: u32, instance: InstanceId) {
        let now = self.now;
        let caller = self.callers.get_mut(&number).expect("who is served is there");
        let lease = caller.request.lease.clone();
        let visit = caller.visit.as_mut().expect("it is a caller of a workload");
        let asked_at = visit.asked_at.take().expect("who is served has asked");
        let visit = *visit;
        let Stream { class, runs, memory, grows_in, leak, cpu, .. } = self.stream(visit);
        let class = class.clone();
        let (runs, memory, grows_in, leak, cpu) = (*runs, *memory, *grows_in, *leak, *cpu);
        let runs = Duration::from_secs_f64(runs.draw(&mut self.rng));
        let peak = in_bytes(memory.draw(&mut self.rng));
        let keep = self.engine.keeps.get_mut(&instance);
        let modelled = keep.and_then(|keep| {
            keep.peak = peak.max(keep.held);
            let growth = keep.peak.saturating_sub(keep.held).get();
            keep.modelled.as_mut().map(|modelled| (modelled, growth))
        });
        let mut cold = false;
        if let Some((modelled, growth)) = modelled {
            cold = modelled.ready_at > Some(asked_at);
            modelled.leak = in_bytes(leak);
            let looks = grows_in.as_secs().max(1);
            modelled.step = Bytes::new(growth.div_ceil(looks)).max(modelled.leak);
            modelled.cpu = cpu;
        }
        self.tally().served(&class, (asked_at, number), now, cold);
        self.answered(visit, (asked_at, number));
        self.ask(Call::Use(lease), Asked::Other);
        let end = now.after(runs);
        let pause = self.pause(number, runs);
        self.soon(pause, Happening::Act(number, Act::WorksUntil(end)));
    }

    /// It waits no more.
    fn answered(&mut self, visit: Visit, request: Waiting) {
        let Stream { pool, class, .. } = self.stream(visit);
        let guaranteed = self.profile.pools[pool].classes.get(class).map_or(0, |its| its.guaranteed);
        let now = self.now;
        self.tally().bars.answered(request, now, guaranteed);
    }

    /// It is still there, or done.
    pub(super) fn work_until(&mut self, number: u32, end: Instant) {
        let lease = self.callers[&number].request.lease.clone();
        if self.now < end {
            self.word(Input::Active(lease, self.now));
            if self.calls_every(number).is_some() {
                return self.call_provider(number, end);
            }
            let pause = self.pause(number, end.since(self.now));
            self.soon(pause, Happening::Act(number, Act::WorksUntil(end)));
        } else if self.down {
            self.soon(AGAIN, Happening::Act(number, Act::WorksUntil(end)));
        } else {
            self.ask(Call::Release(lease), Asked::Other);
            self.callers.remove(&number);
        }
    }

    /// Until it moves bytes again, well before it would count as idle; or calls.
    fn pause(&self, number: u32, left: Duration) -> Duration {
        let pool = &self.stream_of(number).pool;
        let idle = self.profile.pools[pool].deadlines.idle_timeout / 2;
        left.min(idle).min(self.calls_every(number).unwrap_or(Duration::MAX))
    }

    /// It is refused, and comes back or not.
    pub(super) fn turn_away(&mut self, number: u32, why: &Why, told: Option<Duration>) {
        let caller = self.callers.get_mut(&number).expect("who is refused is there");
        let tries = caller.tries;
        let visit = caller.visit.as_mut().expect("it is a caller of a workload");
        let asked_at = visit.asked_at.take().expect("who is refused has asked");
        let visit = *visit;
        let Stream { class, retries, retry_after, .. } = self.stream(visit);
        let again = retry_after.or(told).filter(|_| tries <= *retries);
        let class = class.clone();
        self.tally().refused(&class, (asked_at, number), why, again.is_none());
        self.answered(visit, (asked_at, number));
        match again {
            Some(wait) => self.soon(wait, Happening::Act(number, Act::Ask)),
            None => drop(self.callers.remove(&number)),
        }
    }

    /// What the journal is told and the tally does not see otherwise: what becomes of instances.
    pub(super) fn take_event(&mut self, event: &Event) {
        let (Some(play), Some(id)) = (&mut self.play, event.instance) else { return };
        let keep = self.engine.keeps.get_mut(&id).and_then(|keep| keep.modelled.as_mut());
        let Some(modelled) = keep else { return };
        if let What::InstanceWarm(took) = event.what {
            play.tally.starts.note(took);
        }
        if let What::LeaseGranted(_) = event.what {
            modelled.lent_at = Some(self.now);
        }
        if let What::InstanceStopping(why) = event.what {
            (modelled.cpu, modelled.step, modelled.leak) = (MilliCpu::new(0), Bytes::ZERO, Bytes::ZERO);
            if modelled.lent_at.is_none() && why != StopReason::StartFailed {
                play.tally.unused(why);
            }
        }
    }

    /// Who made this call, where it is one of a workload that hangs up.
    pub(super) fn hangs_up(&mut self, call: CallId) {
        if self.play.is_some()
            && let Some(Asked::Acquire(number)) = self.open.get(&call).map(|open| open.asked)
        {
            self.give_up(number);
        }
    }
}

fn in_bytes(amount: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of floats saturates")]
    Bytes::new(amount as u64)
}
