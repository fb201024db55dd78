//! HTTP and JSON on a Unix socket: what can be asked, and how it is answered.
//!
//! A handler reads the request, asks the controller at the [`desk`], and writes what it said. It decides
//! nothing. Payload bytes (exec, tunnels) go through the `gateway` and never enter the controller.
//!
//! ```text
//! POST /v1/leases                      acquire: 201 granted, 202 waiting (async), or a problem
//! GET  /v1/leases                      all leases, newest first
//! GET  /v1/leases/ID                   one; ?wait_for=executing|ended&wait=30s
//! POST /v1/leases/ID/renew             {"by": "10m"}
//! POST /v1/leases/ID/hold              {"reason": "log in", "for": "10m"}: it waits for a person
//! POST /v1/leases/ID/resume            the person has done it
//! POST /v1/leases/ID/permits           {"provider": "models", "wait": "30s"}: may it be called now?
//! POST /v1/leases/ID/release           also when it has ended
//! POST /v1/leases/ID/cancel
//! POST /v1/leases/ID/exec              {"command": [...]}, one answer
//! GET  /v1/leases/ID/tunnel/PORT       Upgrade: tcp, then bytes to that port of its own loopback
//! GET  /v1/leases/ID/explain           why it waits, was refused or ended
//! GET  /v1/pools, /v1/pools/NAME
//! GET  /v1/pools/NAME/explain
//! POST /v1/pools/NAME/drain, undrain
//! GET  /v1/providers
//! POST /v1/providers/NAME/throttled    {"retry_after": "20s"}: it throttled a call
//! GET  /v1/host
//! POST /v1/host/drain, undrain
//! POST /v1/reload                      read the profile anew: 200 with what changed, 422 with every mistake
//! GET  /v1, /livez, /readyz, /metrics
//! ```

pub mod client;
pub mod desk;
mod leases;
mod metrics;
mod operate;
pub mod problem;
mod providers;
pub mod reload;
pub mod server;
mod streams;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, map_response};
use axum::routing::{get, post};
use serde::de::DeserializeOwned;

use self::desk::Desk;
use self::problem::Problem;
use self::reload::Reloads;
use crate::control::message::{Call, LeaseId, Reply};
use crate::gateway::Gateway;
use crate::profile::ClassName;
use crate::quantity::parse_duration;

/// The largest body that is read: an exec's input is the only one that is not tiny.
const BODY_MOST: usize = 4 << 20;
/// The longest that a `GET` with `wait_for` is kept waiting.
const WATCH_MOST: Duration = Duration::from_secs(300);

/// What handlers need.
#[derive(Debug, Clone)]
pub struct Api {
    desk: Desk,
    gateway: Gateway,
    ids: LeaseIds,
    reloads: Reloads,
}

/// How lease names are made: host and boot in front, then a draw.
#[derive(Debug, Clone)]
pub struct LeaseIds {
    /// The host's name and the beginning of its boot id.
    prefix: Arc<str>,
}

impl LeaseIds {
    /// Names for this host and boot.
    pub fn new(host: &str, boot: &str) -> LeaseIds {
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(8).collect();
        LeaseIds { prefix: format!("{host}-{boot}").into() }
    }

    /// A new name: 96 bits from the kernel, so it cannot be guessed and never comes twice.
    fn draw(&self) -> LeaseId {
        let mut draw = [0u8; 12];
        getrandom::fill(&mut draw).expect("the kernel gives random bytes once the host has started");
        let hex: String = draw.iter().map(|byte| format!("{byte:02x}")).collect();
        LeaseId(format!("{}-{hex}", self.prefix).into())
    }
}

impl Api {
    /// An API that asks at this desk, moves bytes through this gateway and has profiles read anew there.
    pub fn new(desk: Desk, gateway: Gateway, ids: LeaseIds, reloads: Reloads) -> Api {
        Api { desk, gateway, ids, reloads }
    }

    /// All routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/v1", get(operate::features))
            .route("/livez", get(operate::livez))
            .route("/readyz", get(operate::readyz))
            .route("/metrics", get(metrics::metrics))
            .route("/v1/host", get(operate::host))
            .route("/v1/host/drain", post(operate::drain_host))
            .route("/v1/host/undrain", post(operate::undrain_host))
            .route("/v1/reload", post(reload::reload))
            .route("/v1/pools", get(operate::pools))
            .route("/v1/pools/{name}", get(operate::pool))
            .route("/v1/pools/{name}/explain", get(operate::explain))
            .route("/v1/pools/{name}/drain", post(operate::drain_pool))
            .route("/v1/pools/{name}/undrain", post(operate::undrain_pool))
            .route("/v1/leases", get(leases::list).post(leases::acquire))
            .route("/v1/leases/{id}", get(leases::get))
            .route("/v1/leases/{id}/explain", get(leases::explain))
            .route("/v1/leases/{id}/renew", post(leases::renew))
            .route("/v1/leases/{id}/hold", post(leases::hold))
            .route("/v1/leases/{id}/resume", post(leases::resume))
            .route("/v1/leases/{id}/permits", post(providers::permit))
            .route("/v1/providers", get(providers::list))
            .route("/v1/providers/{name}/throttled", post(providers::throttled))
            .route("/v1/leases/{id}/release", post(leases::release))
            .route("/v1/leases/{id}/cancel", post(leases::cancel))
            .route("/v1/leases/{id}/exec", post(streams::exec))
            .route("/v1/leases/{id}/tunnel/{port}", get(streams::tunnel))
            .fallback(operate::no_such_path)
            .method_not_allowed_fallback(operate::no_such_method)
            .layer(from_fn(server::read_body))
            // The one that read it has bounded it.
            .layer(DefaultBodyLimit::disable())
            .layer(map_response(problem::of_the_frameworks))
            .with_state(self)
    }

    /// Asks the controller; a refusal comes back as its problem.
    async fn ask(&self, call: Call) -> Result<Reply, Problem> {
        match self.desk.ask(call).await {
            Ok(Reply::Refused(refusal)) => Err(Problem::from(*refusal)),
            Ok(reply) => Ok(reply),
            Err(desk::Ending) => Err(Problem::ending()),
        }
    }
}

/// Reads a body; an empty one counts as `{}`.
fn read_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.iter().all(u8::is_ascii_whitespace) { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Problem::unreadable(&error))
}

/// Reads an optional duration of a request, naming the field where it is none.
fn read_duration(field: &str, text: Option<&str>) -> Result<Option<Duration>, Problem> {
    match text.map(parse_duration) {
        None => Ok(None),
        Some(Ok(duration)) => Ok(Some(duration)),
        Some(Err(error)) => Err(Problem::bad_request(format!("`{field}`: {error}"))),
    }
}

fn class_name(text: Option<String>) -> Option<ClassName> {
    text.map(ClassName::new)
}

/// An answer that does not belong to its question is our own mistake.
fn unexpected() -> ! {
    unreachable!("the controller answered another question than was asked")
}
