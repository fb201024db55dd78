//! The keys of leases that wait for a person.

use super::{Key, POOL, Range, TENANT, Usual, WEEK, both};
use crate::profile::check::{MOST_INSTANCES, SHORTEST};

pub(super) const TENANT_MAX_HOLDS: Key = Key {
    table: TENANT,
    name: "max_holds",
    range: Range::Count(0, 100_000),
    usual: Usual::Open("as many as its pools allow", "5"),
    meaning: "Leases of this tenant that may wait for a person at once, over all pools.",
    reason: "What waits is kept from others: a limit keeps one tenant from using up every pool's max_holds.",
};
pub(super) const TIMEOUT: Key = Key {
    table: POOL,
    name: "hold.timeout",
    range: Range::Time(SHORTEST, WEEK),
    usual: both("\"10m\""),
    meaning: "A lease that waits for a person ends after this long, where its caller asks for no other time.",
    reason: "Somebody is called and comes. At most hold.longest, and lowered to it.",
};
pub(super) const LONGEST: Key = Key {
    table: POOL,
    name: "hold.longest",
    range: Range::Time(SHORTEST, WEEK),
    usual: both("\"1h\""),
    meaning: "The longest that a lease may wait for a person; max_runtime and a drain's window go on meanwhile.",
    reason: "Who has not come within the hour comes another day.",
};
pub(super) const MAX_HOLDS: Key = Key {
    table: POOL,
    name: "max_holds",
    range: Range::Count(0, MOST_INSTANCES),
    usual: both("8"),
    meaning: "How many leases may wait for a person at once: each keeps its slot and its memory.",
    reason: "The default is half of max_instances, and one at least: the other half works, whoever is waited for.",
};
