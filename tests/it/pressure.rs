//! Memory runs short: all containers together meet a limit of the kernel's, and on a host that is short what nobody
//! uses goes, leases stay, and stock comes back.

use std::fs;
use std::path::Path;

use futures_util::future::select_all;
use stoker::api::wire::{AcquireBody, ExecBody, HostBody};

use crate::engine::{Engine, Private, TINY, aloud};
use crate::host::{Host, SANDBOX};
use crate::level::until;

const MIB: u64 = 1 << 20;
/// All containers of the first test.
const CEILING: u64 = 100 * MIB;
/// What an instance costs outside the slice.
const OVERHEAD: u64 = 10 * MIB;

#[tokio::test]
async fn containers_that_take_everything_meet_the_ceiling_of_their_slice() {
    if !Path::new("/sys/fs/cgroup/memory").exists() {
        // With cgroup v2 the slice is systemd's: tests/host has this on a machine of its own.
        return aloud("SKIPPED: this host has no cgroup v1, whose slice is a folder");
    }
    let Some(private) = Private::start_apart("ceiling").await else { return };
    let reserve = memory("MemTotal:") - CEILING - 6 * OVERHEAD;
    let pool = r#"
[pool.sandbox]
kind = "sandbox"
image = "stoker/tiny:latest"
command = ["sleep", "2147483647"]
memory_max = "64MiB"
memory_expect = "4MiB"
cpus = "0.5"
shm = "4MiB"
tmpfs = { "/tmp" = "4MiB" }
nofile = 1024
max_instances = 6
warm = { min = 4, max = 4 }
"#;
    let mut host = Host::silent(private.engine().await, pool);
    let profile = fs::read_to_string(host.profile_path()).unwrap();
    let reserved = profile.replace("memory = \"64MiB\"", &format!("memory = \"{reserve}B\""));
    fs::write(host.profile_path(), reserved).unwrap();
    host.launch_within(private.pid());
    host.until_it_serves().await;
    let stands = |host: &HostBody| host.ceilings.state == "stand";
    let seen = until("the ceilings stand", async || host.host().await, stands).await;
    assert!(seen.ceilings.memory_bytes.unwrap().abs_diff(CEILING) < MIB, "{seen:?}");
    host.until_warm("sandbox", 4).await;

    // Four that take 48 MiB each are within their own limits, and together beyond the slice's.
    let mut leases = Vec::new();
    for _ in 0..4 {
        leases.push(host.acquire("sandbox").await);
    }
    let script = "held=$(head -c 24000000 /dev/zero | tr '\\0' x); more=$held; sleep 1000";
    let greedy = ExecBody {
        command: ["sh", "-c", script].map(String::from).to_vec(),
        timeout: Some("1h".into()),
        ..ExecBody::default()
    };
    let takes = leases.iter().map(|lease| Box::pin(host.exec(&lease.id, &greedy)));
    let (killed, which, others) = select_all(takes).await;
    drop(others);
    let ended = host.lease(&leases[which].id).await;
    let signalled = killed.as_ref().is_ok_and(|answer| answer.exit_code == Some(137));
    assert!(signalled || ended.state == "failed", "{killed:?}, {ended:?}");
    let slice = format!("/proc/{}/root/sys/fs/cgroup/memory/stoker.slice", private.pid());
    let number = |name: &str| -> u64 {
        fs::read_to_string(format!("{slice}/{name}")).unwrap().trim().parse().unwrap()
    };
    assert!(number("memory.failcnt") > 0, "the slice met its ceiling");
    // The kernel lets a few pages through that cannot wait.
    assert!(number("memory.max_usage_in_bytes") < number("memory.limit_in_bytes") + 4 * MIB, "and kept it");

    // The daemon answers, the host is as it was, and what is left goes in good order.
    assert!(host.host().await.engine.reachable);
    for lease in &leases {
        host.release(&lease.id).await;
    }
    host.until_warm("sandbox", 4).await;
}

#[tokio::test]
async fn on_a_host_that_is_short_warm_ones_go_leases_stay_and_stock_returns() {
    let pools = format!("{}warm = {{ min = 2, max = 2 }}\nmax_instances = 4", SANDBOX);
    let Some(engine) = Engine::with(TINY).await else { return };
    let mut host = Host::silent(engine, &pools);
    // Some way below what there is, as others on this machine come and go.
    let floor = memory("MemAvailable:").saturating_sub(3072 * MIB);
    let profile = fs::read_to_string(host.profile_path()).unwrap();
    fs::write(host.profile_path(), profile.replace("floor = \"64MiB\"", &format!("floor = \"{floor}B\"")))
        .unwrap();
    host.launch();
    host.until_it_serves().await;
    host.until_warm("sandbox", 2).await;
    let lease = host.acquire("sandbox").await;
    host.until_warm("sandbox", 2).await;

    let mut hog = Vec::new();
    let take = async || {
        if memory("MemAvailable:") + 128 * MIB > floor {
            hog.push(vec![1u8; 256 << 20]);
        }
        host.host().await
    };
    until("the host is short", take, |host| host.pressure_level != "calm").await;
    host.until_pool("sandbox", |pool| pool.warm + pool.starting == 0).await;
    assert!(host.logged("relief ends one that is ") >= 2, "each is told of");
    assert_eq!(host.lease(&lease.id).await.state, "executing", "a lease stays");
    assert_eq!(host.sh(&lease.id, "echo here").await.stdout, "here\n");
    let refusal = host.refused(&AcquireBody { pool: "sandbox".into(), ..AcquireBody::default() }).await;
    assert_eq!((refusal.status, refusal.limit.as_deref()), (503, Some("under_pressure")), "{refusal:?}");
    assert!(refusal.retry_after_s.is_some() && refusal.need > refusal.have, "{refusal:?}");
    let status = host.ctl(&["status"]).await.stdout;
    assert!(status.contains("pressure: tight for "), "{status}");

    drop(hog);
    host.until_warm("sandbox", 2).await;
    assert_eq!(host.host().await.pressure_level, "calm");
    assert_eq!(host.lease(&lease.id).await.state, "executing");
}

/// A line of `/proc/meminfo`, in bytes.
fn memory(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
