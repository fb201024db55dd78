//! The engine goes away and comes back: unknown is not dead, nothing is started meanwhile, and all heals.
//!
//! Each test has an engine of its own to break; containers outlive it (`--live-restore`), as they do where an
//! operator upgrades an engine.

use nix::sys::signal::Signal;
use stoker::api::wire::{AcquireBody, HostBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::engine::Private;
use crate::host::{BROWSER, Host};
use crate::level::until;

#[tokio::test]
async fn an_engine_that_is_stopped_is_unknown_and_nothing_is_declared_dead() {
    let Some(mut private) = Private::start().await else { return };
    let host = Host::on(private.engine().await, &pools()).await;
    host.until_warm("browser", 2).await;
    let lease = host.acquire("browser").await;
    host.until_warm("browser", 2).await;

    private.stop();
    let away = until_reachable(&host, false).await;
    assert!(away.engine.detail.is_some() && !away.ready, "{away:?}");
    let status = host.ctl(&["status"]).await.stdout;
    assert!(status.contains("engine: does not answer: "), "{status}");
    assert_eq!(host.lease(&lease.id).await.state, "executing", "nobody knows that it is dead");
    assert!(reaches(&host, &lease.id).await, "bytes need no engine");

    // What is warm is lent; what would have to be started waits, and says for what.
    let second = host.acquire("browser").await;
    assert!(reaches(&host, &second.id).await);
    let third = host.acquire("browser").await;
    let pool = host.until_pool("browser", |pool| pool.blocked_by.is_some()).await;
    assert_eq!((pool.leased, pool.warm, pool.starting), (3, 0, 0));
    assert_eq!(pool.blocked_by.unwrap().limit, "engine_unreachable");
    let body = AcquireBody { pool: "browser".into(), wait: Some("200ms".into()), ..AcquireBody::default() };
    let refusal = host.refused(&body).await;
    assert_eq!((refusal.status, refusal.limit.as_deref()), (504, Some("wait_expired")));
    assert!(refusal.detail.contains("because the container engine does not answer: "), "{refusal:?}");
    host.release(&third.id).await;

    private.launch();
    until_reachable(&host, true).await;
    host.until_warm("browser", 2).await;
    for lease in [&lease, &second] {
        assert_eq!(host.lease(&lease.id).await.state, "executing", "it lived through it");
        assert!(reaches(&host, &lease.id).await);
        assert_eq!(host.sh(&lease.id, "echo here").await.stdout, "here\n");
        host.release(&lease.id).await;
    }
    host.until_warm("browser", 2).await;
    host.until_containers(2).await;
}

#[tokio::test]
async fn one_that_died_while_the_engine_was_away_is_seen_to_have_died() {
    let Some(mut private) = Private::start().await else { return };
    let host = Host::on(private.engine().await, &pools()).await;
    let lease = host.acquire("browser").await;
    let pid = host.engine.inspect(lease.instance.as_deref().unwrap()).await.state.unwrap().pid.unwrap();
    private.stop();
    until_reachable(&host, false).await;
    // The kernel's word needs no engine; only the exit code does.
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("failed", Some("died")));
    private.launch();
    until_reachable(&host, true).await;
    host.until_warm("browser", 2).await;
    host.until_containers(2).await;
}

#[tokio::test]
async fn an_engine_that_hangs_is_found_out_and_forgiven() {
    let Some(private) = Private::start().await else { return };
    let host = Host::on(private.engine().await, &pools()).await;
    host.until_warm("browser", 2).await;
    let lease = host.acquire("browser").await;
    host.until_warm("browser", 2).await;

    private.signal(Signal::SIGSTOP);
    // The next listing finds it out: it comes within 15 s, and is given 10 s.
    until_reachable(&host, false).await;
    assert_eq!(host.lease(&lease.id).await.state, "executing");
    assert!(reaches(&host, &lease.id).await);
    private.signal(Signal::SIGCONT);
    until_reachable(&host, true).await;
    assert_eq!(host.sh(&lease.id, "echo here").await.stdout, "here\n");
    host.release(&lease.id).await;
    host.until_warm("browser", 2).await;
    host.until_containers(2).await;
}

#[tokio::test]
async fn a_daemon_that_starts_before_its_engine_waits_for_it() {
    let Some(mut private) = Private::start().await else { return };
    let engine = private.engine().await;
    private.stop();
    let host = Host::on(engine, &pools()).await;
    assert!(!host.host().await.engine.reachable);
    let waits = host.start_ctl(&["ready", "--wait", "60s"], "");
    until(
        "the tool says what it waits for",
        async || waits.stderr(),
        |said| said.contains("warming up: the engine does not answer: "),
    )
    .await;
    private.launch();
    assert_eq!(waits.end().await.code, 0);
}

fn pools() -> String {
    format!("{BROWSER}warm = {{ min = 2, max = 2 }}")
}

async fn until_reachable(host: &Host, wanted: bool) -> HostBody {
    let what = if wanted { "the engine answers again" } else { "the engine is found to be away" };
    until(what, async || host.host().await, |host| host.engine.reachable == wanted).await
}

/// Whether the lease's browser answers through a tunnel.
async fn reaches(host: &Host, lease: &str) -> bool {
    let mut tunnel = host.client.tunnel(lease, 9222).await.expect("the tunnel opens");
    tunnel.write_all(b"GET /json/version HTTP/1.0\r\nHost: localhost\r\n\r\n").await.expect("it takes bytes");
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).await.expect("it answers");
    answer.contains("Tiny/1.0")
}
