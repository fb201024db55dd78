//! Listening to what instances write, for the pools that want it in the journal.
//!
//! An instance serves one lease, so whose words they are is said once, by the grant, and holds for all that follows.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::sleep;

use super::clock;
use super::journal::Lines;
use crate::control::message::{InstanceId, LeaseId};
use crate::docker::{Docker, Reading, Running};
use crate::profile::{Pool, PoolName};

/// Between two tries to hear what an instance writes, where the engine broke off.
const AGAIN: Duration = Duration::from_secs(1);
/// What an instance has written last is heard within this time of its end.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Which lease each instance serves, of those that are listened to.
#[derive(Debug, Default)]
pub(super) struct Ears(BTreeMap<InstanceId, Weak<OnceLock<LeaseId>>>);

/// What is needed to listen to one instance.
#[derive(Debug)]
pub(super) struct Hearing {
    instance: InstanceId,
    pool: PoolName,
    lease: Arc<OnceLock<LeaseId>>,
    /// Where an earlier daemon has listened already: what was written until this time is left out.
    after: Option<String>,
}

impl Ears {
    /// A hearing for this instance, where its pool wants one.
    pub(super) fn open(&mut self, instance: InstanceId, name: &PoolName, pool: &Pool) -> Option<Hearing> {
        self.0.retain(|_, lease| lease.strong_count() > 0);
        pool.journal_output.then(|| {
            let lease = Arc::default();
            self.0.insert(instance, Arc::downgrade(&lease));
            Hearing { instance, pool: name.clone(), lease, after: None }
        })
    }

    /// From here on what this instance writes belongs to that lease.
    pub(super) fn lent(&self, instance: InstanceId, lease: &LeaseId) {
        if let Some(known) = self.0.get(&instance).and_then(Weak::upgrade) {
            // It serves one lease and no other.
            let _ = known.set(lease.clone());
        }
    }
}

impl Hearing {
    /// Only what is written from now on.
    pub(super) fn news_only(mut self) -> Hearing {
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(clock::wall_ms()).unwrap_or(0));
        self.after = Some(humantime::format_rfc3339_nanos(now).to_string());
        self
    }

    /// Listens for as long as the instance lives.
    pub(super) fn begin(&self, lines: &Lines, docker: &Docker, running: &Running) {
        let mut voice = lines.of(self.pool.clone(), self.instance, self.lease.clone(), clock::now());
        let mut reading = self.after.clone().map_or_else(Reading::default, Reading::after);
        let (docker, running) = (docker.clone(), running.clone());
        tokio::spawn(async move {
            let mut say = |stream, line: &str| voice.say(stream, line, clock::now());
            let hearing = async {
                while docker.follow_output(running.container(), &mut reading, &mut say).await.is_err() {
                    sleep(AGAIN).await;
                }
            };
            let ended = async {
                running.ended().await;
                sleep(LAST_WORDS).await;
            };
            tokio::select! { () = hearing => {}, () = ended => {} }
        });
    }
}
