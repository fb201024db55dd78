//! What is written is read again, whatever it is, and what goes wrong stays where it is.

use std::io::{Seek, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use super::clock::Moment;
use super::{Batch, Entry, Outcome, Store, StoreError, Writer};
use crate::control::message::{
    Cancelled, Deadline, DiskOf, DrainRecord, End, EnvelopeRecord, Estimate, Exit, Failure, Hold, InstanceId,
    InstanceRecord, InstanceRecordState, Interruption, LeaseId, LeaseRecord, LeaseRecordState, LimitsRecord,
    Made, OomLevel, PeakWeight, Process, Record, Scope, TaskId, TaskRecord, Tenant, Why,
};
use crate::profile::{ClassName, Kind, OnPressure, PoolName, ProviderName};
use crate::quantity::{Bytes, Instant, MilliCpu, Permille};

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Instant {
    Instant::BOOT.after(SECOND * u32::try_from(seconds).unwrap())
}

fn now() -> Moment {
    Moment::now("this")
}

fn lease(name: &str, state: LeaseRecordState) -> LeaseRecord {
    LeaseRecord {
        id: LeaseId(name.into()),
        pool: PoolName::new("python"),
        degraded_from: Some(PoolName::new("large")),
        kind: Kind::Sandbox,
        class: ClassName::new("batch"),
        tenant: Tenant("ann".into()),
        task: Some(Box::new(TaskRecord {
            id: TaskId("report-7".into()),
            attempt: 2,
            first: at(1),
            class: None,
            max_runtime: Some(SECOND * 5),
            idle_timeout: None,
        })),
        asked_at: at(1),
        oom_kills: 3,
        limits: LimitsRecord {
            first_use: SECOND,
            idle: SECOND * 2,
            runtime: SECOND * 3,
            runtime_max: SECOND * 4,
        },
        state,
    }
}

fn made() -> Made {
    Made {
        kind: Kind::Browser,
        image: "i".into(),
        memory_max: Bytes::mib(3),
        memory_expect: Bytes::mib(2),
        cpus: MilliCpu::new(1500),
        pids: 64,
        devtools: Some(9222),
        stop_timeout: SECOND * 7,
        journal_output: true,
        on_pressure: OnPressure::Interrupt,
    }
}

fn instance(count: u32, state: InstanceRecordState) -> InstanceRecord {
    let process = (count > 1).then_some(Process { pid: 7, began: 8 });
    InstanceRecord {
        id: InstanceId { run: 5, count },
        pool: PoolName::new("python"),
        born: at(2),
        process,
        made: (count > 2).then(made),
        state,
    }
}

/// Every end and every limit that there is.
fn ends() -> Vec<End> {
    let (need, have, limit) = (Bytes::mib(2), Bytes::mib(1), 3);
    let limits = vec![
        Why::QueueFull { queued: 3, limit },
        Why::WaitExpired { waited: SECOND, blocked_by: None },
        Why::HostDraining,
        Why::PoolDraining,
        Why::NeverFits { need, have },
        Why::MemoryPromised { need, have },
        Why::MemoryAvailable { need, have },
        Why::Cpu { need: MilliCpu::new(2), have: MilliCpu::new(1) },
        Why::Pids { need: 2, have: 1 },
        Why::Disk { of: DiskOf::Engine, need, have },
        Why::Inodes { of: DiskOf::State, need: 2, have: 1 },
        Why::MaxInstances { have: 3, limit },
        Why::InstanceHours { used: SECOND, most: SECOND, per: SECOND, returns_in: SECOND },
        Why::TenantLimit { have: 3, limit },
        Why::MaxHolds { have: 3, limit, until: at(9) },
        Why::TenantHolds { have: 3, limit, until: at(9) },
        Why::ProviderWaits { provider: ProviderName::new("models"), waiting: 3, limit, until: at(9) },
        Why::ProviderSpent { provider: ProviderName::new("models"), until: at(9) },
        Why::HeldBack { have: 1, held: 1 },
        Why::Starts { have: 3, limit },
        Why::StartPace { have: 3, limit, strain: Permille::new(2500) },
        Why::Backoff { failures: 2, last: "boom".into(), until: at(9) },
        Why::NoTelemetry("?".into()),
        Why::QueueTooLong {
            estimate: Estimate { behind: 3, ends: 9, ..Estimate::default() },
            longest: SECOND,
        },
        Why::WithoutTelemetry { unknown: "?".into(), have: 3, limit },
        Why::EngineUnreachable("away".into()),
        Why::NotRecorded("full".into()),
    ];
    let behind =
        limits.iter().map(|why| Why::WaitExpired { waited: SECOND, blocked_by: Some(Box::new(why.clone())) });
    let refused: Vec<_> = behind.chain(limits.clone()).map(End::Refused).collect();
    let mut ends = vec![
        End::Completed,
        End::Failed(Failure::Died(Exit { code: Some(137) })),
        End::Failed(Failure::Died(Exit { code: None })),
        End::Failed(Failure::Vanished),
        End::Failed(Failure::OutOfMemory(OomLevel::Own)),
        End::Failed(Failure::OutOfMemory(OomLevel::Above)),
        End::Failed(Failure::Overran),
        End::Cancelled(Cancelled::ByCaller),
        End::Cancelled(Cancelled::CallerGone),
        End::Expired(Deadline::FirstUse),
        End::Expired(Deadline::Idle),
        End::Expired(Deadline::Runtime),
        End::Expired(Deadline::Hold),
        End::Interrupted(Interruption::Drain),
        End::Interrupted(Interruption::HostLost),
        End::Interrupted(Interruption::PoolRemoved),
    ];
    ends.extend(refused);
    ends
}

fn batch(records: impl IntoIterator<Item = Record>) -> Batch {
    let entry = |(number, record): (u64, Record)| {
        (record.subject(), Entry { number, record, template: "hash".into() })
    };
    (1..).zip(records).map(entry).collect()
}

/// A lease in each state but the last.
fn live() -> Vec<LeaseRecord> {
    let executing = |count, hold| LeaseRecordState::Executing {
        instance: InstanceId { run: 5, count },
        granted_at: at(3),
        used: true,
        deadline: at(99),
        hold,
    };
    vec![
        lease("queued", LeaseRecordState::Queued { promised: at(3), arrival: 4, deadline: at(5) }),
        lease("executing", executing(9, None)),
        lease("held", executing(10, Some(Hold { since: at(4), until: at(44), reason: "log in".into() }))),
    ]
}

#[test]
fn what_is_written_is_read_again() {
    let folder = TempDir::new().unwrap();
    let mut leases = live();
    for (count, end) in ends().into_iter().enumerate() {
        let state = LeaseRecordState::Ended { end, at: at(7), granted_at: (count % 2 == 0).then(|| at(6)) };
        leases.push(lease(&format!("ended-{count:02}"), state));
    }
    let instances = [
        instance(1, InstanceRecordState::Starting),
        instance(2, InstanceRecordState::Warm { since: at(3), expires: at(4) }),
        instance(3, InstanceRecordState::Stopping),
    ];
    let drain = DrainRecord { since: at(3), deadline: at(4) };
    let scopes = [Scope::Host, Scope::Pool(PoolName::new("python"))];
    let mut store = Store::open(folder.path(), "host", 0).unwrap();
    let records = leases.iter().map(|lease| Record::Lease(Box::new(lease.clone())));
    let records = records.chain(instances.iter().cloned().map(Record::Instance));
    let records = records.chain(scopes.iter().map(|scope| Record::Drain(scope.clone(), drain)));
    let envelope = EnvelopeRecord {
        pool: PoolName::new("python"),
        usual: Bytes::mib(5),
        former: Bytes::mib(4),
        lives: 12,
        at: at(3),
        weights: vec![
            PeakWeight { tenant: None, bucket: 3, whole: 5, cut: 0 },
            PeakWeight { tenant: Some(Tenant("ann".into())), bucket: 63, whole: 0, cut: 6 },
        ],
        hours: vec![(at(1), SECOND * 9), (at(2), SECOND)],
        hours_until: at(3),
    };
    let records = records.chain([Record::Envelope(envelope.clone())]);
    store.write(&batch(records), &now()).unwrap();

    let found = store.read(&now()).unwrap();
    assert_eq!(found.envelopes, [(envelope, "hash".into())]);
    let mut read: Vec<_> = found.leases.into_iter().map(|kept| kept.record).collect();
    read.sort_by(|one, other| one.id.cmp(&other.id));
    leases.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(read, leases);
    let read: Vec<_> = found.instances.into_iter().map(|kept| kept.record).collect();
    assert!(read.iter().all(|kept| kept.template == "hash"));
    assert_eq!(read.into_iter().map(|kept| kept.record).collect::<Vec<_>>(), instances);
    assert_eq!(found.drains.into_iter().map(|kept| kept.record.0).collect::<Vec<_>>(), scopes);
    assert_eq!((found.last, found.damaged), (leases.len() as u64 + 6, Vec::new()));

    let gone = instances.iter().map(|instance| Record::Gone(instance.id));
    let rest = gone.chain(scopes.into_iter().map(Record::Undrained));
    store.write(&batch(rest), &now()).unwrap();
    drop(store);
    let mut store = Store::open(folder.path(), "host", 0).unwrap();
    let found = store.read(&now()).unwrap();
    assert_eq!((found.instances.len(), found.drains.len(), found.leases.len()), (0, 0, leases.len()));
}

#[test]
fn a_lease_that_does_not_read_takes_what_it_may_have_had_with_it() {
    for (damage, left) in
        [("body = '{'", 1), ("body = '{', instance = NULL", 0), ("body = '{', ended = 1, instance = NULL", 2)]
    {
        let folder = TempDir::new().unwrap();
        let mut store = Store::open(folder.path(), "host", 0).unwrap();
        let warm = InstanceRecordState::Warm { since: at(3), expires: at(4) };
        let state = LeaseRecordState::Executing {
            instance: InstanceId { run: 5, count: 1 },
            granted_at: at(3),
            used: true,
            deadline: at(9),
            hold: None,
        };
        let lease = Record::Lease(Box::new(lease("lent", state)));
        let instances = [1, 2].map(|count| Record::Instance(instance(count, warm)));
        store.write(&batch(instances.into_iter().chain([lease])), &now()).unwrap();
        store.connection.execute(&format!("UPDATE lease SET {damage}"), []).unwrap();
        let found = store.read(&now()).unwrap();
        assert_eq!(
            (found.leases.len(), found.instances.len(), found.damaged.len()),
            (0, left, 1),
            "{damage}"
        );
        let again = store.read(&now()).unwrap();
        assert_eq!(
            (again.instances.len(), again.damaged.len()),
            (left, 0),
            "{damage}: it is moved aside for good"
        );
    }
}

#[test]
fn a_newer_file_and_another_hosts_are_left_alone() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path(), "host", 0).unwrap();
    assert_eq!(Store::host_of(folder.path()).unwrap().as_deref(), Some("host"));
    let other = Store::open(folder.path(), "other", 0).unwrap_err();
    assert!(matches!(other, StoreError::OtherHost { .. }), "{other}");
    store.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let newer = Store::open(folder.path(), "host", 0).unwrap_err();
    assert!(matches!(newer, StoreError::Newer { found: 99, .. }), "{newer}");
}

