//! Created, started, seen to die, ended.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use rustix::process::{Pid, Signal, kill_process};
use stoker::control::message::{Exit, InstanceId};
use stoker::docker::{Docker, DockerError, EngineEvent, Listed, Owner, template_hash};
use stoker::profile::PoolName;
use tokio::time::Instant;

use super::{live, pool};
use crate::engine::Private;

#[tokio::test]
async fn a_life_from_creation_to_removal() {
    let Some(live) = live().await else { return };
    let container = live.create(1).await.unwrap();
    let listed = live.docker.list().await.unwrap();
    assert_eq!(listed.len(), 1, "a container that was only created is listed");
    let expected = Listed {
        instance: live.instance(1),
        container: container.clone(),
        pool: "tiny".into(),
        template: template_hash(&live.spec.template),
        run: live.owner.run,
        boot: "boot".into(),
        running: false,
    };
    assert_eq!(listed.first(), Some(&expected));

    let running = live.docker.start(&container).await.unwrap();
    assert!(!running.has_ended());
    assert!(live.docker.list().await.unwrap().iter().all(|listed| listed.running));
    let begun = Instant::now();
    live.end(1, Duration::from_secs(30)).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "one that heeds the signal ends with it");
    assert!(running.has_ended());
    assert_eq!(live.docker.list().await.unwrap(), []);
    live.end(1, Duration::ZERO).await;
    assert_eq!(
        live.docker.died(&running).await,
        Exit { code: None },
        "nobody knows the code of what is gone"
    );
}

#[tokio::test]
async fn grace_is_given_and_then_ends() {
    let Some(mut live) = live().await else { return };
    live.command("trap '' TERM; while :; do sleep 1; done");
    live.run(1).await;
    let begun = Instant::now();
    live.end(1, Duration::from_secs(1)).await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "the grace was cut short");

    live.run(2).await;
    live.end(2, Duration::ZERO).await;
}

#[tokio::test]
async fn every_state_can_be_ended() {
    let Some(mut live) = live().await else { return };
    live.create(1).await.unwrap();
    let paused = live.run(2).await;
    live.engine.docker.pause_container(paused.container().as_str()).await.unwrap();
    let killed = live.run(3).await;
    live.engine.docker.pause_container(killed.container().as_str()).await.unwrap();
    live.command("exit 3");
    let exited = live.create(4).await.unwrap();
    match live.docker.start(&exited).await {
        Ok(running) => assert_eq!(live.docker.died(&running).await, Exit { code: Some(3) }),
        Err(DockerError::Ended { exit, .. }) => assert_eq!(exit, Exit { code: Some(3) }),
        Err(error) => panic!("{error}"),
    }
    for (count, grace) in [(1, 1), (2, 1), (3, 0), (4, 1)] {
        live.end(count, Duration::from_secs(grace)).await;
    }
    assert_eq!(live.docker.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_death_behind_our_back_is_told_twice() {
    let Some(live) = live().await else { return };
    let mut events = pin!(live.docker.events());
    let first = events.next();
    let running = live.run(1).await;
    let first = async {
        let kill = async { kill_process(Pid::from_raw(running.pid().cast_signed()).unwrap(), Signal::KILL) };
        let (told, killed) = futures_util::future::join(first, kill).await;
        killed.unwrap();
        told
    };
    let (told, seen) = futures_util::future::join(first, live.docker.died(&running)).await;
    assert_eq!(seen, Exit { code: Some(137) });
    let died = EngineEvent::Died { instance: live.instance(1), exit_code: Some(137) };
    assert_eq!(told.unwrap().unwrap(), died);
    live.end(1, Duration::ZERO).await;
    let removed = EngineEvent::Removed { instance: live.instance(1) };
    assert_eq!(events.next().await.unwrap().unwrap(), removed);
}

#[tokio::test]
async fn an_end_is_told_at_once_though_the_engine_hangs() {
    let Some(private) = Private::start().await else { return };
    let engine = private.engine().await;
    let owner = Owner { host: "hangs".into(), boot: "boot".into(), run: 1 };
    let docker = Docker::connect(&engine.socket, owner).await.unwrap();
    let instance = InstanceId { run: 1, count: 1 };
    let container = docker.create(instance, &PoolName::new("tiny"), &pool("")).await.unwrap();
    let running = docker.start(&container).await.unwrap();
    private.signal(nix::sys::signal::Signal::SIGSTOP);
    kill_process(Pid::from_raw(running.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    let told = tokio::time::timeout(Duration::from_secs(3), docker.died(&running)).await;
    private.signal(nix::sys::signal::Signal::SIGCONT);
    assert_eq!(told, Ok(Exit { code: None }));
    docker.stop_and_remove(instance, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_missing_image_is_its_own_answer() {
    let Some(mut live) = live().await else { return };
    live.spec = pool("image = \"stoker/no-such-image:1\"");
    let error = live.create(1).await.unwrap_err();
    assert!(
        matches!(&error, DockerError::ImageMissing { image } if image == "stoker/no-such-image:1"),
        "{error}"
    );
    live.end(1, Duration::ZERO).await;
}

#[tokio::test]
async fn an_order_whose_answer_was_lost_is_repeated() {
    let Some(live) = live().await else { return };
    let lost = live.create(1).await.unwrap();
    let found = live.create(1).await.unwrap();
    assert_ne!(lost, found);
    assert_eq!(live.docker.list().await.unwrap().len(), 1);

    // The same name in the hands of somebody else is left alone.
    let owner = Owner { host: "another".into(), ..live.owner.clone() };
    let other = Docker::connect(&live.engine.socket, owner).await.unwrap();
    let error = other.create(live.instance(1), &live.pool, &live.spec).await.unwrap_err();
    assert!(matches!(error, DockerError::Conflict { .. }), "{error}");
    live.end(1, Duration::ZERO).await;
}

#[tokio::test]
async fn two_may_end_the_same_instance_at_once() {
    let Some(live) = live().await else { return };
    live.run(1).await;
    let end = || live.docker.stop_and_remove(live.instance(1), Duration::from_secs(1));
    let (one, other) = futures_util::future::join(end(), end()).await;
    one.unwrap();
    other.unwrap();
    assert_eq!(live.docker.list().await.unwrap(), []);
}

#[tokio::test]
async fn an_engine_that_is_away_is_told_apart_from_one_that_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let owner = || Owner { host: "h".into(), boot: "b".into(), run: 1 };
    let socket = folder.path().join("docker.sock");
    let error = Docker::connect(&socket, owner()).await.unwrap_err();
    assert!(error.is_unreachable() && error.is_unknown(), "there is no socket: {error}");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let error = Docker::connect(&socket, owner()).await.unwrap_err();
    assert!(error.is_unreachable(), "nobody accepts: {error}");
}
