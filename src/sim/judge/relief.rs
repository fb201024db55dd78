//! What the judge says of pressure and relief: who may go, how soon after another, and what was seen before it.

use std::time::Duration;

use super::sees::hold;
use super::{Found, Judge};
use crate::control::message::{Ceilings, Event, InstanceId, LeaseId, Level, Shortage, Tier, Victim, What};
use crate::quantity::{Bytes, Instant, Permille};

/// Between two victims.
const SETTLE: Duration = Duration::from_secs(3);
/// No level goes on for longer than this against what is seen: two levels, each with its own longest time.
const LONGEST: Duration = Duration::from_secs(250);

/// What the judge notes of pressure.
#[derive(Debug, Default)]
pub(super) struct Books {
    level: Level,
    /// The look that spoke for pressure last, or the level's beginning.
    pub(super) pressed_at: Instant,
    /// What the last look saw, if it was the last word.
    pub(super) looked_at: Option<Instant>,
    pub(super) stalled: Option<Permille>,
    pub(super) slice: Option<Bytes>,
    last: Option<Instant>,
    /// Who relief has just ended, and with which lease.
    pub(super) ended: Option<(InstanceId, Option<LeaseId>)>,
}

impl Books {
    /// A daemon's own, which begins calm.
    pub(super) fn since(now: Instant) -> Books {
        Books { pressed_at: now, ..Books::default() }
    }
}

impl Judge {
    /// Something about pressure came out.
    #[expect(clippy::wildcard_enum_match_arm, reason = "three of many, and the caller has chosen them")]
    pub(super) fn see_pressure(&mut self, event: &Event) -> Found {
        match &event.what {
            What::Pressure(before, now) => {
                let books = &mut self.books;
                let right = *before == books.level && now.level != *before;
                books.level = now.level;
                if now.level > Level::Calm {
                    books.pressed_at = self.now;
                }
                hold(right, || format!("the level goes from {before:?} to {:?}", now.level))?;
                self.see_shortage(now)
            }
            What::ReliefAsks(_, shortage) => self.see_shortage(shortage),
            What::ReliefEnds(victim, shortage) => {
                self.see_shortage(shortage)?;
                let instance = event.instance.ok_or("relief ends nobody")?;
                self.see_victim(instance, event.lease.clone(), *victim, *shortage)
            }
            _ => Ok(()),
        }
    }

    /// The figures are those of a look that was made just now.
    fn see_shortage(&self, shortage: &Shortage) -> Found {
        let seen = self.memory.filter(|(_, at)| *at == self.now && self.books.looked_at == Some(self.now));
        let right = seen.is_some_and(|(memory, _)| {
            let floor = self.profile.host.floor.of(memory.total);
            (shortage.available, shortage.floor) == (memory.available, floor)
        });
        hold(right, || format!("{shortage:?} was not seen, but {seen:?}"))
    }

    fn see_victim(
        &mut self,
        id: InstanceId,
        lease: Option<LeaseId>,
        victim: Victim,
        shortage: Shortage,
    ) -> Found {
        let now = self.now;
        let Shortage { available, floor, level, stalled } = shortage;
        let short = available < floor.saturating_add(Bytes::new(floor.get() / 8));
        let stalls = stalled.is_some_and(|share| share >= Permille::new(100));
        hold((short || stalls) && level > Level::Calm, || format!("{id} goes without need: {shortage:?}"))?;
        let early = self.books.last.is_some_and(|at| now.since(at) < SETTLE);
        hold(!early, || format!("{id} goes too soon after the one at {:?}", self.books.last))?;
        self.books.last = Some(now);
        self.books.ended = Some((id, lease.clone()));
        let Some(lease) = lease else {
            let seen = self.instances.get(&id).ok_or("something unknown goes")?;
            let right = seen.lent.is_none() && (seen.ready || seen.unseen) == (victim.tier != Tier::Refill);
            return hold(right, || format!("{id} goes as {victim:?} and is {seen:?}"));
        };
        let idle: Vec<_> = self
            .instances
            .iter()
            .filter(|(_, seen)| seen.ready && !seen.stop && !seen.gone && seen.lent.is_none())
            .map(|(id, _)| id)
            .collect();
        hold(idle.is_empty(), || format!("{lease} goes, and {idle:?} are warm"))?;
        let known = &self.leases[&lease];
        let class = known.request.class.as_ref();
        let made = &self.instances[&id].made;
        // A pool that a reload took away goes by what it said last.
        let pool = self.profile.pools.get(&known.pool).unwrap_or(made);
        let interactive = class.unwrap_or(&pool.default_class).as_str() == "interactive";
        hold((!interactive && known.hold.is_none()) || level == Level::Critical, || {
            format!("{lease} is interactive, or waits for a person, and goes at {level:?}: {known:?}")
        })?;
        let held = self.instances[&id].held.map(|(held, _)| held);
        let right = match victim.tier {
            Tier::Outgrown => level == Level::Critical && held > Some(self.expected(&self.instances[&id])),
            // What a pool that is gone said last may be of another template than this one was made from.
            Tier::Interruptible => {
                let pool = self.profile.pools.get(&known.pool);
                pool.is_none_or(|pool| pool.on_pressure == crate::profile::OnPressure::Interrupt)
            }
            Tier::PastPromise => known.granted.is_some_and(|(_, at)| {
                now > at.after(
                    known
                        .request
                        .max_runtime
                        .map_or(known.deadlines.max_runtime, |asked| asked.min(known.deadlines.max_runtime)),
                )
            }),
            Tier::Refill | Tier::Surplus | Tier::Stock => false,
        };
        hold(right, || format!("{lease} goes as {victim:?} at {level:?} and is {known:?}"))
    }

    /// A lease or an instance ends for want of memory: relief has said so just before.
    pub(super) fn relieved(&self, id: InstanceId, lease: Option<&LeaseId>) -> bool {
        self.books
            .ended
            .as_ref()
            .is_some_and(|(ended, its)| *ended == id && (lease.is_none() || its.as_ref() == lease))
    }

    /// A start is ordered, or a request refused for want of memory.
    pub(super) fn see_gate(&self, open: bool) -> Found {
        let level = self.books.level;
        hold(open == (level == Level::Calm), || format!("the gate is open: {open}, and the level {level:?}"))
    }

    pub(super) fn see_ceilings(&self, ceilings: &Ceilings) -> Found {
        let held = self.books.slice;
        hold(Some(ceilings.memory) >= held, || format!("{ceilings:?} would kill, {held:?} are held"))
    }

    /// What the last look says of pressure is noted, and that no level goes on for ever without it.
    pub(super) fn rest_of_pressure(&self) -> Found {
        let books = &self.books;
        let since = self.now.since(books.pressed_at);
        let known = self.memory.is_some_and(|(_, at)| self.now.since(at) <= Duration::from_secs(1));
        let over = books.level > Level::Calm && since > LONGEST && known;
        hold(!over, || format!("{:?} goes on, and nothing has spoken for it for {since:?}", books.level))
    }
}
