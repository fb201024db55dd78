//! Connections: accepted with a bound, served one request after another, ended with the daemon.
//!
//! hyper's own server is used below axum because axum's has no bound on connections and no deadline for a
//! caller that sends half a head.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::stat::{Mode, umask};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::auth::tenant_of;
use crate::control::message::Tenant;

/// Connections at once; callers that wait for a lease hold one each. The rest waits in the kernel's backlog.
const CONNECTIONS: usize = 4096;
/// A caller that has connected and not finished its head by then is not one.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// A socket that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon serves there.
    #[error("another stokerd answers at `{0}`")]
    InUse(PathBuf),
    /// It cannot be made.
    #[error("cannot listen at `{path}`")]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Listens at this path, in place of what an ended daemon may have left there. Only its user and group may
/// connect: the mode is the lock.
///
/// # Errors
/// When another daemon answers there, or the path cannot be had.
pub async fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    if UnixStream::connect(path).await.is_ok() {
        return Err(SocketError::InUse(path.into()));
    }
    let failed = |source| SocketError::Listen { path: path.into(), source };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    // The mode must be right from the first moment on, not a moment later.
    let before = umask(Mode::from_bits_truncate(0o117));
    let listener = UnixListener::bind(path);
    umask(before);
    listener.map_err(failed)
}

/// Serves until the future is dropped; open connections end with the runtime.
pub async fn serve(listener: UnixListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve_one(stream, router).await;
                    drop(place);
                });
            }
            // Out of file descriptors, mostly: those in use come back as callers leave.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve_one(stream: UnixStream, router: Router) {
    let Ok(peer) = stream.peer_cred() else {
        return; // The caller left before it could be asked who it is.
    };
    let Ok(tenant) = tokio::task::spawn_blocking(move || tenant_of(peer.uid())).await else {
        return; // The runtime is ending.
    };
    let service = TowerToHyperService::new(router.layer(axum::Extension(Tenant(tenant.into()))));
    // A connection's error is its caller's leaving or speaking something else than HTTP: nobody else's concern.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}
