//! What happens, as entries of the journal: one for each transition, with the fields that find it again.
//!
//! ```text
//! loop: Event ------.
//!                   +--> bounded channel --> writer (thread): repeats -> entry -> journald, or standard error
//! keeper: Line -----'
//! ```
//!
//! The journal's socket blocks when journald is stuck, and the loop must not. So a thread writes, and the others
//! only hand it what to write; what does not fit is counted, and the thread says so with the next entry that does.
//! Lines of containers may take a part of the channel only, so that a flood of them cannot push out what Stoker
//! itself has to say.
//!
//! Not here: what the entries mean to people (`systemd::catalog`), and where they go (`systemd`).

mod entry;
mod output;
mod repeats;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use std::{io, thread};

pub(super) use self::output::Lines;
use self::output::Spoken;
use self::repeats::Repeats;
use super::clock;
use crate::control::message::Event;

/// Entries that may stand before the writer: some seconds of the busiest host.
const ENTRIES: usize = 4096;
/// Of those, the ones that are lines of containers.
const LINES: usize = 1024;
/// At the end, what stands there is written for so long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What is written.
#[derive(Debug)]
enum Entry {
    /// A transition, with how many entries before it were dropped.
    Event(Event, u64),
    /// Something a container wrote.
    Line(Spoken),
}

/// The way to the writer.
#[derive(Debug)]
pub(super) struct Journal {
    entries: Arc<SyncSender<Entry>>,
    /// Lines that stand before the writer.
    lines: Arc<AtomicUsize>,
    dropped: u64,
}

/// Says when the writer has written all and ended.
#[derive(Debug)]
pub(super) struct LastWord(Receiver<()>);

impl Journal {
    /// Starts the writer; it ends when the [`Journal`] is gone and all is written.
    pub(super) fn open() -> io::Result<(Journal, LastWord)> {
        let (entries, incoming) = sync_channel(ENTRIES);
        let (ended, last) = sync_channel(0);
        let lines: Arc<AtomicUsize> = Arc::default();
        let standing = lines.clone();
        thread::Builder::new().name("journal".into()).spawn(move || {
            write_all(&incoming, &standing);
            drop(ended);
        })?;
        Ok((Journal { entries: Arc::new(entries), lines, dropped: 0 }, LastWord(last)))
    }

    /// Hands over one entry, at once.
    pub(super) fn tell(&mut self, event: Event) {
        match self.entries.try_send(Entry::Event(event, self.dropped)) {
            Ok(()) => self.dropped = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.dropped += 1,
        }
    }

    /// The way for lines of containers.
    pub(super) fn lines(&self) -> Lines {
        Lines::new(Arc::downgrade(&self.entries), self.lines.clone())
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

/// Writes until nobody is left who could say something, and then what was held back.
fn write_all(incoming: &Receiver<Entry>, lines: &AtomicUsize) {
    let mut repeats = Repeats::default();
    loop {
        let next = match repeats.next_due() {
            None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => incoming.recv_timeout(due.since(clock::now())),
        };
        match next {
            Ok(Entry::Event(event, dropped)) => {
                if dropped > 0 {
                    entry::dropped(dropped);
                }
                if let Some((event, more)) = repeats.pass(event, clock::now()) {
                    entry::transition(&event, more);
                }
            }
            Ok(Entry::Line(spoken)) => {
                lines.fetch_sub(1, Ordering::Relaxed);
                entry::line(&spoken);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        for (event, more) in repeats.due(clock::now()) {
            entry::transition(&event, more);
        }
    }
    for (event, more) in repeats.all() {
        entry::transition(&event, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::What;

    #[test]
    fn the_writer_hears_how_many_were_dropped() {
        let (entries, incoming) = sync_channel(1);
        let mut journal = Journal { entries: Arc::new(entries), lines: Arc::default(), dropped: 0 };
        let event = || Event { what: What::Drained, pool: None, instance: None, lease: None, tenant: None };
        let dropped = |entry: Entry| match entry {
            Entry::Event(_, dropped) => dropped,
            Entry::Line(_) => unreachable!("nobody wrote a line"),
        };
        for _ in 0..3 {
            journal.tell(event());
        }
        assert_eq!(dropped(incoming.recv().unwrap()), 0);
        journal.tell(event());
        assert_eq!(dropped(incoming.recv().unwrap()), 2);
        journal.tell(event());
        assert_eq!(dropped(incoming.recv().unwrap()), 0, "said once");
    }
}
