//! `stokerctl simulate`: the workloads that are shipped run and keep every promise, equal seeds give equal figures, and
//! a workload with a mistake is told as a profile's.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use stoker::profile::{self, HostProfile};
use stoker::sim::workload::Workload;
use stoker::sim::{Game, Outcome, play, plot};

use crate::host::{Said, stokerctl};

/// Each workload that is shipped, the profile that it is for, and how much of it is played here, in minutes.
const SHIPPED: [(&str, &str, u64); 4] = [
    ("bad-day", "dev", 60),
    ("evaluation", "sandbox-64g", 7),
    ("heavy-pages", "browser-64g", 55),
    ("mixed-day", "mixed-256g", 20),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn host(name: &str) -> HostProfile {
    profile::read(&root().join(format!("profiles/{name}.toml"))).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn game(workload: &str, profile: &str, minutes: u64, seed: u64) -> Game {
    let profile = host(profile);
    let text = fs::read_to_string(root().join(format!("workloads/{workload}.toml"))).unwrap();
    let workload = Workload::read(workload, &text, &profile).unwrap_or_else(|wrong| panic!("{wrong}"));
    Game { profile, workload, seed, lasts: Duration::from_secs(minutes * 60), checked: true }
}

fn outcome(game: &Game) -> Outcome {
    play(game).unwrap_or_else(|broken| panic!("{broken}"))
}

#[test]
fn every_workload_that_is_shipped_keeps_the_promises() {
    let mut files: Vec<_> =
        fs::read_dir(root().join("workloads")).unwrap().collect::<Result<_, _>>().unwrap();
    files.sort_by_key(|file| file.path());
    let files: Vec<_> = files.iter().map(|file| file.file_name().into_string().unwrap()).collect();
    assert_eq!(files, SHIPPED.map(|(name, ..)| format!("{name}.toml")), "each is played below");
    for (name, profile, minutes) in SHIPPED {
        let outcome = outcome(&game(name, profile, minutes, 1));
        for class in &outcome.classes {
            let answered = class.granted + class.refused + class.gave_up;
            assert_eq!(class.requests, answered + class.waiting, "{name}: a request is nowhere: {class:?}");
            assert!(class.granted > 0, "{name}: nothing of {} was granted", class.class);
        }
        let missed: Vec<_> = outcome.missed().collect();
        assert!(missed.is_empty(), "{name}: {missed:?}");
    }
}

#[test]
fn a_seed_and_the_files_are_all_one_needs() {
    let runs = [7, 7, 8].map(|seed| {
        let outcome = outcome(&game("bad-day", "dev", 20, seed));
        (serde_json::to_string(&outcome).unwrap(), plot::plots(&outcome.series))
    });
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2], "another seed is another run");
}

/// A host of one pool, with which a workload's mistakes are told.
const HOST: &str = "[pool.python]\nkind = 'sandbox'\nimage = 'i'\nmemory_max = '256MiB'\nmemory_expect = '64MiB'\n\
                    shm = '16MiB'\nwarm = { min = 0, max = 0 }\n";
const RIGHT: &str = r#"lasts = "1m"
[machine]
memory = "8GiB"
cores = "4"
own = "1GiB"
[instance.python]
start = { law = "fixed", mean = "1s" }
stop = "100ms"
idle = "10MiB"
[stream.one]
pool = "python"
rate = "1/s"
runs = { law = "fixed", mean = "1s" }
memory = { law = "fixed", mean = "20MiB" }
"#;

/// What comes of the right workload with something else in it, and more at its end.
fn changed(changes: &[(&str, &str)], more: &str) -> Outcome {
    let change = |text: String, (from, to): &(&str, &str)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let text = changes.iter().fold(format!("{RIGHT}{more}"), change);
    let profile = profile::check("host.toml", HOST).unwrap_or_else(|wrong| panic!("{wrong}"));
    let workload = Workload::read("w.toml", &text, &profile).unwrap_or_else(|wrong| panic!("{wrong}"));
    outcome(&Game { profile, lasts: workload.lasts, workload, seed: 1, checked: true })
}

