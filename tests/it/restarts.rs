//! Daemons that end, and that there is only one; what the next one finds is in `recovery`.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use nix::sys::signal::Signal;
use stoker::api::client::ClientError;
use stoker::api::wire::HostBody;

use crate::engine::{Engine, TINY};
use crate::host::{Host, SANDBOX};
use crate::level::until;

#[tokio::test]
async fn after_sigterm_the_next_daemon_takes_over_what_runs() {
    check_restart(Signal::SIGTERM).await;
}

#[tokio::test]
async fn after_sigkill_the_next_daemon_takes_over_what_runs() {
    check_restart(Signal::SIGKILL).await;
}

async fn check_restart(signal: Signal) {
    let Some(mut host) = Host::with(&format!("{SANDBOX}warm = {{ min = 2, max = 2 }}")).await else { return };
    let other = Host::on(host.engine.clone(), SANDBOX).await;
    host.until_warm("sandbox", 2).await;
    other.until_warm("sandbox", 1).await;
    let lease = host.acquire("sandbox").await;
    host.until_warm("sandbox", 2).await;
    let (before, others) = (running(&host).await, running(&other).await);
    assert_eq!((before.len(), others.len()), (3, 1));

    let status = host.end_daemon(signal);
    assert_eq!(status.success(), signal == Signal::SIGTERM, "{status}");
    assert_eq!(host.client.socket().exists(), signal == Signal::SIGKILL, "who can tidies its socket away");
    assert_eq!(running(&host).await, before, "it ended nothing");

    host.launch();
    host.until_it_serves().await;
    assert_eq!(host.sh(&lease.id, "echo on").await.stdout, "on\n", "at once, and as if nothing had been");
    host.until_warm("sandbox", 2).await;
    assert_eq!(running(&host).await, before, "the same containers: none was removed and none was made");
    assert_eq!(running(&other).await, others, "another host's containers are not ours to touch");
    assert_eq!(host.lease(&lease.id).await.instance, lease.instance);
    assert_eq!(host.release(&lease.id).await.state, "completed");
    host.until_containers(2).await;
    assert_eq!(host.acquire("sandbox").await.state, "executing");
}

#[tokio::test]
async fn a_second_daemon_on_the_same_socket_steps_back() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    // Another host by name, so that only the socket is in its way.
    let other = Host::silent(host.engine.clone(), SANDBOX);
    let second = other.stokerd(host.client.socket()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(69), "{said}");
    assert!(
        said.contains(&format!("another stokerd answers at `{}`", host.client.socket().display())),
        "{said}"
    );
    assert_eq!(host.acquire("sandbox").await.state, "executing", "the first one goes on");
}

#[tokio::test]
async fn a_second_daemon_of_the_same_host_steps_back() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let elsewhere = host.folder().join("elsewhere");
    let second = host.stokerd(&elsewhere).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(69), "{said}");
    assert!(
        said.contains(&format!(
            "another stokerd, or `stokerctl reap`, works in `{}`",
            host.state().display()
        )),
        "{said}"
    );
    assert!(!elsewhere.exists());
    assert_eq!(host.acquire("sandbox").await.state, "executing", "the first one goes on");
}

#[tokio::test]
async fn a_socket_that_was_left_behind_is_replaced_and_is_for_its_user_and_group_alone() {
    use std::os::unix::fs::PermissionsExt;
    let Some(engine) = Engine::with(TINY).await else { return };
    let mut host = Host::silent(engine, SANDBOX);
    drop(UnixListener::bind(host.client.socket()).unwrap());
    host.launch();
    host.until_it_serves().await;
    let mode = host.client.socket().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[tokio::test]
async fn callers_that_wait_hear_of_the_daemons_end() {
    let Some(mut host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    host.acquire("sandbox").await;
    let waiting = host.start_ctl(&["acquire", "sandbox"], "");
    host.until_pool("sandbox", |pool| pool.queued == 1).await;
    host.end_daemon(Signal::SIGTERM);
    let said = waiting.end().await;
    assert_ne!(said.code, 0, "{said:#?}");
    assert!(said.stdout.is_empty() && said.stderr.starts_with("stokerctl: "), "{said:#?}");
    let error = host.client.get::<HostBody>("/v1/host").await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    let away = host.ctl(&["status"]).await;
    assert_eq!(away.code, 69);
    assert!(away.stderr.contains("hint: is stokerd running?"), "{away:#?}");
}

/// Ids of this host's containers that run.
async fn running(host: &Host) -> BTreeSet<String> {
    let all = until(
        "all containers run",
        async || host.containers().await,
        |all| all.iter().all(|one| one.state == Some(bollard::models::ContainerSummaryStateEnum::RUNNING)),
    );
    all.await.into_iter().filter_map(|one| one.id).collect()
}
