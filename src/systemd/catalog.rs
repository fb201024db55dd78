//! The message catalog: for each kind of entry an id, and for people what happened, why, and what to do.
//!
//! This table is the only place that knows the ids. The daemon puts them on its entries (`MESSAGE_ID`), the
//! package installs what [`render`] writes, and `journalctl -x` joins the two. An id is never used again for
//! something else, and a text speaks of fields that its entries have.

use std::fmt::Write;

use crate::control::message::What;

/// A kind of entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// 128 bits in hexadecimal, drawn once.
    pub id: &'static str,
    /// One line.
    pub subject: &'static str,
    /// Some lines; `@FIELD@` is that field of the entry.
    pub text: &'static str,
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $subject:literal, $text:literal;)*) => {
        $($(#[$doc])* pub static $name: Message = Message { id: $id, subject: $subject, text: $text };)*
        /// All of them.
        pub static ALL: &[&Message] = &[$(&$name),*];
    };
}

messages! {
    /// The daemon serves.
    SERVING = "f61af3001ca8cf47dd715544fe41ce2f", "Stoker serves",
        "The daemon has read its host profile and answers at its socket. Pools warm up from here on:\n\
         `stokerctl ready --wait 1m` shows when they have what the profile asks for.";
    /// The daemon ends.
    ENDING = "77f09a0670d8fe60b01c56f01722f5f2", "Stoker was told to end",
        "The daemon ends at once and leaves instances as they are. To empty the host first, drain it:\n\
         `stokerctl drain --wait`.";
    /// The host goes down.
    GOING_DOWN = "185c71709ee62b3b7366fc872eabc253", "The host is going down, and Stoker drains",
        "logind has said that a shutdown begins. No new work is taken, and what is lent has its time to end.\n\
         Where `stoker-drain.service` is active it holds the shutdown until nothing is left; elsewhere\n\
         there is only what logind grants (`InhibitDelayMaxSec=`).";
    /// The host stays up.
    STAYS_UP = "33ed56209327da1b6b541e6fb04e26bb", "The host stays up after all",
        "The shutdown that had begun was taken back, so the drain that it brought is taken back as well.";
    /// A shutdown would be too quick.
    SHORT_SHUTDOWN = "8b906110e53f50b005a445db7dcb8da5", "A shutdown would leave leases little time",
        "logind waits for less than a drain takes, and the unit that waits for all of it is not active.\n\
         Either `systemctl enable --now stoker-drain.service`, or set `InhibitDelayMaxSec=` in a file of\n\
         `/etc/systemd/logind.conf.d/` whose name comes last, and tell logind with\n\
         `systemctl kill --signal=HUP systemd-logind`.";
    /// Shutdowns are not heard of.
    UNHEARD_SHUTDOWN = "3628866f2d994da8a64ef51e86986c63", "Stoker cannot hear of shutdowns",
        "logind or the system bus failed; the message says how. It is tried again every minute. A shutdown is\n\
         still held by `stoker-drain.service`, where that is active. Look at `systemctl status systemd-logind dbus`.";
    /// Entries could not be written.
    DROPPED = "03533e835944c125d1353d34e09bc596", "Entries of Stoker were dropped",
        "The journal took no entries for so long that some had to be dropped: @STOKER_COUNT@ are missing\n\
         before this one. Decisions were not held up by it. Look for a stuck or overloaded journald:\n\
         `systemctl status systemd-journald`.";
    /// An instance starts.
    INSTANCE_STARTING = "e81976bf1dcc972ae2d81bbdaf3871f2", "An instance of pool @STOKER_POOL@ is being started",
        "A container is made for the pool, because a request waits for it or because fewer are warm than\n\
         wanted. `stokerctl show @STOKER_POOL@` says how many those are.";
    /// An instance is warm.
    INSTANCE_WARM = "8fcb0e36fd48989346e73551f9a5ebd1", "An instance of pool @STOKER_POOL@ is warm",
        "It answered its probe @STOKER_TOOK_MS@ ms after its start was ordered, and can be lent.";
    /// An instance of an earlier daemon is warm.
    INSTANCE_FOUND = "0f2853301ec03386e99255db30e03bc7", "An instance of pool @STOKER_POOL@ was taken over",
        "It was warm when the daemon before this one ended, and it answers: it can be lent as before.";
    /// A start failed.
    INSTANCE_START_FAILED = "900e9bff5f724b0e913905baad811c6d", "An instance of pool @STOKER_POOL@ could not be started",
        "What was made of it is removed. Further starts of the pool wait, a little longer after each failure\n\
         in a row; requests go on waiting until their own deadline.\n\
         The message says what failed. Where it names an image, build or load that image on this host; where\n\
         it says that the instance was not ready in time, run its image by hand and look at what it prints, or\n\
         raise `start_timeout`.";
    /// An instance is stopped.
    INSTANCE_STOPPING = "3eedae997d2499e7558752a03c65e795", "An instance of pool @STOKER_POOL@ is being stopped",
        "The reason is `@STOKER_REASON@`. `used`: its lease ended, and what was used is destroyed. `aged`: it\n\
         was warm for `warm.max_age`. `surplus`: more were warm than wanted. `outbid`: the host has not room for\n\
         all stock, and one of another pool is needed more. `drain`: an operator or a\n\
         shutdown empties the pool. `outdated`: a reload changed what instances of the pool are made from.\n\
         `removed`: a reload took the pool away. `pressure`: the host is short of memory.\n\
         `died`, `out_of_memory`, `unanswering`, `start_failed`: it was of no use any more.\n\
         `unknown`: a container with the labels of this host that no record knows.";
    /// An instance would not go.
    INSTANCE_STUCK = "1ef9dfafdf60b0facecb57abb396b5f1", "An instance of pool @STOKER_POOL@ will not go",
        "The engine could not stop or remove its container at try @STOKER_COUNT@. It is tried again, with\n\
         longer pauses, and the instance counts against every limit until it is gone.\n\
         Look at what the engine says of it: `docker ps -a --filter label=stoker.instance=@STOKER_INSTANCE@`.\n\
         A process that hangs in the kernel (state D) ends only with its device or with the host.";
    /// The kernel killed processes.
    OUT_OF_MEMORY = "3b0e5c6f0c6b4f6f9a2f4a0d8c1e7b95", "The kernel killed processes of an instance of pool @STOKER_POOL@",
        "Memory was at its end, and @STOKER_COUNT@ processes were killed. `own`: the instance wanted more than\n\
         the pool's `memory_max`; raise that where its work needs it. `above`: the limit of all containers or\n\
         the host itself was reached, and it may be that others wanted more; then the reserve of the host, or\n\
         `memory_expect` of a pool, is too small. What was killed may be a part only, such as a page of a\n\
         browser: the lease goes on, and shows it as `oom_kills`. An idle instance is replaced.";
    /// An instance is gone.
    INSTANCE_GONE = "d686549a406a6b75da8bb37de9b088f6", "An instance is gone",
        "Nothing of its container is left, and its slot is free.";
    /// A request waits.
    LEASE_QUEUED = "bbfac152c614d208f163dc1ae6c44fd7", "A request for pool @STOKER_POOL@ waits",
        "No instance was warm. `stokerctl show @STOKER_LEASE@` shows its place and what it waits for.";
    /// A request was sent on to another pool.
    LEASE_DEGRADED = "5f0c1d8e9a7b4263b1e4d2c85a90f731", "A request for pool @STOKER_DEGRADED_FROM@ was sent on to pool @STOKER_POOL@",
        "What of the host's state a start depends on is not known; the message says what. Pool\n\
         @STOKER_DEGRADED_FROM@ says `without_telemetry = { use = \"@STOKER_POOL@\" }`, or the way there does. The lease\n\
         stays in this pool when the host's state is known again, and names the one that was asked.";
    /// A lease was granted.
    LEASE_GRANTED = "e1b22a2d3d9f1be445b6ccd166e36dc8", "A lease of pool @STOKER_POOL@ was granted",
        "Tenant @STOKER_TENANT@ has instance @STOKER_INSTANCE@ for itself, @STOKER_WAITED_MS@ ms after asking.";
    /// A lease waits for a person.
    LEASE_HELD = "18c3c13e66d4414b9fd06a8f83623fb6", "A lease of pool @STOKER_POOL@ waits for a person",
        "Its caller said what for: see the message. It keeps its instance and its memory, and is not idle. It ends\n\
         after @STOKER_TOOK_MS@ ms unless `stokerctl resume @STOKER_LEASE@` comes before.";
    /// A lease goes on.
    LEASE_RESUMED = "838b4ac3b63f430385cba71e04cefa5d", "A lease of pool @STOKER_POOL@ goes on",
        "A person has done what it waited for, after @STOKER_WAITED_MS@ ms. Its idle time begins anew.";
    /// A lease may not wait for a person.
    HOLD_REFUSED = "b5a20133f5ce4b3dac0e9e39c792031a", "A lease of pool @STOKER_POOL@ may not wait for a person",
        "As many leases as may are waiting for one: the limit is `@STOKER_REASON@`, and @STOKER_HAVE@ may be. The\n\
         lease goes on as before. `max_holds` is a key of the pool, and one of the tenant.";
    /// A lease gets no permit.
    PERMIT_REFUSED = "295019322d024d0498c00a94bb394780", "A lease of pool @STOKER_POOL@ may not call its provider now",
        "The provider's rate is used up, it throttles, or as many permits as may are waited for (`max_waiting`). The\n\
         caller was told when to ask again. `stokerctl providers` shows how each provider stands.";
    /// A provider throttles.
    PROVIDER_THROTTLED = "786b2a3360b34246a61aa2b848d3a5bc", "A provider throttles, and is called less",
        "A caller reported it. Half of the rate used before is used now, and nothing for as long as the provider\n\
         asked for, up to ten minutes; where it is not reported again all of it is back within three minutes of\n\
         that. More workers would make it worse. Where this comes again and again, lower its `rate` or `burst`.";
    /// A provider has its rate again.
    PROVIDER_BACK = "d0d35786944c48c2ba6c2c24de632a7b", "All of a provider's rate is used again",
        "It has not throttled for a while.";
    /// A lease ended.
    LEASE_ENDED = "bad2407b0e3fe606bc99aacfcb5571d1", "A lease of pool @STOKER_POOL@ ended: @STOKER_STATE@",
        "The reason is `@STOKER_REASON@`. Its story is `stokerctl logs @STOKER_LEASE@`. Where leases end by\n\
         `first_use_timeout`, `idle_timeout`, `max_runtime` or `hold` and should not, those keys of the pool\n\
         are too short, or the caller does not release what it has done with.";
    /// A request was refused.
    REQUEST_REFUSED = "c0f295fa4c14e0c8f813a20494752655", "A request for pool @STOKER_POOL@ was refused: @STOKER_REASON@",
        "The limit `@STOKER_REASON@` kept it from being granted or queued; its caller was told so, with the\n\
         numbers and when to try again. The message has the numbers too. More of the same within a short\n\
         time are counted and said together.";
    /// A drain began.
    DRAIN_BEGAN = "c24f4800bea6a9137fd5df99f7b639da", "A drain began",
        "No new work is taken. What runs may end by itself until the window is over, and is interrupted\n\
         then. `stokerctl status` shows what is still there; `stokerctl undrain` takes it back.";
    /// A drain is done.
    DRAINED = "8b3b93ebd959fee95dd8172b5a99d39a", "A drain has emptied what it was for",
        "Nothing is left. It stays that way until `stokerctl undrain`.";
    /// A drain was taken back.
    UNDRAINED = "856b1f01c045ed7244e34080c4ae13d0", "A drain was taken back",
        "Work is taken again, and pools warm up.";
    /// A reload changed something.
    PROFILE_CHANGED = "64c27b6534f08ebcddc5cb79d73cb333", "A reload changed the host profile",
        "The message has the key, what it was and what it is. It holds for what is decided from here on; a\n\
         lease keeps the deadlines that it was asked for with. `stokerctl profile show` says which file it is from.";
    /// A reload is done.
    PROFILE_RELOADED = "02526f0e80ce54011239c7a33989d6d7", "The host profile was loaded anew",
        "@STOKER_COUNT@ keys, classes or pools have changed; each is an entry of its own before this one.\n\
         Warm instances of an older template are exchanged one at a time: `stokerctl pools` shows what remains.";
    /// A reload was refused.
    PROFILE_REFUSED = "82531047127c436c53b03eb1f38e54d1", "A new host profile was not used",
        "The daemon goes on with the one it had, and nothing has changed. The reason is `@STOKER_REASON@`.\n\
         `bad_profile`: it has mistakes, which `stokerctl profile check` shows with their lines and hints.\n\
         `cannot_change`: it changes what only a restart can change, such as the host's name.";
    /// A removed pool is gone.
    POOL_GONE = "1795bb6b80ccef26a82d9dd8f4740590", "Pool @STOKER_POOL@ is gone",
        "A reload took it out of the host profile, and now the last of its instances is gone, too.";
    /// The engine answers.
    ENGINE_BACK = "6784fa68592cc63f18be732ae56423be", "The container engine answers",
        "Instances can be started and stopped. All of ours were listed, and what had changed is known.";
    /// The engine does not answer.
    ENGINE_LOST = "0809644a6b1884a51ac871c658acd593", "The container engine does not answer",
        "Nothing is started until it does, and nothing is taken for dead: running leases go on, and warm\n\
         instances are still lent. Look at it with `systemctl status docker` and `journalctl -u docker`.";
    /// The host cannot be measured.
    TELEMETRY_LOST = "1ec24c351e0750e8b501b5dd30dda9ca", "The host's memory is not known",
        "What cannot be measured is never taken for free, so nothing is started until it can be read\n\
         again, but for pools that say otherwise (`without_telemetry`). The message names the source;\n\
         `/proc/meminfo` and `/proc/stat` must be readable to stokerd.";
    /// The host can be measured again.
    TELEMETRY_BACK = "778086881a067da810afe244c6212dab", "The host's memory is known again",
        "Starts go on.";
    /// A disk is nearly full.
    DISK_LOW = "86503b6772534754933ab3f649bd67d4", "A disk is nearly full: @STOKER_REASON@",
        "@STOKER_NEED@ @STOKER_UNIT@ must be free and @STOKER_HAVE@ are. Nothing is started until there is\n\
         room, so that the engine and the store do not break; what runs goes on, and may write on. The\n\
         message says whose disk it is. Look for what fills it: `docker system df`, `du -x`. How much must\n\
         be free is `disk_floor` of the profile.";
    /// The disks have room again.
    DISK_ROOM = "90afe8b6b74d47a38856319c5f6c9712", "The disks have room again",
        "Starts go on.";
    /// The level of memory pressure moved.
    PRESSURE = "ba2a930b830f0812fa9dec7b10decdad", "Memory pressure is @STOKER_STATE@",
        "@STOKER_HAVE@ bytes are available, and @STOKER_NEED@ (the floor) must remain. `calm`: all is well,\n\
         and stock returns step by step. `tight`: nothing is started, and what is warm is given up one by\n\
         one. `critical`: less than half of the floor is left, and leases that hold more than was expected of\n\
         them may be ended. Look for who takes the memory: `stokerctl status`, `systemd-cgtop -m`. Where it\n\
         is the host's own services, raise the profile's `reserve`.";
    /// Relief asks for memory.
    RELIEF_ASKS = "95b32136837c89a2388636033d3fb6ee", "Relief asks idle instances to give memory back",
        "The host is short of memory: @STOKER_HAVE@ bytes are available, @STOKER_NEED@ must remain. The\n\
         kernel takes from @STOKER_COUNT@ warm instances what it can (`memory.reclaim`), before any of them\n\
         is ended.";
    /// Relief ends an instance.
    RELIEF_ENDS = "77dd902954c25060b1e7b011718b77f3", "Relief ends an instance of pool @STOKER_POOL@: @STOKER_REASON@",
        "The host is short of memory: @STOKER_HAVE@ bytes are available, @STOKER_NEED@ must remain, and this\n\
         instance holds @STOKER_HELD@. The order is: `refill` and `surplus`, `stock` (nobody uses them),\n\
         `past_promise` (a lease that lives on renewals), `interruptible` (the pool says `on_pressure =\n\
         \"interrupt\"`), and at the critical level `outgrown` (the lease furthest above its envelope);\n\
         leases of class interactive come last.";
    /// The ceilings stand.
    CEILINGS_STAND = "3fba76eed9932e96081b22234930dfc5", "All containers together have a hard limit",
        "The kernel lets the containers in stoker.slice have no more memory than the message says: the host's\n\
         total less the profile's `reserve` and what containers cost outside the slice.";
    /// A ceiling does not stand.
    CEILINGS_REFUSED = "df7a49917cd86095bb91a800e0cc1843", "A limit on all containers together could not be set",
        "The message says which, and why. The sums of admission and each container's own limits keep the\n\
         reserve all the same; what is missing is the kernel's word for it. It is tried again.";
    /// Records cannot be written.
    STORE_LOST = "336ba343abcc0798a8cb80b435913c58", "Stoker cannot write its records",
        "What is lent must be known to the next stokerd, so nothing is lent and nothing is started until\n\
         records can be written again; callers are refused with `not_recorded`. What runs goes on, and what\n\
         ended meanwhile is written later. Look for room on the disk of the state's folder: `df /var/lib/stoker`.";
    /// Records can be written again.
    STORE_BACK = "1c324e15f79e5d7b1d03a1326b18dbce", "Stoker writes its records again",
        "Instances are lent and started again. Nothing else is to be done.";
    /// An earlier daemon's leases and instances go on.
    RECOVERED = "5124e22c42bd1e9c08dcdb684286497b", "Stoker goes on with what an earlier one left",
        "Leases and instances that were written down before this start are taken over; callers keep their\n\
         leases, and warm instances stay. What could not go on has an entry of its own.";
    /// A line that an instance wrote.
    OUTPUT = "50b0540343ec2bfd046c3e44d313601d", "An instance of pool @STOKER_POOL@ wrote a line",
        "The pool's profile says `journal_output = true`, so what its containers write comes here, @STOKER_STREAM@\n\
         of instance @STOKER_INSTANCE@ in this case. The words are the instance's and not Stoker's.";
    /// Lines of an instance were dropped.
    OUTPUT_DROPPED = "fe536685851fbe294890b1812aaeaf7f", "Lines of an instance of pool @STOKER_POOL@ were dropped",
        "It wrote faster than the journal is to be filled: @STOKER_COUNT@ lines are missing here. The instance\n\
         itself was not slowed down. `docker logs` has them while its container exists, within that\n\
         log's own bound.";
}

/// The kind of a transition.
pub fn of(what: &What) -> &'static Message {
    match what {
        What::InstanceStarting => &INSTANCE_STARTING,
        What::InstanceWarm(_) => &INSTANCE_WARM,
        What::InstanceFound => &INSTANCE_FOUND,
        What::InstanceStartFailed(_) => &INSTANCE_START_FAILED,
        What::InstanceStopping(_) => &INSTANCE_STOPPING,
        What::InstanceStuck(..) => &INSTANCE_STUCK,
        What::OutOfMemory(_) => &OUT_OF_MEMORY,
        What::InstanceGone => &INSTANCE_GONE,
        What::LeaseQueued => &LEASE_QUEUED,
        What::LeaseDegraded { .. } => &LEASE_DEGRADED,
        What::LeaseGranted(_) => &LEASE_GRANTED,
        What::LeaseHeld(..) => &LEASE_HELD,
        What::LeaseResumed(_) => &LEASE_RESUMED,
        What::HoldRefused(_) => &HOLD_REFUSED,
        What::PermitRefused(_) => &PERMIT_REFUSED,
        What::ProviderThrottled(..) => &PROVIDER_THROTTLED,
        What::ProviderBack(_) => &PROVIDER_BACK,
        What::LeaseEnded(_) => &LEASE_ENDED,
        What::RequestRefused(_) => &REQUEST_REFUSED,
        What::DrainBegan(_) => &DRAIN_BEGAN,
        What::Drained => &DRAINED,
        What::Undrained => &UNDRAINED,
        What::ProfileChanged(_) => &PROFILE_CHANGED,
        What::ProfileReloaded(_) => &PROFILE_RELOADED,
        What::ReloadRefused(_) => &PROFILE_REFUSED,
        What::PoolGone => &POOL_GONE,
        What::EngineBack => &ENGINE_BACK,
        What::EngineLost(_) => &ENGINE_LOST,
        What::TelemetryLost(_) => &TELEMETRY_LOST,
        What::TelemetryBack => &TELEMETRY_BACK,
        What::DiskLow(_) => &DISK_LOW,
        What::DiskRoom => &DISK_ROOM,
        What::Pressure(..) => &PRESSURE,
        What::ReliefAsks(..) => &RELIEF_ASKS,
        What::ReliefEnds(..) => &RELIEF_ENDS,
        What::CeilingsStand(_) => &CEILINGS_STAND,
        What::CeilingsRefused(_) => &CEILINGS_REFUSED,
        What::StoreLost(_) => &STORE_LOST,
        What::StoreBack => &STORE_BACK,
        What::Recovered { .. } => &RECOVERED,
    }
}

