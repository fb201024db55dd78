//! Connections: accepted with a bound, served one request after another, ended with the daemon.
//!
//! hyper's own server is used below axum because axum's has no bound on connections and no deadline for a
//! caller that sends half a head.
//!
//! The socket is systemd's, or our own; only our own is removed at the end.
//!
//! A connection that becomes a stream gives its place back at the upgrade: streams have a bound of their own (see
//! `gateway`).

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::stat::{Mode, umask};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::BODY_MOST;
use super::problem::Problem;
use crate::auth::Tenants;
use crate::control::message::Tenant;
use crate::quantity::Bytes;

/// Connections at once; callers that wait for a lease hold one each. The rest waits in the kernel's backlog.
const CONNECTIONS: usize = 4096;
/// A caller that has connected and not finished its head by then is not one.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// A body beyond [`BODY_MOST`] is read to its end for the sake of its caller, but not for ever.
const DROPPED_MOST: usize = 16 * BODY_MOST;
/// The largest body that is read takes milliseconds on a Unix socket.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// A question that was asked when the daemon is told to end is answered, if that takes no longer; a caller that waits
/// for a lease waits in vain.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// A socket that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon serves there.
    #[error("another stokerd answers at `{0}`")]
    InUse(PathBuf),
    /// Something else is there, which is not ours to remove.
    #[error("`{0}` is there and no socket, leaving it alone")]
    Taken(PathBuf),
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

/// Where callers connect. Dropping it ends that, and removes the path if it is still the one that was made here.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    made: Option<Made>,
}

/// A socket's path that this process has made.
#[derive(Debug)]
struct Made {
    path: PathBuf,
    file: (u64, u64),
}

