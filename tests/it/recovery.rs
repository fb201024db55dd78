//! `kill -9` is an ordinary event: what an earlier daemon wrote down goes on with the next one, and what cannot go on
//! has an honest end.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use rusqlite::Connection;
use stoker::api::wire::{AcquireBody, ExecBody, HostBody, LeaseBody};

use crate::engine::{Engine, Private, TINY};
use crate::host::{BROWSER, Host, SANDBOX, problem};
use crate::level::until;

#[tokio::test]
async fn leases_waiting_requests_and_drains_outlive_a_killed_daemon() {
    let pools = format!(
        "{SANDBOX}warm = {{ min = 0, max = 0 }}\nmax_instances = 2\n{BROWSER}warm = {{ min = 1, max = 1 }}"
    );
    let Some(mut host) = Host::with(&pools).await else { return };
    let (first, second) = (host.acquire("sandbox").await, host.acquire("sandbox").await);
    host.sh(&first.id, "echo mine > /tmp/mark").await;
    let wait = AcquireBody { pool: "sandbox".into(), asynchronous: true, ..AcquireBody::default() };
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(host.ask_for(&wait).await.unwrap().id);
    }
    let lent = host.acquire("browser").await;
    host.until_warm("browser", 1).await;
    host.ctl(&["drain", "browser", "--window", "10m"]).await;
    let before = host.lease(&lent.id).await;
    assert_eq!(before.state, "draining");

    restart(&mut host).await;
    let leases = host.leases().await;
    let ids: BTreeSet<_> = leases.iter().map(|lease| lease.id.clone()).collect();
    let live = [&first.id, &second.id, &lent.id].into_iter().chain(&waiting);
    assert!(live.clone().all(|id| ids.contains(id)), "{leases:#?}");
    assert_eq!(host.sh(&first.id, "cat /tmp/mark").await.stdout, "mine\n");
    let after = host.lease(&lent.id).await;
    assert_eq!(after.state, "draining");
    assert!(after.ends_in_ms.unwrap() <= before.ends_in_ms.unwrap(), "its end stands: {before:?} {after:?}");
    let places = async || {
        let mut places = Vec::new();
        for id in &waiting {
            places.push(host.lease(id).await.place);
        }
        places
    };
    assert_eq!(places().await, [Some(1), Some(2), Some(3)], "in the order in which they came");

    // What ends makes room for the one that has waited longest, as if nothing had been.
    host.release(&first.id).await;
    let granted =
        until("it is granted", async || host.lease(&waiting[0]).await, |it| it.state == "executing");
    let granted = granted.await;
    assert_ne!(granted.instance, first.instance, "what is used is destroyed");
    assert_eq!(host.sh(&granted.id, "ls /tmp").await.stdout, "");
    host.ctl(&["undrain", "browser"]).await;
    assert_eq!(host.lease(&lent.id).await.state, "executing");
}

#[tokio::test]
async fn killed_again_and_again_nothing_is_lost_or_left() {
    let Some(mut host) = Host::with(&format!("{SANDBOX}warm = {{ min = 2, max = 2 }}")).await else { return };
    let mut leases = Vec::new();
    for _ in 0..4 {
        let lease = host.acquire("sandbox").await;
        // Starts and stops are under way at each end.
        restart(&mut host).await;
        host.sh(&lease.id, &format!("echo {} >> /tmp/leases", lease.id)).await;
        leases.push(lease);
    }
    for lease in &leases {
        assert_eq!(
            host.sh(&lease.id, "cat /tmp/leases").await.stdout,
            format!("{}\n", lease.id),
            "its own alone"
        );
        host.release(&lease.id).await;
        restart(&mut host).await;
        assert_eq!(host.lease(&lease.id).await.state, "completed");
    }
    host.until_warm("sandbox", 2).await;
    host.until_containers(2).await;
}

