//! What an operator gets to read, case by case.

mod values;

use proptest::prelude::{ProptestConfig, Strategy, prop, prop_assert, prop_oneof, proptest};

use crate::profile::check::{LARGEST_FILE, check};
use crate::profile::{Mistake, Reported, read};

/// A pool with as little in it as can be; what a case adds begins at line 4.
const BROWSER: &str = "[pool.p]\nkind = \"browser\"\nimage = \"i\"\n";

/// A profile with every key.
pub(in crate::profile) const FULL: &str = r#"
[host]
name = "b07.example"
reserve = { memory = "4GiB", cpu = "1.5", pids = "40%" }
floor = "3%"
disk_floor = "20GiB"
cpu_overcommit = "250%"
max_starts = 4

[class.nightly]
target_wait = "1h"
max_wait = "12h"
max_queued = 100000
refuse_early = true

[pool.chromium]
kind = "browser"
image = "registry.example.net/chromium@sha256:0123"
default_class = "nightly"
command = ["chromium", "--headless=new"]
env = { LANG = "C.UTF-8", _A1 = "" }
memory_max = "2GiB"
memory_expect = "450MiB"
cpus = "0.5"
cpus_expect = "0.25"
pids = 2048
nofile = 4096
shm = "512MiB"
tmpfs = { "/tmp" = "256MiB", "/home/stoker" = "64MiB" }
read_only = false
user = "1000:1000"
network = "bridge"
probe = { port = 9223 }
warm = { min = 2, max = 8, max_age = "30m" }
max_instances = 60
max_instance_hours = { hours = 500, per = "2d" }
start_timeout = "30s"
first_use_timeout = "15s"
idle_timeout = "10m"
max_runtime = "2h 30m"
hold = { timeout = "20m", longest = "45m" }
max_holds = 12
provider = "models"
stop_timeout = "10s"
journal_output = true
on_pressure = "interrupt"
without_telemetry = { use = "cheap" }
class.interactive = { share = "60%", hold_back = 8 }
class.nightly.share = "12.5%"

[provider.models]
rate = "90/min"
burst = 5
max_waiting = 8
max_wait = "1m"

[tenant.alice]
max_leases = 20
max_holds = 4

[tenant."*"]
max_leases = 5

[pool.python]
kind = "sandbox"
image = "stoker/python:latest"
probe = ["python3", "-c", "pass"]

[pool.cheap]
kind = "browser"
image = "stoker/chromium:latest"
without_telemetry = { slots = 3 }
"#;

