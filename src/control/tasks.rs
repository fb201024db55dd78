//! What callers call their own: a request that is made again is known by its `task_id`.
//!
//! Whoever loses a connection cannot tell whether the request was heard. With a name of their own they ask again, and
//!
//! - while a lease of that name goes on, or after it completed, hear of that lease and get no second one;
//! - after any other end, or a refusal, begin the next attempt, with the promise of the first: its place in the queue
//!   is that of whoever came when the task first came;
//! - are refused where they ask for something else under the same name.
//!
//! How long one will wait, and whether on the connection, is how one asks and not what for: it may differ.
//!
//! Invariants: names belong to their tenant; those without a lease that goes on are forgotten after [`REMEMBER`], the
//! oldest first where they are more than [`REMEMBER_MOST`].
//!
//! Not here: the lease itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Controller;
use super::lease::{REMEMBER, REMEMBER_MOST, State, WATCHERS};
use super::message::{
    Acquire, CallId, End, LeaseId, LeaseRecord, Refusal, Reply, TaskId, TaskRecord, Tenant, WaitFor,
};
use crate::profile::{ClassName, PoolName};
use crate::quantity::Instant;

/// A task's name among all tenants'.
pub(super) type Name = (Tenant, TaskId);

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) pool: PoolName,
    pub(super) class: Option<ClassName>,
    pub(super) max_runtime: Option<Duration>,
    pub(super) idle_timeout: Option<Duration>,
}

impl Wish {
    pub(super) fn of(request: &Acquire) -> Wish {
        Wish {
            pool: request.pool.clone(),
            class: request.class.clone(),
            max_runtime: request.max_runtime,
            idle_timeout: request.idle_timeout,
        }
    }
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) wish: Wish,
    /// When it was first asked for.
    pub(super) first: Instant,
    /// How often it was, each lease and each refusal counted once.
    pub(super) attempt: u32,
    /// Whether an attempt of it was let in: only the first that is counts as demand.
    pub(super) let_in: bool,
    /// The lease of its last attempt that had one.
    pub(super) lease: Option<LeaseId>,
    /// Since when nothing of it goes on.
    rests: Option<Instant>,
}

impl Task {
    /// One that is asked for now, and rests until it is let in.
    pub(super) fn new(wish: Wish, now: Instant) -> Task {
        Task { wish, first: now, attempt: 0, let_in: false, lease: None, rests: Some(now) }
    }
}

/// All tasks that are remembered.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: BTreeMap<Name, Task>,
    resting: BTreeSet<(Instant, Name)>,
}

impl Tasks {
    /// What is known of it.
    pub(super) fn get(&self, name: &Name) -> Option<&Task> {
        self.known.get(name)
    }

    /// One more attempt of it, the first where nothing is known of it; it rests from now on.
    pub(super) fn attempt(&mut self, name: &Name, wish: impl FnOnce() -> Wish, now: Instant) -> &mut Task {
        let mut task = self.known.remove(name).unwrap_or_else(|| Task::new(wish(), now));
        task.attempt = task.attempt.saturating_add(1);
        self.put(name.clone(), task, Some(now));
        self.known.get_mut(name).expect("it was put there just now")
    }

    /// A lease of it waits or goes on: it is remembered for as long as that does.
    pub(super) fn goes_on(&mut self, name: &Name, lease: &LeaseId) {
        if let Some(mut task) = self.known.remove(name) {
            (task.let_in, task.lease) = (true, Some(lease.clone()));
            self.put(name.clone(), task, None);
        }
    }

    /// Its lease is over.
    pub(super) fn rests(&mut self, name: &Name, now: Instant) {
        if let Some(task) = self.known.remove(name) {
            self.put(name.clone(), task, Some(now));
        }
    }

    /// Takes in what was written down of it, where nothing newer was.
    pub(super) fn take_in(&mut self, name: Name, task: Task, rests: Option<Instant>) {
        let newer = |known: &Task| known.attempt > task.attempt;
        if !self.known.get(&name).is_some_and(newer) {
            self.put(name, task, rests);
        }
    }

    /// Forgets those that rest for long enough, and the oldest where they are too many.
    pub(super) fn forget(&mut self, now: Instant) {
        while let Some((since, _)) = self.resting.first()
            && (self.resting.len() > REMEMBER_MOST || since.after(REMEMBER) <= now)
        {
            let (_, name) = self.resting.pop_first().expect("there is a first one");
            self.known.remove(&name);
        }
    }

    fn put(&mut self, name: Name, mut task: Task, rests: Option<Instant>) {
        if let Some(before) = task.rests.take() {
            self.resting.remove(&(before, name.clone()));
        }
        if let Some(since) = rests {
            self.resting.insert((since, name.clone()));
        }
        task.rests = rests;
        self.known.insert(name, task);
    }

    /// The names of which a lease goes on, with that lease.
    pub(super) fn going_on(&self) -> impl Iterator<Item = (&Name, Option<&LeaseId>)> {
        self.known
            .iter()
            .filter(|(_, task)| task.rests.is_none())
            .map(|(name, task)| (name, task.lease.as_ref()))
    }
}

