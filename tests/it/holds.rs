//! Leases that wait for a person, from the tool to the container.

use nix::sys::signal::Signal;

use crate::host::{Host, SANDBOX};

#[tokio::test]
async fn a_held_lease_is_not_idle_outlives_the_daemon_and_goes_on() {
    let pool = format!("{SANDBOX}idle_timeout = \"2s\"\nfirst_use_timeout = \"2s\"\nmax_holds = 1\n");
    let Some(mut host) = Host::with(&pool).await else { return };
    let (waits, works) = (host.acquire("sandbox").await, host.acquire("sandbox").await);
    let held = host.ctl(&["hold", &waits.id, "--reason", "log in at the bank", "--for", "10m"]).await;
    assert_eq!(held.code, 0, "{}", held.stderr);
    assert!(held.stdout.contains("waiting_for_approval"), "{}", held.stdout);
    let refused = host.ctl(&["hold", &works.id, "--reason", "me too"]).await;
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    assert!(refused.stderr.contains("max_holds is reached: 1 of 1"), "{}", refused.stderr);

    // The one beside it is idle, and ends.
    let ended = host.until_ended(&works.id).await;
    assert_eq!(ended.reason.as_deref(), Some("first_use_timeout"));
    host.end_daemon(Signal::SIGKILL);
    host.launch();
    host.until_it_serves().await;
    let lease = host.lease(&waits.id).await;
    assert_eq!((lease.state.as_str(), lease.idle_ends_in_ms), ("waiting_for_approval", None));
    let hold = lease.hold.unwrap();
    assert_eq!(hold.reason, "log in at the bank");
    // It neither begins anew nor ends sooner; each of both is cut to whole milliseconds.
    let lasts = hold.since_ms + hold.ends_in_ms;
    assert!(hold.since_ms > 0 && (599_998..=600_000).contains(&lasts), "{hold:?}");
    let pool = host.pool("sandbox").await;
    assert_eq!((pool.holds, pool.max_holds), (1, 1));
    assert!(pool.holds_promised_bytes > 0);

    // Whoever looks at it is who it waits for; then it goes on, and is idle again in the end.
    host.sh(&waits.id, "true").await;
    let on = host.ctl(&["resume", &waits.id]).await;
    assert_eq!(
        (on.code, on.stdout.as_str()),
        (0, format!("{} executing\n", waits.id).as_str()),
        "{}",
        on.stderr
    );
    let ended = host.until_ended(&waits.id).await;
    assert_eq!(ended.reason.as_deref(), Some("idle_timeout"));
}

#[tokio::test]
async fn a_hold_that_nobody_resumes_ends_its_lease() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let nameless = host.ctl(&["hold", &lease.id, "--reason", " "]).await;
    assert_ne!(nameless.code, 0);
    assert!(nameless.stderr.contains("`reason` is a line of 1 to 200 characters"), "{}", nameless.stderr);
    let held = host.ctl(&["hold", &lease.id, "--reason", "log in", "--for", "300ms"]).await;
    assert_eq!(held.code, 0, "{}", held.stderr);
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("expired", Some("hold")));
    assert!(ended.running_ms.unwrap() >= 300);
}
