//! Reading all that an earlier daemon wrote. A row that does not read is moved aside and never stops the others.
//!
//! A lease that does not read may have had an instance, and that must not be lent again: the instance's own row, which
//! says that it is warm, goes in the same transaction, and its container is then nobody's. Where not even the column
//! says which instance it was, all of them go.

use rusqlite::{Row, params};

use super::clock::Moment;
use super::file::{Store, StoreError};
use super::row::{DrainText, EnvelopeText, InstanceText, Kept, KeptInstance, LeaseText, VERSION, read_scope};
use crate::control::message::{DrainRecord, EnvelopeRecord, InstanceId, LeaseRecord, Scope};
use crate::quantity::Instant;

/// Ended leases are asked about for ten minutes; what ended earlier is history.
const LATELY_MS: i64 = 10 * 60 * 1000;
/// Rows that were moved aside are for people to look at; the oldest go first.
const ASIDE_MOST: i64 = 1000;

/// All that was written, its times carried into this boot.
#[derive(Debug, Default)]
pub struct Found {
    /// The last number that was given to a record.
    pub last: u64,
    /// Leases that live, or ended lately.
    pub leases: Vec<Kept<LeaseRecord>>,
    /// Instances.
    pub instances: Vec<Kept<KeptInstance>>,
    /// Drains.
    pub drains: Vec<Kept<(Scope, DrainRecord)>>,
    /// What was learned of each pool, and the hash of the template that it was learned of.
    pub envelopes: Vec<(EnvelopeRecord, String)>,
    /// Rows that did not read and were moved aside: what each was, and what was wrong.
    pub damaged: Vec<String>,
}

/// A row that does not read: which, and why not.
struct Damaged {
    rowid: i64,
    why: String,
    /// The instance that it had, as far as that reads.
    instance: Option<InstanceId>,
    /// Whether it may have had one.
    lent: bool,
}

impl Damaged {
    fn may_have_had(&self, id: InstanceId) -> bool {
        self.instance.map_or(self.lent, |instance| instance == id)
    }
}

impl Store {
    /// Reads everything, as of `now`.
    ///
    /// # Errors
    /// When the file cannot be read or not written.
    pub fn read(&mut self, now: &Moment) -> Result<Found, StoreError> {
        let read = self.read_all(now);
        read.map_err(|source| self.failed(source))
    }

    fn read_all(&mut self, now: &Moment) -> rusqlite::Result<Found> {
        let mut found = Found::default();
        let mut aside = Vec::new();
        let since = now.wall_ms - LATELY_MS;
        let sql = "SELECT rowid, id, pool, boot, at_ns, wall_ms, version, body, instance, ended FROM lease \
                   WHERE ended = 0 OR wall_ms > ?1 ORDER BY number";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([since])?;
        while let Some(row) = rows.next()? {
            match lease(row, now) {
                Ok(lease) => found.leases.push(lease),
                Err(why) => {
                    let instance: Option<String> = row.get("instance").unwrap_or_default();
                    let instance = instance.and_then(|text| text.parse().ok());
                    let ended = row.get::<_, i64>("ended").is_ok_and(|ended| ended == 1);
                    let rowid = row.get("rowid")?;
                    aside.push(("lease", Damaged { rowid, why, instance, lent: !ended }));
                }
            }
        }
        drop(rows);
        drop(statement);
        let sql = "SELECT rowid, id, pool, template, boot, at_ns, wall_ms, version, body FROM instance";
        self.read_table("instance", sql, &mut aside, |row| {
            found.instances.push(instance(row, now)?);
            Ok(())
        })?;
        let sql = "SELECT rowid, id, boot, at_ns, wall_ms, version, body FROM drain";
        self.read_table("drain", sql, &mut aside, |row| {
            found.drains.push(drain(row, now)?);
            Ok(())
        })?;
        let sql = "SELECT rowid, id, template, boot, at_ns, wall_ms, version, body FROM envelope";
        self.read_table("envelope", sql, &mut aside, |row| {
            found.envelopes.push(envelope(row, now)?);
            Ok(())
        })?;
        let sql = "SELECT max(coalesce((SELECT max(number) FROM lease), 0), \
                   coalesce((SELECT max(number) FROM instance), 0), coalesce((SELECT max(number) FROM drain), 0), \
                   coalesce((SELECT max(number) FROM envelope), 0))";
        let last: i64 = self.connection.query_row(sql, [], |row| row.get(0)).unwrap_or_default();
        found.last = u64::try_from(last).unwrap_or_default();
        found
            .instances
            .retain(|kept| !aside.iter().any(|(_, damaged)| damaged.may_have_had(kept.record.record.id)));
        self.set_rows_aside(&aside, now)?;
        found.damaged = aside.into_iter().map(|(kind, damaged)| format!("{kind}: {}", damaged.why)).collect();
        Ok(found)
    }

