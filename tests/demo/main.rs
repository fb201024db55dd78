//! `make demo`: one host at work, from warm pools to an empty host, with the real stokerd and stokerctl and a
//! profile as it is shipped.
//!
//! Nothing is believed: what is said to be gone is looked for at the engine, what is said to be drawn is
//! looked at. Whatever happens, stokerd is ended and no container of it is left.
//!
//! ```text
//! say.rs       numbered steps
//! tool.rs      stokerctl
//! devtools.rs  a caller of a browser
//! page.rs      the page it loads, served inside its own network namespace
//! ```

mod devtools;
mod page;
mod say;
#[path = "../stage/mod.rs"]
mod stage;
mod tool;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use stoker::api::wire::{LeaseBody, PoolBody, Pools};
use tokio::time::{Instant, sleep, timeout};

use devtools::Page;
use page::Served;
use say::{Talk, millis};
use stage::{Signals, Stage};
use tool::Tool;

const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/dev.toml");
const PROGRAM: &str = include_str!("program.py");
/// The picture's width and height.
const SIZE: (u32, u32) = (1280, 800);
/// Fewer bytes than this are an empty page.
const PICTURE_LEAST: usize = 20_000;
/// A released container needs some 200 ms to be gone, on a busy disk a few seconds.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// What the summary repeats.
#[derive(Debug, Default)]
struct Figures {
    warm: String,
    browser: String,
    sandbox: String,
    picture: String,
}

/// A lease, and the instance it was given.
#[derive(Debug)]
struct Lent {
    lease: String,
    instance: String,
    took: String,
}

fn main() -> ExitCode {
    stage::run("demo", async {
        let signals = Signals::listen()?;
        let folder = stage::folder("demo")?;
        let mut talk = Talk::begin();
        stage::say(
            "One host lends a browser and a sandbox: the daemon itself, with profiles/dev.toml as shipped.",
        );
        talk.step("stokerd starts");
        let stage = Stage::set(Path::new(PROFILE), folder.join("stokerd.log")).await?;
        let (host, engine) = (stage.host.clone(), stage.engine.clone());
        let figures = stage.play(signals, async |stage| tour(stage, &mut talk, &folder).await).await?;
        // Looked at after everything has ended.
        let left = engine.containers_of(&host).await?.len();
        anyhow::ensure!(left == 0, "{left} containers are left");
        talk.line("it ended; the engine has no container of this host");
        summary(&talk, &figures);
        Ok(ExitCode::SUCCESS)
    })
}

async fn tour(stage: &Stage, talk: &mut Talk, folder: &Path) -> anyhow::Result<Figures> {
    let tool = Tool::new(stage)?;
    let mut figures = Figures::default();
    talk.fact("engine", &format!("Docker {} at {}", stage.engine.version, stage.engine.socket.display()));
    talk.fact(
        "stokerd",
        &format!("pid {}, its log is {}", stage.stokerd.pid(), shown(&folder.join("stokerd.log"))),
    );
    talk.fact("socket", &stage.stokerd.socket().display().to_string());

    talk.step("The pools warm up: instances are started before anybody asks");
    let began = Instant::now();
    warm(stage, talk, &tool).await?;
    figures.warm = millis(began);
    show_pools(stage, talk).await?;
    talk.line(&format!("ready after {}", figures.warm));

    talk.step("A browser is lent: it was warm, so this starts nothing");
    let browser = lend(stage, talk, &tool, "chromium").await?;
    figures.browser = browser.took.clone();
    let version = devtools::version(&stage.client, &browser.lease).await?;
    let name = version["Browser"].as_str().context("the browser does not say its name")?.to_owned();
    talk.fact("answers", &format!("/json/version says {name}, protocol {}", version["Protocol-Version"]));

    talk.step("It loads a page and draws it");
    figures.picture = draw(stage, talk, &browser, &version, folder).await?;

    talk.step("A sandbox is lent, and runs a program");
    let sandbox = lend(stage, talk, &tool, "python").await?;
    figures.sandbox = sandbox.took.clone();
    run_program(talk, &tool, &sandbox).await?;

    talk.step("stokerd is killed, and the next one goes on where it was");
    talk.line(&format!("$ kill -KILL {}", stage.stokerd.pid()));
    let began = Instant::now();
    stage.stokerd.kill_and_start()?;
    stage.stokerd.serves().await?;
    for lent in [&browser, &sandbox] {
        let body: LeaseBody = stage.client.get(&format!("/v1/leases/{}", lent.lease)).await?;
        anyhow::ensure!(body.instance.as_ref() == Some(&lent.instance), "lease {} was lost", lent.lease);
    }
    talk.line(&format!("both leases go on, after {}", millis(began)));
    tool.run(talk, &["exec", &sandbox.lease, "--", "echo", "as if nothing had been"]).await?;

    talk.step("Both are given back: what was used is destroyed, and replaced");
    tool.run(talk, &["release", &browser.lease, &sandbox.lease]).await?;
    let began = Instant::now();
    for lent in [&browser, &sandbox] {
        gone(stage, lent).await?;
    }
    let both = format!("{} and {}", browser.instance, sandbox.instance);
    talk.line(&format!("the engine has no container of {both} any more, after {}", millis(began)));
    warm(stage, talk, &tool).await?;
    tool.run(talk, &["status"]).await?;

    talk.step("The host is drained: it takes no new work, and empties");
    tool.watch(talk, &["drain", "--window", "30s", "--wait"]).await?;
    let left = stage.engine.containers_of(&stage.host).await?.len();
    anyhow::ensure!(left == 0, "the drain is over, and {left} containers are left");

    talk.step("stokerd is stopped");
    talk.line(&format!("$ kill -TERM {}", stage.stokerd.pid()));
    stage.stokerd.end().await?;
    Ok(figures)
}

