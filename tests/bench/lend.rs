//! Lending a warm instance against starting one: `POST /v1/leases` on the Unix socket as a client of the API
//! sees it, connecting included, and `docker run -d` of the same image with the same limits.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use stoker::api::wire::{AcquireBody, LeaseBody};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::figure::{Bar, Figure, Runs};
use super::stage::{Stage, built, say_error};
use super::{IMAGE, POOL, WARM, settle, warm};

/// Limits of an instance, for both sides.
pub(crate) const MEMORY_MIB: u32 = 64;
pub(crate) const CPUS: &str = "0.9"; // Much less would slow down the start itself, whoever asks for it.
pub(crate) const PIDS: u32 = 32;
pub(crate) const NOFILE: u32 = 1024;
pub(crate) const SHM_MIB: u32 = 4;
pub(crate) const TMP_MIB: u32 = 4;

/// Every round lends all that is warm. Together they make a hundredth part that is more than one.
const ROUNDS: usize = 15;
/// Starts in each round: some 400 ms each.
const STARTS: usize = 3;
/// Between two questions, so that each finds the daemon asleep, as a lone caller does.
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) async fn figures(stage: &Stage) -> anyhow::Result<Vec<Figure>> {
    say_error(&format!("{ROUNDS} rounds: docker run -d {STARTS} times, then lending {WARM} instances"));
    let (mut lent, mut by_tool, mut started) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for _ in 0..STARTS {
            started.push(docker_run(stage).await?);
        }
        settle().await?;
        let mut leases = Vec::new();
        for at in 0..WARM {
            sleep(PAUSE).await;
            // The last of each round through the tool, as people do.
            if at + 1 < WARM {
                let (lease, took) = acquire(stage).await?;
                leases.push(lease);
                lent.push(took);
            } else {
                let (lease, took) = acquire_by_tool(stage).await?;
                leases.push(lease);
                by_tool.push(took);
            }
        }
        for lease in leases {
            let path = format!("/v1/leases/{lease}/release");
            let _: LeaseBody = stage.client.post(&path, &(), Duration::ZERO).await?;
        }
        if round + 1 < ROUNDS {
            warm(stage).await?;
        }
    }
    let (lent, by_tool) = (Runs::new(lent, "ms")?, Runs::new(by_tool, "ms")?);
    let started = Runs::new(started, "ms")?;
    let against =
        format!("docker run -d by the docker client, same image and limits, {} runs", STARTS * ROUNDS);
    let mut slowest = lent.figure("lending a warm instance: p99");
    slowest.value = lent.percentile(99);
    Ok(vec![
        lent.figure("lending a warm instance").against(&against, started.median()).bar(Bar::Times(200.0)),
        slowest.bar(Bar::Below(2.0)),
        by_tool.figure("stokerctl acquire, its own start included").against(&against, started.median()),
    ])
}

async fn acquire(stage: &Stage) -> anyhow::Result<(String, f64)> {
    let body = AcquireBody { pool: POOL.into(), wait: Some("1s".into()), ..AcquireBody::default() };
    let began = Instant::now();
    let lease: LeaseBody = stage.client.post("/v1/leases", &body, Duration::ZERO).await?;
    let took = millis(began);
    anyhow::ensure!(lease.state == "executing", "the lease is {}", lease.state);
    Ok((lease.id, took))
}

async fn acquire_by_tool(stage: &Stage) -> anyhow::Result<(String, f64)> {
    let mut command = Command::new(built()?.join("stokerctl"));
    command.arg("--socket").arg(stage.stokerd.socket()).args(["acquire", POOL, "--wait", "1s"]);
    let (lease, took) = time(command).await.context("stokerctl acquire")?;
    Ok((lease, took))
}

/// Starts a container as `docker run` does for anybody, and removes it.
async fn docker_run(stage: &Stage) -> anyhow::Result<f64> {
    let limits = [
        ("--memory", format!("{MEMORY_MIB}m")),
        ("--memory-swap", format!("{MEMORY_MIB}m")),
        ("--cpus", CPUS.into()),
        ("--pids-limit", PIDS.to_string()),
        ("--ulimit", format!("nofile={NOFILE}")),
        ("--ulimit", "core=0".into()),
        ("--shm-size", format!("{SHM_MIB}m")),
        ("--tmpfs", format!("/tmp:size={TMP_MIB}m,mode=1777,nosuid,nodev,exec")),
        ("--network", "none".into()),
        ("--cap-drop", "ALL".into()),
        ("--security-opt", "no-new-privileges".into()),
        // So that it is removed whatever happens.
        ("--label", format!("stoker.host={}", stage.host)),
    ];
    let mut command = Command::new("docker");
    command.env("DOCKER_HOST", format!("unix://{}", stage.engine.socket.display()));
    command.args(["run", "-d", "--read-only"]);
    for (name, value) in &limits {
        command.args([name, value.as_str()]);
    }
    command.args([IMAGE, "mode", "never-ready"]);
    let ran = time(command).await;
    let (container, took) = ran.context("docker run -d, for which the docker client is needed")?;
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    stage.engine.client.remove_container(&container, Some(options)).await?;
    Ok(took)
}

/// Runs a program to its end, and returns its one line and how long it took.
async fn time(mut command: Command) -> anyhow::Result<(String, f64)> {
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let ended = spawn_blocking(move || {
        let began = Instant::now();
        command.output().map(|output| (output, millis(began)))
    });
    let (output, took) = ended.await.context("waiting broke")??;
    anyhow::ensure!(output.status.success(), "it failed ({})", output.status);
    Ok((String::from_utf8_lossy(&output.stdout).trim().to_owned(), took))
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
