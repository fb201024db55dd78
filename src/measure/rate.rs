//! A counter of processor time between two looks.

use crate::control::message::{Read, Unread};
use crate::quantity::{Instant, MilliCpu};

/// What the counter said when it was last looked at.
#[derive(Debug, Default)]
pub(super) struct Rate {
    before: Option<(Instant, u64)>,
}

impl Rate {
    /// The average since the look before; the counter stands at `nanos` of processor time.
    pub(super) fn at(&mut self, now: Instant, nanos: u64) -> Read<MilliCpu> {
        let Some((then, before)) = self.before else {
            self.before = Some((now, nanos));
            return Err(first_look());
        };
        let elapsed = now.as_nanos().saturating_sub(then.as_nanos());
        if elapsed == 0 {
            // The older look stays, so that the next rate covers this one too.
            return Err(Unread("no time has passed since the last look".into()));
        }
        self.before = Some((now, nanos));
        let used = nanos.checked_sub(before).ok_or_else(went_back)?;
        let thousandths = u128::from(used) * 1000 / u128::from(elapsed);
        Ok(MilliCpu::new(u64::try_from(thousandths).unwrap_or(u64::MAX)))
    }
}

/// There is nothing to compare with yet.
pub(super) fn first_look() -> Unread {
    Unread("first look: no rate yet".into())
}

/// The counter was set back, or is another one.
pub(super) fn went_back() -> Unread {
    Unread("the counter went backwards".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_rate_needs_two_looks_and_time_between_them() {
        let mut rate = Rate::default();
        for (at, nanos, expected) in [
            (SECOND, 0, Err("first look: no rate yet")),
            (2 * SECOND, SECOND / 4, Ok(250)),
            (4 * SECOND, SECOND / 4 + 6 * SECOND, Ok(3000)),
            (4 * SECOND, 7 * SECOND, Err("no time has passed since the last look")),
            (3 * SECOND, 7 * SECOND, Err("no time has passed since the last look")),
            (5 * SECOND, 7 * SECOND, Ok(750)),
            (6 * SECOND, SECOND, Err("the counter went backwards")),
            (7 * SECOND, SECOND, Ok(0)),
            (7 * SECOND + 1, u64::MAX, Ok(u64::MAX)),
        ] {
            let seen = rate.at(Instant::from_nanos(at), nanos);
            let expected = expected.map(MilliCpu::new).map_err(|why| Unread(why.into()));
            assert_eq!(seen, expected, "at {at} with {nanos}");
        }
    }
}