#[test]
fn a_report_reads_like_a_compilers() {
    let text =
        format!("{BROWSER}\tmemory_max = 512\r\nenv = {{ A = \"ü\", 1B\t= \"\" }}\n[host]\nnam = \"a\"");
    insta::assert_snapshot!(check("host.toml", &text).unwrap_err(), @r#"
    host.toml:4:15: pool.p.memory_max: expected a size with a unit, such as "512MiB" or "2GiB", found the number 512
      4 | 	memory_max = 512
        | 	             ^^^
      hint: write it as text: "512MiB"

    host.toml:5:18: pool.p.env.1B: expected a variable's name of letters, digits and `_`, not beginning with a digit

    host.toml:7:1: host.nam: there is no such key
      7 | nam = "a"
        | ^^^
      hint: did you mean `name`?
    "#);
}

#[test]
fn each_mistake_is_named_at_its_place() {
    const SIZE: &str = "expected a size with a unit, such as \"512MiB\" or \"2GiB\"";
    const TIME: &str = "expected a time with a unit, such as \"30s\", \"5m\" or \"1h 30m\"";
    for (line, place, problem) in SHAPES.iter().chain(RELATIONS) {
        let problem = problem.replace("SIZE", SIZE).replace("TIME", TIME);
        assert_eq!(report(&format!("{BROWSER}{line}")), [format!("{place}: {problem}")], "{line}");
    }
}

type Case = (&'static str, &'static str, &'static str);

/// What is added to a browser pool; place and key; problem and hint.
const SHAPES: &[Case] = &[
    (
        "memory_max = 512",
        "4:14 pool.p.memory_max",
        r#"SIZE, found the number 512 // write it as text: "512MiB""#,
    ),
    (
        "memory_max = 536870912",
        "4:14 pool.p.memory_max",
        r#"SIZE, found the number 536870912 // write it as text: "512MiB""#,
    ),
    (
        r#"memory_max = "512""#,
        "4:14 pool.p.memory_max",
        r#"SIZE, found the text "512" // add the unit: "512MiB""#,
    ),
    (r#"memory_max = "1MiB""#, "4:14 pool.p.memory_max", "expected at least 16MiB, found 1MiB"),
    (r#"memory_max = "99TiB""#, "4:14 pool.p.memory_max", "expected at most 16TiB, found 99TiB"),
    (r#"shm = "0B""#, "4:7 pool.p.shm", "expected at least 4KiB, found 0B"),
    (
        "cpus = 2",
        "4:8 pool.p.cpus",
        r#"expected a number of cores as text, such as "1" or "0.5", found the number 2 // write it as text: "2""#,
    ),
    (
        "cpus = 0.5",
        "4:8 pool.p.cpus",
        r#"expected a number of cores as text, such as "1" or "0.5", found the number 0.5 // write it as text: "0.5""#,
    ),
    (r#"cpus = "0""#, "4:8 pool.p.cpus", "expected at least 0.01, found 0"),
    (
        r#"pids = "100""#,
        "4:8 pool.p.pids",
        r#"expected a whole number, found the text "100" // write it without quotes: 100"#,
    ),
    ("pids = 3", "4:8 pool.p.pids", "expected at least 16, found 3"),
    (
        "pids = 99999999999999999999",
        "4:8 pool.p.pids",
        "expected a whole number, found the number 99999999999999999999",
    ),
    ("pids = 1979-05-27", "4:8 pool.p.pids", "expected a whole number, found a date"),
    ("nofile = -1", "4:10 pool.p.nofile", "expected at least 256, found -1"),
    (r#"read_only = "yes""#, "4:13 pool.p.read_only", r#"expected true or false, found the text "yes""#),
    (
        r#"user = "root""#,
        "4:8 pool.p.user",
        r#"expected a user other than root, found "root" // left out, it is the image's own user"#,
    ),
    (
        r#"user = "root:x""#,
        "4:8 pool.p.user",
        r#"expected a user other than root, found "root:x" // left out, it is the image's own user"#,
    ),
    (
        r#"user = "0:1000""#,
        "4:8 pool.p.user",
        r#"expected a user other than root, found "0:1000" // left out, it is the image's own user"#,
    ),
    (
        r#"user = "00""#,
        "4:8 pool.p.user",
        r#"expected a user other than root, found "00" // left out, it is the image's own user"#,
    ),
    (
        r#"user = "+0""#,
        "4:8 pool.p.user",
        r#"expected a user's name or number, such as "1000" or "1000:1000", found the text "+0""#,
    ),
    (
        r#"network = "brigde""#,
        "4:11 pool.p.network",
        r#"expected "none" or "bridge", found the text "brigde" // did you mean "bridge"?"#,
    ),
    (
        r#"probe = ["true"]"#,
        "4:9 pool.p.probe",
        r#"expected a table, such as { port = 9222 }, because the pool's kind is "browser", found a list"#,
    ),
    ("probe = { port = 0 }", "4:18 pool.p.probe.port", "expected at least 1, found 0"),
    (
        "command = []",
        "4:11 pool.p.command",
        r#"expected a command as a list of texts, such as ["sleep", "infinity"], found an empty list"#,
    ),
    (
        r#"command = ["a", 3]"#,
        "4:17 pool.p.command",
        r#"expected a command as a list of texts, such as ["sleep", "infinity"], found the number 3 in it"#,
    ),
    ("warm = 3", "4:8 pool.p.warm", "expected a table, such as { min = 1, max = 4 }, found the number 3"),
    (
        "idle_timeout = 30",
        "4:16 pool.p.idle_timeout",
        r#"TIME, found the number 30 // write it as text: "30s""#,
    ),
    (r#"start_timeout = "1h""#, "4:17 pool.p.start_timeout", "expected at most 10m, found 1h"),
    (r#"stop_timeout = "0s""#, "4:16 pool.p.stop_timeout", "expected at least 1ms, found 0s"),
    (
        r#"default_class = "bach""#,
        "4:17 pool.p.default_class",
        r#"there is no class "bach" // did you mean "batch"?"#,
    ),
    (
        r#"default_class = "x""#,
        "4:17 pool.p.default_class",
        r#"there is no class "x" // there are "batch", "interactive""#,
    ),
    (r#"memory_mx = "1GiB""#, "4:1 pool.p.memory_mx", "there is no such key // did you mean `memory_max`?"),
    (r#"image = "j""#, "4:1 ", "`image` is written twice in this table // remove one of the two"),
    (
        "pids = browser",
        "4:8 ",
        r#"expected a value, found the bare word `browser` // write it as text: "browser""#,
    ),
    ("pids =", "4:7 ", "expected a value, found none"),
    (
        "[host]\nreserve = \"6%\"",
        "5:11 host.reserve",
        r#"expected a table, such as { memory = "6%", cpu = "1" }, found the text "6%""#,
    ),
    (
        "[host]\nfloor = 6",
        "5:9 host.floor",
        r#"expected a share or a size with a unit, such as "6%" or "4GiB", found the number 6 // write it as text: "6%""#,
    ),
    ("[host]\ncpu_overcommit = \"99%\"", "5:18 host.cpu_overcommit", "expected at least 100%, found 99%"),
    (
        "[host]\nname = \"a b\"",
        "5:8 host.name",
        r#"expected 1 to 63 letters, digits, `-` and `.`, found the text "a b""#,
    ),
    (
        "[host]\nlisten = \"x\"",
        "5:1 host.listen",
        "there is no such key // the keys known here are name, reserve, floor, disk_floor, cpu_overcommit, max_starts",
    ),
    ("[[pool.q]]", "4:1 pool.q", "expected a table, such as [pool.chromium], found a list"),
    (
        "[pool.q]\nkind = \"sandbox\"",
        "4:1 pool.q.image",
        r#"this key is required and missing // add a line such as: image = "stoker/python:latest""#,
    ),
];

/// The same, for rules between values.
const RELATIONS: &[Case] = &[
    (
        "memory_max = \"256MiB\"\nshm = \"200MiB\"",
        "4:14 pool.p.memory_max",
        "expected at least shm 200MiB + tmpfs 64MiB + 16MiB for the process = 280MiB, found 256MiB // raise `memory_max`, or make `shm` or `tmpfs` smaller",
    ),
    (
        r#"shm = "900MiB""#,
        "1:1 pool.p.memory_max",
        "expected at least shm 900MiB + tmpfs 128MiB + 16MiB for the process = 1044MiB, found 1GiB, the default // raise `memory_max`, or make `shm` or `tmpfs` smaller",
    ),
    (
        r#"memory_expect = "2GiB""#,
        "4:17 pool.p.memory_expect",
        "expected at most `memory_max`, which is 1GiB, found 2GiB",
    ),
    ("warm = { min = 3, max = 2 }", "4:25 pool.p.warm.max", "expected at least `min`, which is 3, found 2"),
    (
        "warm = { max = 20 }\nmax_instances = 10",
        "4:16 pool.p.warm.max",
        "expected at most `max_instances`, which is 10, found 20",
    ),
    (
        r#"idle_timeout = "2h""#,
        "4:16 pool.p.idle_timeout",
        "expected at most `max_runtime`, which is 1h, found 2h",
    ),
    (
        "idle_timeout = \"2m\"\nmax_runtime = \"1m\"",
        "4:16 pool.p.idle_timeout",
        "expected at most `max_runtime`, which is 1m, found 2m",
    ),
    (
        "[class.interactive]\ntarget_wait = \"1m\"",
        "5:15 class.interactive.target_wait",
        "expected at most `max_wait`, which is 30s, found 1m",
    ),
];

/// Passwords live in `env`, and a report may end in the journal.
#[test]
fn what_stands_in_env_is_never_shown() {
    for env in [
        "env = { TOKEN = 4711 }",
        "env = { TOKEN = \"4711\", OTHER = 5 }",
        "env = { TOKEN = \"4711\" }, nam = 1",
        "env = \"4711\"",
        "env.TOKEN = 4711",
        "[pool.p.env]\nTOKEN = 4711",
        "[pool.p.env]\nTOKEN = \"4711",
        "[pool.p.\"env\"]\n1 = \"4711\"",
        "[pool]\nb = { kind = \"sandbx\", env = { TOKEN = \"4711\" } }",
        "env = {\n  TOKEN = \"4711\n}",
        "env = {\n  TOKEN = 4711,\n}",
        "env = {\n  TOKEN = x4711,\n}",
        "env = {\n  A = \"}\",\n  TOKEN = \"1\",\n  TOKEN = \"4711\",\n}",
        "env.TOKEN = \"\"\"\n4711\n\"\"\" nam",
        "env = { A = \"\"\"\n4711 \\q\n\"\"\" }",
        "[pool]\nb = {\n  kind = \"sandbx\",\n  env = {\n    TOKEN = 4711,\n  },\n}",
    ] {
        let said = check("host.toml", &format!("{BROWSER}{env}\n")).unwrap_err().to_string();
        assert!(!said.contains("4711"), "{env}\n{said}");
    }
}

#[test]
fn names_and_paths() {
    let tmpfs = "tmpfs = { '/tmp/' = '1MiB', '/' = '1MiB', '/dev/shm' = '1MiB', '/sys/x' = '1MiB', '/../b' = '1MiB' }\n\
                 env = { 1A = '', B-C = '', '' = '', D = 1 }\n[pool.'Big One']\n[class.'-']";
    insta::assert_snapshot!(report(&format!("{BROWSER}{tmpfs}")).join("\n"), @r#"
    4:11 pool.p.tmpfs."/tmp/": expected the full path of a folder below /, such as "/tmp", without `..` and without `/` at its end, found "/tmp/"
    4:29 pool.p.tmpfs."/": expected the full path of a folder below /, such as "/tmp", without `..` and without `/` at its end, found "/"
    4:43 pool.p.tmpfs."/dev/shm": expected a folder that is not the kernel's, found "/dev/shm" // the size of /dev/shm is the key `shm`
    4:64 pool.p.tmpfs."/sys/x": expected a folder that is not the kernel's, found "/sys/x"
    4:83 pool.p.tmpfs."/../b": expected the full path of a folder below /, such as "/tmp", without `..` and without `/` at its end, found "/../b"
    5:9 pool.p.env.1A: expected a variable's name of letters, digits and `_`, not beginning with a digit
    5:18 pool.p.env.B-C: expected a variable's name of letters, digits and `_`, not beginning with a digit
    5:28 pool.p.env."": expected a variable's name of letters, digits and `_`, not beginning with a digit
    5:41 pool.p.env.D: expected a text
    6:1 pool."Big One".image: this key is required and missing // add a line such as: image = "stoker/chromium:latest"
    6:1 pool."Big One".kind: this key is required and missing // add a line such as: kind = "browser"
    6:7 pool."Big One": expected a name of 1 to 32 characters of `a-z 0-9 -`, beginning with a letter, found "Big One"
    7:8 class.-: expected a name of 1 to 32 characters of `a-z 0-9 -`, beginning with a letter, found "-"
    "#);
    let long = "a".repeat(33);
    assert_eq!(report(&format!("[pool.{long}]\nkind = 'sandbox'\nimage = 'i'")).len(), 1);
}

#[test]
fn ten_mistakes_are_ten_lines() {
    let text = "[host]\nreserve = { memory = 6, cpu = 1 }\nfloor = \"99%\"\nmax_starts = \"3\"\n\
                [class.batch]\ntarget_wait = \"2h\"\n\
                [pool.a]\nimage = \"a b\"\nmemory_max = \"200MiB\"\nshm = \"190MiB\"\nimmage = \"\"\n\
                [pool.b]\nkind = \"sandbox\"\nkind = \"browser\"\nimage = \"i\"\nshm = \"200MiB\"\nmemory_max = \"256MiB\"\n\
                [pools]";
    insta::assert_snapshot!(report(text).join("\n"), @r#"
    2:22 host.reserve.memory: expected a share or a size with a unit, such as "6%" or "4GiB", found the number 6 // write it as text: "6%"
    2:31 host.reserve.cpu: expected a number of cores as text, such as "1" or "0.5", found the number 1 // write it as text: "1"
    3:9 host.floor: expected at most 95%, found 99%
    4:14 host.max_starts: expected a whole number, found the text "3" // write it without quotes: 3
    6:15 class.batch.target_wait: expected at most `max_wait`, which is 1h, found 2h
    7:1 pool.a.kind: this key is required and missing // add a line such as: kind = "browser"
    8:9 pool.a.image: expected an image's name without spaces, found the text "a b"
    11:1 pool.a.immage: there is no such key // did you mean `image`?
    14:1 : `kind` is written twice in this table // remove one of the two
    17:14 pool.b.memory_max: expected at least shm 200MiB + tmpfs 64MiB + 16MiB for the process = 280MiB, found 256MiB // raise `memory_max`, or make `shm` or `tmpfs` smaller
    18:2 pools: there is no such key // did you mean `pool`?
    "#);
}

#[test]
fn what_follows_from_a_syntax_error_is_not_reported() {
    // The pool's header is damaged, so that all behind it may be in the wrong place.
    let text = "[pool.a\nkind = \"browser\"\nimage = \"i\"\npids = 1\n[host]\nnmae = \"a\"\nfloor = 5%\n";
    insta::assert_snapshot!(report(text).join("\n"), @r#"
    1:8 : unclosed table, expected `]`
    7:9 : expected a value, found the bare word `5%` // write it as text: "5%"
    "#);
    insta::assert_snapshot!(report(&format!("{BROWSER}pidz = 1\nnofile = many\nx 3\n[pool.b]")).join("\n"), @r#"
    4:1 pool.p.pidz: there is no such key // did you mean `pids`?
    5:10 : expected a value, found the bare word `many` // write it as text: "many"
    6:3 : key with no value, expected `=`
    "#);
}

#[test]
fn a_profile_needs_a_pool_and_not_too_many() {
    for text in ["", "# nothing\n", "[pool]", "[host]"] {
        let expected = "1:1 pool: at least one pool is required // add a table such as: [pool.chromium]";
        assert_eq!(report(text), [expected], "{text:?}");
    }
    let pools =
        |n: usize| (0..n).map(|i| BROWSER.replace("[pool.p]", &format!("[pool.p{i}]"))).collect::<String>();
    let classes = |n: usize| (0..n).map(|i| format!("[class.c{i}]\n")).collect::<String>();
    assert!(report(&(pools(64) + &classes(32))).is_empty());
    insta::assert_snapshot!(report(&(pools(65) + &classes(33))).join("\n"), @r#"
    1:2 pool: expected at most 64 pools, found 65
    196:2 class: expected at most 32 classes, found 33
    "#);
}

#[test]
fn what_is_no_profile_at_all() {
    let large = format!("{BROWSER}#{}", "x".repeat(LARGEST_FILE));
    assert_eq!(report(&large), ["1:1 : a profile has at most 1 MiB, and this file is larger"]);
    let endless = "x = 1\n[a]\n".repeat(50_000);
    assert_eq!(report(&endless).len(), 1000, "a report has an end");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.toml");
    assert!(matches!(read(&path), Err(Reported::Unreadable { .. })));
    for (bytes, expected) in [
        (b"[host]\nname = \"\xff\"\n".to_vec(), "2:9: expected text in UTF-8, found other bytes"),
        (large.into_bytes(), "1:1: a profile has at most 1 MiB"),
        (vec![0xff; LARGEST_FILE + 5], "1:1: a profile has at most 1 MiB"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let told = read(&path).unwrap_err().to_string();
        assert!(told.starts_with(&format!("{}:{expected}", path.display())), "{told}");
    }
}

/// One way to damage a text; the numbers are taken modulo what is there.
#[derive(Debug, Clone)]
enum Damage {
    Cut(usize, usize),
    Insert(usize, String),
    RepeatLine(usize, usize),
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
    #[test]
    fn damage_never_panics_and_stays_within_the_file(damages in prop::collection::vec(damage(), 1..6)) {
        let mut text = FULL.to_owned();
        for damage in damages {
            text = apply(text, damage);
        }
        if let Err(mistakes) = check("host.toml", &text) {
            prop_assert!(!mistakes.as_slice().is_empty());
            let lines: Vec<&str> = text.split('\n').collect();
            for mistake in mistakes.as_slice() {
                let line = lines.get(mistake.line - 1);
                prop_assert!(line.is_some_and(|line| mistake.column <= line.chars().count() + 1), "{mistake}");
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let position = 0..10_000_usize;
    let token = "[\\[\\]{}=\"'.,#\n\t ü0-9a-c]{1,3}|\"\"\"|\\[\\[|\\[pool\\.|\\[host\\]\n|1979-05-27|\\\\u00";
    prop_oneof![
        (position.clone(), 1..40_usize).prop_map(|(at, n)| Damage::Cut(at, n)),
        (position.clone(), token).prop_map(|(at, token)| Damage::Insert(at, token)),
        (position.clone(), position).prop_map(|(from, to)| Damage::RepeatLine(from, to)),
    ]
}

fn apply(text: String, damage: Damage) -> String {
    let chars: Vec<char> = text.chars().collect();
    let split = |at: usize| chars.split_at(at % (chars.len() + 1));
    match damage {
        Damage::Cut(at, n) => {
            let (before, after) = split(at);
            before.iter().chain(after.iter().skip(n)).collect()
        }
        Damage::Insert(at, token) => {
            let (before, after) = split(at);
            before.iter().copied().chain(token.chars()).chain(after.iter().copied()).collect()
        }
        Damage::RepeatLine(from, to) => {
            let mut lines: Vec<&str> = text.split('\n').collect();
            let line = lines[from % lines.len()];
            lines.insert(to % lines.len(), line);
            lines.join("\n")
        }
    }
}

/// One line a mistake: `line:column key: problem`, and after ` // ` the hint.
#[test]
fn ways_without_telemetry_end_at_a_pool_of_the_same_kind() {
    let pool = |name: &str, kind: &str, without: &str| {
        format!("[pool.{name}]\nkind = \"{kind}\"\nimage = \"i\"\nwithout_telemetry = {without}\n")
    };
    let expected = "expected \"stop\", { slots = 20 } or { use = \"POOL\" }, found";
    for (without, problem) in [
        ("\"halt\"", format!("4:21 pool.p.without_telemetry: {expected} the text \"halt\"")),
        ("{}", format!("4:21 pool.p.without_telemetry: {expected} an empty table")),
        ("{ slots = 0 }", "4:31 pool.p.without_telemetry: expected at least 1, found 0".into()),
        (
            "{ slots = 2, use = \"q\" }",
            "4:34 pool.p.without_telemetry: expected one of `slots` and `use`, found both // where an earlier layer says the \
             other one, take it out there"
                .into(),
        ),
        (
            "{ slot = 2 }",
            "4:23 pool.p.without_telemetry: there is no such key, \"slot\" // the keys known here are slots, use".into(),
        ),
        (
            "{ use = \"r\" }",
            "4:21 pool.p.without_telemetry: there is no pool \"r\" // there are \"b\", \"p\", \"q\"".into(),
        ),
        (
            "{ use = \"b\" }",
            "4:21 pool.p.without_telemetry: expected a pool of kind sandbox, as this one, found b, a browser // callers of \
             one kind can do nothing with the other"
                .into(),
        ),
        (
            "{ use = \"p\" }",
            "4:21 pool.p.without_telemetry: expected a way that ends, found the circle p -> p".into(),
        ),
    ] {
        let others = pool("b", "browser", "\"stop\"") + &pool("q", "sandbox", "{ slots = 4 }");
        assert_eq!(report(&(pool("p", "sandbox", without) + &others)), [problem], "{without}");
    }
    let to = |other: &str| format!("{{ use = \"{other}\" }}");
    let of = |name: &str, other: &str| pool(name, "sandbox", &to(other));
    let circle = |at: u32, way: &str| {
        format!(
            "{at}:21 pool.{}.without_telemetry: expected a way that ends, found the circle {way}",
            &way[..1]
        )
    };
    // One that only leads into a circle is not part of it.
    let round = of("p", "q") + &of("q", "r") + &of("r", "q");
    assert_eq!(report(&round), [circle(8, "q -> r -> q"), circle(12, "r -> q -> r")]);
    let way = of("p", "q") + &of("q", "r") + &pool("r", "sandbox", "\"stop\"");
    assert_eq!(report(&way), [] as [String; 0]);
}

fn report(text: &str) -> Vec<String> {
    let Err(mistakes) = check("host.toml", text) else { return Vec::new() };
    let line = |m: &Mistake| {
        let hint = m.hint.as_ref().map(|hint| format!(" // {hint}")).unwrap_or_default();
        format!("{}:{} {}: {}{hint}", m.line, m.column, m.key, m.problem)
    };
    mistakes.as_slice().iter().map(line).collect()
}
