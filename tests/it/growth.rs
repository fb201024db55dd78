//! What a daemon holds does not grow with what it has done, nor with who hung up on it.

use std::fs;
use std::time::Duration;

use futures_util::future::join_all;
use stoker::api::wire::ExecBody;

use crate::host::{BROWSER, Host};
use crate::level::until;

#[tokio::test]
async fn fifty_leases_later_the_daemon_holds_what_it_held_before() {
    let pools = format!("{BROWSER}warm = {{ min = 4, max = 4 }}\nmax_instances = 8");
    let Some(host) = Host::with(&pools).await else { return };
    // Once around, so that whatever is made once is made.
    use_five(&host).await;
    host.until_warm("browser", 4).await;
    let (before, memory) = (held(&host), resident(&host));
    for _ in 0..10 {
        use_five(&host).await;
    }
    host.until_warm("browser", 4).await;
    // Without asking it anything: a thread that answered ends when it has had nothing to do for a while.
    until(
        &format!("it holds {before:?} again"),
        async || held(&host),
        |(files, threads)| *files <= before.0 && *threads <= before.1,
    )
    .await;
    // Room for an allocator's moods; what each lease leaves behind would show as more.
    let after = resident(&host);
    assert!(after <= memory * 3 / 2, "it took {memory} kB and takes {after} kB");
    host.until_containers(4).await;
    assert!(host.leases().await.iter().all(|lease| lease.state == "completed"));
}

/// Acquires, uses by tunnel and by command, hangs up on both, and releases.
async fn use_five(host: &Host) {
    let leases = join_all((0..5).map(|_| host.acquire("browser"))).await;
    join_all(leases.iter().map(async |lease| {
        drop(host.client.tunnel(&lease.id, 9222).await.unwrap());
        let endless = ExecBody {
            command: ["sleep", "4321"].map(String::from).to_vec(),
            timeout: Some("1h".into()),
            ..ExecBody::default()
        };
        let hung_up = tokio::time::timeout(Duration::from_millis(100), host.exec(&lease.id, &endless)).await;
        assert!(hung_up.is_err(), "{hung_up:?}");
        host.sh(&lease.id, "true").await;
        host.release(&lease.id).await;
    }))
    .await;
}

/// Open files and threads of the daemon.
fn held(host: &Host) -> (usize, usize) {
    let count = |what: &str| fs::read_dir(format!("/proc/{}/{what}", host.pid())).unwrap().count();
    (count("fd"), count("task"))
}

/// The daemon's resident memory in kB.
fn resident(host: &Host) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", host.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
