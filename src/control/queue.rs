//! Who waits for a pool, and who of one class comes first.
//!
//! Within a class tenants take turns: whoever was served goes to the end of the row, whoever joins begins there, so
//! that one that asks for much delays another by one grant a turn and no more. A tenant's own requests are served by
//! their promised instant, which is the arrival plus the class's `target_wait`.
//!
//! Joining and leaving are O(log n). A place is counted up to [`COUNTED`], because counting costs what it counts.
//!
//! Not here: which class comes first (`shares`), the lease itself (`lease`), whether it may wait at all (`admission`).

use std::collections::{BTreeMap, BTreeSet};

use super::message::{LeaseId, Tenant};
use crate::profile::ClassName;
use crate::quantity::Instant;

/// A place in the order of promises: the promised instant, then the order of arrival.
pub(super) type Place = (Instant, u64);

/// A place further back than this is told as this: whoever has a thousand in front need not know it more exactly.
pub(super) const COUNTED: u32 = 1000;

/// Most that wait for one pool, whatever its classes and tenants may have. Each costs a few KiB.
pub(super) const MOST: u32 = 100_000;

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) lease: LeaseId,
    pub(super) class: ClassName,
    pub(super) tenant: Tenant,
    pub(super) asked: Instant,
}

/// The requests that wait for one pool.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: BTreeMap<Place, Waiting>,
    rows: BTreeMap<ClassName, Row>,
    asked: BTreeSet<(Instant, u64)>,
    arrivals: u64,
    /// Turns given out so far.
    turns: u64,
}

/// Those of one class: its tenants in the order of their turns.
#[derive(Debug, Default)]
struct Row {
    turns: BTreeMap<u64, Tenant>,
    tenants: BTreeMap<Tenant, Own>,
    places: BTreeSet<Place>,
}

/// Those of one tenant in one class.
#[derive(Debug)]
struct Own {
    turn: u64,
    places: BTreeSet<Place>,
}

impl Queue {
    /// Lets one in, to be served by its promise.
    pub(super) fn join(&mut self, waiting: Waiting, promised: Instant) -> Place {
        self.arrivals += 1;
        let place = (promised, self.arrivals);
        let row = self.rows.entry(waiting.class.clone()).or_default();
        row.places.insert(place);
        let own = row.tenants.entry(waiting.tenant.clone()).or_insert_with(|| {
            self.turns += 1;
            row.turns.insert(self.turns, waiting.tenant.clone());
            Own { turn: self.turns, places: BTreeSet::new() }
        });
        own.places.insert(place);
        self.asked.insert((waiting.asked, place.1));
        self.order.insert(place, waiting);
        place
    }

    /// Takes one out that is not served, whatever its place; the turn of its tenant stays.
    pub(super) fn leave(&mut self, place: Place) {
        let _ = self.take(place);
    }

    /// Takes one out that is served: its tenant goes to the end of the row.
    pub(super) fn serve(&mut self, place: Place) {
        let Waiting { class, tenant, .. } = self.take(place);
        self.turns += 1;
        let turn = self.turns;
        let Some(row) = self.rows.get_mut(&class) else { return };
        if let Some(own) = row.tenants.get_mut(&tenant) {
            row.turns.remove(&own.turn);
            row.turns.insert(turn, tenant);
            own.turn = turn;
        }
    }

    fn take(&mut self, place: Place) -> Waiting {
        let waiting = self.order.remove(&place).expect("a queued lease holds its place");
        self.asked.remove(&(waiting.asked, place.1));
        let row = self.rows.get_mut(&waiting.class).expect("a class has a row while one of it waits");
        row.places.remove(&place);
        let own = row.tenants.get_mut(&waiting.tenant).expect("a tenant is in the row while one of it waits");
        own.places.remove(&place);
        if own.places.is_empty() {
            row.turns.remove(&own.turn);
            row.tenants.remove(&waiting.tenant);
        }
        if row.places.is_empty() {
            self.rows.remove(&waiting.class);
        }
        waiting
    }

    /// The next of each class that waits.
    pub(super) fn heads(&self) -> impl Iterator<Item = (&ClassName, Place)> {
        self.rows.iter().map(|(class, row)| {
            let (_, tenant) = row.turns.first_key_value().expect("a row has a tenant");
            (class, *row.tenants[tenant].places.first().expect("a tenant in the row waits"))
        })
    }

    /// Who waits at this place.
    pub(super) fn at(&self, place: Place) -> &Waiting {
        &self.order[&place]
    }

