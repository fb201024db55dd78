//! From a pool to the engine's order for one container: what each gets, and what none ever gets.
//!
//! Pure. Everything that keeps an instance apart from its host is on this page: limits, capabilities,
//! file system, network. Never in any order: a mount of a path of the host, a published port, a privilege,
//! a device, a restart by the engine's own will.

use std::fmt::Write as _;
use std::hash::Hasher as _;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};

use crate::control::message::InstanceId;
use crate::docker::{CgroupDriver, EngineFacts};
use crate::profile::{Kind, Pool, PoolName, Probe, Template};

pub(super) const HOST: &str = "stoker.host";
pub(super) const BOOT: &str = "stoker.boot";
pub(super) const RUN: &str = "stoker.run";
pub(super) const POOL: &str = "stoker.pool";
pub(super) const KIND: &str = "stoker.kind";
pub(super) const INSTANCE: &str = "stoker.instance";
pub(super) const TEMPLATE: &str = "stoker.template";

/// The kernel takes an instance before anything of the host's own, which is at 0 or below. A value below
/// zero needs a capability that an engine inside a container does not have.
const OOM_SCORE_ADJ: i64 = 300;

/// What an instance prints is for finding faults; two files of this size bound it on disk.
const LOG_SIZE: &str = "1m";
const LOG_FILES: &str = "2";

/// Who our containers belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// This host's name; containers of another are never touched.
    pub host: String,
    /// The boot of the host.
    pub boot: String,
    /// The run of the daemon.
    pub run: u32,
}

/// All that one container is made from.
pub(super) struct Order<'a> {
    pub(super) instance: InstanceId,
    pub(super) pool: &'a PoolName,
    pub(super) spec: &'a Pool,
    pub(super) owner: &'a Owner,
    pub(super) facts: &'a EngineFacts,
}

/// The name of an instance's container; unique, as an instance's name is.
pub(super) fn container_name(pool: &PoolName, instance: InstanceId) -> String {
    format!("stoker-{pool}-{instance}")
}

/// The filter for containers of this host's daemon.
pub(super) fn host_filter(owner: &Owner) -> String {
    format!("{HOST}={}", owner.host)
}

/// The filter for containers of one instance.
pub(super) fn instance_filter(instance: InstanceId) -> String {
    format!("{INSTANCE}={instance}")
}

/// The cgroup below which containers of this kind live: the same directory with either driver, as systemd
/// puts `a-b.slice` into `a.slice`.
pub fn cgroup_parent(driver: CgroupDriver, kind: Kind) -> String {
    match driver {
        CgroupDriver::Systemd => format!("stoker-{kind}.slice"),
        CgroupDriver::Cgroupfs => format!("/stoker.slice/stoker-{kind}.slice"),
    }
}

