//! Refusals and mistakes as `application/problem+json` (RFC 9457).
//!
//! Whoever is refused hears which limit refused, the numbers that decided it in their unit, and when to
//! come back; whoever wrote something wrong hears what was expected and the nearest known name. Status codes
//! are chosen here and nowhere else.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::wire::{LeaseBody, MistakeBody};
use crate::control::message::{LeaseId, LeaseState, LeaseView, Refusal, TaskId, Why};
use crate::profile::Reported;

/// Names that begin alike are more likely meant than ones that are merely as long (0 to 1, by Jaro-Winkler).
const NEAR: f64 = 0.75;

const BAD_PROFILE: &str = "bad_profile";
const CANNOT_CHANGE: &str = "cannot_change";

const PROBLEM_JSON: &str = "application/problem+json";
/// The framework says what it refuses in a line.
const FRAMEWORKS_MOST: usize = 64 << 10;

/// A refusal or a mistake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:stoker:` and the short name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for all of its kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What it was this time, as a sentence.
    pub detail: String,
    /// The limit that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// What one more would need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<u64>,
    /// What there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub have: Option<u64>,
    /// What both are counted in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The pool it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The class it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The lease it concerns, as it stands or by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The pool that was asked, where the request was sent on to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_from: Option<String>,
    /// The state of that lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When trying again may help; also in the `Retry-After` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// What may be written instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// What is wrong with the profile, where that is the problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<MistakeBody>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of this kind; `code` is the short name.
    pub fn new(status: StatusCode, code: &str, title: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("urn:stoker:{code}"),
            title: title.into(),
            status: status.as_u16(),
            detail: detail.into(),
            ..Problem::default()
        }
    }

    /// Something in a request that is not as it must be.
    pub fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad_request", "the request is not as it must be", detail)
    }

    /// A profile that is not used because of its mistakes, or because it could not be read.
    pub fn bad_profile(reported: &Reported) -> Problem {
        let title = "the host profile cannot be used";
        let mut detail = reported.to_string();
        if let Some(cause) = std::error::Error::source(reported) {
            detail = format!("{detail}: {cause}");
        }
        let mut problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, BAD_PROFILE, title, detail);
        if let Reported::Mistakes(mistakes) = reported {
            problem.mistakes = mistakes.as_slice().iter().map(MistakeBody::from).collect();
        }
        problem
    }

    /// A profile that could not be read within this time.
    pub fn slow_profile(limit: Duration) -> Problem {
        let title = "the host profile cannot be used";
        let limit = crate::quantity::show_duration(limit);
        let detail = format!("the files of the profile could not be read within {limit}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, BAD_PROFILE, title, detail)
    }

    /// Whether it says that a profile cannot be used.
    pub fn is_of_the_profile(&self) -> bool {
        let kind = self.kind.strip_prefix("urn:stoker:");
        matches!(kind, Some(BAD_PROFILE | CANNOT_CHANGE))
    }

    /// The daemon is ending and answers no more.
    pub fn ending() -> Problem {
        let title = "the daemon is ending";
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ending", title, "stokerd is ending");
        problem.retry_after_s = Some(1);
        problem
    }

    /// A body that is no such JSON: what serde says, with the nearest known field where one was unknown.
    pub fn unreadable(error: &serde_json::Error) -> Problem {
        let said = error.to_string();
        let mut quoted = said.split('`').skip(1).step_by(2).map(str::to_owned);
        let mut problem = Problem::bad_request(said.clone());
        if said.starts_with("unknown field") {
            let typed = quoted.next().unwrap_or_default();
            problem.known = quoted.collect();
            problem.hint = Some(suggestion(&typed, &problem.known));
        } else if said.contains("expected a string") {
            // The only texts that look like numbers to their writers.
            problem.hint = Some(format!("a time is {}", crate::quantity::DURATION_EXPECTED));
        }
        problem
    }
}

