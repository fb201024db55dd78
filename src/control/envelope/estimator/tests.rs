//! The estimate against one made by hand, and against what must never happen to it.

use proptest::prelude::*;

use super::*;

const MAX: Bytes = Bytes::mib(1024);

fn hours(hours: u64) -> Instant {
    Instant::BOOT.after(Duration::from_secs(3600).saturating_mul(u32::try_from(hours).unwrap_or(u32::MAX)))
}

fn life(tenant: &str, mib: u64, whole: bool) -> Taught {
    Taught { tenant: Tenant(tenant.into()), peak: Bytes::mib(mib), whole }
}

fn taught(lives: impl IntoIterator<Item = Taught>) -> Learned {
    let mut learned = Learned::after(Bytes::ZERO, MAX);
    lives.into_iter().for_each(|life| learned.learn(hours(1), life));
    learned
}

fn usual(learned: &Learned) -> u64 {
    learned.expect(Bytes::mib(300), &[]).usual.get() >> 20
}

/// Ten lives: whole at 1, 2, 2, 4 and 5, cut at 2, 3, 3, 4 and 6. Of ten that reach 1 one peaks there: 9/10. Of nine that
/// reach 2 two do: 9/10 * 7/9 = 7/10. Of four that reach 4 one: 7/10 * 3/4 = 21/40. Of two that reach 5 one: 21/80.
#[test]
fn the_estimate_is_kaplans_and_meiers() {
    let at = |whole: u64, cut: u64| Weight { whole: whole * ONE, cut: cut * ONE };
    let buckets = [at(0, 0), at(1, 0), at(2, 1), at(0, 2), at(1, 1), at(1, 0), at(0, 1)];
    let share = |share| first_below(&buckets, 0, share);
    assert_eq!((share(0.9), share(0.899), share(0.7)), (Some(1), Some(2), Some(2)));
    assert_eq!((share(0.699), share(0.525)), (Some(4), Some(4)));
    assert_eq!((share(0.524), share(0.2625), share(0.262)), (Some(5), Some(5), None));
    // Of those that grew beyond 3: 3/4 peak above 4, and half of these above 5.
    assert_eq!((first_below(&buckets, 4, 0.75), first_below(&buckets, 4, 0.375)), (Some(4), Some(5)));
}

#[test]
fn what_is_declared_counts_until_ten_lives_have_taught() {
    let nine = taught((0..9).map(|_| life("ann", 100, true)));
    assert_eq!(usual(&nine), 300);
    assert_eq!(usual(&Learned::after(Bytes::mib(400), MAX)), 400, "what came before needed more");
    let ten = taught((0..10).map(|_| life("ann", 100, true)));
    // The bucket ends at 1024 MiB * 595/1000 / 2^2 / ... >= 100 MiB, and 15 % are added.
    assert!((115..=127).contains(&usual(&ten)), "{}", usual(&ten));
    let all_cut = taught((0..10).map(|_| life("ann", 100, false)));
    assert_eq!(usual(&all_cut), usual(&ten), "the highest that was seen stands for what was not");
}

#[test]
fn one_that_grew_large_counts_with_what_such_ones_came_to() {
    let lives = (0..97).map(|_| life("ann", 100, true)).chain((0..3).map(|_| life("ann", 400, true)));
    let learned = taught(lives.chain((0..300).map(|_| life("bob", 100, true))));
    let expected = learned.expect(Bytes::mib(300), &[]);
    assert!(expected.usual < Bytes::mib(130), "{expected:?}");
    assert_eq!(expected.of_one_with(Bytes::mib(90)), expected.usual);
    let grown = expected.of_one_with(Bytes::mib(200));
    assert!((Bytes::mib(400)..Bytes::mib(440)).contains(&grown), "{grown}");
    assert_eq!(expected.of_one_with(Bytes::mib(600)), MAX, "nobody has come back from there");
}

/// Uniform peaks from 100 to 300 MiB: 98 % are below 296 MiB.
#[test]
fn a_steady_workload_is_known_after_a_while() {
    let peaks = (0..2000).map(|turn: u64| 100 + turn * 7919 % 200);
    let mut learned = Learned::after(Bytes::ZERO, MAX);
    for (turn, mib) in peaks.enumerate() {
        let tenant = ["ann", "bob", "cy", "di", "ed", "flo"][turn % 6];
        // Every fifth is cut short before it comes to its peak.
        let cut = turn % 5 == 0;
        let seen = if cut { mib / 2 } else { mib };
        learned.learn(hours(turn as u64 / 20), life(tenant, seen, !cut));
    }
    let usual = usual(&learned);
    assert!((296 * 115 / 100..=296 * 115 / 100 * 110 / 100).contains(&usual), "{usual}");
}

