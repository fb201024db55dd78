//! Emptying a host or a pool in good order, and taking it back.

use std::time::Duration;

use stoker::api::wire::{AcquireBody, LeaseBody};

use crate::host::{BROWSER, Host, SANDBOX};
use crate::level::{LIMIT, until};

#[tokio::test]
async fn a_drain_waits_for_its_window_and_then_interrupts() {
    let Some(host) = Host::with(&format!("{SANDBOX}warm = {{ min = 2, max = 2 }}")).await else { return };
    host.until_warm("sandbox", 2).await;
    let lease = host.acquire("sandbox").await;
    let drain = host.start_ctl(&["drain", "--window", "2s", "--wait"], "");
    let draining = until(
        "the lease hears of it",
        async || host.lease(&lease.id).await,
        |lease| lease.state == "draining" || lease.reason.is_some(),
    )
    .await;
    assert_eq!(draining.state, "draining");
    assert!(draining.ends_in_ms.unwrap() <= 2000, "its end is the drain's: {draining:?}");
    assert_eq!(host.sh(&lease.id, "echo on").await.stdout, "on\n", "it goes on until then");

    let refusal = host.refused(&AcquireBody { pool: "sandbox".into(), ..AcquireBody::default() }).await;
    assert_eq!((refusal.status, refusal.limit.as_deref()), (503, Some("host_draining")));
    assert!(refusal.retry_after_s.is_some());
    let refused = host.ctl(&["acquire", "sandbox"]).await;
    assert_eq!((refused.code, refused.stdout.as_str()), (75, ""));

    let drained = drain.end().await;
    assert_eq!((drained.code, drained.stdout.as_str()), (0, "drained: nothing is left\n"));
    assert!(drained.stderr.contains("draining: 1 leases, interrupted in "), "{drained:#?}");
    let ended = host.lease(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("interrupted", Some("drain")));
    assert!(ended.running_ms.unwrap() >= 2000, "its window was cut short");
    host.until_containers(0).await;
    assert!(host.ctl(&["status"]).await.stdout.contains(" is drained, up "));
    assert!(
        host.refused(&AcquireBody { pool: "sandbox".into(), ..AcquireBody::default() }).await.status == 503
    );

    assert_eq!(host.ctl(&["undrain"]).await.stdout, "takes work again\n");
    assert_eq!(host.acquire("sandbox").await.state, "executing");
}

#[tokio::test]
async fn a_drain_ends_early_when_the_last_lease_is_given_back() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let drain = host.start_ctl(&["drain", "--wait"], "");
    until("it is told how long", async || drain.stderr(), |said| said.contains("interrupted in ")).await;
    host.release(&lease.id).await;
    let drained = drain.end().await;
    assert_eq!((drained.code, drained.stdout.as_str()), (0, "drained: nothing is left\n"));
    assert_eq!(host.lease(&lease.id).await.state, "completed");
}

#[tokio::test]
async fn draining_one_pool_leaves_the_other() {
    let Some(host) = Host::with(&format!("{SANDBOX}{BROWSER}max_instances = 1")).await else { return };
    host.until_warm("sandbox", 1).await;
    let browser = host.acquire("browser").await;
    // Who waits for the pool is sent away with the reason.
    let body = AcquireBody { pool: "browser".into(), ..AcquireBody::default() };
    let client = host.client.clone();
    let waiting = tokio::spawn(async move { client.post::<_, LeaseBody>("/v1/leases", &body, LIMIT).await });
    host.until_pool("browser", |pool| pool.queued == 1).await;
    let drain = host.start_ctl(&["drain", "browser", "--wait"], "");
    let refusal = crate::host::problem(waiting.await.unwrap());
    assert_eq!((refusal.status, refusal.limit.as_deref()), (503, Some("pool_draining")));

    let sandbox = host.acquire("sandbox").await;
    assert_eq!(sandbox.state, "executing");
    host.until_warm("sandbox", 1).await;
    host.release(&browser.id).await;
    assert_eq!(drain.end().await.code, 0);
    assert_eq!(host.lease(&sandbox.id).await.state, "executing");
    assert!(host.host().await.drain.is_none());
    assert_eq!(host.ctl(&["undrain", "browser"]).await.code, 0);
    host.until_warm("browser", 1).await;
}

#[tokio::test]
async fn a_drain_that_is_taken_back_gives_running_leases_their_time_again() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let drain = host.start_ctl(&["drain", "--window", "10s", "--wait"], "");
    until("the drain is on", async || host.host().await.drain, Option::is_some).await;
    let undrained: serde_json::Value =
        host.client.post("/v1/host/undrain", &(), Duration::ZERO).await.unwrap();
    assert!(undrained.get("drain").is_none());
    let ended = drain.end().await;
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.ends_with("the drain was taken back\n"), "{ended:#?}");
    let lease = host.lease(&lease.id).await;
    assert_eq!(lease.state, "executing");
    assert!(lease.ends_in_ms.unwrap() > 60_000);
}
