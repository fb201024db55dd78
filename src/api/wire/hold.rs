//! A lease that waits for a person.

use serde::{Deserialize, Serialize};

use super::{left, millis};
use crate::control::message::Hold;
use crate::quantity::Instant;

/// `POST /v1/leases/{id}/hold`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldBody {
    /// What is waited for: 1 to 200 characters, for people.
    pub reason: String,
    /// For how long at most, such as `"10m"`; the pool's `hold.timeout` where absent, never above its `hold.longest`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
}

/// What a lease waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldAnswer {
    /// What, as its caller has said.
    pub reason: String,
    /// For how long it has waited.
    pub since_ms: u64,
    /// Time left until the lease ends if nobody resumes it.
    pub ends_in_ms: u64,
}

impl HoldAnswer {
    pub(super) fn of(hold: &Hold, now: Instant) -> HoldAnswer {
        let Hold { since, until, reason } = hold;
        HoldAnswer {
            reason: reason.to_string(),
            since_ms: millis(now.since(*since)),
            ends_in_ms: left(*until, now),
        }
    }
}
