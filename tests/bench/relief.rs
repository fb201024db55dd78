//! From the kernel's word that tasks stand still for memory to relief's first action.
//!
//! Whether and when a kernel speaks depends on what stalls, so what is measured is what Stoker does from there: a whole
//! look at the host and all containers, the controller's decision on it, and the order to stop the first one. The real
//! measuring room and the real controller, on the containers of this benchmark; what is left out is the wake-up of a
//! thread and two hand-overs between threads, some tens of microseconds.

use std::time::Duration;

use anyhow::Context;
use stoker::control::Controller;
use stoker::control::message::{Engine, HostCpu, Input, InstanceId, News, Output, What};
use stoker::measure::{Measure, Root};
use stoker::profile;
use stoker::quantity::{Bytes, Instant, MilliCpu};
use tokio::time;

use super::figure::{Bar, Figure, Runs};
use super::stage::Stage;
use super::{POOL, WARM, profile_text};

/// Looks within which relief acts: two that move the level, and some to spare.
const LOOKS: u32 = 10;
const RUNS: usize = 30;

pub(crate) async fn figures(stage: &Stage) -> anyhow::Result<Vec<Figure>> {
    let mut pids = Vec::new();
    for container in stage.engine.containers_of(&stage.host).await? {
        let labels = container.labels.context("a container has no labels")?;
        pids.push(
            stage.engine.pid_of(labels.get("stoker.instance").context("a container is nobody's")?).await?,
        );
    }
    let mut millis = Vec::new();
    for _ in 0..RUNS {
        millis.push(first_action(&pids)? * 1e3);
    }
    let name = format!("a look at {} containers and relief's decision on it", pids.len());
    Ok(vec![Runs::new(millis, "ms")?.figure(name).bar(Bar::Below(20.0))])
}

/// Seconds from the word to the first order, on a host that has become short: each look is a real one, and says in
/// the end that a quarter of the memory is available.
fn first_action(pids: &[u32]) -> anyhow::Result<f64> {
    let text = profile_text().replace("floor = \"64MiB\"", "floor = \"50%\"");
    let profile = profile::check("bench", &text)?;
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut controller = Controller::new(profile, "bench".into(), 1, now);
    let mut measure = Measure::new(Root::host());
    let mut instances = Vec::new();
    // Warmed up on a host that has plenty, as the first look says.
    let mut plenty = measure.sample(now);
    for _ in 0..2 {
        now = now.after(Duration::from_secs(1));
        plenty = measure.sample(now);
        let memory = plenty.memory.as_mut().map_err(|unread| anyhow::anyhow!("{}", unread.0))?;
        memory.available = memory.total;
        // Between two looks as near as these no tick has passed.
        plenty.cpu = Ok(HostCpu { cores: MilliCpu::cores(64), busy: MilliCpu::new(0) });
    }
    controller.handle(now, Input::Sample(Box::new(plenty)));
    controller.handle(now, Input::Engine(Engine::Reachable));
    while instances.len() < WARM {
        let mut started: Vec<InstanceId> = Vec::new();
        while let Some(output) = controller.poll_output() {
            if let Output::Start { instance, .. } = output {
                started.push(instance);
            } else if let Output::Record(number, _) = output {
                controller.handle(now, Input::Recorded(number));
            }
        }
        anyhow::ensure!(!started.is_empty(), "pool {POOL} does not warm up: {} of {WARM}", instances.len());
        for instance in started {
            controller.handle(now, Input::Instance(instance, News::Ready));
            instances.push(instance);
        }
    }
    while controller.poll_output().is_some() {}
    for (instance, pid) in instances.iter().zip(pids) {
        measure.follow(*instance, *pid)?;
    }
    // What is available is some way below the floor: the first looks move the level, a later one acts.
    let mut seen = Vec::new();
    for look in 0..LOOKS {
        now = now.after(Duration::from_secs(1));
        let began = time::Instant::now();
        let mut sample = measure.sample(now);
        let memory = sample.memory.as_mut().map_err(|unread| anyhow::anyhow!("{}", unread.0))?;
        memory.available = Bytes::new(memory.total.get() / 4);
        controller.handle(now, Input::Sample(Box::new(sample)));
        let (mut told, mut stops) = (false, false);
        while let Some(output) = controller.poll_output() {
            told |= matches!(&output, Output::Tell(event) if matches!(event.what, What::ReliefEnds(..)));
            stops |= matches!(output, Output::Stop { .. });
            if told && stops {
                return Ok(began.elapsed().as_secs_f64());
            }
            seen.push(output);
        }
        anyhow::ensure!(look + 1 < LOOKS, "relief did not act, and this came out: {seen:?}");
    }
    unreachable!("the last look acts or fails")
}
