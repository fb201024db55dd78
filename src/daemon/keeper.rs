//! One task for each instance, from the order to start until its container is gone.
//!
//! ```text
//! create -> start -> open its door -> probe until it answers -> watch its first process
//!    \________\____________\___________________\_______________________\______> stop, remove
//!        find ---/ (one that an earlier daemon made)
//! ```
//!
//! Because one task does all of it, no two engine calls on one instance ever run at once, and a stop waits
//! for a create that is under way instead of missing the container it makes. Only the probing is cut short.
//! It reports facts and decides nothing; it ends when nothing of the instance is left.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::World;
use super::clock;
use super::hear::{Ears, Hearing};
use super::look::Eyes;
use crate::control::message::{Exit, Input, InstanceId, LeaseId, News, Process, StartFailure};
use crate::docker::{Docker, DockerError, Running};
use crate::gateway::{DoorKeeper, Expected, chain};
use crate::netns::Target;
use crate::profile::{Pool, PoolName, Probe};
use crate::quantity::{Bytes, Instant};

/// Between two tries of a probe: a browser becomes ready within some hundred milliseconds.
const PROBE_AGAIN: Duration = Duration::from_millis(50);
/// A probe command that takes longer than this counts as not answered, and is tried again.
const PROBE_COMMAND: Duration = Duration::from_secs(5);
/// From a process's letting go of its namespaces to its end lie milliseconds, on a host that swaps some more.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
/// Between two tries to stop something while the engine is away, as long as between two tries to reach it.
const STOP_AGAIN: Duration = Duration::from_secs(1);
/// Between two tries to find an instance that an earlier daemon made, while the engine does not say.
const FIND_AGAIN: Duration = Duration::from_secs(1);
/// Orders to stop that one task may not have taken yet; more say nothing new.
const STOPS: usize = 4;

/// An order to stop: time between the polite signal and the kill.
type Grace = Duration;

/// All tasks that keep an instance.
#[derive(Debug)]
pub(super) struct Keepers {
    world: World,
    stops: BTreeMap<InstanceId, mpsc::Sender<Grace>>,
    ears: Ears,
}

impl Keepers {
    /// None yet; `state` is the folder in which it is written down how far instances were heard.
    pub(super) fn new(world: World, state: &Path) -> Keepers {
        Keepers { world, stops: BTreeMap::new(), ears: Ears::new(state) }
    }

    /// Makes an instance, and keeps it.
    pub(super) fn start(&mut self, instance: InstanceId, name: PoolName, pool: Arc<Pool>, deadline: Instant) {
        let (sender, stops) = mpsc::channel(STOPS);
        self.stops.insert(instance, sender);
        let hearing = self.ears.open(instance, &name, &pool);
        let keeper = Keeper { world: self.world.clone(), instance, hearing };
        tokio::spawn(async move { keeper.keep(name, pool, deadline, stops).await });
    }

    /// This instance serves that lease from here on.
    pub(super) fn lent(&self, instance: InstanceId, lease: &LeaseId) {
        self.ears.lent(instance, lease);
    }

    /// Takes over an instance that an earlier daemon made, and keeps it.
    pub(super) fn adopt(
        &mut self,
        instance: InstanceId,
        name: &PoolName,
        pool: Arc<Pool>,
        process: Option<Process>,
    ) {
        let (sender, stops) = mpsc::channel(STOPS);
        self.stops.insert(instance, sender);
        let hearing = self.ears.open_again(instance, name, &pool);
        let keeper = Keeper { world: self.world.clone(), instance, hearing };
        let expected = self.world.gateway.expect(instance);
        tokio::spawn(async move { keeper.take_over(&pool, process, expected, stops).await });
    }

    /// Stops and removes an instance, also one that nobody here knows.
    pub(super) fn stop(&mut self, instance: InstanceId, grace: Grace) {
        self.stops.retain(|_, sender| !sender.is_closed());
        self.ears.forget(instance);
        let sender = self.stops.entry(instance).or_insert_with(|| {
            let (sender, stops) = mpsc::channel(STOPS);
            let keeper = Keeper { world: self.world.clone(), instance, hearing: None };
            tokio::spawn(async move { keeper.end(stops, None).await });
            sender
        });
        // A full channel has enough orders; a closed one belongs to a task that has just seen it go.
        let _ = sender.try_send(grace);
    }

    /// Asks the kernel for memory of an idle instance.
    pub(super) fn reclaim(&self, instance: InstanceId) {
        self.world.eyes.reclaim(instance);
    }

    /// Asks a warm instance whether it still answers.
    pub(super) fn probe(&self, instance: InstanceId, probe: &Probe) {
        let Probe::DevTools { port } = *probe else {
            return; // The first process of a sandbox is watched; its command is asked only at the start.
        };
        let world = self.world.clone();
        tokio::spawn(async move {
            let answered = world.gateway.devtools_answers(instance, port).await.is_ok();
            world.tell(Input::Instance(instance, News::Probed(answered))).await;
        });
    }
}

#[derive(Debug)]
struct Keeper {
    world: World,
    instance: InstanceId,
    /// How what it writes comes to the journal, where it does.
    hearing: Option<Hearing>,
}

