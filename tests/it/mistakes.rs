//! Requests that are not as they must be: each is answered with a problem that says what to do instead.

use stoker::api::problem::Problem;

use crate::host::{BROWSER, Host, SANDBOX, problem};

#[tokio::test]
async fn every_mistake_is_named() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await.id;
    let ended = host.acquire("sandbox").await.id;
    host.release(&ended).await;
    let at = |verb: &str| format!("/v1/leases/{lease}/{verb}");
    let (get, post) = ("GET", "POST");
    for (method, path, body, status, expected) in [
        (post, "/v1/leases", r#"{"pol": "sandbox"}"#, 400, "did you mean `pool`?"),
        (post, "/v1/leases", r#"{"pool": "sandbox", "wiat": "1s"}"#, 400, "did you mean `wait`?"),
        (post, "/v1/leases", r#"{"pool": "sandbox", "wait": "soon"}"#, 400, "`wait`: "),
        (post, "/v1/leases", r#"{"pool": "sandbox", "wait": "-1s"}"#, 400, "`wait`: "),
        (post, "/v1/leases", r#"{"pool": "sandbox", "wait": 3}"#, 400, "invalid type: integer"),
        (post, "/v1/leases", r#"{"pool": "sandbox", "max_runtime": "1 fortnight"}"#, 400, "`max_runtime`: "),
        (post, "/v1/leases", "{", 400, "EOF while parsing"),
        (post, "/v1/leases", "pool=sandbox", 400, "expected"),
        (post, "/v1/leases", "", 400, "missing field `pool`"),
        (post, "/v1/leases", r#"{"pool": "sandbx"}"#, 404, "did you mean `sandbox`?"),
        (
            post,
            "/v1/leases",
            r#"{"pool": "sandbox", "class": "interaktive"}"#,
            400,
            "did you mean `interactive`?",
        ),
        (post, "/v1/leases", r#"{"pool": "sandbox", "class": "xyz"}"#, 400, "known: batch, interactive"),
        (get, "/v1/leases/no-such", "", 404, "there is no lease `no-such`"),
        (post, "/v1/leases/no-such/release", "", 404, "there is no lease `no-such`"),
        (post, "/v1/leases/no-such/exec", r#"{"command": ["true"]}"#, 404, "there is no lease `no-such`"),
        (get, "/v1/pools/sandbx", "", 404, "did you mean `sandbox`?"),
        (post, "/v1/pools/sandbx/drain", "", 404, "did you mean `sandbox`?"),
        (post, "/v1/host/drain", r#"{"windw": "1h"}"#, 400, "did you mean `window`?"),
        (post, &at("exec"), "", 400, "missing field `command`"),
        (post, &at("exec"), r#"{"command": []}"#, 400, "`command` is a list that begins with a program"),
        (post, &at("exec"), r#"{"command": ["true"], "timeout": "x"}"#, 400, "`timeout`: "),
        (post, &at("renew"), "", 400, "missing field `by`"),
        (post, &at("renew"), r#"{"by": "never"}"#, 400, "`by`: "),
        (
            get,
            &format!("/v1/leases/{lease}?wait_for=dinner"),
            "",
            400,
            "`executing` or `ended`, not `dinner`",
        ),
        (get, &format!("/v1/leases/{lease}?wait=3s"), "", 400, "`wait` goes with `wait_for`"),
        (get, &format!("/v1/leases/{lease}?wait_fro=ended"), "", 400, "wait_fro"),
        (post, &format!("/v1/leases/{ended}/exec"), r#"{"command": ["true"]}"#, 410, "it is completed: "),
        (get, &at("tunnel/9222"), "", 426, "a tunnel is an upgrade"),
        (get, &at("tunnel/high"), "", 400, ""),
        (get, &at("tunnel/0"), "", 426, ""),
        (get, "/v1/lease", "", 404, "there is nothing at `/v1/lease`"),
        (get, "/", "", 404, "the paths begin with /v1"),
        ("DELETE", "/v1/leases", "", 405, "`/v1/leases` does not answer DELETE"),
        (get, "/v1/host/drain", "", 405, "`/v1/host/drain` does not answer GET"),
        ("PUT", "/livez", "", 405, "does not answer PUT"),
    ] {
        let answer = host.raw(method, path, body).await.unwrap();
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:#?}");
        let Problem { title, detail, hint, .. } = answer.problem();
        let said = format!("{title}; {detail}; {}", hint.unwrap_or_default());
        assert!(said.contains(expected), "{method} {path} {body}: `{expected}` is not in `{said}`");
    }
    assert_eq!(host.lease(&lease).await.state, "executing", "none of it did anything");
    assert!(host.host().await.drain.is_none());
}

#[tokio::test]
async fn a_body_beyond_all_reason_is_a_problem_too() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let body = format!(r#"{{"pool": "{}"}}"#, "x".repeat(5 << 20));
    let refusal = host.raw("POST", "/v1/leases", &body).await.unwrap();
    assert_eq!(refusal.status, 413);
    assert!(refusal.problem().detail.contains("4 MiB"), "{refusal:?}");
    let lease = host.acquire("sandbox").await.id;
    let stdin = "x".repeat(3 << 20);
    let read = host.start_ctl(&["exec", &lease, "-i", "--", "wc", "-c"], &stdin).end().await;
    assert_eq!((read.code, read.stdout), (0, format!("{}\n", 3 << 20)));
    let read = host.start_ctl(&["exec", &lease, "-i", "--", "wc", "-c"], &format!("{stdin}x")).end().await;
    assert_eq!(read.stderr, "stokerctl: standard input is larger than 3 MiB\n");
}

#[tokio::test]
async fn what_has_no_instance_yet_cannot_be_used() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    host.acquire("sandbox").await;
    let queued = host.raw("POST", "/v1/leases", r#"{"pool": "sandbox", "async": true}"#).await.unwrap();
    let id = queued.json()["id"].as_str().unwrap().to_owned();
    for refusal in [
        problem(host.exec(&id, &exec("true")).await.map(drop)),
        problem(host.client.tunnel(&id, 9222).await.map(drop)),
    ] {
        assert_eq!((refusal.status, refusal.state.as_deref()), (409, Some("queued")));
        assert_eq!(
            (refusal.lease.as_deref(), refusal.kind.as_str()),
            (Some(id.as_str()), "urn:stoker:not_executing")
        );
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_the_instances_fault() {
    let Some(host) = Host::with(BROWSER).await else { return };
    let lease = host.acquire("browser").await.id;
    for port in [1, 8080] {
        let refusal = problem(host.client.tunnel(&lease, port).await.map(drop));
        assert_eq!((refusal.status, refusal.kind.as_str()), (502, "urn:stoker:instance_unreachable"));
        assert!(refusal.detail.contains(&format!("port {port}")), "{refusal:?}");
        assert_eq!(refusal.lease.as_deref(), Some(lease.as_str()));
    }
    let forward = host.ctl(&["forward", &lease, "8080"]).await;
    assert_eq!((forward.code, forward.stdout.as_str()), (1, ""), "{forward:#?}");
    let elsewhere = host.ctl(&["forward", &lease, "--listen", "0.0.0.0:0"]).await;
    assert_eq!(elsewhere.code, 1);
    assert!(elsewhere.stderr.contains("is not a loopback address"), "{elsewhere:#?}");
}

#[tokio::test]
async fn the_tools_exit_code_tells_the_kind() {
    let Some(host) = Host::with(&format!("{SANDBOX}max_instances = 1")).await else { return };
    let lease = host.ctl(&["acquire", "sandbox"]).await.stdout.trim().to_owned();
    let bad = host.folder().join("bad.toml");
    std::fs::write(&bad, "[pool.x]\n").unwrap();
    let bad = bad.to_str().unwrap();
    let away = ["--socket", "/nobody/is/here", "status"];
    for (arguments, code) in [
        (["show", lease.as_str()].as_slice(), 0),
        (&["exec", &lease, "--", "sh", "-c", "exit 77"], 77),
        (&["exec", &lease, "--", "sh", "-c", "kill -9 $$"], 137),
        (&["acquire", "sandbox", "--wait", "soon"], 2),
        (&["no-such-verb"], 2),
        (&[], 2),
        (&["acquire", "sandbox", "--class", "xyz"], 2),
        (&["acquire", "no-such-pool"], 4),
        (&["release", "no-such-lease"], 4),
        (&["exec", "no-such-lease", "--", "true"], 125),
        (&["exec", &lease, "--env", "novalue", "--", "true"], 2),
        (&["forward", "a b"], 4),
        (&["show", "a?b/c"], 4),
        (&["show", "neither"], 4),
        (&["drain", "no-such-pool"], 4),
        (&away, 69),
        (&["acquire", "sandbox", "--wait", "10ms"], 75),
        (&["profile", "check", bad], 78),
        (&["profile", "check", "/no/such/file"], 78),
    ] {
        let said = host.ctl(arguments).await;
        assert_eq!(said.code, code, "{arguments:?}: {said:#?}");
        assert_eq!(
            said.stdout.is_empty(),
            !matches!(code, 0 | 78) || said.stderr.contains("/no/such"),
            "{said:#?}"
        );
    }
    let stokerd = host.stokerd(host.client.socket()).arg("--check").status().unwrap();
    assert_eq!(stokerd.code(), Some(0));
}

#[tokio::test]
async fn what_speaks_no_http_harms_nobody() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let Some(host) = Host::with(SANDBOX).await else { return };
    for noise in [
        "\0\0\0\0",
        "GET\n\n",
        "POST /v1/leases HTTP/1.1\r\ncontent-length: 9999999999999\r\n\r\n{",
        "\x16\x03\x01",
    ] {
        let mut stream = tokio::net::UnixStream::connect(host.client.socket()).await.unwrap();
        stream.write_all(noise.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // It may also be cut off.
        let _ = stream.read_to_end(&mut answer).await;
    }
    assert_eq!(host.raw("GET", "/livez", "").await.unwrap().body, "ok\n");
}

fn exec(program: &str) -> stoker::api::wire::ExecBody {
    stoker::api::wire::ExecBody { command: vec![program.into()], ..Default::default() }
}
