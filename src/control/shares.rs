//! Which class a free slot goes to.
//!
//! A class is *below its share* while it has fewer leases than are guaranteed to it. In this order:
//!
//! 1. A slot that a class at or below its share has given back, while it waits, is its own again.
//! 2. Any other goes to a class below its share.
//! 3. Then to the earliest promised instant.
//!
//! Slots that are held back for one class are lent to no other. Where there are fewer slots than classes nobody has a share,
//! and classes take turns by their weights (stride scheduling: each turn moves a class on by the inverse of its weight, and the
//! one that is least far on is next).
//!
//! From the first rule follows the bound. While a pool of class k with g slots has them, and R is the longest that a lease of a
//! class has its slot (start, run, drain and stop), the i-th of T waiting tenants' requests waits for no longer than
//! `max R + ceil(i * T / g) * R_k`: after the longest R all that is lent was lent by these rules, so k has its g slots, and
//! keeps them while it waits, and each of them serves one of its row every R_k. Earliest promise alone has no such bound:
//! a flood of one class takes every slot that it has been waiting for long enough.
//!
//! Not here: who of a class is next (`queue`), whether there is room for another slot (`admission`).

use std::collections::BTreeMap;

use super::message::Rule;
use super::queue::{Place, Queue};
use crate::profile::{ClassName, PoolClass};

/// What a turn costs the heaviest class, where classes take turns.
const STRIDE: u64 = 1_000_000;

/// What each class has of one pool's slots.
#[derive(Debug, Default)]
pub(super) struct Shares {
    classes: BTreeMap<ClassName, Has>,
    /// How far on the class was that had the last turn.
    turn: u64,
}

#[derive(Debug, Default)]
struct Has {
    lent: u32,
    /// Slots that it gave back while it was at or below its share and waited.
    returns: u32,
    /// How far on it is where classes take turns.
    turn: u64,
}

/// The slots of a pool, and the classes they are for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots<'a> {
    pub(super) classes: &'a BTreeMap<ClassName, PoolClass>,
    /// How many there are: the operator's ceiling on instances.
    pub(super) all: u32,
}

impl Slots<'_> {
    fn of(&self, class: &ClassName) -> PoolClass {
        // A class that the profile has no more goes on without a share.
        self.classes.get(class).copied().unwrap_or(PoolClass { weight: 1, ..PoolClass::default() })
    }

    /// Whether classes take turns, because there are fewer slots.
    fn take_turns(&self) -> bool {
        self.classes.values().all(|its| its.guaranteed == 0)
    }
}

impl Shares {
    /// A lease of this class has a slot from now on.
    pub(super) fn lend(&mut self, class: &ClassName, slots: Slots<'_>) {
        let turn = self.turn;
        let weight = u64::from(slots.of(class).weight.max(1));
        let has = self.classes.entry(class.clone()).or_default();
        has.lent += 1;
        has.returns = has.returns.saturating_sub(1);
        // One that has not waited for long has no turns to catch up on.
        self.turn = has.turn.max(turn);
        has.turn = self.turn.saturating_add(STRIDE / weight);
    }

    /// A lease of this class gives its slot back; `waits` says whether another of it waits.
    pub(super) fn give_back(&mut self, class: &ClassName, slots: Slots<'_>, waits: bool) {
        let guaranteed = slots.of(class).guaranteed;
        let has = self.classes.get_mut(class).expect("a class that has a slot is known");
        let own = has.lent <= guaranteed;
        has.lent -= 1;
        has.returns =
            if waits { (has.returns + u32::from(own)).min(guaranteed.saturating_sub(has.lent)) } else { 0 };
    }

    /// Nobody of this class waits any more: what it gave back is anybody's.
    pub(super) fn waits_no_more(&mut self, class: &ClassName) {
        if let Some(has) = self.classes.get_mut(class) {
            has.returns = 0;
        }
    }

    /// How many leases of this class have a slot.
    pub(super) fn lent(&self, class: &ClassName) -> u32 {
        self.classes.get(class).map_or(0, |has| has.lent)
    }

