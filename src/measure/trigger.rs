//! PSI triggers: the kernel says when tasks have stood still for memory.
//!
//! A wake-up to look, never a verdict: it comes when a single container meets its own limit, and may not come on a
//! host that is really short. An unprivileged process may have a window of two seconds or a multiple of that, no
//! other; some kernels let it have none.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Root;

/// So much stalled time within such a window, in microseconds; tried in this order. 150 ms of stalls are felt, and are
/// not yet an avalanche.
const TRIGGERS: [(u32, u32); 2] = [(150_000, 1_000_000), (300_000, 2_000_000)];

/// A trigger on the whole host's memory.
#[derive(Debug)]
pub struct Trigger {
    file: File,
    /// How long the kernel counts.
    pub window: Duration,
}

impl Trigger {
    /// Sets the shortest one that may be had.
    ///
    /// # Errors
    /// When the kernel has no PSI, or lets us have no trigger.
    pub fn on_memory(root: &Root) -> io::Result<Trigger> {
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for (stalled, window) in TRIGGERS {
            // A file takes one trigger, and keeps it for as long as it is open.
            let mut file =
                File::options().read(true).write(true).open(root.proc().join("pressure/memory"))?;
            match file.write_all(format!("some {stalled} {window}\0").as_bytes()) {
                Ok(()) => return Ok(Trigger { file, window: Duration::from_micros(window.into()) }),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Waits until it fires (`true`) or so long.
    ///
    /// # Errors
    /// When the trigger is no more.
    pub fn wait(&self, most: Duration) -> io::Result<bool> {
        let most = Timespec::try_from(most).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut files = [PollFd::new(&self.file, PollFlags::PRI)];
        match poll(&mut files, Some(&most)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) if files[0].revents().contains(PollFlags::ERR) => Err(io::ErrorKind::BrokenPipe.into()),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}
