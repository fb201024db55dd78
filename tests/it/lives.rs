//! The whole life of a lease, as its caller sees it: through the API, the tool, and the bytes of a stream.

use nix::sys::signal::Signal;
use stoker::api::wire::ExecBody;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host::{BROWSER, Host, SANDBOX};
use crate::level::until;

#[tokio::test]
async fn a_sandbox_is_warm_lent_used_and_destroyed() {
    let Some(host) = Host::with(&format!("{SANDBOX}warm = {{ min = 2, max = 2 }}")).await else { return };
    let ready = host.ctl(&["ready", "--wait", "60s"]).await;
    assert_eq!((ready.code, ready.stdout.as_str()), (0, "ready\n"));
    host.until_containers(2).await;

    let lease = host.acquire("sandbox").await;
    assert_eq!(
        (lease.state.as_str(), lease.kind.as_str(), lease.class.as_str()),
        ("executing", "sandbox", "interactive")
    );
    let instance = lease.instance.clone().unwrap();
    let order = ExecBody {
        command: ["sh", "-c", "cat; pwd; echo $GREETING >&2; exit 7"].map(String::from).to_vec(),
        env: [("GREETING".into(), "hello".into())].into(),
        cwd: Some("/www".into()),
        stdin: "typed\n".into(),
        timeout: None,
    };
    let ran = host.exec(&lease.id, &order).await.unwrap();
    assert_eq!(
        (ran.exit_code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(7), "typed\n/www\n", "hello\n")
    );
    assert!(!ran.timed_out && !ran.stdout_truncated && !ran.stderr_truncated);

    let status = host.ctl(&["status", "--json"]).await.json();
    assert_eq!(status["host"]["name"], host.name);
    assert_eq!(status["leases"][0]["id"], lease.id);
    assert_eq!(status["leases"][0]["instance"], instance);
    assert_eq!(status["pools"][0]["leased"], 1);
    assert_eq!(host.ctl(&["show", &lease.id, "--json"]).await.json()["state"], "executing");

    let released = host.release(&lease.id).await;
    assert_eq!((released.state.as_str(), released.reason.as_deref()), ("completed", Some("released")));
    until("the used container is gone", async || host.engine.container_of(&instance).await, Option::is_none)
        .await;
    let pool = host.until_warm("sandbox", 2).await;
    assert_eq!((pool.leased, pool.queued, pool.stuck), (0, 0, 0));
    assert_eq!(host.release(&lease.id).await.state, "completed", "a release can be repeated");
}

#[tokio::test]
async fn the_tool_lends_runs_and_gives_back() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let acquired = host.ctl(&["acquire", "sandbox", "--wait", "30s"]).await;
    assert_eq!(acquired.code, 0, "{acquired:#?}");
    let lease = acquired.stdout.trim().to_owned();
    assert!(lease.starts_with(&format!("{}-", host.name)) && !lease.contains(char::is_whitespace), "{lease}");
    let arguments = [
        "exec",
        &lease,
        "--stdin",
        "-e",
        "A=1",
        "--cwd",
        "/tmp",
        "--",
        "sh",
        "-c",
        "cat; echo $A; pwd; exit 3",
    ];
    let ran = host.start_ctl(&arguments, "typed\n").end().await;
    assert_eq!((ran.code, ran.stdout.as_str()), (3, "typed\n1\n/tmp\n"));
    let renewed = host.ctl(&["renew", &lease, "--by", "30m"]).await;
    assert_eq!(renewed.code, 0, "{renewed:#?}");
    let released = host.ctl(&["release", &lease]).await;
    assert_eq!((released.code, released.stdout), (0, format!("{lease} completed\n")));
}

