//! What can go wrong between us and the engine, sorted by what the caller can do about it.
//!
//! The line that matters is known against unknown: [`DockerError::Timeout`] and
//! [`DockerError::Unreachable`] leave open whether the order was carried out (the engine finishes a stop
//! whose caller has left), every other variant is an answer.

use std::future::Future;
use std::io;
use std::time::Duration;

use bollard::errors::Error as Cause;

use crate::control::message::{Exit, InstanceId};
use crate::docker::ContainerId;
use crate::quantity::show_duration;

/// Why something could not be asked of the engine, or why it did not do it.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// No connection, or it broke: nothing is known, least of all that anything is dead.
    #[error("cannot {what}: the container engine cannot be reached")]
    Unreachable {
        /// What was attempted.
        what: String,
        /// What the client says.
        #[source]
        source: Box<Cause>,
    },
    /// It did not answer in time; it may still do what was asked.
    #[error("cannot {what}: no answer within {}, so whether it happens is unknown", show_duration(*.within))]
    Timeout {
        /// What was attempted.
        what: String,
        /// How long we waited.
        within: Duration,
    },
    /// It does not have the image; nothing is pulled here.
    #[error("the container engine does not have the image `{image}`")]
    ImageMissing {
        /// The image as the profile names it.
        image: String,
    },
    /// A container that is not this instance's has its name.
    #[error("cannot create `{name}`: another container has that name and not this instance's labels")]
    Conflict {
        /// The name.
        name: String,
    },
    /// It answered, and the answer was no.
    #[error("cannot {what}: the container engine answered {status} `{message}`")]
    Refused {
        /// What was attempted.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The engine's own words.
        message: String,
    },
    /// Its answer, or our question, could not be put into words that both understand.
    #[error("cannot {what}: the container engine's words do not read")]
    Undecodable {
        /// What was attempted.
        what: String,
        /// What the client says.
        #[source]
        source: Box<Cause>,
    },
    /// This engine cannot keep what we promise.
    #[error("the container engine at `{socket}` cannot be used: {why}")]
    Unfit {
        /// Its socket.
        socket: String,
        /// What it lacks.
        why: &'static str,
    },
    /// The container's first process does not run.
    #[error("the first process of container `{container}` has ended")]
    Ended {
        /// Which.
        container: ContainerId,
        /// How it ended.
        exit: Exit,
    },
    /// The engine's pid is no process of that container as this daemon sees processes.
    #[error(
        "process {pid} is not one of container `{container}`; does the engine share our view of processes?"
    )]
    Foreign {
        /// Which.
        container: ContainerId,
        /// The pid that the engine named.
        pid: u32,
    },
    /// The kernel would not let us watch the first process.
    #[error("cannot watch process {pid} of container `{container}`")]
    Unwatchable {
        /// Which.
        container: ContainerId,
        /// Its first process.
        pid: u32,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// Removal was accepted, and yet the container is still listed.
    #[error("instance `{instance}` is still there {} after its removal was ordered", show_duration(*.within))]
    StillThere {
        /// Which.
        instance: InstanceId,
        /// How long we looked.
        within: Duration,
    },
    /// The stream of events was closed in good order, as when the engine ends.
    #[error("the container engine ended its stream of events")]
    EventsEnded,
}

impl DockerError {
    /// Whether the engine as a whole seems to be away, so that asking for something else is no use either.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, DockerError::Unreachable { .. })
    }

    /// Whether the order may yet be carried out, or has been: look before concluding anything.
    pub fn is_unknown(&self) -> bool {
        matches!(self, DockerError::Unreachable { .. } | DockerError::Timeout { .. })
    }

    /// Whether the engine says that it has no such thing.
    pub(super) fn is_missing(&self) -> bool {
        self.has_status(404)
    }

    /// Whether the engine says that something is in the way.
    pub(super) fn is_conflict(&self) -> bool {
        self.has_status(409)
    }

    /// Sorts what the client says of an attempt to do `what`.
    pub(super) fn of(what: String, within: Duration, cause: Cause) -> DockerError {
        if let Cause::DockerResponseServerError { status_code, message } = cause {
            return DockerError::Refused { what, status: status_code, message };
        }
        if matches!(cause, Cause::RequestTimeoutError) {
            return DockerError::Timeout { what, within };
        }
        let broken = matches!(
            cause,
            Cause::HyperLegacyError { .. }
                | Cause::HyperResponseError { .. }
                | Cause::IOError { .. }
                | Cause::SocketNotFoundError(_)
        );
        let source = Box::new(cause);
        if broken {
            DockerError::Unreachable { what, source }
        } else {
            DockerError::Undecodable { what, source }
        }
    }

    fn has_status(&self, wanted: u16) -> bool {
        matches!(self, DockerError::Refused { status, .. } if *status == wanted)
    }
}

/// Asks, and gives up after `limit`. The client's own limit ends with the headers, so an engine that
/// stalls in the middle of an answer would hold its caller for ever.
pub(super) async fn within<T>(
    limit: Duration,
    what: impl Into<String>,
    asked: impl Future<Output = Result<T, Cause>>,
) -> Result<T, DockerError> {
    match tokio::time::timeout(limit, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(cause)) => Err(DockerError::of(what.into(), limit, cause)),
        Err(_) => Err(DockerError::Timeout { what: what.into(), within: limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_answer_in_time_says_nothing_of_what_happens() {
        let limit = Duration::from_millis(5);
        let error = within::<()>(limit, "wait", std::future::pending()).await.unwrap_err();
        assert!(!error.is_unreachable() && error.is_unknown());
        assert_eq!(error.to_string(), "cannot wait: no answer within 5ms, so whether it happens is unknown");
    }
}
