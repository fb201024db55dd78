//! Bytes between a caller and its instance: exec, and tunnels to ports.
//!
//! The controller is asked once whether the lease may be used and which instance it is; the bytes then go
//! through the gateway.
//!
//! A command runs in a task of its own, which outlives a caller that hangs up: the task ends the command, keeps its
//! place among those that run until it has ended, and ends the lease of one that cannot be ended.

use std::future::Future;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use super::leases::lease_id;
use super::problem::Problem;
use super::wire::{ExecAnswer, ExecBody};
use super::{Api, read_body, read_duration, unexpected};
use crate::control::message::{Call, InstanceId, LeaseId, Reply};
use crate::gateway::{ExecOrder, Execed, GatewayError};

/// How long a command may run where nobody says.
const EXEC_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command may run where somebody does.
const EXEC_TIMEOUT_MOST: Duration = Duration::from_secs(24 * 60 * 60);
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
    let timeout = read_duration("timeout", body.timeout.as_deref())?.unwrap_or(EXEC_TIMEOUT);
    if timeout.is_zero() || timeout > EXEC_TIMEOUT_MOST {
        let most = crate::quantity::show_duration(EXEC_TIMEOUT_MOST);
        return Err(Problem::bad_request(format!("`timeout` is more than 0s and at most {most}")));
    }
    let order = ExecOrder {
        command: body.command,
        env: body.env,
        cwd: body.cwd,
        stdin: body.stdin.into_bytes(),
        timeout,
    };
    let lease = lease_id(id);
    let instance = use_lease(&api, &lease).await?;
    // Dropped when the caller hangs up, and this future with it.
    let (_here, hung_up) = oneshot::channel::<()>();
    let task = tokio::spawn(run(api, lease, instance, order, async { drop(hung_up.await) }));
    let ran = task.await.map_err(|_| Problem::ending())??;
    Ok(Json(ExecAnswer {
        exit_code: ran.exit_code,
        stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
        stdout_truncated: ran.stdout_truncated,
        stderr_truncated: ran.stderr_truncated,
        timed_out: ran.timed_out,
    }))
}

/// Runs a command to its end, however that comes about.
async fn run(
    api: Api,
    lease: LeaseId,
    instance: InstanceId,
    order: ExecOrder,
    hung_up: impl Future<Output = ()>,
) -> Result<Execed, Problem> {
    let ran = api.gateway.exec(&lease, instance, order, hung_up).await;
    let ran = ran.map_err(|error| broken(&lease, &error))?;
    if ran.timed_out || ran.runs_on {
        // What ran past its limit may have left anything behind: the sandbox ends, and the lease says why.
        api.ask(Call::Overran(lease)).await?;
    }
    Ok(ran)
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
    let far = api.gateway.reach(instance, port).await.map_err(|error| broken(&lease, &error))?;
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
    let (status, code, title) = match error {
        GatewayError::Busy(_) => {
            (StatusCode::TOO_MANY_REQUESTS, "too_many_commands", "too many commands run")
        }
        GatewayError::Crowded(_) | GatewayError::Full => {
            (StatusCode::TOO_MANY_REQUESTS, "too_many_streams", "too many streams are open")
        }
        GatewayError::Unseen(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "instance_unseen", "the instance is not found again yet")
        }
        GatewayError::Closed(_)
        | GatewayError::Dial { .. }
        | GatewayError::Exec { .. }
        | GatewayError::DevTools { .. } => {
            (StatusCode::BAD_GATEWAY, "instance_unreachable", "the instance did not answer")
        }
    };
    let mut problem = Problem::new(status, code, title, crate::gateway::chain(error));
    problem.lease = Some(lease.to_string());
    problem
}
