//! The only room that knows all the others: it puts them together and lets them run.
//!
//! ```text
//! look (threads) -- Sample ------.
//! engine (task) --- Listed, news -+--> turn: controller --> keeper (a task an instance)
//! keeper ---------- news ---------|                    \--> answers to callers
//! ceiling (task) -- Ceilings -----|                     \-> journal, ceiling
//! api ------------- questions ----'
//! ```
//!
//! SIGTERM and SIGINT end it at once. They drain nothing: systemd sends the same signal for a stop and for a
//! restart. In this version a later start removes the containers it finds of an earlier run.

mod ceiling;
mod clock;
mod engine;
mod files;
mod journal;
mod keeper;
mod lock;
mod look;
mod turn;

use std::path::PathBuf;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::engine::{Address, Slot};
use self::journal::{Journal, Lines};
use self::keeper::Keepers;
use self::look::Eyes;
use self::turn::Turns;
use crate::api::desk::Desk;
use crate::api::{Api, LeaseIds, server};
use crate::control::Controller;
use crate::control::message::Input;
use crate::docker::Owner;
use crate::gateway::Gateway;
use crate::netns::Netns;
use crate::profile::HostProfile;
use crate::systemd::catalog;

/// Facts that may stand before the loop; who brings one waits when it is behind.
const FACTS: usize = 1024;

/// Where things are on this host.
#[derive(Debug, Clone)]
pub struct Places {
    /// The API's socket.
    pub socket: PathBuf,
    /// The engine's socket.
    pub engine: PathBuf,
}

/// What tasks share; cheap to clone.
#[derive(Debug, Clone)]
struct World {
    engine: Slot,
    gateway: Gateway,
    eyes: Eyes,
    lines: Lines,
    facts: mpsc::Sender<Input>,
}

impl World {
    /// Brings a fact to the loop; when the loop has ended there is nobody to tell.
    async fn tell(&self, fact: Input) {
        let _ = self.facts.send(fact).await;
    }
}

/// Runs the daemon until it is told to end.
///
/// # Errors
/// When something that it cannot do without cannot be had.
pub async fn run(profile: HostProfile, places: Places) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    files::take_all(&profile)?;
    let boot = clock::boot_id().context("cannot read this boot's id")?;
    let host = match &profile.host.name {
        Some(name) => name.clone(),
        None => host_name().context("cannot read the host's name")?,
    };
    let _alone = lock::take(&host)?;
    let listener = server::listen(&places.socket).await?;
    let (journal, last_word) = Journal::open().context("cannot start the thread that writes the journal")?;
    let run = clock::draw_run();
    let (facts, incoming) = mpsc::channel(FACTS);
    let eyes = Eyes::open(facts.clone()).context("cannot start the measuring thread")?;
    let gateway = Gateway::new(Netns::spawn().context("cannot start the thread that enters namespaces")?);
    let world =
        World { engine: Slot::default(), gateway: gateway.clone(), eyes, lines: journal.lines(), facts };
    let (ceilings, wanted) = watch::channel(None);
    let (desk, counter) = Desk::new();
    let turns = Turns {
        pools: Turns::pools_of(&profile),
        controller: Controller::new(profile, host.clone(), run, clock::now()),
        keepers: Keepers::new(world.clone()),
        gateway: gateway.clone(),
        journal,
        eyes: world.eyes.clone(),
        ceilings,
        facts: incoming,
        counter,
        open: std::collections::BTreeMap::new(),
        undelivered: Vec::new(),
    };
    let router = Api::new(desk, gateway, LeaseIds::new(&host, &boot)).router();
    let owner = Owner { host, boot, run };
    // It ends with the loop, which says what it keeps.
    tokio::spawn(ceiling::keep(world.clone(), wanted));
    let follow = engine::follow(world, Address { socket: places.engine, owner });
    tracing::info!(message_id = catalog::SERVING.id, "serving at `{}`", places.socket.display());
    let mut turning = tokio::spawn(turns.run());
    tokio::select! {
        ended = &mut turning => ended.context("the loop broke")?,
        ended = tokio::spawn(server::serve(listener, router)) => ended.context("the server broke")?,
        ended = tokio::spawn(follow) => ended.context("the engine's follower broke")?,
        _ = terminate.recv() => tracing::info!(message_id = catalog::ENDING.id, "told to end, leaving instances as they are"),
        _ = interrupt.recv() => tracing::info!(message_id = catalog::ENDING.id, "told to end, leaving instances as they are"),
    }
    // Whoever comes next makes its own; a path that is gone already is as well.
    let _ = std::fs::remove_file(&places.socket);
    turning.abort();
    // It holds the way to the journal's writer, which ends when the way is gone.
    let _ = turning.await;
    last_word.wait();
    Ok(())
}

fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname()?;
    name.into_string().map_err(|name| anyhow::anyhow!("`{}` is no text", name.to_string_lossy()))
}
