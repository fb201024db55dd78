//! What stokerd itself takes while it keeps instances warm and nobody asks.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::figure::{Bar, Figure, Runs};
use super::process::{Spent, resident_mib};
use super::stage::{Stage, say_error};
use super::{WARM, settle};

/// Long enough for two of its full listings of the engine, which come every 15 seconds.
const WINDOW: Duration = Duration::from_secs(10);
const WINDOWS: usize = 6;

pub(crate) async fn figures(stage: &Stage) -> anyhow::Result<Vec<Figure>> {
    settle().await?;
    let pid = stage.stokerd.pid();
    say_error(&format!("watching stokerd for {} s", WINDOW.as_secs() * WINDOWS as u64));
    let (mut busy, mut resident) = (Vec::new(), Vec::new());
    let (begun, spent) = (Instant::now(), Spent::of(pid)?);
    let mut before = spent;
    for _ in 0..WINDOWS {
        let began = Instant::now();
        sleep(WINDOW).await;
        let now = Spent::of(pid)?;
        busy.push(now.seconds_since(before) / began.elapsed().as_secs_f64() * 100.0);
        resident.push(resident_mib(pid)?);
        before = now;
    }
    let whole = Spent::of(pid)?.seconds_since(spent) / begun.elapsed().as_secs_f64() * 100.0;
    let mut busy = Runs::new(busy, "%")?.figure(format!("stokerd, idle with {WARM} warm: share of one core"));
    // The whole time and not the median: its listings fall into some windows only.
    busy.value = whole;
    let resident =
        Runs::new(resident, "MiB")?.figure(format!("stokerd, idle with {WARM} warm: resident memory"));
    Ok(vec![resident.bar(Bar::Below(25.0)), busy.bar(Bar::Below(1.0))])
}
