//! Waiting: always for a level, something that can be looked at again, and never for an edge or for time.

use std::fmt::Debug;
use std::time::Duration;

/// Everything that is waited for takes a second or two; a host that does ten things at once gets this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Looks until what is seen is good, and hands it back; what was seen last is in the failure.
pub(crate) async fn until<T: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> T,
    good: impl Fn(&T) -> bool,
) -> T {
    let began = tokio::time::Instant::now();
    loop {
        let seen = look().await;
        if good(&seen) {
            return seen;
        }
        assert!(began.elapsed() < LIMIT, "waited in vain until {what}; last seen: {seen:#?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
