//! What a profile comes to: every key, every default, the shipped profiles.

use crate::profile::check::tests::{BROWSER, FULL};
use crate::profile::{HostProfile, Pool, Probe};
use crate::profile::{check, read};
use crate::quantity::Bytes;

const SANDBOX: &str = "[pool.p]\nkind = \"sandbox\"\nimage = \"i\"\n";

#[test]
fn every_key_of_the_host_arrives() {
    let profile = check("host.toml", FULL).unwrap();
    insta::assert_snapshot!(flat(&profile.host), @r#"
    Host { name: Some("b07.example")
    reserve_memory: Bytes(Bytes(4294967296))
    reserve_cpu: MilliCpu(1500)
    reserve_pids: Permille(400)
    floor: Share(Permille(30))
    disk_floor: Bytes(Bytes(21474836480))
    cpu_overcommit: Permille(2500)
    max_starts: 4 }
    "#);
}

#[test]
fn every_key_of_a_provider_arrives() {
    let profile = check("host.toml", FULL).unwrap();
    insta::assert_snapshot!(flat(&profile.providers), @r#"
    {ProviderName("models"): Provider { rate: Rate { count: 90
    unit: "min"
    seconds: 60 }
    burst: 5
    max_waiting: 8
    max_wait: 60s }}
    "#);
}

#[test]
fn every_other_key_arrives() {
    let profile = check("host.toml", FULL).unwrap();
    insta::assert_snapshot!(flat(&profile.classes["nightly"]), @r#"
    Class { target_wait: 3600s
    drain_target: 60s
    max_wait: 43200s
    max_queued: 100000
    refuse_early: true }
    "#);
}

#[test]
fn every_key_of_a_pool_arrives() {
    let profile = check("host.toml", FULL).unwrap();
    insta::assert_snapshot!(flat(&profile.pools["chromium"]), @r#"
    Pool { kind: Browser
    default_class: ClassName("nightly")
    template: Template { image: "registry.example.net/chromium@sha256:0123"
    command: Some(["chromium"
    "--headless=new"])
    env: {"LANG": "C.UTF-8"
    "_A1": ""}
    memory_max: Bytes(2147483648)
    cpus: MilliCpu(500)
    pids: 2048
    nofile: 4096
    shm: Bytes(536870912)
    tmpfs: {"/home/stoker": Bytes(67108864)
    "/tmp": Bytes(268435456)}
    read_only: false
    user: Some("1000:1000")
    network: Bridge
    probe: DevTools { port: 9223 } }
    memory_expect: Bytes(471859200)
    cpus_expect: MilliCpu(250)
    expect_runtime: 60s
    target_utilization: Permille(700)
    miss_target: Permille(50)
    warm: Warm { min: 2
    max: 8
    max_age: 1800s
    keep: 600s }
    max_instances: 60
    max_instance_hours: Some(InstanceHours { hours: 500
    per: 172800s })
    deadlines: Deadlines { start_timeout: 30s
    first_use_timeout: 15s
    idle_timeout: 600s
    max_runtime: 9000s
    stop_timeout: 10s }
    journal_output: true
    on_pressure: Interrupt
    without_telemetry: Use(PoolName("cheap"))
    classes: {ClassName("batch"): PoolClass { share: None
    hold_back: 0
    guaranteed: 1
    weight: 275 }
    ClassName("interactive"): PoolClass { share: Some(Permille(600))
    hold_back: 8
    guaranteed: 36
    weight: 600 }
    ClassName("nightly"): PoolClass { share: Some(Permille(125))
    hold_back: 0
    guaranteed: 7
    weight: 125 }}
    holds: Holds { timeout: 1200s
    longest: 2700s
    most: 12 }
    provider: Some(ProviderName("models")) }
    "#);
    let limits = ["alice", "bob"].map(|tenant| profile.limits_of(tenant));
    assert_eq!(limits.map(|its| (its.max_leases, its.max_holds)), [(Some(20), Some(4)), (Some(5), None)]);
    assert_eq!(
        profile.pools["python"].template.probe,
        Probe::Command(["python3", "-c", "pass"].map(String::from).into())
    );
}

#[test]
fn defaults_of_a_browser() {
    insta::assert_snapshot!(flat(&pool(BROWSER)), @r#"
    Pool { kind: Browser
    default_class: ClassName("interactive")
    template: Template { image: "i"
    command: None
    env: {}
    memory_max: Bytes(1073741824)
    cpus: MilliCpu(1000)
    pids: 1024
    nofile: 16384
    shm: Bytes(268435456)
    tmpfs: {"/tmp": Bytes(134217728)}
    read_only: true
    user: None
    network: None
    probe: DevTools { port: 9222 } }
    memory_expect: Bytes(1073741824)
    cpus_expect: MilliCpu(1000)
    expect_runtime: 60s
    target_utilization: Permille(700)
    miss_target: Permille(50)
    warm: Warm { min: 1
    max: 1
    max_age: 3600s
    keep: 600s }
    max_instances: 16
    max_instance_hours: None
    deadlines: Deadlines { start_timeout: 60s
    first_use_timeout: 60s
    idle_timeout: 300s
    max_runtime: 3600s
    stop_timeout: 5s }
    journal_output: false
    on_pressure: Keep
    without_telemetry: Stop
    classes: {ClassName("batch"): PoolClass { share: None
    hold_back: 0
    guaranteed: 1
    weight: 500 }
    ClassName("interactive"): PoolClass { share: None
    hold_back: 0
    guaranteed: 1
    weight: 500 }}
    holds: Holds { timeout: 600s
    longest: 3600s
    most: 8 }
    provider: None }
    "#);
}

#[test]
fn defaults_of_a_sandbox() {
    insta::assert_snapshot!(flat(&pool(SANDBOX)), @r#"
    Pool { kind: Sandbox
    default_class: ClassName("interactive")
    template: Template { image: "i"
    command: None
    env: {}
    memory_max: Bytes(536870912)
    cpus: MilliCpu(1000)
    pids: 256
    nofile: 16384
    shm: Bytes(67108864)
    tmpfs: {"/tmp": Bytes(67108864)}
    read_only: true
    user: None
    network: None
    probe: Command(["true"]) }
    memory_expect: Bytes(536870912)
    cpus_expect: MilliCpu(1000)
    expect_runtime: 60s
    target_utilization: Permille(700)
    miss_target: Permille(50)
    warm: Warm { min: 1
    max: 1
    max_age: 3600s
    keep: 600s }
    max_instances: 16
    max_instance_hours: None
    deadlines: Deadlines { start_timeout: 60s
    first_use_timeout: 60s
    idle_timeout: 300s
    max_runtime: 3600s
    stop_timeout: 5s }
    journal_output: false
    on_pressure: Keep
    without_telemetry: Stop
    classes: {ClassName("batch"): PoolClass { share: None
    hold_back: 0
    guaranteed: 1
    weight: 500 }
    ClassName("interactive"): PoolClass { share: None
    hold_back: 0
    guaranteed: 1
    weight: 500 }}
    holds: Holds { timeout: 600s
    longest: 3600s
    most: 8 }
    provider: None }
    "#);
}

#[test]
fn a_host_that_says_nothing() {
    let profile = check("host.toml", SANDBOX).unwrap();
    insta::assert_snapshot!(flat(&(profile.host, profile.classes)), @r#"
    (Host { name: None
    reserve_memory: Share(Permille(100))
    reserve_cpu: MilliCpu(500)
    reserve_pids: Permille(250)
    floor: Share(Permille(50))
    disk_floor: Share(Permille(50))
    cpu_overcommit: Permille(2000)
    max_starts: 3 }
    {ClassName("batch"): Class { target_wait: 300s
    drain_target: 300s
    max_wait: 3600s
    max_queued: 5000
    refuse_early: false }
    ClassName("interactive"): Class { target_wait: 1s
    drain_target: 60s
    max_wait: 30s
    max_queued: 200
    refuse_early: false }})
    "#);
}

#[test]
fn defaults_give_way_to_what_is_written() {
    let small = pool(&format!("{BROWSER}memory_max = '64MiB'")).template;
    assert_eq!((small.shm, small.tmpfs["/tmp"]), (Bytes::mib(16), Bytes::mib(16)), "a quarter each");
    let cold = pool(&format!("{BROWSER}warm = {{ max = 0 }}")).warm;
    assert_eq!((cold.min, cold.max), (0, 0));
    let many = pool(&format!("{BROWSER}warm = {{ min = 20 }}"));
    assert_eq!((many.warm.max, many.max_instances), (20, 20));
    let brief = pool(&format!("{BROWSER}max_runtime = '1m'")).deadlines;
    assert_eq!(brief.idle_timeout, brief.max_runtime);
    let hasty = check("host.toml", &format!("{BROWSER}[class.batch]\nmax_wait = '1m'")).unwrap();
    assert_eq!(hasty.classes["batch"].target_wait, hasty.classes["batch"].max_wait);
}

#[test]
fn the_shipped_profiles_load() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    names.sort();
    let pools =
        |profile: HostProfile| profile.pools.keys().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let told = names.iter().map(|path| match read(path) {
        Ok(profile) => format!("{}: {}", path.file_name().unwrap().display(), pools(profile)),
        Err(error) => panic!("{error}"),
    });
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r#"
    browser-64g.toml: chromium
    dev.toml: chromium python
    mixed-256g.toml: chromium python
    sandbox-64g.toml: python
    "#);
}

fn pool(text: &str) -> Pool {
    check("host.toml", text).unwrap().pools["p"].clone()
}

/// Each field on a line of its own, each quantity on one line.
fn flat(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").replace(", ", "\n")
}