/// What there is of an instance that runs; dropping it closes the door and stops the measuring.
#[derive(Debug)]
struct Alive {
    running: Running,
    _door: DoorKeeper,
    _measured: Measured,
}

#[derive(Debug)]
struct Measured(Eyes, InstanceId);

impl Drop for Measured {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

impl Keeper {
    async fn keep(
        &self,
        name: PoolName,
        pool: Arc<Pool>,
        deadline: Instant,
        mut stops: mpsc::Receiver<Grace>,
    ) {
        let Some(docker) = self.world.engine.get() else {
            let why = "the container engine is not connected".into();
            self.say(News::StartFailed(StartFailure::Engine(why))).await;
            return self.end(stops, None).await;
        };
        // Never cut short: a create whose caller has left goes on in the engine.
        let alive = match self.make(&docker, &name, &pool).await {
            Ok(alive) => alive,
            Err(failure) => {
                self.say(News::StartFailed(failure)).await;
                return self.end(stops, None).await;
            }
        };
        let ready = tokio::select! {
            ready = self.probe_until_ready(&docker, &alive, &pool, deadline) => ready,
            grace = stops.recv() => {
                drop(alive);
                return self.end(stops, grace).await;
            }
        };
        self.say(ready.map_or_else(News::StartFailed, |()| News::Ready)).await;
        self.watch(&docker, alive, stops).await;
    }

    /// Watches its first process until that or somebody ends it.
    async fn watch(&self, docker: &Docker, alive: Alive, mut stops: mpsc::Receiver<Grace>) {
        let first = tokio::select! {
            exit = self.death(docker, &alive) => {
                self.say(News::Exited(exit)).await;
                None
            }
            grace = stops.recv() => {
                // What it held at last says what such a one needs.
                self.world.eyes.look_at(self.instance).await;
                grace
            }
        };
        drop(alive);
        self.end(stops, first).await;
    }

    /// Waits for the end of its first process. What the kernel had to do with it is looked at first: its cgroup does not
    /// last as long as it takes the engine to say how the process ended.
    async fn death(&self, docker: &Docker, alive: &Alive) -> Exit {
        alive.running.ended().await;
        self.world.eyes.look_at(self.instance).await;
        docker.died(&alive.running).await
    }

    async fn take_over(
        &self,
        pool: &Pool,
        process: Option<Process>,
        expected: Expected,
        mut stops: mpsc::Receiver<Grace>,
    ) {
        let found = tokio::select! {
            found = self.find(process) => found,
            grace = stops.recv() => {
                drop(expected);
                return self.end(stops, grace).await;
            }
        };
        drop(expected);
        let (docker, alive) = match found {
            Ok(found) => found,
            Err(news) => {
                self.say(news).await;
                return self.end(stops, None).await;
            }
        };
        tokio::select! {
            () = self.answers(pool) => self.say(News::Ready).await,
            exit = self.death(&docker, &alive) => {
                self.say(News::Exited(exit)).await;
                drop(alive);
                return self.end(stops, None).await;
            }
            grace = stops.recv() => {
                drop(alive);
                return self.end(stops, grace).await;
            }
        }
        self.watch(&docker, alive, stops).await;
    }

    /// Finds its container and opens its door, for as long as it takes the engine to say; or what became of it.
    async fn find(&self, process: Option<Process>) -> Result<(Docker, Alive), News> {
        loop {
            let docker = self.world.engine.wait().await;
            match self.find_once(&docker, process).await {
                Ok(Some(alive)) => return Ok((docker, alive)),
                Ok(None) => return Err(News::Gone),
                Err(StartFailure::Died(exit)) => return Err(News::Exited(exit)),
                // It is there or not whatever the engine says now: who asked for it gives up when it will.
                Err(_) => sleep(FIND_AGAIN).await,
            }
        }
    }

    async fn find_once(
        &self,
        docker: &Docker,
        process: Option<Process>,
    ) -> Result<Option<Alive>, StartFailure> {
        let Some(container) = docker.container_of(self.instance).await.map_err(failure)? else {
            return Ok(None);
        };
        let running = docker.running(&container).await.map_err(failure)?;
        if process.is_some_and(|process| process != running.process()) {
            // Somebody has started it anew: what ran in it is gone.
            return Err(StartFailure::Died(Exit { code: None }));
        }
        self.open(docker, running).await.map(Some)
    }

    /// Resolves when it answers. A sandbox answered its probe command when it was started, and a command in it would
    /// run beside its caller's.
    async fn answers(&self, pool: &Pool) {
        match pool.template.probe {
            Probe::DevTools { port } => {
                while self.world.gateway.devtools_answers(self.instance, port).await.is_err() {
                    sleep(PROBE_AGAIN).await;
                }
            }
            Probe::Command(_) => {}
        }
    }

    /// Creates and starts the container, and opens its door.
    async fn make(&self, docker: &Docker, name: &PoolName, pool: &Pool) -> Result<Alive, StartFailure> {
        let container = docker.create(self.instance, name, pool).await.map_err(failure)?;
        self.say(News::Created).await;
        let running = docker.start(&container).await.map_err(failure)?;
        self.open(docker, running).await
    }

