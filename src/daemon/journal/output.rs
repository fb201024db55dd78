//! What containers write, on its way to the journal: bounded in what stands before the writer, and in how
//! much one instance may say.
//!
//! The words are a stranger's. They reach the journal as text without control characters, whatever
//! bytes they were, and say with their fields whose they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::{Entry, LINES};
use crate::control::message::{InstanceId, LeaseId};
use crate::profile::PoolName;
use crate::quantity::Instant;

/// Lines that an instance may write at once, and each second from then on.
const OF_ONE: Rate = Rate { burst: 500, a_second: 50 };
/// The same for all instances together: below journald's own bound for a service, 10,000 in 30 s, beyond which it
/// would drop what Stoker itself has to say.
const OF_ALL: Rate = Rate { burst: 2000, a_second: 200 };
const SECOND: u64 = 1_000_000_000;

/// Something a container wrote, with whose it is.
#[derive(Debug)]
pub(in crate::daemon) struct Spoken {
    pub(super) pool: PoolName,
    pub(super) instance: InstanceId,
    pub(super) lease: Option<LeaseId>,
    pub(super) said: Said,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// One line.
    Line {
        /// `stdout` or `stderr`.
        stream: &'static str,
        text: String,
    },
    /// So many lines were left out.
    Dropped(u64),
}

/// The way for lines of containers; cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::daemon) struct Lines {
    /// Gone when the daemon ends: what containers write then is nobody's to wait for.
    entries: Weak<SyncSender<Entry>>,
    standing: Arc<AtomicUsize>,
    /// What all may still write.
    allowance: Arc<Mutex<Allowance>>,
}

/// One instance's own way.
#[derive(Debug)]
pub(in crate::daemon) struct Voice {
    lines: Lines,
    pool: PoolName,
    instance: InstanceId,
    /// The lease it serves, once it does; it serves one.
    lease: Arc<OnceLock<LeaseId>>,
    allowance: Allowance,
    dropped: u64,
}

impl Lines {
    pub(super) fn new(entries: Weak<SyncSender<Entry>>, standing: Arc<AtomicUsize>) -> Lines {
        let allowance = Arc::new(Mutex::new(Allowance::new(OF_ALL, Instant::BOOT)));
        Lines { entries, standing, allowance }
    }

    /// A way for this instance.
    pub(in crate::daemon) fn of(
        &self,
        pool: PoolName,
        instance: InstanceId,
        lease: Arc<OnceLock<LeaseId>>,
        now: Instant,
    ) -> Voice {
        let allowance = Allowance::new(OF_ONE, now);
        Voice { lines: self.clone(), pool, instance, lease, allowance, dropped: 0 }
    }

    /// Hands one over, unless as many stand there as may.
    fn hand_over(&self, spoken: Spoken) -> bool {
        if self.standing.fetch_add(1, Ordering::Relaxed) < LINES
            && let Some(entries) = self.entries.upgrade()
            && entries.try_send(Entry::Line(spoken)).is_ok()
        {
            return true;
        }
        self.standing.fetch_sub(1, Ordering::Relaxed);
        false
    }
}

impl Voice {
    /// Writes one line, or counts it as dropped.
    pub(in crate::daemon) fn say(&mut self, stream: &'static str, text: &str, now: Instant) {
        let mut of_all = self.lines.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let may = self.allowance.take(now) && of_all.take(now);
        drop(of_all);
        if !may {
            self.dropped += 1;
            return;
        }
        if self.dropped > 0 && self.lines.hand_over(self.spoken(Said::Dropped(self.dropped))) {
            self.dropped = 0;
        }
        if !self.lines.hand_over(self.spoken(Said::Line { stream, text: harmless(text) })) {
            self.dropped += 1;
        }
    }

    fn spoken(&self, said: Said) -> Spoken {
        let (pool, instance) = (self.pool.clone(), self.instance);
        Spoken { pool, instance, lease: self.lease.get().cloned(), said }
    }
}

impl Drop for Voice {
    /// What was dropped last is said at the end.
    fn drop(&mut self) {
        if self.dropped > 0 {
            self.lines.hand_over(self.spoken(Said::Dropped(self.dropped)));
        }
    }
}

