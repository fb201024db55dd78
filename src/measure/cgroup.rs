//! What one container uses: memory that the kernel cannot take back, and processor time.
//!
//! ```text
//!           memory                                                          processor time
//! v2        memory.current - inactive_file - active_file - slab_reclaimable   cpu.stat usage_usec
//! v1        total_rss + total_shmem + memory.kmem.usage_in_bytes              cpuacct.usage
//!
//!           processes killed for want of memory    of those at its own limit
//! v2        memory.events oom_kill                  as often as memory.events oom
//! v1        memory.oom_control oom_kill             all, where memory.max_usage_in_bytes has reached memory.limit_in_bytes
//! ```
//!
//! On v1 cached files bring one to its own limit as well: a kill that was caused above may be taken for one's own there.
//! `memory.failcnt`, which would be nearer, is not counted by all kernels.
//!
//! A file is opened once and never again: the path of a cgroup that is gone could be another one's by now.

use std::io;
use std::path::Path;

use crate::control::message::{InstanceUse, Kills, Read, Unread};
use crate::quantity::{Bytes, Instant, MilliCpu};

use super::MeasureError;
use super::file::{Kept, Page, TEXT_MAX, unread};
use super::rate::Rate;
use super::root::Place;

/// The open files of one container's cgroup.
#[derive(Debug)]
pub(super) struct Cgroup {
    memory: Memory,
    cpu: Cpu,
    rate: Rate,
    kills: KillFiles,
}

/// A file that could not be opened keeps its reason, so that the other figure can still be read.
#[derive(Debug)]
enum Memory {
    Unified { stat: Read<Kept>, current: Read<Kept> },
    Legacy { stat: Read<Kept>, kernel: Read<Option<Kept>> },
}

#[derive(Debug)]
enum Cpu {
    Unified { stat: Read<Kept> },
    Legacy { usage: Read<Kept> },
}

#[derive(Debug)]
enum KillFiles {
    Unified { events: Read<Kept> },
    Legacy { control: Read<Kept>, most: Read<Kept>, limit: Read<Kept> },
}

impl Cgroup {
    pub(super) fn open(place: &Place) -> Result<Cgroup, MeasureError> {
        let (memory, cpu, kills) = match place {
            Place::Unified(dir) => {
                exists(dir)?;
                let memory = Memory::Unified {
                    stat: open(dir, "memory.stat")?,
                    current: open(dir, "memory.current")?,
                };
                let kills = KillFiles::Unified { events: open(dir, "memory.events")? };
                (memory, Cpu::Unified { stat: open(dir, "cpu.stat")? }, kills)
            }
            Place::Legacy { memory, cpuacct } => {
                for dir in memory.iter().chain(cpuacct) {
                    exists(dir)?;
                }
                let (memory, kills) = (legacy_memory(memory.as_deref())?, legacy_kills(memory.as_deref())?);
                (memory, legacy_cpu(cpuacct.as_deref())?, kills)
            }
        };
        Ok(Cgroup { memory, cpu, rate: Rate::default(), kills })
    }

    pub(super) fn read(&mut self, now: Instant, page: &mut Page) -> InstanceUse {
        InstanceUse { memory: self.memory.read(page), cpu: self.cpu(now, page), kills: self.kills.read(page) }
    }

    /// Memory alone.
    pub(super) fn memory(&self, page: &mut Page) -> Read<Bytes> {
        self.memory.read(page)
    }

    fn cpu(&mut self, now: Instant, page: &mut Page) -> Read<MilliCpu> {
        let nanos = match &self.cpu {
            Cpu::Unified { stat } => {
                let [micros] = fields(stat, page, ["usage_usec"])?;
                micros.checked_mul(1000).ok_or_else(|| unread("cpu.stat", "the number is too large"))?
            }
            Cpu::Legacy { usage } => single(usage, page)?,
        };
        self.rate.at(now, nanos)
    }
}

impl Memory {
    fn read(&self, page: &mut Page) -> Read<Bytes> {
        match self {
            Memory::Unified { stat, current } => {
                // The details first: what comes in between then counts as held, not as given back.
                let back = fields(stat, page, ["inactive_file", "active_file", "slab_reclaimable"])?;
                let current = Bytes::new(single(current, page)?);
                // The kernel brings memory.stat up to date late, so its parts can exceed memory.current.
                Ok(current.saturating_sub(back.into_iter().map(Bytes::new).sum()))
            }
            Memory::Legacy { stat, kernel } => {
                let held = fields(stat, page, ["total_rss", "total_shmem"])?;
                let kernel = optional(kernel, page)?;
                Ok(held.into_iter().chain([kernel]).map(Bytes::new).sum())
            }
        }
    }
}

