//! The verbs of operators: the host, its pools, and drains.

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, interval, timeout};

use super::{Drain, Progress, Tool, exit, look, say};
use crate::api::client::{ClientError, path};
use crate::api::wire::{DrainAnswer, DrainBody, HostBody, Leases, PoolBody, Pools, Providers, Reloaded};

/// How long after its window a drain is waited for that cannot be looked at.
const BEYOND_WINDOW: Duration = Duration::from_secs(60);
/// Between two looks at what is being waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

impl Tool {
    pub(super) async fn status(&self) -> anyhow::Result<ExitCode> {
        let host: HostBody = self.client.get("/v1/host").await?;
        let pools: Pools = self.client.get("/v1/pools").await?;
        let leases: Leases = self.client.get("/v1/leases").await?;
        let live: Vec<_> = leases.leases.into_iter().filter(|lease| lease.reason.is_none()).collect();
        let answer = serde_json::json!({ "host": host, "pools": pools.pools, "leases": live });
        self.print(&answer, |_| {
            format!("{}\n{}\n{}", look::host(&host), look::pools(&pools.pools), look::leases(&live))
        })
    }

    pub(super) async fn pools(&self) -> anyhow::Result<ExitCode> {
        let pools: Pools = self.client.get("/v1/pools").await?;
        self.print(&pools, |all| look::pools(&all.pools))
    }

    pub(super) async fn providers(&self) -> anyhow::Result<ExitCode> {
        let providers: Providers = self.client.get("/v1/providers").await?;
        self.print(&providers, |all| look::providers(&all.providers))
    }

    /// Whether all is warm; with a wait, also until a daemon that is just starting answers at all.
    pub(super) async fn ready(&self, wait: Option<Duration>) -> anyhow::Result<ExitCode> {
        let mut progress = Progress::default();
        let mut last = String::from("nothing was heard");
        let become_ready = async {
            let mut again = interval(LOOK_AGAIN);
            loop {
                again.tick().await;
                let host = match self.client.get::<HostBody>("/v1/host").await {
                    Err(error @ ClientError::Unreachable { .. }) if wait.is_some() => {
                        last = error.to_string();
                        progress.show(&last);
                        continue;
                    }
                    answer => answer?,
                };
                let pools: Pools = self.client.get("/v1/pools").await?;
                last = match &host.engine.detail {
                    Some(why) => format!("the engine does not answer: {why}"),
                    None => look::warming(&pools.pools),
                };
                if host.ready || wait.is_none() {
                    return Ok::<_, anyhow::Error>(host);
                }
                progress.show(&format!("warming up: {last}"));
            }
        };
        let reached = timeout(wait.unwrap_or(Duration::MAX), become_ready).await;
        progress.end();
        let Ok(host) = reached else {
            say(&format!("stokerctl: not ready in time: {last}"));
            return Ok(ExitCode::from(exit::TRY_LATER));
        };
        let host = host?;
        let said = if host.ready { "ready\n".into() } else { format!("not ready: {last}\n") };
        self.print(&host, |_| said)?;
        Ok(if host.ready { ExitCode::SUCCESS } else { ExitCode::from(exit::TRY_LATER) })
    }

    pub(super) async fn drain(&self, drain: Drain) -> anyhow::Result<ExitCode> {
        let window = Some(humantime::format_duration(drain.window).to_string());
        let body = DrainBody { window, for_now: drain.for_now };
        let path = place(drain.pool.as_deref());
        let answer: serde_json::Value =
            self.client.post(&format!("{path}/drain"), &body, Duration::ZERO).await?;
        if !drain.wait {
            return self.print(&answer, |_| "draining; `stokerctl undrain` takes it back\n".into());
        }
        let mut progress = Progress::default();
        let mut again = interval(LOOK_AGAIN);
        let patience = Instant::now() + drain.window + BEYOND_WINDOW;
        loop {
            again.tick().await;
            let look = match self.drain_at(drain.pool.as_deref()).await {
                // The drain goes on whether or not it can be looked at, and whoever waits for it must not stop too soon.
                Err(error) if Instant::now() < patience => {
                    progress.show(&format!("draining: {error:#}"));
                    continue;
                }
                look => look?,
            };
            let Some(now) = look else {
                progress.end();
                say("the drain was taken back");
                return Ok(ExitCode::FAILURE);
            };
            if now.instances == 0 {
                progress.end();
                return self.print(&now, |_| "drained: nothing is left\n".into());
            }
            let leases = match now.leases {
                0 => String::new(),
                many => format!(
                    "{many} leases, interrupted in {}, ",
                    look::millis(now.interrupts_in_ms / 1000 * 1000)
                ),
            };
            progress.show(&format!("draining: {leases}{} instances left", now.instances));
        }
    }

    pub(super) async fn undrain(&self, pool: Option<&str>) -> anyhow::Result<ExitCode> {
        let path = place(pool);
        let answer: serde_json::Value =
            self.client.post(&format!("{path}/undrain"), &(), Duration::ZERO).await?;
        self.print(&answer, |_| "takes work again\n".into())
    }

    /// Returns when the new profile holds. One with mistakes changes nothing, and its report is the error.
    pub(super) async fn reload(&self) -> anyhow::Result<ExitCode> {
        let done: Reloaded = self.client.post("/v1/reload", &(), Duration::ZERO).await?;
        self.print(&done, |done| look::changes(&done.changes))
    }

    async fn drain_at(&self, pool: Option<&str>) -> anyhow::Result<Option<DrainAnswer>> {
        let path = place(pool);
        Ok(match pool {
            Some(_) => self.client.get::<PoolBody>(&path).await?.drain,
            None => self.client.get::<HostBody>(&path).await?.drain,
        })
    }
}

fn place(pool: Option<&str>) -> String {
    pool.map_or_else(|| path(&["host"]), |pool| path(&["pools", pool]))
}
