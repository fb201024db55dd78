//! The thread that steps into a namespace and back, and the namespaces it is shown.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use nix::sched::{CloneFlags, setns};
use tokio::net::TcpSocket;
use tokio::sync::{mpsc, oneshot};

use crate::netns::NetnsError;

/// A container's network namespace, held open; cheap to clone. It outlives the container for as long as it
/// is held, so it is dropped with the instance.
#[derive(Debug, Clone)]
pub struct Target {
    pid: u32,
    namespace: Arc<File>,
}

/// One socket to make.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) target: Target,
    pub(super) answer: oneshot::Sender<Result<TcpSocket, NetnsError>>,
}

impl Target {
    /// Opens the namespace of this process; once per instance. Whether the number still meant the process is
    /// for the caller to check, after this has returned.
    ///
    /// # Errors
    /// When the process is gone, may not be looked at, or lives in this daemon's own namespace, where a
    /// loopback is the host's.
    pub fn of(pid: u32) -> io::Result<Target> {
        let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
        let (its, ours) = (namespace.metadata()?, std::fs::metadata("/proc/thread-self/ns/net")?);
        if (its.dev(), its.ino()) == (ours.dev(), ours.ino()) {
            let why = format!("process {pid} has the host's network, not one of its own");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Target { pid, namespace: Arc::new(namespace) })
    }

    /// The process it was found by, for messages.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// Starts a thread that serves these jobs until nobody can send any, or until it cannot come back from one.
pub(super) fn spawn(jobs: mpsc::Receiver<Job>) -> io::Result<()> {
    // A new thread is where its maker is; every caller of this room is at home.
    let home = File::open("/proc/thread-self/ns/net")?;
    std::thread::Builder::new().name("netns".into()).spawn(move || serve(&home, jobs)).map(drop)
}

fn serve(home: &File, mut jobs: mpsc::Receiver<Job>) {
    while let Some(Job { target, answer }) = jobs.blocking_recv() {
        // Nobody waits any more: its deadline has passed in the queue.
        if answer.is_closed() {
            continue;
        }
        let made = socket_inside(home, &target);
        let lost = matches!(made, Err(NetnsError::Leave { .. }));
        if lost {
            // Closed before the answer goes out, so that who tries again at once finds a fresh thread.
            jobs.close();
        }
        // A receiver that is gone drops the socket, and that closes it.
        let _ = answer.send(made);
        if lost {
            return;
        }
    }
}

/// Enters, makes a socket, leaves. Nothing in between can wait.
fn socket_inside(home: &File, target: &Target) -> Result<TcpSocket, NetnsError> {
    let pid = target.pid;
    setns(&*target.namespace, CloneFlags::CLONE_NEWNET)
        .map_err(|errno| NetnsError::Enter { pid, source: errno.into() })?;
    let socket = TcpSocket::new_v4();
    setns(home, CloneFlags::CLONE_NEWNET).map_err(|errno| NetnsError::Leave { pid, source: errno.into() })?;
    socket.map_err(|source| NetnsError::Enter { pid, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_come_back_serves_nobody_else() {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: entering a namespace needs root");
            return;
        }
        // Entering one's own namespace is harmless, and leaving for what is none must fail.
        let namespace = Arc::new(File::open("/proc/thread-self/ns/net").unwrap());
        let target = Target { pid: 1, namespace };
        let nowhere = File::open("/dev/null").unwrap();
        let (sender, jobs) = mpsc::channel(2);
        let (answer, mut first) = oneshot::channel();
        sender.try_send(Job { target: target.clone(), answer }).unwrap();
        let (answer, mut second) = oneshot::channel();
        sender.try_send(Job { target, answer }).unwrap();

        serve(&nowhere, jobs);
        assert!(matches!(first.try_recv(), Ok(Err(NetnsError::Leave { pid: 1, .. }))));
        assert!(second.try_recv().is_err(), "the one behind it is not served from the wrong place");
        assert!(sender.is_closed(), "so that the next call starts a fresh thread");
    }
}
