//! Listening to what instances write, for the pools that want it in the journal.
//!
//! An instance serves one lease, so whose words they are is said once, by the grant, and holds for all that follows.
//!
//! How far each one was heard stands in a small file that is written anew once a second. So the next daemon goes on where
//! this one ended: nothing is left out, and after a `kill -9` no more than the last second's lines come twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
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

/// Between two writings of how far was heard.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// The file that says so, in the folder of the state.
const FILE: &str = "heard";

/// Which lease each instance serves, of those that are listened to, and how far they were heard.
#[derive(Debug)]
pub(super) struct Ears {
    lent: BTreeMap<InstanceId, Weak<OnceLock<LeaseId>>>,
    heard: Heard,
    /// Whether an earlier daemon has said how far it has heard: that is what `heard` began with.
    told: bool,
}

/// The engine's time of the last line of each instance.
#[derive(Debug, Clone, Default)]
struct Heard(Arc<Mutex<BTreeMap<InstanceId, String>>>);

/// What is needed to listen to one instance.
#[derive(Debug)]
pub(super) struct Hearing {
    instance: InstanceId,
    pool: PoolName,
    lease: Arc<OnceLock<LeaseId>>,
    heard: Heard,
    /// Where an earlier daemon has listened already: what was written until this time is left out.
    after: Option<String>,
}

impl Ears {
    /// Ears that know how far an earlier daemon has heard, and write down how far they have.
    pub(super) fn new(state: &Path) -> Ears {
        let file = state.join(FILE);
        let earlier = fs::read_to_string(&file).ok().map(|text| read(&text));
        let told = earlier.is_some();
        // All of it goes on standing there until each one is heard again, or is no more.
        let heard = Heard(Arc::new(Mutex::new(earlier.unwrap_or_default())));
        tokio::spawn(heard.clone().note(file));
        Ears { lent: BTreeMap::new(), heard, told }
    }

    /// A hearing for this instance, where its pool wants one.
    pub(super) fn open(&mut self, instance: InstanceId, name: &PoolName, pool: &Pool) -> Option<Hearing> {
        self.lent.retain(|_, lease| lease.strong_count() > 0);
        pool.journal_output.then(|| {
            let lease = Arc::default();
            self.lent.insert(instance, Arc::downgrade(&lease));
            Hearing { instance, pool: name.clone(), lease, heard: self.heard.clone(), after: None }
        })
    }

    /// The same for one that an earlier daemon has listened to: it goes on where that one ended.
    pub(super) fn open_again(
        &mut self,
        instance: InstanceId,
        name: &PoolName,
        pool: &Pool,
    ) -> Option<Hearing> {
        let mut hearing = self.open(instance, name, pool)?;
        // Of one that is not there nothing was heard.
        hearing.after = if self.told { self.heard.of(instance) } else { Some(now()) };
        Some(hearing)
    }

    /// Nothing more is heard of this instance.
    pub(super) fn forget(&self, instance: InstanceId) {
        if !self.lent.contains_key(&instance) {
            self.heard.forget(instance);
        }
    }

    /// From here on what this instance writes belongs to that lease.
    pub(super) fn lent(&self, instance: InstanceId, lease: &LeaseId) {
        if let Some(known) = self.lent.get(&instance).and_then(Weak::upgrade) {
            // It serves one lease and no other.
            let _ = known.set(lease.clone());
        }
    }
}

impl Hearing {
    /// Listens for as long as the instance lives.
    pub(super) fn begin(&self, lines: &Lines, docker: &Docker, running: &Running) {
        let mut voice = lines.of(self.pool.clone(), self.instance, self.lease.clone(), clock::now());
        let mut reading = self.after.clone().map_or_else(Reading::default, Reading::after);
        let (docker, running) = (docker.clone(), running.clone());
        let (instance, heard) = (self.instance, self.heard.clone());
        tokio::spawn(async move {
            let mut say = |stream, line: &str, time: &str| {
                voice.say(stream, line, clock::now());
                heard.until(instance, time);
            };
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
            heard.forget(instance);
        });
    }
}

impl Heard {
    fn all(&self) -> MutexGuard<'_, BTreeMap<InstanceId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, instance: InstanceId) -> Option<String> {
        self.all().get(&instance).cloned()
    }

    fn until(&self, instance: InstanceId, time: &str) {
        time.clone_into(self.all().entry(instance).or_default());
    }

    fn forget(&self, instance: InstanceId) {
        self.all().remove(&instance);
    }

    /// Writes all of it whenever it has changed; a failure is tried again, and costs lines that come twice.
    async fn note(self, file: PathBuf) {
        let mut written = None;
        loop {
            let text: String =
                self.all().iter().map(|(instance, time)| format!("{instance} {time}\n")).collect();
            if written.as_ref() != Some(&text) && write(&file, &text).is_ok() {
                written = Some(text);
            }
            sleep(NOTE_EVERY).await;
        }
    }
}

/// In place of what was there, at once.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let part = file.with_extension("part");
    fs::write(&part, text)?;
    fs::rename(part, file)
}

fn read(text: &str) -> BTreeMap<InstanceId, String> {
    let line = |line: &str| {
        let (instance, time) = line.split_once(' ')?;
        Some((instance.parse().ok()?, time.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// Now, as the engine writes times.
fn now() -> String {
    let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(clock::wall_ms()).unwrap_or(0));
    humantime::format_rfc3339_nanos(now).to_string()
}