    /// Who is served next of those that wait, if anybody may be.
    pub(super) fn next(&self, queue: &Queue, slots: Slots<'_>) -> Option<Place> {
        let urgency = |(class, place): (&ClassName, Place)| {
            let turn = self.turn_of(class, slots);
            let far_on = self.classes.get(class).map_or(0, |has| has.turn).max(self.turn);
            (turn, if turn == Rule::ByTurns { far_on } else { 0 }, place)
        };
        let ranked = queue.heads().map(urgency).filter(|(turn, ..)| *turn != Rule::HeldBack);
        ranked.min().map(|(.., place)| place)
    }

    /// By which rule a class that waits comes to the next slot.
    pub(super) fn turn_of(&self, class: &ClassName, slots: Slots<'_>) -> Rule {
        let below = self.lent(class) < slots.of(class).guaranteed;
        let own = below && self.classes.get(class).is_some_and(|has| has.returns > 0);
        match (own, below) {
            _ if self.room_of(class, slots) == 0 => Rule::HeldBack,
            _ if slots.take_turns() => Rule::ByTurns,
            (true, _) => Rule::Own,
            (false, true) => Rule::BelowShare,
            (false, false) => Rule::ByPromise,
        }
    }

    /// How many more slots may be lent to this class; any number where none is held back for others.
    pub(super) fn room_of(&self, class: &ClassName, slots: Slots<'_>) -> u32 {
        match self.free_and_held(class, slots) {
            (_, 0) => u32::MAX,
            (free, held) => free.saturating_sub(held),
        }
    }

    /// The free slots and how many are held back for others, where these leave none to this class.
    pub(super) fn held_back(&self, class: &ClassName, slots: Slots<'_>) -> Option<(u32, u32)> {
        let (free, held) = self.free_and_held(class, slots);
        (held > 0 && free <= held).then_some((free, held))
    }