impl std::fmt::Display for Problem {
    /// The detail, and the hint where there is one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

fn other_task(task: &TaskId, lease: Option<&LeaseId>) -> Problem {
    let detail = format!("task `{task}` was asked for with another pool, class, max_runtime or idle_timeout");
    let problem = Problem::new(StatusCode::CONFLICT, "other_task", "the task is another one", detail);
    Problem { lease: lease.map(ToString::to_string), ..problem }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        match refusal {
            Refusal::Limit { why, pool, class, retry_after, lease, degraded_from } => {
                let figures = why.figures();
                Problem {
                    limit: Some(why.code().into()),
                    need: figures.map(|figures| figures.need),
                    have: figures.map(|figures| figures.have),
                    unit: figures.map(|figures| figures.unit.into()),
                    pool: Some(pool.to_string()),
                    class: Some(class.to_string()),
                    lease: lease.map(|lease| lease.to_string()),
                    degraded_from: degraded_from.map(|pool| pool.to_string()),
                    retry_after_s: retry_after.map(|wait| wait.as_secs().max(1)),
                    ..Problem::new(status_of(&why), why.code(), title_of(&why), why.to_string())
                }
            }
            Refusal::NoSuchPool(pool, known) => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                let detail = format!("there is no pool `{pool}`");
                let hint = Some(suggestion(pool.as_str(), &known));
                let title = "there is no such pool";
                Problem { known, hint, ..Problem::new(StatusCode::NOT_FOUND, "no_such_pool", title, detail) }
            }
            Refusal::NoSuchProvider(provider, known) => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                let detail = format!("there is no provider `{provider}`");
                let hint = Some(suggestion(provider.as_str(), &known));
                let title = "there is no such provider";
                let status = StatusCode::NOT_FOUND;
                Problem { known, hint, ..Problem::new(status, "no_such_provider", title, detail) }
            }
            Refusal::NoSuchClass(class, known) => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                let detail = format!("there is no class `{class}`");
                let hint = Some(suggestion(class.as_str(), &known));
                let title = "there is no such class";
                Problem {
                    known,
                    hint,
                    ..Problem::new(StatusCode::BAD_REQUEST, "no_such_class", title, detail)
                }
            }
            Refusal::OtherTask(task, lease) => other_task(&task, lease.as_ref()),
            Refusal::CannotChange(change) => {
                let detail =
                    format!("{change}: this cannot change while the daemon runs, nothing has changed");
                let title = "the profile changes what cannot change";
                let mut problem =
                    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, CANNOT_CHANGE, title, detail);
                problem.hint = Some("restart stokerd to change it".into());
                problem
            }
            Refusal::NoSuchLease(lease) => {
                let detail = format!("there is no lease `{lease}`, or it ended more than ten minutes ago");
                let title = "there is no such lease";
                Problem::new(StatusCode::NOT_FOUND, "no_such_lease", title, detail)
            }
            Refusal::NotExecuting(view) => not_executing(&view),
        }
    }
}

