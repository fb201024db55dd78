//! Reading one container's memory and processor time: the measure room against `docker stats --no-stream`.
//!
//! One container's share is the difference between a look at all of them and a look at none, by their
//! number: the host's own figures are read once a look, however many there are. A whole look at the host and
//! one container is told too.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use nix::time::{ClockId, clock_gettime};
use stoker::control::message::InstanceId;
use stoker::measure::{Measure, Root};
use stoker::quantity;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::figure::{Bar, Figure, Runs};
use super::process::{self, Spent};
use super::settle;
use super::stage::{Stage, say_error};

/// Looks in one run, of which the mean is taken: one takes some microseconds a container.
const LOOKS: u32 = 200;
const RUNS: usize = 30;
/// `docker stats --no-stream` takes two seconds: it waits for a second sample, to know a rate.
const STATS: usize = 10;

/// Seconds that something took, on the wall and of a processor.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

pub(crate) async fn figures(stage: &Stage) -> anyhow::Result<Vec<Figure>> {
    let found = stage.engine.containers_of(&stage.host).await?;
    let ids: Vec<String> = found.iter().filter_map(|container| container.id.clone()).collect();
    let mut instances = Vec::new();
    for container in &found {
        let labels = container.labels.as_ref();
        let name =
            labels.and_then(|labels| labels.get("stoker.instance")).context("a container has no instance")?;
        let id: InstanceId = name.parse().map_err(|()| anyhow::anyhow!("`{name}` is no instance"))?;
        instances.push((id, stage.engine.pid_of(name).await?));
    }
    settle().await?;
    say_error(&format!("reading {} containers, and asking docker stats {STATS} times", instances.len()));
    let (mut none, mut one, mut all) = (looker(&[])?, looker(&instances[..1])?, looker(&instances)?);
    let many = f64::from(u32::try_from(instances.len()).context("too many instances")?);
    let (mut each, mut whole) = (Vec::new(), Vec::new());
    let mut stats = Vec::new();
    let engine = Engine::of(stage).await?;
    let spent = engine.spent()?;
    // In turns, so that a busy moment hits both.
    for at in 0..STATS {
        for _ in 0..RUNS / STATS {
            let (without, with_one, with_all) = (look(&mut none), look(&mut one), look(&mut all));
            let share = |all: f64, none: f64| (all - none) / many * 1e6;
            each.push((share(with_all.wall, without.wall), share(with_all.cpu, without.cpu)));
            whole.push((with_one.wall * 1e6, with_one.cpu * 1e6));
        }
        stats.push(docker_stats(stage, &ids[at % ids.len()]).await?);
    }
    let engine_cpu = engine.seconds_since(&spent)? - engine.idle_seconds(&stats).await?;
    figures_of(&each, &whole, &stats, &Engine { cpu: engine_cpu.max(0.0), ..engine })
}

fn figures_of(
    each: &[(f64, f64)],
    whole: &[(f64, f64)],
    stats: &[Cost],
    engine: &Engine,
) -> anyhow::Result<Vec<Figure>> {
    let runs = |side: &[(f64, f64)], wall: bool| {
        Runs::new(side.iter().map(|(w, c)| if wall { *w } else { *c }).collect(), "µs")
    };
    let stats_wall = Runs::new(stats.iter().map(|cost| cost.wall * 1e6).collect(), "µs")?.median();
    let times = stats.len() as f64;
    let stats_cpu = (stats.iter().map(|cost| cost.cpu).sum::<f64>() + engine.cpu) / times * 1e6;
    let wall = format!("docker stats --no-stream of one container, {} runs", stats.len());
    let cpu = format!("the same: its client and {}, mean", engine.names);
    Ok(vec![
        runs(each, true)?
            .figure("reading one container: time")
            .against(&wall, stats_wall)
            .bar(Bar::Times(1000.0)),
        runs(each, false)?
            .figure("reading one container: processor time")
            .against(&cpu, stats_cpu)
            .bar(Bar::Times(1000.0)),
        runs(whole, true)?.figure("reading the host and one container: time").against(&wall, stats_wall),
        runs(whole, false)?
            .figure("reading the host and one container: processor time")
            .against(&cpu, stats_cpu),
    ])
}

