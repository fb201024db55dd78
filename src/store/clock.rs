//! The one place that reads clocks, and who this boot and this run are.
//!
//! Deadlines are counted by CLOCK_BOOTTIME, which goes on while the host sleeps and which nobody sets. It begins anew
//! with each boot, so what is written down carries its boot's id, and the wall clock beside it for what outlives
//! the boot.

use std::path::Path;
use std::{fs, io};

use nix::time::{ClockId, clock_gettime};

use crate::quantity::Instant;

/// A point in time that another boot can still make sense of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The boot's id.
    pub boot: String,
    /// The time since that boot.
    pub at: Instant,
    /// Milliseconds since 1970 by the wall clock, which people and network time set.
    pub wall_ms: i64,
}

impl Moment {
    /// Now, in this boot.
    pub fn now(boot: &str) -> Moment {
        Moment { boot: boot.to_owned(), at: now(), wall_ms: wall_ms() }
    }

    /// A point in time of the boot in which `self` was noted, as it is counted in the boot of `now`. What lies
    /// before that boot counts as its beginning.
    pub fn carry(&self, time: Instant, now: &Moment) -> Instant {
        if self.boot == now.boot {
            return time;
        }
        let passed = i128::from(now.wall_ms - self.wall_ms).max(0) * 1_000_000;
        let ahead = i128::from(time.as_nanos()) - i128::from(self.at.as_nanos());
        let there = i128::from(now.at.as_nanos()) - passed + ahead;
        Instant::from_nanos(u64::try_from(there.max(0)).unwrap_or(u64::MAX))
    }
}

/// The time since the host's start, suspend included.
pub fn now() -> Instant {
    let (seconds, nanos) = read(ClockId::CLOCK_BOOTTIME);
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Milliseconds since 1970.
pub fn wall_ms() -> i64 {
    let (seconds, nanos) = read(ClockId::CLOCK_REALTIME);
    i64::try_from(seconds.saturating_mul(1000) + nanos / 1_000_000).unwrap_or(i64::MAX)
}

fn read(clock: ClockId) -> (u64, u64) {
    let time = clock_gettime(clock).expect("every Linux has this clock");
    (u64::try_from(time.tv_sec()).unwrap_or(0), u64::try_from(time.tv_nsec()).unwrap_or(0))
}

/// This boot's own name, by the kernel.
///
/// # Errors
/// When `/proc` does not say.
pub fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(text.trim().to_owned())
}

/// A name for this run of the daemon; drawn, so that two runs in one boot hardly ever share it.
pub fn draw_run() -> u32 {
    let mut draw = [0u8; 4];
    getrandom::fill(&mut draw).expect("the kernel gives random bytes once the host has started");
    u32::from_ne_bytes(draw)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_is_carried_over_a_reboot_by_the_wall_clock() {
        let at = |seconds| Instant::BOOT.after(Duration::from_secs(seconds));
        let moment = |boot: &str, seconds, wall: i64| Moment {
            boot: boot.into(),
            at: at(seconds),
            wall_ms: wall * 1000,
        };
        let (noted, now) = (moment("a", 5000, 100_000), moment("b", 60, 100_300));
        assert_eq!(noted.carry(at(5400), &now), at(160), "100 of its 400 seconds are left");
        assert_eq!(noted.carry(at(4000), &now), Instant::BOOT, "as early as can be");
        assert_eq!(noted.carry(at(5400), &moment("a", 5100, 0)), at(5400), "in one boot nothing moves");
        let set_back = moment("b", 60, 99_000);
        assert_eq!(
            noted.carry(at(5400), &set_back),
            at(460),
            "a clock that was set back gives no time twice"
        );
    }
}
