//! What an engine says of itself, and whether it can keep what we promise.

use std::path::PathBuf;

use bollard::models::{SystemInfo, SystemInfoCgroupDriverEnum, SystemInfoCgroupVersionEnum, SystemVersion};

/// What the engine puts in place of a version when its init binary does not run.
const NO_INIT: &str = "N/A";

/// What the engine said of itself when we connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    /// Its version, such as `20.10.24+dfsg1`.
    pub version: String,
    /// The newest API it speaks, such as `1.41`.
    pub api_version: String,
    /// The hierarchy its containers live in: 1 or 2.
    pub cgroup_version: u8,
    /// Who makes its cgroups.
    pub cgroup_driver: CgroupDriver,
    /// Where images and containers are on disk.
    pub root_dir: PathBuf,
    /// Whether containers survive an end of the engine; where not, its next start ends them all.
    pub live_restore: bool,
    /// Whether it has a small init to put in front; where not, the image must reap its own children.
    pub init: bool,
    /// Whether the kernel can keep a container from swapping; where not, an instance may exceed `memory_max`.
    pub swap_limit: bool,
    /// Whether the kernel limits processes.
    pub pids_limit: bool,
    /// What it warns of, in its own words.
    pub warnings: Vec<String>,
}

/// Who makes the cgroups of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    /// systemd, as scopes below slices.
    Systemd,
    /// The engine itself, as plain directories.
    Cgroupfs,
}

impl CgroupDriver {
    /// The engine's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            CgroupDriver::Systemd => "systemd",
            CgroupDriver::Cgroupfs => "cgroupfs",
        }
    }
}

impl EngineFacts {
    /// The facts in the engine's own account, or why it cannot be used.
    pub(super) fn of(version: SystemVersion, info: SystemInfo) -> Result<EngineFacts, &'static str> {
        let cgroup_driver = match info.cgroup_driver {
            Some(SystemInfoCgroupDriverEnum::SYSTEMD) => CgroupDriver::Systemd,
            Some(SystemInfoCgroupDriverEnum::CGROUPFS) => CgroupDriver::Cgroupfs,
            Some(SystemInfoCgroupDriverEnum::NONE | SystemInfoCgroupDriverEnum::EMPTY) | None => {
                return Err("it has no cgroups, so no limit of any container would hold");
            }
        };
        if info.memory_limit != Some(true) {
            return Err("it cannot limit memory");
        }
        let cgroup_version = match info.cgroup_version {
            Some(SystemInfoCgroupVersionEnum::_2) => 2,
            // Engines that do not say know only the first.
            Some(SystemInfoCgroupVersionEnum::_1 | SystemInfoCgroupVersionEnum::EMPTY) | None => 1,
        };
        // Its presence shows in the version that the engine got out of it; Debian's prints none at all.
        let broken = info.init_commit.and_then(|commit| commit.id).is_some_and(|id| id == NO_INIT);
        Ok(EngineFacts {
            version: version.version.ok_or("it does not say its version")?,
            api_version: version.api_version.ok_or("it does not say its API version")?,
            cgroup_version,
            cgroup_driver,
            root_dir: info.docker_root_dir.map(PathBuf::from).ok_or("it does not say where its files are")?,
            live_restore: info.live_restore_enabled.unwrap_or(false),
            init: info.init_binary.is_some_and(|binary| !binary.is_empty()) && !broken,
            swap_limit: info.swap_limit.unwrap_or(false),
            pids_limit: info.pids_limit.unwrap_or(false),
            warnings: info.warnings.unwrap_or_default(),
        })
    }
}
