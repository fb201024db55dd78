//! The desk between callers and the controller: a question goes in, its answer comes out.
//!
//! The channel to the loop is bounded: when the controller is behind, callers wait in front of it. A caller
//! that goes away while its question is open is reported by the guard of its question, so what waited only
//! for it leaves the queue at once; and a grant that was already on its way to it is taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::control::message::{Call, CallId, LeaseId, LeaseState, Reply};

/// Questions that may stand in front of the loop. One turn of it takes microseconds a question.
const QUESTIONS: usize = 1024;

/// A question with the way back to who asked it.
#[derive(Debug)]
pub struct Question {
    /// Its number.
    pub id: CallId,
    /// What is asked.
    pub call: Call,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Reply>,
}

/// A caller that went away before it had its answer.
#[derive(Debug)]
pub struct Left {
    /// The question it had asked.
    pub call: CallId,
    /// The lease that had just been granted to it.
    pub granted: Option<LeaseId>,
}

/// Where callers ask.
#[derive(Debug, Clone)]
pub struct Desk {
    questions: mpsc::Sender<Question>,
    left: mpsc::UnboundedSender<Left>,
    asked: Arc<AtomicU64>,
}

/// The loop's side of the desk.
#[derive(Debug)]
pub struct Counter {
    /// Questions, in order.
    pub questions: mpsc::Receiver<Question>,
    /// Callers that went away. Never more than there were open questions, so it needs no bound of its own.
    pub left: mpsc::UnboundedReceiver<Left>,
}

/// The daemon is ending: nobody will answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the daemon is ending")]
pub struct Ending;

impl Desk {
    /// A desk and its counter.
    pub fn new() -> (Desk, Counter) {
        let (questions, incoming) = mpsc::channel(QUESTIONS);
        let (left, leaving) = mpsc::unbounded_channel();
        let desk = Desk { questions, left, asked: Arc::default() };
        (desk, Counter { questions: incoming, left: leaving })
    }

    /// Asks, and waits for the answer. Dropping this future is hanging up.
    ///
    /// # Errors
    /// When the daemon ends before it answers.
    pub async fn ask(&self, call: Call) -> Result<Reply, Ending> {
        let id = CallId(self.asked.fetch_add(1, Ordering::Relaxed));
        let (answer, waiting) = oneshot::channel();
        let acquires = acquires(&call);
        let question = Question { id, call, answer };
        self.questions.send(question).await.map_err(|_| Ending)?;
        let mut open = Open { id, acquires, waiting, left: &self.left, answered: false };
        let reply = (&mut open.waiting).await;
        open.answered = true;
        reply.map_err(|_| Ending)
    }
}

/// A question that has no answer yet.
struct Open<'a> {
    id: CallId,
    acquires: bool,
    waiting: oneshot::Receiver<Reply>,
    left: &'a mpsc::UnboundedSender<Left>,
    answered: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        // From here on an answer cannot be sent any more, so it is either seen here or comes back to the loop.
        self.waiting.close();
        let granted = self.waiting.try_recv().ok().filter(|_| self.acquires).as_ref().and_then(granted_lease);
        // Nobody listens any more only when the daemon ends.
        let _ = self.left.send(Left { call: self.id, granted });
    }
}

/// Whether this call's answer may be a grant that only its caller knows of.
pub fn acquires(call: &Call) -> bool {
    matches!(call, Call::Acquire(_))
}

/// The lease that only the caller of an acquire with this answer knows of: granted, or accepted to wait.
pub fn granted_lease(reply: &Reply) -> Option<LeaseId> {
    match reply {
        Reply::Lease(view) => match view.state {
            LeaseState::Executing { used: false, .. } | LeaseState::Queued { .. } => Some(view.id.clone()),
            LeaseState::Executing { used: true, .. } | LeaseState::Ended { .. } => None,
        },
        Reply::Leases(_)
        | Reply::Use { .. }
        | Reply::Permit(_)
        | Reply::Providers(_)
        | Reply::Pools(_)
        | Reply::Explain(_)
        | Reply::ExplainLease(_)
        | Reply::Host(_)
        | Reply::Reloaded(_)
        | Reply::Refused(_) => None,
    }
}
