//! `kill -9` with a hundred live containers: how soon the next stokerd answers for all of them, and how soon it has each
//! in hand again. From the start of its process; last, as it ends the daemon that the others measure.

use std::time::Duration;

use anyhow::Context;
use stoker::api::wire::{AcquireBody, HostBody, LeaseBody, Leases, PoolBody};
use tokio::time::{Instant, sleep, timeout};

use super::figure::{Bar, Figure, Runs};
use super::stage::{Stage, say_error};
use super::{CROWD, POOL, WARM, settle};

/// So many are lent, and with the warm ones there are a hundred.
pub(crate) const LENT: usize = 100 - WARM;
const KILLS: usize = 5;
/// Eighty cold starts, four at once, on a busy machine.
const LENT_WITHIN: Duration = Duration::from_secs(180);
const BACK_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub(crate) async fn figures(stage: &Stage) -> anyhow::Result<Vec<Figure>> {
    say_error(&format!("lending {LENT} more, then killing stokerd {KILLS} times"));
    for _ in 0..LENT {
        let body = AcquireBody { pool: CROWD.into(), asynchronous: true, ..AcquireBody::default() };
        let _: LeaseBody = stage.client.post("/v1/leases", &body, Duration::ZERO).await?;
    }
    let lent = async {
        while executing(stage).await? < LENT {
            sleep(Duration::from_millis(200)).await;
        }
        anyhow::Ok(())
    };
    timeout(LENT_WITHIN, lent).await.context("not all could be lent in time")??;
    let (mut serving, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..KILLS {
        settle().await?;
        stage.stokerd.kill_and_start()?;
        let began = Instant::now();
        let back = async {
            while executing(stage).await.unwrap_or(0) < LENT {
                sleep(LOOK_AGAIN).await;
            }
            serving.push(began.elapsed().as_secs_f64() * 1e3);
            while !all_in_hand(stage).await? {
                sleep(LOOK_AGAIN).await;
            }
            whole.push(began.elapsed().as_secs_f64() * 1e3);
            anyhow::Ok(())
        };
        timeout(BACK_WITHIN, back).await.context("stokerd did not come back in time")??;
    }
    let serving = Runs::new(serving, "ms")?.figure("serving again after SIGKILL, 100 live containers");
    let whole = Runs::new(whole, "ms")?.figure("after SIGKILL: every warm one of 100 found and lendable");
    Ok(vec![serving.bar(Bar::Below(500.0)), whole.bar(Bar::Below(500.0))])
}

/// How many of the crowd are lent.
async fn executing(stage: &Stage) -> anyhow::Result<usize> {
    let all: Leases = stage.client.get("/v1/leases").await?;
    Ok(all.leases.iter().filter(|lease| lease.pool == CROWD && lease.state == "executing").count())
}

/// Whether the engine answers and each warm one has been found again.
async fn all_in_hand(stage: &Stage) -> anyhow::Result<bool> {
    let host: HostBody = stage.client.get("/v1/host").await?;
    let pool: PoolBody = stage.client.get(&format!("/v1/pools/{POOL}")).await?;
    Ok(host.engine.reachable && pool.warm as usize == WARM && pool.starting == 0)
}
