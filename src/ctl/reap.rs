//! Ending what is past its deadline while no daemon is there to do it.
//!
//! It takes the daemon's lock, so that it never runs beside one: a daemon that runs ends its leases itself, and then
//! there is nothing to do here. A container is removed first and its lease's end written after it, so that what
//! fails is met again the next time.
//!
//! Not here: idle times. What a caller did last is known to the daemon alone.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::{Reap, Tool, exit};
use crate::control::message::{
    Deadline, End, InstanceId, Interruption, LeaseRecord, LeaseRecordState, Record, Scope, Why,
};
use crate::docker::{Docker, Owner, socket_of};
use crate::quantity::Instant;
use crate::store::clock::{self, Moment};
use crate::store::lock::{self, LockError};
use crate::store::{Batch, Entry, Found, Kept, Store};
use crate::systemd::{self, catalog};

/// A lease that is over, and the instance that goes with it.
struct Over {
    lease: LeaseRecord,
    end: End,
    instance: Option<InstanceId>,
}

impl Tool {
    pub(super) async fn reap(&self, reap: &Reap) -> anyhow::Result<ExitCode> {
        let Some(host) = Store::host_of(&reap.state)? else {
            return Ok(ExitCode::SUCCESS); // No daemon has ever kept state here.
        };
        let _alone = match lock::take(&host, &reap.state) {
            Err(LockError::InUse(_) | LockError::Taken(_)) => return Ok(ExitCode::SUCCESS),
            taken => taken?,
        };
        if systemd::stderr_is_the_journal() {
            systemd::start_logging("stokerctl").context("cannot log")?;
        }
        let boot = clock::boot_id().context("cannot read this boot's id")?;
        let now = Moment::now(&boot);
        // Mended it is by the daemon alone, which says so and ends what has lost its history.
        let mut store = Store::open_sound(&reap.state, &host)?;
        let found = store.read(&now)?;
        for damaged in &found.damaged {
            super::say(&format!("stokerctl: a record was damaged and moved to the table `aside`: {damaged}"));
        }
        let last = found.last;
        let over = over(found, &now);
        let owner = Owner { host, boot, run: 0 };
        let (engine, mut failed) = match over.iter().any(|over| over.instance.is_some()) {
            false => (None, None),
            true => match Docker::connect(&socket_of(&reap.engine)?, owner).await {
                Ok(docker) => (Some(docker), None),
                Err(error) => (None, Some(error)),
            },
        };
        let mut ended = Vec::new();
        let mut batch = Batch::new();
        for Over { lease, end, instance } in over {
            match (&engine, instance) {
                (_, None) => {}
                // It is met again the next time.
                (None, Some(_)) => continue,
                (Some(docker), Some(instance)) => {
                    if let Err(error) = docker.stop_and_remove(instance, Duration::ZERO).await {
                        failed = failed.or(Some(error));
                        continue;
                    }
                }
            }
            tell(&lease, &end);
            ended.push((lease.id.to_string(), end.code()));
            let lease = Record::Lease(Box::new(ended_record(lease, end, now.at)));
            for record in instance.map(Record::Gone).into_iter().chain([lease]) {
                let number = last + 1 + batch.len() as u64;
                batch.insert(record.subject(), Entry { number, record, template: String::new() });
            }
        }
        if !batch.is_empty() {
            store.write(&batch, &now)?;
        }
        if !ended.is_empty() {
            let rows: Vec<_> =
                ended.iter().map(|(id, state)| serde_json::json!({"id": id, "state": state})).collect();
            self.print(&serde_json::json!({ "leases": rows }), |_| {
                ended.iter().map(|(id, state)| format!("{id} {state}\n")).collect()
            })?;
        }
        Ok(failed
            .map_or(ExitCode::SUCCESS, |error| exit::report("stokerctl", &error.into(), exit::UNAVAILABLE)))
    }
}

/// Under systemd its end is an entry of the lease's story, as the daemon would have told it; at a level that does
/// wake somebody, because no daemon was there.
fn tell(lease: &LeaseRecord, end: &End) {
    tracing::warn!(
        message_id = catalog::LEASE_ENDED.id,
        stoker_pool = lease.pool.to_string(),
        stoker_lease = lease.id.to_string(),
        stoker_tenant = lease.tenant.to_string(),
        stoker_state = end.code(),
        stoker_reason = end.reason(),
        "lease {} while stokerd was down: {end}",
        end.code()
    );
}

/// The leases whose time is over, each with its end.
fn over(found: Found, now: &Moment) -> Vec<Over> {
    let drains: Vec<_> = found.drains.into_iter().filter(|drain| drain.written.boot == now.boot).collect();
    let drain_of = |lease: &LeaseRecord| {
        let concerns = |scope: &Scope| match scope {
            Scope::Host => true,
            Scope::Pool(pool) => *pool == lease.pool,
        };
        let its = drains.iter().filter(|drain| concerns(&drain.record.0));
        its.map(|drain| drain.record.1.deadline).min()
    };
    let mut all = Vec::new();
    for Kept { record: lease, written } in found.leases {
        let due = |at: Instant| at <= now.at;
        let (end, instance) = match lease.state {
            LeaseRecordState::Queued { deadline, .. } if due(deadline) => {
                let waited = deadline.since(lease.asked_at);
                (End::Refused(Why::WaitExpired { waited, blocked_by: None }), None)
            }
            LeaseRecordState::Executing { instance, .. } if written.boot != now.boot => {
                (End::Interrupted(Interruption::HostLost), Some(instance))
            }
            LeaseRecordState::Executing { instance, .. } if drain_of(&lease).is_some_and(due) => {
                (End::Interrupted(Interruption::Drain), Some(instance))
            }
            LeaseRecordState::Executing { instance, deadline, .. } if due(deadline) => {
                (End::Expired(Deadline::Runtime), Some(instance))
            }
            LeaseRecordState::Executing { instance, hold: Some(ref hold), .. } if due(hold.until) => {
                (End::Expired(Deadline::Hold), Some(instance))
            }
            LeaseRecordState::Queued { .. }
            | LeaseRecordState::Executing { .. }
            | LeaseRecordState::Ended { .. } => continue,
        };
        all.push(Over { lease, end, instance });
    }
    all
}

fn ended_record(lease: LeaseRecord, end: End, at: Instant) -> LeaseRecord {
    let granted_at = match lease.state {
        LeaseRecordState::Executing { granted_at, .. } => Some(granted_at),
        LeaseRecordState::Queued { .. } | LeaseRecordState::Ended { .. } => None,
    };
    LeaseRecord { state: LeaseRecordState::Ended { end, at, granted_at }, ..lease }
}
