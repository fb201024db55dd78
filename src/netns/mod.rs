//! Netns: sockets inside a container's network namespace, made from outside.
//!
//! A socket belongs for life to the namespace it was made in, wherever it is connected later. So one thread
//! steps through the door, makes a socket, and steps back; connecting and talking is done by everybody
//! else, who never left home. What listens on a container's own loopback is so reached without a
//! published port, and with no network at all.
//!
//! ```text
//!   dial --- job ---> [thread: enter, socket, leave] --- socket ---> connect (async, at home)
//! ```
//!
//! Invariants: only the room's own thread ever enters, and it serves one job at a time. A [`Target`] holds
//! the namespace itself, so a pid that was given to another process cannot lead astray. A thread that
//! could not leave never serves again: it ends, taking its namespace with it, and the next call starts
//! a fresh one from a thread that has always been at home. (Ending the process instead would cut every
//! connection of every instance for the fault of one thread.)
//!
//! Not here: who may dial what (`gateway`), what is spoken over the socket, other namespaces.

mod door;

pub use door::Target;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::netns::door::Job;
use crate::quantity::show_duration;

/// Sockets asked for and not yet made. Each takes microseconds, so a full queue is gone within a few
/// milliseconds; those beyond it wait within their own deadline.
const QUEUE: usize = 64;

/// For calls that name no deadline of their own; the thread never waits for anybody, so this is a hang.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Connections not yet accepted of a listener inside; the kernel's own bound is larger.
const BACKLOG: u32 = 128;

/// The room of one thread that enters namespaces; cheap to clone.
#[derive(Debug, Clone)]
pub struct Netns {
    jobs: Arc<Mutex<mpsc::Sender<Job>>>,
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The namespace could not be entered, or no socket be made in it.
    #[error("cannot make a socket in the network namespace of process {pid}")]
    Enter {
        /// The process that the namespace was found by.
        pid: u32,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// The thread could not come back from the namespace, and has ended.
    #[error("cannot leave the network namespace of process {pid}, ending the thread that is in it")]
    Leave {
        /// The process that the namespace was found by.
        pid: u32,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// Nothing accepts there.
    #[error("cannot connect to port {port} in the network namespace of process {pid}")]
    Connect {
        /// The process that the namespace was found by.
        pid: u32,
        /// The port on its loopback.
        port: u16,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// The port cannot be listened on there.
    #[error("cannot listen on port {port} in the network namespace of process {pid}")]
    Listen {
        /// The process that the namespace was found by.
        pid: u32,
        /// The port on its loopback.
        port: u16,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// It took too long.
    #[error("no connection to port {port} in the network namespace of process {pid} within {}", show_duration(*.within))]
    Timeout {
        /// The process that the namespace was found by.
        pid: u32,
        /// The port on its loopback.
        port: u16,
        /// How long we waited.
        within: Duration,
    },
    /// The thread was lost on the way and a fresh one could not be started, or was lost as well.
    #[error("the thread that enters network namespaces is gone")]
    Thread {
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl Netns {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread, or does not show it its own namespace.
    pub fn spawn() -> io::Result<Netns> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        door::spawn(queue)?;
        Ok(Netns { jobs: Arc::new(Mutex::new(jobs)) })
    }

    /// Connects to a port on the loopback inside.
    ///
    /// # Errors
    /// When the namespace cannot be entered, nothing accepts there, or not within this time.
    pub async fn dial(&self, target: &Target, port: u16, within: Duration) -> Result<TcpStream, NetnsError> {
        let pid = target.pid();
        let connected = tokio::time::timeout(within, async {
            let socket = self.socket(target).await?;
            let stream = socket.connect(loopback(port)).await;
            // DevTools and commands are short messages, each awaited.
            stream
                .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
                .map_err(|source| NetnsError::Connect { pid, port, source })
        });
        connected.await.unwrap_or(Err(NetnsError::Timeout { pid, port, within }))
    }

    /// Listens on a port on the loopback inside, so that an instance without a network can be served. Port 0
    /// lets the kernel choose.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or the port is taken.
    pub async fn listen(&self, target: &Target, port: u16) -> Result<TcpListener, NetnsError> {
        let pid = target.pid();
        let socket = tokio::time::timeout(ANSWER_WITHIN, self.socket(target))
            .await
            .unwrap_or(Err(NetnsError::Timeout { pid, port, within: ANSWER_WITHIN }))?;
        let listening = || {
            // Without it a port stays taken for a minute after the listener before this one.
            socket.set_reuseaddr(true)?;
            socket.bind(loopback(port))?;
            socket.listen(BACKLOG)
        };
        listening().map_err(|source| NetnsError::Listen { pid, port, source })
    }

    async fn socket(&self, target: &Target) -> Result<TcpSocket, NetnsError> {
        let lost = || NetnsError::Thread { source: io::ErrorKind::BrokenPipe.into() };
        let (answer, answered) = oneshot::channel();
        let jobs = self.jobs().map_err(|source| NetnsError::Thread { source })?;
        jobs.send(Job { target: target.clone(), answer }).await.map_err(|_| lost())?;
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    /// The way to the thread, and to a fresh one where that has ended.
    fn jobs(&self) -> io::Result<mpsc::Sender<Job>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_closed() {
            let (fresh, queue) = mpsc::channel(QUEUE);
            door::spawn(queue)?;
            *jobs = fresh;
        }
        Ok(jobs.clone())
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_thread_is_replaced_by_the_next_call() {
        let (jobs, queue) = mpsc::channel(QUEUE);
        drop(queue);
        let netns = Netns { jobs: Arc::new(Mutex::new(jobs)) };
        assert!(!netns.jobs().unwrap().is_closed());
    }
}
