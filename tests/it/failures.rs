//! Instances that die, never come up, or cannot be made: seen, said, and never leaked.

use stoker::api::wire::{AcquireBody, PoolBody};

use crate::host::{BROWSER, Host, SANDBOX};
use crate::level::until;

#[tokio::test]
async fn a_warm_one_that_is_killed_is_replaced() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    host.until_warm("sandbox", 1).await;
    let first = instance_of(&host).await;
    host.engine.kill(&first).await;
    let other =
        until("another is there", async || instance_of(&host).await, |instance| *instance != first).await;
    host.until_warm("sandbox", 1).await;
    let lease = host.acquire("sandbox").await;
    assert_eq!(lease.instance.as_deref(), Some(other.as_str()));
    assert_eq!(host.sh(&lease.id, "true").await.exit_code, Some(0), "it is alive");
}

#[tokio::test]
async fn a_leased_one_that_is_killed_ends_its_lease_with_the_reason() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    let lease = host.acquire("sandbox").await;
    host.engine.kill(lease.instance.as_deref().unwrap()).await;
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("failed", Some("died")));
    assert_eq!(ended.detail.as_deref(), Some("its instance ended (signal 9)"));
    let pool = host.until_warm("sandbox", 1).await;
    assert_eq!((pool.leased, pool.queued), (0, 0), "its slot is free");
    host.until_containers(1).await;
}

#[tokio::test]
async fn a_leased_one_that_ends_by_itself_leaves_its_exit_code() {
    let wait = r#"["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; exit 3"]"#;
    let pool = SANDBOX.replace(r#"["sleep", "2147483647"]"#, wait);
    let Some(host) = Host::with(&pool).await else { return };
    let lease = host.acquire("sandbox").await;
    // The command may be ended together with its container.
    let command = ["touch", "/tmp/go"].map(String::from).to_vec();
    let _ = host.exec(&lease.id, &stoker::api::wire::ExecBody { command, ..Default::default() }).await;
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("failed", Some("died")));
    assert_eq!(ended.detail.as_deref(), Some("its instance ended (exit code 3)"));
}

#[tokio::test]
async fn a_leased_one_that_is_removed_by_somebody_ends_its_lease() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let container = host.engine.container_of(lease.instance.as_deref().unwrap()).await.unwrap();
    host.engine.remove(&container).await;
    assert_eq!(host.until_ended(&lease.id).await.state, "failed");
    host.until_warm("sandbox", 1).await;
}

#[tokio::test]
async fn a_warm_browser_that_hangs_is_replaced() {
    let Some(host) = Host::with(BROWSER).await else { return };
    host.until_warm("browser", 1).await;
    let hung = instance_of(&host).await;
    let container = host.engine.container_of(&hung).await.unwrap();
    host.engine.docker.pause_container(&container).await.unwrap();
    until("the hung one is gone", async || host.engine.container_of(&hung).await, Option::is_none).await;
    host.until_logged("instance is being stopped: it stopped answering", 1).await;
    host.until_warm("browser", 1).await;
}

#[tokio::test]
async fn one_that_never_gets_ready_is_given_up_at_its_deadline_and_tried_ever_later() {
    let pool = format!("{BROWSER}command = [\"mode\", \"never-ready\"]\nstart_timeout = \"500ms\"");
    let Some(host) = Host::with(&pool).await else { return };
    host.until_logged("could not be started", 3).await;
    let up_ms = host.host().await.up_ms;
    assert!(up_ms >= 3 * 500 + 1000 + 2000, "three starts with their waits between in {up_ms}ms");

    let pool = host.until_pool("browser", |pool| pool.blocked_by.is_some()).await;
    let limit = pool.blocked_by.unwrap();
    let why = "not ready within start_timeout, 500ms";
    assert_eq!(limit.limit, "starts_failing");
    assert!(limit.detail.contains(why), "{limit:?}");
    let shown = host.ctl(&["pools"]).await.stdout;
    assert!(shown.contains("! browser: starts nothing: ") && shown.contains(why), "{shown}");
    let body = AcquireBody { pool: "browser".into(), wait: Some("100ms".into()), ..AcquireBody::default() };
    let refusal = host.refused(&body).await;
    assert_eq!((refusal.status, refusal.limit.as_deref()), (504, Some("wait_expired")));
    assert!(refusal.detail.contains(why), "{refusal:?}");
    assert!(host.containers().await.len() <= 1, "those that failed are gone");
    assert_eq!(host.ctl(&["drain", "browser", "--window", "0s", "--wait"]).await.code, 0);
    host.until_containers(0).await;
}

