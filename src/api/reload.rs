//! The way to a reload: who asks here waits until the daemon has read the profile anew and goes by it, or has said
//! what is wrong with it.
//!
//! Reading files is the daemon's (`daemon::reload`), one at a time; a bounded number may wait for their turn.

use axum::Json;
use axum::extract::State;
use tokio::sync::{mpsc, oneshot};

use super::Api;
use super::problem::Problem;
use super::wire::Reloaded;

/// Reloads that may wait for their turn. One takes milliseconds, and each brings what is written then.
const WAITING: usize = 16;

/// How a reload went.
pub type Outcome = Result<Reloaded, Problem>;

/// Where a reload is asked for.
#[derive(Debug, Clone)]
pub struct Reloads(mpsc::Sender<oneshot::Sender<Outcome>>);

/// Where the daemon hears of it: each is answered once.
pub type Incoming = mpsc::Receiver<oneshot::Sender<Outcome>>;

impl Reloads {
    /// The two ends.
    pub fn new() -> (Reloads, Incoming) {
        let (asked, incoming) = mpsc::channel(WAITING);
        (Reloads(asked), incoming)
    }

    async fn ask(&self) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        self.0.send(answer).await.map_err(|_| Problem::ending())?;
        outcome.await.map_err(|_| Problem::ending())?
    }
}

pub(super) async fn reload(State(api): State<Api>) -> Result<Json<Reloaded>, Problem> {
    api.reloads.ask().await.map(Json)
}
