//! Transitions as journal entries: one each, with the fields that find it again.
//!
//! The level says who wakes up: an error someone at night, a warning someone in the morning, the rest nobody.
//!
//! The journal's socket blocks when journald is stuck, and the loop must not. So a thread writes, and the loop
//! only hands it what to write; what does not fit is counted, and the thread says so with the next entry that does.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use std::{io, thread};

use crate::control::message::{Event, What};

/// Entries that may stand before the writer: some seconds of the busiest host.
const ENTRIES: usize = 4096;
/// At the end, what stands there is written for so long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One entry, with how many before it were dropped.
#[derive(Debug)]
struct Entry {
    event: Event,
    dropped: u64,
}

/// The way to the writer.
#[derive(Debug)]
pub(super) struct Journal {
    entries: SyncSender<Entry>,
    dropped: u64,
}

/// Says when the writer has written all and ended.
#[derive(Debug)]
pub(super) struct LastWord(Receiver<()>);

impl Journal {
    /// Starts the writer; it ends when the [`Journal`] is gone and all is written.
    pub(super) fn open() -> io::Result<(Journal, LastWord)> {
        let (entries, incoming) = sync_channel::<Entry>(ENTRIES);
        let (ended, last) = sync_channel(0);
        thread::Builder::new().name("journal".into()).spawn(move || {
            for Entry { event, dropped } in incoming {
                if dropped > 0 {
                    tracing::warn!("{dropped} entries before this one were dropped: the journal took none");
                }
                write(&event);
            }
            drop(ended);
        })?;
        Ok((Journal { entries, dropped: 0 }, LastWord(last)))
    }

    /// Hands over one entry, at once.
    pub(super) fn tell(&mut self, event: Event) {
        match self.entries.try_send(Entry { event, dropped: self.dropped }) {
            Ok(()) => self.dropped = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.dropped += 1,
        }
    }
}

impl LastWord {
    /// Waits until all is written, but not for ever.
    pub(super) fn wait(&self) {
        match self.0.recv_timeout(LAST_WORDS) {
            Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Writes one transition.
fn write(event: &Event) {
    let text = event.what.to_string();
    let pool = event.pool.as_ref().map(ToString::to_string);
    let instance = event.instance.as_ref().map(ToString::to_string);
    let lease = event.lease.as_ref().map(ToString::to_string);
    let tenant = event.tenant.as_ref().map(ToString::to_string);
    let (state, reason) = state_and_reason(&event.what);
    // A level is part of an entry's type, so each level writes the fields anew.
    macro_rules! entry {
        ($level:ident) => {
            tracing::$level!(
                stoker_pool = pool,
                stoker_instance = instance,
                stoker_lease = lease,
                stoker_tenant = tenant,
                stoker_state = state,
                stoker_reason = reason,
                "{text}"
            )
        };
    }
    if is_trouble(&event.what) {
        entry!(warn);
    } else {
        entry!(info);
    }
}

/// Whether somebody should look at it in the morning.
fn is_trouble(what: &What) -> bool {
    match what {
        What::InstanceStartFailed(_)
        | What::InstanceStuck(..)
        | What::EngineLost(_)
        | What::TelemetryLost(_)
        | What::StoreLost(_) => true,
        What::InstanceStarting
        | What::InstanceWarm(_)
        | What::InstanceStopping(_)
        | What::InstanceGone
        | What::LeaseQueued
        | What::LeaseGranted(_)
        | What::LeaseEnded(_)
        | What::RequestRefused(_)
        | What::DrainBegan(_)
        | What::Drained
        | What::Undrained
        | What::EngineBack
        | What::TelemetryBack
        | What::StoreBack
        | What::Recovered { .. } => false,
    }
}

/// The state that was entered, and why, as the short names of the API.
fn state_and_reason(what: &What) -> (&'static str, Option<&'static str>) {
    match what {
        What::InstanceStarting => ("starting", None),
        What::InstanceWarm(_) => ("warm", None),
        What::InstanceStartFailed(_) => ("start_failed", None),
        What::InstanceStopping(why) => ("stopping", Some(why.code())),
        What::InstanceStuck(..) => ("stuck", None),
        What::InstanceGone => ("gone", None),
        What::LeaseQueued => ("queued", None),
        What::LeaseGranted(_) => ("executing", None),
        What::LeaseEnded(end) => (end.code(), Some(end.reason())),
        What::RequestRefused(why) => ("refused", Some(why.code())),
        What::DrainBegan(_) => ("draining", None),
        What::Drained => ("drained", None),
        What::Undrained => ("undrained", None),
        What::EngineBack => ("engine_reachable", None),
        What::EngineLost(_) => ("engine_unreachable", None),
        What::TelemetryLost(_) => ("telemetry_unknown", None),
        What::TelemetryBack => ("telemetry_known", None),
        What::StoreLost(_) => ("store_failing", None),
        What::StoreBack => ("store_writing", None),
        What::Recovered { .. } => ("recovered", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_hears_how_many_were_dropped() {
        let (entries, incoming) = sync_channel(1);
        let mut journal = Journal { entries, dropped: 0 };
        let event = || Event { what: What::Drained, pool: None, instance: None, lease: None, tenant: None };
        for _ in 0..3 {
            journal.tell(event());
        }
        assert_eq!(incoming.recv().unwrap().dropped, 0);
        journal.tell(event());
        assert_eq!(incoming.recv().unwrap().dropped, 2);
        journal.tell(event());
        assert_eq!(incoming.recv().unwrap().dropped, 0, "said once");
    }
}
