//! The only room that knows all the others: it puts them together and lets them run.
//!
//! ```text
//! look (threads) -- Sample ------.
//! engine (task) --- Listed, news -+--> turn: controller --> keeper (a task an instance)
//! keeper ---------- news ---------|                    \--> answers to callers
//! ceiling (task) -- Ceilings -----|                    |\-> journal, ceiling
//! api ------------- questions ----|                    |
//! store (thread) -- what is written'                   \--> records --> store
//! ```
//!
//! SIGTERM and SIGINT end it at once. They drain nothing: systemd sends the same signal for a stop and for a
//! restart; the next one takes up what was written down (`recover`), and only then is anybody answered.

mod ceiling;
mod clock;
mod engine;
mod files;
mod hear;
mod journal;
mod keeper;
mod look;
mod records;
mod recover;
mod reload;
mod shutdown;
mod turn;

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use self::engine::{Address, Slot};
use self::journal::{Journal, Lines};
use self::keeper::Keepers;
use self::look::Eyes;
use self::records::Records;
use self::turn::Turns;
use crate::api::desk::Desk;
use crate::api::reload::Reloads;
use crate::api::{Api, LeaseIds, server};
use crate::control::Controller;
use crate::control::message::Input;
use crate::docker::Owner;
use crate::gateway::Gateway;
use crate::netns::Netns;
use crate::profile::{HostProfile, Layers};
use crate::store::clock::Moment;
use crate::store::lock::{self, LockError};
use crate::store::{LastWrite, Outcome, Store, Writer};
use crate::systemd::{Notify, Pulse, catalog};

/// Facts that may stand before the loop; who brings one waits when it is behind.
const FACTS: usize = 1024;

/// How long the daemon waits for the lock of its host, and how often it looks.
const LOCKED_WITHIN: Duration = Duration::from_secs(5);
const LOCK_AGAIN: Duration = Duration::from_millis(100);

