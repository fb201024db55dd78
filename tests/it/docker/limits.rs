//! What was promised of every container is what the engine and the kernel hold it to.

use std::time::Duration;

use stoker::docker::{Exec, cgroup_parent};
use stoker::profile::Kind;

use super::live;

#[tokio::test]
async fn the_promised_limits_are_the_real_ones() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    let seen = live.engine.docker.inspect_container(running.container().as_str(), None).await.unwrap();
    let host = seen.host_config.unwrap();
    let config = seen.config.unwrap();
    assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)));
    assert_eq!((host.nano_cpus, host.pids_limit), (Some(500_000_000), Some(64)));
    assert_eq!(host.shm_size, Some(16 << 20));
    assert_eq!((host.privileged, host.readonly_rootfs), (Some(false), Some(true)));
    assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(host.cap_add, None);
    assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
    assert_eq!((host.network_mode.as_deref(), host.ipc_mode.as_deref()), (Some("none"), Some("private")));
    assert_eq!((host.binds, host.mounts, host.devices.unwrap_or_default()), (None, None, vec![]));
    assert!(host.port_bindings.unwrap_or_default().is_empty());
    assert!(host.masked_paths.is_some_and(|paths| !paths.is_empty()), "the engine's own are kept");
    assert_eq!(host.oom_score_adj, Some(300));
    let expected = cgroup_parent(live.docker.facts().cgroup_driver, Kind::Sandbox);
    assert_eq!(host.cgroup_parent, Some(expected));
    assert_eq!(config.user.as_deref(), Some("1000:1000"));
    assert_eq!(config.hostname, Some(live.instance(1).to_string()));
    let labels = config.labels.unwrap();
    for name in ["host", "boot", "run", "pool", "kind", "instance", "template"] {
        assert!(labels.contains_key(&format!("stoker.{name}")), "{name}");
    }
    live.end(1, Duration::ZERO).await;
}

#[tokio::test]
async fn the_kernel_says_the_same_from_inside() {
    let Some(live) = live().await else { return };
    let running = live.run(1).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    for line in
        ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Uid:\t1000\t1000"]
    {
        assert!(status.contains(line), "{line} in {status}");
    }
    let script = "ulimit -n; ulimit -c; ls /sys/class/net; grep ' /tmp ' /proc/mounts | head -1";
    let order = Exec {
        command: ["sh", "-c", script].map(String::from).to_vec(),
        env: std::collections::BTreeMap::new(),
        cwd: None,
        stdin: Vec::new(),
        limit: stoker::quantity::Bytes::mib(1),
        timeout: Duration::from_secs(20),
    };
    let done = live.docker.exec(running.container(), &order).await.unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.starts_with("1024\n0\nlo\ntmpfs /tmp tmpfs rw,nosuid,nodev"), "{said}");
    assert!(said.contains("size=16384k") && !said.contains("noexec"), "{said}");
    live.end(1, Duration::ZERO).await;
}
