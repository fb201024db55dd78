//! Running a command inside a container, within memory and time.
//!
//! Input goes in while output comes out, or a command that echoes would block on a full pipe. Output
//! beyond the limit is read and dropped: a reader that stopped would block the command and turn a long
//! answer into a timeout. Never with a terminal, whose unframed output a container could shape so that
//! the client waits for gigabytes.
//!
//! Whoever gave the order may take it back ([`Docker::exec_unless`]): the command is then killed, as one is that
//! runs past its time, and watched until the engine has noted its end. Dropping the future instead leaves the
//! command to itself; it ends with its container.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ExecConfig, ExecInspectResponse};
use futures_util::future::{Either, select};
use futures_util::stream::{Stream, StreamExt};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::docker::error::within;
use crate::docker::{ContainerId, Docker, DockerError, LOOK_WITHIN, watch};
use crate::quantity::Bytes;

/// A command begins within some 30 ms; the engine waits about this long for its runtime.
const BEGIN_WITHIN: Duration = Duration::from_secs(20);

/// A killed command has ended within milliseconds; one that has not by then hangs in the kernel, or the engine does.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Between the end of the output and the note of the exit code lie milliseconds, or none.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What the engine writes where a command writes, when there is no such program or folder.
const NOT_STARTED: &[u8] = b"OCI runtime exec failed";

/// A command to run inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// Program and arguments; no shell is put around them.
    pub command: Vec<String>,
    /// Added to the container's own environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs; the image's own folder where `None`.
    pub cwd: Option<String>,
    /// What it reads, and then the end.
    pub stdin: Vec<u8>,
    /// How much of each of its two outputs is kept.
    pub limit: Bytes,
    /// When it is killed.
    pub timeout: Duration,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execed {
    /// Its exit code, 128 + signal where a signal ended it; `None` where it was not seen to end.
    pub exit_code: Option<i64>,
    /// The beginning of what it wrote.
    pub stdout: Vec<u8>,
    /// The beginning of what it complained of.
    pub stderr: Vec<u8>,
    /// Whether there was more of the one.
    pub stdout_truncated: bool,
    /// Whether there was more of the other.
    pub stderr_truncated: bool,
    /// Whether it was still running at its timeout; it was then killed as far as we can.
    pub timed_out: bool,
    /// Whether it was cut short and then not seen to end, so that it may run on.
    pub runs_on: bool,
}

/// How a command came to its end that had not come to it by itself.
enum Cut {
    /// It had ended after all.
    InTime(Option<i64>),
    /// It was killed, and has ended.
    Killed,
    /// It was not seen to end.
    RunsOn,
}

impl Docker {
    /// Runs a command inside a container until it ends or its time is over. A program that does not exist is
    /// no error: it exits with 126 or 127, as from a shell.
    ///
    /// # Errors
    /// As the engine answers, with 409 where the container is paused or does not run.
    pub async fn exec(&self, container: &ContainerId, order: &Exec) -> Result<Execed, DockerError> {
        self.exec_unless(container, order, std::future::pending()).await
    }

