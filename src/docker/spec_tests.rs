//! The whole order for a container, as the engine reads it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::profile::{ClassName, Deadlines, Network, Warm};
use crate::quantity::{Bytes, MilliCpu, Permille};

#[test]
fn the_whole_order() {
    check_order(&pool(Kind::Sandbox), &facts(CgroupDriver::Systemd, true), |order| {
        insta::assert_snapshot!(lines(order), @r#"
        Cmd: ["sleep","60"]
        Env: ["A=1"]
        Healthcheck: {"Test":["NONE"]}
        Hostname: "0000002a-7"
        Image: "stoker/tiny:latest"
        Labels: {"stoker.boot":"b1","stoker.host":"h1","stoker.instance":"0000002a-7","stoker.kind":"sandbox","stoker.pool":"py","stoker.run":"0000002a","stoker.template":"759c8d97b70b81bf"}
        OpenStdin: false
        StopTimeout: 3
        Tty: false
        User: "1000:1000"
        --
        AutoRemove: false
        CapDrop: ["ALL"]
        CgroupParent: "stoker-sandbox.slice"
        Init: true
        IpcMode: "private"
        LogConfig: {"Config":{"max-file":"2","max-size":"1m"},"Type":"json-file"}
        Memory: 536870912
        MemorySwap: 536870912
        NanoCpus: 500000000
        NetworkMode: "none"
        OomScoreAdj: 300
        PidsLimit: 64
        Privileged: false
        PublishAllPorts: false
        ReadonlyRootfs: true
        RestartPolicy: {"Name":"no"}
        SecurityOpt: ["no-new-privileges"]
        ShmSize: 67108864
        Tmpfs: {"/tmp":"size=67108864,mode=1777,nosuid,nodev,exec"}
        Ulimits: [{"Hard":1024,"Name":"nofile","Soft":1024},{"Hard":0,"Name":"core","Soft":0}]
        "#);
    });
}

#[test]
fn what_differs_by_kind_and_engine() {
    check_order(&pool(Kind::Browser), &facts(CgroupDriver::Cgroupfs, false), |order| {
        let host = &order["HostConfig"];
        assert_eq!(host["CgroupParent"], "/stoker.slice/stoker-browser.slice");
        assert!(host.get("Init").is_none(), "an engine without an init refuses an order for one");
        assert_eq!(host["Tmpfs"]["/tmp"], "size=67108864,mode=1777,nosuid,nodev,noexec");
        assert_eq!(order["Labels"]["stoker.kind"], "browser");
    });
}

#[test]
fn the_hash_changes_with_every_field() {
    type Change = fn(&mut Template);
    let changes: [(&str, Change); 17] = [
        ("nothing", |_| {}),
        ("image", |t| t.image.push('2')),
        ("no command", |t| t.command = None),
        ("an empty command", |t| t.command = Some(Vec::new())),
        ("a command split elsewhere", |t| t.command = Some(vec!["sleep 60".into()])),
        ("env", |t| t.env = [("A".to_owned(), "2".to_owned())].into()),
        ("memory", |t| t.memory_max = Bytes::mib(513)),
        ("cpus", |t| t.cpus = MilliCpu::new(501)),
        ("pids", |t| t.pids += 1),
        ("nofile", |t| t.nofile += 1),
        ("shm", |t| t.shm = Bytes::mib(65)),
        ("tmpfs", |t| t.tmpfs = [("/tmp".to_owned(), Bytes::mib(65))].into()),
        ("read only", |t| t.read_only = false),
        ("user", |t| t.user = None),
        ("network", |t| t.network = Network::Bridge),
        ("probe", |t| t.probe = Probe::DevTools { port: 9222 }),
        ("the probe's words", |t| t.probe = Probe::Command(vec!["true".into(), "x".into()])),
    ];
    let mut seen = BTreeMap::new();
    for (name, change) in changes {
        let mut template = pool(Kind::Sandbox).template;
        change(&mut template);
        let hash = template_hash(&template);
        assert_eq!(hash.len(), 16, "{name}");
        assert_eq!(seen.insert(hash, name), None, "{name} must change the hash");
    }
    // It is written into labels, so a later release must come to the same.
    assert_eq!(template_hash(&pool(Kind::Sandbox).template), "759c8d97b70b81bf");
}

/// One line per field of the order and of its host part, so that the whole can be read at a glance.
fn lines(order: &serde_json::Value) -> String {
    let of = |value: &serde_json::Value| -> String {
        let fields = value.as_object().unwrap();
        let shown = fields.iter().filter(|(name, _)| *name != "HostConfig");
        shown.map(|(name, value)| format!("{name}: {value}\n")).collect()
    };
    // The client's own order of fields is nobody's business.
    let mut order = order.clone();
    order.sort_all_objects();
    of(&order) + "--\n" + &of(&order["HostConfig"])
}

fn check_order(pool: &Pool, facts: &EngineFacts, check: impl FnOnce(&serde_json::Value)) {
    let owner = Owner { host: "h1".into(), boot: "b1".into(), run: 0x2a };
    let order = body(&Order {
        instance: InstanceId { run: 0x2a, count: 7 },
        pool: &PoolName::new("py"),
        spec: pool,
        owner: &owner,
        facts,
    });
    check(&serde_json::to_value(&order).unwrap());
}

pub(in crate::docker) fn pool(kind: Kind) -> Pool {
    Pool {
        kind,
        default_class: ClassName::new("interactive"),
        template: Template {
            image: "stoker/tiny:latest".into(),
            command: Some(vec!["sleep".into(), "60".into()]),
            env: [("A".to_owned(), "1".to_owned())].into(),
            memory_max: Bytes::mib(512),
            cpus: MilliCpu::new(500),
            pids: 64,
            nofile: 1024,
            shm: Bytes::mib(64),
            tmpfs: [("/tmp".to_owned(), Bytes::mib(64))].into(),
            read_only: true,
            user: Some("1000:1000".into()),
            network: Network::None,
            probe: Probe::Command(vec!["true".into()]),
        },
        memory_expect: Bytes::mib(256),
        cpus_expect: MilliCpu::new(500),
        expect_runtime: Duration::from_secs(60),
        target_utilization: Permille::new(700),
        miss_target: Permille::new(50),
        warm: Warm { min: 0, max: 1, max_age: Duration::from_secs(600), keep: Duration::from_secs(600) },
        max_instances: 4,
        provider: None,
        holds: crate::profile::Holds::of_slots(4),
        max_instance_hours: None,
        deadlines: Deadlines {
            start_timeout: Duration::from_secs(30),
            first_use_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            max_runtime: Duration::from_secs(600),
            stop_timeout: Duration::from_millis(2500),
        },
        journal_output: false,
        on_pressure: crate::profile::OnPressure::Keep,
        without_telemetry: crate::profile::WithoutTelemetry::Stop,
        classes: BTreeMap::new(),
    }
}

fn facts(cgroup_driver: CgroupDriver, init: bool) -> EngineFacts {
    EngineFacts {
        version: "20.10.24".into(),
        api_version: "1.41".into(),
        cgroup_version: 2,
        cgroup_driver,
        root_dir: PathBuf::from("/var/lib/docker"),
        live_restore: true,
        init,
        swap_limit: true,
        pids_limit: true,
        warnings: Vec::new(),
    }
}
