//! The host is about to go down: what is lent is drained while logind waits.
//!
//! A lock at logind is held all the time. When a shutdown begins, the host is drained, and the lock is let go when
//! nothing is left or logind waits no longer. Where `stoker-drain.service` is active it takes the drain on from
//! there, so the window is its; where it is not, leases have what logind grants and no more, since what comes next
//! ends their containers without a word.
//!
//! Not here: a stop of the daemon alone, which drains nothing.

use std::time::Duration;

use tokio::time::{interval, sleep, timeout};

use crate::api::desk::{Desk, Ending};
use crate::control::message::{Call, HostView, Reply, Scope};
use crate::gateway::chain;
use crate::quantity::{parse_duration, show_duration};
use crate::systemd::{Logind, LogindError, catalog};

/// How long leases may go on when the host goes down, where `stoker-drain.service` does not say; it does, see there.
const WINDOW: Duration = Duration::from_secs(120);
/// What says it there.
const WINDOW_OF_UNIT: &str = "STOKER_DRAIN_WINDOW";
/// What logind grants is also for removing containers after the window.
const REMOVE_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks whether anything is left.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Between two tries to find logind: it may come later, or come back.
const FIND_AGAIN: Duration = Duration::from_secs(60);

/// Why nothing is heard of shutdowns any more.
enum Deaf {
    Ending,
    Logind(LogindError),
}

/// Heeds shutdowns for as long as the daemon runs.
pub(super) async fn heed(desk: Desk) {
    let mut said = String::new();
    loop {
        let why = match follow(&desk).await {
            Err(Deaf::Ending) => return,
            Err(Deaf::Logind(LogindError::NoBus)) => String::new(),
            Err(Deaf::Logind(error)) => chain(&error),
            Ok(()) => "the bus has gone".into(),
        };
        if !why.is_empty() && why != said {
            tracing::warn!(
                message_id = catalog::UNHEARD_SHUTDOWN.id,
                "cannot hear of shutdowns: {why}, trying again every {} s; stoker-drain.service drains without it",
                FIND_AGAIN.as_secs()
            );
        }
        said = why;
        sleep(FIND_AGAIN).await;
    }
}

/// One connection to logind, from its beginning to its end.
async fn follow(desk: &Desk) -> Result<(), Deaf> {
    let mut logind = Logind::connect().await?;
    let mut advised = false;
    loop {
        let lock = logind.delay("lent browsers and sandboxes are given their time to end").await?;
        let granted = logind.delay_max().await?;
        let wanted = window_wanted(&logind).await;
        if !advised && granted < wanted {
            advised = true;
            if !logind.drain_unit_is_active().await && !logind.drain_unit_is_enabled().await {
                advise(wanted, granted);
            }
        }
        match logind.next_shutdown().await {
            None => return Ok(()),
            // One that is taken back and was not heard of is none.
            Some(false) => continue,
            Some(true) => {}
        }
        // Asked now, as an administrator may have edited them; all at once, as a bus that goes down is slow.
        let (most, wanted, goes_on) =
            tokio::join!(logind.delay_max(), window_wanted(&logind), logind.drain_unit_is_active());
        let granted = most.unwrap_or(granted);
        let window = window(wanted, granted, goes_on);
        let was_drained = host(desk, Call::Host).await?.drain.is_some();
        tracing::info!(
            message_id = catalog::GOING_DOWN.id,
            "the host is going down: leases have {} to end",
            show_duration(window)
        );
        host(desk, Call::DrainForNow(Scope::Host, window)).await?;
        // Later than this, logind waits for nobody.
        let emptied = timeout(granted, until_empty(desk)).await;
        drop(lock);
        if let Ok(outcome) = emptied {
            outcome?;
        }
        match logind.next_shutdown().await {
            None => return Ok(()),
            Some(true) => {}
            Some(false) if was_drained => {}
            Some(false) => {
                tracing::info!(message_id = catalog::STAYS_UP.id, "the host stays up after all");
                host(desk, Call::Undrain(Scope::Host)).await?;
            }
        }
    }
}

/// How long leases may go on by the administrator's will.
async fn window_wanted(logind: &Logind) -> Duration {
    let Some(said) = logind.drain_unit_environment(WINDOW_OF_UNIT).await else { return WINDOW };
    parse_duration(&said).unwrap_or_else(|wrong| {
        tracing::warn!(
            message_id = catalog::SHORT_SHUTDOWN.id,
            "{WINDOW_OF_UNIT} of stoker-drain.service does not read, so leases have {} when the host goes down: {wrong}",
            show_duration(WINDOW),
        );
        WINDOW
    })
}

/// How long they do: until logind waits no longer, unless the unit goes on where it stops.
fn window(wanted: Duration, granted: Duration, unit_is_active: bool) -> Duration {
    if unit_is_active { wanted } else { wanted.min(granted.saturating_sub(REMOVE_WITHIN)) }
}

fn advise(wanted: Duration, granted: Duration) {
    tracing::warn!(
        message_id = catalog::SHORT_SHUTDOWN.id,
        "when the host goes down leases will have {} to end instead of {}: logind waits no longer than {}, and \
         stoker-drain.service, which does, is not active; `systemctl enable --now stoker-drain.service`, or set \
         InhibitDelayMaxSec= in /etc/systemd/logind.conf.d/",
        show_duration(window(wanted, granted, false)),
        show_duration(wanted),
        show_duration(granted),
    );
}

async fn until_empty(desk: &Desk) -> Result<(), Ending> {
    let mut look = interval(LOOK_AGAIN);
    loop {
        look.tick().await;
        // A drain that is taken back leaves nothing to wait for.
        if host(desk, Call::Host).await?.drain.is_none_or(|drain| drain.instances == 0) {
            return Ok(());
        }
    }
}

async fn host(desk: &Desk, call: Call) -> Result<HostView, Ending> {
    let Reply::Host(view) = desk.ask(call).await? else {
        unreachable!("what is asked here is answered with the host");
    };
    Ok(*view)
}

impl From<Ending> for Deaf {
    fn from(_: Ending) -> Deaf {
        Deaf::Ending
    }
}

impl From<LogindError> for Deaf {
    fn from(error: LogindError) -> Deaf {
        Deaf::Logind(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_have_what_is_granted_unless_the_unit_goes_on() {
        let seconds = Duration::from_secs;
        assert_eq!(window(WINDOW, seconds(5), false), seconds(3));
        assert_eq!(window(WINDOW, seconds(5), true), WINDOW);
        assert_eq!(window(WINDOW, seconds(600), false), WINDOW);
        assert_eq!(window(WINDOW, seconds(1), false), Duration::ZERO);
    }

    #[test]
    fn the_unit_has_the_same_window() {
        let unit = include_str!("../../units/stoker-drain.service");
        let line = format!("Environment={WINDOW_OF_UNIT}={}s", WINDOW.as_secs());
        assert!(unit.lines().any(|found| found == line), "no `{line}` in the unit");
    }
}
