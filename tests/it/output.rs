//! What containers write, in the journal: where the profile says so, and with the lease it belongs to.

use nix::sys::signal::Signal;

use crate::host::{Host, SANDBOX};
use crate::level::until;

/// A sandbox whose first process speaks at once, and once more when it is told to: on the other stream, with
/// what a terminal would obey.
fn speaks(keys: &str) -> String {
    let script = r#"echo hello; until [ -e /tmp/more ]; do sleep 0.1; done; printf \"used\\033[2J\\n\" >&2; exec sleep 1000"#;
    let silent = "command = [\"sleep\", \"2147483647\"]";
    assert!(SANDBOX.contains(silent));
    SANDBOX.replace(silent, &format!("command = [\"sh\", \"-c\", \"{script}\"]\n{keys}"))
}

#[tokio::test]
async fn what_an_instance_writes_is_told_with_its_lease() {
    let Some(host) = Host::with(&speaks("max_instances = 1\njournal_output = true")).await else { return };
    let lease = host.acquire("sandbox").await;
    host.until_logged("INFO hello pool=", 1).await;
    host.sh(&lease.id, "touch /tmp/more").await;
    host.until_logged("INFO used\u{fffd}[2J pool=", 1).await;
    let log = host.log();
    let line = |word: &str| log.lines().find(|line| line.contains(word)).unwrap_or_default().to_owned();
    let whose = format!("pool=\"sandbox\" instance=\"{}\"", lease.instance.clone().unwrap());
    let used = line("used");
    assert!(used.contains(&format!("{whose} lease=\"{}\" stream=\"stderr\"", lease.id)), "{used}");
    assert!(
        line("hello").contains(&format!("{whose} stream=\"stdout\"")) || line("hello").contains(&lease.id),
        "{log}"
    );
}

#[tokio::test]
async fn nothing_is_told_unasked() {
    let Some(host) = Host::with(&speaks("")).await else { return };
    let lease = host.acquire("sandbox").await;
    let container = lease.instance.clone().unwrap();
    until(
        "it has spoken",
        async || host.sh(&lease.id, "touch /tmp/more; ps").await.stdout,
        |ps| ps.contains("sleep 1000"),
    )
    .await;
    host.release(&lease.id).await;
    until("it is gone", async || host.engine.container_of(&container).await, Option::is_none).await;
    host.until_logged("instance is gone", 1).await;
    assert_eq!((host.logged("hello"), host.logged("used\u{fffd}")), (0, 0), "{}", host.log());
}

/// What is written while no daemon is there is told by the next one, and what was told before is not told again.
#[tokio::test]
async fn a_restart_leaves_nothing_out_and_says_nothing_twice() {
    let Some(mut host) = Host::with(&speaks("max_instances = 1\njournal_output = true")).await else {
        return;
    };
    let lease = host.acquire("sandbox").await;
    let instance = lease.instance.clone().unwrap();
    host.until_logged("INFO hello pool=", 1).await;
    let file = host.state().join("heard");
    let noted = async || std::fs::read_to_string(&file).unwrap_or_default();
    until("it is noted how far it was heard", noted, |noted| noted.contains(&instance)).await;
    host.end_daemon(Signal::SIGKILL);
    let container = host.engine.container_of(&instance).await.unwrap();
    host.engine.sh(&container, "touch /tmp/more").await;
    host.launch();
    host.until_it_serves().await;
    host.until_logged("INFO used\u{fffd}[2J pool=", 1).await;
    assert!(host.log().contains(&format!("lease=\"{}\" stream=\"stderr\"", lease.id)), "{}", host.log());
    assert_eq!(host.logged("INFO hello pool="), 1, "{}", host.log());
    host.release(&lease.id).await;
    until("nothing more is noted of it", noted, |noted| !noted.contains(&instance)).await;
}
