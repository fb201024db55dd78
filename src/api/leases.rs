//! The life of a lease over HTTP.

use axum::Extension;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::problem::Problem;
use super::wire::{AcquireBody, HoldBody, LeaseBody, LeaseExplainBody, Leases, RenewBody};
use super::{Api, WATCH_MOST, class_name, read_body, read_duration, unexpected};
use crate::control::message::{
    Acquire, Call, End, HoldFor, LeaseId, LeaseState, LeaseView, Reply, TaskId, Tenant, WaitFor,
};
use crate::profile::PoolName;

/// Longer names are refused.
const TASK_ID_MOST: usize = 128;

pub(super) async fn acquire(
    State(api): State<Api>,
    Extension(tenant): Extension<Tenant>,
    body: Bytes,
) -> Result<Response, Problem> {
    let body: AcquireBody = read_body(&body)?;
    let request = Acquire {
        lease: api.ids.draw(),
        pool: PoolName::new(body.pool),
        class: class_name(body.class),
        tenant,
        task: body.task_id.map(task_id).transpose()?,
        wait: read_duration("wait", body.wait.as_deref())?,
        asynchronous: body.asynchronous,
        max_runtime: read_duration("max_runtime", body.max_runtime.as_deref())?,
        idle_timeout: read_duration("idle_timeout", body.idle_timeout.as_deref())?,
    };
    let view = lease_of(api.ask(Call::Acquire(request)).await?);
    let status = match &view.state {
        LeaseState::Executing { .. } => StatusCode::CREATED,
        LeaseState::Queued { .. } => StatusCode::ACCEPTED,
        // What was asked for again had completed.
        LeaseState::Ended { end: End::Completed, .. } => StatusCode::OK,
        LeaseState::Ended { end, .. } => {
            let detail = format!("the lease ended while it waited: {end}");
            let mut problem = Problem::new(StatusCode::CONFLICT, end.code(), "the lease ended", detail);
            problem.lease = Some(view.id.to_string());
            return Err(problem);
        }
    };
    let place = format!("/v1/leases/{}", view.id);
    Ok((status, [("location", place)], Json(LeaseBody::from(&view))).into_response())
}

pub(super) async fn list(State(api): State<Api>) -> Result<Json<Leases>, Problem> {
    let Reply::Leases(all) = api.ask(Call::Leases).await? else { unexpected() };
    Ok(Json(Leases { leases: all.iter().map(LeaseBody::from).collect() }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watch {
    wait_for: Option<String>,
    wait: Option<String>,
}

pub(super) async fn get(
    State(api): State<Api>,
    Path(id): Path<String>,
    watch: Result<Query<Watch>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<LeaseBody>, Problem> {
    let Query(watch) = watch.map_err(|error| Problem::bad_request(error.body_text()))?;
    let goal = match watch.wait_for.as_deref() {
        None => None,
        Some("executing") => Some(WaitFor::Executing),
        Some("ended") => Some(WaitFor::Ended),
        Some(other) => {
            let detail = format!("`wait_for` is `executing` or `ended`, not `{other}`");
            return Err(Problem::bad_request(detail));
        }
    };
    let wait = read_duration("wait", watch.wait.as_deref())?;
    if goal.is_none() && wait.is_some() {
        return Err(Problem::bad_request("`wait` goes with `wait_for`"));
    }
    let until = goal.map(|goal| (goal, wait.unwrap_or(WATCH_MOST).min(WATCH_MOST)));
    show(&api, Call::Get { lease: lease_id(id), until }).await
}

pub(super) async fn explain(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<LeaseExplainBody>, Problem> {
    let Reply::ExplainLease(view) = api.ask(Call::ExplainLease(lease_id(id))).await? else { unexpected() };
    Ok(Json(LeaseExplainBody::from(&*view)))
}

pub(super) async fn renew(
    State(api): State<Api>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<LeaseBody>, Problem> {
    let body: RenewBody = read_body(&body)?;
    let by = read_duration("by", Some(&body.by))?.expect("a text was given");
    show(&api, Call::Renew(lease_id(id), by)).await
}

/// The longest reason of a hold, in characters: a line that people read.
const REASON_MOST: usize = 200;

pub(super) async fn hold(
    State(api): State<Api>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<LeaseBody>, Problem> {
    let body: HoldBody = read_body(&body)?;
    let reason = body.reason.trim();
    if reason.is_empty() || reason.chars().count() > REASON_MOST || reason.contains(char::is_control) {
        let detail = format!("`reason` is a line of 1 to {REASON_MOST} characters: what is waited for");
        return Err(Problem::bad_request(detail));
    }
    let asked = HoldFor { reason: reason.into(), lasting: read_duration("for", body.lasting.as_deref())? };
    show(&api, Call::Hold(lease_id(id), asked)).await
}

pub(super) async fn resume(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<LeaseBody>, Problem> {
    show(&api, Call::Resume(lease_id(id))).await
}

pub(super) async fn release(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<LeaseBody>, Problem> {
    show(&api, Call::Release(lease_id(id))).await
}

pub(super) async fn cancel(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<LeaseBody>, Problem> {
    show(&api, Call::Cancel(lease_id(id))).await
}

async fn show(api: &Api, call: Call) -> Result<Json<LeaseBody>, Problem> {
    Ok(Json(LeaseBody::from(&lease_of(api.ask(call).await?))))
}

fn lease_of(reply: Reply) -> LeaseView {
    let Reply::Lease(view) = reply else { unexpected() };
    *view
}

fn task_id(text: String) -> Result<TaskId, Problem> {
    if text.is_empty() || text.len() > TASK_ID_MOST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail = format!("`task_id` is 1 to {TASK_ID_MOST} visible ASCII characters");
        return Err(Problem::bad_request(detail));
    }
    Ok(TaskId(text.into()))
}

pub(super) fn lease_id(text: String) -> LeaseId {
    LeaseId(text.into())
}