#[test]
fn what_cannot_be_written_is_tried_until_it_is() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path(), "host", 0).unwrap();
    // A lock that somebody holds is the nearest thing to a full disk that needs no disk.
    let other = rusqlite::Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (writer, ended, outcomes) = start(store);
    let record = |seconds| Record::Drain(Scope::Host, DrainRecord { since: at(1), deadline: at(seconds) });
    writer.write(batch([record(2)])).unwrap();
    assert!(matches!(outcomes.recv().unwrap(), Outcome::Failed(1, _)));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(outcomes.recv().unwrap(), Outcome::Written(1));
    drop(writer);
    ended.wait();
    let mut store = Store::open(folder.path(), "host", 0).unwrap();
    assert_eq!(store.read(&now()).unwrap().drains.len(), 1);
}

#[test]
fn a_row_of_an_older_program_is_read_and_one_of_a_newer_is_not() {
    for (version, read) in [(0, 1), (2, 0)] {
        let folder = TempDir::new().unwrap();
        let mut store = Store::open(folder.path(), "host", 0).unwrap();
        let warm = InstanceRecordState::Warm { since: at(3), expires: at(4) };
        store.write(&batch([Record::Instance(instance(3, warm))]), &now()).unwrap();
        store.connection.execute("UPDATE instance SET version = ?1", [version]).unwrap();
        store.connection.execute("UPDATE instance SET body = json_remove(body, '$.made')", []).unwrap();
        let found = store.read(&now()).unwrap().instances;
        assert_eq!(found.len(), read, "version {version}");
        assert!(found.iter().all(|kept| kept.record.record.made.is_none()));
    }
}

