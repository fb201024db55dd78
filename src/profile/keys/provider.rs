//! The keys of `[provider.NAME]`.

use super::{Key, PROVIDER, Range, Usual, both};
use crate::profile::check::{DAY, SHORTEST};

pub(super) const RATE: Key = Key {
    table: PROVIDER,
    name: "rate",
    range: Range::Text("a rate such as \"60/min\", \"5/s\" or \"900/h\""),
    usual: Usual::Required("\"60/min\""),
    meaning: "How many calls the service takes in which time.",
    reason: "Its contract says so. Where it throttles all the same and a caller reports that, less is used for a while.",
};
pub(super) const BURST: Key = Key {
    table: PROVIDER,
    name: "burst",
    range: Range::Count(1, 10_000),
    usual: both("1"),
    meaning: "How many calls may come together after a pause.",
    reason: "What a pause has left over, some services count as a crowd.",
};
pub(super) const MAX_WAITING: Key = Key {
    table: PROVIDER,
    name: "max_waiting",
    range: Range::Count(1, 10_000),
    usual: both("10"),
    meaning: "How many permits may be waited for at once; at as many, pools that need this provider lend and start nothing.",
    reason: "Each that waits holds up an instance with all its memory; more of them would not make the service faster.",
};
pub(super) const MAX_WAIT: Key = Key {
    table: PROVIDER,
    name: "max_wait",
    range: Range::Time(SHORTEST, DAY),
    usual: both("\"30s\""),
    meaning: "The longest that a caller may wait for a permit, and the wait of one that does not say.",
    reason: "As long as most clients wait for an answer.",
};