    fn free_and_held(&self, class: &ClassName, slots: Slots<'_>) -> (u32, u32) {
        let lent: u32 = self.classes.values().map(|has| has.lent).sum();
        let others = slots.classes.iter().filter(|(name, _)| *name != class);
        let held = others.map(|(name, its)| its.hold_back.saturating_sub(self.lent(name))).sum();
        (slots.all.saturating_sub(lent), held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::message::{LeaseId, Tenant};
    use crate::control::queue::Waiting;
    use crate::quantity::{Instant, Permille};

    /// A pool whose slots are there at once, in ticks: what the rules alone do.
    struct Model {
        classes: BTreeMap<ClassName, PoolClass>,
        slots: u32,
        queue: Queue,
        shares: Shares,
        /// When each slot that is lent comes back, and from which class.
        lent: Vec<(u64, ClassName)>,
        waits: BTreeMap<Place, Ask>,
        now: u64,
    }

    #[derive(Debug, Clone)]
    struct Ask {
        at: u64,
        class: ClassName,
        /// How many of its tenant wait, itself included.
        number: u64,
        holds: u64,
    }

    impl Model {
        fn new(slots: u32, classes: &[(&str, u32, u32)]) -> Model {
            let class = |(name, guaranteed, hold_back): &(&str, u32, u32)| {
                let share = Some(Permille::new(guaranteed * 1000 / slots));
                let (guaranteed, hold_back) = (*guaranteed, *hold_back);
                (
                    ClassName::new(*name),
                    PoolClass { share, hold_back, guaranteed, weight: 1000 * guaranteed.max(1) / slots },
                )
            };
            let classes = classes.iter().map(class).collect();
            let (queue, shares) = (Queue::default(), Shares::default());
            Model { classes, slots, queue, shares, lent: Vec::new(), waits: BTreeMap::new(), now: 0 }
        }

        fn ask(&mut self, class: &str, tenant: usize, holds: u64, target: u64) {
            let (class, tenant) = (ClassName::new(class), Tenant(tenant.to_string().into()));
            let number = u64::from(self.queue.own(&class, &tenant)) + 1;
            let waiting =
                Waiting { lease: LeaseId("".into()), class: class.clone(), tenant, asked: Instant::BOOT };
            let place = self.queue.join(waiting, Instant::from_nanos(self.now + target));
            self.waits.insert(place, Ask { at: self.now, class, number, holds });
        }

        /// Gives back what is due and lends what is free; who was served in this tick.
        fn tick(&mut self) -> Vec<Ask> {
            let (due, lent) = std::mem::take(&mut self.lent).into_iter().partition(|(at, _)| *at <= self.now);
            self.lent = lent;
            let slots = Slots { classes: &self.classes, all: self.slots };
            for (_, class) in due {
                self.shares.give_back(&class, slots, self.queue.len_of(&class) > 0);
            }
            let mut served = Vec::new();
            while self.lent.len() < self.slots as usize
                && let Some(place) = self.shares.next(&self.queue, slots)
            {
                let ask = self.waits.remove(&place).unwrap();
                self.queue.serve(place);
                if self.queue.len_of(&ask.class) == 0 {
                    self.shares.waits_no_more(&ask.class);
                }
                self.shares.lend(&ask.class, slots);
                self.lent.push((self.now + ask.holds, ask.class.clone()));
                served.push(ask);
            }
            self.now += 1;
            served
        }
    }

    const NAMES: [&str; 3] = ["a", "b", "c"];

    /// Slots, and of each class its guarantee, what is held back of it, and the longest that it holds a slot.
    fn pools() -> impl Strategy<Value = (u32, Vec<(u32, u32)>, Vec<u64>)> {
        let guarantees = prop::collection::vec((1u32..4).prop_flat_map(|most| (Just(most), 0..=most)), 3);
        (guarantees, 0u32..4, prop::collection::vec(1u64..12, 3)).prop_map(|(shares, more, longest)| {
            let slots = shares.iter().map(|(guaranteed, _)| guaranteed).sum::<u32>() + more;
            (slots, shares, longest)
        })
    }

    /// When, of which class and tenant, and where in its longest time its own lies.
    fn asks() -> impl Strategy<Value = Vec<(u64, usize, usize, u64)>> {
        // Class 0 floods.
        let one =
            (0u64..60, prop_oneof![4 => Just(0usize), 1 => Just(1), 1 => Just(2)], 0usize..3, any::<u64>());
        prop::collection::vec(one, 1..200)
    }

    proptest! {
        #[test]
        fn nobody_waits_beyond_the_bound((slots, shares, longest) in pools(), mut asks in asks()) {
            asks.sort();
            let named: Vec<_> = NAMES.into_iter().zip(&shares).map(|(name, (g, held))| (name, *g, *held)).collect();
            let mut model = Model::new(slots, &named);
            let most = *longest.iter().max().unwrap();
            let mut asks = asks.into_iter().peekable();
            // Whatever is asked for, this is enough for all of it.
            while asks.peek().is_some() || !model.waits.is_empty() {
                while let Some((_, class, tenant, draw)) = asks.next_if(|(at, ..)| *at <= model.now) {
                    // The flood is of the class that expects to wait least, which is what earliest promise alone would serve.
                    model.ask(NAMES[class], tenant, 1 + draw % longest[class], class as u64 * 40);
                }
                let now = model.now;
                let served = model.tick();
                for ask in served.iter().chain(model.waits.values()) {
                    let class = NAMES.iter().position(|name| *name == ask.class.as_str()).unwrap();
                    let bound = most + (ask.number * 3).div_ceil(u64::from(shares[class].0)) * longest[class];
                    prop_assert!(now - ask.at <= bound, "{ask:?} waits for {} at {now}, bound {bound}", now - ask.at);
                }
            }
        }

        /// The promise under overload: whoever waits has no less than its guaranteed slots, after the longest lease.
        #[test]
        fn a_flood_leaves_each_class_its_share((slots, shares, longest) in pools(), draws in prop::collection::vec(any::<u64>(), 64)) {
            let named: Vec<_> = NAMES.into_iter().zip(&shares).map(|(name, (g, held))| (name, *g, *held)).collect();
            let mut model = Model::new(slots, &named);
            let most = *longest.iter().max().unwrap();
            let mut draws = draws.into_iter().cycle();
            for now in 0..120 {
                for (class, name) in NAMES.into_iter().enumerate() {
                    // Class 0 alone at first.
                    let wanted = if class == 0 || now >= 20 { 20 } else { 0 };
                    while model.queue.len_of(&ClassName::new(name)) < wanted {
                        let draw = draws.next().unwrap();
                        model.ask(name, class, 1 + draw % longest[class], class as u64 * 40);
                    }
                }
                model.tick();
                if now >= 20 + most {
                    for (name, (guaranteed, _)) in NAMES.into_iter().zip(&shares) {
                        let lent = model.shares.lent(&ClassName::new(name));
                        prop_assert!(lent >= *guaranteed, "{name} has {lent} of {guaranteed} at {now}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_a_class_gave_back_is_its_own_though_others_were_promised_sooner() {
        let mut model = Model::new(3, &[("a", 1, 0), ("b", 1, 0), ("c", 1, 0)]);
        // While nobody else waits `a` has all slots; of them `b` is given one as soon as it comes back.
        model.ask("a", 0, 3, 0);
        model.ask("a", 0, 100, 0);
        model.ask("a", 0, 100, 0);
        model.tick();
        model.ask("b", 0, 2, 50);
        model.ask("b", 0, 2, 50);
        let mut served = String::new();
        for tick in 1..10 {
            if tick == 4 {
                model.ask("c", 0, 100, 0); // Promised sooner, and below its share as well.
            }
            served.extend(model.tick().iter().map(|ask| format!("{tick}{} ", ask.class)));
        }
        assert_eq!(served, "3b 5b 7c ");
    }

    #[test]
    fn with_fewer_slots_than_classes_they_take_turns_by_their_weights() {
        let mut model = Model::new(1, &[("a", 0, 0), ("b", 0, 0)]);
        for (name, weight) in [("a", 750), ("b", 250)] {
            model.classes.get_mut(name).unwrap().weight = weight;
        }
        let mut served = String::new();
        for _ in 0..16 {
            while model.queue.len() < 8 {
                let least = if model.queue.len_of(&ClassName::new("a")) < 4 { "a" } else { "b" };
                model.ask(least, 0, 1, 0);
            }
            served.extend(model.tick().iter().map(|ask| ask.class.as_str().to_owned()));
        }
        assert_eq!(served.matches('a').count(), 12, "{served}");
        // One that comes after a long silence has no turns to catch up on.
        let mut model = Model::new(1, &[("a", 0, 0), ("b", 0, 0)]);
        let mut served = String::new();
        for tick in 0..40 {
            model.ask("a", 0, 1, 0);
            if tick >= 20 {
                model.ask("b", 0, 1, 0);
            }
            served.extend(model.tick().iter().map(|ask| ask.class.as_str().to_owned()));
        }
        assert!(served.ends_with("abababab") || served.ends_with("babababa"), "{served}");
        assert!(!served.contains("bb"), "{served}");
    }

    #[test]
    fn what_is_held_back_is_lent_to_no_other_class() {
        let mut model = Model::new(4, &[("a", 2, 0), ("b", 2, 2)]);
        for _ in 0..5 {
            model.ask("a", 0, 100, 0);
        }
        assert_eq!(model.tick().len(), 2);
        let slots = Slots { classes: &model.classes, all: 4 };
        let (a, b) = (ClassName::new("a"), ClassName::new("b"));
        assert_eq!(model.shares.held_back(&a, slots), Some((2, 2)));
        assert_eq!(model.shares.held_back(&b, slots), None);
        model.ask("b", 0, 100, 0);
        assert_eq!(model.tick().len(), 1);
        assert_eq!(model.tick().len(), 0, "one is still kept");
    }
}