impl KillFiles {
    fn read(&self, page: &mut Page) -> Read<Kills> {
        let [processes, own_limit] = match self {
            KillFiles::Unified { events } => fields(events, page, ["oom_kill", "oom"])?,
            KillFiles::Legacy { control, most, limit } => {
                let [processes] = fields(control, page, ["oom_kill"])?;
                let own = processes > 0 && single(most, page)? >= single(limit, page)?;
                [processes, if own { processes } else { 0 }]
            }
        };
        Ok(Kills { processes, own_limit })
    }
}

fn legacy_kills(dir: Option<&Path>) -> Result<KillFiles, MeasureError> {
    let Some(dir) = dir else {
        let none = || Err(no_controller("memory"));
        return Ok(KillFiles::Legacy { control: none(), most: none(), limit: none() });
    };
    Ok(KillFiles::Legacy {
        control: open(dir, "memory.oom_control")?,
        most: open(dir, "memory.max_usage_in_bytes")?,
        limit: open(dir, "memory.limit_in_bytes")?,
    })
}

fn legacy_memory(dir: Option<&Path>) -> Result<Memory, MeasureError> {
    let Some(dir) = dir else {
        return Ok(Memory::Legacy { stat: Err(no_controller("memory")), kernel: Ok(None) });
    };
    // Kernels that do not account for their own memory (`cgroup.memory=nokmem`, or built without) lack
    // the file, and charge nobody for it: then the rest is all the container holds by any account.
    let kernel = open_if_there(dir, "memory.kmem.usage_in_bytes")?;
    Ok(Memory::Legacy { stat: open(dir, "memory.stat")?, kernel })
}

fn legacy_cpu(dir: Option<&Path>) -> Result<Cpu, MeasureError> {
    let usage = match dir {
        Some(dir) => open(dir, "cpuacct.usage")?,
        None => Err(no_controller("cpuacct")),
    };
    Ok(Cpu::Legacy { usage })
}

fn no_controller(name: &str) -> Unread {
    Unread(format!("the host has cgroup v1 without its controller `{name}`"))
}

fn exists(dir: &Path) -> Result<(), MeasureError> {
    match dir.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::from(io::ErrorKind::NotADirectory)),
        Err(error) => Err(error),
    }
    .map_err(|source| MeasureError::Open { path: dir.to_owned(), source })
}

fn open(dir: &Path, name: &'static str) -> Result<Read<Kept>, MeasureError> {
    kept_or_reason(Kept::open(dir, name, TEXT_MAX), dir, name)
}

/// As [`open`], of a file that not all kernels have.
fn open_if_there(dir: &Path, name: &'static str) -> Result<Read<Option<Kept>>, MeasureError> {
    match Kept::open(dir, name, TEXT_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(None)),
        opened => Ok(kept_or_reason(opened, dir, name)?.map(Some)),
    }
}

/// What will not be different later is the figure's reason; the rest (too many open files) fails the call.
fn kept_or_reason(
    opened: io::Result<Kept>,
    dir: &Path,
    name: &'static str,
) -> Result<Read<Kept>, MeasureError> {
    match opened {
        Ok(kept) => Ok(Ok(kept)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(Err(unread(name, error)))
        }
        Err(source) => Err(MeasureError::Open { path: dir.join(name), source }),
    }
}

/// The numbers of these keys in a file of lines `key number`; each must be there, once.
fn fields<const N: usize>(file: &Read<Kept>, page: &mut Page, keys: [&str; N]) -> Read<[u64; N]> {
    let kept = file.as_ref().map_err(Unread::clone)?;
    let text = kept.read(page)?;
    let mut found = [None; N];
    for line in text.lines() {
        let Some((key, value)) = line.split_once(' ') else { continue };
        let Some(at) = keys.iter().position(|wanted| *wanted == key) else { continue };
        let value = number(value).ok_or_else(|| kept.unread(format!("`{key}` has no number")))?;
        if found[at].replace(value).is_some() {
            return Err(kept.unread(format!("`{key}` is there twice")));
        }
    }
    let mut numbers = [0; N];
    for ((number, found), key) in numbers.iter_mut().zip(found).zip(keys) {
        *number = found.ok_or_else(|| kept.unread(format!("it has no `{key}`")))?;
    }
    Ok(numbers)
}

/// The number that is all of a file.
fn single(file: &Read<Kept>, page: &mut Page) -> Read<u64> {
    number_in(file.as_ref().map_err(Unread::clone)?, page)
}

/// The number that is all of a file; 0 where the kernel has no such file, as it counts nothing then.
fn optional(file: &Read<Option<Kept>>, page: &mut Page) -> Read<u64> {
    match file.as_ref().map_err(Unread::clone)? {
        Some(kept) => number_in(kept, page),
        None => Ok(0),
    }
}

fn number_in(kept: &Kept, page: &mut Page) -> Read<u64> {
    let text = kept.read(page)?;
    text.strip_suffix('\n').and_then(number).ok_or_else(|| kept.unread("it is no number"))
}

/// Digits only: `max`, signs and blanks are none.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
