//! The writer thread: a batch is a transaction, and what could not be written is tried again until it is.
//!
//! It keeps the newest unwritten record of each subject, so that a disk that stays full costs as much memory as there
//! are leases and instances, and no more.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::clock::{self, Moment};
use super::file::{Store, StoreError, is_damage, is_full};
use super::row::{
    DrainText, EnvelopeText, InstanceText, LeaseText, VERSION, instance_state, lease_columns, scope_name,
};
use crate::control::message::{Record, Scope, Subject};
use crate::quantity::Instant;

/// Batches that may stand before the thread: one a turn of the loop, and a turn takes what is ready.
const BATCHES: usize = 64;
/// Between two tries of a disk that is full.
const RETRY: Duration = Duration::from_secs(1);
/// When nobody has written for so long, the log is moved into the file if it has grown.
const IDLE: Duration = Duration::from_secs(1);
/// Records in the log that make it worth moving, and that do so even while somebody waits: some 4 and 40 MiB.
const LOG_WORTH: usize = 500;
const LOG_MOST: usize = 5000;
/// Ended leases are kept for a week, and no more than this many: some 10 MiB.
const HISTORY_MS: i64 = 7 * 24 * 60 * 60 * 1000;
const HISTORY_MOST: i64 = 10_000;
/// Old ones are looked for so often, and once in so many that have ended.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);
const PRUNE_ENDS: usize = 500;
/// After so many that have ended they are looked for even while somebody waits, and so many are removed in one go.
const PRUNE_ENDS_MOST: usize = 4 * PRUNE_ENDS;
const PRUNE_STEP: i64 = 1000;
/// At the end, what stands before the thread is written for so long.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A record with all that its row has.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    /// What it says.
    pub record: Record,
    /// An instance's template, by its hash; it is written with an instance's first record and stays.
    pub template: String,
}

/// The newest records of some subjects, written together or not at all.
pub type Batch = BTreeMap<Subject, Entry>;

/// What became of all records up to a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// They are written.
    Written(u64),
    /// Those that were not written yet cannot be, for this reason; they are tried again.
    Failed(u64, String),
    /// The file is damaged, and nothing will be written any more: the next daemon moves it aside.
    Damaged(String),
}

/// The way to the thread; it ends when this is gone and all is written.
#[derive(Debug)]
pub struct Writer {
    batches: SyncSender<Batch>,
}

/// Says when the thread has written all and ended.
#[derive(Debug)]
pub struct LastWrite(Receiver<()>);

impl Writer {
    /// Starts the thread; `tell` is called by it, and may wait.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        store: Store,
        boot: String,
        tell: impl FnMut(Outcome) + Send + 'static,
    ) -> io::Result<(Writer, LastWrite)> {
        let (batches, incoming) = sync_channel(BATCHES);
        let (end, ended) = sync_channel(0);
        thread::Builder::new().name("store".into()).spawn(move || {
            let (connection, prune_at) = (store.connection, clock::now());
            let thread = Thread { connection, boot, full_sync: false, in_log: 0, ends: 0, prune_at };
            thread.run(&incoming, tell);
            // Who hears of the end can hand over nothing more.
            drop(incoming);
            drop(end);
        })?;
        Ok((Writer { batches }, LastWrite(ended)))
    }

    /// Hands over a batch, at once; what there is no room for comes back.
    ///
    /// # Errors
    /// The batch itself, when the thread is behind.
    ///
    /// # Panics
    /// When the thread has ended. Nobody could be served without it, and the next daemon has one.
    pub fn write(&self, batch: Batch) -> Result<(), Batch> {
        match self.batches.try_send(batch) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(batch)) => Err(batch),
            Err(TrySendError::Disconnected(_)) => panic!("the writer of records lives as long as the loop"),
        }
    }
}

impl LastWrite {
    /// Waits until all that was handed over is written, but not for ever.
    pub fn wait(&self) {
        match self.0.recv_timeout(LAST_WORDS) {
            Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {}
        }
    }
}

struct Thread {
    connection: Connection,
    boot: String,
    /// How the last transaction was committed.
    full_sync: bool,
    /// Records in the log.
    in_log: usize,
    /// Leases that ended since history was last cut.
    ends: usize,
    /// When it is cut next.
    prune_at: Instant,
}