/// Lines in a moment, and lines in the long run.
#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u64,
    a_second: u64,
}

/// Lines that may still be written, in thousand-millionths, filled up as time goes by.
#[derive(Debug)]
struct Allowance {
    rate: Rate,
    left: u64,
    seen: Instant,
}

impl Allowance {
    fn new(rate: Rate, now: Instant) -> Allowance {
        Allowance { rate, left: rate.burst * SECOND, seen: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = u64::try_from(now.since(self.seen).as_nanos()).unwrap_or(u64::MAX);
        let more = passed.saturating_mul(self.rate.a_second);
        self.left = self.left.saturating_add(more).min(self.rate.burst * SECOND);
        self.seen = self.seen.max(now);
        let enough = self.left >= SECOND;
        if enough {
            self.left -= SECOND;
        }
        enough
    }
}

/// Without what a terminal would obey.
fn harmless(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' => '\t',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;

    fn voice(lines: &Lines) -> Voice {
        let instance = InstanceId { run: 1, count: 1 };
        lines.of(PoolName::new("p"), instance, Arc::default(), Instant::from_nanos(0))
    }

    #[test]
    fn a_flood_is_cut_and_says_so() {
        let (entries, incoming) = sync_channel(10_000);
        let entries = Arc::new(entries);
        let lines = Lines::new(Arc::downgrade(&entries), Arc::default());
        let mut voice = voice(&lines);
        let said = || match incoming.try_recv().unwrap() {
            Entry::Line(spoken) => spoken.said,
            Entry::Event(..) => unreachable!("nothing happened"),
        };
        for _ in 0..=OF_ONE.burst + 7 {
            voice.say("stdout", "x", Instant::from_nanos(0));
        }
        for _ in 0..OF_ONE.burst {
            assert_eq!(said(), Said::Line { stream: "stdout", text: "x".into() });
        }
        voice.say("stderr", "\u{1b}[2Jy", Instant::from_nanos(0).after(Duration::from_secs(1)));
        assert_eq!(said(), Said::Dropped(8));
        assert_eq!(said(), Said::Line { stream: "stderr", text: "\u{fffd}[2Jy".into() });
        assert!(incoming.try_recv().is_err());
    }

    #[test]
    fn lines_leave_room_for_what_happens() {
        let (entries, incoming) = sync_channel(10_000);
        let entries = Arc::new(entries);
        let lines = Lines::new(Arc::downgrade(&entries), Arc::default());
        let mut voices: Vec<Voice> = (0..10).map(|_| voice(&lines)).collect();
        for voice in &mut voices {
            for _ in 0..OF_ONE.burst {
                voice.say("stdout", "x", Instant::from_nanos(0));
            }
        }
        drop(voices);
        assert_eq!(incoming.try_iter().count(), LINES);
    }

    #[test]
    fn all_together_stay_below_what_journald_takes() {
        let (entries, incoming) = sync_channel(100_000);
        let entries = Arc::new(entries);
        let standing = Arc::default();
        let lines = Lines::new(Arc::downgrade(&entries), Arc::clone(&standing));
        let mut voices: Vec<Voice> = (0..50).map(|_| voice(&lines)).collect();
        let mut written = 0;
        for second in 0..30 {
            for voice in &mut voices {
                for _ in 0..100 {
                    voice.say("stdout", "x", Instant::from_nanos(second * SECOND));
                }
            }
            written += incoming
                .try_iter()
                .filter(|entry| matches!(entry, Entry::Line(Spoken { said: Said::Line { .. }, .. })))
                .count();
            standing.store(0, Ordering::Relaxed);
        }
        assert!((6000..10_000).contains(&written), "{written}");
    }

    #[test]
    fn a_line_says_whose_it_is() {
        let (entries, incoming) = sync_channel(10);
        let entries = Arc::new(entries);
        let lines = Lines::new(Arc::downgrade(&entries), Arc::default());
        let mut voice = voice(&lines);
        voice.lease.set(LeaseId("l".into())).unwrap();
        voice.say("stdout", "x", Instant::from_nanos(0));
        let Entry::Line(spoken) = incoming.recv().unwrap() else { unreachable!("it is a line") };
        assert_eq!(spoken.lease, Some(LeaseId("l".into())));
    }
}
