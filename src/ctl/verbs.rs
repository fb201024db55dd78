//! The verbs of callers: leases and what is done with them.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::time::{interval, sleep};

use super::{Acquire, Exec, Progress, Tool, exit, look, put, say};
use crate::api::client::{ClientError, path};
use crate::api::wire::{AcquireBody, ExecAnswer, ExecBody, HoldBody, LeaseBody, Leases, PoolBody, RenewBody};
use crate::quantity::show_duration;

/// A wait that takes longer than this is explained while it lasts.
const EXPLAIN_AFTER: Duration = Duration::from_secs(1);
/// The longest that any class may let a request wait; see the profile's `max_wait`.
const WAIT_MOST: Duration = Duration::from_secs(24 * 3600);
/// The API reads bodies up to 4 MiB; JSON may need a third more than the text itself.
const STDIN_MOST: u64 = 3 << 20;

impl Tool {
    pub(super) async fn acquire(&self, acquire: Acquire) -> anyhow::Result<ExitCode> {
        let text = |duration: Option<Duration>| duration.map(|d| humantime::format_duration(d).to_string());
        let body = AcquireBody {
            pool: acquire.pool.clone(),
            class: acquire.class,
            task_id: acquire.task_id,
            wait: text(acquire.wait),
            asynchronous: acquire.asynchronous,
            max_runtime: text(acquire.max_runtime),
            idle_timeout: text(acquire.idle_timeout),
        };
        let wait = acquire.wait.unwrap_or(WAIT_MOST);
        let asked = self.client.post::<_, LeaseBody>("/v1/leases", &body, wait);
        let lease = tokio::select! {
            lease = asked => lease?,
            never = self.explain_wait(&acquire.pool) => match never {},
        };
        if !self.json {
            if let Some(asked) = &lease.degraded_from {
                say(&format!("stokerctl: {}", look::sent_on(asked, &lease.pool)));
            }
            let waited = look::millis(lease.waited_ms);
            say(&match lease.instance {
                Some(_) => format!("granted after {waited}; `stokerctl release {}` gives it back", lease.id),
                None => format!("{}; `stokerctl show {}` tells how it goes", lease.state, lease.id),
            });
        }
        self.print(&lease, |lease| format!("{}\n", lease.id))
    }

    /// While a request waits: how its pool stands, whenever that changes.
    async fn explain_wait(&self, pool: &str) -> std::convert::Infallible {
        sleep(EXPLAIN_AFTER).await;
        let mut progress = Progress::default();
        let mut again = interval(EXPLAIN_AFTER);
        loop {
            again.tick().await;
            // How it stands is only for the eye: the wait itself says what went wrong.
            if let Ok(pool) = self.client.get::<PoolBody>(&path(&["pools", pool])).await {
                let blocked = pool.blocked_by.map_or(String::new(), |limit| format!(": {}", limit.detail));
                let (queued, starting, leased) = (pool.queued, pool.starting, pool.leased);
                progress.show(&format!(
                    "waiting: {queued} queued, {starting} starting, {leased} leased{blocked}"
                ));
            }
        }
    }

    /// Releases or cancels; all are tried, and the first that failed decides the end.
    pub(super) async fn end_all(&self, leases: &[String], verb: &str) -> anyhow::Result<ExitCode> {
        let mut ended = Vec::new();
        let mut failed = None;
        for lease in leases {
            let path = path(&["leases", lease, verb]);
            match self.client.post::<_, LeaseBody>(&path, &(), Duration::ZERO).await {
                Ok(lease) => ended.push(lease),
                Err(error) if failed.is_none() => failed = Some(error),
                Err(error) => say(&format!("{lease}: {error}")),
            }
        }
        let leases = Leases { leases: ended };
        self.print(&leases, |all| {
            all.leases.iter().map(|lease| format!("{} {}\n", lease.id, lease.state)).collect()
        })?;
        failed.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
    }

