//! A stokerd of our own: the real binary, in a process group of its own, so that a Ctrl-C at the terminal
//! reaches us alone and we end it in order.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::engine::Engine;
use super::{Obstacle, built};

/// It ends within some milliseconds; it drains nothing at SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at whether it has ended, or whether its socket is there.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The daemon, while it runs and after.
#[derive(Debug)]
pub(crate) struct Stokerd {
    child: Mutex<Child>,
    log: PathBuf,
    socket: PathBuf,
    _home: TempDir,
}

impl Stokerd {
    pub(crate) fn start(profile: &Path, engine: &Engine, log: PathBuf) -> anyhow::Result<Stokerd> {
        let program = built()?.join("stokerd");
        if !program.exists() {
            let text = format!("there is no {}: build it with cargo build --bins", program.display());
            return Err(Obstacle::missing(text).into());
        }
        // Not below the checkout: a socket's path may have 107 bytes, a checkout's any number.
        let home = tempfile::Builder::new().prefix("stoker-").tempdir_in("/tmp");
        let home = home.context("cannot make a folder in /tmp for the socket")?;
        let socket = home.path().join("stoker.sock");
        let written = File::create(&log).with_context(|| format!("cannot write `{}`", log.display()))?;
        let child = Command::new(&program)
            .arg("--profile")
            .arg(profile)
            .arg("--socket")
            .arg(&socket)
            .arg("--engine")
            .arg(&engine.socket)
            .stdin(Stdio::null())
            .stdout(written.try_clone().context("cannot share the log")?)
            .stderr(written)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{}`", program.display()))?;
        Ok(Stokerd { child: Mutex::new(child), log, socket, _home: home })
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Returns once it serves, or when it has ended instead.
    pub(crate) async fn serves(&self) -> anyhow::Result<()> {
        while UnixStream::connect(&self.socket).await.is_err() {
            anyhow::ensure!(self.is_alive()?, "stokerd ended at once");
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Sends SIGTERM, and returns once it has ended; also if it had ended before.
    pub(crate) async fn end(&self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid()).context("a pid fits into 31 bits")?);
        let ended = timeout(END_WITHIN, async {
            if self.is_alive()? {
                kill(pid, Signal::SIGTERM).context("cannot stop stokerd")?;
            }
            while self.is_alive()? {
                sleep(LOOK_AGAIN).await;
            }
            Ok(())
        });
        ended.await.unwrap_or_else(|_| {
            let mut child = self.child();
            child.kill().and_then(|()| child.wait()).context("cannot kill stokerd")?;
            anyhow::bail!("stokerd did not end within {} s of SIGTERM and was killed", END_WITHIN.as_secs())
        })
    }

    /// The last line of its log.
    pub(crate) fn last_words(&self) -> Option<String> {
        let text = fs::read_to_string(&self.log).ok()?;
        text.lines().rev().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
    }

    pub(crate) fn is_alive(&self) -> anyhow::Result<bool> {
        Ok(self.child().try_wait().context("cannot look at stokerd")?.is_none())
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses to start where another stokerd marks its containers with the same host name: ours would take
/// them for leftovers and remove them, and the other one ours.
///
/// A daemon that serves elsewhere is known by what it runs. One that serves and has nothing yet is known
/// only where its socket is: at the default place, or where STOKER_SOCKET says.
pub(crate) async fn nobody_else(host: &str, engine: &Engine) -> anyhow::Result<()> {
    let default = PathBuf::from(stoker::ctl::DEFAULT_SOCKET);
    for socket in env::var_os("STOKER_SOCKET").map(PathBuf::from).into_iter().chain([default]) {
        if let Ok(stream) = UnixStream::connect(&socket).await {
            let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
            let whose = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
            let text = format!(
                "a stokerd{whose} serves at {}; it would share its containers with ours: stop it first",
                socket.display()
            );
            return Err(Obstacle::in_use(text).into());
        }
    }
    let found = engine.containers_of(host).await?;
    if !found.is_empty() {
        let perhaps = match daemons().as_slice() {
            [] => String::new(),
            pids => format!(" (pid {})", pids.join(" or ")),
        };
        let text = format!(
            "{} containers of another stokerd{perhaps} are on host {host}: stop it, then remove them: \
             docker rm -f $(docker ps -aq --filter label=stoker.host={host})",
            found.len()
        );
        return Err(Obstacle::in_use(text).into());
    }
    Ok(())
}

/// Processes that are called stokerd, whichever socket they serve at.
fn daemons() -> Vec<String> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter(|entry| fs::read(entry.path().join("comm")).is_ok_and(|name| name == b"stokerd\n"))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
