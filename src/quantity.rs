//! Quantities with their units in the type.
//!
//! Every size, share and point in time that a decision uses is one of these, so that two numbers of
//! different units cannot be compared by mistake. All are whole numbers: budgets and decisions never
//! touch a float. Subtraction that could go below zero says so in its name.
//!
//! Not here: reading a clock (`daemon`), and the meaning of any number (`control`).

use std::fmt;
use std::time::Duration;

/// A text that does not read as the quantity it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct QuantityError {
    /// What was written.
    pub text: String,
    /// What should have been written, with an example.
    pub expected: &'static str,
}

/// An amount of memory or disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes at all.
    pub const ZERO: Bytes = Bytes(0);

    /// What a size must look like in a profile.
    pub const EXPECTED: &'static str = "a size with a unit, such as \"512MiB\" or \"2GiB\"";

    /// This many bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// This many mebibytes (2^20 bytes).
    pub const fn mib(mebibytes: u64) -> Bytes {
        Bytes(mebibytes << 20)
    }

    /// The plain number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, at most `u64::MAX`.
    #[must_use]
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// What is left after taking `other` away, never less than zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Reads `"512MiB"`, `"2GiB"`, `"64KiB"` or `"100B"`. A bare number is refused: its unit would be a guess.
    ///
    /// # Errors
    /// When the text has no unit, or is no size.
    pub fn parse(text: &str) -> Result<Bytes, QuantityError> {
        let no = || QuantityError { text: text.into(), expected: Bytes::EXPECTED };
        if !text.trim_end().ends_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(no());
        }
        text.trim().parse::<bytesize::ByteSize>().map(|size| Bytes(size.as_u64())).map_err(|_| no())
    }
}

impl fmt::Display for Bytes {
    /// As people read it: `450 MiB`, `1.5 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (unit, name) in UNITS {
            if self.0 >= unit {
                let tenths = u128::from(self.0) * 10 / u128::from(unit);
                return match (tenths / 10, tenths % 10) {
                    (whole, 0) => f.pad(&format!("{whole} {name}")),
                    (whole, tenth) if whole < 100 => f.pad(&format!("{whole}.{tenth} {name}")),
                    (whole, _) => f.pad(&format!("{whole} {name}")),
                };
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Bytes::saturating_add)
    }
}

/// So many in a second, a minute or an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    unit: &'static str,
    seconds: u64,
}

impl Rate {
    /// What a rate must look like in a profile.
    pub const EXPECTED: &'static str =
        "a rate of 1 to 1000000 in a time, such as \"60/min\", \"5/s\" or \"900/h\"";

    /// Reads `"60/min"`, `"5/s"` or `"900/h"`.
    ///
    /// # Errors
    /// When the text is none of these, or none at all in its time.
    pub fn parse(text: &str) -> Result<Rate, QuantityError> {
        let no = || QuantityError { text: text.into(), expected: Rate::EXPECTED };
        let (count, unit) = text.split_once('/').ok_or_else(no)?;
        let count = count.trim().parse().map_err(|_| no())?;
        let (unit, seconds) = [("s", 1), ("min", 60), ("h", 3600)]
            .into_iter()
            .find(|(name, _)| *name == unit.trim())
            .ok_or_else(no)?;
        (1..=1_000_000).contains(&count).then_some(Rate { count, unit, seconds }).ok_or_else(no)
    }

    /// The time between two that come evenly, to the nanosecond above.
    pub const fn interval(self) -> Duration {
        Duration::from_nanos((self.seconds * 1_000_000_000).div_ceil(self.count as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.count, self.unit))
    }
}

/// Processor time per time, in thousandths of one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MilliCpu(u64);

impl MilliCpu {
    /// What a number of cores must look like in a profile.
    pub const EXPECTED: &'static str = "a number of cores as text, such as \"1\" or \"0.5\"";

    /// This many thousandths of a core.
    pub const fn new(thousandths: u64) -> MilliCpu {
        MilliCpu(thousandths)
    }

    /// This many whole cores.
    pub const fn cores(cores: u64) -> MilliCpu {
        MilliCpu(cores * 1000)
    }

    /// The plain number of thousandths.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, at most `u64::MAX`.
    #[must_use]
    pub const fn saturating_add(self, other: MilliCpu) -> MilliCpu {
        MilliCpu(self.0.saturating_add(other.0))
    }

    /// What is left after taking `other` away, never less than zero.
    #[must_use]
    pub const fn saturating_sub(self, other: MilliCpu) -> MilliCpu {
        MilliCpu(self.0.saturating_sub(other.0))
    }

    /// This share of it, rounded down; the share may be above 1.
    #[must_use]
    pub const fn scaled(self, by: Permille) -> MilliCpu {
        MilliCpu(self.0.saturating_mul(by.0 as u64) / 1000)
    }

    /// Reads `"2"`, `"0.5"` or `"1.25"`: cores, with at most three decimals.
    ///
    /// # Errors
    /// When the text is not such a number.
    pub fn parse(text: &str) -> Result<MilliCpu, QuantityError> {
        match decimal_thousandths(text.trim()) {
            Some(thousandths) => Ok(MilliCpu(thousandths)),
            None => Err(QuantityError { text: text.into(), expected: MilliCpu::EXPECTED }),
        }
    }
}

impl fmt::Display for MilliCpu {
    /// In cores: `2`, `0.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl std::iter::Sum for MilliCpu {
    fn sum<I: Iterator<Item = MilliCpu>>(iter: I) -> MilliCpu {
        iter.fold(MilliCpu(0), MilliCpu::saturating_add)
    }
}

