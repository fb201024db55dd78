//! Commands and containers that do not behave: too long, too much, deaf.

use nix::sys::signal::Signal;
use stoker::api::wire::ExecBody;

use crate::host::{BROWSER, Host, SANDBOX, problem};
use crate::level::until;

#[tokio::test]
async fn a_command_that_overruns_ends_its_lease_and_its_container() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let arguments = ["exec", &lease.id, "--timeout", "1s", "--", "sleep", "60"];
    let ran = host.ctl(&arguments).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (124, ""), "{ran:#?}");
    assert_eq!(ran.stderr, "stokerctl: it ran past 1s; the lease has ended\n");
    let ended = host.lease(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("failed", Some("overran")));
    let instance = lease.instance.unwrap();
    until("its container is gone", async || host.engine.container_of(&instance).await, Option::is_none).await;
    let again = problem(host.exec(&lease.id, &command(&["true"])).await);
    assert_eq!((again.status, again.state.as_deref()), (410, Some("failed")));
    host.until_warm("sandbox", 1).await;
}

#[tokio::test]
async fn a_flood_of_output_is_cut_and_marked() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let flood = "head -c 5000000 /dev/zero | tr '\\0' x; echo little >&2";
    let ran = host.sh(&lease.id, flood).await;
    assert_eq!((ran.exit_code, ran.stdout.len(), ran.stderr.as_str()), (Some(0), 1 << 20, "little\n"));
    assert!(ran.stdout_truncated && !ran.stderr_truncated);
    let ran = host.ctl(&["exec", &lease.id, "--", "sh", "-c", flood]).await;
    assert_eq!((ran.code, ran.stdout.len()), (0, 1 << 20));
    assert_eq!(ran.stderr, "little\nstokerctl: the rest of its standard output was dropped\n");
}

#[tokio::test]
async fn commands_run_side_by_side_up_to_a_bound() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    // Each waits until the file is there, so all of them run at once.
    let order = command(&["sh", "-c", "touch /tmp/$$; until [ -e /tmp/go ]; do sleep 0.05; done"]);
    let running: Vec<_> = (0..8)
        .map(|_| {
            let (client, path, order) =
                (host.client.clone(), format!("/v1/leases/{}/exec", lease.id), order.clone());
            tokio::spawn(async move {
                client.post::<_, stoker::api::wire::ExecAnswer>(&path, &order, crate::level::LIMIT).await
            })
        })
        .collect();
    let container = host.engine.container_of(lease.instance.as_deref().unwrap()).await.unwrap();
    let running_inside = async || host.engine.sh(&container, "ls /tmp").await.lines().count();
    until("eight run", running_inside, |many| *many == 8).await;
    let refused = problem(host.exec(&lease.id, &command(&["true"])).await);
    assert!(refused.detail.contains("8 commands run in instance"), "{refused:?}");
    assert_eq!((refused.status, refused.kind.as_str()), (429, "urn:stoker:too_many_commands"));
    host.engine.sh(&container, "touch /tmp/go").await;
    for ran in running {
        assert_eq!(ran.await.unwrap().unwrap().exit_code, Some(0));
    }
}

#[tokio::test]
async fn a_command_whose_caller_hangs_up_is_ended_and_makes_room() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let container = host.engine.container_of(lease.instance.as_deref().unwrap()).await.unwrap();
    let left = async || host.engine.sh(&container, "ps | grep '[s]leep 4321'; true").await.lines().count();
    for _ in 0..2 {
        let callers: Vec<_> = (0..8)
            .map(|_| host.start_ctl(&["exec", &lease.id, "--timeout", "1h", "--", "sleep", "4321"], ""))
            .collect();
        until("eight run", left, |many| *many == 8).await;
        for caller in callers {
            caller.signal(Signal::SIGINT);
            caller.end().await;
        }
        until("none is left", left, |many| *many == 0).await;
        until(
            "there is room",
            async || host.exec(&lease.id, &command(&["true"])).await,
            |ran| ran.as_ref().is_ok_and(|ran| ran.exit_code == Some(0)),
        )
        .await
        .unwrap();
    }
    assert_eq!(host.lease(&lease.id).await.state, "executing", "the lease lives on");
}

#[tokio::test]
async fn a_time_that_is_none_is_refused_and_costs_nothing() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    for timeout in ["0s", "25h"] {
        let order = ExecBody { timeout: Some(timeout.into()), ..command(&["true"]) };
        let refused = problem(host.exec(&lease.id, &order).await);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.detail.contains("`timeout`"), "{refused:?}");
    }
    assert_eq!(host.sh(&lease.id, "true").await.exit_code, Some(0), "the lease lives on");
}

#[tokio::test]
async fn a_stubborn_one_is_gone_after_its_stop_timeout() {
    let pool = format!("{BROWSER}command = [\"mode\", \"stubborn\"]\nstop_timeout = \"1s\"");
    let Some(host) = Host::with(&pool).await else { return };
    host.until_warm("browser", 1).await;
    let drained = host.ctl(&["drain", "--wait"]).await;
    assert_eq!((drained.code, drained.stdout.as_str()), (0, "drained: nothing is left\n"));
    host.until_containers(0).await;
    assert_eq!(host.logged("would not stop"), 0, "the first try was enough");
}

#[tokio::test]
async fn a_program_that_is_not_there_ends_as_from_a_shell() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let ran = host.exec(&lease.id, &command(&["no-such-program"])).await.unwrap();
    assert!(matches!(ran.exit_code, Some(126 | 127)), "{ran:?}");
    assert!(ran.stdout.is_empty() && ran.stderr.contains("no-such-program"), "{ran:?}");
    let ran =
        host.exec(&lease.id, &ExecBody { cwd: Some("/no/such/folder".into()), ..command(&["true"]) }).await;
    assert_ne!(ran.map(|ran| ran.exit_code).unwrap_or(None), Some(0));
    assert_eq!(host.sh(&lease.id, "true").await.exit_code, Some(0), "the lease lives on");
}

fn command(words: &[&str]) -> ExecBody {
    ExecBody { command: words.iter().copied().map(String::from).collect(), ..ExecBody::default() }
}