/// A word that is added here is one more of `MIGRATIONS`, and then a number more at the end.
#[test]
fn the_words_of_a_version_are_these() {
    let ended = |end: &str| format!(r#"{{"ended": {{"end": {end}, "at_ns": 1, "granted_ns": null}}}}"#);
    let texts = [
        r#""?""#.into(),
        ended(r#""?""#),
        ended(r#"{"failed": "?"}"#),
        ended(r#"{"cancelled": "?"}"#),
        ended(r#"{"expired": "?"}"#),
        ended(r#"{"interrupted": "?"}"#),
        ended(r#"{"refused": "?"}"#),
    ];
    let words = texts.map(|text| {
        let refused = super::row::unknown_word(&text).replace('`', "");
        let (_, words) = refused.split_once(", expected ").unwrap();
        words.split(" at line ").next().unwrap().replace("one of ", "")
    });
    insta::assert_snapshot!(words.join("\n"), @"
    queued, executing, ended
    completed, failed, cancelled, expired, interrupted, refused
    died, vanished, overran, out_of_memory
    by_caller or caller_gone
    first_use, idle, runtime, hold
    drain, host_lost, pool_removed, pressure
    queue_full, wait_expired, host_draining, pool_draining, pool_removed, never_fits, memory_promised, memory_available, cpu, pids, disk, inodes, max_instances, instance_hours, tenant_limit, max_holds, tenant_holds, provider_waits, provider_spent, held_back, starts, backoff, no_telemetry, engine_unreachable, not_recorded, under_pressure, cpu_pressure, recovering, queue_too_long, without_telemetry, start_pace
    ");
    assert_eq!(super::file::MIGRATIONS.len(), 5);
}

/// The file's pages but the first are overwritten, and nothing of them is in memory.
fn damage(store: &Store) {
    store.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(store.path()).unwrap();
    let size = usize::try_from(file.metadata().unwrap().len()).unwrap();
    file.seek(std::io::SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xff; size - 4096]).unwrap();
    store.connection.execute_batch("PRAGMA shrink_memory").unwrap();
}

#[test]
fn damage_that_only_reading_shows_is_moved_aside() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path(), "host", 0).unwrap();
    damage(&store);
    let (store, found) = store.read_or_begin_anew(folder.path(), "host", &now()).unwrap();
    assert!(store.set_aside.is_some_and(|path| path.exists()));
    assert_eq!((found.leases.len(), found.damaged.len()), (0, 0));
}

#[test]
fn only_who_may_mend_a_damaged_file_does() {
    let folder = TempDir::new().unwrap();
    damage(&Store::open(folder.path(), "host", 0).unwrap());
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    let refused = Store::open_sound(folder.path(), "host").unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert!(matches!(Store::host_of(folder.path()), Err(StoreError::Damaged { .. })));
    assert_eq!(files(), before);
    assert!(Store::open(folder.path(), "host", 0).unwrap().set_aside.is_some());
}

#[test]
fn damage_while_writing_ends_the_writer_and_whoever_goes_on_without_it() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path(), "host", 0).unwrap();
    damage(&store);
    let (writer, ended, outcomes) = start(store);
    let record = || batch([Record::Drain(Scope::Host, DrainRecord { since: at(1), deadline: at(2) })]);
    writer.write(record()).unwrap();
    assert!(matches!(outcomes.recv().unwrap(), Outcome::Damaged(_)));
    assert!(outcomes.recv().is_err(), "it has ended");
    ended.wait();
    let more = std::panic::AssertUnwindSafe(|| writer.write(record()));
    assert!(std::panic::catch_unwind(more).is_err(), "nothing would be recorded any more");
}

#[test]
fn a_log_that_has_filled_the_disk_is_moved_into_the_file() {
    let folder = TempDir::new().unwrap();
    let mut store = Store::open(folder.path(), "host", 0).unwrap();
    let path = store.path().to_owned();
    let ended = |name: String| {
        let state = LeaseRecordState::Ended { end: End::Completed, at: at(7), granted_at: None };
        Record::Lease(Box::new(lease(&name, state)))
    };
    store.write(&batch((0..100).map(|count| ended(format!("one-{count}")))), &now()).unwrap();
    let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    // As many pages as it has are all that it may have: a full disk for all that is new.
    store.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    let size = || std::fs::metadata(&path).unwrap().len();
    let before = size();
    let (writer, _ended, outcomes) = start(store);
    writer.write(batch((0..100).map(|count| ended(format!("two-{count}"))))).unwrap();
    assert!(matches!(outcomes.recv().unwrap(), Outcome::Failed(100, _)));
    assert!(size() > before, "it is {before} bytes long");
}

#[test]
fn history_is_cut_while_there_is_no_pause() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path(), "host", 0).unwrap();
    let other = rusqlite::Connection::open(store.path()).unwrap();
    let (writer, _ended, outcomes) = start(store);
    for count in 0..28 {
        let ended = |one: u32| {
            let state = LeaseRecordState::Ended { end: End::Completed, at: at(7), granted_at: None };
            Record::Lease(Box::new(lease(&format!("{count}-{one}"), state)))
        };
        writer.write(batch((0..500).map(ended))).unwrap();
        assert_eq!(outcomes.recv().unwrap(), Outcome::Written(500));
    }
    // The last step may be under way: at most what ends between two cuts stands above the length of history.
    let many: i64 = other.query_row("SELECT count(*) FROM lease", [], |row| row.get(0)).unwrap();
    assert!(many <= 12_500, "{many} are kept");
}

#[test]
fn what_is_beside_the_file_stays_for_a_start_on_a_full_disk() {
    let folder = TempDir::new().unwrap();
    drop(Store::open(folder.path(), "host", 0).unwrap());
    for end in ["-wal", "-shm"] {
        assert!(folder.path().join(format!("stoker.db{end}")).exists(), "{end}");
    }
}

fn start(store: Store) -> (Writer, super::LastWrite, Receiver<Outcome>) {
    let (tell, outcomes) = channel();
    let (writer, ended) =
        Writer::start(store, "this".into(), move |outcome| tell.send(outcome).unwrap()).unwrap();
    (writer, ended, outcomes)
}
