//! What the service manager is told: that the daemon is ready, how it goes in one line, that its loop turns, and
//! that it ends (`sd_notify(3)`).
//!
//! The loop itself feeds the watchdog, at half of its time: a loop that hangs feeds nothing, and is killed.
//! Nothing here waits. A message that finds the manager's queue full is sent at the next turn, except the last.
//!
//! Deliberately absent: whether the engine or the pools are well. A watchdog that starved for the engine's sake
//! would kill a daemon that is in order.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::control::message::{Engine, Summary};
use crate::quantity::Instant;

/// The line is for people who look; more often than this nobody can read it.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// The way to the service manager, if there is one; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Notify(Option<Arc<Manager>>);

#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Notify {
    /// The manager that this process's environment names.
    ///
    /// # Errors
    /// When it names one that cannot be.
    pub fn from_env() -> io::Result<Notify> {
        std::env::var_os("NOTIFY_SOCKET").map_or(Ok(Notify::default()), |place| Notify::to(&place))
    }

    fn to(place: &OsString) -> io::Result<Notify> {
        let address = match place.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(place)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Notify(Some(Arc::new(Manager { socket, address }))))
    }

    /// Says that the daemon is ending.
    pub fn stopping(&self) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status("ending, leaving instances as they are")]);
    }

    /// Whether the manager took it.
    fn tell(&self, words: &[NotifyState<'_>]) -> bool {
        let Some(manager) = &self.0 else { return true };
        let text: String = words.iter().map(|word| format!("{word}\n")).collect();
        manager.socket.send_to_addr(text.as_bytes(), &manager.address).is_ok()
    }
}

/// The loop's side: told of every turn, it says what is due.
#[derive(Debug)]
pub struct Pulse {
    notify: Notify,
    /// Half of the watchdog's time, where there is a watchdog.
    feed_every: Option<Duration>,
    feed_at: Instant,
    status_at: Instant,
    is_ready: bool,
    /// The line that was last told.
    told: String,
}

impl Pulse {
    /// A pulse that has not beaten yet, with the watchdog that this process's environment names.
    pub fn new(notify: Notify) -> Pulse {
        Pulse::with(notify, sd_notify::watchdog_enabled())
    }

    fn with(notify: Notify, watchdog: Option<Duration>) -> Pulse {
        let feed_every = watchdog.map(|limit| limit / 2).filter(|every| !every.is_zero());
        let (feed_at, status_at) = (Instant::BOOT, Instant::BOOT);
        Pulse { notify, feed_every, feed_at, status_at, is_ready: false, told: String::new() }
    }

    /// When the loop must turn even if nothing else is due.
    pub fn due(&self) -> Option<Instant> {
        self.feed_every.map(|_| self.feed_at)
    }

    /// The loop turns. The first beat says that the daemon is ready.
    pub fn beat(&mut self, now: Instant, status: impl FnOnce() -> String) {
        if self.notify.0.is_none() {
            return;
        }
        let mut words = Vec::new();
        if !self.is_ready {
            words.push(NotifyState::Ready);
        }
        let mut line = None;
        if now >= self.status_at {
            self.status_at = now.after(STATUS_EVERY);
            line = Some(status()).filter(|line| *line != self.told);
        }
        words.extend(line.as_deref().map(NotifyState::Status));
        let feeds = self.feed_every.filter(|_| now >= self.feed_at);
        words.extend(feeds.map(|_| NotifyState::Watchdog));
        if words.is_empty() || !self.notify.tell(&words) {
            return;
        }
        self.is_ready = true;
        self.told = line.unwrap_or_else(|| std::mem::take(&mut self.told));
        self.feed_at = feeds.map_or(self.feed_at, |every| now.after(every));
    }
}

