//! Who is lent what when more ask than there is: places in the queue, refusals, races, callers that leave.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use stoker::api::wire::{AcquireBody, LeaseBody};

use crate::host::{Host, SANDBOX, problem};
use crate::level::{LIMIT, until};

#[tokio::test]
async fn slots_and_queue_are_filled_to_the_last_place_and_the_next_is_told_when_to_come_back() {
    let class = "[class.interactive]\nmax_queued = 3";
    for warm in [0, 2] {
        let warmth = format!("max_instances = 2\nwarm = {{ min = {warm}, max = {warm} }}");
        let Some(host) = Host::with(&format!("{SANDBOX}{warmth}\n{class}")).await else { return };
        // Before the engine answers and the host was measured nothing can be started, and there is no slot.
        let first = host.acquire("sandbox").await;
        host.release(&first.id).await;
        host.until_pool("sandbox", |pool| pool.warm == warm && pool.starting + pool.stopping == 0).await;
        exactly_two_and_three_are_taken(&host).await;
    }
}

async fn exactly_two_and_three_are_taken(host: &Host) {
    let body = r#"{"pool": "sandbox", "async": true}"#;
    let answers = join_all((0..8).map(|_| host.raw("POST", "/v1/leases", body))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let with = |status: &[u16]| answers.iter().filter(|a| status.contains(&a.status.as_u16())).count();
    assert_eq!((with(&[201, 202]), with(&[429])), (5, 3), "two slots and three places: {answers:#?}");
    host.until_pool("sandbox", |pool| pool.leased == 2 && pool.queued == 3).await;

    let refused = host.raw("POST", "/v1/leases", body).await.unwrap();
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=75).contains(&seconds), "{seconds}");
    let refused = refused.problem();
    assert_eq!(
        (refused.kind.as_str(), refused.limit.as_deref()),
        ("urn:stoker:queue_full", Some("queue_full"))
    );
    assert_eq!((refused.need, refused.have, refused.unit.as_deref()), (Some(4), Some(3), Some("requests")));
    assert_eq!((refused.pool.as_deref(), refused.class.as_deref()), (Some("sandbox"), Some("interactive")));
    assert_eq!(refused.detail, "max_queued is reached: 3 of 3 wait");

    let other = AcquireBody { class: Some("batch".into()), ..queued() };
    assert_eq!(host.ask_for(&other).await.unwrap().place, Some(4), "each class has its own bound");
    assert_eq!(host.pool("sandbox").await.leased, 2);
}