async fn lend(stage: &Stage, talk: &Talk, tool: &Tool, pool: &str) -> anyhow::Result<Lent> {
    let began = Instant::now();
    let lease = tool.run(talk, &["acquire", pool]).await?.trim().to_owned();
    let took = millis(began);
    let body: LeaseBody = stage.client.get(&format!("/v1/leases/{lease}")).await?;
    let instance = body.instance.with_context(|| format!("lease {lease} has no instance"))?;
    talk.fact("lent", &format!("instance {instance}, in {took} with the start of stokerctl"));
    Ok(Lent { lease, instance, took })
}

/// Serves a page where only this browser is, lets it draw the page, and keeps the picture.
async fn draw(
    stage: &Stage,
    talk: &Talk,
    browser: &Lent,
    version: &serde_json::Value,
    folder: &Path,
) -> anyhow::Result<String> {
    let facts = [
        ("lease", browser.lease.as_str()),
        ("instance", &browser.instance),
        ("pool", "chromium"),
        ("browser", version["Browser"].as_str().unwrap_or_default()),
        ("lent", &browser.took),
        ("host", &stage.host),
    ];
    let pid = stage.engine.pid_of(&browser.instance).await?;
    let _served = Served::inside(pid, page::page(&facts)).await?;
    talk.fact("page", &format!("{} inside the container's own network namespace", page::ADDRESS));

    let began = Instant::now();
    let mut page = Page::open(&stage.client, &browser.lease, version, SIZE).await?;
    page.load(page::ADDRESS).await?;
    let (title, expected) = (page.title().await?, format!("Stoker: {}", browser.lease));
    anyhow::ensure!(title == expected, "the page is called `{title}` and not `{expected}`");
    let png = page.screenshot().await?;
    let took = millis(began);
    let size = devtools::size_of(&png).context("the picture is no PNG")?;
    anyhow::ensure!(
        size == SIZE && png.len() >= PICTURE_LEAST,
        "the picture is odd: {size:?}, {} bytes",
        png.len()
    );
    let path = folder.join("screenshot.png");
    std::fs::write(&path, &png).with_context(|| format!("cannot write `{}`", path.display()))?;
    talk.fact("title", &title);
    let picture = format!("{} ({} x {}, {} kB)", shown(&path), size.0, size.1, png.len() / 1000);
    talk.fact("picture", &format!("{picture}, in {took}"));
    Ok(picture)
}

async fn run_program(talk: &Talk, tool: &Tool, sandbox: &Lent) -> anyhow::Result<()> {
    let began = Instant::now();
    let command = ["exec", "--stdin", &sandbox.lease, "--", "python3", "-"];
    let printed = tool.feed(talk, &command, PROGRAM).await?;
    anyhow::ensure!(printed.contains("the 1000th prime is 7919"), "the program printed something else");
    talk.line(&format!("ended with 0 after {} (the program: tests/demo/program.py)", millis(began)));
    Ok(())
}

/// Returns once the engine has no container of this instance any more.
async fn gone(stage: &Stage, lent: &Lent) -> anyhow::Result<()> {
    let label = format!("stoker.instance={}", lent.instance);
    let looked = async {
        while !stage.engine.containers(&label).await?.is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    let late = || anyhow::anyhow!("instance {} is still there after its release", lent.instance);
    timeout(GONE_WITHIN, looked).await.unwrap_or_else(|_| Err(late()))
}

/// Waits until every pool has its smallest stock; where one gets none, says why.
async fn warm(stage: &Stage, talk: &Talk, tool: &Tool) -> anyhow::Result<()> {
    let Err(error) = tool.watch(talk, &["ready", "--wait", "2m"]).await else { return Ok(()) };
    let pools: Pools = stage.client.get("/v1/pools").await?;
    let blocked = |pool: PoolBody| Some(format!("pool {}: {}", pool.name, pool.blocked_by?.detail));
    let why: Vec<String> = pools.pools.into_iter().filter_map(blocked).collect();
    if why.is_empty() { Err(error) } else { anyhow::bail!(why.join("; ")) }
}

async fn show_pools(stage: &Stage, talk: &Talk) -> anyhow::Result<()> {
    let pools: Pools = stage.client.get("/v1/pools").await?;
    for pool in pools.pools {
        talk.fact(&pool.name, &format!("{} warm ({}, {})", pool.warm, pool.kind, pool.image));
    }
    Ok(())
}

fn summary(talk: &Talk, figures: &Figures) {
    stage::say(&format!("\nDone in {}. Nothing is left behind.", talk.elapsed()));
    talk.fact("pools", &format!("warm after {}", figures.warm));
    talk.fact("browser", &format!("lent in {}", figures.browser));
    talk.fact("sandbox", &format!("lent in {}", figures.sandbox));
    talk.fact("screenshot", &figures.picture);
}

/// A path as seen from the checkout, where it is below it.
fn shown(path: &Path) -> String {
    path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(path).display().to_string()
}
