//! The simulator over many seeds: see `stoker::sim`.
//!
//! `STOKER_SEEDS=N` runs so many; `STOKER_SEED=N` runs one, and shows what it has seen.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use stoker::sim::{Options, Report, run};

/// Enough for each kind of trouble to meet each other, in some twenty seconds of one core; more are for the night.
const SEEDS: u64 = 200;

/// Each end of a lease and each limit occurs over the seeds: a run that never meets one proves nothing of it.
const ENDS: [&str; 17] = [
    "out_of_memory",
    "released",
    "died",
    "vanished",
    "overran",
    "by_caller",
    "caller_gone",
    "first_use_timeout",
    "idle_timeout",
    "max_runtime",
    "hold",
    "drain",
    "pressure",
    "wait_expired",
    "host_draining",
    "pool_draining",
    "pool_removed",
];
const LIMITS: [&str; 25] = [
    "queue_full",
    "queue_too_long",
    "tenant_limit",
    "max_holds",
    "tenant_holds",
    "provider_limit",
    "held_back",
    "wait_expired",
    "host_draining",
    "pool_draining",
    "pool_removed",
    "never_fits",
    "memory_promised",
    "memory_available",
    "cpu",
    "max_instances",
    "max_starts",
    "starts_failing",
    "under_pressure",
    "cpu_pressure",
    "recovering",
    "no_telemetry",
    "without_telemetry",
    "engine_unreachable",
    "not_recorded",
];
/// What else has to happen for the faults to have been met.
const OTHERS: [&str; 48] = [
    "kills for want of memory",
    "tasks asked for again",
    "tasks confused",
    "words lost",
    "words doubled",
    "words late",
    "orders lost",
    "starts failed",
    "stops failed",
    "engine lost",
    "telemetry lost",
    "leases sent on",
    "drains",
    "strangers",
    "reloads",
    "reloads of nothing",
    "pools gone",
    "outdated",
    "removed",
    "unknown",
    "unanswering",
    "aged",
    "surplus",
    "callers crashed",
    "holds",
    "resumed",
    "permits",
    "permits waited for",
    "throttled",
    "providers back",
    "grants undelivered",
    "tight",
    "critical",
    "refill",
    "stock",
    "past_promise",
    "interruptible",
    "outgrown",
    "reclaims",
    "calm",
    "ceilings refused",
    "restarts",
    "leases kept",
    "adopted",
    "interrupted",
    "records failed",
    "store lost",
    "grants undone",
];

#[test]
fn whatever_goes_wrong_the_promises_hold() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = number("STOKER_SEED") {
        let options = Options::drawn(seed);
        println!("{options}");
        return match run(&options) {
            Ok(report) => println!("{report}"),
            Err(broken) => panic!("{broken}"),
        };
    }
    let seeds = number("STOKER_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let reports: Vec<Report> = thread::scope(|scope| {
        let work = || run_some(&next, seeds);
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|thread| thread.join().expect("a seed failed, see above")).collect()
    });
    let mut sum = Report::default();
    reports.iter().for_each(|report| sum.add(report));
    println!("{seeds} seeds: {sum}");
    if seeds >= SEEDS {
        let missing = |names: &[&'static str], seen: &std::collections::BTreeMap<&'static str, u64>| {
            names.iter().filter(|name| !seen.contains_key(*name)).copied().collect::<Vec<_>>()
        };
        let never = [missing(&ENDS, &sum.ends), missing(&LIMITS, &sum.limits), missing(&OTHERS, &sum.counts)];
        assert_eq!(never.concat(), Vec::<&str>::new(), "these never happened");
    }
}

fn run_some(next: &AtomicU64, seeds: u64) -> Report {
    let mut sum = Report::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            return sum;
        }
        match run(&Options::drawn(seed)) {
            Ok(report) => sum.add(&report),
            Err(broken) => panic!("{broken}"),
        }
    }
}

#[test]
fn a_seed_is_all_one_needs() {
    for seed in [3, 14] {
        let options = Options::drawn(seed);
        let reports = [(); 2].map(|()| run(&options).unwrap_or_else(|broken| panic!("{broken}")).to_string());
        assert_eq!(reports[0], reports[1]);
    }
}
