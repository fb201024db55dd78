//! A provider with a rate: permits, waits and throttling, over HTTP and in the tool.

use std::time::Duration;

use serde_json::json;
use stoker::api::client::ClientError;
use stoker::api::wire::{PermitAnswer, PermitBody, ProviderBody, Providers, ThrottledBody};

use crate::host::{Host, SANDBOX};
use crate::level::until;

const PROVIDER: &str = "[provider.models]\nrate = \"10/s\"\nmax_waiting = 1\nmax_wait = \"30s\"\n";

async fn permit(host: &Host, lease: &str, wait: &str) -> Result<PermitAnswer, ClientError> {
    let body = PermitBody { provider: "models".into(), wait: Some(wait.into()) };
    let path = format!("/v1/leases/{lease}/permits");
    host.client.post(&path, &body, Duration::from_secs(40)).await
}

async fn provider(host: &Host) -> ProviderBody {
    host.client.get::<Providers>("/v1/providers").await.unwrap().providers.remove(0)
}

#[tokio::test]
async fn calls_are_let_through_by_the_rate_and_who_waits_is_not_idle() {
    let profile = format!("{PROVIDER}{SANDBOX}provider = \"models\"\nidle_timeout = \"500ms\"\n");
    let Some(host) = Host::with(&profile).await else { return };
    let lease = host.acquire("sandbox").await;
    for _ in 0..3 {
        assert_eq!(permit(&host, &lease.id, "10s").await.unwrap().provider, "models");
    }
    // It wants to hear nothing for a while, and what would come too late is refused at once.
    let throttled = ThrottledBody { retry_after: Some("2s".into()) };
    let path = "/v1/providers/models/throttled";
    let told: ProviderBody = host.client.post(path, &throttled, Duration::ZERO).await.unwrap();
    assert_eq!((told.used_permille, told.throttled, told.given), (500, 1, 3));
    let Err(ClientError::Refused(refused)) = permit(&host, &lease.id, "0s").await else {
        panic!("it is given")
    };
    assert_eq!((refused.status, refused.limit.as_deref()), (429, Some("provider_limit")));
    assert!(refused.retry_after_s.is_some());
    let (waited, waits) = tokio::join!(permit(&host, &lease.id, "20s"), async {
        until("it waits", async || host.lease(&lease.id).await, |it| it.state == "waiting_for_provider")
            .await;
        // As many as may wait: the pool lends nothing.
        let blocked = host.ctl(&["acquire", "sandbox", "--wait", "0s"]).await;
        (blocked, host.ctl(&["providers"]).await, host.raw("GET", "/metrics", "").await.unwrap().body)
    });
    assert!(waited.unwrap().waited_ms >= 500, "longer than it may be idle");
    let (blocked, shown, metrics) = waits;
    assert_eq!(blocked.code, 75, "{}", blocked.stdout);
    assert!(
        blocked.stderr.contains("max_waiting of provider models is reached: 1 of 1"),
        "{}",
        blocked.stderr
    );
    assert!(shown.stdout.contains("models: wants to hear nothing for"), "{}", shown.whole());
    assert!(metrics.contains("stoker_provider_waiting{provider=\"models\"} 1"), "{metrics}");
    assert_eq!(provider(&host).await.waiting, 0);
}

#[tokio::test]
async fn who_hangs_up_leaves_and_names_are_suggested() {
    let profile = format!("{}{SANDBOX}", PROVIDER.replace("10/s", "1/h").replace("30s", "2h"));
    let Some(host) = Host::with(&profile).await else { return };
    let lease = host.acquire("sandbox").await;
    let waiting = tokio::time::timeout(Duration::from_millis(300), permit(&host, &lease.id, "2h"));
    assert!(waiting.await.is_err(), "there is one an hour");
    until("it waits no more", async || host.lease(&lease.id).await, |it| it.state == "executing").await;
    let left = provider(&host).await;
    assert_eq!((left.waiting, left.left), (0, 1));
    let path = format!("/v1/leases/{}/permits", lease.id);
    let unknown = host.raw("POST", &path, &json!({"provider": "modles"}).to_string()).await.unwrap();
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("did you mean `models`?"), "{}", unknown.body);
}
