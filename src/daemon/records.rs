//! The loop's end of the store: gives out what a turn has recorded as one batch, and waits for nothing.
//!
//! What the store has no room for stays here, the newest of each subject, and goes with the next turn's. A record
//! that is not written in time counts as failed; it may be written yet, and the newer ones behind it say what
//! became of it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::control::message::{Input, Record};
use crate::quantity::Instant;
use crate::store::{Batch, Entry, Writer};

/// A commit takes microseconds, one that is synced some milliseconds; a disk that takes this long hangs.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// Records on their way.
#[derive(Debug)]
pub(super) struct Records {
    store: Writer,
    /// What has not been handed over.
    batch: Batch,
    /// What was given out and not heard of: when it is late, and the last number of its turn.
    waiting: VecDeque<(Instant, u64)>,
    last: u64,
}

impl Records {
    pub(super) fn new(store: Writer) -> Records {
        Records { store, batch: Batch::new(), waiting: VecDeque::new(), last: 0 }
    }

    /// Takes one record of this turn; an instance's with the hash of the template that it was made from.
    pub(super) fn take(&mut self, number: u64, record: Record, template: String) {
        self.last = number;
        self.batch.insert(record.subject(), Entry { number, record, template });
    }

    /// Hands over what the turn has recorded.
    pub(super) fn give_out(&mut self, now: Instant) {
        if self.batch.is_empty() {
            return;
        }
        if self.waiting.back().is_none_or(|(_, number)| *number < self.last) {
            self.waiting.push_back((now.after(WRITTEN_WITHIN), self.last));
        }
        if let Err(batch) = self.store.write(std::mem::take(&mut self.batch)) {
            self.batch = batch;
        }
    }

    /// Notes what was heard of records.
    pub(super) fn hear(&mut self, fact: &Input) {
        if let Input::Recorded(upto) | Input::RecordFailed(upto, _) = fact {
            self.waiting.retain(|(_, number)| number > upto);
        }
    }

    /// When something is late that is not written yet.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.front().map(|(late, _)| *late)
    }

    /// The failure of what is late.
    pub(super) fn late(&mut self, now: Instant) -> Option<Input> {
        let late = self.waiting.iter().take_while(|(late, _)| *late <= now).count();
        let (_, number) = self.waiting.drain(..late).next_back()?;
        let limit = crate::quantity::show_duration(WRITTEN_WITHIN);
        Some(Input::RecordFailed(number, format!("the disk takes longer than {limit}")))
    }
}