    /// The promise of the one that has the earliest after so many.
    pub(super) fn promise_behind(&self, served: u32) -> Option<Instant> {
        self.order.keys().nth(served as usize).map(|(promised, _)| *promised)
    }

    /// How many wait.
    pub(super) fn len(&self) -> u32 {
        count(self.order.len())
    }

    /// How many of this class wait.
    pub(super) fn len_of(&self, class: &ClassName) -> u32 {
        self.rows.get(class).map_or(0, |row| count(row.places.len()))
    }

    /// How many of this class and tenant wait.
    pub(super) fn own(&self, class: &ClassName, tenant: &Tenant) -> u32 {
        let own = self.rows.get(class).and_then(|row| row.tenants.get(tenant));
        own.map_or(0, |own| count(own.places.len()))
    }

    /// How many of this class and tenant wait behind the `served` earliest promises of all.
    pub(super) fn own_behind(&self, served: u32, class: &ClassName, tenant: &Tenant) -> u32 {
        let is_own = |it: &&Waiting| it.class == *class && it.tenant == *tenant;
        let among = self.order.values().take(served as usize).filter(is_own).count();
        self.own(class, tenant) - count(among)
    }

    /// How many are served until this one is, itself included, if its class has its turn by promises and nobody
    /// comes or goes; at most [`COUNTED`].
    pub(super) fn rank(&self, place: Place) -> u32 {
        let Waiting { class, tenant, .. } = self.at(place);
        let row = &self.rows[class];
        let own = &row.tenants[tenant];
        let most = COUNTED as usize;
        let before = own.places.range(..place).take(most).count();
        let of_others = row.tenants.iter().filter(|(name, _)| *name != tenant).map(|(_, other)| {
            let turns = before + usize::from(other.turn < own.turn);
            other.places.len().min(turns)
        });
        let of_class = of_others.fold(before, |sum, more| (sum + more).min(most));
        let others = self.rows.iter().filter(|(name, _)| *name != class);
        let of_other_classes: usize =
            others.map(|(_, row)| row.places.range(..place).take(most).count()).sum();
        count((of_class + of_other_classes + 1).min(most))
    }

    /// The rank of each that waits, for a walk over the queue in all.
    pub(super) fn ranks(&self) -> BTreeMap<Place, u32> {
        let mut ranks: BTreeMap<Place, usize> = BTreeMap::new();
        for row in self.rows.values() {
            let mut lines: Vec<_> =
                row.turns.values().map(|tenant| row.tenants[tenant].places.iter()).collect();
            let mut of_class = 0;
            while !lines.is_empty() {
                lines.retain_mut(|line| {
                    let next = line.next();
                    of_class += usize::from(next.is_some());
                    next.is_some_and(|place| ranks.insert(*place, of_class).is_none())
                });
            }
        }
        let mut seen: BTreeMap<&ClassName, usize> = BTreeMap::new();
        for (before, (place, waiting)) in self.order.iter().enumerate() {
            let of_class = seen.entry(&waiting.class).or_default();
            let rank = ranks.get_mut(place).expect("whoever waits has its turn in its row");
            *rank = (*rank + before - *of_class).min(COUNTED as usize);
            *of_class += 1;
        }
        ranks.into_iter().map(|(place, rank)| (place, count(rank))).collect()
    }

