//! Bytes between callers and instances.
//!
//! Every instance that runs has a *door* here: its container, and its network namespace held open. A stream
//! goes through a door to a port on the instance's own loopback, or runs a command inside. When the door is
//! closed because the instance is being stopped, every stream through it ends at once.
//!
//! Payload never enters the controller. The gateway only notes *that* a lease moved bytes; the daemon takes
//! the notes on each of its turns, so a busy stream costs the controller one word a second.
//!
//! Invariants: no stream outlives its door; streams are bounded for each instance and for all; memory a stream is
//! two fixed buffers; a command whose caller has hung up is ended, and counts as running until it has; no clock
//! in here.
//!
//! Deliberately absent: reading what is carried, TCP towards callers, tokens.

mod activity;
mod devtools;

pub use crate::docker::Execed;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use self::activity::{Activity, Noted};
use crate::control::message::{InstanceId, LeaseId};
use crate::docker::{ContainerId, Docker, DockerError, Exec};
use crate::netns::{Netns, NetnsError, Target};
use crate::quantity::Bytes;

/// Connecting on a loopback takes microseconds; an instance too busy to accept gets this long.
const DIAL_DEADLINE: Duration = Duration::from_secs(5);
/// A daemon that takes over finds its instances again within milliseconds, once the engine answers.
const FOUND_WITHIN: Duration = Duration::from_secs(10);
/// Each direction of a stream has one buffer of this size.
const BUFFER: usize = 64 << 10;
/// What is kept of each of a command's two outputs.
const OUTPUT_MOST: Bytes = Bytes::mib(1);
/// Commands that may run at once in one instance: each holds up to twice `OUTPUT_MOST` here.
const EXECS: usize = 8;
/// Streams that may be open at once to one instance: a browser's clients have a handful.
const STREAMS: usize = 256;
/// Streams that may be open at once to all: each takes two files and, when both directions are full, two buffers.
const STREAMS_OF_ALL: usize = 4096;

/// Doors to all instances that run; cheap to clone.
#[derive(Debug, Clone)]
pub struct Gateway {
    netns: Netns,
    doors: Arc<Mutex<BTreeMap<InstanceId, Door>>>,
    /// Instances whose doors are about to be opened again, and what is told when that or another door changes.
    expected: Arc<Mutex<BTreeSet<InstanceId>>>,
    changed: Arc<watch::Sender<()>>,
    activity: Arc<Activity>,
    streams: Arc<Semaphore>,
}

/// The way to one instance.
#[derive(Debug, Clone)]
struct Door {
    docker: Docker,
    container: ContainerId,
    target: Target,
    execs: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Open as long as the sender lives.
    open: watch::Receiver<()>,
}

/// Keeps a door open; dropping it closes the door and ends all streams through it.
#[derive(Debug)]
pub struct DoorKeeper {
    instance: InstanceId,
    doors: Arc<Mutex<BTreeMap<InstanceId, Door>>>,
    _open: watch::Sender<()>,
}

/// Says that a door is about to be opened, as long as it lives: who asks meanwhile waits for it.
#[derive(Debug)]
pub struct Expected {
    gateway: Gateway,
    instance: InstanceId,
}

/// The far end of a stream, with its place among those that may be open.
#[derive(Debug)]
pub struct Far {
    stream: TcpStream,
    _places: [OwnedSemaphorePermit; 2],
}

/// A command to run inside an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOrder {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment on top of the container's.
    pub env: BTreeMap<String, String>,
    /// The folder it runs in.
    pub cwd: Option<String>,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub timeout: Duration,
}