/// The room as the daemon uses it, following these.
fn looker(instances: &[(InstanceId, u32)]) -> anyhow::Result<(Measure, quantity::Instant)> {
    let mut measure = Measure::new(Root::host());
    for (instance, pid) in instances {
        measure.follow(*instance, *pid)?;
    }
    Ok((measure, quantity::Instant::from_nanos(0)))
}

/// Looks some times, and tells what one look took.
fn look((measure, now): &mut (Measure, quantity::Instant)) -> Cost {
    let (began, cpu) = (Instant::now(), thread_seconds());
    for _ in 0..LOOKS {
        *now = now.after(Duration::from_secs(1));
        let sample = std::hint::black_box(measure.sample(*now));
        assert!(sample.instances.values().all(|seen| seen.memory.is_ok()), "a container cannot be read");
    }
    let looks = f64::from(LOOKS);
    Cost { wall: began.elapsed().as_secs_f64() / looks, cpu: (thread_seconds() - cpu) / looks }
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    Duration::from(time).as_secs_f64()
}

async fn docker_stats(stage: &Stage, container: &str) -> anyhow::Result<Cost> {
    let mut command = Command::new("docker");
    command.env("DOCKER_HOST", format!("unix://{}", stage.engine.socket.display()));
    command.args(["stats", "--no-stream", container]).stdin(Stdio::null()).stdout(Stdio::null());
    let (began, cpu) = (Instant::now(), process::of_children()?);
    let status = spawn_blocking(move || command.status()).await.context("waiting broke")?;
    let status = status.context("docker stats needs the docker client (apt-get install docker.io)")?;
    anyhow::ensure!(status.success(), "docker stats failed");
    Ok(Cost { wall: began.elapsed().as_secs_f64(), cpu: process::of_children()? - cpu })
}

/// The processes of the engine that answer `docker stats`.
#[derive(Debug)]
struct Engine {
    pids: Vec<u32>,
    names: String,
    cpu: f64,
}

impl Engine {
    /// The one that listens on the engine's socket, and the containerd that it uses.
    async fn of(stage: &Stage) -> anyhow::Result<Engine> {
        let peer = UnixStream::connect(&stage.engine.socket).await?.peer_cred()?;
        let dockerd =
            peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| process::is(*pid, "dockerd"));
        let Some(dockerd) = dockerd else {
            // With a socket of systemd's own, for one.
            return Ok(Engine {
                pids: Vec::new(),
                names: "nothing of the engine (unknown pid)".into(),
                cpu: 0.0,
            });
        };
        let all = process::named("containerd");
        let own: Vec<u32> = all
            .iter()
            .copied()
            .filter(|pid| process::parent_of(*pid).is_ok_and(|parent| parent == dockerd))
            .collect();
        let containerd = if own.is_empty() && all.len() == 1 { all } else { own };
        let names = if containerd.is_empty() { "dockerd" } else { "dockerd and containerd" }.into();
        Ok(Engine { pids: [vec![dockerd], containerd].concat(), names, cpu: 0.0 })
    }

    fn spent(&self) -> anyhow::Result<Vec<Spent>> {
        self.pids.iter().map(|pid| Spent::of(*pid)).collect()
    }

    fn seconds_since(&self, before: &[Spent]) -> anyhow::Result<f64> {
        Ok(self.spent()?.iter().zip(before).map(|(now, then)| now.seconds_since(*then)).sum())
    }

    /// What it would have taken in the same time if nobody had asked.
    async fn idle_seconds(&self, stats: &[Cost]) -> anyhow::Result<f64> {
        let before = self.spent()?;
        let time: f64 = stats.iter().map(|cost| cost.wall).sum();
        sleep(Duration::from_secs_f64(time)).await;
        self.seconds_since(&before)
    }
}