    /// When the one that has waited longest arrived.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.asked.first().map(|(asked, _)| *asked)
    }

    /// All that wait, by their promises.
    pub(super) fn leases(&self) -> impl Iterator<Item = &LeaseId> {
        self.order.values().map(|waiting| &waiting.lease)
    }

    /// Whether this lease holds this place.
    pub(super) fn holds(&self, place: Place, lease: &LeaseId) -> bool {
        self.order.get(&place).is_some_and(|waiting| waiting.lease == *lease)
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).expect("no more than MOST wait")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn join(queue: &mut Queue, tenant: &str, promised: u64) -> Place {
        let at = Instant::from_nanos(promised);
        let lease = LeaseId(format!("{tenant}{promised}").into());
        let (class, tenant) = (ClassName::new("interactive"), Tenant(tenant.into()));
        queue.join(Waiting { lease, class, tenant, asked: at }, at)
    }

    fn serve_all(queue: &mut Queue) -> Vec<String> {
        let mut served = Vec::new();
        loop {
            let Some(place) = queue.heads().map(|(_, place)| place).next() else { return served };
            served.push(queue.at(place).lease.0.to_string());
            queue.serve(place);
        }
    }

    #[test]
    fn tenants_take_turns_and_each_is_served_by_its_promises() {
        let mut queue = Queue::default();
        for (tenant, promised) in [("a", 1), ("a", 3), ("a", 2), ("a", 4), ("b", 9), ("c", 5), ("c", 6)] {
            join(&mut queue, tenant, promised);
        }
        assert_eq!(serve_all(&mut queue), ["a1", "b9", "c5", "a2", "c6", "a3", "a4"]);
        assert_eq!(queue.oldest(), None);
    }

    #[test]
    fn who_leaves_unserved_takes_nobodys_turn_and_who_comes_back_begins_at_the_end() {
        let mut queue = Queue::default();
        let gone = join(&mut queue, "a", 1);
        join(&mut queue, "a", 2);
        join(&mut queue, "b", 3);
        queue.leave(gone);
        assert_eq!(queue.own(&ClassName::new("interactive"), &Tenant("a".into())), 1);
        assert_eq!(serve_all(&mut queue), ["a2", "b3"]);
        let only = join(&mut queue, "a", 1);
        join(&mut queue, "b", 2);
        queue.leave(only);
        join(&mut queue, "a", 1);
        assert_eq!(serve_all(&mut queue), ["b2", "a1"]);
    }

    #[test]
    fn a_rank_is_the_place_at_which_one_is_served() {
        let mut queue = Queue::default();
        let mut places = Vec::new();
        for (step, tenant) in (0..40).zip(["a", "b", "a", "c", "a"].into_iter().cycle()) {
            places.push(join(&mut queue, tenant, step * 7 % 40));
        }
        for place in places.iter().step_by(3) {
            queue.leave(*place);
        }
        let mut rank = 0;
        let ranks: BTreeMap<_, _> =
            queue.order.iter().map(|(place, it)| (it.lease.0.to_string(), queue.rank(*place))).collect();
        for lease in serve_all(&mut queue) {
            rank += 1;
            assert_eq!(ranks[&lease], rank, "{lease}");
        }
    }

    proptest! {
        #[test]
        fn all_ranks_are_those_of_each(
            joins in prop::collection::vec((0u64..50, 0u8..3, 0u8..3), 0..80),
            served in 0usize..20,
        ) {
            let mut queue = Queue::default();
            for (promised, class, tenant) in joins {
                let at = Instant::from_nanos(promised);
                let class = ClassName::new(format!("c{class}"));
                let (lease, tenant) = (LeaseId("l".into()), Tenant(format!("t{tenant}").into()));
                queue.join(Waiting { lease, class, tenant, asked: at }, at);
            }
            for _ in 0..served {
                let Some(place) = queue.heads().map(|(_, place)| place).min() else { break };
                queue.serve(place);
            }
            let each: BTreeMap<_, _> = queue.order.keys().map(|place| (*place, queue.rank(*place))).collect();
            prop_assert_eq!(queue.ranks(), each);
        }
    }

    /// Those of other classes count beyond any number of one's own.
    #[test]
    fn a_rank_counts_other_classes_behind_a_thousand_of_its_own() {
        let mut queue = Queue::default();
        let mut last = None;
        for step in 0..1500 {
            let at = Instant::from_nanos(step);
            let class = ClassName::new(if step < 1100 { "batch" } else { "interactive" });
            let (lease, tenant) = (LeaseId("l".into()), Tenant(format!("t{step}").into()));
            last = Some(queue.join(Waiting { lease, class, tenant, asked: at }, at));
        }
        assert_eq!(queue.rank(last.unwrap()), COUNTED);
        assert_eq!(queue.ranks()[&last.unwrap()], COUNTED);
    }

    /// As many as may wait, of a thousand tenants: each is served in its turn, and nothing is left.
    #[test]
    fn a_full_queue_empties_in_turns() {
        let mut queue = Queue::default();
        for step in 0..u64::from(MOST) {
            join(&mut queue, &format!("t{:03}-", step % 1000), step);
        }
        let last = *queue.order.last_key_value().unwrap().0;
        assert_eq!((queue.len(), queue.rank(last)), (MOST, COUNTED));
        let served = serve_all(&mut queue);
        assert_eq!(served.len(), MOST as usize);
        for turn in served.chunks(1000) {
            assert!(turn.windows(2).all(|pair| pair[0] < pair[1]), "each tenant once a turn");
        }
        let Queue { order, rows, asked, .. } = queue;
        assert_eq!((order.len(), rows.len(), asked.len()), (0, 0, 0));
    }
}
