//! What single values of a workload look like: text with a unit, as in a host profile, and rates.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};

use crate::quantity::{Bytes, DURATION_EXPECTED, MilliCpu, Permille, parse_duration};

/// What a rate must look like.
const RATE_EXPECTED: &str =
    "so many in a time, such as \"2/s\", \"30/min\" or \"500/h\", and at most a million in a second";
/// The lowest rate, of one in some months, and the highest, in a second.
const RATES: std::ops::RangeInclusive<f64> = 1e-7..=1e6;
/// What a flow of memory must look like.
const FLOW_EXPECTED: &str = "a size in a time, such as \"10MiB/min\"";

/// A value that is written as text.
macro_rules! written {
    ($(#[$doc:meta])* $name:ident($inner:ty), $expected:expr, $read:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub(super) struct $name(pub(super) $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                from.deserialize_str(Text { expected: $expected, read: $read }).map($name)
            }
        }
    };
}

written! {
    /// A length of time.
    Time(Duration), DURATION_EXPECTED, |text| parse_duration(text).ok()
}
written! {
    /// An amount of memory.
    Size(Bytes), Bytes::EXPECTED, |text| Bytes::parse(text).ok()
}
written! {
    /// Processors.
    Cores(MilliCpu), MilliCpu::EXPECTED, |text| MilliCpu::parse(text).ok()
}
written! {
    /// A share.
    Share(Permille), Permille::EXPECTED, |text| Permille::parse(text).ok()
}
written! {
    /// How many in a second.
    Rate(f64), RATE_EXPECTED, |text| {
        let (many, time) = text.split_once('/')?;
        let many: f64 = many.trim().parse().ok()?;
        Some(many / seconds(time)?).filter(|rate| RATES.contains(rate))
    }
}
written! {
    /// How much memory a second.
    Flow(f64), FLOW_EXPECTED, |text| {
        let (size, time) = text.split_once('/')?;
        Some(in_float(Bytes::parse(size).ok()?.get()) / seconds(time)?)
    }
}

/// The seconds of a unit of time.
fn seconds(unit: &str) -> Option<f64> {
    match unit.trim() {
        "s" => Some(1.0),
        "min" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    }
}

/// As a float; exact for what bytes and microseconds there are of anything.
pub(in crate::sim) fn in_float(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
    let float = bytes as f64;
    float
}

/// Reads a text; anything else is told with what was expected.
struct Text<T> {
    expected: &'static str,
    read: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}
