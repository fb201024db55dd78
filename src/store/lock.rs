//! One daemon for each host name on a machine.
//!
//! A daemon removes containers that bear its host's name and belong to nobody it knows: two of one name would
//! end each other's. The lock is a socket in the kernel's abstract names, so it is gone with its process,
//! however that ends, and leaves no file. Any user may take such a name; a holder that is not the daemon's own
//! user is no daemon, and keeps nobody from starting.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

/// Held as long as the daemon runs.
#[derive(Debug)]
pub struct Alone(Option<UnixListener>);

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another has it.
    #[error("another stokerd runs here for host `{0}`; stop it, or give this one another `[host] name`")]
    Taken(String),
    /// The system does not give it.
    #[error("cannot take the lock of host `{host}`")]
    Refused {
        /// Whose.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Alone {
    /// Whether somebody who is no daemon has the name, so that the lock keeps nobody out.
    pub fn is_hollow(&self) -> bool {
        self.0.is_none()
    }
}

/// Takes this host name's lock.
///
/// # Errors
/// When another daemon of this name runs, or the system refuses.
pub fn take(host: &str) -> Result<Alone, LockError> {
    let refused = |source| LockError::Refused { host: host.to_owned(), source };
    let address = SocketAddr::from_abstract_name(format!("stokerd/{host}")).map_err(refused)?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Alone(Some(listener))),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_ours(&address) => Ok(Alone(None)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(LockError::Taken(host.to_owned())),
        Err(error) => Err(refused(error)),
    }
}

/// Whether our own user holds it; one that cannot be asked is taken for ours, which starts nothing.
fn is_ours(address: &SocketAddr) -> bool {
    let holder = UnixStream::connect_addr(address).ok();
    let holder = holder.and_then(|holder| getsockopt(&holder, PeerCredentials).ok());
    holder.is_none_or(|holder| holder.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_and_free_again_afterwards() {
        let name = format!("test-{}", std::process::id());
        let held = take(&name).unwrap();
        assert!(take(&name).unwrap_err().to_string().contains("another stokerd runs here"));
        drop(held);
        take(&name).unwrap();
    }
}
