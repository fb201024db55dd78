//! The engine as the loop hears of it: whether it answers, what it has, and what happens in it.
//!
//! One task connects, and then listens to the engine's events while it lists everything again and again: events
//! hasten, the listing is the truth. When the connection breaks,
//! the engine is unknown, nothing is declared dead, and the task connects anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::World;
use super::clock;
use crate::control::message::{Engine, Exit, Input, Listing, News};
use crate::docker::{Docker, DockerError, EngineEvent, Owner};

/// Events are lost when the engine restarts or a subscriber is slow; a listing costs a millisecond.
const LIST_EVERY: Duration = Duration::from_secs(15);
/// Between two tries to reach an engine that does not answer.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// The engine as it was last reached; empty before it ever was.
#[derive(Debug, Clone)]
pub(super) struct Slot(Arc<watch::Sender<Option<Docker>>>);

impl Default for Slot {
    fn default() -> Slot {
        Slot(Arc::new(watch::Sender::new(None)))
    }
}

impl Slot {
    /// The engine, if it was ever reached.
    pub(super) fn get(&self) -> Option<Docker> {
        self.0.borrow().clone()
    }

    /// The engine, once it was reached.
    pub(super) async fn wait(&self) -> Docker {
        let mut reached = self.0.subscribe();
        let reached = reached.wait_for(Option::is_some).await;
        reached.expect("we hold the sender").clone().expect("it was waited for")
    }

    fn set(&self, docker: Docker) {
        self.0.send_replace(Some(docker));
    }
}

/// Where the engine is and whose containers are ours.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) socket: PathBuf,
    pub(super) owner: Owner,
}

/// Follows the engine for as long as the daemon runs.
pub(super) async fn follow(world: World, address: Address) {
    loop {
        let why = match once(&world, &address).await {
            Ok(()) => "its stream of events ended".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        world.tell(Input::Engine(Engine::Unreachable(why))).await;
        sleep(CONNECT_AGAIN).await;
    }
}

/// One connection, from its beginning to its end.
async fn once(world: &World, address: &Address) -> anyhow::Result<()> {
    // Asked first, because the kernel says why not, and the client only that not.
    let socket = UnixStream::connect(&address.socket).await;
    drop(socket.with_context(|| format!("cannot connect to `{}`", address.socket.display()))?);
    let docker = Docker::connect(&address.socket, address.owner.clone()).await?;
    world.eyes.engine_is_at(docker.facts().root_dir.clone());
    world.engine.set(docker.clone());
    let mut events = pin!(docker.events());
    let mut list = interval(LIST_EVERY);
    list.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // Listened before it is looked: what happens in between is then heard.
            biased;
            event = events.next() => match event {
                Some(Ok(event)) => tell_event(world, event).await,
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            _ = list.tick() => {
                let listing = listing(&docker).await?;
                world.tell(Input::Engine(Engine::Reachable)).await;
                world.tell(Input::Listed(listing)).await;
            }
        }
    }
}

async fn listing(docker: &Docker) -> Result<Listing, DockerError> {
    let asked_at = clock::now();
    let running: BTreeMap<_, _> =
        docker.list().await?.into_iter().map(|container| (container.instance, container.running)).collect();
    Ok(Listing { asked_at, running })
}

async fn tell_event(world: &World, event: EngineEvent) {
    let (instance, news) = match event {
        EngineEvent::Died { instance, exit_code } => (instance, News::Exited(Exit { code: exit_code })),
        EngineEvent::Removed { instance } => (instance, News::Gone),
        // That the engine says so is no more than a reason to look: at which level it was stands in the cgroup.
        EngineEvent::Oom { instance } => return world.eyes.look_at(instance).await,
    };
    world.tell(Input::Instance(instance, news)).await;
}
