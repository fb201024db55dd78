//! What each class has of a pool's slots: `class.NAME = { share, hold_back }` of a pool.
//!
//! Shares become whole slots here, once: every class has at least one, so that none can be starved, and all together
//! have no more than there are. With fewer slots than classes nobody has any, and classes take turns.

use std::collections::{BTreeMap, BTreeSet};

use crate::profile::check::fields::Fields;
use crate::profile::check::{pool, shape};
use crate::profile::mistake::Wrong;
use crate::profile::{ClassName, PoolClass};
use crate::quantity::Permille;

/// All slots, in thousandths.
const ALL: u32 = 1000;

/// Reads the pool's classes: an entry for each class of the host.
pub(super) fn of(
    fields: &mut Fields<'_>,
    classes: &BTreeSet<String>,
    slots: u32,
) -> BTreeMap<ClassName, PoolClass> {
    let mut all: BTreeMap<ClassName, PoolClass> =
        classes.iter().map(|name| (ClassName::new(name.as_str()), PoolClass::default())).collect();
    if let Some(tables) = fields.section("class", "class.interactive = { share = \"60%\" }") {
        let mut places = Vec::new();
        for (name, mut its) in tables.sections("{ share = \"60%\" }") {
            let known = tables.name_is_right(name, |name| pool::is_class(name, classes));
            // Above nothing and up to all.
            let shares = shape::share(Permille::new(1)..=Permille::new(ALL));
            let share = its.read("share", shares).map(Some).or(None).value;
            // None: a slot that is kept free serves nobody, until somebody of its class comes.
            let held = its.read("hold_back", shape::count(0..=pool::MOST_INSTANCES)).or(0);
            its.finish();
            if known {
                places.push((name, held.place));
                let hold_back = held.value;
                all.insert(ClassName::new(name), PoolClass { share, hold_back, ..PoolClass::default() });
            }
        }
        let shared: u32 = all.values().filter_map(|its| its.share).map(Permille::get).sum();
        if shared > ALL {
            let shared = Permille::new(shared);
            tables.note(Wrong::new(format!("expected shares of at most 100% together, found {shared}")));
        }
        resolve(&mut all, slots);
        for (name, place) in places {
            let PoolClass { hold_back, guaranteed, .. } = all[name];
            // More would take what is guaranteed to others.
            if hold_back > guaranteed {
                let limit = format!("at most its guaranteed slots, {guaranteed} of {slots}");
                let wrong = Wrong::new(format!("expected {limit}, to be held back, found {hold_back}"));
                tables.clash(&place, name, wrong.hint("raise its `share` or `max_instances`".to_owned()));
            }
        }
        return all;
    }
    resolve(&mut all, slots);
    all
}

/// From shares to slots and weights.
fn resolve(all: &mut BTreeMap<ClassName, PoolClass>, slots: u32) {
    let count = u32::try_from(all.len()).expect("classes are few");
    let shared: u32 = all.values().filter_map(|its| its.share).map(Permille::get).sum();
    let silent =
        u32::try_from(all.values().filter(|its| its.share.is_none()).count()).expect("classes are few");
    for its in all.values_mut() {
        let rest = ALL.saturating_sub(shared).checked_div(silent).unwrap_or(0);
        its.weight = its.share.map_or(rest, Permille::get).max(1);
        let share = u64::from(its.share.map_or(0, Permille::get)) * u64::from(slots) / u64::from(ALL);
        its.guaranteed = u32::try_from(share).unwrap_or(slots).max(1);
    }
    if slots < count {
        all.values_mut().for_each(|its| its.guaranteed = 0);
        return;
    }
    // The slot that a class without a share has comes from the one that has most.
    while all.values().map(|its| its.guaranteed).sum::<u32>() > slots {
        let largest = all.values_mut().max_by_key(|its| its.guaranteed).expect("there are classes");
        largest.guaranteed -= 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::check;

    fn pool(slots: u32, class: &str) -> String {
        let text = format!(
            "[class.late]\n[pool.p]\nkind = 'sandbox'\nimage = 'i'\nwarm.min = 0\nmax_instances = {slots}\n{class}"
        );
        match check("host.toml", &text) {
            Ok(profile) => {
                let its = profile.pools["p"].classes.iter();
                its.map(|(name, its)| format!("{name} {} {} {}\n", its.guaranteed, its.weight, its.hold_back))
                    .collect()
            }
            Err(mistakes) => mistakes.to_string(),
        }
    }

    #[test]
    fn shares_come_to_whole_slots_and_everyone_has_one() {
        assert_eq!(pool(10, ""), "batch 1 333 0\ninteractive 1 333 0\nlate 1 333 0\n");
        let shares = "class.interactive = { share = '60%', hold_back = 2 }\nclass.batch.share = '40%'\n";
        assert_eq!(pool(10, shares), "batch 4 400 0\ninteractive 5 600 2\nlate 1 1 0\n");
        let shares = shares.replace(", hold_back = 2", "");
        assert_eq!(pool(3, &shares), "batch 1 400 0\ninteractive 1 600 0\nlate 1 1 0\n");
        assert_eq!(pool(2, &shares), "batch 0 400 0\ninteractive 0 600 0\nlate 0 1 0\n");
    }

    #[test]
    fn what_cannot_be_is_said_where_it_is_written() {
        insta::assert_snapshot!(pool(2, "class.interactive = { share = '60%', hold_back = 3 }\nclass.batch.share = '41%'\n"), @"
        host.toml:7:1: pool.p.class: expected shares of at most 100% together, found 101%
          7 | class.interactive = { share = '60%', hold_back = 3 }
            | ^^^^^

        host.toml:7:50: pool.p.class.interactive: expected at most its guaranteed slots, 0 of 2, to be held back, found 3
          7 | class.interactive = { share = '60%', hold_back = 3 }
            |                                                  ^
          hint: raise its `share` or `max_instances`
        ");
        insta::assert_snapshot!(pool(9, "class.interactiv = { share = '0%', hold = 1 }\n"), @r#"
        host.toml:7:7: pool.p.class.interactiv: there is no class "interactiv"
          7 | class.interactiv = { share = '0%', hold = 1 }
            |       ^^^^^^^^^^
          hint: did you mean "interactive"?

        host.toml:7:30: pool.p.class.interactiv.share: expected at least 0.1%, found 0%
          7 | class.interactiv = { share = '0%', hold = 1 }
            |                              ^^^^

        host.toml:7:36: pool.p.class.interactiv.hold: there is no such key
          7 | class.interactiv = { share = '0%', hold = 1 }
            |                                    ^^^^
          hint: the keys known here are share, hold_back
        "#);
    }
}
