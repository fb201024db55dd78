//! One class of a pool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::millis;
use crate::control::message::{ClassTally, ClassView};

/// A class in a pool: what it has now, and what has happened since the daemon began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassBody {
    /// The class.
    pub class: String,
    /// How many wait.
    pub waiting: u32,
    /// How many have a slot.
    pub leased: u32,
    /// Slots that are guaranteed to it.
    pub guaranteed: u32,
    /// Slots that are lent to no other class.
    pub hold_back: u32,
    /// How many of those that have a slot wait for a person.
    #[serde(default)]
    pub holds: u32,
    /// Requests.
    pub asked: u64,
    /// Of them those that were a further attempt of a task.
    #[serde(default)]
    pub retried: u64,
    /// Of them granted.
    pub granted: u64,
    /// Of those granted not at once.
    pub waited: u64,
    /// The wait that half of those granted were not above, to the end of its bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p50_ms: Option<u64>,
    /// The same for 95 of a hundred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_p95_ms: Option<u64>,
    /// Refused, by the limit.
    pub refused: BTreeMap<String, u64>,
    /// Taken back while they waited.
    pub left: u64,
    /// Sent on to another pool while the host's state was not known; there they count anew.
    #[serde(default)]
    pub degraded: u64,
    /// Leases that had an instance and ended, by their state.
    pub ended: BTreeMap<String, u64>,
}

impl From<&ClassView> for ClassBody {
    fn from(view: &ClassView) -> ClassBody {
        let ClassTally { asked, retried, granted, waited, waits, refused, left, degraded, ended } =
            &view.tally;
        let named = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        ClassBody {
            class: view.class.to_string(),
            waiting: view.waiting,
            leased: view.leased,
            guaranteed: view.guaranteed,
            hold_back: view.hold_back,
            holds: view.holds,
            asked: *asked,
            retried: *retried,
            granted: *granted,
            waited: *waited,
            wait_p50_ms: waits.percentile(50).map(millis),
            wait_p95_ms: waits.percentile(95).map(millis),
            refused: named(refused),
            left: *left,
            degraded: *degraded,
            ended: named(ended),
        }
    }
}
