//! `GET /v1/host`: the host, its figures and its limits.

use serde::{Deserialize, Serialize};

use super::{DrainAnswer, EngineBody, FigureBody, drain_answer, figure, millis};
use crate::control::message::{CeilingsView, DiskView, Engine, HostView};
use crate::quantity::{Bytes, MilliCpu};

/// The host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostBody {
    /// Its name.
    pub name: String,
    /// The version of the daemon.
    pub version: String,
    /// How long the daemon has run.
    pub up_ms: u64,
    /// Whether every pool has its smallest stock.
    pub ready: bool,
    /// Whether the container engine answers.
    pub engine: EngineBody,
    /// Memory of the host.
    pub memory: FigureBody<MemoryBody>,
    /// Processors of the host.
    pub cpu: FigureBody<CpuBody>,
    /// Stalled time of all tasks of the host.
    pub pressure: FigureBody<PressureBody>,
    /// How short of memory the host is: `calm`, `tight` or `critical`.
    pub pressure_level: String,
    /// For how long it has been that.
    pub pressure_level_ms: u64,
    /// Processes and threads of the host.
    pub pids: FigureBody<PidsBody>,
    /// The disk of the engine's files.
    pub engine_disk: FigureBody<DiskBody>,
    /// The disk of the daemon's own state.
    pub state_disk: FigureBody<DiskBody>,
    /// What all containers hold together.
    pub containers: FigureBody<ContainersBody>,
    /// The hard limits on all containers together.
    pub ceilings: CeilingsBody,
    /// What containers may have together, where the total is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// What is promised to them.
    pub memory_promised_bytes: u64,
    /// What must remain available, where the total is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_bytes: Option<u64>,
    /// Cold starts under way.
    pub starting: u32,
    /// How many may be now: the most, and less while starts take much longer than one alone.
    pub starting_limit: u32,
    /// The most that may be.
    pub max_starts: u32,
    /// The drain it is under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainAnswer>,
}

/// Memory of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBody {
    /// All of it.
    pub total_bytes: u64,
    /// What could be used without swapping.
    pub available_bytes: u64,
}

/// Processors of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuBody {
    /// How many there are, in thousandths.
    pub cores_millis: u64,
    /// How many were busy.
    pub busy_millis: u64,
}

/// The share of the last ten seconds in which tasks stood still, in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressureBody {
    /// Some task waited for memory.
    pub memory_some_permille: u32,
    /// All tasks waited for memory.
    pub memory_full_permille: u32,
    /// Some task waited for a processor.
    pub cpu_some_permille: u32,
    /// Some task waited for the disk.
    pub io_some_permille: u32,
}

/// What all containers hold together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainersBody {
    /// Memory that the kernel cannot take back; what outlived its container included.
    pub hard_bytes: u64,
}

/// The hard limits on all containers together, as the kernel holds them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeilingsBody {
    /// `unset`, `stand` or `refused`.
    pub state: String,
    /// Why one could not be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The most memory, where they stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The part of busy processors, where they stand; the host's other services together have 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u32>,
}

/// Processes and threads of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PidsBody {
    /// How many the kernel can have.
    pub most: u64,
    /// How many there are.
    pub there: u64,
    /// How many of them are in containers.
    pub in_containers: u64,
    /// How many containers may have together.
    pub limit: u64,
    /// How many the instances may have together.
    pub promised: u64,
}

/// A file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskBody {
    /// All of it.
    pub total_bytes: u64,
    /// What can still be written.
    pub free_bytes: u64,
    /// What must be free for anything to be started.
    pub floor_bytes: u64,
    /// All inodes; absent where they are made as they are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Those of them that can still be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_inodes: Option<u64>,
}

impl From<&HostView> for HostBody {
    fn from(view: &HostView) -> HostBody {
        let now = view.seen_at;
        let detail = match &view.engine {
            Engine::Reachable => None,
            Engine::Unreachable(why) => Some(why.clone()),
        };
        HostBody {
            name: view.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            up_ms: millis(now.since(view.since)),
            ready: view.ready,
            engine: EngineBody { reachable: detail.is_none(), detail },
            memory: figure(&view.memory, now, |memory| MemoryBody {
                total_bytes: memory.total.get(),
                available_bytes: memory.available.get(),
            }),
            cpu: figure(&view.cpu, now, |cpu| CpuBody {
                cores_millis: MilliCpu::get(cpu.cores),
                busy_millis: cpu.busy.get(),
            }),
            pressure: figure(&view.pressure, now, |pressure| PressureBody {
                memory_some_permille: pressure.memory_some.get(),
                memory_full_permille: pressure.memory_full.get(),
                cpu_some_permille: pressure.cpu_some.get(),
                io_some_permille: pressure.io_some.get(),
            }),
            pressure_level: view.shortage.level.code().into(),
            pressure_level_ms: millis(view.shortage.lasting),
            pids: figure(&view.pids, now, |pids| PidsBody {
                most: pids.of.most,
                there: pids.of.there,
                in_containers: pids.of.ours,
                limit: pids.limit,
                promised: pids.promised,
            }),
            engine_disk: figure(&view.engine_disk, now, disk),
            state_disk: figure(&view.state_disk, now, disk),
            containers: figure(&view.slice, now, |slice| ContainersBody { hard_bytes: slice.hard.get() }),
            ceilings: CeilingsBody::from(&view.ceilings),
            memory_limit_bytes: view.memory_limit.map(Bytes::get),
            memory_promised_bytes: view.memory_promised.get(),
            floor_bytes: view.floor.map(Bytes::get),
            starting: view.starts.0,
            starting_limit: view.starts.1,
            max_starts: view.max_starts,
            drain: view.drain.as_ref().map(|drain| drain_answer(drain, now)),
        }
    }
}

impl From<&CeilingsView> for CeilingsBody {
    fn from(view: &CeilingsView) -> CeilingsBody {
        let (state, detail, stand) = match view {
            CeilingsView::Unset => ("unset", None, None),
            CeilingsView::Stand(stand) => ("stand", None, Some(stand)),
            CeilingsView::Refused(why) => ("refused", Some(why.clone()), None),
        };
        CeilingsBody {
            state: state.into(),
            detail,
            memory_bytes: stand.map(|stand| stand.memory.get()),
            cpu_weight: stand.map(|stand| stand.cpu_weight),
        }
    }
}

fn disk(view: &DiskView) -> DiskBody {
    let inodes = view.of.inodes;
    DiskBody {
        total_bytes: view.of.total.get(),
        free_bytes: view.of.free.get(),
        floor_bytes: view.floor.get(),
        inodes: inodes.map(|inodes| inodes.total),
        free_inodes: inodes.map(|inodes| inodes.free),
    }
}
