//! What the judge holds of requests that are made again under one name.
//!
//! At no time do two leases of one task go on; who asks again hears of the one that does, or of one that completed; and
//! only a name that meant something else is refused as such.

use super::sees::hold;
use super::{Found, Judge, Known};
use crate::control::message::{Acquire, CallId, End, LeaseId, LeaseState, LeaseView, TaskId};

impl Judge {
    /// A request with a name is handed in; whether it is about a lease that goes on.
    pub(super) fn hear_task(&mut self, call: CallId, request: &Acquire) -> bool {
        if request.task.is_none() {
            return false;
        }
        self.again.insert(call, request.clone());
        let Some(id) = self.live.iter().find(|id| is_same(&self.leases[*id].request, request)).cloned()
        else {
            return false;
        };
        let known = self.leases.get_mut(&id).expect("what lives is known");
        if has_same_wish(&known.request, request) {
            known.request.asynchronous |= request.asynchronous;
            self.asked.insert(call, id);
        }
        true
    }

    /// Who asked by a name is answered with a lease.
    pub(super) fn see_again(&mut self, call: CallId, view: &LeaseView) -> Found {
        let Some(request) = self.again.remove(&call) else { return Ok(()) };
        let known = self.leases.get(&view.id).ok_or("a lease that nobody asked for")?;
        let own = view.id == request.lease || self.asked.get(&call) == Some(&view.id);
        let completed = matches!(view.state, LeaseState::Ended { end: End::Completed, .. });
        let named = view.task.as_ref().map(|(task, _)| task) == request.task.as_ref();
        let right = named && is_same(&known.request, &request) && has_same_wish(&known.request, &request);
        hold(right && (own || completed), || format!("{request:?} is answered with {view:?}"))
    }

    /// Who asked by a name hears that it is another one's.
    pub(super) fn see_other_task(&mut self, call: CallId, task: &TaskId) -> Found {
        let request = self.again.remove(&call).ok_or("a name is refused that was not given")?;
        let other =
            |known: &Known| is_same(&known.request, &request) && !has_same_wish(&known.request, &request);
        let right = request.task.as_ref() == Some(task) && self.leases.values().any(other);
        hold(right, || format!("{request:?} is refused for its name, and nobody used that for anything else"))
    }

    /// A lease goes on from now: no other of its task does.
    pub(super) fn see_alone(&self, id: &LeaseId) -> Found {
        let request = &self.leases[id].request;
        let twin =
            self.live.iter().find(|other| *other != id && is_same(&self.leases[*other].request, request));
        hold(twin.is_none(), || format!("{id} goes on beside {twin:?}, which is of the same task"))
    }
}

fn is_same(one: &Acquire, other: &Acquire) -> bool {
    one.task.is_some() && (&one.task, &one.tenant) == (&other.task, &other.tenant)
}

fn has_same_wish(one: &Acquire, other: &Acquire) -> bool {
    let wish = |it: &Acquire| (it.pool.clone(), it.class.clone(), it.max_runtime, it.idle_timeout);
    wish(one) == wish(other)
}
