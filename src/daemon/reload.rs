//! Reading the profile anew: at SIGHUP, or when the API is asked for it. One at a time, so that the last one that
//! is answered is the one that holds.
//!
//! Files are read and checked beside the loop, which hears of a profile only when it is right. One that is wrong changes
//! nothing; who asked hears every mistake, and so does the journal.

use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::files;
use crate::api::desk::{Desk, Ending};
use crate::api::problem::Problem;
use crate::api::reload::{Incoming, Outcome};
use crate::api::wire::{MistakeBody, Reloaded};
use crate::control::message::{Call, Reply};
use crate::profile::{HostProfile, Layers};
use crate::systemd::catalog;

/// A few small files on the host's own disk; a disk that takes longer is in trouble, and the profile stays.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Mistakes that the journal is told of; who asked hears all.
const TOLD: usize = 20;

/// Serves reloads for as long as the daemon runs.
pub(super) async fn serve(
    layers: Layers,
    host: String,
    desk: Desk,
    mut incoming: Incoming,
    mut hang_up: Signal,
) {
    loop {
        let answer = tokio::select! {
            Some(answer) = incoming.recv() => Some(answer),
            Some(()) = hang_up.recv() => None,
            else => return,
        };
        let outcome = reload(&layers, &host, &desk).await;
        if let Some(answer) = answer {
            // Who asked may have left; what was decided holds all the same.
            let _ = answer.send(outcome);
        }
    }
}

async fn reload(layers: &Layers, host: &str, desk: &Desk) -> Outcome {
    let mut profile = match read(layers.clone()).await {
        Ok(profile) => profile,
        Err(problem) => {
            tracing::warn!(
                message_id = catalog::PROFILE_REFUSED.id,
                stoker_state = "profile_refused",
                stoker_reason = "bad_profile",
                "profile not reloaded, going on with the one there was: {}",
                in_short(&problem)
            );
            return Err(problem);
        }
    };
    // A file that does not say it means the name that the host has.
    profile.host.name.get_or_insert_with(|| host.to_owned());
    match desk.ask(Call::Reload(Box::new(profile.clone()))).await {
        Ok(Reply::Reloaded(changes)) => {
            if let Err(error) = files::take_all(&profile) {
                tracing::warn!("{error:#}, going on with what there is");
            }
            Ok(Reloaded { changes: changes.into_iter().map(Into::into).collect() })
        }
        Ok(Reply::Refused(refusal)) => Err(Problem::from(*refusal)),
        Ok(
            Reply::Lease(_)
            | Reply::Leases(_)
            | Reply::Use { .. }
            | Reply::Permit(_)
            | Reply::Providers(_)
            | Reply::Pools(_)
            | Reply::Explain(_)
            | Reply::ExplainLease(_)
            | Reply::Host(_),
        ) => {
            unreachable!("the controller answered another question than was asked")
        }
        Err(Ending) => Err(Problem::ending()),
    }
}

async fn read(layers: Layers) -> Result<HostProfile, Problem> {
    match timeout(READ_WITHIN, spawn_blocking(move || layers.read())).await {
        Ok(Ok(Ok(effective))) => Ok(effective.profile),
        Ok(Ok(Err(reported))) => Err(Problem::bad_profile(&reported)),
        Ok(Err(_)) => Err(Problem::ending()),
        Err(_) => Err(Problem::slow_profile(READ_WITHIN)),
    }
}

/// A problem for the journal, without the lines of the files: there may be secrets in them.
fn in_short(problem: &Problem) -> String {
    if problem.mistakes.is_empty() {
        return problem.detail.clone();
    }
    let line = |it: &MistakeBody| format!("{}:{}: {}: {}", it.file, it.line, it.key, it.problem);
    let mut lines: Vec<String> = problem.mistakes.iter().take(TOLD).map(line).collect();
    if problem.mistakes.len() > TOLD {
        lines.push(format!("and {} more", problem.mistakes.len() - TOLD));
    }
    lines.join("; ")
}
