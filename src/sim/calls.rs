//! What callers of a workload do with their leases beside work: they call their pool's provider, each time with a permit.
//!
//! A call needs no time of its own; who waits for a permit, or was throttled, does nothing meanwhile, and is done so much later.
//! A call that the provider throttles is reported, and made again.

use std::time::Duration;

use super::Happening;
use super::World;
use super::callers::{Act, Asked};
use super::visitors::AGAIN;
use crate::control::message::{Call, Permit, Refusal, Reply, Why};
use crate::quantity::Instant;

impl World {
    /// Asks for the permit of the next call; its work is over at that time, if it need not wait.
    pub(super) fn call_provider(&mut self, number: u32, end: Instant) {
        let request = &self.callers[&number].request;
        let provider = self.profile.pools[&request.pool].provider.clone();
        let (Some(provider), false) = (provider, self.down) else {
            return self.soon(AGAIN, Happening::Act(number, Act::WorksUntil(end.after(AGAIN))));
        };
        let lease = request.lease.clone();
        self.ask(Call::Permit(lease, provider, None), Asked::Permit(number, end));
    }

    /// The answer to that.
    pub(super) fn take_permit(&mut self, (number, end): (u32, Instant), reply: &Reply) {
        match reply {
            Reply::Permit(permit) => self.called((number, end), permit),
            Reply::Refused(refusal) => match &**refusal {
                Refusal::Limit {
                    why: Why::ProviderSpent { .. } | Why::ProviderWaits { .. },
                    retry_after,
                    ..
                } => {
                    let wait = retry_after.unwrap_or(AGAIN);
                    self.calls().refused += 1;
                    self.soon(wait, Happening::Act(number, Act::WorksUntil(end.after(wait))));
                }
                // Its lease has ended.
                Refusal::Limit { .. }
                | Refusal::NoSuchPool(..)
                | Refusal::NoSuchClass(..)
                | Refusal::NoSuchProvider(..)
                | Refusal::NoSuchLease(_)
                | Refusal::OtherTask(..)
                | Refusal::NotExecuting(_)
                | Refusal::CannotChange(_) => drop(self.callers.remove(&number)),
            },
            Reply::Lease(_)
            | Reply::Leases(_)
            | Reply::Use { .. }
            | Reply::Providers(_)
            | Reply::Pools(_)
            | Reply::Explain(_)
            | Reply::ExplainLease(_)
            | Reply::Host(_)
            | Reply::Reloaded(_) => unreachable!("a permit is answered with {reply:?}"),
        }
    }

    fn called(&mut self, (number, end): (u32, Instant), permit: &Permit) {
        let every = self.calls_every(number).unwrap_or(AGAIN);
        let throttled = self.play.as_ref().is_some_and(|play| play.throttled);
        let calls = self.calls();
        calls.made += 1;
        calls.waited = calls.waited.max(permit.waited);
        let mut lost = permit.waited;
        if throttled {
            calls.throttled += 1;
            lost = lost.saturating_add(every);
            self.ask(Call::Throttled(permit.provider.clone(), None), Asked::Other);
        }
        self.soon(every, Happening::Act(number, Act::WorksUntil(end.after(lost))));
    }

    /// How often this caller calls its pool's provider, if it does.
    pub(super) fn calls_every(&self, number: u32) -> Option<Duration> {
        self.stream_of(number).calls_every
    }

    fn calls(&mut self) -> &mut super::tally::Calls {
        &mut self.play.as_mut().expect("only a workload has visitors").tally.calls
    }
}