impl Thread {
    fn run(mut self, batches: &Receiver<Batch>, mut tell: impl FnMut(Outcome)) {
        let mut unwritten = Batch::new();
        let mut told_failed = 0;
        loop {
            match batches.recv_timeout(if unwritten.is_empty() { IDLE } else { RETRY }) {
                Ok(batch) => unwritten.extend(batch),
                Err(RecvTimeoutError::Timeout) if unwritten.is_empty() => {
                    self.prune(PRUNE_ENDS);
                    self.move_log(LOG_WORTH);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            batches.try_iter().for_each(|batch| unwritten.extend(batch));
            let upto = unwritten.values().map(|entry| entry.number).max().unwrap_or_default();
            match self.write(&unwritten) {
                Ok(()) => {
                    unwritten.clear();
                    tell(Outcome::Written(upto));
                    self.prune(PRUNE_ENDS_MOST);
                    self.move_log(LOG_MOST);
                }
                Err(error) if is_damage(&error) => return tell(Outcome::Damaged(error.to_string())),
                Err(error) => {
                    if is_full(&error) {
                        // What stands in the log makes room there once it is in the file.
                        self.move_log(0);
                    }
                    // What was told of as failed is tried on in silence.
                    if upto > told_failed {
                        told_failed = upto;
                        tell(Outcome::Failed(upto, error.to_string()));
                    }
                }
            }
        }
        // Nobody is there to hear of it any more; the next daemon sees what is there.
        let _ = if unwritten.is_empty() { Ok(()) } else { self.write(&unwritten) };
    }

    fn write(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let full_sync = batch.values().any(|entry| entry.record.survives_host());
        if full_sync != self.full_sync {
            let synchronous = if full_sync { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", synchronous)?;
            self.full_sync = full_sync;
        }
        commit(&mut self.connection, batch, &Moment::now(&self.boot))?;
        self.in_log += batch.len();
        self.ends += batch.values().filter(|entry| has_ended(&entry.record)).count();
        Ok(())
    }

    /// Cuts history by one step when so many leases have ended, or it is time to; what fails or is left over is the next
    /// step's.
    fn prune(&mut self, ends: usize) {
        let now = Moment::now(&self.boot);
        let due = self.ends >= ends || self.prune_at <= now.at;
        if due && prune(&self.connection, &now).is_ok_and(|all| all) {
            (self.ends, self.prune_at) = (0, now.at.after(PRUNE_EVERY));
        }
    }

    /// Moves the log into the file where it has grown by so many records; what fails is tried again likewise.
    fn move_log(&mut self, worth: usize) {
        if self.in_log < worth {
            return;
        }
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if moved.is_ok() {
            self.in_log = 0;
        }
    }
}

impl Store {
    /// Writes a batch at once, synced, for a program that does nothing else.
    ///
    /// # Errors
    /// When it cannot be written; nothing of it is then.
    pub fn write(&mut self, batch: &Batch, now: &Moment) -> Result<(), StoreError> {
        let synced = self.connection.pragma_update(None, "synchronous", "FULL");
        let written = synced.and_then(|()| commit(&mut self.connection, batch, now));
        written.map_err(|source| self.failed(source))
    }
}

fn commit(connection: &mut Connection, batch: &Batch, now: &Moment) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for entry in batch.values() {
        put(&transaction, entry, now)?;
    }
    transaction.commit()
}

fn has_ended(record: &Record) -> bool {
    match record {
        Record::Lease(lease) => lease_columns(lease).ended,
        Record::Instance(_)
        | Record::Gone(_)
        | Record::Drain(..)
        | Record::Undrained(_)
        | Record::Envelope(_) => false,
    }
}

fn put(connection: &Connection, entry: &Entry, now: &Moment) -> rusqlite::Result<()> {
    let (number, boot, wall) = (number(entry.number), &now.boot, now.wall_ms);
    let at = self::number(now.at.as_nanos());
    match &entry.record {
        Record::Lease(lease) => {
            let columns = lease_columns(lease);
            let sql = "INSERT OR REPLACE INTO lease VALUES \
                       (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
            connection.prepare_cached(sql)?.execute(params![
                &*lease.id.0,
                lease.pool.as_str(),
                &*lease.tenant.0,
                lease.class.as_str(),
                columns.state,
                columns.reason,
                columns.instance,
                columns.ended,
                number,
                boot,
                at,
                wall,
                VERSION,
                json(&LeaseText::of(lease))
            ])?;
        }
        Record::Instance(record) => {
            let sql = "INSERT INTO instance VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO \
                       UPDATE SET state = ?4, number = ?5, boot = ?6, at_ns = ?7, wall_ms = ?8, version = ?9, \
                       body = ?10";
            connection.prepare_cached(sql)?.execute(params![
                record.id.to_string(),
                record.pool.as_str(),
                entry.template,
                instance_state(record),
                number,
                boot,
                at,
                wall,
                VERSION,
                json(&InstanceText::of(record))
            ])?;
        }
        Record::Gone(id) => {
            connection.prepare_cached("DELETE FROM instance WHERE id = ?1")?.execute([id.to_string()])?;
        }
        Record::Drain(scope, drain) => {
            let sql = "INSERT OR REPLACE INTO drain VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let body = json(&DrainText::of(drain));
            let row = params![scope_name(scope), number, boot, at, wall, VERSION, body];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        Record::Undrained(scope) => undrain(connection, scope)?,
        Record::Envelope(envelope) => {
            let sql = "INSERT OR REPLACE INTO envelope VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let body = json(&EnvelopeText::of(envelope));
            let row = params![envelope.pool.as_str(), entry.template, number, boot, at, wall, VERSION, body];
            connection.prepare_cached(sql)?.execute(row)?;
        }
    }
    Ok(())
}

fn undrain(connection: &Connection, scope: &Scope) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM drain WHERE id = ?1")?.execute([scope_name(scope)]).map(drop)
}

/// Cuts history at its age and at its length, some rows at a time; whether it removed all that was to go.
fn prune(connection: &Connection, now: &Moment) -> rusqlite::Result<bool> {
    let old = "DELETE FROM lease WHERE rowid IN (SELECT rowid FROM lease WHERE ended = 1 AND wall_ms < ?1 LIMIT ?2)";
    let old = connection.execute(old, params![now.wall_ms - HISTORY_MS, PRUNE_STEP])?;
    let many = "DELETE FROM lease WHERE rowid IN (SELECT rowid FROM lease WHERE ended = 1 \
                ORDER BY wall_ms DESC LIMIT ?2 OFFSET ?1)";
    let many = connection.execute(many, params![HISTORY_MOST, PRUNE_STEP])?;
    Ok(old.max(many) < usize::try_from(PRUNE_STEP).unwrap_or(usize::MAX))
}

fn json(body: &impl serde::Serialize) -> String {
    serde_json::to_string(body).expect("a row has only texts and numbers")
}

/// SQLite counts with a sign; nanoseconds and records reach 2^63 in 292 years.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