#[tokio::test]
async fn a_container_that_died_meanwhile_ends_its_lease_and_a_restarted_one_is_not_the_same() {
    let Some(mut host) = Host::with(&format!("{SANDBOX}warm = {{ min = 1, max = 1 }}")).await else { return };
    let (died, renewed) = (host.acquire("sandbox").await, host.acquire("sandbox").await);
    host.until_warm("sandbox", 1).await;
    host.end_daemon(Signal::SIGKILL);
    host.engine.kill(died.instance.as_deref().unwrap()).await;
    let container = host.engine.container_of(renewed.instance.as_deref().unwrap()).await.unwrap();
    host.engine.docker.restart_container(&container, None).await.unwrap();
    host.launch();
    host.until_it_serves().await;
    for lease in [&died, &renewed] {
        let ended = host.until_ended(&lease.id).await;
        assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("failed", Some("died")));
    }
    host.until_warm("sandbox", 1).await;
    host.until_containers(1).await;
}

#[tokio::test]
async fn with_the_engine_away_leases_go_on_and_nothing_is_declared_dead() {
    let Some(mut private) = Private::start().await else { return };
    let mut host = Host::on(private.engine().await, &format!("{SANDBOX}warm = {{ min = 1, max = 1 }}")).await;
    let lease = host.acquire("sandbox").await;
    host.until_warm("sandbox", 1).await;
    let before = containers(&host).await;
    private.stop();
    restart(&mut host).await;
    let away = host.host().await;
    assert!(!away.engine.reachable && !away.ready, "{away:?}");
    assert_eq!(host.lease(&lease.id).await.state, "executing", "nobody knows that it is dead");
    assert_eq!(host.pool("sandbox").await.starting, 1, "what was warm is looked for, not given up");
    private.launch();
    until("the engine answers", async || host.host().await, |host| host.engine.reachable).await;
    host.until_warm("sandbox", 1).await;
    assert_eq!(containers(&host).await, before);
    assert_eq!(host.sh(&lease.id, "echo here").await.stdout, "here\n");
}

#[tokio::test]
async fn a_changed_template_and_a_removed_pool_end_what_is_warm_and_no_lease() {
    let Some(mut host) = Host::with(&format!("{SANDBOX}{BROWSER}")).await else { return };
    host.until_warm("sandbox", 1).await;
    let (kept, left) = (host.acquire("sandbox").await, host.acquire("browser").await);
    host.until_warm("sandbox", 1).await;
    host.end_daemon(Signal::SIGKILL);
    let before = containers(&host).await;
    let profile = fs::read_to_string(host.profile_path()).unwrap();
    let (changed, _) = profile.split_once("[pool.browser]").unwrap();
    fs::write(host.profile_path(), format!("{changed}env = {{ CHANGED = \"yes\" }}\n")).unwrap();
    host.launch();
    host.until_it_serves().await;
    host.until_warm("sandbox", 1).await;
    assert_eq!(
        host.sh(&kept.id, "echo ${CHANGED:-as it was}").await.stdout,
        "as it was\n",
        "a lease goes on"
    );
    assert_eq!(host.sh(&host.acquire("sandbox").await.id, "echo $CHANGED").await.stdout, "yes\n");
    assert!(containers(&host).await != before);
    // What is left of a pool that the profile has no more runs to its own end, and then the pool is gone.
    assert_eq!(host.sh(&left.id, "echo on").await.stdout, "on\n");
    let pool = host.until_pool("browser", |pool| pool.warm + pool.stopping + pool.starting == 0).await;
    assert_eq!((pool.removed, pool.leased, pool.image.as_str()), (true, 1, "stoker/tiny:latest"));
    let body = AcquireBody { pool: "browser".into(), ..AcquireBody::default() };
    assert_eq!(host.refused(&body).await.status, 404);
    host.release(&left.id).await;
    host.until_logged("pool is gone: nothing of it is left", 1).await;
    assert_eq!(host.engine.container_of(&left.instance.unwrap()).await, None);
}