impl Made {
    fn note(path: &Path) -> io::Result<Made> {
        Ok(Made { path: path.into(), file: identity(path)? })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What somebody has put there since is theirs.
        if identity(&self.path).is_ok_and(|found| found == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What tells a file from another that has its path later.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Takes over a socket that listens already: systemd's, which stays when the daemon ends.
///
/// # Errors
/// When it cannot be used.
pub fn adopt(listener: std::os::unix::net::UnixListener) -> io::Result<Socket> {
    listener.set_nonblocking(true)?;
    Ok(Socket { listener: UnixListener::from_std(listener)?, made: None })
}

/// Listens at this path, in place of the socket that an ended daemon may have left there, and of nothing else. Only its user and group may
/// connect: the mode is the lock.
///
/// # Errors
/// When another daemon answers there, something else is there, or the path cannot be had.
pub async fn listen(path: &Path) -> Result<Socket, SocketError> {
    let failed = |source| SocketError::Listen { path: path.into(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::Taken(path.into())),
        Ok(_) => match UnixStream::connect(path).await {
            Ok(_) => return Err(SocketError::InUse(path.into())),
            // Nobody holds it open: its daemon has ended.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        },
    }
    // The mode must be right from the first moment on, not a moment later.
    let before = umask(Mode::from_bits_truncate(0o117));
    let listener = UnixListener::bind(path);
    umask(before);
    let listener = listener.map_err(failed)?;
    Ok(Socket { listener, made: Some(Made::note(path).map_err(failed)?) })
}

impl Socket {
    /// Its path, for people.
    pub fn place(&self) -> String {
        match (&self.made, self.listener.local_addr()) {
            (Some(made), _) => made.path.display().to_string(),
            (None, Ok(address)) => {
                address.as_pathname().map_or("a passed socket".into(), |path| path.display().to_string())
            }
            (None, Err(_)) => "a passed socket".into(),
        }
    }
}

/// Reads a request's body to its end, within its time, before anybody handles it: a handler may then wait for as
/// long as it likes.
pub(super) async fn read_body(request: Request, next: Next) -> Response {
    match read_body_within(BODY_DEADLINE, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal,
    }
}

async fn read_body_within(limit: Duration, request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    match timeout(limit, whole(body)).await {
        Ok(Ok(Some(body))) => Ok(Request::from_parts(parts, Body::from(body))),
        Ok(Ok(None)) => {
            let detail = format!("a body has at most {}", Bytes::new(BODY_MOST as u64));
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Err(Problem::new(status, "too_large", "the request is too large", detail).into_response())
        }
        Ok(Err(error)) => Err(Problem::bad_request(format!("the body breaks off: {error}")).into_response()),
        Err(_) => {
            let detail = format!("the body did not end within {}", crate::quantity::show_duration(limit));
            let status = StatusCode::REQUEST_TIMEOUT;
            Err(Problem::new(status, "body_too_slow", "the request did not arrive in time", detail)
                .into_response())
        }
    }
}

/// A body, or `None` where it is too large. That one is read, too, and dropped: a caller that is still writing
/// when its connection closes sees a broken pipe instead of the answer.
async fn whole(mut body: Body) -> Result<Option<Vec<u8>>, axum::Error> {
    let (mut kept, mut seen) = (Vec::new(), 0);
    while seen < DROPPED_MOST
        && let Some(frame) = body.frame().await
    {
        let Ok(data) = frame?.into_data() else { continue };
        seen += data.len();
        if seen <= BODY_MOST {
            kept.extend_from_slice(&data);
        }
    }
    Ok((seen <= BODY_MOST).then_some(kept))
}

/// Serves until `ending` is over, then answers what was asked already; who connects from then on is left to whoever
/// listens next. Connections that are open still end with the runtime.
pub async fn serve(socket: Socket, router: Router, ending: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::select! {
        () = accept(&socket.listener, router, &places) => {}
        () = ending => {}
    }
    drop(socket);
    let all = u32::try_from(CONNECTIONS).expect("they are some thousands");
    // Every place is free again when every connection has ended.
    let _ = timeout(LAST_ANSWERS, places.acquire_many(all)).await;
}

async fn accept(listener: &UnixListener, router: Router, places: &Arc<Semaphore>) {
    let tenants = Tenants::default();
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let (router, tenants) = (router.clone(), tenants.clone());
                tokio::spawn(async move {
                    serve_one(stream, router, &tenants).await;
                    drop(place);
                });
            }
            // Out of file descriptors, mostly: those in use come back as callers leave.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve_one(stream: UnixStream, router: Router, tenants: &Tenants) {
    let Ok(peer) = stream.peer_cred() else {
        return; // The caller left before it could be asked who it is.
    };
    let tenant = tenants.of(peer.uid()).await;
    let service = TowerToHyperService::new(router.layer(axum::Extension(Tenant(tenant))));
    // A connection's error is its caller's leaving or speaking something else than HTTP: nobody else's concern.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn half_a_body_is_not_waited_for() {
        let half = stream::iter([Ok::<_, io::Error>(axum::body::Bytes::from_static(b"{"))]);
        let body = Body::from_stream(futures_util::StreamExt::chain(half, stream::pending()));
        let refusal = read_body_within(Duration::from_millis(20), Request::new(body)).await.unwrap_err();
        assert_eq!(refusal.status(), StatusCode::REQUEST_TIMEOUT);
        assert_eq!(refusal.headers()["content-type"], "application/problem+json");
        let whole = read_body_within(BODY_DEADLINE, Request::new(Body::from("{}"))).await.unwrap();
        assert_eq!(axum::body::to_bytes(whole.into_body(), 9).await.unwrap(), "{}");
    }

    #[tokio::test]
    async fn only_a_socket_that_nobody_holds_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(listen(&path).await, Err(SocketError::Taken(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");

        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(listen(&link).await, Err(SocketError::Taken(_))));
        assert!(link.is_symlink());

        fs::remove_file(&path).unwrap();
        let first = listen(&path).await.unwrap();
        assert!(matches!(listen(&path).await, Err(SocketError::InUse(_))));
        std::mem::forget(first); // As a daemon that was killed: its socket stays, and nobody listens.
        fs::rename(&path, folder.path().join("away")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        listen(&path).await.unwrap();
    }

    #[tokio::test]
    async fn only_the_path_that_was_made_here_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api");
        let ours = listen(&path).await.unwrap();
        assert_eq!(ours.place(), path.display().to_string());
        drop(ours);
        assert!(!path.exists());

        let ours = listen(&path).await.unwrap();
        fs::remove_file(&path).unwrap();
        let theirs = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(ours);
        assert!(path.exists(), "somebody else's, at our path");

        let adopted = adopt(theirs).unwrap();
        assert_eq!(adopted.place(), path.display().to_string());
        drop(adopted);
        assert!(path.exists(), "whoever passed it keeps it");
    }
}
