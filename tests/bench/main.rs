//! `make bench`: what lending, looking and the daemon itself cost, side by side with what they replace.
//!
//! Prints a table and writes `target/bench/results.json`. Both sides of a ratio are measured in the same run,
//! in turns where a busy moment could favour one of them; a value is the median of its runs unless its name
//! says otherwise. Ends with 1 when a bar does not hold.
//!
//! ```text
//! figure.rs   one figure, its bar, the table and the JSON
//! lend.rs     acquire of a warm instance   against   docker run -d
//! look.rs     reading one container        against   docker stats --no-stream
//! journal.rs  a record, from the loop to the disk and back
//! relief.rs   from the kernel's word of memory pressure to the first action
//! daemon.rs   stokerd itself with warm instances
//! recover.rs  stokerd again after SIGKILL, with a hundred containers
//! simulate.rs a lease in virtual time
//! process.rs  processor time and memory of processes, from /proc
//! ```
//!
//! A new figure is a function that returns some, and its line in [`measure`]. `STOKER_BENCH=lend` measures that group alone.

mod daemon;
mod figure;
mod journal;
mod lend;
mod look;
mod process;
mod recover;
mod relief;
mod simulate;
#[path = "../stage/mod.rs"]
mod stage;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use stoker::api::wire::PoolBody;
use tokio::time::{interval, sleep, timeout};

use figure::Figure;
use stage::{Signals, Stage, say, say_error};

/// Warm instances: as many as the daemon's own bars are for.
const WARM: usize = 20;
const POOL: &str = "tiny";
/// Lent all at once, so that there are a hundred.
const CROWD: &str = "crowd";
const IMAGE: &str = "stoker/tiny:latest";
/// Twenty cold starts, four at once, take some five seconds.
const WARM_WITHIN: Duration = Duration::from_secs(180);
/// After starts and stops the engine and the kernel still tidy up.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);
/// The share of all processors below which a machine counts as idle.
const IDLE_BELOW: f64 = 0.08;

