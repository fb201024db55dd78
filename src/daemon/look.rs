//! The measuring thread: looks at the host once a second and hands the loop what it saw.
//!
//! A thread of its own, because reading `/proc` can block when the host is in trouble, and that is when the
//! loop must go on. Between looks it is told which instances to follow. A second thread waits for the kernel's word that
//! tasks stand still for memory, and has the first one look at once; where the kernel gives no such word, each second
//! must do. A third one asks idle instances for memory, since each may keep it waiting.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{io, thread};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::clock;
use crate::control::message::{Input, InstanceId, Sample};
use crate::gateway::chain;
use crate::measure::{Measure, Reclaim, Root, Trigger};

/// The kernel's pressure averages lag by about two seconds; looking more often reads the same twice.
const EVERY: Duration = Duration::from_secs(1);
/// The second look comes soon, so that the rates, and with them the first starts, need not wait a second.
const SECOND: Duration = Duration::from_millis(100);
/// Orders to follow or forget that may stand before the thread; instances come and go by the hundred at most.
const ORDERS: usize = 4096;

/// Instances that may wait to be asked for memory.
const RECLAIMS: usize = 1024;
/// One is asked for so long: relief looks again some seconds later.
const RECLAIM_WITHIN: Duration = Duration::from_millis(200);

/// A look at one instance takes microseconds; one at all of them, which may be under way, some milliseconds.
const LOOK_AT_WITHIN: Duration = Duration::from_millis(100);

/// What the thread is told.
#[derive(Debug)]
enum Order {
    Follow(InstanceId, u32),
    Forget(InstanceId),
    Reclaim(InstanceId),
    /// The engine's files are here.
    Engine(PathBuf),
    /// Look at this one alone, and say when that is done.
    LookAt(InstanceId, oneshot::Sender<()>),
    /// Tasks stood still for memory.
    Look,
}

/// The way to tell the measuring thread which instances there are; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Eyes {
    orders: Arc<SyncSender<Order>>,
}

impl Eyes {
    /// Starts the threads; they end when the last [`Eyes`] are gone, or the loop is.
    pub(super) fn open(samples: mpsc::Sender<Input>, state: PathBuf) -> io::Result<Eyes> {
        let (orders, incoming) = sync_channel(ORDERS);
        let orders = Arc::new(orders);
        let (asked, asking) = sync_channel(RECLAIMS);
        let waker = Arc::downgrade(&orders);
        thread::Builder::new().name("measure".into()).spawn(move || {
            let mut measure = Measure::new(Root::host());
            measure.state_is_at(state);
            look(measure, &incoming, &samples, &asked);
        })?;
        thread::Builder::new().name("trigger".into()).spawn(move || wake(&waker))?;
        thread::Builder::new().name("reclaim".into()).spawn(move || ask_back(&asking))?;
        Ok(Eyes { orders })
    }

    /// Measures this instance from here on.
    pub(super) fn follow(&self, instance: InstanceId, pid: u32) {
        self.order(Order::Follow(instance, pid));
    }

    /// Measures it no more.
    pub(super) fn forget(&self, instance: InstanceId) {
        self.order(Order::Forget(instance));
    }

    /// Asks the kernel to take back from this instance what it can, some time soon.
    pub(super) fn reclaim(&self, instance: InstanceId) {
        self.order(Order::Reclaim(instance));
    }

    /// The engine was reached, and has its files here.
    pub(super) fn engine_is_at(&self, folder: PathBuf) {
        self.order(Order::Engine(folder));
    }

    /// Looks at this instance alone, and hands the loop what was seen. Resolves when that is done, or was not within
    /// a time in which it should have been: what is seen then comes late, or never.
    pub(super) async fn look_at(&self, instance: InstanceId) {
        let (done, seen) = oneshot::channel();
        self.order(Order::LookAt(instance, done));
        // A look that was not taken leaves what the last one saw.
        let _ = timeout(LOOK_AT_WITHIN, seen).await;
    }

