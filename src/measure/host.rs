//! The host's own figures, from the texts of `/proc` as the `procfs` crate reads them.
//!
//! Its parsers panic on some texts that no sane kernel writes (a sum beyond 64 bits, a key that is no ASCII,
//! a pressure line of one word) and its messages name its own source lines; so a text is looked over before
//! it is handed in, and an error is told in our words.

use procfs::{CpuTime, FromBufRead, FromBufReadSI, FromRead, KernelStats, LoadAverage, Meminfo};

use crate::control::message::{HostCpu, HostMemory, HostPids, Pressure, Read, Unread};
use crate::quantity::{Bytes, MilliCpu, Permille};

use super::Root;
use super::file::{Page, STAT_MAX, Standing, TEXT_MAX};
use super::rate::{first_look, went_back};

/// The host's files, and how busy it was up to the last look.
#[derive(Debug)]
pub(super) struct Host {
    meminfo: Standing,
    stat: Standing,
    pressure_memory: Standing,
    pressure_cpu: Standing,
    pressure_io: Standing,
    loadavg: Standing,
    pid_max: Standing,
    threads_max: Standing,
    before: Option<Ticks>,
}

impl Host {
    pub(super) fn new(root: &Root) -> Host {
        let file = |name, most| Standing::new(root.proc(), name, most);
        Host {
            meminfo: file("meminfo", TEXT_MAX),
            stat: file("stat", STAT_MAX),
            pressure_memory: file("pressure/memory", TEXT_MAX),
            pressure_cpu: file("pressure/cpu", TEXT_MAX),
            pressure_io: file("pressure/io", TEXT_MAX),
            loadavg: file("loadavg", TEXT_MAX),
            pid_max: file("sys/kernel/pid_max", TEXT_MAX),
            threads_max: file("sys/kernel/threads-max", TEXT_MAX),
            before: None,
        }
    }

    pub(super) fn memory(&mut self, page: &mut Page) -> Read<HostMemory> {
        self.meminfo.read(page, memory)
    }

    /// How busy the processors were since the look before, by the kernel's own count of ticks.
    pub(super) fn cpu(&mut self, page: &mut Page) -> Read<HostCpu> {
        let (cores, ticks) = self.stat.read(page, ticks)?;
        let before = self.before.replace(ticks).ok_or_else(first_look)?;
        let busy = ticks.busy.checked_sub(before.busy).ok_or_else(went_back)?;
        // The idle count of a tickless kernel is known to step back a little; nothing was idle then.
        let idle = ticks.idle.saturating_sub(before.idle);
        let all = u128::from(busy) + u128::from(idle);
        if all == 0 {
            return Err(Unread("no tick has passed since the last look".into()));
        }
        let busy = u128::from(cores.get()) * u128::from(busy) / all;
        Ok(HostCpu { cores, busy: MilliCpu::new(u64::try_from(busy).unwrap_or(u64::MAX)) })
    }

    /// Whole or not at all: three of the four shares would be read as a calm fourth.
    pub(super) fn pressure(&mut self, page: &mut Page) -> Read<Pressure> {
        let (memory_some, memory_full) =
            self.pressure_memory.read(page, |text| Ok((stalled(text, "some ")?, stalled(text, "full ")?)))?;
        // Kernels before 5.13 have no `full` line for processors; none is asked for.
        let cpu_some = self.pressure_cpu.read(page, |text| stalled(text, "some "))?;
        let io_some = self.pressure_io.read(page, |text| stalled(text, "some "))?;
        Ok(Pressure { memory_some, memory_full, cpu_some, io_some })
    }

    /// The processes and threads there are and can be, `ours` among them. `loadavg` has the very count that the kernel holds against
    /// `threads-max` when something forks, in one small read; that of the folders of `/proc` would be thousands, and none
    /// for threads. Each has a number of its own, so there are at most `pid_max` of them, too.
    pub(super) fn pids(&mut self, ours: u64, page: &mut Page) -> Read<HostPids> {
        let there = self.loadavg.read(page, |text| {
            let load =
                LoadAverage::from_read(text.as_bytes()).map_err(|_| "a number is missing or mangled")?;
            Ok(u64::from(load.max))
        })?;
        let pid_max = self.pid_max.read(page, whole)?;
        let threads_max = self.threads_max.read(page, whole)?;
        Ok(HostPids { most: pid_max.min(threads_max), there, ours })
    }
}

/// Processor time of the whole host since its start, in the kernel's ticks.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    busy: u64,
    idle: u64,
}

fn memory(text: &str) -> Result<HostMemory, &'static str> {
    if !text.lines().all(is_plain_amount) {
        return Err("a line is mangled");
    }
    let meminfo = Meminfo::from_buf_read(text.as_bytes()).map_err(|_| "a line is missing or mangled")?;
    let available = meminfo.mem_available.ok_or("it has no MemAvailable")?;
    // More available than there is would admit more than the host can hold.
    match available <= meminfo.mem_total {
        true => Ok(HostMemory { total: Bytes::new(meminfo.mem_total), available: Bytes::new(available) }),
        false => Err("more is available than there is"),
    }
}

/// Whether a line of meminfo reads `Key: 123 kB`, as every kernel writes it, and is too small to overflow.
fn is_plain_amount(line: &str) -> bool {
    /// Digits that, times 1024, stay within 64 bits.
    const DIGITS_MAX: usize = 16;
    let mut words = line.split_ascii_whitespace();
    let (key, number, unit) = (words.next(), words.next(), words.next());
    line.is_ascii()
        && key.is_some_and(|key| key.len() > 1 && key.ends_with(':'))
        && number.is_some_and(|n| n.len() <= DIGITS_MAX && n.bytes().all(|b| b.is_ascii_digit()))
        && unit.is_none_or(|unit| unit == "kB")
        && words.next().is_none()
}

fn whole(text: &str) -> Result<u64, &'static str> {
    text.trim_end().parse().map_err(|_| "it is no number")
}

fn ticks(text: &str) -> Result<(MilliCpu, Ticks), &'static str> {
    let stats = KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info())
        .map_err(|_| "a line is missing or mangled")?;
    let cores = u64::try_from(stats.cpu_time.len()).unwrap_or(u64::MAX);
    if cores == 0 {
        return Err("it names no processor");
    }
    let ticks = ticks_of(&stats.total).ok_or("its numbers are too large")?;
    Ok((MilliCpu::new(cores.saturating_mul(1000)), ticks))
}

fn ticks_of(time: &CpuTime) -> Option<Ticks> {
    // What a hypervisor stole is not ours to use, so it counts as busy; guest time is within user and nice.
    let busy = [time.nice, time.system, time.irq?, time.softirq?, time.steal.unwrap_or(0)]
        .into_iter()
        .try_fold(time.user, u64::checked_add)?;
    Some(Ticks { busy, idle: time.idle.checked_add(time.iowait?)? })
}

/// The ten-second share of the line that begins with `word`.
pub(super) fn stalled(text: &str, word: &str) -> Result<Permille, &'static str> {
    let line = text.lines().find(|line| line.starts_with(word)).ok_or("a line is missing")?;
    let record = procfs::parse_pressure_record(line).map_err(|_| "a line is mangled")?;
    // No number at all is in no range either.
    if !(0.0..=100.0).contains(&record.avg10) {
        return Err("a share is beyond 100 %");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 1000, as was looked at above"
    )]
    let thousandths = (record.avg10 * 10.0).round() as u32;
    Ok(Permille::new(thousandths))
}