    fn read_table(
        &self,
        kind: &'static str,
        sql: &str,
        aside: &mut Vec<(&'static str, Damaged)>,
        mut take: impl FnMut(&Row<'_>) -> Result<(), String>,
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Err(why) = take(row) {
                let rowid = row.get("rowid")?;
                aside.push((kind, Damaged { rowid, why, instance: None, lent: false }));
            }
        }
        Ok(())
    }

    fn set_rows_aside(&mut self, rows: &[(&str, Damaged)], now: &Moment) -> rusqlite::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        for (kind, damaged) in rows {
            let Damaged { rowid, why, instance, lent } = damaged;
            let copy =
                format!("INSERT INTO aside SELECT ?1, '{kind}', id, ?2, body FROM {kind} WHERE rowid = ?3");
            transaction.execute(&copy, params![now.wall_ms, why, rowid])?;
            transaction.execute(&format!("DELETE FROM {kind} WHERE rowid = ?1"), [rowid])?;
            match instance {
                Some(id) => transaction.execute("DELETE FROM instance WHERE id = ?1", [id.to_string()])?,
                None if *lent => transaction.execute("DELETE FROM instance", [])?,
                None => 0,
            };
        }
        let oldest = "DELETE FROM aside WHERE rowid <= (SELECT max(rowid) FROM aside) - ?1";
        transaction.execute(oldest, [ASIDE_MOST])?;
        transaction.commit()
    }
}

fn lease(row: &Row<'_>, now: &Moment) -> Result<Kept<LeaseRecord>, String> {
    let (id, pool): (String, String) = (text(row, "id")?, text(row, "pool")?);
    let written = moment(row)?;
    let record = body::<LeaseText>(row)?.record(&id, &pool, &written, now);
    let record = record.ok_or_else(|| format!("`{id}` names no instance"))?;
    Ok(Kept { record, written })
}

fn instance(row: &Row<'_>, now: &Moment) -> Result<Kept<KeptInstance>, String> {
    let (name, pool, template) = (text(row, "id")?, text(row, "pool")?, text(row, "template")?);
    let id: InstanceId = name.parse().map_err(|()| format!("`{name}` is no instance"))?;
    let written = moment(row)?;
    let record = body::<InstanceText>(row)?.record(id, &pool, &written, now);
    let record = record.ok_or_else(|| format!("`{name}` was made from what no program knows"))?;
    Ok(Kept { record: KeptInstance { record, template }, written })
}

fn drain(row: &Row<'_>, now: &Moment) -> Result<Kept<(Scope, DrainRecord)>, String> {
    let name = text(row, "id")?;
    let scope = read_scope(&name).ok_or_else(|| format!("`{name}` is nothing that is drained"))?;
    let written = moment(row)?;
    let record = body::<DrainText>(row)?.record(&written, now);
    Ok(Kept { record: (scope, record), written })
}

fn envelope(row: &Row<'_>, now: &Moment) -> Result<(EnvelopeRecord, String), String> {
    let (pool, template) = (text(row, "id")?, text(row, "template")?);
    Ok((body::<EnvelopeText>(row)?.record(&pool, &moment(row)?, now), template))
}

fn moment(row: &Row<'_>) -> Result<Moment, String> {
    let at: i64 = row.get("at_ns").map_err(|error| error.to_string())?;
    let at = Instant::from_nanos(u64::try_from(at).map_err(|_| "its time is negative".to_owned())?);
    let wall_ms = row.get("wall_ms").map_err(|error| error.to_string())?;
    Ok(Moment { boot: text(row, "boot")?, at, wall_ms })
}

fn text(row: &Row<'_>, column: &str) -> Result<String, String> {
    row.get(column).map_err(|error| error.to_string())
}

fn body<T: serde::de::DeserializeOwned>(row: &Row<'_>) -> Result<T, String> {
    let version: i64 = row.get("version").map_err(|error| error.to_string())?;
    if version > VERSION {
        return Err(format!("its version is {version}, and {VERSION} is the newest that is known"));
    }
    serde_json::from_str(&text(row, "body")?).map_err(|error| error.to_string())
}