#[test]
fn a_flood_of_small_lives_hides_nothing() {
    let flood = || (0..5000).map(|_| life("flood", 20, true));
    let others = || (0..50).map(|turn| life(["ann", "bob"][turn % 2], 300, true));
    let learned = taught(others().chain(flood()));
    assert!(usual(&learned) >= 345, "{}", usual(&learned));
    let counted = learned.counted().iter().fold(0, |sum, weight| sum + weight.sum());
    assert!(counted <= 100 * ONE, "{counted} is more than twice the others' weight");
}

#[test]
fn one_leak_among_many_lives_takes_nothing_over() {
    let steady = (0..200).map(|turn| life(["ann", "bob", "cy"][turn % 3], 100, true));
    let learned = taught(steady.chain((0..4).map(|_| life("leaker", 1024, false))));
    assert!(usual(&learned) <= 127, "{}", usual(&learned));
    // Those that leak on now were never seen to end.
    let expected = learned.expect(Bytes::mib(300), &[Bytes::mib(1000); 3]);
    assert!(expected.usual <= MAX, "{expected:?}");
}

#[test]
fn what_was_learned_long_ago_is_a_former_figure() {
    let mut learned = taught((0..40).map(|_| life("ann", 500, true)));
    let before = usual(&learned);
    learned.learn(hours(49), life("ann", 20, true));
    assert_eq!((learned.lives(), usual(&learned)), (41, before));
    learned.learn(hours(49 + 48 * 4), life("ann", 20, true));
    assert_eq!((learned.lives(), usual(&learned)), (1, before));
}

#[test]
fn it_reads_as_it_was_written() {
    let mut learned =
        taught((0..9).flat_map(|turn| {
            ["a", "b", "c", "d", "e", "f"].map(|name| life(name, turn * 50, turn % 2 == 0))
        }));
    learned.learn(hours(30), life("a", 70, false));
    let record = learned.record(&PoolName::new("python"), Bytes::ZERO, (Vec::new(), Instant::BOOT));
    assert_eq!(Learned::of(&record, MAX), learned);
    let names = record.weights.iter().filter_map(|weight| weight.tenant.as_ref());
    assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), TENANTS);
}

fn any_life() -> impl Strategy<Value = (u64, Taught)> {
    let bytes = prop_oneof![Just(0), Just(u64::MAX), 0..(4u64 << 30)];
    (prop_oneof![0..200u64, Just(u64::MAX)], 0..7u8, bytes, any::<bool>()).prop_map(
        |(at, name, peak, whole)| {
            (at, Taught { tenant: Tenant(format!("t{name}").into()), peak: Bytes::new(peak), whole })
        },
    )
}

proptest! {
    #[test]
    fn nothing_poisons_it(lives in prop::collection::vec(any_life(), 0..60), max in 1..(2u64 << 40)) {
        let max = Bytes::new(max);
        let mut learned = Learned::after(Bytes::ZERO, max);
        for (at, life) in lives {
            learned.learn(hours(at), life);
            let expected = learned.expect(Bytes::mib(300), &[Bytes::ZERO, Bytes::new(u64::MAX)]);
            prop_assert!(expected.usual <= max);
            for held in [0, 1 << 20, 1 << 30, u64::MAX].map(Bytes::new) {
                let one = expected.of_one_with(held);
                prop_assert!(one <= max && one >= expected.usual.min(max) && (one >= held || held > max));
            }
            prop_assert!(learned.weights.len() <= (TENANTS + 1) * BUCKETS);
        }
    }

    #[test]
    fn weights_saturate(many in prop::collection::vec((0..64u8, any::<u64>(), any::<u64>()), 1..9)) {
        let weights = many.into_iter().map(|(bucket, whole, cut)| PeakWeight { tenant: None, bucket, whole, cut });
        let record = EnvelopeRecord {
            pool: PoolName::new("p"), usual: Bytes::ZERO, former: Bytes::ZERO,
            lives: u32::MAX, at: hours(1), weights: weights.collect(),
            hours: Vec::new(), hours_until: hours(1),
        };
        let mut learned = Learned::of(&record, MAX);
        learned.learn(hours(2), life("ann", 100, true));
        prop_assert_eq!(learned.lives(), u32::MAX);
        prop_assert!(learned.expect(Bytes::ZERO, &[MAX]).usual <= MAX);
    }

    #[test]
    fn a_larger_peak_never_lowers_it(peaks in prop::collection::vec((1..1024u64, any::<bool>()), 10..60)) {
        let lives = peaks.iter().map(|(mib, whole)| life("ann", *mib, *whole));
        let mut learned = taught(lives);
        let before = usual(&learned);
        learned.learn(hours(1), life("ann", 1024, true));
        prop_assert!(usual(&learned) >= before);
    }
}
