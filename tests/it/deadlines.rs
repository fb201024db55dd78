//! Every lease ends: what each deadline does, and what keeps it off.

use std::time::Duration;

use stoker::api::wire::{AcquireBody, LeaseBody, RenewBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::host::{Host, SANDBOX, problem};

#[tokio::test]
async fn a_lease_that_nobody_uses_ends() {
    let Some(host) = Host::with(&format!("{SANDBOX}first_use_timeout = \"500ms\"")).await else { return };
    let unused = host.acquire("sandbox").await;
    let used = host.acquire("sandbox").await;
    host.sh(&used.id, "true").await;
    let ended = host.until_ended(&unused.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("expired", Some("first_use_timeout")));
    assert!(ended.running_ms.unwrap() >= 500);
    assert_eq!(host.lease(&used.id).await.state, "executing");
    host.until_pool("sandbox", |pool| pool.leased == 1 && pool.stopping == 0).await;
}

#[tokio::test]
async fn an_idle_lease_ends_and_a_caller_may_ask_for_less_than_the_pool_allows() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let short = Some("700ms".to_owned());
    let body = AcquireBody { pool: "sandbox".into(), idle_timeout: short, ..AcquireBody::default() };
    let lease = host.ask_for(&body).await.unwrap();
    host.sh(&lease.id, "true").await;
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("expired", Some("idle_timeout")));
    let ran = ended.running_ms.unwrap();
    assert!((700..60_000).contains(&ran), "neither too soon nor only at first_use_timeout: {ran}");
}

#[tokio::test]
async fn bytes_through_a_tunnel_keep_a_lease_alive_and_an_open_one_without_bytes_does_not() {
    let echo = r#"["nc", "-ll", "-p", "8000", "-e", "cat"]"#;
    let pool = SANDBOX.replace(r#"["sleep", "2147483647"]"#, echo);
    let Some(host) = Host::with(&format!("{pool}first_use_timeout = \"3s\"\nidle_timeout = \"3s\"")).await
    else {
        return;
    };
    let lease = host.acquire("sandbox").await;
    let mut tunnel = host.client.tunnel(&lease.id, 8000).await.unwrap();
    let mut byte = [0];
    // Twice as long as an idle one has.
    loop {
        tunnel.write_all(b"x").await.unwrap();
        tunnel.read_exact(&mut byte).await.unwrap();
        if host.lease(&lease.id).await.running_ms.unwrap() > 6000 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("expired", Some("idle_timeout")));
    assert_eq!(tunnel.read(&mut byte).await.unwrap_or(0), 0, "its end closes the tunnel");
}

#[tokio::test]
async fn a_command_that_runs_keeps_a_lease_alive() {
    let Some(host) = Host::with(&format!("{SANDBOX}first_use_timeout = \"3s\"\nidle_timeout = \"3s\"")).await
    else {
        return;
    };
    let lease = host.acquire("sandbox").await;
    let ran = host.sh(&lease.id, "sleep 7; echo done").await;
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (Some(0), "done\n"));
    let ended = host.until_ended(&lease.id).await;
    assert_eq!(ended.reason.as_deref(), Some("idle_timeout"));
    assert!(ended.running_ms.unwrap() >= 10_000, "its idle time begins with the command's end");
}

#[tokio::test]
async fn the_longest_run_ends_a_lease_and_a_renewal_moves_it_up_to_the_pools_own() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_runtime = \"1h\"")).await else { return };
    let short = |time: &str| AcquireBody {
        pool: "sandbox".into(),
        max_runtime: Some(time.into()),
        ..AcquireBody::default()
    };
    let renewed = host.ask_for(&short("10s")).await.unwrap();
    let ends_in = host.renew(&renewed.id, "10m").await.unwrap().ends_in_ms.unwrap();
    assert!((500_000..=600_000).contains(&ends_in), "{ends_in}");
    let ends_in = host.renew(&renewed.id, "100h").await.unwrap().ends_in_ms.unwrap();
    assert!((3_500_000..=3_600_000).contains(&ends_in), "{ends_in}");
    let ends_in = host.renew(&renewed.id, "1s").await.unwrap().ends_in_ms.unwrap();
    assert!(ends_in > 3_500_000, "a renewal never shortens: {ends_in}");

    let lease = host.ask_for(&short("1s")).await.unwrap();
    // It is in use all the while.
    let _ = host.exec(&lease.id, &sleep()).await;
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("expired", Some("max_runtime")));
    let gone = problem(host.renew(&lease.id, "10m").await);
    assert_eq!((gone.status, gone.state.as_deref()), (410, Some("expired")));
}

fn sleep() -> stoker::api::wire::ExecBody {
    let command = ["sleep", "60"].map(String::from).to_vec();
    stoker::api::wire::ExecBody { command, ..Default::default() }
}

impl Host {
    async fn renew(&self, id: &str, by: &str) -> Result<LeaseBody, stoker::api::client::ClientError> {
        let path = format!("/v1/leases/{id}/renew");
        self.client.post(&path, &RenewBody { by: by.into() }, Duration::ZERO).await
    }
}
