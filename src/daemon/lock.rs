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

/// Held as long as the daemon runs; empty where somebody who is no daemon has the name.
#[derive(Debug)]
pub(super) struct Alone(#[expect(dead_code, reason = "it is held, not used")] Option<UnixListener>);

/// Takes this host name's lock.
pub(super) fn take(host: &str) -> anyhow::Result<Alone> {
    let address = SocketAddr::from_abstract_name(format!("stokerd/{host}"))?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Alone(Some(listener))),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_ours(&address) => {
            tracing::warn!("a stranger has the name of host `{host}`'s lock, going on without it");
            Ok(Alone(None))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            anyhow::bail!(
                "another stokerd runs here for host `{host}`; stop it, or give this one another `[host] name`"
            )
        }
        Err(error) => {
            Err(anyhow::Error::from(error).context(format!("cannot take the lock of host `{host}`")))
        }
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