    /// The same, until the order is taken back, which is when `recalled` resolves: then the command is killed.
    ///
    /// # Errors
    /// As [`Docker::exec`].
    pub async fn exec_unless(
        &self,
        container: &ContainerId,
        order: &Exec,
        recalled: impl Future<Output = ()>,
    ) -> Result<Execed, DockerError> {
        let what = format!("run a command in container `{container}`");
        let config = ExecConfig {
            cmd: Some(order.command.clone()),
            env: Some(order.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            working_dir: order.cwd.clone(),
            attach_stdin: Some(!order.stdin.is_empty()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            ..ExecConfig::default()
        };
        let made =
            within(LOOK_WITHIN, what.clone(), self.client.create_exec(container.as_str(), config)).await?;
        let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
        let begun = within(BEGIN_WITHIN, what, self.client.start_exec(&made.id, Some(options))).await?;
        let StartExecResults::Attached { output, input } = begun else {
            unreachable!("the client detaches only when told to");
        };

        let mut gathered = Gathered::new(order.limit);
        let run = async {
            match select(pin!(gathered.drain(output)), pin!(feed(input, &order.stdin))).await {
                Either::Left((drained, _)) => drained?,
                Either::Right((never, _)) => match never {},
            }
            self.exit_code(&made.id).await
        };
        let (cut, timed_out) = tokio::select! {
            ended = run => match ended {
                Ok(exit_code) => (Cut::InTime(exit_code), false),
                Err(error) => {
                    // Nobody will hear of it any more, so it should not go on.
                    self.cut_short(container, &made.id).await;
                    return Err(error);
                }
            },
            () = tokio::time::sleep(order.timeout) => (self.cut_short(container, &made.id).await, true),
            () = recalled => (self.cut_short(container, &made.id).await, false),
        };
        Ok(gathered.into_execed(&cut, timed_out))
    }

    /// The exit code, once the engine has noted it.
    async fn exit_code(&self, exec: &str) -> Result<Option<i64>, DockerError> {
        loop {
            let seen = self.look_at_exec(exec).await?;
            if seen.running != Some(true) {
                return Ok(seen.exit_code);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Kills a command until it has ended. One that has ended and left children behind that hold its output open
    /// was in time after all; one that the engine cannot speak of was not seen to end.
    async fn cut_short(&self, container: &ContainerId, exec: &str) -> Cut {
        let mut killed = false;
        let ended = async {
            loop {
                let seen = match self.look_at_exec(exec).await {
                    Ok(seen) => seen,
                    // It is gone with its container.
                    Err(error) if error.is_missing() => return Cut::Killed,
                    Err(_) => return Cut::RunsOn,
                };
                match (seen.running, seen.exit_code) {
                    (Some(true), _) => {
                        if let Some(pid) = seen.pid.and_then(|pid| i32::try_from(pid).ok()) {
                            kill(container, pid);
                            killed = true;
                        }
                    }
                    (_, Some(_)) if killed => return Cut::Killed,
                    (_, Some(code)) => return Cut::InTime(Some(code)),
                    // The engine answers before it has started the command: that is yet to come.
                    (_, None) => {}
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(END_WITHIN, ended).await.unwrap_or(Cut::RunsOn)
    }

    async fn look_at_exec(&self, exec: &str) -> Result<ExecInspectResponse, DockerError> {
        within(LOOK_WITHIN, "look at a command inside a container", self.client.inspect_exec(exec)).await
    }
}

/// What is kept of the two outputs.
struct Gathered {
    stdout: Kept,
    stderr: Kept,
}

struct Kept {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Gathered {
    fn new(limit: Bytes) -> Gathered {
        let kept = || Kept {
            bytes: Vec::new(),
            limit: usize::try_from(limit.get()).unwrap_or(usize::MAX),
            truncated: false,
        };
        Gathered { stdout: kept(), stderr: kept() }
    }

    /// Reads to the end of both outputs.
    async fn drain(
        &mut self,
        mut output: impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin,
    ) -> Result<(), DockerError> {
        while let Some(piece) = output.next().await {
            let what = || "read the output of a command".to_owned();
            match piece.map_err(|cause| DockerError::of(what(), Duration::ZERO, cause))? {
                LogOutput::StdErr { message } => self.stderr.keep(&message),
                LogOutput::StdOut { message } | LogOutput::Console { message } => self.stdout.keep(&message),
                LogOutput::StdIn { .. } => {}
            }
        }
        Ok(())
    }

    fn into_execed(mut self, cut: &Cut, timed_out: bool) -> Execed {
        let (exit_code, in_time) = match cut {
            Cut::InTime(exit_code) => (*exit_code, true),
            Cut::Killed | Cut::RunsOn => (None, false),
        };
        let not_started = matches!(exit_code, Some(126 | 127))
            && self.stderr.bytes.is_empty()
            && self.stdout.bytes.starts_with(NOT_STARTED);
        if not_started {
            // The engine's complaint, not the command's output.
            std::mem::swap(&mut self.stdout, &mut self.stderr);
        }
        Execed {
            exit_code,
            stdout: self.stdout.bytes,
            stderr: self.stderr.bytes,
            stdout_truncated: self.stdout.truncated,
            stderr_truncated: self.stderr.truncated,
            timed_out: timed_out && !in_time,
            runs_on: matches!(cut, Cut::RunsOn),
        }
    }
}

impl Kept {
    fn keep(&mut self, piece: &[u8]) {
        let room = self.limit - self.bytes.len();
        self.truncated |= piece.len() > room;
        self.bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }
}

/// Writes the input and closes it, then waits for ever: only the output's end ends a command.
async fn feed(mut input: impl AsyncWrite + Unpin, stdin: &[u8]) -> std::convert::Infallible {
    if !stdin.is_empty() && input.write_all(stdin).await.is_ok() {
        // A command that has closed its input has heard enough; that is no fault of its own.
        let _ = input.shutdown().await;
    }
    std::future::pending().await
}

/// Kills a command and what it started, as far as that has stayed in its process group, which the
/// engine's runtime makes for each command. What has left it ends with its container.
fn kill(container: &ContainerId, pid: i32) {
    let Some(number) = Pid::from_raw(pid) else { return };
    let Ok(pidfd) = pidfd_open(number, PidfdFlags::empty()) else { return };
    let ours = u32::try_from(pid).is_ok_and(|pid| watch::is_of_container(pid, container).unwrap_or(false));
    if ours {
        let _ = kill_process_group(number, Signal::KILL);
        let _ = pidfd_send_signal(pidfd, Signal::KILL);
    }
}