/// Whether it was said that the machine does not come to rest; once is enough.
static TOLD_BUSY: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    stage::run("bench", async {
        let signals = Signals::listen()?;
        let folder = stage::folder("bench")?;
        let profile = folder.join("host.toml");
        std::fs::write(&profile, profile_text()).context("cannot write the bench's profile")?;
        let stage = Stage::set(&profile, folder.join("stokerd.log")).await?;
        say(&format!(
            "Linux {}, {} processors, Docker {} at {}",
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
            std::thread::available_parallelism().map_or(0, usize::from),
            stage.engine.version,
            stage.engine.socket.display(),
        ));
        let figures = stage.play(signals, async |stage| measure(stage).await).await?;
        let results = folder.join("results.json");
        std::fs::write(&results, figure::json(&figures)?).context("cannot write the results")?;
        say(&format!("\n{}", figure::table(&figures)));
        say(&format!("written to {}", shown(&results)));
        let missed = figures.iter().filter(|figure| !figure.holds).count();
        Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

async fn measure(stage: &Stage) -> anyhow::Result<Vec<Figure>> {
    say_error(&format!("waiting for {WARM} warm instances"));
    warm(stage).await?;
    let mut figures = Vec::new();
    let journal = stage::folder("bench")?.join("journal");
    for (name, measured) in [
        ("daemon", measured("daemon", daemon::figures(stage)).await),
        ("look", measured("look", look::figures(stage)).await),
        ("relief", measured("relief", relief::figures(stage)).await),
        ("lend", measured("lend", lend::figures(stage)).await),
        ("journal", measured("journal", journal::figures(&journal)).await),
        ("recover", measured("recover", recover::figures(stage)).await),
        ("simulate", measured("simulate", async { simulate::figures() }).await),
    ] {
        match measured {
            Ok(some) => figures.extend(some),
            // The others are worth their time all the same; that one is missing is seen in the table, and fails.
            Err(error) => {
                say_error(&format!("{name} could not be measured: {error:#}"));
                figures.push(Figure::missing(name));
            }
        }
    }
    Ok(figures)
}

/// A host of its own. No more instances than warm ones, so that lending all of them starts nothing and the
/// machine stays idle while it is measured; the refill comes when they are given back.
fn profile_text() -> String {
    format!(
        r#"[host]
name = "bench-{pid}"
reserve = {{ memory = "256MiB", cpu = "0" }}
floor = "64MiB"
cpu_overcommit = "1000%" # the instances do nothing; two processors are enough for all
max_starts = 4

[pool.{POOL}]
kind = "sandbox"
image = "{IMAGE}"
command = ["mode", "never-ready"] # sleeps
memory_max = "{memory}MiB"
memory_expect = "4MiB"
cpus = "{cpus}"
pids = {pids}
nofile = {nofile}
shm = "{shm}MiB"
tmpfs = {{ "/tmp" = "{tmp}MiB" }}
network = "none"
probe = ["true"]
warm = {{ min = {WARM}, max = {WARM}, max_age = "6h" }}
max_instances = {WARM}
first_use_timeout = "10m"
idle_timeout = "10m"

[pool.{CROWD}]
kind = "sandbox"
image = "{IMAGE}"
command = ["mode", "never-ready"]
memory_max = "{memory}MiB"
memory_expect = "4MiB"
cpus = "0.02" # with the others all of two processors, ten times overcommitted
nofile = {nofile}
shm = "{shm}MiB"
tmpfs = {{ "/tmp" = "{tmp}MiB" }}
probe = ["true"]
warm = {{ min = 0, max = 0 }}
max_instances = {crowd}
first_use_timeout = "10m"
"#,
        crowd = recover::LENT,
        pid = std::process::id(),
        memory = lend::MEMORY_MIB,
        cpus = lend::CPUS,
        pids = lend::PIDS,
        nofile = lend::NOFILE,
        shm = lend::SHM_MIB,
        tmp = lend::TMP_MIB,
    )
}

/// Measures one group, unless `STOKER_BENCH` names another one alone.
async fn measured(
    name: &str,
    figures: impl Future<Output = anyhow::Result<Vec<Figure>>>,
) -> anyhow::Result<Vec<Figure>> {
    match std::env::var("STOKER_BENCH") {
        Ok(only) if only != name => Ok(Vec::new()),
        Ok(_) | Err(_) => figures.await,
    }
}

/// Returns once all instances are warm and the machine has come to rest.
async fn warm(stage: &Stage) -> anyhow::Result<()> {
    let all_warm = async {
        let mut again = interval(Duration::from_millis(100));
        let mut last = None;
        loop {
            again.tick().await;
            let pool: PoolBody = stage.client.get(&format!("/v1/pools/{POOL}")).await?;
            if pool.warm as usize == WARM && pool.stopping == 0 {
                return Ok::<(), anyhow::Error>(());
            }
            last = pool.blocked_by.map(|limit| limit.detail).or(last);
            anyhow::ensure!(
                stage.stokerd.is_alive()?,
                "stokerd ended; what kept instances from starting: {}",
                last.as_deref().unwrap_or("nothing")
            );
        }
    };
    timeout(WARM_WITHIN, all_warm).await.context("the pool did not warm up in time")??;
    settle().await
}

/// Returns once hardly anything runs on this machine; says so where that does not come about.
async fn settle() -> anyhow::Result<()> {
    let mut busy = 1.0;
    let idle = async {
        loop {
            let before = process::host_busy()?;
            sleep(Duration::from_millis(500)).await;
            busy = process::host_busy()?.share_since(before);
            if busy < IDLE_BELOW {
                return Ok::<(), anyhow::Error>(());
            }
        }
    };
    match timeout(SETTLE_WITHIN, idle).await {
        Ok(settled) => settled,
        Err(_) => {
            if !TOLD_BUSY.swap(true, Ordering::Relaxed) {
                let share = busy * 100.0;
                say_error(&format!(
                    "this machine is busy with something else ({share:.0} %): figures suffer"
                ));
            }
            Ok(())
        }
    }
}

fn shown(path: &Path) -> String {
    path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(path).display().to_string()
}