    pub(super) async fn renew(&self, lease: &str, by: Duration) -> anyhow::Result<ExitCode> {
        let body = RenewBody { by: humantime::format_duration(by).to_string() };
        let path = path(&["leases", lease, "renew"]);
        let lease: LeaseBody = self.client.post(&path, &body, Duration::ZERO).await?;
        self.print(&lease, |lease| {
            format!("{} ends in {}\n", lease.id, look::millis(lease.ends_in_ms.unwrap_or(0)))
        })
    }

    pub(super) async fn hold(
        &self,
        lease: &str,
        reason: String,
        lasting: Option<Duration>,
    ) -> anyhow::Result<ExitCode> {
        let body = HoldBody { reason, lasting: lasting.map(|it| humantime::format_duration(it).to_string()) };
        let lease: LeaseBody =
            self.client.post(&path(&["leases", lease, "hold"]), &body, Duration::ZERO).await?;
        self.print(&lease, |lease| {
            let ends = look::millis(lease.ends_in_ms.unwrap_or(0));
            format!("{} {}, ends in {ends} unless it is resumed\n", lease.id, lease.state)
        })
    }

    pub(super) async fn resume(&self, lease: &str) -> anyhow::Result<ExitCode> {
        let lease: LeaseBody =
            self.client.post(&path(&["leases", lease, "resume"]), &(), Duration::ZERO).await?;
        self.print(&lease, |lease| format!("{} {}\n", lease.id, lease.state))
    }

    pub(super) async fn leases(&self) -> anyhow::Result<ExitCode> {
        let all: Leases = self.client.get("/v1/leases").await?;
        self.print(&all, |all| look::leases(&all.leases))
    }

    pub(super) async fn show(&self, name: &str) -> anyhow::Result<ExitCode> {
        let mut last = None;
        for place in [path(&["leases", name]), path(&["pools", name])] {
            match self.client.get::<serde_json::Value>(&place).await {
                Ok(thing) => return self.print(&thing, look::fields),
                Err(ClientError::Refused(problem)) if problem.status == 404 => last = Some(problem),
                Err(error) => return Err(error.into()),
            }
        }
        let problem = last.expect("two places were looked at");
        Err(anyhow::Error::from(ClientError::Refused(problem))
            .context(format!("`{name}` is no lease, and no pool")))
    }

    pub(super) async fn exec(&self, exec: Exec) -> anyhow::Result<ExitCode> {
        let body = ExecBody {
            command: exec.command,
            env: exec.env.into_iter().collect(),
            cwd: exec.cwd,
            stdin: if exec.stdin { read_stdin()? } else { String::new() },
            timeout: Some(humantime::format_duration(exec.timeout).to_string()),
        };
        let path = path(&["leases", &exec.lease, "exec"]);
        let answer: ExecAnswer = self.client.post(&path, &body, exec.timeout).await?;
        if self.json {
            self.print(&answer, |_| String::new())?;
        } else {
            put(&answer.stdout)?;
            eprint_raw(&answer.stderr);
            for (name, cut) in
                [("output", answer.stdout_truncated), ("error output", answer.stderr_truncated)]
            {
                if cut {
                    say(&format!("stokerctl: the rest of its standard {name} was dropped"));
                }
            }
        }
        if answer.timed_out {
            say(&format!("stokerctl: it ran past {}; the lease has ended", show_duration(exec.timeout)));
            return Ok(ExitCode::from(exit::OVERRAN));
        }
        let code = answer.exit_code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
        Ok(ExitCode::from(code))
    }
}

fn read_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    let mut limited = std::io::stdin().lock().take(STDIN_MOST + 1);
    limited.read_to_string(&mut text).context("cannot read standard input as text")?;
    anyhow::ensure!(text.len() as u64 <= STDIN_MOST, "standard input is larger than 3 MiB");
    Ok(text)
}

fn eprint_raw(text: &str) {
    use std::io::Write;
    // Nobody may be there to read it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
