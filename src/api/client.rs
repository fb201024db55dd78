//! The other end: asks a daemon over its Unix socket.
//!
//! One connection for each question. Every question has a deadline; one that is kept waiting on purpose
//! (an acquire, a watch) says how long that may be.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::problem::Problem;
use super::streams::TUNNEL;

/// What a name may hold unescaped in a path (RFC 3986, unreserved).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A question that needs no waiting is answered in milliseconds; a host under full load gets this long.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// No answer of the API is larger: an exec's two outputs are the largest, and each is bounded.
const ANSWER_MOST: usize = 64 << 20;

/// The path of what has these names, `/v1` in front: `["leases", ID]`. A name may hold anything.
pub fn path(names: &[&str]) -> String {
    names.iter().fold("/v1".into(), |path, name| format!("{path}/{}", utf8_percent_encode(name, UNRESERVED)))
}

/// Asks the daemon at one socket.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("cannot reach stokerd at `{socket}`")]
    Unreachable {
        /// Where.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to stokerd broke")]
    Broken(#[source] hyper::Error),
    /// The connection broke in the middle of the answer.
    #[error("the answer of stokerd broke off")]
    BrokenAnswer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer in time.
    #[error("stokerd did not answer within {}", crate::quantity::show_duration(*.0))]
    TooLate(Duration),
    /// The answer is not what this version understands.
    #[error("cannot read the answer of stokerd")]
    Unreadable(#[source] serde_json::Error),
    /// It said no.
    #[error(transparent)]
    Refused(#[from] Box<Problem>),
}

impl Client {
    /// Asks at this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client { socket: socket.into() }
    }

    /// The socket it asks at.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// `GET path`.
    ///
    /// # Errors
    /// When there is no answer, or a refusal.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, None::<&()>, Duration::ZERO).await
    }

    /// `GET path`, which may be kept waiting for so long.
    ///
    /// # Errors
    /// When there is no answer, or a refusal.
    pub async fn watch<T: DeserializeOwned>(&self, path: &str, wait: Duration) -> Result<T, ClientError> {
        self.ask(Method::GET, path, None::<&()>, wait).await
    }

    /// `POST path` with this body, which may be kept waiting for so long.
    ///
    /// # Errors
    /// When there is no answer, or a refusal.
    pub async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        wait: Duration,
    ) -> Result<T, ClientError> {
        self.ask(Method::POST, path, Some(body), wait).await
    }

    /// A stream to a port on the loopback of a lease's instance.
    ///
    /// # Errors
    /// When there is no answer, or a refusal.
    pub async fn tunnel(&self, lease: &str, port: u16) -> Result<TokioIo<Upgraded>, ClientError> {
        let request = Request::get(path(&["leases", lease, "tunnel", &port.to_string()]))
            .header(header::HOST, "stoker")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, TUNNEL)
            .body(Full::default())
            .expect("an escaped path is a valid one");
        let response = self.send(request, Duration::ZERO).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(response).await);
        }
        let upgraded = hyper::upgrade::on(response).await.map_err(ClientError::Broken)?;
        Ok(TokioIo::new(upgraded))
    }

    async fn ask<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        wait: Duration,
    ) -> Result<T, ClientError> {
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(ClientError::Unreadable)?,
            None => Vec::new(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "stoker")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|_| Box::new(Problem::bad_request(format!("`{path}` is no path"))))?;
        let deadline = wait.saturating_add(ANSWER_DEADLINE);
        let answer = async {
            let response = self.send(request, wait).await?;
            if !response.status().is_success() {
                return Err(refusal(response).await);
            }
            let body = collect(response).await?;
            serde_json::from_slice(&body).map_err(ClientError::Unreadable)
        };
        timeout(deadline, answer).await.unwrap_or(Err(ClientError::TooLate(deadline)))
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
        wait: Duration,
    ) -> Result<Response<hyper::body::Incoming>, ClientError> {
        let unreachable = |source| ClientError::Unreachable { socket: self.socket.clone(), source };
        let stream = UnixStream::connect(&self.socket).await.map_err(unreachable)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(ClientError::Broken)?;
        // It ends with the answer, or when this future is dropped and the sender with it.
        tokio::spawn(connection.with_upgrades());
        let deadline = wait.saturating_add(ANSWER_DEADLINE);
        match timeout(deadline, sender.send_request(request)).await {
            Ok(response) => response.map_err(ClientError::Broken),
            Err(_) => Err(ClientError::TooLate(deadline)),
        }
    }
}

async fn collect(response: Response<hyper::body::Incoming>) -> Result<Bytes, ClientError> {
    let body = http_body_util::Limited::new(response.into_body(), ANSWER_MOST);
    Ok(body.collect().await.map_err(ClientError::BrokenAnswer)?.to_bytes())
}

async fn refusal(response: Response<hyper::body::Incoming>) -> ClientError {
    let status = response.status();
    match collect(response).await {
        Ok(body) => match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => ClientError::Refused(Box::new(problem)),
            Err(_) => {
                let text = String::from_utf8_lossy(&body).trim().to_owned();
                ClientError::Refused(Box::new(Problem::new(status, "http", "refused", text)))
            }
        },
        Err(error) => error,
    }
}
