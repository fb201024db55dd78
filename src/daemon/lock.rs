//! One daemon for each host name on a machine.
//!
//! A daemon removes containers that bear its host's name and belong to nobody it knows: two of one name would
//! end each other's. The lock is a socket in the kernel's abstract names, so it is gone with its process,
//! however that ends, and leaves no file.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Held as long as the daemon runs.
#[derive(Debug)]
pub(super) struct Alone(#[expect(dead_code, reason = "it is held, not used")] UnixListener);

/// Takes this host name's lock.
pub(super) fn take(host: &str) -> anyhow::Result<Alone> {
    let address = SocketAddr::from_abstract_name(format!("stokerd/{host}"))?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Alone(listener)),
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
