//! Ends and limits as they are written: mirrors of the controller's words, so that those are free to change.
//!
//! Only additions are made here; a word that goes away there stays here, and is read as what took its place. A word that
//! is added needs a new version of the file (`file`), so that a program that does not know it keeps its hands off.

use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::control::message::{
    Cancelled, Deadline, DiskOf, End, Estimate, Exit, Failure, Interruption, Level, OomLevel, Shortage, Why,
};
use crate::profile::ProviderName;
use crate::quantity::{Bytes, Instant, MilliCpu, Permille};

#[derive(Serialize, Deserialize)]
#[serde(remote = "End", rename_all = "snake_case")]
pub(super) enum EndText {
    Completed,
    #[serde(with = "FailureText")]
    Failed(Failure),
    #[serde(with = "CancelledText")]
    Cancelled(Cancelled),
    #[serde(with = "DeadlineText")]
    Expired(Deadline),
    #[serde(with = "InterruptionText")]
    Interrupted(Interruption),
    #[serde(with = "WhyText")]
    Refused(Why),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Failure", rename_all = "snake_case")]
enum FailureText {
    #[serde(with = "ExitText")]
    Died(Exit),
    Vanished,
    Overran,
    #[serde(with = "OomLevelText")]
    OutOfMemory(OomLevel),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "OomLevel", rename_all = "snake_case")]
enum OomLevelText {
    Own,
    Above,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Exit")]
struct ExitText {
    code: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cancelled", rename_all = "snake_case")]
enum CancelledText {
    ByCaller,
    CallerGone,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Deadline", rename_all = "snake_case")]
enum DeadlineText {
    FirstUse,
    Idle,
    Runtime,
    Hold,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Interruption", rename_all = "snake_case")]
enum InterruptionText {
    Drain,
    HostLost,
    PoolRemoved,
    Pressure,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Why", rename_all = "snake_case")]
enum WhyText {
    QueueFull {
        queued: u32,
        limit: u32,
    },
    WaitExpired {
        waited: Duration,
        #[serde(with = "behind")]
        blocked_by: Option<Box<Why>>,
    },
    HostDraining,
    PoolDraining,
    PoolRemoved,
    NeverFits {
        #[serde(with = "bytes")]
        need: Bytes,
        #[serde(with = "bytes")]
        have: Bytes,
    },
    MemoryPromised {
        #[serde(with = "bytes")]
        need: Bytes,
        #[serde(with = "bytes")]
        have: Bytes,
    },
    MemoryAvailable {
        #[serde(with = "bytes")]
        need: Bytes,
        #[serde(with = "bytes")]
        have: Bytes,
    },
    Cpu {
        #[serde(with = "cores")]
        need: MilliCpu,
        #[serde(with = "cores")]
        have: MilliCpu,
    },
    Pids {
        need: u64,
        have: u64,
    },
    Disk {
        #[serde(with = "DiskOfText")]
        of: DiskOf,
        #[serde(with = "bytes")]
        need: Bytes,
        #[serde(with = "bytes")]
        have: Bytes,
    },
    Inodes {
        #[serde(with = "DiskOfText")]
        of: DiskOf,
        need: u64,
        have: u64,
    },
    MaxInstances {
        have: u32,
        limit: u32,
    },
    InstanceHours {
        used: Duration,
        most: Duration,
        per: Duration,
        returns_in: Duration,
    },
    TenantLimit {
        have: u32,
        limit: u32,
    },
    MaxHolds {
        have: u32,
        limit: u32,
        #[serde(with = "instant")]
        until: Instant,
    },
    TenantHolds {
        have: u32,
        limit: u32,
        #[serde(with = "instant")]
        until: Instant,
    },
    ProviderWaits {
        #[serde(with = "provider")]
        provider: ProviderName,
        waiting: u32,
        limit: u32,
        #[serde(with = "instant")]
        until: Instant,
    },
    ProviderSpent {
        #[serde(with = "provider")]
        provider: ProviderName,
        #[serde(with = "instant")]
        until: Instant,
    },
    HeldBack {
        have: u32,
        held: u32,
    },
    Starts {
        have: u32,
        limit: u32,
    },
    Backoff {
        failures: u32,
        last: String,
        #[serde(with = "instant")]
        until: Instant,
    },
    NoTelemetry(String),
    EngineUnreachable(String),
    NotRecorded(String),
    UnderPressure {
        #[serde(with = "ShortageText")]
        shortage: Shortage,
        #[serde(with = "instant")]
        until: Instant,
    },
    CpuPressure {
        #[serde(with = "share")]
        stalled: Permille,
        have: u32,
        limit: u32,
    },
    Recovering {
        have: u32,
        limit: u32,
    },
    QueueTooLong {
        #[serde(with = "EstimateText")]
        estimate: Estimate,
        longest: Duration,
    },
    WithoutTelemetry {
        unknown: String,
        have: u32,
        limit: u32,
    },
    StartPace {
        have: u32,
        limit: u32,
        #[serde(with = "share")]
        strain: Permille,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Estimate")]
struct EstimateText {
    wait: Duration,
    behind: u32,
    ends: u32,
    span: Duration,
    start: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DiskOf", rename_all = "snake_case")]
enum DiskOfText {
    Engine,
    State,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Shortage")]
struct ShortageText {
    #[serde(with = "LevelText")]
    level: Level,
    #[serde(with = "bytes")]
    available: Bytes,
    #[serde(with = "bytes")]
    floor: Bytes,
    #[serde(with = "share_if_known")]
    stalled: Option<Permille>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Level", rename_all = "snake_case")]
enum LevelText {
    Calm,
    Tight,
    Critical,
}

/// A share as its thousandths.
mod share {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Permille;

    pub(super) fn serialize<S: Serializer>(share: &Permille, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(share.get())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Permille, D::Error> {
        Ok(Permille::new(u32::deserialize(from)?))
    }
}

/// The same where there may be none.
mod share_if_known {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Permille;

    pub(super) fn serialize<S: Serializer>(share: &Option<Permille>, to: S) -> Result<S::Ok, S::Error> {
        share.map(Permille::get).serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Permille>, D::Error> {
        Ok(Option::<u32>::deserialize(from)?.map(Permille::new))
    }
}

/// A provider as its name.
mod provider {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::ProviderName;

    pub(super) fn serialize<S: Serializer>(name: &ProviderName, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name.as_str())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<ProviderName, D::Error> {
        Ok(ProviderName::new(String::deserialize(from)?))
    }
}

/// A limit behind a limit.
mod behind {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Why, WhyText};

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "WhyText")] Why);

    pub(super) fn serialize<S: Serializer>(why: &Option<Box<Why>>, to: S) -> Result<S::Ok, S::Error> {
        why.as_ref().map(|why| Text((**why).clone())).serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Box<Why>>, D::Error> {
        Ok(Option::<Text>::deserialize(from)?.map(|Text(why)| Box::new(why)))
    }
}

/// A quantity as the number that it is.
macro_rules! number {
    ($name:ident, $type:ty, $read:path, $write:path) => {
        pub(super) mod $name {
            use serde::{Deserialize, Deserializer, Serializer};

            use super::*;

            pub(in crate::store) fn serialize<S: Serializer>(
                value: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                to.serialize_u64($write(*value))
            }

            pub(in crate::store) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<$type, D::Error> {
                Ok($read(u64::deserialize(from)?))
            }
        }
    };
}

number!(bytes, Bytes, Bytes::new, Bytes::get);
number!(cores, MilliCpu, MilliCpu::new, MilliCpu::get);
number!(instant, Instant, Instant::from_nanos, Instant::as_nanos);