#[test]
fn what_outgrows_its_limit_is_killed_and_nobody_else() {
    let grows = ("\"20MiB\"", "\"400MiB\"");
    let outcome = changed(
        &[
            grows,
            ("rate = \"1/s\"", "rate = \"1/s\"\ngrows_in = \"4s\""),
            ("runs = { law = \"fixed\", mean = \"1s\"", "runs = { law = \"fixed\", mean = \"9s\""),
        ],
        "",
    );
    assert!(outcome.kills.own > 10, "{:?}", outcome.kills);
    assert_eq!(outcome.ends.get("out_of_memory"), Some(&outcome.kills.own), "{:?}", outcome.ends);
    assert_eq!((outcome.kills.slice, outcome.kills.host, outcome.kills.innocent), (0, 0, 0));
}

#[test]
fn starts_beside_each_other_take_longer() {
    let crowd = ("rate = \"1/s\"", "burst = { every = \"1h\", count = 4 }");
    let longest = |more: &[(&str, &str)]| {
        let outcome = changed(&[&[crowd], more].concat(), "");
        assert_eq!((outcome.classes[0].granted, outcome.classes[0].cold), (4, 4));
        outcome.classes[0].wait_max_ms.unwrap()
    };
    let alone = longest(&[]);
    let crowded = longest(&[("stop = ", "contention = \"100%\"\nstop = ")]);
    assert!(alone >= 1000.0 && crowded >= 1.5 * alone, "{alone} ms without contention, {crowded} ms with it");
}

#[test]
fn callers_give_up_come_back_or_leave_as_their_stream_says() {
    let slow = ("mean = \"1s\" }\nstop", "mean = \"5s\" }\nstop");
    let impatient = changed(&[slow, ("rate = \"1/s\"", "rate = \"1/s\"\ngives_up = \"2s\"")], "");
    let class = &impatient.classes[0];
    assert!(class.gave_up > 10 && class.gave_up == impatient.callers.left_with_nothing, "{class:?}");
    assert!(class.wait_max_ms.is_none_or(|longest| longest <= 2010.0), "{class:?}");

    let drained = "[[event]]\nwhat = \"drain\"\nat = \"5s\"\nlasts = \"50s\"\nwindow = \"1s\"\n";
    let back = ("rate = \"1/s\"", "rate = \"1/s\"\nretries = 2\nretry_after = \"3s\"");
    let outcome = changed(&[back], drained);
    let class = &outcome.classes[0];
    assert_eq!(outcome.refusals.get("host_draining"), Some(&class.refused), "{:?}", outcome.refusals);
    assert!(
        class.retries > outcome.callers.left_with_nothing && outcome.callers.left_with_nothing > 10,
        "{outcome:?}"
    );
}

fn simulate(workload: &str, more: &[&str]) -> (Said, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("host.toml"), HOST).unwrap();
    fs::write(folder.path().join("w.toml"), workload).unwrap();
    let arguments = ["simulate", "host.toml", "--workload", "w.toml"];
    (stokerctl(folder.path(), &[&arguments[..], more].concat()), folder)
}

