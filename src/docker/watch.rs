//! Holding on to the first process of a container, and learning at once when it has ended.
//!
//! A pidfd is to a process what an open file is to a path: whatever becomes of the number, it means the
//! process it was opened on. It tells of the end without the engine, so it works while that is away.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::control::message::{Exit, Process};
use crate::docker::{ContainerId, Docker, DockerError, Life};

/// The engine notes an end within milliseconds. An end is told without its exit code rather than later: until it
/// is told, what has ended looks alive.
const EXIT_NOTED_WITHIN: Duration = Duration::from_secs(2);

/// Between two looks at whether the engine has noted the end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A container whose first process was seen to run; cheap to clone.
#[derive(Debug, Clone)]
pub struct Running {
    container: ContainerId,
    process: Process,
    pidfd: Arc<AsyncFd<OwnedFd>>,
}

impl Running {
    /// Its container.
    pub fn container(&self) -> &ContainerId {
        &self.container
    }

    /// Its first process, as this host counts processes.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Its first process, so that no other can be taken for it later.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Whether the first process has ended. What was opened by its pid and is followed by a `false` here
    /// was opened on this process and no other.
    pub fn has_ended(&self) -> bool {
        has_ended(self.pidfd.get_ref())
    }

    /// Opens a pidfd on a process that the engine says is the container's first, and lets `/proc` confirm it.
    /// `None` when that process has ended meanwhile, which the engine notes only a little later.
    pub(super) fn hold(container: &ContainerId, pid: u32) -> Result<Option<Running>, DockerError> {
        let unwatchable =
            |source: io::Error| DockerError::Unwatchable { container: container.clone(), pid, source };
        let foreign = || DockerError::Foreign { container: container.clone(), pid };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(foreign)?;
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(unwatchable(errno.into())),
        };
        // Read after the pidfd was opened: the number is the container's now, and as a container's first
        // process takes all others with it, it was the container's when the pidfd was opened.
        let confirmed = is_of_container(pid, container);
        let began = began(pid);
        if has_ended(&pidfd) {
            return Ok(None);
        }
        if !confirmed.map_err(unwatchable)? {
            return Err(foreign());
        }
        let pidfd = register(pidfd).map_err(unwatchable)?;
        let process = Process { pid, began: began.map_err(unwatchable)? };
        Ok(Some(Running { container: container.clone(), process, pidfd: Arc::new(pidfd) }))
    }

    /// Waits until the first process has ended; that is the kernel's word and needs no engine.
    pub async fn ended(&self) {
        // Readiness is kept, never cleared: an end is for ever, and so is known to every clone.
        if self.pidfd.readable().await.is_err() {
            // The runtime is going away. That is no news of the process.
            std::future::pending::<()>().await;
        }
    }
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    // A poll that fails says nothing; the end is then told by `Running::ended` alone.
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that could name another descriptor later; an OwnedFd cannot"
)]
fn register(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

/// Whether this process is in a cgroup that carries the container's full id, in any hierarchy.
pub(super) fn is_of_container(pid: u32, container: &ContainerId) -> io::Result<bool> {
    let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    Ok(cgroups.lines().any(|line| line.contains(container.as_str())))
}

/// When this process began, in ticks since the host's start.
fn began(pid: u32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // A name may have blanks and brackets in it; behind its last one the third field begins, and this is the 22nd.
    let began = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19));
    began.and_then(|text| text.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The exit code of a container whose first process has ended, once the engine has noted it.
pub(super) async fn exit_of(docker: &Docker, container: &ContainerId) -> Exit {
    let noted = async {
        loop {
            match docker.look(container).await {
                Ok(Life::Ended(exit)) => return exit,
                Ok(Life::Running { .. }) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(_) => return Exit { code: None },
            }
        }
    };
    tokio::time::timeout(EXIT_NOTED_WITHIN, noted).await.unwrap_or(Exit { code: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_of_another_process_is_never_held() {
        let error = Running::hold(&ContainerId("0".repeat(64).into()), std::process::id()).unwrap_err();
        assert!(matches!(error, DockerError::Foreign { .. }), "{error}");
    }
}
