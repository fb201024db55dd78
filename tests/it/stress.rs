//! The stress suite: a steady stream of cheap requests on a small host, and each time something else beside it. All decisions
//! are held against the promises, the figures against their bars (`stoker::sim`), and afterwards all must be as before.
//!
//! `STOKER_SEEDS=N` plays each with so many seeds; `make soak` does.

use std::env;

use stoker::profile;
use stoker::sim::workload::Workload;
use stoker::sim::{Game, Outcome, play};

const HOST: &str = r#"
[host]
reserve = { memory = "1GiB", cpu = "1" }
floor = "512MiB"
cpu_overcommit = "400%"
max_starts = 4

[class.interactive]
target_wait = "1s"
max_wait = "1m"
max_queued = 400

[class.batch]
target_wait = "1m"
max_wait = "20m"
max_queued = 5000

[pool.python]
kind = "sandbox"
image = "i"
memory_max = "256MiB"
memory_expect = "64MiB"
cpus = "0.5"
shm = "16MiB"
warm = { min = 4, max = 12 }
class.interactive.share = "50%"
class.batch.share = "25%"
max_instances = 24

[pool.chromium]
kind = "browser"
image = "j"
memory_max = "1GiB"
memory_expect = "300MiB"
cpus = "1"
shm = "128MiB"
warm = { min = 1, max = 2 }
max_instances = 6
"#;

/// What there is each time: until its twelfth minute there are callers, and then some time in which all can end.
const STEADY: &str = r#"
lasts = "24m"
[machine]
memory = "16GiB"
cores = "8"
own = "500MiB"
[instance.python]
start = { law = "lognormal", mean = "800ms", sigma = 0.3, most = "10s" }
contention = "10%"
stop = "200ms"
idle = "20MiB"
[instance.chromium]
start = { law = "lognormal", mean = "2s", sigma = 0.3, most = "20s" }
stop = "300ms"
idle = "120MiB"
[stream.steady]
pool = "python"
class = "interactive"
tenants = ["atlas", "birch"]
rate = "90/min"
until = "12m"
runs = { law = "exponential", mean = "3s", most = "20s" }
memory = { law = "lognormal", mean = "40MiB", sigma = 0.4, most = "200MiB" }
grows_in = "2s"
cpu = "0.2"
[stream.browse]
pool = "chromium"
class = "interactive"
tenants = ["cedar"]
rate = "4/min"
until = "12m"
runs = { law = "exponential", mean = "20s", most = "2m" }
memory = { law = "lognormal", mean = "250MiB", sigma = 0.3, most = "900MiB" }
grows_in = "10s"
cpu = "0.3"
"#;

/// Plays what is steady with something else in it and beside it; from this second on nobody may be late any more.
fn plays(changes: &[(&str, &str)], beside: &str, well_at: f64) -> Vec<Outcome> {
    plays_on(HOST, (changes, beside), well_at)
}

/// The same on another host.
fn plays_on(host: &str, (changes, beside): (&[(&str, &str)], &str), well_at: f64) -> Vec<Outcome> {
    let change = |text: String, (from, to): &(&str, &str)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let text = changes.iter().fold(format!("{STEADY}{beside}"), change);
    let profile = profile::check("host.toml", host).unwrap_or_else(|wrong| panic!("{wrong}"));
    let workload = Workload::read("stress.toml", &text, &profile).unwrap_or_else(|wrong| panic!("{wrong}"));
    let seeds = env::var("STOKER_SEEDS").map_or(1, |text| text.parse().expect("a number"));
    let lasts = workload.lasts;
    let game = Game { profile, workload, seed: 0, lasts, checked: true };
    (1..=seeds).map(|seed| outcome(&Game { seed, ..game.clone() }, well_at)).collect()
}