/// The engine's order for one container.
pub(super) fn body(order: &Order<'_>) -> ContainerCreateBody {
    let template = &order.spec.template;
    let stop_seconds = order.spec.deadlines.stop_timeout.as_millis().div_ceil(1000);
    ContainerCreateBody {
        image: Some(template.image.clone()),
        cmd: template.command.clone(),
        env: Some(template.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        user: template.user.clone(),
        hostname: Some(order.instance.to_string()),
        labels: Some(labels(order).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        // Readiness and health are ours to ask; an image's own check would run beside them for ever.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
        stop_timeout: Some(i64::try_from(stop_seconds).unwrap_or(i64::MAX)),
        tty: Some(false),
        open_stdin: Some(false),
        host_config: Some(host_config(order)),
        ..ContainerCreateBody::default()
    }
}

/// The hash of a template in 16 hexadecimal digits: equal for equal templates, different after any change.
pub fn template_hash(template: &Template) -> String {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(canonical(template).as_bytes());
    format!("{:016x}", hasher.finish())
}

fn labels(order: &Order<'_>) -> [(&'static str, String); 7] {
    [
        (HOST, order.owner.host.clone()),
        (BOOT, order.owner.boot.clone()),
        (RUN, format!("{:08x}", order.owner.run)),
        (POOL, order.pool.to_string()),
        (KIND, order.spec.kind.to_string()),
        (INSTANCE, order.instance.to_string()),
        (TEMPLATE, template_hash(&order.spec.template)),
    ]
}

fn host_config(order: &Order<'_>) -> HostConfig {
    let template = &order.spec.template;
    let memory = signed(template.memory_max.get());
    HostConfig {
        memory: Some(memory),
        // Memory and swap together: equal to memory, so there is no swap.
        memory_swap: Some(memory),
        nano_cpus: Some(signed(template.cpus.get().saturating_mul(1_000_000))),
        pids_limit: Some(i64::from(template.pids)),
        shm_size: Some(signed(template.shm.get())),
        ulimits: Some(vec![ulimit("nofile", i64::from(template.nofile)), ulimit("core", 0)]),
        oom_score_adj: Some(OOM_SCORE_ADJ),
        cgroup_parent: Some(cgroup_parent(order.facts.cgroup_driver, order.spec.kind)),
        // An engine without an init refuses the order; the image then reaps its own children.
        init: order.facts.init.then_some(true),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(vec!["no-new-privileges".into()]),
        readonly_rootfs: Some(template.read_only),
        tmpfs: Some(tmpfs(order.spec).collect()),
        network_mode: Some(template.network.as_str().into()),
        publish_all_ports: Some(false),
        ipc_mode: Some("private".into()),
        // The one log driver that every engine has and that can be bounded.
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".into()),
            config: Some(
                [("max-size", LOG_SIZE), ("max-file", LOG_FILES)]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into_iter()
                    .collect(),
            ),
        }),
        // What has ended is for us to see and to remove.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        auto_remove: Some(false),
        ..HostConfig::default()
    }
}

/// The writable folders. Programs may be run from a sandbox's, as that is what a sandbox is for; a browser
/// never runs what it has downloaded, so nobody else does either.
fn tmpfs(pool: &Pool) -> impl Iterator<Item = (String, String)> {
    let exec = match pool.kind {
        Kind::Browser => "noexec",
        Kind::Sandbox => "exec",
    };
    pool.template
        .tmpfs
        .iter()
        .map(move |(path, size)| (path.clone(), format!("size={},mode=1777,nosuid,nodev,{exec}", size.get())))
}

fn ulimit(name: &str, limit: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.into()), soft: Some(limit), hard: Some(limit) }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Every field of a template in one text: names, and values behind their lengths, so that no two templates
/// share a text. Taken apart without `..`, so that a new field is not forgotten.
fn canonical(template: &Template) -> String {
    let Template {
        image,
        command,
        env,
        memory_max,
        cpus,
        pids,
        nofile,
        shm,
        tmpfs,
        read_only,
        user,
        network,
        probe,
    } = template;
    let mut text = String::new();
    field(&mut text, "image", [image]);
    field(&mut text, "command", command.iter().flatten());
    // None and an empty list are two things: the image's own command, and none at all.
    field(&mut text, "commanded", [command.is_some().to_string()]);
    field(&mut text, "env", env.iter().flat_map(|(name, value)| [name, value]));
    field(&mut text, "memory_max", [memory_max.get().to_string()]);
    field(&mut text, "cpus", [cpus.get().to_string()]);
    field(&mut text, "pids", [pids.to_string()]);
    field(&mut text, "nofile", [nofile.to_string()]);
    field(&mut text, "shm", [shm.get().to_string()]);
    field(&mut text, "tmpfs", tmpfs.iter().flat_map(|(path, size)| [path.clone(), size.get().to_string()]));
    field(&mut text, "read_only", [read_only.to_string()]);
    field(&mut text, "user", user.iter());
    field(&mut text, "network", [network.as_str()]);
    match probe {
        Probe::DevTools { port } => field(&mut text, "devtools", [port.to_string()]),
        Probe::Command(command) => field(&mut text, "probe", command),
    }
    text
}

fn field<T: AsRef<str>>(text: &mut String, name: &str, values: impl IntoIterator<Item = T>) {
    text.push_str(name);
    for value in values {
        let value = value.as_ref();
        write!(text, " {}:{value}", value.len()).expect("writing to a string does not fail");
    }
    text.push('\n');
}

#[cfg(test)]
#[path = "spec_tests.rs"]
pub(super) mod tests;
