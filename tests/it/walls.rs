//! What keeps an instance apart from its host: as the engine was told, and as it looks from inside.

use std::collections::BTreeMap;

use crate::host::{BROWSER, Host, SANDBOX};

#[tokio::test]
async fn from_inside_there_is_nothing_to_take_hold_of() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    let status = host.sh(&lease.id, "cat /proc/1/status /proc/self/status").await.stdout;
    let every = |line: &str| status.matches(line).count();
    assert_eq!(every("Uid:\t1000\t1000\t1000\t1000"), 2, "{status}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(every(&format!("{set}:\t0000000000000000")), 2, "{set} in {status}");
    }
    assert_eq!(every("NoNewPrivs:\t1"), 2, "{status}");
    assert_eq!(every("Seccomp:\t2"), 2, "{status}");

    for (script, expected) in [
        ("touch /here 2>&1", "touch: /here: Read-only file system\n"),
        ("touch /tmp/here && echo writable", "writable\n"),
        ("ls /sys/class/net", "lo\n"),
        ("find / -name 'docker*.sock' -o -name 'containerd*.sock' 2>/dev/null", ""),
        ("ulimit -n; ulimit -c", "1024\n0\n"),
        ("chroot / true 2>&1", "chroot: can't change root directory to '/': Operation not permitted\n"),
        ("mount -t tmpfs none /tmp 2>&1; echo $?", "mount: permission denied (are you root?)\n1\n"),
        (
            "nc -w 2 1.1.1.1 80 2>&1 </dev/null",
            "nc: can't connect to remote host (1.1.1.1): Network is unreachable\n",
        ),
        ("[ $(ls -d /proc/[0-9]* | wc -l) -lt 10 ] && echo alone", "alone\n"),
    ] {
        assert_eq!(host.sh(&lease.id, script).await.stdout, expected, "{script}");
    }
    let mounts = host.sh(&lease.id, "cat /proc/self/mounts").await.stdout;
    // The three files that the engine writes for each container, kernel file systems, and memory.
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let engines = ["/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/dev/init", "/sbin/docker-init"];
        let kernels = ["overlay", "proc", "tmpfs", "devpts", "sysfs", "cgroup", "cgroup2", "mqueue"];
        assert!(kernels.contains(&words[2]) || engines.contains(&words[1]), "{line}");
    }
    assert!(mounts.starts_with("overlay / overlay ro,"), "{mounts}");
}

#[tokio::test]
async fn too_many_processes_are_refused_by_the_kernel() {
    let Some(host) = Host::with(&format!("{SANDBOX}pids = 16")).await else { return };
    let lease = host.acquire("sandbox").await;
    let ran = host.sh(&lease.id, "for i in $(seq 40); do sleep 30 & done; echo never").await;
    assert!(!ran.stdout.contains("never") && ran.stderr.contains("can't fork"), "{ran:?}");
    let other = host.acquire("sandbox").await;
    assert_eq!(host.sh(&other.id, "true").await.exit_code, Some(0), "nobody else feels it");
}

#[tokio::test]
async fn memory_ends_where_the_profile_says() {
    let Some(host) = Host::with(SANDBOX).await else { return };
    let lease = host.acquire("sandbox").await;
    // More than the 32 MiB that it has, and there is no swap to go to.
    let ran = host.sh(&lease.id, "head -c 200000000 /dev/zero | tail -c 150000000 | wc -c").await;
    assert_ne!(ran.stdout, "150000000\n");
    let ran = host.sh(&lease.id, "head -c 100000000 /dev/zero > /tmp/full; wc -c < /tmp/full").await;
    assert_eq!(ran.stdout, format!("{}\n", 4 << 20), "a folder in memory has its size");
}

#[tokio::test]
async fn the_engine_was_told_every_limit() {
    let Some(host) = Host::with(&format!("{SANDBOX}{BROWSER}")).await else { return };
    for (pool, kind) in [("sandbox", "sandbox"), ("browser", "browser")] {
        let lease = host.acquire(pool).await;
        let instance = lease.instance.unwrap();
        let seen = host.engine.inspect(&instance).await;
        let config = seen.config.unwrap();
        let limits = seen.host_config.unwrap();
        assert_eq!((limits.memory, limits.memory_swap), (Some(32 << 20), Some(32 << 20)), "no swap");
        let pids = if pool == "browser" { 1024 } else { 256 };
        assert_eq!((limits.nano_cpus, limits.pids_limit), (Some(100_000_000), Some(pids)));
        assert_eq!((limits.privileged, limits.readonly_rootfs), (Some(false), Some(true)));
        assert_eq!((limits.cap_drop, limits.cap_add), (Some(vec!["ALL".into()]), None));
        assert_eq!(limits.security_opt, Some(vec!["no-new-privileges".into()]));
        assert_eq!(
            (limits.network_mode.as_deref(), limits.ipc_mode.as_deref()),
            (Some("none"), Some("private"))
        );
        assert_eq!((limits.binds, limits.mounts, limits.devices.unwrap_or_default()), (None, None, vec![]));
        assert!(limits.port_bindings.unwrap_or_default().is_empty());
        let parent = limits.cgroup_parent.unwrap();
        assert!(parent.ends_with(&format!("stoker-{kind}.slice")), "{parent}");
        assert_eq!(limits.oom_score_adj, Some(300));

        let labels: BTreeMap<_, _> = config.labels.unwrap().into_iter().collect();
        let label = |name: &str| labels[&format!("stoker.{name}")].as_str();
        assert_eq!((label("host"), label("pool"), label("kind")), (host.name.as_str(), pool, kind));
        assert_eq!(label("instance"), instance);
        assert!(instance.starts_with(label("run")));
        assert_eq!((label("template").len(), label("boot").len()), (16, 36));

        // The kernel agrees.
        let cgroups = std::fs::read_to_string(format!("/proc/{}/cgroup", seen.state.unwrap().pid.unwrap()));
        let cgroups = cgroups.unwrap();
        assert!(cgroups.contains(&format!("/stoker.slice/stoker-{kind}.slice/")), "{cgroups}");
    }
}