#[tokio::test]
async fn a_full_disk_refuses_with_not_recorded_until_there_is_room() {
    let Some(engine) = Engine::with(TINY).await else { return };
    let mut host = Host::silent(engine, &format!("{SANDBOX}warm = {{ min = 1, max = 1 }}"));
    let disk = Disk::mount(host.state());
    host.launch();
    host.until_it_serves().await;
    host.until_warm("sandbox", 1).await;
    let lease = host.acquire("sandbox").await;
    host.until_warm("sandbox", 1).await;

    disk.fill();
    let want = AcquireBody { pool: "sandbox".into(), ..AcquireBody::default() };
    // What fits into the blocks that the log has already is written; then no more.
    let mut granted = 0;
    let refusal = loop {
        match host.ask_for(&want).await {
            Ok(lease) => drop(host.raw("POST", &format!("/v1/leases/{}/release", lease.id), "").await),
            Err(error) => break problem::<LeaseBody>(Err(error)),
        }
        granted += 1;
        assert!(granted < 300, "a full disk was never noticed");
    };
    assert_eq!((refusal.status, refusal.limit.as_deref()), (503, Some("not_recorded")), "{refusal:?}");
    assert!(refusal.detail.starts_with("records cannot be written: "), "{refusal:?}");
    assert!(refusal.retry_after_s.is_some());
    let again = host.refused(&AcquireBody { asynchronous: true, ..want.clone() }).await;
    assert_eq!(again.limit.as_deref(), Some("not_recorded"));
    assert_eq!(host.sh(&lease.id, "echo on").await.stdout, "on\n", "what was lent goes on");
    let over = host.release(&lease.id).await;
    assert_eq!(over.state, "completed", "an end needs no room");

    disk.make_room();
    let lent =
        until("it lends again", async || host.ask_for(&want).await.ok(), Option::is_some).await.unwrap();
    host.until_logged("records can be written", 1).await;
    restart(&mut host).await;
    assert_eq!(host.lease(&lent.id).await.state, "executing");
    assert_eq!(host.lease(&lease.id).await.state, "completed", "it was written when there was room");
    host.until_warm("sandbox", 1).await;
}

#[tokio::test]
async fn a_disk_that_filled_while_the_daemon_was_down_keeps_nobody_from_starting() {
    let Some(engine) = Engine::with(TINY).await else { return };
    let mut host = Host::silent(engine, &format!("{SANDBOX}warm = {{ min = 1, max = 1 }}"));
    let disk = Disk::mount(host.state());
    host.launch();
    host.until_it_serves().await;
    let lease = host.acquire("sandbox").await;
    host.until_warm("sandbox", 1).await;
    // It ends in good order: nothing but what it leaves on purpose is there for the next one.
    host.end_daemon(Signal::SIGTERM);
    disk.fill();
    host.launch();
    host.until_it_serves().await;
    assert_eq!(host.sh(&lease.id, "echo on").await.stdout, "on\n");
    disk.make_room();
    let want = AcquireBody { pool: "sandbox".into(), ..AcquireBody::default() };
    until("it lends", async || host.ask_for(&want).await.ok(), Option::is_some).await;
}

#[tokio::test]
async fn a_damaged_record_is_moved_aside_and_the_others_count() {
    let Some(mut host) = Host::with(&format!("{SANDBOX}warm = {{ min = 1, max = 1 }}")).await else { return };
    let (good, bad) = (host.acquire("sandbox").await, host.acquire("sandbox").await);
    host.until_warm("sandbox", 1).await;
    host.end_daemon(Signal::SIGKILL);
    database(&host).execute("UPDATE lease SET body = '{' WHERE id = ?1", [&bad.id]).unwrap();
    host.launch();
    host.until_it_serves().await;
    assert_eq!(host.sh(&good.id, "echo on").await.stdout, "on\n");
    assert_eq!(host.logged("a record was damaged and moved to the table `aside`: lease: "), 1);
    let gone = problem(host.client.get::<LeaseBody>(&format!("/v1/leases/{}", bad.id)).await);
    assert_eq!(gone.kind, "urn:stoker:no_such_lease");
    // It may have been used, so it is ended and never lent again.
    let instance = bad.instance.unwrap();
    until("its container is gone", async || host.engine.container_of(&instance).await, Option::is_none).await;
    host.until_warm("sandbox", 1).await;
    let aside = "SELECT id FROM aside WHERE kind = 'lease'";
    let id: String = database(&host).query_row(aside, [], |row| row.get(0)).unwrap();
    assert_eq!(id, bad.id);
}

