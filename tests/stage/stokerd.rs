//! A stokerd of our own: the real binary, in a process group of its own, so that a Ctrl-C at the terminal
//! reaches us alone and we end it in order.

use std::fs::{self, File};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
    profile: PathBuf,
    engine: PathBuf,
    log: PathBuf,
    socket: PathBuf,
    home: TempDir,
}

impl Stokerd {
    pub(crate) fn start(profile: &Path, engine: &Engine, log: PathBuf) -> anyhow::Result<Stokerd> {
        // Not below the checkout: a socket's path may have 107 bytes, a checkout's any number.
        let home = tempfile::Builder::new().prefix("stoker-").tempdir_in("/tmp");
        let home = home.context("cannot make a folder in /tmp for the socket")?;
        let socket = home.path().join("stoker.sock");
        File::create(&log).with_context(|| format!("cannot write `{}`", log.display()))?;
        let (profile, engine) = (profile.to_owned(), engine.socket.clone());
        let child = Mutex::new(spawn(&profile, &engine, &log, home.path())?);
        Ok(Stokerd { child, profile, engine, log, socket, home })
    }

    /// Kills it, and starts another in its place, on the same state.
    pub(crate) fn kill_and_start(&self) -> anyhow::Result<()> {
        let mut child = self.child();
        child.kill().and_then(|()| child.wait()).context("cannot kill stokerd")?;
        *child = spawn(&self.profile, &self.engine, &self.log, self.home.path())?;
        Ok(())
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
            if !self.is_alive()? {
                let words = self.last_words().unwrap_or_else(|| "it said nothing".into());
                return Err(Obstacle::in_use(format!("stokerd ended at once: {words}")).into());
            }
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

fn spawn(profile: &Path, engine: &Path, log: &Path, home: &Path) -> anyhow::Result<Child> {
    let program = built()?.join("stokerd");
    if !program.exists() {
        let text = format!("there is no {}: build it with cargo build --bins", program.display());
        return Err(Obstacle::missing(text).into());
    }
    let written = File::options().append(true).open(log);
    let written = written.with_context(|| format!("cannot write `{}`", log.display()))?;
    Command::new(&program)
        .arg("--profile")
        .arg(profile)
        .arg("--socket")
        .arg(home.join("stoker.sock"))
        .arg("--engine")
        .arg(engine)
        .arg("--state")
        .arg(home.join("state"))
        .stdin(Stdio::null())
        .stdout(written.try_clone().context("cannot share the log")?)
        .stderr(written)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start `{}`", program.display()))
}

/// Refuses to start where another stokerd marks its containers with the same host name: the later one takes
/// the containers of the earlier for leftovers.
///
/// Daemons of one name keep each other out by a lock (`daemon/lock.rs`), which is asked here for a better
/// answer. It is not seen from another network namespace; what such a daemon runs is.
pub(crate) async fn nobody_else(host: &str, engine: &Engine) -> anyhow::Result<()> {
    let lock = SocketAddr::from_abstract_name(format!("stokerd/{host}")).context("no name for a lock")?;
    if let Ok(held) = std::os::unix::net::UnixStream::connect_addr(&lock) {
        let peer = held.set_nonblocking(true).and_then(|()| UnixStream::from_std(held)?.peer_cred());
        let pid = peer.ok().and_then(|peer| peer.pid()).map_or(String::new(), |pid| format!(" (pid {pid})"));
        let text = format!(
            "a stokerd{pid} runs here for host {host}, and two would share their containers: stop it first"
        );
        return Err(Obstacle::in_use(text).into());
    }
    let found = engine.containers_of(host).await?;
    if !found.is_empty() {
        let text = format!(
            "{} containers of another run are here for host {host}; where no stokerd uses them: \
             docker rm -f $(docker ps -aq --filter label=stoker.host={host})",
            found.len()
        );
        return Err(Obstacle::in_use(text).into());
    }
    Ok(())
}