/// How the host goes, in the one line of `systemctl status`.
pub fn status_line(host: &Summary) -> String {
    let Summary { warm, leased, starting, queued, engine, drain, trouble } = host;
    let mut line = format!("{warm} warm, {leased} leased, {starting} starting, {queued} queued");
    match drain {
        Some(drain) if drain.instances == 0 => line.push_str("; drained"),
        Some(drain) => line.push_str(&format!("; draining, {} instances are left", drain.instances)),
        None => {}
    }
    if let Engine::Unreachable(why) = engine {
        line.push_str(&format!("; the engine does not answer: {why}"));
    }
    if let Some(why) = trouble {
        line.push_str(&format!("; {why}"));
    }
    // A line's end would begin another message to the manager.
    line.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::message::DrainView;

    fn at(seconds: u64) -> Instant {
        Instant::BOOT.after(Duration::from_secs(seconds))
    }

    /// What the manager has got since it was last asked.
    fn heard(manager: &UnixDatagram) -> Vec<String> {
        let mut text = [0; 4096];
        std::iter::from_fn(|| manager.recv(&mut text).ok().map(|many| text[..many].to_vec()))
            .map(|text| String::from_utf8(text).unwrap())
            .collect()
    }

    fn manager() -> (tempfile::TempDir, UnixDatagram, Notify) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("notify");
        let manager = UnixDatagram::bind(&place).unwrap();
        manager.set_nonblocking(true).unwrap();
        let notify = Notify::to(&place.into_os_string()).unwrap();
        (folder, manager, notify)
    }

    #[test]
    fn the_first_turn_says_ready_and_later_ones_what_is_due() {
        let (_folder, manager, notify) = manager();
        let mut pulse = Pulse::with(notify.clone(), Some(Duration::from_secs(30)));
        pulse.beat(at(100), || "one".into());
        assert_eq!(heard(&manager), ["READY=1\nSTATUS=one\nWATCHDOG=1\n"]);
        assert_eq!(pulse.due(), Some(at(115)));

        pulse.beat(at(100), || unreachable!("the line was told a moment ago"));
        pulse.beat(at(101), || "one".into());
        assert_eq!(heard(&manager), Vec::<String>::new(), "nothing is new");
        pulse.beat(at(102), || "two".into());
        assert_eq!(heard(&manager), ["STATUS=two\n"]);
        pulse.beat(at(115), || "two".into());
        assert_eq!(heard(&manager), ["WATCHDOG=1\n"]);
        assert_eq!(pulse.due(), Some(at(130)));

        notify.stopping();
        assert_eq!(heard(&manager), ["STOPPING=1\nSTATUS=ending, leaving instances as they are\n"]);
    }

    #[test]
    fn without_a_watchdog_nothing_is_due_and_without_a_manager_nothing_is_said() {
        let (_folder, manager, notify) = manager();
        let mut pulse = Pulse::with(notify, None);
        pulse.beat(at(1), || "one".into());
        assert_eq!((heard(&manager), pulse.due()), (vec!["READY=1\nSTATUS=one\n".to_owned()], None));

        let mut nobody = Pulse::with(Notify::default(), None);
        nobody.beat(at(1), || unreachable!("nobody reads it"));
        Notify::default().stopping();
    }

    #[test]
    fn what_finds_the_queue_full_is_said_again_and_nobody_waits() {
        let (_folder, manager, notify) = manager();
        while notify.tell(&[NotifyState::Custom("X=noise")]) {}
        let mut pulse = Pulse::with(notify, Some(Duration::from_secs(30)));
        pulse.beat(at(1), || "one".into());
        heard(&manager);
        pulse.beat(at(2), || "two".into());
        assert_eq!(heard(&manager), ["READY=1\nSTATUS=two\nWATCHDOG=1\n"]);
    }

    #[test]
    fn an_abstract_place_is_one_too() {
        let name = format!("stoker-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        manager.set_nonblocking(true).unwrap();
        Notify::to(&format!("@{name}").into()).unwrap().stopping();
        assert_eq!(heard(&manager).len(), 1);
    }

    #[test]
    fn the_line_says_what_matters() {
        let mut host = Summary {
            warm: 12,
            leased: 3,
            starting: 1,
            queued: 2,
            engine: Engine::Reachable,
            drain: None,
            trouble: None,
        };
        assert_eq!(status_line(&host), "12 warm, 3 leased, 1 starting, 2 queued");
        host.engine = Engine::Unreachable("cannot connect\nSTOPPING=1".into());
        assert_eq!(
            status_line(&host),
            "12 warm, 3 leased, 1 starting, 2 queued; the engine does not answer: cannot connect STOPPING=1"
        );
        host.engine = Engine::Reachable;
        host.drain = Some(DrainView { since: at(1), deadline: at(9), leases: 3, instances: 4 });
        assert!(status_line(&host).ends_with("; draining, 4 instances are left"));
        host.drain = Some(DrainView { since: at(1), deadline: at(9), leases: 0, instances: 0 });
        assert!(status_line(&host).ends_with("; drained"));
    }
}