#[tokio::test]
async fn a_hundred_callers_race_for_four() {
    let pools = format!("{SANDBOX}max_instances = 4\nwarm = {{ min = 4, max = 4 }}");
    let Some(host) = Host::with(&pools).await else { return };
    host.until_warm("sandbox", 4).await;
    let body = AcquireBody { pool: "sandbox".into(), wait: Some("0s".into()), ..AcquireBody::default() };
    let answers = join_all((0..100).map(|_| host.ask_for(&body))).await;
    let (granted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let granted: Vec<LeaseBody> = granted.into_iter().map(Result::unwrap).collect();
    assert_eq!(granted.len(), 4);
    let instances: BTreeSet<_> = granted.iter().map(|lease| lease.instance.clone().unwrap()).collect();
    let containers = join_all(instances.iter().map(|instance| host.engine.container_of(instance))).await;
    let containers: BTreeSet<_> = containers.into_iter().map(Option::unwrap).collect();
    assert_eq!((instances.len(), containers.len()), (4, 4), "nobody shares one");
    for refusal in refused.into_iter().map(problem) {
        assert_eq!((refusal.status, refusal.limit.as_deref()), (504, Some("wait_expired")), "{refusal:?}");
        assert!(refusal.detail.starts_with("waited 0s"), "{refusal:?}");
        assert!(refusal.retry_after_s.is_some());
    }
    let hostnames = join_all(granted.iter().map(|lease| host.sh(&lease.id, "hostname"))).await;
    for (lease, said) in granted.iter().zip(hostnames) {
        assert_eq!(said.stdout.trim(), lease.instance.as_deref().unwrap(), "each reaches its own");
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_the_queue_and_the_next_is_served() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    let first = host.acquire("sandbox").await;
    let wait = |client: stoker::api::client::Client| {
        let body = AcquireBody { pool: "sandbox".into(), ..AcquireBody::default() };
        tokio::spawn(async move { client.post::<_, LeaseBody>("/v1/leases", &body, LIMIT).await })
    };
    let leaves = wait(host.client.clone());
    host.until_pool("sandbox", |pool| pool.queued == 1).await;
    let stays = wait(host.client.clone());
    host.until_pool("sandbox", |pool| pool.queued == 2).await;

    leaves.abort();
    host.until_pool("sandbox", |pool| pool.queued == 1).await;
    let gone = host.leases().await.into_iter().find(|lease| lease.reason.as_deref() == Some("caller_gone"));
    let gone = gone.expect("the lease of the caller that left says so");
    assert_eq!((gone.state.as_str(), gone.running_ms), ("cancelled", None));
    host.release(&first.id).await;
    let served = stays.await.unwrap().unwrap();
    assert_eq!(served.state, "executing");
}

#[tokio::test]
async fn a_grant_that_reaches_nobody_is_taken_back() {
    // What was sent and not read is taken back at its first-use deadline; what was not sent, at once.
    let pools = format!("{SANDBOX}max_instances = 2\nfirst_use_timeout = \"1s\"");
    let Some(host) = Host::with(&pools).await else { return };
    host.until_warm("sandbox", 1).await;
    // Callers that ask and leave at once, at every moment of the answer's way.
    for patience in 0..20 {
        let body = AcquireBody { pool: "sandbox".into(), ..AcquireBody::default() };
        let asked = host.client.post::<_, LeaseBody>("/v1/leases", &body, LIMIT);
        if let Ok(Ok(lease)) = tokio::time::timeout(Duration::from_micros(patience * 100), asked).await {
            host.release(&lease.id).await;
        }
    }
    let held = async || {
        let held = host.leases().await.into_iter().filter(|lease| lease.reason.is_none());
        held.collect::<Vec<_>>()
    };
    until("no lease is held by nobody", held, Vec::is_empty).await;
    host.until_pool("sandbox", |pool| pool.leased + pool.stopping == 0 && pool.warm >= 1).await;
}

#[tokio::test]
async fn an_asynchronous_request_is_watched_and_cancelled() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    let first = host.acquire("sandbox").await;
    let answer = host.raw("POST", "/v1/leases", r#"{"pool": "sandbox", "async": true}"#).await.unwrap();
    assert_eq!(answer.status, 202);
    let waiting: LeaseBody = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer.header("location"), format!("/v1/leases/{}", waiting.id));
    assert_eq!((waiting.state.as_str(), waiting.place), ("queued", Some(1)));
    assert_eq!(waiting.blocked_by.as_ref().map(|limit| limit.limit.as_str()), Some("max_instances"));

    let second = host.ask_for(&queued()).await.unwrap();
    assert_eq!(second.place, Some(2));
    let cancelled = host.ctl(&["cancel", &second.id]).await;
    assert_eq!((cancelled.code, cancelled.stdout), (0, format!("{} cancelled\n", second.id)));
    let cancelled = host.lease(&second.id).await;
    assert_eq!((cancelled.state.as_str(), cancelled.reason.as_deref()), ("cancelled", Some("by_caller")));
    assert_eq!(host.pool("sandbox").await.queued, 1);

    let path = format!("{}?wait_for=executing&wait=60s", answer.header("location"));
    let watched = host.client.watch::<LeaseBody>(&path, LIMIT);
    let (_, watched) = tokio::join!(host.release(&first.id), watched);
    let watched = watched.unwrap();
    assert_eq!(watched.state, "executing");
    let cancelled = host.ctl(&["cancel", &watched.id]).await;
    assert_eq!(cancelled.code, 0, "an executing one can be taken back, too");
    assert_eq!(host.lease(&watched.id).await.state, "cancelled");
}

#[tokio::test]
async fn a_wait_that_ends_is_refused_with_what_kept_it() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    let first = host.acquire("sandbox").await;
    let body = AcquireBody { pool: "sandbox".into(), wait: Some("300ms".into()), ..AcquireBody::default() };
    let refusal = host.refused(&body).await;
    assert_eq!((refusal.status, refusal.limit.as_deref()), (504, Some("wait_expired")));
    assert!(
        refusal.detail.ends_with("because max_instances is reached: 1 of 1, those being stopped included"),
        "{refusal:?}"
    );
    assert_eq!(host.lease(refusal.lease.as_deref().unwrap()).await.state, "refused");
    assert_eq!(host.lease(&first.id).await.state, "executing");
}

fn queued() -> AcquireBody {
    AcquireBody { pool: "sandbox".into(), asynchronous: true, ..AcquireBody::default() }
}
