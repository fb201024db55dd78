//! Commands inside.

use std::time::Duration;

use stoker::docker::{DockerError, Exec};
use stoker::quantity::Bytes;

use super::live;

fn order(command: &[&str]) -> Exec {
    Exec {
        command: command.iter().copied().map(String::from).collect(),
        env: [("GREETING".to_owned(), "hello".to_owned())].into(),
        cwd: None,
        stdin: Vec::new(),
        limit: Bytes::new(1000),
        timeout: Duration::from_secs(20),
    }
}

#[tokio::test]
async fn what_a_command_says_and_how_it_ends() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    let nothing = (Some(0), "", "");
    for (script, (code, stdout, stderr)) in [
        ("true", nothing),
        ("exit 7", (Some(7), "", "")),
        ("echo out; echo err >&2; kill -9 $$", (Some(137), "out\n", "err\n")),
        ("echo $GREETING $A", (Some(0), "hello 1\n", "")),
        ("cat", nothing),
        ("id -u", (Some(0), "1000\n", "")),
        // A job left behind holds the output open; the engine lets go of it after two seconds.
        ("sleep 30 & echo done", (Some(0), "done\n", "")),
        ("busybox touch /no 2>/dev/null || busybox cp /bin/busybox /tmp/true && /tmp/true", nothing),
    ] {
        let done = live.docker.exec(running.container(), &order(&["sh", "-c", script])).await.unwrap();
        assert_eq!(
            (done.exit_code, text(&done.stdout), text(&done.stderr)),
            (code, stdout.to_owned(), stderr.to_owned()),
            "{script}"
        );
        assert!(!done.timed_out && !done.stdout_truncated && !done.stderr_truncated, "{script}");
    }
    let done =
        live.docker.exec(running.container(), &Exec { cwd: Some("/tmp".into()), ..order(&["pwd"]) }).await;
    assert_eq!(text(&done.unwrap().stdout), "/tmp\n");
    live.end(1, Duration::ZERO).await;
    let error = live.docker.exec(running.container(), &order(&["true"])).await.unwrap_err();
    assert!(matches!(error, DockerError::Refused { status: 404, .. }), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_exist_ends_as_from_a_shell() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    let done = live.docker.exec(running.container(), &order(&["no-such-program"])).await.unwrap();
    assert!(matches!(done.exit_code, Some(126 | 127)), "{done:?}");
    assert!(done.stdout.is_empty() && text(&done.stderr).contains("no-such-program"), "{done:?}");
    live.end(1, Duration::ZERO).await;
}

#[tokio::test]
async fn an_order_that_is_taken_back_leaves_nothing_behind() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    let sleep = order(&["sh", "-c", "sleep 321; echo never"]);
    // At once, when the engine may not even have started it, and once it surely runs.
    for later in [Duration::ZERO, Duration::from_millis(500)] {
        let recalled = tokio::time::sleep(later);
        let done = live.docker.exec_unless(running.container(), &sleep, recalled).await.unwrap();
        assert!(!done.runs_on && !done.timed_out, "{done:?}");
        let script = "ps | grep -c '[s]leep 321'";
        let left = live.docker.exec(running.container(), &order(&["sh", "-c", script])).await.unwrap();
        assert_eq!(text(&left.stdout), "0\n", "after {later:?}");
    }
    assert!(!running.has_ended());
    live.end(1, Duration::ZERO).await;
}

#[tokio::test]
async fn output_beyond_the_limit_is_cut() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; head -c 1000 /dev/zero >&2";
    let done = live.docker.exec(running.container(), &order(&["sh", "-c", script])).await.unwrap();
    assert_eq!((done.stdout.len(), done.stderr.len()), (1000, 1000));
    assert!(done.stdout_truncated && !done.stderr_truncated, "exactly the limit is not beyond it");
    assert_eq!(done.exit_code, Some(0), "it was read to its end");
    live.end(1, Duration::ZERO).await;
}

#[tokio::test]
async fn input_goes_in_while_output_comes_out() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    // More than all pipes and sockets between us and the command together hold.
    let stdin: Vec<u8> = (0..8_000_000_u32).map(|n| (n % 251).to_le_bytes()[0]).collect();
    let mut echo = Exec { limit: Bytes::mib(16), ..order(&["cat"]) };
    echo.stdin.clone_from(&stdin);
    let done = live.docker.exec(running.container(), &echo).await.unwrap();
    assert!(done.stdout == stdin, "{} bytes came back", done.stdout.len());
    assert_eq!(done.exit_code, Some(0));

    // One that does not care for its input is not held up by it.
    let deaf = Exec { stdin, ..order(&["sh", "-c", "exit 4"]) };
    assert_eq!(live.docker.exec(running.container(), &deaf).await.unwrap().exit_code, Some(4));
    live.end(1, Duration::ZERO).await;
}

#[tokio::test]
async fn a_command_that_runs_past_its_time_is_killed() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    let timeout = Duration::from_secs(3);
    let slow = Exec { timeout, ..order(&["sh", "-c", "echo begun; sleep 321; echo never"]) };
    let done = live.docker.exec(running.container(), &slow).await.unwrap();
    assert!(done.timed_out);
    assert_eq!((done.exit_code, text(&done.stdout)), (None, "begun\n".into()));
    let script = "ps | grep -v grep | grep -c 'sleep 321'";
    let left = live.docker.exec(running.container(), &order(&["sh", "-c", script])).await.unwrap();
    assert_eq!(text(&left.stdout), "0\n", "its whole process group is gone");
    assert!(!running.has_ended(), "and nothing else");

    let flood = Exec { timeout, ..order(&["yes"]) };
    let done = live.docker.exec(running.container(), &flood).await.unwrap();
    assert!(done.timed_out && done.stdout_truncated && done.stdout.len() == 1000);
    live.end(1, Duration::ZERO).await;
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