    /// Opens the door of a container whose first process runs, and has it measured.
    async fn open(&self, docker: &Docker, running: Running) -> Result<Alive, StartFailure> {
        let target = Target::of(running.pid());
        // A process that is ending lets go of its namespaces a moment before it can be seen to have ended.
        let leaving = target.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if leaving && let Ok(exit) = timeout(LEAVE_WITHIN, docker.died(&running)).await {
            return Err(StartFailure::Died(exit));
        }
        // Whatever was opened by the pid of a process that runs still is that process's.
        if running.has_ended() {
            return Err(StartFailure::Died(docker.died(&running).await));
        }
        let refused = |error| StartFailure::Engine(format!("cannot hold its network namespace: {error}"));
        let target = target.map_err(refused)?;
        self.say(News::Started(running.process())).await;
        self.world.eyes.follow(self.instance, running.pid());
        let measured = Measured(self.world.eyes.clone(), self.instance);
        if let Some(hearing) = &self.hearing {
            hearing.begin(&self.world.lines, docker, &running);
        }
        let container = running.container().clone();
        let door = self.world.gateway.open(self.instance, docker.clone(), container, target);
        Ok(Alive { running, _door: door, _measured: measured })
    }

    async fn probe_until_ready(
        &self,
        docker: &Docker,
        alive: &Alive,
        pool: &Pool,
        deadline: Instant,
    ) -> Result<(), StartFailure> {
        let mut last = String::from("it was not asked");
        while clock::now() < deadline {
            if alive.running.has_ended() {
                return Err(StartFailure::Died(self.death(docker, alive).await));
            }
            match self.probe_once(docker, alive, &pool.template.probe).await {
                Ok(()) => return Ok(()),
                Err(why) => last = why,
            }
            sleep(PROBE_AGAIN).await;
        }
        let limit = crate::quantity::show_duration(pool.deadlines.start_timeout);
        Err(StartFailure::NotReady(format!("not ready within start_timeout, {limit}: {last}")))
    }

    async fn probe_once(&self, docker: &Docker, alive: &Alive, probe: &Probe) -> Result<(), String> {
        match probe {
            Probe::DevTools { port } => {
                let asked = self.world.gateway.devtools_answers(self.instance, *port).await;
                asked.map_err(|error| chain(&error))
            }
            Probe::Command(command) => {
                let order = crate::docker::Exec {
                    command: command.clone(),
                    env: BTreeMap::new(),
                    cwd: None,
                    stdin: Vec::new(),
                    limit: Bytes::new(4096),
                    timeout: PROBE_COMMAND,
                };
                match docker.exec(alive.running.container(), &order).await {
                    Ok(ran) if ran.exit_code == Some(0) => Ok(()),
                    Ok(ran) if ran.timed_out => Err("its probe command did not end".into()),
                    Ok(ran) => {
                        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
                        let code =
                            ran.exit_code.map_or("no exit code".into(), |code| format!("exit code {code}"));
                        Err(format!("its probe command ended with {code}: {said}"))
                    }
                    Err(error) => Err(chain(&error)),
                }
            }
        }
    }

    /// Waits for an order to stop, if there is none yet, and carries out each until nothing is left.
    async fn end(&self, mut stops: mpsc::Receiver<Grace>, first: Option<Grace>) {
        let mut next = first;
        loop {
            let Some(grace) = (match next.take() {
                Some(grace) => Some(grace),
                None => stops.recv().await,
            }) else {
                return; // The daemon is ending; the instance lives on.
            };
            let result = self.stop(grace).await;
            match result {
                Ok(()) => {
                    stops.close();
                    return self.say(News::Gone).await;
                }
                Err(why) => self.say(News::StopFailed(why)).await,
            }
        }
    }

    /// Stops and removes what there is. While the engine is away nothing can be known, so it is asked again; any
    /// other failure is the controller's to judge.
    async fn stop(&self, grace: Grace) -> Result<(), String> {
        loop {
            let docker = self.world.engine.wait().await;
            match docker.stop_and_remove(self.instance, grace).await {
                Err(error) if error.is_unreachable() => sleep(STOP_AGAIN).await,
                stopped => return stopped.map_err(|error| chain(&error)),
            }
        }
    }

    async fn say(&self, news: News) {
        self.world.tell(Input::Instance(self.instance, news)).await;
    }
}

fn failure(error: DockerError) -> StartFailure {
    match error {
        DockerError::ImageMissing { image } => StartFailure::ImageMissing(image),
        DockerError::Ended { exit, .. } => StartFailure::Died(exit),
        DockerError::Unreachable { .. }
        | DockerError::Timeout { .. }
        | DockerError::Conflict { .. }
        | DockerError::Refused { .. }
        | DockerError::Undecodable { .. }
        | DockerError::Unfit { .. }
        | DockerError::Foreign { .. }
        | DockerError::Unwatchable { .. }
        | DockerError::StillThere { .. }
        | DockerError::EventsEnded => StartFailure::Engine(chain(&error)),
    }
}