/// A share, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Permille(u32);

impl Permille {
    /// What a share must look like in a profile.
    pub const EXPECTED: &'static str = "a share, such as \"6%\" or \"12.5%\"";

    /// This many thousandths.
    pub const fn new(thousandths: u32) -> Permille {
        Permille(thousandths)
    }

    /// The plain number of thousandths.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// This share of an amount, rounded up, so that a reserve is never less than asked for.
    pub fn of(self, whole: Bytes) -> Bytes {
        let part = (u128::from(whole.0) * u128::from(self.0)).div_ceil(1000);
        Bytes(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// Reads `"6%"` or `"12.5%"`; one decimal at most.
    ///
    /// # Errors
    /// When the text is not such a share.
    pub fn parse(text: &str) -> Result<Permille, QuantityError> {
        let no = || QuantityError { text: text.into(), expected: Permille::EXPECTED };
        let number = text.trim().strip_suffix('%').ok_or_else(no)?;
        let thousandths = decimal_thousandths(number.trim_end()).ok_or_else(no)?;
        if thousandths % 100 != 0 {
            return Err(no());
        }
        u32::try_from(thousandths / 100).map(Permille).map_err(|_| no())
    }
}

impl fmt::Display for Permille {
    /// In per cent: `6%`, `12.5%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 10, self.0 % 10) {
            (whole, 0) => f.pad(&format!("{whole}%")),
            (whole, tenth) => f.pad(&format!("{whole}.{tenth}%")),
        }
    }
}

/// `"1.25"` as 1250: a plain decimal with at most three places, exact.
fn decimal_thousandths(text: &str) -> Option<u64> {
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || places.len() > 3 || !digits(whole) || !digits(places) || text.ends_with('.') {
        return None;
    }
    let fraction: u64 = format!("{places:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(fraction)
}

/// A point in time: nanoseconds of `CLOCK_BOOTTIME`, the clock that neither jumps nor stops in suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Instant(u64);

impl Instant {
    /// The host's start.
    pub const BOOT: Instant = Instant(0);

    /// This many nanoseconds after the host's start.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the host's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The point this long after; the far end of time where it would be beyond it.
    #[must_use]
    pub fn after(self, wait: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it was from `earlier` to here; zero where `earlier` is not earlier.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Instant {
    /// Seconds since the host's start.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:03}s", self.0 / 1_000_000_000, self.0 / 1_000_000 % 1000))
    }
}

/// What a duration must look like in a profile or a request.
pub const DURATION_EXPECTED: &str = "a time with a unit, such as \"30s\", \"5m\" or \"1h 30m\"";

/// Reads `"30s"`, `"250ms"`, `"1h 30m"`. A bare number is refused: its unit would be a guess.
///
/// # Errors
/// When the text is no duration.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    humantime::parse_duration(text.trim())
        .map_err(|_| QuantityError { text: text.into(), expected: DURATION_EXPECTED })
}

/// A duration as people read it: `0s`, `850ms`, `1m 30s`; nothing finer than a millisecond.
pub fn show_duration(duration: Duration) -> String {
    let coarse = if duration >= Duration::from_secs(10) {
        Duration::from_secs(duration.as_secs())
    } else {
        Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    };
    humantime::format_duration(coarse).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_show() {
        for (text, bytes, shown) in [
            ("512MiB", 512 << 20, "512 MiB"),
            ("1.5GiB", 3 << 29, "1.5 GiB"),
            ("64KiB", 64 << 10, "64 KiB"),
            ("100B", 100, "100 B"),
            ("1GB", 1_000_000_000, "953 MiB"),
            (" 2 GiB ", 2 << 30, "2 GiB"),
        ] {
            let size = Bytes::parse(text).unwrap();
            assert_eq!((size.get(), size.to_string().as_str()), (bytes, shown), "{text}");
        }
        for text in ["512", "", "MiB", "-1MiB", "1 apple", "1e99GiB x"] {
            assert!(Bytes::parse(text).is_err(), "{text} must be refused");
        }
    }

    #[test]
    fn cores_and_shares_are_exact() {
        assert_eq!(MilliCpu::parse("0.25").unwrap(), MilliCpu::new(250));
        assert_eq!(MilliCpu::parse("2").unwrap().to_string(), "2");
        assert_eq!(MilliCpu::new(1500).to_string(), "1.5");
        assert_eq!(Permille::parse("12.5%").unwrap(), Permille::new(125));
        assert_eq!(Permille::parse("6%").unwrap().of(Bytes::new(1001)), Bytes::new(61), "rounded up");
        assert_eq!(MilliCpu::cores(2).scaled(Permille::new(1500)), MilliCpu::cores(3));
        for text in ["", ".", "1.", ".5", "1.2345", "-1", "1e3", "two"] {
            assert!(MilliCpu::parse(text).is_err(), "{text} must be refused");
        }
        for text in ["6", "6.55%", "%", "-1%"] {
            assert!(Permille::parse(text).is_err(), "{text} must be refused");
        }
    }

    #[test]
    fn time_saturates_at_both_ends() {
        let t = Instant::from_nanos(5);
        assert_eq!(t.since(Instant::from_nanos(9)), Duration::ZERO);
        assert_eq!(t.after(Duration::MAX), Instant::from_nanos(u64::MAX));
        assert_eq!(show_duration(Duration::from_micros(1_234_567)), "1s 234ms");
        assert_eq!(show_duration(Duration::from_millis(90_500)), "1m 30s");
        assert!(parse_duration("30").is_err());
        assert_eq!(parse_duration("1h 30m").unwrap(), Duration::from_secs(5400));
    }
}
