//! What the demo and the benchmark stand on: an engine that is there, a stokerd of their own, and the promise
//! that nothing is left of either when they end, however they end.
//!
//! ```text
//! Stage::set    look first: root, engine, images, nobody else's daemon; only then start stokerd
//! Stage::play   the work, until it is done, fails, panics or is interrupted
//! Stage::clear  end stokerd, remove what its containers were; always, and last
//! ```

pub(crate) mod engine;
pub(crate) mod stokerd;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use stoker::api::client::Client;
use stoker::api::wire::{DrainBody, HostBody};
use stoker::profile::{self, HostProfile};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{interval, timeout};

use engine::Engine;
use stokerd::Stokerd;

/// An engine removes some ten containers a second, on a slow disk a few.
const DRAINED_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Where stokerd is dead already, a container that it ordered just before may still appear.
const LATE: Duration = Duration::from_secs(2);

/// What stands in the way, in one line that also says the way out.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Obstacle {
    code: u8,
    text: String,
}

impl Obstacle {
    /// Something is not there.
    pub(crate) fn missing(text: impl Into<String>) -> Obstacle {
        Obstacle { code: 69, text: text.into() }
    }

    /// Somebody else has it.
    pub(crate) fn in_use(text: impl Into<String>) -> Obstacle {
        Obstacle { code: 75, text: text.into() }
    }

    /// We may not.
    pub(crate) fn denied(text: impl Into<String>) -> Obstacle {
        Obstacle { code: 77, text: text.into() }
    }

    fn interrupted() -> Obstacle {
        Obstacle { code: 130, text: "interrupted; nothing is left behind".into() }
    }
}

/// An engine, and a stokerd that lends from it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) stokerd: Stokerd,
    pub(crate) client: Client,
    /// The name that our containers carry.
    pub(crate) host: String,
}

/// From its making on, what would end this process ends its work instead.
#[derive(Debug)]
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Signals([interrupt, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?]))
    }

    async fn any(&mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

impl Stage {
    /// Looks whether all is there, and starts a stokerd whose log is at `log`.
    pub(crate) async fn set(profile: &Path, log: PathBuf) -> anyhow::Result<Stage> {
        if !nix::unistd::geteuid().is_root() {
            return Err(Obstacle::denied(
                "stokerd enters the network namespaces of containers, which needs root: sudo env \"PATH=$PATH\" make ...",
            )
            .into());
        }
        let checked = profile::read(profile)?;
        let host = host_name(&checked)?;
        let engine = Engine::find().await?;
        for pool in checked.pools.values() {
            engine.need_image(&pool.template.image).await?;
        }
        stokerd::nobody_else(&host, &engine).await?;
        let stokerd = Stokerd::start(profile, &engine, log)?;
        // One that is kept out by another's lock ends here, before anything is taken for ours and removed.
        stokerd.serves().await?;
        let client = Client::new(stokerd.socket());
        Ok(Stage { engine, stokerd, client, host })
    }

    /// Does the work, then clears the stage, whatever became of it.
    pub(crate) async fn play<T, F>(self, mut signals: Signals, work: F) -> anyhow::Result<T>
    where
        F: AsyncFnOnce(&Stage) -> anyhow::Result<T>,
    {
        let played = tokio::select! {
            played = AssertUnwindSafe(work(&self)).catch_unwind() => {
                // Its message is on standard error already.
                played.unwrap_or_else(|_| Err(anyhow::anyhow!("a bug of this program ended it")))
            }
            () = signals.any() => Err(Obstacle::interrupted().into()),
        };
        let cleared = self.clear().await;
        // What failed first is what matters.
        let played = played.map_err(|error| match self.stokerd.last_words() {
            Some(words) if error.downcast_ref::<Obstacle>().is_none() => {
                error.context(format!("stokerd said last: {words}"))
            }
            Some(_) | None => error,
        })?;
        cleared.map(|()| played)
    }

    /// Empties the host through its own daemon where that still answers, because only that knows of containers
    /// whose creation is under way; then ends it, and looks for itself.
    async fn clear(&self) -> anyhow::Result<()> {
        let drained = match self.stokerd.is_alive()? {
            true => timeout(DRAINED_WITHIN, self.drain()).await.is_ok_and(|drained| drained.is_ok()),
            false => false,
        };
        self.stokerd.end().await?;
        let quiet = if drained { Duration::ZERO } else { LATE };
        self.engine.remove_all(&self.host, quiet).await
    }

    async fn drain(&self) -> anyhow::Result<()> {
        let at_once = DrainBody { window: Some("0s".into()), for_now: false };
        let _: HostBody = self.client.post("/v1/host/drain", &at_once, Duration::ZERO).await?;
        let mut again = interval(LOOK_AGAIN);
        loop {
            again.tick().await;
            let host: HostBody = self.client.get("/v1/host").await?;
            if host.drain.is_none_or(|drain| drain.instances == 0) {
                return Ok(());
            }
        }
    }
}

/// Runs a program's only future, and says in one line what went wrong.
pub(crate) fn run(program: &str, whole: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = runtime.context("cannot start the runtime").and_then(|runtime| runtime.block_on(whole));
    ended.unwrap_or_else(|error| {
        let code = error.downcast_ref::<Obstacle>().map_or(1, |obstacle| obstacle.code);
        say_error(&format!("{program}: {error:#}"));
        ExitCode::from(code)
    })
}

/// Talk, for standard error.
pub(crate) fn say_error(text: &str) {
    use std::io::Write;
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Data, for standard output.
pub(crate) fn say(text: &str) {
    use std::io::Write;
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The name by which a stokerd with this profile marks its containers.
fn host_name(profile: &HostProfile) -> anyhow::Result<String> {
    if let Some(name) = &profile.host.name {
        return Ok(name.clone());
    }
    let name = nix::unistd::gethostname().context("cannot read the host's name")?;
    Ok(name.to_string_lossy().into_owned())
}

/// Where this program was built: `target/release` or `target/debug`, with stokerd and stokerctl in it.
pub(crate) fn built() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let built = program.parent().and_then(Path::parent).context("this program is at the root")?;
    Ok(built.to_owned())
}

/// `target/NAME`, made.
pub(crate) fn folder(name: &str) -> anyhow::Result<PathBuf> {
    let target = built()?.parent().context("this program was built at the root")?.join(name);
    std::fs::create_dir_all(&target).with_context(|| format!("cannot make `{}`", target.display()))?;
    Ok(target)
}