/// The catalog as journald reads it (`/usr/lib/systemd/catalog/stoker.catalog`).
pub fn render() -> String {
    let mut text =
        String::from("# Written by Stoker's own table of messages; see journalctl(1), option -x.\n");
    for Message { id, subject, text: body } in ALL {
        // Writing into a String does not fail.
        let _ = write!(
            text,
            "\n-- {id}\nSubject: {subject}\nDefined-By: Stoker\nDocumentation: man:stokerd(8)\n\n{body}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_of_the_right_shape_and_each_means_one_thing() {
        let ids: BTreeSet<&str> = ALL.iter().map(|message| message.id).collect();
        assert_eq!(ids.len(), ALL.len());
        for id in ids {
            assert!(id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{id}");
        }
    }

    #[test]
    fn every_text_reads_well() {
        for Message { id, subject, text } in ALL {
            assert!(!subject.contains('\n') && !subject.ends_with('.'), "{id}: {subject}");
            assert!(text.ends_with(['.', ':']), "{id}: {text}");
            // A line that begins like a head would end the text.
            for line in text.lines() {
                assert!(
                    line.chars().count() <= 110 && !line.starts_with("-- ") && line.trim() == line,
                    "{id}: {line}"
                );
            }
        }
    }

    /// By journald's own compiler of catalogs, where this machine has it.
    #[test]
    fn journald_takes_the_catalog() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/lib/systemd/catalog");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(root.path().join("var/lib/systemd/catalog")).unwrap();
        std::fs::write(folder.join("stoker.catalog"), render()).unwrap();
        let journalctl = |word: &str| {
            let mut command = std::process::Command::new("journalctl");
            command.arg(format!("--root={}", root.path().display())).arg(word).output()
        };
        let updated = match journalctl("--update-catalog") {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                assert!(std::env::var_os("STOKER_REQUIRE_DOCKER").is_none(), "there is no journalctl");
                return eprintln!("SKIPPED: there is no journalctl here");
            }
            updated => updated.unwrap(),
        };
        assert!(updated.status.success() && updated.stderr.is_empty(), "{updated:?}");
        let listed = String::from_utf8(journalctl("--list-catalog").unwrap().stdout).unwrap();
        assert_eq!(listed.lines().count(), ALL.len(), "{listed}");
        for Message { id, subject, .. } in ALL {
            assert!(listed.contains(&format!("{id} Stoker: {subject}")), "{id} in {listed}");
        }
    }
}
