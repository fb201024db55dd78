//! Permits for calls of external providers, and how a provider stands.

use std::time::Duration;

use super::Histogram;
use crate::profile::ProviderName;
use crate::quantity::{Instant, Permille, Rate};

/// A permit that was given: its lease may call the provider once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// For which provider.
    pub provider: ProviderName,
    /// How long it was waited for.
    pub waited: Duration,
}

/// A provider as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderView {
    /// Its name.
    pub name: ProviderName,
    /// Its rate, as the profile has it.
    pub rate: Rate,
    /// How many calls may come together.
    pub burst: u32,
    /// What of the rate is used: less for a while after it throttled.
    pub part: Permille,
    /// How many permits are there now.
    pub permits: u32,
    /// How many are waited for.
    pub waiting: u32,
    /// How many may be.
    pub max_waiting: u32,
    /// How long the oldest of them has been.
    pub oldest_wait: Option<Duration>,
    /// Until when it wants to hear nothing, where that is so.
    pub paused_until: Option<Instant>,
    /// When the next permit is there.
    pub next: Instant,
    /// What has happened since the daemon began.
    pub tally: ProviderTally,
    /// What this was seen at.
    pub seen_at: Instant,
}

/// Counts of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderTally {
    /// How long those were waited for that were given.
    pub waits: Histogram,
    /// Refused, at once or after a wait.
    pub refused: u64,
    /// Waits that ended with their caller or their lease.
    pub left: u64,
    /// Reports that it throttled.
    pub throttled: u64,
}