fn not_executing(view: &LeaseView) -> Problem {
    let body = LeaseBody::from(view);
    let (status, detail) = match &view.state {
        LeaseState::Ended { end, .. } => (StatusCode::GONE, format!("it is {}: {end}", body.state)),
        LeaseState::Queued { .. } | LeaseState::Executing { .. } => {
            (StatusCode::CONFLICT, format!("it is {} and has no instance yet", body.state))
        }
    };
    Problem {
        lease: Some(body.id),
        pool: Some(body.pool),
        state: Some(body.state),
        ..Problem::new(status, "not_executing", "the lease has no instance", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("a problem has only texts and numbers");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A refusal that was not ours but the framework's (such as a path that does not read) as a problem like all
/// others.
pub(super) async fn of_the_frameworks(response: Response) -> Response {
    let status = response.status();
    let is_ours = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == PROBLEM_JSON);
    if is_ours || !status.is_client_error() {
        return response;
    }
    let said = axum::body::to_bytes(response.into_body(), FRAMEWORKS_MOST).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    Problem { status: status.as_u16(), ..Problem::bad_request(said) }.into_response()
}

fn status_of(why: &Why) -> StatusCode {
    match why {
        // Nothing was waited for where the queue is too long: it refuses as one that is full does.
        Why::QueueFull { .. }
        | Why::QueueTooLong { .. }
        | Why::TenantLimit { .. }
        | Why::MaxHolds { .. }
        | Why::TenantHolds { .. }
        | Why::ProviderWaits { .. }
        | Why::ProviderSpent { .. } => StatusCode::TOO_MANY_REQUESTS,
        Why::WaitExpired { .. } => StatusCode::GATEWAY_TIMEOUT,
        Why::NeverFits { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Why::PoolRemoved => StatusCode::GONE,
        Why::HostDraining
        | Why::PoolDraining
        | Why::MemoryPromised { .. }
        | Why::MemoryAvailable { .. }
        | Why::Cpu { .. }
        | Why::Pids { .. }
        | Why::Disk { .. }
        | Why::Inodes { .. }
        | Why::MaxInstances { .. }
        | Why::InstanceHours { .. }
        | Why::HeldBack { .. }
        | Why::Starts { .. }
        | Why::UnderPressure { .. }
        | Why::CpuPressure { .. }
        | Why::Recovering { .. }
        | Why::StartPace { .. }
        | Why::Backoff { .. }
        | Why::NoTelemetry(_)
        | Why::WithoutTelemetry { .. }
        | Why::EngineUnreachable(_)
        | Why::NotRecorded(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn title_of(why: &Why) -> &'static str {
    match why {
        Why::QueueFull { .. } => "the queue is full",
        Why::QueueTooLong { .. } => "the queue is longer than the wait",
        Why::TenantLimit { .. } => "the tenant has as many leases as it may",
        Why::MaxHolds { .. } | Why::TenantHolds { .. } => "as many leases as may wait for a person",
        Why::ProviderWaits { .. } | Why::ProviderSpent { .. } => "the provider takes no further call now",
        Why::HeldBack { .. } => "what is free is held back for other classes",
        Why::WaitExpired { .. } => "the wait is over",
        Why::NeverFits { .. } => "it can never fit on this host",
        Why::HostDraining => "the host takes no new work",
        Why::PoolDraining => "the pool takes no new work",
        Why::PoolRemoved => "the pool is no more",
        Why::MemoryPromised { .. } | Why::MemoryAvailable { .. } => "the host has no memory for it",
        Why::Cpu { .. } => "the host has no processor for it",
        Why::Pids { .. } => "the host has no room for its processes",
        Why::Disk { .. } | Why::Inodes { .. } => "a disk of the host is nearly full",
        Why::MaxInstances { .. } => "the pool is at its ceiling",
        Why::InstanceHours { .. } => "the pool's hours are used up",
        Why::UnderPressure { .. } => "the host is short of memory",
        Why::CpuPressure { .. } | Why::Recovering { .. } | Why::StartPace { .. } | Why::Starts { .. } => {
            "too many starts are under way"
        }
        Why::Backoff { .. } => "starts of the pool fail",
        Why::NoTelemetry(_) | Why::WithoutTelemetry { .. } => "the host's state is not known",
        Why::EngineUnreachable(_) => "the container engine does not answer",
        Why::NotRecorded(_) => "what is lent cannot be written down",
    }
}

/// `did you mean ...`, or all that is known where nothing is near.
pub(super) fn suggestion(typed: &str, known: &[String]) -> String {
    let nearest = known
        .iter()
        .map(|name| (strsim::jaro_winkler(typed, name), name))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest {
        Some((likeness, name)) if likeness >= NEAR => format!("did you mean `{name}`?"),
        _ => format!("known: {}", known.join(", ")),
    }
}

/// A wait as `Retry-After` counts it.
pub fn retry_after(problem: &Problem) -> Option<Duration> {
    problem.retry_after_s.map(Duration::from_secs)
}