    fn order(&self, order: Order) {
        match self.orders.try_send(order) {
            Ok(()) => {}
            // The thread hangs in the kernel. What is not followed counts as unknown, which is the truth.
            Err(TrySendError::Full(_)) => {}
            // The daemon is ending.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

fn look(
    mut measure: Measure,
    orders: &Receiver<Order>,
    samples: &mpsc::Sender<Input>,
    reclaims: &SyncSender<Reclaim>,
) {
    let mut next = clock::now();
    let mut looks = 0u64;
    loop {
        let now = clock::now();
        if now >= next {
            let sample = measure.sample(now);
            looks += 1;
            next = now.after(if looks == 1 { SECOND } else { EVERY });
            if hand_over(samples, sample).is_err() {
                return;
            }
        }
        match orders.recv_timeout(next.since(clock::now())) {
            Ok(Order::Follow(instance, pid)) => follow(&mut measure, instance, pid),
            Ok(Order::Forget(instance)) => measure.forget(instance),
            Ok(Order::Reclaim(instance)) => {
                // As many wait as may: this one keeps what it has, and is ended if that is not enough.
                let _ = measure.reclaim(instance).map(|reclaim| reclaims.try_send(reclaim));
            }
            Ok(Order::Engine(folder)) => {
                measure.engine_is_at(folder);
                next = clock::now();
            }
            Ok(Order::LookAt(instance, done)) => {
                if let Some(seen) = measure.look_at(instance, clock::now()) {
                    // As with a sample: a loop that is behind hears of it a second later.
                    let _ = samples.try_send(Input::Looked(instance, seen));
                }
                let _ = done.send(()); // Who has asked may have waited long enough.
            }
            Ok(Order::Look) => next = clock::now(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Has the measuring thread look whenever the kernel says that tasks stood still.
fn wake(orders: &Weak<SyncSender<Order>>) {
    let trigger = match Trigger::on_memory(&Root::host()) {
        Ok(trigger) => trigger,
        Err(error) => {
            return tracing::warn!(
                "the kernel gives no word of memory pressure: {error}, looking each {} s instead",
                EVERY.as_secs()
            );
        }
    };
    while orders.strong_count() > 0 {
        match trigger.wait(EVERY) {
            Ok(false) => {}
            Ok(true) => {
                // A look that cannot be ordered because so much else is comes soon enough.
                let _ = orders.upgrade().map(|orders| orders.try_send(Order::Look));
            }
            Err(error) => {
                return tracing::warn!(
                    "the kernel's word of memory pressure ended: {error}, looking each second"
                );
            }
        }
    }
}

/// Asks one instance after the other for memory.
fn ask_back(reclaims: &Receiver<Reclaim>) {
    for reclaim in reclaims {
        let until = clock::now().after(RECLAIM_WITHIN);
        reclaim.run(|| clock::now() < until);
    }
}

/// Measures an instance from here on. One that cannot be has ended, or stays unknown: its absence from the samples
/// says so to the loop, and this, once, to people.
fn follow(measure: &mut Measure, instance: InstanceId, pid: u32) {
    if let Err(error) = measure.follow(instance, pid) {
        tracing::warn!(
            stoker_instance = %instance,
            "cannot measure it: {}, counting it at its memory_max",
            chain(&error)
        );
    }
}

/// Hands a sample to the loop; one that finds the loop behind is dropped, since the next says more.
fn hand_over(samples: &mpsc::Sender<Input>, sample: Sample) -> Result<(), ()> {
    match samples.try_send(Input::Sample(Box::new(sample))) {
        Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(()),
        Err(mpsc::error::TrySendError::Closed(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_instance_that_cannot_be_measured_is_told_of() {
        let log = Log::default();
        let writer = log.clone();
        let told = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        let instance = InstanceId { run: 1, count: 2 };
        tracing::subscriber::with_default(told, || {
            follow(&mut Measure::new(Root::host()), instance, u32::MAX);
        });
        let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("WARN") && said.contains(&instance.to_string()), "{said}");
        assert!(said.trim_end().contains("counting it at its memory_max"), "{said}");
    }
}
