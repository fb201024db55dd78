//! External providers: permits to call them, and how they stand.

use serde::{Deserialize, Serialize};

use super::{left, millis};
use crate::control::message::{Permit, ProviderView};

/// `POST /v1/leases/{id}/permits`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermitBody {
    /// The provider that is about to be called, once.
    pub provider: String,
    /// The longest wait, such as `"30s"`; the provider's `max_wait` where absent, never above it; `"0s"` not to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
}

/// The permit: call it once, now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitAnswer {
    /// The provider.
    pub provider: String,
    /// How long it was waited for.
    pub waited_ms: u64,
}

/// `POST /v1/providers/{name}/throttled`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThrottledBody {
    /// For how long the provider wants to hear nothing, such as `"20s"`, where it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
}

/// A list, in an object so that more can be said beside it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Providers {
    /// By name.
    pub providers: Vec<ProviderBody>,
}

/// An external provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderBody {
    /// Its name.
    pub name: String,
    /// Its rate, as the profile has it.
    pub rate: String,
    /// How many calls may come together after a pause.
    pub burst: u32,
    /// What of the rate is used, in thousandths: less for a while after it throttled.
    pub used_permille: u32,
    /// Permits that are there now.
    pub permits: u32,
    /// How many are waited for.
    pub waiting: u32,
    /// How many may be.
    pub max_waiting: u32,
    /// How long the oldest of them has been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_wait_ms: Option<u64>,
    /// Time left for which it wants to hear nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_ms: Option<u64>,
    /// Time left until the next permit is there; 0 where one is.
    pub next_in_ms: u64,
    /// Permits that were given since the daemon began.
    pub given: u64,
    /// Permits that were refused, at once or after a wait.
    pub refused: u64,
    /// Waits that ended with their caller or their lease.
    pub left: u64,
    /// Reports that it throttled.
    pub throttled: u64,
}

/// A permit that a lease waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitWaitBody {
    /// For which provider.
    pub provider: String,
    /// For how long it has.
    pub waited_ms: u64,
}

impl From<&Permit> for PermitAnswer {
    fn from(permit: &Permit) -> PermitAnswer {
        PermitAnswer { provider: permit.provider.to_string(), waited_ms: millis(permit.waited) }
    }
}

impl From<&ProviderView> for ProviderBody {
    fn from(view: &ProviderView) -> ProviderBody {
        let now = view.seen_at;
        ProviderBody {
            name: view.name.to_string(),
            rate: view.rate.to_string(),
            burst: view.burst,
            used_permille: view.part.get(),
            permits: view.permits,
            waiting: view.waiting,
            max_waiting: view.max_waiting,
            oldest_wait_ms: view.oldest_wait.map(millis),
            paused_ms: view.paused_until.map(|until| left(until, now)),
            next_in_ms: left(view.next, now),
            given: view.tally.waits.count(),
            refused: view.tally.refused,
            left: view.tally.left,
            throttled: view.tally.throttled,
        }
    }
}
