//! Processor time and memory of processes, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// The kernel's ticks a second, in `/proc/PID/stat`.
const TICKS: f64 = 100.0;

/// Processor time of a process so far, by two counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    /// All threads, also those that have ended, in whole ticks.
    ticks: f64,
    /// The threads that live, in nanoseconds; `None` where the kernel does not count that.
    fine: Option<f64>,
}

impl Spent {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Spent> {
        let stat = Stat::of(pid)?;
        let ticks = stat.field(14)? + stat.field(15)?;
        Ok(Spent { ticks: ticks / TICKS, fine: fine(pid) })
    }

    /// Seconds since an earlier count: the finer count, unless the coarse one shows that it misses threads
    /// that have ended.
    pub(crate) fn seconds_since(self, before: Spent) -> f64 {
        let coarse = self.ticks - before.ticks;
        match (self.fine, before.fine) {
            (Some(now), Some(then)) if now >= then && coarse - (now - then) < 2.0 / TICKS => now - then,
            (Some(_) | None, Some(_) | None) => coarse,
        }
    }
}

/// Processor time of our own ended children, in seconds.
pub(crate) fn of_children() -> anyhow::Result<f64> {
    let stat = Stat::of(std::process::id())?;
    Ok((stat.field(16)? + stat.field(17)?) / TICKS)
}

/// Resident memory of a process, in MiB.
pub(crate) fn resident_mib(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
    let kib = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let kib: f64 = kib.context("the kernel does not say VmRSS")?.parse().context("VmRSS is no number")?;
    Ok(kib / 1024.0)
}

/// The parent of a process.
pub(crate) fn parent_of(pid: u32) -> anyhow::Result<u32> {
    fs::read_to_string(format!("/proc/{pid}/stat")).context("cannot read a process's parent")?;
    Stat::of(pid)?.words.get(1).and_then(|word| word.parse().ok()).context("a process has no parent")
}

/// Processes of this name.
pub(crate) fn named(name: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| is(*pid, name)).collect()
}

/// Whether a process has this name.
pub(crate) fn is(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
}

/// How busy all processors were so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy {
    busy: f64,
    all: f64,
}

impl Busy {
    /// The share that was busy since an earlier look.
    pub(crate) fn share_since(self, before: Busy) -> f64 {
        let all = self.all - before.all;
        if all > 0.0 { (self.busy - before.busy) / all } else { 0.0 }
    }
}

pub(crate) fn host_busy() -> anyhow::Result<Busy> {
    let text = fs::read_to_string("/proc/stat").context("cannot read `/proc/stat`")?;
    let line = text.lines().next().context("`/proc/stat` is empty")?;
    let ticks: Vec<f64> = line.split_ascii_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is within user.
    let all: f64 = ticks.iter().take(8).sum();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    Ok(Busy { busy: all - idle, all })
}

/// The words of `/proc/PID/stat` behind the name.
struct Stat {
    words: Vec<String>,
}

impl Stat {
    fn of(pid: u32) -> anyhow::Result<Stat> {
        let path = format!("/proc/{pid}/stat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        // The name may hold anything, so it is counted from its end.
        let (_, behind) = text.rsplit_once(')').context("a process has no name")?;
        Ok(Stat { words: behind.split_ascii_whitespace().map(str::to_owned).collect() })
    }

    /// A field by its number in proc(5).
    fn field(&self, number: usize) -> anyhow::Result<f64> {
        let word = self.words.get(number - 3).context("a process's `stat` is short")?;
        word.parse().context("a process's `stat` holds no number")
    }
}

fn fine(pid: u32) -> Option<f64> {
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread that has just ended is missed; see `seconds_since`.
        let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
        nanos += text.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanos).as_secs_f64())
}
