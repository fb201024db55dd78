//! What a grant waits for on its way out: its record, from the loop's hand to the word that it is written.
//!
//! Measured with the daemon's own store and thread, on the disk of the checkout; the way back is a channel to a task of
//! the same kind of runtime as the daemon's loop. A record at a time, with a pause between, so that each finds
//! the thread asleep as a lone acquire does. Beside it, the same for a record that is synced to the disk.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use stoker::control::message::{
    End, InstanceId, LeaseId, LeaseRecord, LeaseRecordState, LimitsRecord, Record, Tenant,
};
use stoker::profile::{ClassName, Kind, PoolName};
use stoker::quantity::Instant as Time;
use stoker::store::{Batch, Entry, Outcome, Store, Writer};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::figure::{Bar, Figure, Runs};
use super::stage::say_error;

const RECORDS: u64 = 1000;
const SYNCED: u64 = 200;
const PAUSE: Duration = Duration::from_millis(2);
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);

pub(crate) async fn figures(folder: &Path) -> anyhow::Result<Vec<Figure>> {
    say_error(&format!("writing {RECORDS} records, and {SYNCED} synced ones"));
    if folder.exists() {
        std::fs::remove_dir_all(folder).context("cannot remove the records of an earlier run")?;
    }
    let store = Store::open(folder, "bench", 0)?;
    let (tell, mut outcomes) = mpsc::channel(1);
    let (writer, ended) = Writer::start(store, "bench".into(), move |outcome| {
        // The bench has ended where nobody hears it.
        let _ = tell.blocking_send(outcome);
    })?;
    let mut number = 0;
    let (mut granted, mut synced) = (Vec::new(), Vec::new());
    for (runs, many, ends) in [(&mut granted, RECORDS, false), (&mut synced, SYNCED, true)] {
        for _ in 0..many {
            sleep(PAUSE).await;
            number += 1;
            let batch = batch(number, ends);
            let began = Instant::now();
            writer.write(batch).map_err(|_| anyhow::anyhow!("the store takes nothing"))?;
            let outcome = timeout(WRITTEN_WITHIN, outcomes.recv()).await.context("nothing is written")?;
            runs.push(began.elapsed().as_secs_f64() * 1e6);
            anyhow::ensure!(outcome == Some(Outcome::Written(number)), "it was not written: {outcome:?}");
        }
    }
    drop(writer);
    ended.wait();
    let synced = Runs::new(synced, "us")?.median();
    let granted = Runs::new(granted, "us")?;
    let figure = granted.figure("journalling a grant: what its record adds to an acquire");
    let against = format!("the same record synced to the disk, as an end of a lease is, {SYNCED} runs");
    Ok(vec![figure.against(&against, synced).bar(Bar::Below(100.0))])
}

fn batch(number: u64, ends: bool) -> Batch {
    let at = Time::from_nanos(number);
    let state = if ends {
        LeaseRecordState::Ended { end: End::Completed, at, granted_at: Some(at) }
    } else {
        let instance = InstanceId { run: 1, count: 1 };
        LeaseRecordState::Executing { instance, granted_at: at, used: false, deadline: at, hold: None }
    };
    let patience = Duration::from_secs(60);
    let limits =
        LimitsRecord { first_use: patience, idle: patience, runtime: patience, runtime_max: patience };
    let lease = LeaseRecord {
        id: LeaseId(format!("bench-00000000-{number:024x}").into()),
        pool: PoolName::new("tiny"),
        degraded_from: None,
        kind: Kind::Sandbox,
        class: ClassName::new("interactive"),
        tenant: Tenant("root".into()),
        task: None,
        asked_at: at,
        oom_kills: 0,
        limits,
        state,
    };
    let record = Record::Lease(Box::new(lease));
    [(record.subject(), Entry { number, record, template: String::new() })].into()
}
