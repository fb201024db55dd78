//! Which instance serves whom, and which pool may start the next one.
//!
//! A request gets the warm instance that has been warm longest: it will be the next to age anyway. One of an older
//! template is lent only where there is none of the newest. Start slots are scarce, so they go first to the pool
//! whose waiting request has the earliest promise, then to refill, to the pool that lacks the largest part of its
//! stock, and last to the exchange of what was made from an older template. Where memory or processors are short, what is warm
//! beyond its stock is given up for who waits, and who is late reserves what it needs (`settle`).
//!
//! Not here: whether a start is allowed (`admission`).

use super::pool::Pool;
use super::scaling;
use crate::quantity::Instant;

/// How much a pool wants its next start; less is more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// A request waits for it, with this promise.
    Waiting(Instant),
    /// It has this many thousandths of its stock.
    Refill(u32),
    /// It has its stock, and some of it is of an older template.
    Exchange,
}

/// How much this pool wants another start now, if at all; a closed one wants none.
pub(super) fn urgency(pool: &Pool) -> Option<Urgency> {
    if pool.is_closed() {
        return None;
    }
    let stock = pool.stock();
    let (warm, starting) = (pool.counts.warm, pool.counts.starting);
    let askers = pool.askers();
    if scaling::starts_wanted(askers, stock, warm, starting) == 0 {
        return pool.may_exchange().then_some(Urgency::Exchange);
    }
    // Those under way serve the first of the queue: it is the next one behind them that wants a start.
    match pool.queue.promise_behind(starting).filter(|_| askers > starting) {
        Some(promised) => Some(Urgency::Waiting(promised)),
        None => Some(Urgency::Refill((warm + starting).saturating_mul(1000) / stock.max(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_comes_before_refill_the_emptiest_stock_first_and_exchange_last() {
        let at = Instant::from_nanos;
        let mut wishes = [
            Urgency::Exchange,
            Urgency::Refill(900),
            Urgency::Waiting(at(9)),
            Urgency::Refill(0),
            Urgency::Waiting(at(3)),
        ];
        wishes.sort();
        assert_eq!(
            wishes,
            [
                Urgency::Waiting(at(3)),
                Urgency::Waiting(at(9)),
                Urgency::Refill(0),
                Urgency::Refill(900),
                Urgency::Exchange
            ]
        );
    }
}
