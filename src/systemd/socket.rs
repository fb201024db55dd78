//! The API's socket when systemd has opened it: callers then wait through a restart instead of failing.

use std::io;
use std::os::unix::net::UnixListener;

use listenfd::ListenFd;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::AcceptConn;

/// What was passed cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PassedError {
    /// More than the one that is served.
    #[error("{0} sockets were passed, and one is served: stokerd.socket may have one ListenStream= alone")]
    TooMany(usize),
    /// It is none that callers can connect to.
    #[error("what was passed cannot be served: stokerd.socket must have ListenStream= with a path")]
    NotOurs(#[source] io::Error),
}

/// The listening socket that whoever started this process has passed, if one was (`sd_listen_fds(3)`). To be called
/// once, before there are threads.
///
/// # Errors
/// When something else was passed.
pub fn passed_listener() -> Result<Option<UnixListener>, PassedError> {
    let mut passed = ListenFd::from_env();
    if passed.len() > 1 {
        return Err(PassedError::TooMany(passed.len()));
    }
    let passed = passed.take_unix_listener(0).map_err(PassedError::NotOurs)?;
    let listens = passed.as_ref().map_or(Ok(true), |socket| getsockopt(socket, AcceptConn));
    match listens.map_err(|errno| PassedError::NotOurs(errno.into()))? {
        true => Ok(passed),
        false => Err(PassedError::NotOurs(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen"))),
    }
}
