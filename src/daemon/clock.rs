//! The one place that reads a clock, and who this boot and this run are.

use std::path::Path;
use std::{fs, io};

use nix::time::{ClockId, clock_gettime};

use crate::quantity::Instant;

/// The time since the host's start, suspend included.
pub(super) fn now() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every Linux has this clock");
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// This boot's own name, by the kernel.
pub(super) fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(text.trim().to_owned())
}

/// A name for this run of the daemon; drawn, so that two runs in one boot hardly ever share it.
pub(super) fn draw_run() -> u32 {
    let mut draw = [0u8; 4];
    getrandom::fill(&mut draw).expect("the kernel gives random bytes once the host has started");
    u32::from_ne_bytes(draw)
}
