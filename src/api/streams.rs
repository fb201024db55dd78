//! Bytes between a caller and its instance: exec, and tunnels to ports.
//!
//! The controller is asked once whether the lease may be used and which instance it is; the bytes then go
//! through the gateway.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;

use super::leases::lease_id;
use super::problem::Problem;
use super::wire::{ExecAnswer, ExecBody};
use super::{Api, read_body, read_duration, unexpected};
use crate::control::message::{Call, InstanceId, LeaseId, Reply};
use crate::gateway::{ExecOrder, GatewayError};

/// How long a command may run where nobody says.
const EXEC_TIMEOUT: Duration = Duration::from_secs(60);
/// The protocol's name in `Upgrade`.
pub(super) const TUNNEL: &str = "tcp";

pub(super) async fn exec(
    State(api): State<Api>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<ExecAnswer>, Problem> {
    let body: ExecBody = read_body(&body)?;
    if body.command.first().is_none_or(String::is_empty) {
        return Err(Problem::bad_request("`command` is a list that begins with a program"));
    }
    let order = ExecOrder {
        command: body.command,
        env: body.env,
        cwd: body.cwd,
        stdin: body.stdin.into_bytes(),
        timeout: read_duration("timeout", body.timeout.as_deref())?.unwrap_or(EXEC_TIMEOUT),
    };
    let lease = lease_id(id);
    let instance = use_lease(&api, &lease).await?;
    let ran = api.gateway.exec(&lease, instance, order).await.map_err(|error| broken(&lease, &error))?;
    if ran.timed_out {
        // What ran past its limit may have left anything behind: the sandbox ends, and the lease says why.
        api.ask(Call::Overran(lease)).await?;
    }
    Ok(Json(ExecAnswer {
        exit_code: ran.exit_code,
        stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
        stdout_truncated: ran.stdout_truncated,
        stderr_truncated: ran.stderr_truncated,
        timed_out: ran.timed_out,
    }))
}

pub(super) async fn tunnel(
    State(api): State<Api>,
    Path((id, port)): Path<(String, u16)>,
    mut request: Request,
) -> Result<Response, Problem> {
    let wanted = request.headers().get(header::UPGRADE).and_then(|value| value.to_str().ok());
    if !wanted.is_some_and(|protocol| protocol.eq_ignore_ascii_case(TUNNEL)) {
        let mut problem = Problem::new(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade_required",
            "a tunnel is an upgrade",
            "send `Connection: upgrade` and `Upgrade: tcp`",
        );
        problem.hint = Some("`stokerctl forward` does it".into());
        return Err(problem);
    }
    let lease = lease_id(id);
    let instance = use_lease(&api, &lease).await?;
    let far = api.gateway.dial(instance, port).await.map_err(|error| broken(&lease, &error))?;
    let upgrade = hyper::upgrade::on(&mut request);
    let gateway = api.gateway.clone();
    tokio::spawn(async move {
        // An upgrade that never comes about is a caller that left: there is nothing to carry.
        if let Ok(near) = upgrade.await {
            gateway.carry(&lease, instance, TokioIo::new(near), far).await;
        }
    });
    let mut response = (StatusCode::SWITCHING_PROTOCOLS, Body::empty()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static(TUNNEL));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    Ok(response)
}

async fn use_lease(api: &Api, lease: &LeaseId) -> Result<InstanceId, Problem> {
    let Reply::Use { instance, .. } = api.ask(Call::Use(lease.clone())).await? else { unexpected() };
    Ok(instance)
}

fn broken(lease: &LeaseId, error: &GatewayError) -> Problem {
    let detail = crate::gateway::chain(error);
    let mut problem =
        Problem::new(StatusCode::BAD_GATEWAY, "instance_unreachable", "the instance did not answer", detail);
    problem.lease = Some(lease.to_string());
    problem
}