#[tokio::test]
async fn one_that_ends_before_it_is_ready_says_how() {
    let pool = format!("{BROWSER}command = [\"mode\", \"exit\", \"3\"]");
    let Some(host) = Host::with(&pool).await else { return };
    host.until_logged("could not be started", 3).await;
    let up_ms = host.host().await.up_ms;
    assert!(up_ms >= 1000 + 2000, "three starts with their waits between in {up_ms}ms");
    assert_eq!(host.logged("instance could not be started: it ended before it was ready (exit code 3)"), 3);
    let body = AcquireBody { pool: "browser".into(), wait: Some("0s".into()), ..AcquireBody::default() };
    let refusal = host.refused(&body).await;
    assert!(refusal.detail.contains("it ended before it was ready (exit code 3)"), "{refusal:?}");
    host.until_containers(0).await;
}

#[tokio::test]
async fn a_command_that_is_not_in_the_image_is_a_start_that_fails() {
    let pool = SANDBOX.replace(r#"["sleep", "2147483647"]"#, r#"["/no/such/program"]"#);
    let Some(host) = Host::with(&pool).await else { return };
    let failing = |pool: &PoolBody| pool.blocked_by.as_ref().is_some_and(|why| why.limit == "starts_failing");
    let limit = host.until_pool("sandbox", failing).await.blocked_by.unwrap();
    assert!(limit.detail.contains("ended before it was ready (exit code 12"), "{limit:?}");
}

#[tokio::test]
async fn a_missing_image_is_named_and_holds_up_no_other_pool() {
    let broken = BROWSER.replace("stoker/tiny:latest", "stoker/no-such-image:1");
    let Some(host) = Host::with(&format!("{SANDBOX}{broken}")).await else { return };
    let body = AcquireBody { pool: "browser".into(), wait: Some("2s".into()), ..AcquireBody::default() };
    let (refusal, lease) = tokio::join!(host.refused(&body), host.acquire("sandbox"));
    assert_eq!((refusal.status, refusal.limit.as_deref()), (504, Some("wait_expired")));
    let why = "the engine has no image `stoker/no-such-image:1`";
    assert!(refusal.detail.starts_with("waited 2") && refusal.detail.ends_with(why), "{refusal:?}");
    assert_eq!(lease.state, "executing");
    let limit = host.until_pool("browser", |pool| pool.blocked_by.is_some()).await.blocked_by.unwrap();
    assert!(limit.detail.ends_with(why), "{limit:?}");
    assert!(!host.host().await.ready);

    // The first two are ordered together, one for the request and one for the stock. After that, waits of 1, 2,
    // 4 ... seconds lie between the tries, whoever asks meanwhile.
    let (tries, up_ms) = (host.logged("could not be started"), host.host().await.up_ms);
    let most = 1 + (1..).find(|tries| (1 << tries) * 1000 > up_ms + 1000).unwrap();
    assert!(tries <= most, "{tries} tries in {up_ms}ms, at most {most} expected");
}

/// The only instance that has a container.
async fn instance_of(host: &Host) -> String {
    let instance = async || {
        let mut all = host.containers().await;
        all.pop().filter(|_| all.is_empty()).and_then(|one| one.labels?.remove("stoker.instance"))
    };
    until("there is exactly one instance", instance, Option::is_some).await.unwrap()
}

/// What runs in it is killed at its own limit; its first process lives, and so does the lease.
#[tokio::test]
async fn a_process_that_the_kernel_kills_is_told_of_and_the_lease_goes_on() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let killed = host.sh(&lease.id, "tail /dev/zero").await;
    assert_eq!(killed.exit_code, Some(137), "{killed:?}");
    let seen =
        until("it is counted", async || host.lease(&lease.id).await, |lease| lease.oom_kills > 0).await;
    assert_eq!((seen.state.as_str(), seen.oom_kills), ("executing", 1));
    assert_eq!(host.sh(&lease.id, "echo here").await.stdout, "here\n");
    assert_eq!(host.logged("killed 1 process of the instance at its own limit of memory (memory_max)"), 1);
}

#[tokio::test]
async fn a_lease_whose_first_process_the_kernel_kills_says_so() {
    let grow = r#"["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; exec tail /dev/zero"]"#;
    let pool = SANDBOX.replace(r#"["sleep", "2147483647"]"#, grow);
    let Some(host) = Host::with(&pool).await else { return };
    let lease = host.acquire("sandbox").await;
    let command = ["touch", "/tmp/go"].map(String::from).to_vec();
    let _ = host.exec(&lease.id, &stoker::api::wire::ExecBody { command, ..Default::default() }).await;
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("failed", Some("out_of_memory")));
    assert_eq!(
        ended.detail.as_deref(),
        Some("the kernel killed its instance at its own limit of memory (memory_max)")
    );
}