#[tokio::test]
async fn a_browser_is_reached_through_a_tunnel_and_a_forwarded_port() {
    let Some(host) = Host::with(BROWSER).await else { return };
    host.until_warm("browser", 1).await;
    let lease = host.acquire("browser").await;

    let mut tunnel = host.client.tunnel(&lease.id, 9222).await.unwrap();
    tunnel.write_all(b"GET /json/version HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("Tiny/1.0"), "{answer}");

    let forward = host.start_ctl(&["forward", &lease.id], "");
    let address = until("the tool says where", async || forward.stdout(), |said| said.ends_with('\n')).await;
    let address = address.trim().strip_prefix("http://").unwrap().to_owned();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"GET /json/version HTTP/1.0\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains("Tiny/1.0"), "{answer}");
    }
    host.release(&lease.id).await;
    let ended = forward.end().await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert!(ended.stderr.contains("the lease ended: completed: its caller released it"), "{ended:#?}");
}

#[tokio::test]
async fn the_end_of_a_lease_ends_its_streams() {
    let Some(host) = Host::with(BROWSER).await else { return };
    let lease = host.acquire("browser").await;
    let mut tunnel = host.client.tunnel(&lease.id, 9222).await.unwrap();
    tunnel.write_all(b"GET /json/ver").await.unwrap();
    host.release(&lease.id).await;
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(crate::level::LIMIT, tunnel.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the tunnel outlived its lease");
    let gone = crate::host::problem(host.client.tunnel(&lease.id, 9222).await.map(drop));
    assert_eq!((gone.status, gone.kind.as_str()), (410, "urn:stoker:not_executing"));
}

#[tokio::test]
async fn the_streams_of_an_instance_are_bounded() {
    let Some(host) = Host::with(BROWSER).await else { return };
    let lease = host.acquire("browser").await;
    let other = host.acquire("browser").await;
    let mut open = Vec::new();
    for _ in 0..256 {
        open.push(host.client.tunnel(&lease.id, 9222).await.unwrap());
    }
    let refused = crate::host::problem(host.client.tunnel(&lease.id, 9222).await.map(drop));
    assert_eq!((refused.status, refused.kind.as_str()), (429, "urn:stoker:too_many_streams"));
    drop(host.client.tunnel(&other.id, 9222).await.unwrap());
    open.pop();
    let room = async || host.client.tunnel(&lease.id, 9222).await.is_ok();
    until("one that ends makes room", room, |room| *room).await;
}

#[tokio::test]
async fn forwarding_ends_with_the_keyboards_signal() {
    let Some(host) = Host::with(BROWSER).await else { return };
    let lease = host.acquire("browser").await;
    let forward = host.start_ctl(&["forward", &lease.id], "");
    until("the tool says where", async || forward.stdout(), |said| said.ends_with('\n')).await;
    forward.signal(Signal::SIGINT);
    assert_eq!(forward.end().await.code, 0);
    assert_eq!(host.lease(&lease.id).await.state, "executing", "the lease lives on");
}

#[tokio::test]
async fn a_request_made_again_under_its_name_is_the_same_one() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let acquire = ["acquire", "sandbox", "--task-id", "report-7", "--json"];
    let first = host.ctl(&acquire).await.json();
    assert_eq!((&first["task_id"], &first["attempt"]), (&"report-7".into(), &1.into()));
    let again = host.ctl(&acquire).await.json();
    assert_eq!((&again["id"], &again["state"]), (&first["id"], &"executing".into()));

    let other = host.ctl(&[&acquire[..], &["--max-runtime", "5s"]].concat()).await;
    assert_eq!(other.code, 1, "{other:#?}");
    assert!(other.stderr.contains("task `report-7` was asked for with another"), "{}", other.stderr);
    let wrong = host.ctl(&["acquire", "sandbox", "--task-id", "two words"]).await;
    assert!(wrong.stderr.contains("1 to 128 visible ASCII characters"), "{}", wrong.stderr);

    host.release(first["id"].as_str().unwrap()).await;
    let after = host.ctl(&acquire).await.json();
    assert_eq!((&after["id"], &after["state"]), (&first["id"], &"completed".into()));
}
