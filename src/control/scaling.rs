//! How many instances are wanted, in the simple form.
//!
//! ```text
//! stock = clamp(arrivals of the last minute, warm.min, warm.max)       [instances]
//! start = max(0, queued + stock - (warm + starting))                   [instances]
//! stop  = max(0, warm + starting - queued - stock), of the warm ones   [instances]
//! ```
//!
//! Each waiting request needs exactly one start, since an instance is used once; the stock comes on top. A
//! minute's arrivals hold the stock up for a minute after a burst, which is what keeps it from flapping.
//! When starts fail, the pool waits ever longer and then tries with one at a time.
//!
//! Not here: whether there is room (`admission`).

use std::collections::VecDeque;
use std::time::Duration;

use super::message::Why;
use crate::profile::Warm;
use crate::quantity::Instant;

/// How long an arrival counts as demand.
const WINDOW: Duration = Duration::from_secs(60);
/// The first wait after a failed start; doubled with each further one.
const BACKOFF: Duration = Duration::from_secs(1);
/// A missing image or a broken host is mended by people: a minute is soon enough to look again.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Demand of one pool, as far as it matters for the stock.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// The latest arrivals, oldest first; never more than `warm.max`, since more make no difference.
    arrivals: VecDeque<Instant>,
}

impl Demand {
    /// A request arrived that was granted or queued.
    pub(super) fn arrived(&mut self, now: Instant, warm: &Warm) {
        if warm.max == 0 {
            return;
        }
        while self.arrivals.len() >= warm.max as usize {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(now);
    }

    /// The stock that is wanted now.
    pub(super) fn stock(&self, now: Instant, warm: &Warm) -> u32 {
        let recent = self.arrivals.iter().filter(|at| now.since(**at) < WINDOW).count();
        u32::try_from(recent).unwrap_or(u32::MAX).clamp(warm.min, warm.max)
    }

    /// When the stock next becomes smaller without anything happening; `None` where it is at its least.
    pub(super) fn shrinks_at(&self, now: Instant, warm: &Warm) -> Option<Instant> {
        if self.stock(now, warm) == warm.min {
            return None;
        }
        self.arrivals.iter().map(|at| at.after(WINDOW)).find(|end| *end > now)
    }
}

/// How many more starts are wanted.
pub(super) fn starts_wanted(queued: u32, stock: u32, warm: u32, starting: u32) -> u32 {
    queued.saturating_add(stock).saturating_sub(warm + starting)
}

/// How many warm ones are too many.
pub(super) fn surplus(queued: u32, stock: u32, warm: u32, starting: u32) -> u32 {
    (warm + starting).saturating_sub(queued.saturating_add(stock)).min(warm)
}

/// How the starts of one pool have gone.
#[derive(Debug, Default)]
pub(super) struct Fortune {
    failures: u32,
    last: String,
    retry_at: Instant,
}

impl Fortune {
    /// One became ready.
    pub(super) fn succeeded(&mut self) {
        *self = Fortune::default();
    }

    /// One failed; the next is not tried before the returned instant.
    pub(super) fn failed(&mut self, now: Instant, why: String) -> Instant {
        self.failures = self.failures.saturating_add(1);
        let doubled = BACKOFF.saturating_mul(1 << (self.failures - 1).min(16));
        self.last = why;
        self.retry_at = now.after(doubled.min(BACKOFF_MAX));
        self.retry_at
    }

    /// The cause of the failures may be gone: try now.
    pub(super) fn forgive(&mut self, now: Instant) {
        self.retry_at = now;
    }

    /// What keeps a start back, with this many under way already: after a failure, time, then a single try.
    pub(super) fn objection(&self, now: Instant, starting: u32) -> Option<Why> {
        let waits = self.failures > 0 && (now < self.retry_at || starting > 0);
        waits.then(|| Why::Backoff { failures: self.failures, last: self.last.clone(), until: self.retry_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(seconds))
    }

    fn warm(min: u32, max: u32) -> Warm {
        Warm { min, max, max_age: Duration::from_secs(3600) }
    }

    #[test]
    fn stock_follows_the_last_minute_between_its_bounds() {
        let mut demand = Demand::default();
        assert_eq!(demand.stock(at(0), &warm(2, 5)), 2);
        for second in 0..9 {
            demand.arrived(at(second), &warm(2, 5));
        }
        assert_eq!(demand.stock(at(9), &warm(2, 5)), 5, "never above warm.max");
        assert_eq!(demand.shrinks_at(at(9), &warm(2, 5)), Some(at(64)), "the oldest of the five counted");
        assert_eq!(demand.stock(at(64), &warm(2, 5)), 4);
        assert_eq!(demand.stock(at(80), &warm(2, 5)), 2);
        assert_eq!(demand.shrinks_at(at(80), &warm(2, 5)), None);
    }

    #[test]
    fn each_waiting_request_is_one_start_and_stock_comes_on_top() {
        for (queued, stock, warm, starting, start, stop) in [
            (0, 2, 2, 0, 0, 0),
            (0, 2, 1, 0, 1, 0),
            (3, 2, 0, 1, 4, 0),
            (0, 1, 4, 0, 0, 3),
            (0, 1, 0, 3, 0, 0), // those under way are let finish
            (2, 0, 0, 2, 0, 0),
            (0, 0, 1, 5, 0, 1),
        ] {
            assert_eq!(starts_wanted(queued, stock, warm, starting), start);
            assert_eq!(surplus(queued, stock, warm, starting), stop);
        }
    }

    #[test]
    fn failures_double_the_wait_up_to_a_minute_and_one_success_ends_it() {
        let mut fortune = Fortune::default();
        assert_eq!(fortune.objection(at(0), 5), None);
        assert_eq!(fortune.failed(at(0), "boom".into()), at(1));
        assert!(fortune.objection(at(0), 0).is_some());
        assert_eq!(fortune.objection(at(1), 0), None, "one probe start");
        assert!(fortune.objection(at(1), 1).is_some(), "and no second beside it");
        assert_eq!(fortune.failed(at(1), "boom".into()), at(3));
        for _ in 0..100 {
            fortune.failed(at(10), "boom".into());
        }
        assert_eq!(fortune.failed(at(10), "boom".into()), at(70));
        fortune.succeeded();
        assert_eq!(fortune.objection(at(10), 5), None);
    }
}