#[test]
fn the_figures_are_data_and_the_plots_are_files() {
    let (said, folder) = simulate(RIGHT, &["--plots", "plots", "--json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let figures: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(figures["lasted_s"], 60.0);
    assert_eq!(figures["classes"][0]["class"], "interactive");
    for file in ["demand.svg", "queue-age.svg", "memory.svg"] {
        let svg = fs::read_to_string(folder.path().join("plots").join(file)).unwrap();
        assert!(svg.starts_with("<svg ") && svg.contains("time [s]") && !svg.contains("NaN"), "{file}");
    }
    let (said, _folder) = simulate(RIGHT, &["--hours", "0.1", "--seed", "3", "--check"]);
    assert!(said.stdout.starts_with("6m with seed 3\n\nCLASS "), "{}", said.stdout);
}

#[test]
fn a_mistake_is_told_with_its_line_and_what_was_expected() {
    let told = |from: &str, to: &str| {
        assert!(RIGHT.contains(from));
        let (said, _folder) = simulate(&RIGHT.replacen(from, to, 1), &[]);
        assert_eq!(said.code, 78, "{}", said.stderr);
        said.stderr
    };
    insta::assert_snapshot!(told("\"1/s\"", "2"), @r#"
    stokerctl: w.toml:12:8: invalid type: integer `2`, expected so many in a time, such as "2/s", "30/min" or "500/h", and at most a million in a second
      12 | rate = 2
         |        ^
    "#);
    insta::assert_snapshot!(told("rate = \"1/s\"", "rat = \"1/s\""), @r#"
    stokerctl: w.toml:12:1: unknown field `rat`, expected one of `pool`, `class`, `tenants`, `rate`, `burst`, `at_once`, `from`, `until`, `runs`, `memory`, `grows_in`, `leak`, `cpu`, `calls_every`, `wait`, `gives_up`, `retries`, `retry_after`
      12 | rat = "1/s"
         | ^^^
    "#);
    insta::assert_snapshot!(told("pool = \"python\"", "pool = \"pyton\""), @r#"
    stokerctl: w.toml:11:8: stream.one.pool: the host profile has no pool `pyton`; it has python
      11 | pool = "pyton"
         |        ^^^^^^^
    "#);
    insta::assert_snapshot!(told("rate = \"1/s\"\nruns = { law = \"fixed\"", "runs = { law = \"pareto\""), @r#"
    stokerctl: w.toml:10:9: stream.one: expected `rate = "2/s"` or `burst = { every = "10m", count = 20 }`
      10 | [stream.one]
         |         ^^^

    w.toml:12:8: stream.one.runs: a pareto law has an `alpha`, and no other has
      12 | runs = { law = "pareto", mean = "1s" }
         |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(told("[stream.one]", "[[event]]\nwhat = \"crash\"\nat = \"5s\"\nlasts = \"3s\"\n[stream.one]"), @r#"
    stokerctl: w.toml:10:1: event.lasts: a crash has no length: the next daemon begins some seconds later
      10 | [[event]]
         | ^^^^^^^^^
    "#);
    insta::assert_snapshot!(told("[instance.python]", "[instance.chromium]"), @r#"
    stokerctl: w.toml:1:1: instance.python: the profile has this pool, and nothing says how its instances behave
      1 | lasts = "1m"
        | ^

    w.toml:6:11: instance.chromium: the host profile has no pool `chromium`; it has python
      6 | [instance.chromium]
        |           ^^^^^^^^
    "#);
}

/// A burst of sixty on four cores, each start of which takes all of one for a second and disturbs the others.
fn burst_with(max_starts: u32) -> Outcome {
    let host = format!(
        "[host]\nmax_starts = {max_starts}\n{HOST}cpus_expect = '0.05'\nmax_instances = 80\n\
         [class.interactive]\nmax_wait = '10m'\n"
    );
    let change = |text: String, (from, to): (&str, &str)| text.replacen(from, to, 1);
    let text = [
        ("rate = \"1/s\"", "burst = { every = \"2m\", count = 60 }\nwait = \"5m\""),
        ("stop = ", "contention = \"10%\"\nstop = "),
        ("lasts = \"1m\"", "lasts = \"30m\""),
    ]
    .into_iter()
    .fold(RIGHT.to_owned(), change);
    let profile = profile::check("host.toml", &host).unwrap_or_else(|wrong| panic!("{wrong}"));
    let workload = Workload::read("w.toml", &text, &profile).unwrap_or_else(|wrong| panic!("{wrong}"));
    outcome(&Game { profile, lasts: workload.lasts, workload, seed: 1, checked: true })
}

#[test]
fn a_ceiling_that_is_far_too_high_costs_neither_bursts_nor_starts() {
    let [right, high] = [4, 64].map(burst_with);
    let longest = |outcome: &Outcome| outcome.classes[0].wait_max_ms.unwrap();
    assert_eq!((right.classes[0].granted, high.classes[0].granted), (900, 900));
    // 64 at once make 0.55 a second, and a burst takes 100 s.
    let served = format!("{} ms, {} ms", longest(&high), longest(&right));
    assert!(longest(&high) <= 1.2 * longest(&right), "{served}");
    let [right, high] = [right, high].map(|outcome| outcome.instances.start_p95_ms.unwrap());
    assert!(high <= 4000.0, "a start of a second took {high} ms, with few at once {right} ms");
}
