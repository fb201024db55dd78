#![expect(clippy::disallowed_types, reason = "zbus makes a map of the properties of an interface")]
//! The host is about to go down, as logind says it: a bus and a logind of the test's own.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zbus::object_server::SignalEmitter;
use zbus::zvariant::OwnedFd;
use zbus::{Connection, connection};

use crate::engine::{Engine, TINY, skip};
use crate::host::{Host, SANDBOX};
use crate::level::until;

const MANAGER: &str = "/org/freedesktop/login1";
const DRAIN: &str = "/org/freedesktop/systemd1/unit/stoker_2ddrain_2eservice";

/// A bus; gone when dropped.
struct Bus {
    program: Child,
    address: String,
}

/// A logind on a bus of its own.
struct Logind {
    bus: Bus,
    connection: Connection,
    locks: Locks,
}

/// The other end of each lock that was given.
type Locks = Arc<Mutex<Vec<UnixStream>>>;

struct Manager {
    grants: Duration,
    locks: Locks,
}

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Manager {
    fn inhibit(&self, what: &str, who: &str, _why: &str, mode: &str) -> OwnedFd {
        assert_eq!((what, who, mode), ("shutdown", "stokerd", "delay"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        self.locks.lock().unwrap().push(ours);
        std::os::fd::OwnedFd::from(theirs).into()
    }

    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max_usec(&self) -> u64 {
        u64::try_from(self.grants.as_micros()).unwrap()
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(emitter: &SignalEmitter<'_>, start: bool) -> zbus::Result<()>;
}

/// A `stoker-drain.service` that is active, as systemd says it.
struct DrainUnit;

#[zbus::interface(name = "org.freedesktop.systemd1.Unit")]
impl DrainUnit {
    #[zbus(property)]
    fn active_state(&self) -> &str {
        "active"
    }

    #[zbus(property)]
    fn unit_file_state(&self) -> &str {
        "enabled"
    }
}

/// The same one, as a service.
struct DrainService;

#[zbus::interface(name = "org.freedesktop.systemd1.Service")]
impl DrainService {
    #[zbus(property)]
    fn environment(&self) -> Vec<&str> {
        vec!["STOKER_DRAIN_WINDOW=120s", "OTHER=1", "STOKER_DRAIN_WINDOW=4s"]
    }
}

impl Bus {
    /// `None`, aloud, where there is no `dbus-daemon`.
    async fn start(folder: &Path) -> Option<Bus> {
        let (socket, config) = (folder.join("bus"), folder.join("bus.conf"));
        let text = format!(
            "<busconfig><type>system</type><listen>unix:path={}</listen><policy context=\"default\">\
             <allow own=\"*\"/><allow send_destination=\"*\"/><allow receive_sender=\"*\"/></policy></busconfig>",
            socket.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut program = Command::new("dbus-daemon");
        program.arg(format!("--config-file={}", config.display())).args(["--nofork", "--nopidfile"]);
        let Ok(program) = program.stdin(Stdio::null()).spawn() else {
            skip("there is no dbus-daemon (Debian's package dbus)");
            return None;
        };
        until("the bus listens", async || UnixStream::connect(&socket).is_ok(), |yes| *yes).await;
        Some(Bus { program, address: format!("unix:path={}", socket.display()) })
    }
}

impl Logind {
    async fn start(folder: &Path, grants: Duration) -> Option<Logind> {
        let bus = Bus::start(folder).await?;
        let locks = Locks::default();
        let manager = Manager { grants, locks: locks.clone() };
        let builder = connection::Builder::address(bus.address.as_str()).unwrap();
        let builder = builder.name("org.freedesktop.login1").unwrap().serve_at(MANAGER, manager).unwrap();
        let connection = builder.build().await.unwrap();
        Some(Logind { bus, connection, locks })
    }

    async fn say_shutdown(&self, start: bool) {
        let emitter = SignalEmitter::new(&self.connection, MANAGER).unwrap();
        Manager::prepare_for_shutdown(&emitter, start).await.unwrap();
    }

    /// Of each lock that was given, whether it is held.
    fn held(&self) -> Vec<bool> {
        let held = |lock: &UnixStream| {
            let mut lock = lock;
            lock.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        self.locks.lock().unwrap().iter().map(held).collect()
    }

    async fn until_held(&self, wanted: &[bool]) {
        until(&format!("locks are held like {wanted:?}"), async || self.held(), |held| held == wanted).await;
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Starts the daemon with this bus for the system's.
fn launch_on(host: &mut Host, bus: &Bus) {
    let mut command = host.stokerd(host.client.socket());
    command.env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address);
    host.launch_as(command);
}

/// A host with a logind that grants so long.
async fn host(grants: Duration) -> Option<(Host, Logind)> {
    let mut host = Host::silent(Engine::with(TINY).await?, SANDBOX);
    let logind = Logind::start(host.folder(), grants).await?;
    launch_on(&mut host, &logind.bus);
    host.until_it_serves().await;
    logind.until_held(&[true]).await;
    Some((host, logind))
}

#[tokio::test]
async fn a_shutdown_waits_until_what_is_lent_is_given_back() {
    let Some((host, logind)) = host(Duration::from_secs(600)).await else { return };
    let lease = host.acquire("sandbox").await;
    logind.say_shutdown(true).await;
    let state = async || host.lease(&lease.id).await.state;
    until("the lease hears of it", state, |state| state == "draining").await;
    assert_eq!(logind.held(), [true], "it goes on");
    assert_eq!(host.sh(&lease.id, "echo on").await.stdout, "on\n");
    host.release(&lease.id).await;
    logind.until_held(&[false]).await;
    host.until_containers(0).await;

    // Somebody has thought better of it: all is as before.
    logind.say_shutdown(false).await;
    logind.until_held(&[false, true]).await;
    assert!(host.host().await.drain.is_none());
    assert_eq!(host.acquire("sandbox").await.state, "executing");
    assert!(!host.log().contains("stoker-drain.service"), "ten minutes are enough: {}", host.log());
}

#[tokio::test]
async fn a_logind_that_waits_for_little_is_told_of_and_leases_have_that_little() {
    let Some((host, logind)) = host(Duration::from_secs(5)).await else { return };
    let advice =
        "leases will have 3s to end instead of 2m: logind waits no longer than 5s, and stoker-drain.service";
    host.until_logged(advice, 1).await;
    let lease = host.acquire("sandbox").await;
    logind.say_shutdown(true).await;
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("interrupted", Some("drain")));
    logind.until_held(&[false]).await;
}

#[tokio::test]
async fn where_the_drain_unit_goes_on_leases_have_its_window() {
    let Some((host, logind)) = host(Duration::from_secs(5)).await else { return };
    let objects = logind.connection.object_server();
    objects.at(DRAIN, DrainUnit).await.unwrap();
    objects.at(DRAIN, DrainService).await.unwrap();
    logind.connection.request_name("org.freedesktop.systemd1").await.unwrap();
    let lease = host.acquire("sandbox").await;
    logind.say_shutdown(true).await;
    host.until_logged("the host is going down: leases have 4s to end", 1).await;
    let ended = host.until_ended(&lease.id).await;
    assert_eq!((ended.state.as_str(), ended.reason.as_deref()), ("interrupted", Some("drain")));
    logind.until_held(&[false]).await;
}

#[tokio::test]
async fn a_bus_without_logind_is_no_trouble() {
    let Some(engine) = Engine::with(TINY).await else { return };
    let mut host = Host::silent(engine, SANDBOX);
    let Some(bus) = Bus::start(host.folder()).await else { return };
    launch_on(&mut host, &bus);
    host.until_it_serves().await;
    host.until_warm("sandbox", 1).await;
    assert!(!host.log().contains("WARN"), "{}", host.log());
}
