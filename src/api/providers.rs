//! External providers: permits for leases, and what callers report.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};

use super::leases::lease_id;
use super::problem::Problem;
use super::wire::{PermitAnswer, PermitBody, ProviderBody, Providers, ThrottledBody};
use super::{Api, read_body, read_duration, unexpected};
use crate::control::message::{Call, Reply};
use crate::profile::ProviderName;

/// Answers when the provider may be called. A caller that hangs up leaves those that wait.
pub(super) async fn permit(
    State(api): State<Api>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Json<PermitAnswer>, Problem> {
    let body: PermitBody = read_body(&body)?;
    let wait = read_duration("wait", body.wait.as_deref())?;
    let call = Call::Permit(lease_id(id), ProviderName::new(body.provider), wait);
    let Reply::Permit(permit) = api.ask(call).await? else { unexpected() };
    Ok(Json(PermitAnswer::from(&permit)))
}

pub(super) async fn list(State(api): State<Api>) -> Result<Json<Providers>, Problem> {
    let Reply::Providers(all) = api.ask(Call::Providers).await? else { unexpected() };
    Ok(Json(Providers { providers: all.iter().map(ProviderBody::from).collect() }))
}

pub(super) async fn throttled(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<ProviderBody>, Problem> {
    let body: ThrottledBody = read_body(&body)?;
    let pause = read_duration("retry_after", body.retry_after.as_deref())?;
    let reply = api.ask(Call::Throttled(ProviderName::new(name), pause)).await?;
    let Reply::Providers(one) = reply else { unexpected() };
    Ok(Json(ProviderBody::from(one.first().expect("the provider was found"))))
}