impl Controller {
    /// Answers a request of which a lease goes on or completed, or that wants something else than it did; whether it did.
    pub(super) fn take_known_task(&mut self, call: CallId, request: &Acquire) -> bool {
        self.tasks.forget(self.now);
        let Some(task) = name_of(request).and_then(|name| self.tasks.get(&name)) else { return false };
        let known = task.lease.clone().filter(|id| self.leases.contains_key(id));
        if task.wish != Wish::of(request) {
            let id = request.task.clone().expect("it has a name");
            self.reply(call, Reply::Refused(Box::new(Refusal::OtherTask(id, known))));
            return true;
        }
        let Some(id) = known else { return false };
        match &self.leases[&id].state {
            State::Queued { .. } => self.wait_with(call, &id, request.asynchronous),
            State::Executing { .. } | State::Ended { end: End::Completed, .. } => self.show(call, &id),
            State::Ended { .. } => return false,
        }
        true
    }

    /// One more call for a lease that waits. One that waits on its caller's connection is that of the newest call.
    fn wait_with(&mut self, call: CallId, id: &LeaseId, asynchronous: bool) {
        let lease = self.leases.get_mut(id).expect("it waits");
        if lease.recorded && asynchronous {
            return self.show(call, id);
        }
        let watches = if lease.recorded {
            Some(call)
        } else {
            std::mem::replace(&mut lease.caller, (!asynchronous).then_some(call))
        };
        self.calls.insert(call, id.clone());
        if let Some(watches) = watches {
            if lease.watchers.len() < WATCHERS {
                lease.watchers.push((watches, WaitFor::Executing));
            } else {
                self.show(watches, id);
            }
        }
        if asynchronous {
            self.record_promise(id, Some(call));
            self.show(call, id);
        }
    }

    /// Counts one more attempt of what is asked for, where it has a name.
    pub(super) fn attempt(&mut self, request: &Acquire) -> Option<Box<TaskRecord>> {
        let name = name_of(request)?;
        let task = self.tasks.attempt(&name, || Wish::of(request), self.now);
        let Wish { class, max_runtime, idle_timeout, pool: _ } = task.wish.clone();
        let (attempt, first) = (task.attempt, task.first);
        Some(Box::new(TaskRecord { id: name.1, attempt, first, class, max_runtime, idle_timeout }))
    }

    /// A lease is let in; when what it is for was first asked for, and whether this is the first that is let in for that.
    pub(super) fn let_in(
        &mut self,
        tenant: &Tenant,
        task: Option<&TaskRecord>,
        lease: &LeaseId,
    ) -> (Instant, bool) {
        let Some(record) = task else { return (self.now, true) };
        let name = (tenant.clone(), record.id.clone());
        let is_new = self.tasks.get(&name).is_none_or(|task| !task.let_in);
        self.tasks.goes_on(&name, lease);
        (record.first, is_new)
    }

    /// A lease is over.
    pub(super) fn rest_task(&mut self, id: &LeaseId) {
        let lease = &self.leases[id];
        if let Some(task) = &lease.task {
            self.tasks.rests(&(lease.tenant.clone(), task.id.clone()), self.now);
        }
    }

    /// Takes in the task of a lease that was written down, which is over since `rests` or goes on.
    pub(super) fn recover_task(&mut self, lease: &LeaseRecord, rests: Option<Instant>) {
        let Some(record) = lease.task.as_deref() else { return };
        let wish = Wish {
            pool: lease.pool.clone(),
            class: record.class.clone(),
            max_runtime: record.max_runtime,
            idle_timeout: record.idle_timeout,
        };
        let task = Task {
            attempt: record.attempt,
            let_in: true,
            lease: Some(lease.id.clone()),
            ..Task::new(wish, record.first)
        };
        self.tasks.take_in((lease.tenant.clone(), record.id.clone()), task, rests);
    }
}

fn name_of(request: &Acquire) -> Option<Name> {
    Some((request.tenant.clone(), request.task.clone()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        (Tenant("t".into()), TaskId(text.into()))
    }

    fn wish() -> Wish {
        Wish { pool: PoolName::new("p"), class: None, max_runtime: None, idle_timeout: None }
    }

    fn at(seconds: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(seconds))
    }

    #[test]
    fn an_attempt_keeps_the_first_arrival_until_it_is_forgotten() {
        let mut tasks = Tasks::default();
        assert_eq!(tasks.attempt(&name("a"), wish, at(1)).first, at(1));
        let second = tasks.attempt(&name("a"), wish, at(500)).clone();
        assert_eq!((second.first, second.attempt, second.let_in), (at(1), 2, false));
        tasks.forget(at(1099));
        assert!(tasks.get(&name("a")).is_some());
        tasks.forget(at(1100));
        assert_eq!(tasks.attempt(&name("a"), wish, at(1100)).attempt, 1);
    }

    #[test]
    fn one_that_goes_on_is_not_forgotten_and_rests_from_its_end() {
        let mut tasks = Tasks::default();
        tasks.attempt(&name("a"), wish, at(1));
        tasks.goes_on(&name("a"), &LeaseId("l".into()));
        tasks.forget(at(10_000));
        assert_eq!(tasks.going_on().count(), 1);
        tasks.rests(&name("a"), at(10_000));
        tasks.forget(at(10_599));
        assert!(tasks.get(&name("a")).unwrap().let_in);
        tasks.forget(at(10_600));
        assert!(tasks.known.is_empty() && tasks.resting.is_empty());
    }

    #[test]
    fn the_oldest_are_forgotten_where_they_are_too_many() {
        let mut tasks = Tasks::default();
        for number in 0..=REMEMBER_MOST {
            tasks.attempt(&name(&number.to_string()), wish, at(number as u64 / 100));
        }
        tasks.forget(at(50));
        assert_eq!(tasks.known.len(), REMEMBER_MOST);
        assert!(tasks.get(&name("0")).is_none());
    }
}
