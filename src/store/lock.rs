//! One daemon for each host name on a machine, and one program at a time for each folder of records.
//!
//! A daemon removes containers that bear its host's name and belong to nobody it knows: two of one name would
//! end each other's, whichever folders they have. Their lock is a socket in the kernel's abstract names, so it is gone
//! with its process, however that ends. Any user may take such a name; a holder that is not the daemon's own
//! user, or that cannot be asked at once, is taken for no daemon and keeps nobody from starting. So the folder has a
//! lock of its own beside it, on a file that its owner alone can open.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::unistd::geteuid;

/// Held as long as the daemon runs.
#[derive(Debug)]
pub struct Alone {
    name: Option<UnixListener>,
    _folder: Flock<File>,
}

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another has the folder.
    #[error("another stokerd, or `stokerctl reap`, works in `{0}`")]
    InUse(PathBuf),
    /// Another has the name.
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
        self.name.is_none()
    }
}

/// Takes the lock of this host's name, and of this folder, which it makes where it is not there.
///
/// # Errors
/// When another program has one of them, or the system refuses.
pub fn take(host: &str, folder: &Path) -> Result<Alone, LockError> {
    let refused = |source| LockError::Refused { host: host.to_owned(), source };
    super::file::make_folder(folder).map_err(refused)?;
    let file = File::options().create(true).append(true).open(folder.join("lock")).map_err(refused)?;
    let folder = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(folder) => folder,
        Err((_, Errno::EWOULDBLOCK)) => return Err(LockError::InUse(folder.to_owned())),
        Err((_, error)) => return Err(refused(error.into())),
    };
    let name = format!("stokerd/{host}");
    let address = SocketAddr::from_abstract_name(&name).map_err(refused)?;
    let name = match UnixListener::bind_addr(&address) {
        Ok(listener) => Some(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_ours(&name) => {
            return Err(LockError::Taken(host.to_owned()));
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        Err(error) => return Err(refused(error)),
    };
    Ok(Alone { name, _folder: folder })
}

/// Whether our own user holds this abstract name. Whoever does not let us ask at once is taken for a stranger: a
/// daemon's own backlog is empty, unless strangers fill it.
fn is_ours(name: &str) -> bool {
    let ask = || {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
        getsockopt(&socket, PeerCredentials)
    };
    ask().is_ok_and(|holder| holder.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_folder_are_taken_once_and_free_again_afterwards() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = format!("test-{}", std::process::id());
        let held = take(&name, one.path()).unwrap();
        assert!(take(&name, one.path()).unwrap_err().to_string().contains("works in"));
        let taken = take(&name, other.path()).unwrap_err().to_string();
        assert!(taken.contains("runs here for host"), "{taken}");
        assert!(take("test-another-host", one.path()).is_err(), "one with that folder has another name");
        drop(held);
        take(&name, one.path()).unwrap();
    }

    #[test]
    fn who_cannot_be_asked_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("test-full-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(format!("stokerd/{name}")).unwrap();
        let _stranger = UnixListener::bind_addr(&address).unwrap();
        // Its backlog is filled until it takes nobody.
        let mut inside = Vec::new();
        loop {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
            let address = UnixAddr::new_abstract(format!("stokerd/{name}").as_bytes()).unwrap();
            if connect(socket.as_raw_fd(), &address).is_err() {
                break;
            }
            inside.push(socket);
        }
        assert!(take(&name, folder.path()).unwrap().is_hollow());
    }
}