/// Why nothing goes through.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The instance is not there, or is being stopped.
    #[error("instance {0} is not running")]
    Closed(InstanceId),
    /// An earlier daemon made it, and it has not been found again.
    #[error("instance {0} has not been found again since stokerd was started")]
    Unseen(InstanceId),
    /// The port cannot be reached.
    #[error("instance {instance} cannot be reached")]
    Dial {
        /// Of which.
        instance: InstanceId,
        /// Which.
        port: u16,
        /// Why.
        #[source]
        source: NetnsError,
    },
    /// The command cannot be run.
    #[error("cannot run a command in instance {instance}")]
    Exec {
        /// In which.
        instance: InstanceId,
        /// Why.
        #[source]
        source: DockerError,
    },
    /// As many commands as may run at once do.
    #[error("{EXECS} commands run in instance {0} already")]
    Busy(InstanceId),
    /// As many streams as may be open to it are.
    #[error("{STREAMS} streams to instance {0} are open already")]
    Crowded(InstanceId),
    /// As many streams as may be open are.
    #[error("{STREAMS_OF_ALL} streams to instances are open already")]
    Full,
    /// Its browser does not answer as one.
    #[error("the browser of instance {instance} does not answer: {why}")]
    DevTools {
        /// Of which.
        instance: InstanceId,
        /// What it did instead.
        why: String,
    },
}

impl Gateway {
    /// A gateway without doors.
    pub fn new(netns: Netns) -> Gateway {
        let streams = Arc::new(Semaphore::new(STREAMS_OF_ALL));
        let changed = Arc::new(watch::Sender::new(()));
        let (doors, expected, activity) = (Arc::default(), Arc::default(), Arc::default());
        Gateway { netns, doors, expected, changed, activity, streams }
    }

    /// Lets who asks for this instance wait until its door is open, for as long as the answer is kept.
    pub fn expect(&self, instance: InstanceId) -> Expected {
        self.expected().insert(instance);
        Expected { gateway: self.clone(), instance }
    }

    /// Opens the door to an instance, for as long as the answer is kept.
    pub fn open(
        &self,
        instance: InstanceId,
        docker: Docker,
        container: ContainerId,
        target: Target,
    ) -> DoorKeeper {
        let (keep, open) = watch::channel(());
        let (execs, streams) = (Arc::new(Semaphore::new(EXECS)), Arc::new(Semaphore::new(STREAMS)));
        let door = Door { docker, container, target, execs, streams, open };
        self.doors().insert(instance, door);
        self.changed.send_replace(());
        DoorKeeper { instance, doors: self.doors.clone(), _open: keep }
    }

    /// Connects a stream to a port on an instance's own loopback; it has its place until it is dropped.
    ///
    /// # Errors
    /// When the instance is not running, nothing accepts there, or too many streams are open.
    pub async fn reach(&self, instance: InstanceId, port: u16) -> Result<Far, GatewayError> {
        let streams = self.door_soon(instance).await?.streams;
        let its = streams.try_acquire_owned().map_err(|_| GatewayError::Crowded(instance))?;
        let of_all = self.streams.clone().try_acquire_owned().map_err(|_| GatewayError::Full)?;
        Ok(Far { stream: self.dial(instance, port).await?, _places: [its, of_all] })
    }

    /// Connects to a port on an instance's own loopback.
    async fn dial(&self, instance: InstanceId, port: u16) -> Result<TcpStream, GatewayError> {
        let door = self.door(instance)?;
        let dialled = self.netns.dial(&door.target, port, DIAL_DEADLINE).await;
        dialled.map_err(|source| GatewayError::Dial { instance, port, source })
    }

