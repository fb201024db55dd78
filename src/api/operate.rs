//! What operators and their tools ask: the host, the pools, drains, and whether all is well.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::problem::Problem;
use super::wire::{DrainBody, ExplainBody, HostBody, PoolBody, Pools};
use super::{Api, read_body, read_duration, unexpected};
use crate::control::message::{Call, HostView, PoolView, Refusal, Reply, Scope};
use crate::profile::PoolName;

/// How long running leases may go on after a drain began, where nobody says: Nomad's default.
const DRAIN_WINDOW: Duration = Duration::from_secs(3600);

/// What this host can do, for clients of mixed fleets.
pub(super) async fn features() -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "features": [
            "leases", "wait_for", "hold", "providers", "exec", "tunnel", "pools", "explain", "explain_lease", "host", "drain",
            "reload",
        ],
    }))
}

/// The daemon's loop answers.
pub(super) async fn livez(State(api): State<Api>) -> Result<&'static str, Problem> {
    host_view(&api, Call::Host).await.map(|_| "ok\n")
}

/// Every pool has its smallest stock, the engine answers and the host's memory is known.
pub(super) async fn readyz(State(api): State<Api>) -> Response {
    match host_view(&api, Call::Host).await {
        Ok(view) if view.ready => (StatusCode::OK, "ready\n").into_response(),
        Ok(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
        Err(problem) => problem.into_response(),
    }
}

pub(super) async fn host(State(api): State<Api>) -> Result<Json<HostBody>, Problem> {
    show_host(&api, Call::Host).await
}

pub(super) async fn drain_host(State(api): State<Api>, body: Bytes) -> Result<Json<HostBody>, Problem> {
    show_host(&api, drain(Scope::Host, &body)?).await
}

pub(super) async fn undrain_host(State(api): State<Api>) -> Result<Json<HostBody>, Problem> {
    show_host(&api, Call::Undrain(Scope::Host)).await
}

pub(super) async fn pools(State(api): State<Api>) -> Result<Json<Pools>, Problem> {
    let pools = pool_views(&api).await?;
    Ok(Json(Pools { pools: pools.iter().map(PoolBody::from).collect() }))
}

pub(super) async fn pool(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<PoolBody>, Problem> {
    show_pool(&api, PoolName::new(name)).await
}

pub(super) async fn explain(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<ExplainBody>, Problem> {
    let Reply::Explain(view) = api.ask(Call::Explain(PoolName::new(name))).await? else { unexpected() };
    Ok(Json(ExplainBody::from(&*view)))
}

pub(super) async fn drain_pool(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<PoolBody>, Problem> {
    let name = PoolName::new(name);
    host_view(&api, drain(Scope::Pool(name.clone()), &body)?).await?;
    show_pool(&api, name).await
}

pub(super) async fn undrain_pool(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<PoolBody>, Problem> {
    let name = PoolName::new(name);
    host_view(&api, Call::Undrain(Scope::Pool(name.clone()))).await?;
    show_pool(&api, name).await
}

pub(super) async fn no_such_path(uri: Uri) -> Problem {
    let mut problem = Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_path",
        "there is no such path",
        format!("there is nothing at `{}`", uri.path()),
    );
    problem.hint = Some("the paths begin with /v1, or are /livez, /readyz and /metrics".into());
    problem
}

pub(super) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("`{}` does not answer {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", "the path has no such method", detail)
}

fn drain(scope: Scope, body: &[u8]) -> Result<Call, Problem> {
    let body: DrainBody = read_body(body)?;
    let window = read_duration("window", body.window.as_deref())?.unwrap_or(DRAIN_WINDOW);
    let call = if body.for_now { Call::DrainForNow } else { Call::Drain };
    Ok(call(scope, window))
}

async fn show_host(api: &Api, call: Call) -> Result<Json<HostBody>, Problem> {
    Ok(Json(HostBody::from(&host_view(api, call).await?)))
}

async fn show_pool(api: &Api, name: PoolName) -> Result<Json<PoolBody>, Problem> {
    let pools = pool_views(api).await?;
    match pools.iter().find(|pool| pool.name == name) {
        Some(pool) => Ok(Json(PoolBody::from(pool))),
        None => {
            let known = pools.into_iter().map(|pool| pool.name).collect();
            Err(Problem::from(Refusal::NoSuchPool(name, known)))
        }
    }
}

async fn host_view(api: &Api, call: Call) -> Result<HostView, Problem> {
    let Reply::Host(view) = api.ask(call).await? else { unexpected() };
    Ok(*view)
}

async fn pool_views(api: &Api) -> Result<Vec<PoolView>, Problem> {
    let Reply::Pools(pools) = api.ask(Call::Pools).await? else { unexpected() };
    Ok(pools)
}