fn outcome(game: &Game, well_at: f64) -> Outcome {
    let outcome = play(game).unwrap_or_else(|broken| panic!("{broken}"));
    let seed = game.seed;
    let missed: Vec<_> = outcome.missed().collect();
    assert!(missed.is_empty(), "seed {seed}: {missed:?}");
    for class in &outcome.classes {
        let answered = class.granted + class.refused + class.gave_up;
        assert_eq!((class.requests, class.waiting), (answered, 0), "seed {seed}: no end for all: {class:?}");
    }
    let last = outcome.callers.late_last_s.unwrap_or(0.0);
    assert!(last <= well_at, "seed {seed}: somebody is late still at {last} s, {:?}", outcome.callers);
    // Whoever outgrew what is expected may meet the ceiling of all, which keeps the host from its end.
    assert_eq!(outcome.kills.host, 0, "seed {seed}: {:?}", outcome.kills);
    outcome
}

#[test]
fn a_burst_of_expensive_jobs_on_a_steady_stream_of_cheap_ones() {
    let burst = r#"
        [stream.jobs]
        pool = "python"
        class = "batch"
        tenants = ["evaluation"]
        burst = { every = "1h", count = 80 }
        from = "5m"
        runs = { law = "fixed", mean = "20s" }
        memory = { law = "lognormal", mean = "150MiB", sigma = 0.2, most = "240MiB" }
        grows_in = "5s"
        cpu = "0.5"
    "#;
    for outcome in plays(&[], burst, 720.0) {
        assert_eq!(outcome.callers.left_with_nothing, 0, "{:?}", outcome.refusals);
    }
}

#[test]
fn slow_starts() {
    plays(
        &[("mean = \"800ms\", sigma = 0.3, most = \"10s\"", "mean = \"4s\", sigma = 0.6, most = \"25s\"")],
        "",
        800.0,
    );
}

#[test]
fn a_dead_metrics_source() {
    plays(&[], &event("blind", "lasts = \"2m\""), 600.0);
}

#[test]
fn an_engine_that_is_away() {
    plays(&[], &event("engine_away", "lasts = \"1m\""), 480.0);
}

#[test]
fn a_full_disk() {
    plays(&[], &event("disk_full", "lasts = \"30s\""), 480.0);
}

#[test]
fn a_daemon_that_dies() {
    plays(&[], &event("crash", ""), 720.0);
}

#[test]
fn a_clock_that_jumps() {
    plays(&[], &event("sleep", "lasts = \"10m\""), 1440.0);
}

#[test]
fn a_neighbour_that_takes_memory() {
    plays(&[], &event("hog", "lasts = \"2m\"\nmemory = \"13GiB\""), 720.0);
}

#[test]
fn a_drain_under_load() {
    let back = ("rate = \"90/min\"", "rate = \"90/min\"\nretries = 5");
    plays(&[back], &event("drain", "lasts = \"1m\"\nwindow = \"5s\"\npool = \"python\""), 480.0);
}

/// The host is asked for more, and then for much less than it has warm.
#[test]
fn scale_down_while_work_is_active() {
    let more =
        stream("interactive", "rate = \"120/min\"\nfrom = \"2m\"\nuntil = \"5m\"", "fixed\", mean = \"4s");
    plays(&[], &more, 420.0);
}

#[test]
fn a_memory_leak_in_one_pool() {
    let leaky = r#"
        [stream.leaky]
        pool = "chromium"
        class = "batch"
        tenants = ["crawler"]
        burst = { every = "3m", count = 3 }
        until = "10m"
        runs = { law = "fixed", mean = "150s" }
        memory = { law = "fixed", mean = "300MiB" }
        grows_in = "10s"
        leak = "400MiB/min"
        cpu = "0.3"
    "#;
    for outcome in plays(&[], leaky, 900.0) {
        assert!(outcome.kills.own > 0, "nothing leaked: {:?}", outcome.kills);
    }
}

#[test]
fn a_class_that_floods_the_others() {
    let flood = stream(
        "interactive",
        "rate = \"600/min\"\nfrom = \"3m\"\nuntil = \"6m\"\nretries = 3\nretry_after = \"2s\"",
        "fixed\", mean = \"5s",
    );
    let slow = r#"
        [stream.quiet]
        pool = "python"
        class = "batch"
        tenants = ["nightly"]
        rate = "30/min"
        until = "10m"
        runs = { law = "fixed", mean = "5s" }
        memory = { law = "fixed", mean = "60MiB" }
    "#;
    for outcome in plays(&[], &format!("{flood}{slow}"), 560.0) {
        let batch = outcome.classes.iter().find(|class| class.class == "batch").unwrap();
        assert_eq!(batch.refused, 0, "{batch:?}");
    }
}

