//! Limits of a slice, told to systemd: what it does not know of it takes back at its next `daemon-reload`.
//!
//! Set for as long as the host runs (`--runtime`): the unit's drop-ins are then in `/run`, and hold through reloads and
//! through the slice being ended and made again.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use zbus::proxy::CacheProperties;
use zbus::zvariant::Value;

/// The manager answers in milliseconds, in a second on a host in trouble.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1",
    gen_blocking = false
)]
trait Units {
    fn set_unit_properties(
        &self,
        name: &str,
        runtime: bool,
        properties: &[(&str, Value<'_>)],
    ) -> zbus::Result<()>;
}

/// Why a slice's limits could not be told.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    /// There is no way to systemd, or it would not.
    #[error("systemd does not take the limits of `{0}`")]
    Refused(&'static str, #[source] zbus::Error),
    /// It did not answer.
    #[error("systemd did not take the limits of `{0}` within {seconds} s", seconds = ANSWER_WITHIN.as_secs())]
    TooLate(&'static str),
}

/// Hard limits of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceLimits {
    /// Bytes (`MemoryMax=`).
    pub memory: u64,
    /// `CPUWeight=`.
    pub cpu_weight: u64,
    /// Processes and threads (`TasksMax=`); `None` leaves them as they are.
    pub tasks: Option<u64>,
}

/// Whether systemd manages this host.
pub fn is_running() -> bool {
    // As sd_booted(3) has it.
    Path::new("/run/systemd/system").is_dir()
}

/// Sets the limits of this slice, whether or not it is active.
///
/// # Errors
/// When systemd cannot be asked, refuses, or does not answer.
pub async fn set_limits(slice: &'static str, limits: SliceLimits) -> Result<(), SliceError> {
    let set = async {
        let bus = zbus::Connection::system().await?;
        let units = UnitsProxy::builder(&bus).cache_properties(CacheProperties::No).build().await?;
        let mut properties =
            vec![("MemoryMax", Value::from(limits.memory)), ("CPUWeight", Value::from(limits.cpu_weight))];
        properties.extend(limits.tasks.map(|tasks| ("TasksMax", Value::from(tasks))));
        units.set_unit_properties(slice, true, &properties).await
    };
    match timeout(ANSWER_WITHIN, set).await {
        Ok(set) => set.map_err(|error| SliceError::Refused(slice, error)),
        Err(_) => Err(SliceError::TooLate(slice)),
    }
}