/// Where things are on this host.
#[derive(Debug)]
pub struct Places {
    /// The API's socket, where none was passed.
    pub socket: PathBuf,
    /// The API's socket that is open already.
    pub passed: Option<UnixListener>,
    /// The engine's socket.
    pub engine: PathBuf,
    /// The folder of what must outlive the daemon.
    pub state: PathBuf,
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

/// Runs the daemon until it is told to end. The profile is what these layers hold; a reload reads them anew.
///
/// # Errors
/// When something that it cannot do without cannot be had.
pub async fn run(mut profile: HostProfile, layers: Layers, places: Places) -> anyhow::Result<()> {
    let (told_to_end, hang_up) = signals()?;
    files::take_all(&profile)?;
    let boot = clock::boot_id().context("cannot read this boot's id")?;
    let (host, _alone) = lock_host(&profile, &places.state).await?;
    // Said or not, it is the same name to whoever compares profiles.
    profile.host.name = Some(host.clone());
    let (facts, incoming) = mpsc::channel(FACTS);
    let Memory { first, records, damage, last_write } =
        remember(&places.state, &profile, (&host, &boot), facts.clone())?;
    let notify = Notify::from_env().context("cannot reach the service manager at NOTIFY_SOCKET")?;
    let socket = socket_at(&places.socket, places.passed).await?;
    let (journal, last_word) = Journal::open().context("cannot start the thread that writes the journal")?;
    let run = clock::draw_run();
    let eyes =
        Eyes::open(facts.clone(), places.state.clone()).context("cannot start the measuring thread")?;
    let gateway = Gateway::new(Netns::spawn().context("cannot start the thread that enters namespaces")?);
    let world =
        World { engine: Slot::default(), gateway: gateway.clone(), eyes, lines: journal.lines(), facts };
    let (desk, counter) = Desk::new();
    let mut turns = Turns {
        controller: Controller::new(profile, host.clone(), run, clock::now()),
        keepers: Keepers::new(world.clone(), &places.state),
        gateway: gateway.clone(),
        journal,
        ceilings: ceiling::keep(world.clone()),
        records,
        facts: incoming,
        counter,
        open: std::collections::BTreeMap::new(),
        undelivered: Vec::new(),
        pulse: Pulse::new(notify.clone()),
    };
    // Nothing is answered, made or removed before what was written down is taken up: callers wait in the backlog.
    turns.begin(first);
    let heed = tokio::spawn(shutdown::heed(desk.clone()));
    let (reloads, asked) = Reloads::new();
    let reloading = reload::serve(layers, host.clone(), desk.clone(), asked, hang_up);
    let router = Api::new(desk, gateway, LeaseIds::new(&host, &boot), reloads).router();
    let owner = Owner { host, boot, run };
    let follow = engine::follow(world, Address { socket: places.engine, owner });
    tracing::info!(message_id = catalog::SERVING.id, "serving at `{}`", socket.place());
    let mut turning = tokio::spawn(turns.run());
    let (end, ending) = oneshot::channel::<()>();
    let mut serving = tokio::spawn(server::serve(socket, router, async { drop(ending.await) }));
    tokio::select! {
        ended = &mut turning => ended.context("the loop broke")?,
        ended = &mut serving => ended.context("the server broke")?,
        Ok(why) = damage => anyhow::bail!("the store is damaged, the next start moves it aside: {why}"),
        ended = heed => ended.context("who hears of shutdowns broke")?,
        ended = tokio::spawn(reloading) => ended.context("the reloader broke")?,
        ended = tokio::spawn(follow) => ended.context("the engine's follower broke")?,
        () = told_to_end => {
            tracing::info!(message_id = catalog::ENDING.id, "told to end, leaving instances as they are");
        }
    }
    // Questions are answered by the loop, so the server ends first.
    drop(end);
    let _ = serving.await;
    turning.abort();
    // It holds the way to the journal's writer, which ends when the way is gone.
    let _ = turning.await;
    last_write.wait();
    // The last word to the manager, so the loop must have had its.
    notify.stopping();
    last_word.wait();
    Ok(())
}

/// The API's socket: the one that was passed, else one that is made there.
async fn socket_at(place: &Path, passed: Option<UnixListener>) -> anyhow::Result<server::Socket> {
    match passed {
        Some(passed) => server::adopt(passed).context("cannot use the socket that was passed"),
        None => Ok(server::listen(place).await?),
    }
}

/// The host's name, and the lock on it. Whoever has that may be `stokerctl reap`, which is done in a moment.
async fn lock_host(profile: &HostProfile, state: &Path) -> anyhow::Result<(String, lock::Alone)> {
    let host = match &profile.host.name {
        Some(name) => name.clone(),
        None => host_name().context("cannot read the host's name")?,
    };
    let until = clock::now().after(LOCKED_WITHIN);
    let alone = loop {
        match lock::take(&host, state) {
            Err(LockError::InUse(_) | LockError::Taken(_)) if clock::now() < until => sleep(LOCK_AGAIN).await,
            taken => break taken?,
        }
    };
    if alone.is_hollow() {
        tracing::warn!("a stranger has the name of host `{host}`'s lock, going on without it");
    }
    Ok((host, alone))
}

/// What resolves at SIGTERM or SIGINT, and SIGHUP. They are listened to from here on, before anything else: their
/// default is to end the process.
fn signals() -> anyhow::Result<(impl Future<Output = ()>, Signal)> {
    let hang_up = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let told_to_end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok((told_to_end, hang_up))
}

/// The store at work.
struct Memory {
    /// What an earlier daemon wrote.
    first: Input,
    records: Records,
    /// Says why nothing will be written any more.
    damage: oneshot::Receiver<String>,
    last_write: LastWrite,
}

/// Opens the store, reads what an earlier daemon wrote, and starts the thread that writes.
fn remember(
    folder: &Path,
    profile: &HostProfile,
    (host, boot): (&str, &str),
    facts: mpsc::Sender<Input>,
) -> anyhow::Result<Memory> {
    let now = Moment::now(boot);
    let (store, found) = Store::recall(folder, host, &now)?;
    if let Some(aside) = &store.set_aside {
        tracing::error!(
            "the store was damaged and is now `{}`; beginning an empty one, and ending all containers of unknown \
             history",
            aside.display()
        );
    }
    for damaged in &found.damaged {
        tracing::warn!("a record was damaged and moved to the table `aside`: {damaged}");
    }
    let recovered = recover::recovered(found, profile, &now);
    let (damaged, damage) = oneshot::channel();
    let mut damaged = Some(damaged);
    let started = Writer::start(store, boot.to_owned(), move |outcome| {
        // The loop has ended where nobody takes it.
        match outcome {
            Outcome::Written(upto) => drop(facts.blocking_send(Input::Recorded(upto))),
            Outcome::Failed(upto, why) => drop(facts.blocking_send(Input::RecordFailed(upto, why))),
            Outcome::Damaged(why) => drop(damaged.take().map(|damaged| damaged.send(why))),
        }
    });
    let (writer, last_write) = started.context("cannot start the thread that writes records")?;
    let first = Input::Recovered(Box::new(recovered));
    Ok(Memory { first, records: Records::new(writer), damage, last_write })
}

fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname()?;
    name.into_string().map_err(|name| anyhow::anyhow!("`{}` is no text", name.to_string_lossy()))
}