#[test]
fn a_fan_out_of_ten_at_a_time() {
    let fan = stream(
        "interactive",
        "rate = \"4/min\"\nat_once = 10\nuntil = \"10m\"",
        "exponential\", mean = \"4s",
    );
    plays(&[], &fan, 760.0);
}

#[test]
fn repeated_small_fluctuations() {
    let waves = stream(
        "interactive",
        "burst = { every = \"20s\", count = 6 }\nuntil = \"12m\"",
        "fixed\", mean = \"2s",
    );
    plays(&[], &waves, 760.0);
}

/// Callers that do not heed Retry-After, and come back at once: a loop that must not feed itself.
#[test]
fn a_stampede_of_callers_that_retry() {
    let crowd = stream(
        "interactive",
        "burst = { every = \"1h\", count = 600 }\nfrom = \"4m\"\nwait = \"3s\"\nretries = 500\nretry_after = \"500ms\"",
        "fixed\", mean = \"2s",
    );
    for outcome in plays(&[], &crowd, 720.0) {
        assert_eq!(outcome.callers.left_with_nothing, 0, "{:?}", outcome.callers);
    }
}

#[test]
fn heavy_tailed_run_times() {
    let tail = (
        "law = \"exponential\", mean = \"3s\", most = \"20s\"",
        "law = \"pareto\", mean = \"4s\", alpha = 1.3, most = \"5m\"",
    );
    plays(&[tail], "", 1000.0);
}

/// All are young, and all grow at once to what their limit allows.
#[test]
fn instances_that_grow_together() {
    let grow = r#"
        [stream.growing]
        pool = "chromium"
        class = "batch"
        tenants = ["crawler"]
        burst = { every = "4m", count = 6 }
        until = "11m"
        runs = { law = "fixed", mean = "1m" }
        memory = { law = "fixed", mean = "1000MiB" }
        grows_in = "20s"
    "#;
    let small = ("memory = \"16GiB\"", "memory = \"6GiB\"");
    plays(&[small], grow, 900.0);
}

/// Leases that call a provider share its rate, and it throttles all the same for a while: no more of them are started than it
/// takes, nobody else is late for it, and all of it is used again.
#[test]
fn a_provider_with_a_quota() {
    let provider = "[provider.models]\nrate = \"60/min\"\nburst = 5\nmax_waiting = 3\nmax_wait = \"20s\"\n";
    let host = HOST.replace("[pool.chromium]", &format!("{provider}[pool.chromium]\nprovider = \"models\""));
    let agents = r#"
        [stream.agents]
        pool = "chromium"
        class = "batch"
        tenants = ["agents"]
        burst = { every = "2m", count = 3 }
        until = "10m"
        runs = { law = "fixed", mean = "30s" }
        memory = { law = "fixed", mean = "200MiB" }
        calls_every = "800ms"
        wait = "20m"
    "#;
    let throttles = event("throttle", "lasts = \"1m\"");
    for outcome in plays_on(&host, (&[], &format!("{agents}{throttles}")), 1300.0) {
        let calls = &outcome.calls;
        assert!(calls.made > 150 && calls.throttled > 0 && calls.permits_refused > 0, "{calls:?}");
        assert!(calls.made <= 24 * 60 + 5, "beyond its rate: {calls:?}");
        let [batch, interactive] = &outcome.classes[..] else { panic!("{:?}", outcome.classes) };
        assert_eq!((batch.refused, interactive.refused), (0, 0), "{:?}", outcome.refusals);
    }
}

fn event(what: &str, more: &str) -> String {
    format!("[[event]]\nwhat = \"{what}\"\nat = \"5m\"\n{more}\n")
}

fn stream(class: &str, comes: &str, runs: &str) -> String {
    format!(
        "[stream.more]\npool = \"python\"\nclass = \"{class}\"\ntenants = [\"more\"]\n{comes}\n\
         runs = {{ law = \"{runs}\" }}\nmemory = {{ law = \"lognormal\", mean = \"50MiB\", sigma = 0.3 }}\n\
         grows_in = \"2s\"\n"
    )
}
