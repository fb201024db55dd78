//! How the starts of a pool have gone, and when the next may be tried.
//!
//! When starts fail, the pool waits ever longer and then tries with one at a time. Starts that were under way
//! together and fail together have failed once: the wait doubles only for one that was ordered after the last
//! failure. One that dies soon after it was ready goes on counting where the failures before it ended, because
//! its readiness was none.

use std::time::Duration;

use super::message::Why;
use crate::quantity::Instant;

/// The first wait after a failed start; doubled with each further one.
const BACKOFF: Duration = Duration::from_secs(1);
/// A missing image or a broken host is mended by people: a minute is soon enough to look again.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// The longest wait, a slow start and an early death: what dies young after a longer peace is a new trouble.
const PEACE: Duration = Duration::from_secs(180);

/// How the starts of one pool have gone.
#[derive(Debug, Default)]
pub(super) struct Fortune {
    /// Whether the last thing heard was a failure.
    shut: bool,
    /// Starts that failed in a row.
    failures: u32,
    /// How often the wait was doubled for them.
    rounds: u32,
    last: String,
    failed_at: Instant,
    retry_at: Instant,
}

impl Fortune {
    /// One became ready.
    pub(super) fn succeeded(&mut self) {
        self.shut = false;
    }

    /// One that was ordered at `born` failed; the next is not tried before the returned instant.
    pub(super) fn failed(&mut self, born: Instant, now: Instant, why: String) -> Instant {
        if !self.shut {
            (self.failures, self.rounds) = (0, 0);
        }
        self.count(born, now, why)
    }

    /// One that was ready ended too soon for that to have meant anything.
    pub(super) fn died_young(&mut self, born: Instant, now: Instant, why: String) -> Instant {
        if now.since(self.failed_at) > PEACE {
            (self.failures, self.rounds) = (0, 0);
        }
        self.count(born, now, why)
    }

    fn count(&mut self, born: Instant, now: Instant, why: String) -> Instant {
        self.failures = self.failures.saturating_add(1);
        self.last = why;
        if self.rounds == 0 || born >= self.failed_at {
            self.rounds = self.rounds.saturating_add(1);
            let doubled = BACKOFF.saturating_mul(1 << (self.rounds - 1).min(16));
            self.retry_at = now.after(doubled.min(BACKOFF_MAX));
        }
        self.shut = true;
        self.failed_at = now;
        self.retry_at
    }

    /// The cause of the failures may be gone: try now.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.retry_at = now;
    }

    /// What keeps a start back, with this many under way already: after a failure, time, then a single try.
    pub(super) fn objection(&self, now: Instant, starting: u32) -> Option<Why> {
        let waits = self.shut && (now < self.retry_at || starting > 0);
        waits.then(|| Why::Backoff { failures: self.failures, last: self.last.clone(), until: self.retry_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(seconds))
    }

    #[test]
    fn failures_double_the_wait_up_to_a_minute_and_one_success_ends_it() {
        let mut fortune = Fortune::default();
        assert_eq!(fortune.objection(at(0), 5), None);
        assert_eq!(fortune.failed(at(0), at(0), "boom".into()), at(1));
        assert!(fortune.objection(at(0), 0).is_some());
        assert_eq!(fortune.objection(at(1), 0), None, "one probe start");
        assert!(fortune.objection(at(1), 1).is_some(), "and no second beside it");
        assert_eq!(fortune.failed(at(1), at(1), "boom".into()), at(3));
        for _ in 0..100 {
            fortune.failed(at(10), at(10), "boom".into());
        }
        assert_eq!(fortune.failed(at(10), at(10), "boom".into()), at(70));
        fortune.succeeded();
        assert_eq!(fortune.objection(at(10), 5), None);
        assert_eq!(fortune.failed(at(10), at(11), "boom".into()), at(12), "a new row");
    }

    #[test]
    fn starts_that_fail_together_have_failed_once() {
        let mut fortune = Fortune::default();
        assert_eq!(fortune.failed(at(0), at(5), "boom".into()), at(6));
        assert_eq!(fortune.failed(at(1), at(5), "boom".into()), at(6));
        assert_eq!(fortune.failed(at(2), at(6), "boom".into()), at(6));
        let Some(Why::Backoff { failures, .. }) = fortune.objection(at(5), 0) else { panic!() };
        assert_eq!(failures, 3, "though all are told");
    }

    #[test]
    fn readiness_that_did_not_last_ends_no_row() {
        let mut fortune = Fortune::default();
        for (born, died, retry) in [(0, 2, 3), (3, 5, 7), (7, 9, 13)] {
            fortune.succeeded();
            assert_eq!(fortune.died_young(at(born), at(died), "boom".into()), at(retry));
        }
        fortune.succeeded();
        assert_eq!(fortune.died_young(at(590), at(600), "boom".into()), at(601), "long ago is no row");
    }
}
