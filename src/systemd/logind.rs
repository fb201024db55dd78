//! logind, which knows first that the host is about to go down, and waits a little for those who asked it to.
//!
//! A *delay lock* is a file descriptor: while it is open, logind holds a shutdown back, for its
//! `InhibitDelayMaxSec` at most (5 s where nobody set more). It knows nothing of `systemctl start reboot.target` or a
//! forced reboot. So the lock is an early warning; what holds a shutdown for as long as a drain takes is
//! `stoker-drain.service`, and whether that is there is asked here too.
//!
//! The system bus is asked as it is found; that there is none is [`LogindError::NoBus`], and no trouble.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;
use zbus::proxy::CacheProperties;
use zbus::zvariant::OwnedFd;

/// The bus answers in milliseconds, in a second on a host that is shutting down.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1",
    gen_blocking = false
)]
trait Manager {
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::Result<OwnedFd>;

    #[zbus(signal)]
    fn prepare_for_shutdown(&self, start: bool) -> zbus::Result<()>;

    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max_usec(&self) -> zbus::Result<u64>;
}

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Unit",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1/unit/stoker_2ddrain_2eservice",
    gen_blocking = false
)]
trait DrainUnit {
    #[zbus(property)]
    fn active_state(&self) -> zbus::Result<String>;

    #[zbus(property)]
    fn unit_file_state(&self) -> zbus::Result<String>;
}

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Service",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1/unit/stoker_2ddrain_2eservice",
    gen_blocking = false
)]
trait DrainService {
    #[zbus(property)]
    fn environment(&self) -> zbus::Result<Vec<String>>;
}

/// Why logind says nothing.
#[derive(Debug, thiserror::Error)]
pub enum LogindError {
    /// There is no system bus, or no logind on it.
    #[error("there is no logind here")]
    NoBus,
    /// It was asked and failed.
    #[error("logind failed to {0}")]
    Failed(&'static str, #[source] zbus::Error),
    /// It was asked and did not answer.
    #[error("logind did not {0} within {seconds} s", seconds = ANSWER_WITHIN.as_secs())]
    TooLate(&'static str),
}

/// A connection to logind.
#[derive(Debug)]
pub struct Logind {
    manager: ManagerProxy<'static>,
    drain_unit: DrainUnitProxy<'static>,
    drain_service: DrainServiceProxy<'static>,
    shutdowns: PrepareForShutdownStream,
}

/// Holds a shutdown back until it is dropped, or logind has waited for long enough.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not used")] OwnedFd);

impl Logind {
    /// Connects, and listens from here on.
    ///
    /// # Errors
    /// When there is no bus, or it does not answer.
    pub async fn connect() -> Result<Logind, LogindError> {
        let bus = asked("answer", zbus::Connection::system()).await?;
        let manager = ManagerProxy::builder(&bus).cache_properties(CacheProperties::No).build();
        let manager = asked("answer", manager).await?;
        let drain_unit = DrainUnitProxy::builder(&bus).cache_properties(CacheProperties::No).build();
        let drain_unit = asked("answer", drain_unit).await?;
        let drain_service = DrainServiceProxy::builder(&bus).cache_properties(CacheProperties::No).build();
        let drain_service = asked("answer", drain_service).await?;
        let shutdowns = asked("tell of shutdowns", manager.receive_prepare_for_shutdown()).await?;
        Ok(Logind { manager, drain_unit, drain_service, shutdowns })
    }

    /// Takes the lock that delays a shutdown.
    ///
    /// # Errors
    /// When logind does not give it.
    pub async fn delay(&self, why: &str) -> Result<Lock, LogindError> {
        let lock = self.manager.inhibit("shutdown", "stokerd", why, "delay");
        Ok(Lock(asked("give its lock", lock).await?))
    }

    /// How long logind waits for locks, as it is in effect.
    ///
    /// # Errors
    /// When logind does not say.
    pub async fn delay_max(&self) -> Result<Duration, LogindError> {
        let most = asked("tell InhibitDelayMaxSec", self.manager.inhibit_delay_max_usec()).await?;
        Ok(Duration::from_micros(most))
    }

    /// Whether `stoker-drain.service` is active, and so holds a shutdown until the host is drained. Where systemd
    /// does not say, it is not.
    pub async fn drain_unit_is_active(&self) -> bool {
        let state = asked("tell a unit's state", self.drain_unit.active_state()).await;
        state.is_ok_and(|state| state == "active")
    }

    /// Whether it will be active, as it is enabled: it begins after the daemon.
    pub async fn drain_unit_is_enabled(&self) -> bool {
        let state = asked("tell a unit's state", self.drain_unit.unit_file_state()).await;
        state.is_ok_and(|state| state == "enabled")
    }

    /// What `stoker-drain.service` has in its environment under this name, drop-ins included.
    pub async fn drain_unit_environment(&self, name: &str) -> Option<String> {
        let all = asked("tell a unit's environment", self.drain_service.environment()).await.ok()?;
        let value = |line: &String| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        all.iter().rev().find_map(value)
    }

    /// Waits until a shutdown begins (`true`), or one that had begun will not be (`false`); `None` when the bus has
    /// gone.
    pub async fn next_shutdown(&mut self) -> Option<bool> {
        loop {
            // Another message of that name is none of logind's.
            if let Ok(said) = self.shutdowns.next().await?.args() {
                return Some(said.start);
            }
        }
    }
}

async fn asked<T>(
    what: &'static str,
    answer: impl Future<Output = zbus::Result<T>>,
) -> Result<T, LogindError> {
    match timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if is_absence(&error) => Err(LogindError::NoBus),
        Ok(Err(error)) => Err(LogindError::Failed(what, error)),
        Err(_) => Err(LogindError::TooLate(what)),
    }
}

/// Whether this says that there is nobody, rather than that somebody failed.
#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is zbus's, and grows")]
fn is_absence(error: &zbus::Error) -> bool {
    use std::io::ErrorKind;
    match error {
        zbus::Error::Connection(error, _) | zbus::Error::InputOutput(error) => {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
        }
        zbus::Error::MethodError(name, ..) => name.as_str() == "org.freedesktop.DBus.Error.ServiceUnknown",
        zbus::Error::FDO(error) => matches!(**error, zbus::fdo::Error::ServiceUnknown(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bus_that_is_not_there_is_told_from_one_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("bus");
        let address = format!("unix:path={}", place.display());
        let connect = || zbus::connection::Builder::address(address.as_str()).unwrap().build();
        assert!(matches!(asked("answer", connect()).await, Err(LogindError::NoBus)), "there is no path");
        let listener = std::os::unix::net::UnixListener::bind(&place).unwrap();
        let speaks_something_else = std::thread::spawn(move || listener.accept().map(drop));
        assert!(matches!(asked("answer", connect()).await, Err(LogindError::Failed("answer", _))));
        speaks_something_else.join().unwrap().unwrap();
        assert!(matches!(asked("answer", connect()).await, Err(LogindError::NoBus)), "nobody listens");
    }
}