#[tokio::test]
async fn a_damaged_file_is_kept_aside_and_what_has_no_history_is_ended() {
    let Some(mut host) = Host::with(&format!("{SANDBOX}warm = {{ min = 1, max = 1 }}")).await else { return };
    let lease = host.acquire("sandbox").await;
    host.until_warm("sandbox", 1).await;
    host.end_daemon(Signal::SIGKILL);
    let before = containers(&host).await;
    for end in ["-wal", "-shm"] {
        fs::remove_file(format!("{}{end}", file(&host).display())).unwrap();
    }
    fs::write(file(&host), "this was a database once, and is long enough to be taken for one".repeat(100))
        .unwrap();
    // Only the daemon may mend it.
    let (state, engine) = (host.state(), host.engine.socket.clone());
    let reap = ["reap", "--state", state.to_str().unwrap(), "--engine", engine.to_str().unwrap()];
    let said = host.ctl(&reap).await;
    assert!(said.code != 0 && said.stderr.contains("the next start of stokerd moves it aside"), "{said:?}");
    host.launch();
    host.until_it_serves().await;
    host.until_logged("the store was damaged and is now ", 1).await;
    let gone = problem(host.client.get::<LeaseBody>(&format!("/v1/leases/{}", lease.id)).await);
    assert_eq!(gone.kind, "urn:stoker:no_such_lease");
    until(
        "all of unknown history is gone",
        async || containers(&host).await,
        |now| now.is_disjoint(&before) && now.len() == 1,
    )
    .await;
    let kept = fs::read_dir(host.state()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(kept.into_iter().any(|name| name.to_string_lossy().starts_with("stoker.db.damaged-")));
    assert_eq!(host.acquire("sandbox").await.state, "executing");
}

#[tokio::test]
async fn a_reboot_ends_what_was_executing_and_keeps_what_waits() {
    let Some(mut host) =
        Host::with(&format!("{SANDBOX}warm = {{ min = 0, max = 0 }}\nmax_instances = 1")).await
    else {
        return;
    };
    let lease = host.acquire("sandbox").await;
    let wait = AcquireBody { pool: "sandbox".into(), asynchronous: true, ..AcquireBody::default() };
    let waiting = host.ask_for(&wait).await.unwrap();
    host.end_daemon(Signal::SIGKILL);
    for table in ["lease", "instance"] {
        database(&host).execute(&format!("UPDATE {table} SET boot = 'an-earlier-one'"), []).unwrap();
    }
    host.launch();
    host.until_it_serves().await;
    let lost = host.lease(&lease.id).await;
    assert_eq!((lost.state.as_str(), lost.reason.as_deref()), ("interrupted", Some("host_lost")));
    let order = ExecBody { command: vec!["true".into()], ..ExecBody::default() };
    let refused = problem(host.exec(&lease.id, &order).await);
    assert_eq!(refused.status, 410);
    let granted =
        until("it has its turn", async || host.lease(&waiting.id).await, |it| it.state == "executing");
    assert_ne!(granted.await.instance, lease.instance);
    host.until_containers(1).await;
}

#[tokio::test]
async fn reap_ends_what_is_overdue_while_the_daemon_is_down() {
    let Some(mut host) = Host::with(&format!("{SANDBOX}warm = {{ min = 0, max = 0 }}")).await else { return };
    let short =
        AcquireBody { pool: "sandbox".into(), max_runtime: Some("1h".into()), ..AcquireBody::default() };
    let (over, goes_on) = (host.ask_for(&short).await.unwrap(), host.acquire("sandbox").await);
    let (state, engine) = (host.state(), host.engine.socket.clone());
    let (state, engine) = (state.to_str().unwrap(), engine.to_str().unwrap());
    let arguments = ["reap", "--state", state, "--engine", engine];
    let silent =
        |said: crate::host::Said| assert_eq!((said.code, said.stdout, said.stderr), Default::default());
    silent(host.ctl(&arguments).await);
    assert_eq!(host.lease(&over.id).await.state, "executing", "while a daemon runs it is the daemon's to do");

    host.end_daemon(Signal::SIGKILL);
    silent(host.ctl(&arguments).await);
    let overdue = "UPDATE lease SET body = json_set(body, '$.state.executing.deadline_ns', 1) WHERE id = ?1";
    database(&host).execute(overdue, [&over.id]).unwrap();
    let said = host.ctl(&arguments).await;
    assert_eq!((said.code, said.stdout), (0, format!("{} expired\n", over.id)), "{}", said.stderr);
    assert_eq!(host.engine.container_of(over.instance.as_deref().unwrap()).await, None);
    assert_eq!(host.containers().await.len(), 1);
    silent(host.ctl(&arguments).await);

    host.launch();
    host.until_it_serves().await;
    let ended = host.lease(&over.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("expired", Some("max_runtime")));
    assert_eq!(host.lease(&goes_on.id).await.state, "executing");
    let nowhere = host.folder().join("nowhere");
    silent(host.ctl(&["reap", "--state", nowhere.to_str().unwrap(), "--engine", engine]).await);
}

#[tokio::test]
async fn the_state_is_for_its_owner_and_for_one_host_alone() {
    let Some(mut host) = Host::with(SANDBOX).await else { return };
    assert_eq!(fs::metadata(host.state()).unwrap().permissions().mode() & 0o777, 0o700);
    let other = Host::silent(host.engine.clone(), SANDBOX);
    std::os::unix::fs::symlink(host.state(), other.state()).unwrap();
    let second = other.stokerd(other.client.socket()).stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(69), "{said}");
    assert!(said.contains("another stokerd, or `stokerctl reap`, works in"), "{said}");
    let _: HostBody = host.host().await;
    host.end_daemon(Signal::SIGTERM);
    let second = other.stokerd(other.client.socket()).stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(78), "{said}");
    assert!(said.contains(&format!("is of host `{}`, and this is `{}`", host.name, other.name)), "{said}");
}

/// Kills the daemon and starts the next.
async fn restart(host: &mut Host) {
    host.end_daemon(Signal::SIGKILL);
    host.launch();
    host.until_it_serves().await;
}

fn file(host: &Host) -> PathBuf {
    host.state().join("stoker.db")
}

/// The store, as an operator opens it.
fn database(host: &Host) -> Connection {
    Connection::open(file(host)).unwrap()
}

/// Ids of this host's containers.
async fn containers(host: &Host) -> BTreeSet<String> {
    host.containers().await.into_iter().filter_map(|one| one.id).collect()
}

/// A disk of a few MiB; it goes with the test.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: PathBuf) -> Disk {
        fs::create_dir(&path).unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=2m,mode=0700", "stoker-test"];
        let mounted = Command::new("mount").args(arguments).arg(&path).output().unwrap();
        assert!(mounted.status.success(), "{mounted:?}");
        Disk(path)
    }

    fn fill(&self) {
        let full = fs::write(self.0.join("filler"), vec![1; 3 << 20]);
        assert!(full.is_err(), "there was more room than was to be");
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Its daemon may hold it still; it goes when that does.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