    /// Carries bytes between a caller and an instance until either side ends or the door closes.
    pub async fn carry<S>(&self, lease: &LeaseId, instance: InstanceId, near: S, mut far: Far)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Ok(mut door) = self.door(instance) else {
            return; // It was stopped while the caller upgraded.
        };
        let notes = self.activity.of(lease);
        let mut near = Noted::new(near, notes.clone());
        let closed = async move { while door.open.changed().await.is_ok() {} };
        tokio::select! {
            // Either leg's error is its end; the caller sees the stream close.
            _ = copy_bidirectional_with_sizes(&mut near, &mut far.stream, BUFFER, BUFFER) => {}
            () = closed => {}
        }
        drop(notes);
    }

    /// Runs a command to its end, within its time and a bounded output. Running counts as activity. When
    /// `hung_up` resolves the command is killed, and this returns when it has ended, or was not seen to
    /// ([`Execed::runs_on`]). Dropping this future leaves the command to itself: let a task of its own await it.
    ///
    /// # Errors
    /// When the instance is not running, too much runs in it, or the engine cannot do it.
    pub async fn exec(
        &self,
        lease: &LeaseId,
        instance: InstanceId,
        order: ExecOrder,
        hung_up: impl Future<Output = ()>,
    ) -> Result<Execed, GatewayError> {
        let mut door = self.door_soon(instance).await?;
        let place = door.execs.clone().try_acquire_owned().map_err(|_| GatewayError::Busy(instance))?;
        let notes = self.activity.of(lease);
        let _running = notes.running();
        let exec = Exec {
            command: order.command,
            env: order.env,
            cwd: order.cwd,
            stdin: order.stdin,
            limit: OUTPUT_MOST,
            timeout: order.timeout,
        };
        let ran = tokio::select! {
            ran = door.docker.exec_unless(&door.container, &exec, hung_up) => ran,
            () = async { while door.open.changed().await.is_ok() {} } => return Err(GatewayError::Closed(instance)),
        };
        drop(place);
        ran.map_err(|source| GatewayError::Exec { instance, source })
    }

    /// Asks a browser for `/json/version` on this port: the answer is what makes it ready.
    ///
    /// # Errors
    /// When it is not running, or does not answer 200 in time.
    pub async fn devtools_answers(&self, instance: InstanceId, port: u16) -> Result<(), GatewayError> {
        let stream = self.dial(instance, port).await?;
        devtools::version(stream).await.map_err(|why| GatewayError::DevTools { instance, why })
    }

    /// The leases that did something since this was last asked.
    pub fn take_active(&self) -> Vec<LeaseId> {
        self.activity.take()
    }

    /// The door, waited for where it is about to be opened.
    async fn door_soon(&self, instance: InstanceId) -> Result<Door, GatewayError> {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                match self.door(instance) {
                    Err(_) if self.expected().contains(&instance) => {}
                    known => return known,
                }
                // It fails when the sender is gone, and we hold that.
                let _ = changed.changed().await;
            }
        };
        timeout(FOUND_WITHIN, found).await.unwrap_or(Err(GatewayError::Unseen(instance)))
    }

    fn door(&self, instance: InstanceId) -> Result<Door, GatewayError> {
        self.doors().get(&instance).cloned().ok_or(GatewayError::Closed(instance))
    }

    fn expected(&self) -> MutexGuard<'_, BTreeSet<InstanceId>> {
        self.expected.lock().expect("nobody panics while holding what is expected")
    }

    fn doors(&self) -> MutexGuard<'_, BTreeMap<InstanceId, Door>> {
        self.doors.lock().expect("nobody panics while holding the doors")
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.gateway.expected().remove(&self.instance);
        self.gateway.changed.send_replace(());
    }
}

impl Drop for DoorKeeper {
    fn drop(&mut self) {
        if let Ok(mut doors) = self.doors.lock() {
            doors.remove(&self.instance);
        }
    }
}

/// An error with all that caused it, on one line; a cause that only repeats what is said already is left out.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !line.ends_with(&said) {
            line.push_str(": ");
            line.push_str(&said);
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_repeats_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{text}")]
        struct Said {
            text: &'static str,
            source: Option<Box<Said>>,
        }
        let said = |text, source| Said { text, source };
        let root = said("refused", None);
        let inner = said("client error (Connect)", Some(Box::new(root)));
        let outer = said("client error (Connect)", Some(Box::new(inner)));
        assert_eq!(chain(&outer), "client error (Connect): refused");
    }
}
