//! Where the kernel's trees are, and where in them a process's cgroup is.
//!
//! A host has one of two shapes: unified (cgroup v2, one tree) or legacy (v1, a tree for each controller). A
//! hybrid host, with a v2 tree beside the v1 ones, is legacy here: its memory and processors are with v1.

use std::path::{Component, Path, PathBuf};

use cgroups_rs::fs::Controllers;
use cgroups_rs::fs::hierarchies::{self, UNIFIED_MOUNTPOINT, V1};
use procfs::{FromBufRead, ProcessCGroups};

use super::MeasureError;
use super::file::{Kept, Page, TEXT_MAX};

/// Where `/proc` and the cgroups are: the host's own, or copies for a test.
#[derive(Debug, Clone)]
pub struct Root {
    proc: PathBuf,
    trees: Trees,
}

#[derive(Debug, Clone)]
enum Trees {
    Unified(Tree),
    Legacy(Legacy),
}

/// The trees of v1, those that are mounted; `unified` beside them has the stalls.
#[derive(Debug, Clone)]
struct Legacy {
    memory: Option<Tree>,
    cpuacct: Option<Tree>,
    cpu: Option<Tree>,
    pids: Option<Tree>,
    unified: Option<Tree>,
}

/// A mounted tree of cgroups.
#[derive(Debug, Clone)]
struct Tree {
    /// The directory.
    point: PathBuf,
    /// The cgroup that this directory is; not `/` where only a part of the tree is mounted.
    top: PathBuf,
}

/// Below it are all our containers, as the engine is told (`docker`).
const SLICE: &str = "stoker.slice";

/// The files that hold the hard limits of the slice; each, or why there is none.
#[derive(Debug)]
pub struct SliceLimits {
    /// Bytes.
    pub memory: Result<PathBuf, String>,
    /// The weight of v2, or the shares of v1.
    pub cpu: Result<PathBuf, String>,
    /// Processes and threads.
    pub pids: Result<PathBuf, String>,
    /// Whether the weight is one of v2.
    pub unified: bool,
}

/// The directories of one cgroup; `None` where the host has no such controller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unified(PathBuf),
    Legacy { memory: Option<PathBuf>, cpuacct: Option<PathBuf> },
}

impl Root {
    /// This host's own.
    pub fn host() -> Root {
        let trees = if hierarchies::is_cgroup2_unified_mode() {
            Trees::Unified(Tree { point: UNIFIED_MOUNTPOINT.into(), top: "/".into() })
        } else {
            let mounts = V1::new();
            let tree =
                |controller| mounts.get_mount_point(controller).map(|(point, top)| Tree { point, top });
            // systemd's place for it, and that of every distribution.
            let unified = Path::new(UNIFIED_MOUNTPOINT).join("unified");
            let unified = unified.join("cgroup.procs").exists().then_some(unified);
            Trees::Legacy(Legacy {
                memory: tree(Controllers::Mem),
                cpuacct: tree(Controllers::CpuAcct),
                cpu: tree(Controllers::Cpu),
                pids: tree(Controllers::Pids),
                unified: unified.map(|point| Tree { point, top: "/".into() }),
            })
        };
        Root { proc: "/proc".into(), trees }
    }

    /// Copies: of `/proc`, and of a v2 tree.
    pub fn unified(proc: impl Into<PathBuf>, cgroup: impl Into<PathBuf>) -> Root {
        let tree = Tree { point: cgroup.into(), top: "/".into() };
        Root { proc: proc.into(), trees: Trees::Unified(tree) }
    }

    /// Copies: of `/proc`, and of the v1 trees `memory`, `cpuacct`, `cpu`, `pids` and `unified` within `cgroup`.
    pub fn legacy(proc: impl Into<PathBuf>, cgroup: &Path) -> Root {
        let tree = |name| Some(Tree { point: cgroup.join(name), top: "/".into() });
        let trees = Trees::Legacy(Legacy {
            memory: tree("memory"),
            cpuacct: tree("cpuacct"),
            cpu: tree("cpu"),
            pids: tree("pids"),
            unified: tree("unified"),
        });
        Root { proc: proc.into(), trees }
    }

    pub(super) fn proc(&self) -> &Path {
        &self.proc
    }

    /// Where the slice of all our containers is, or will be.
    pub(super) fn slice(&self) -> Result<Place, String> {
        Ok(match &self.trees {
            Trees::Unified(tree) => Place::Unified(tree.slice()?),
            Trees::Legacy(Legacy { memory, .. }) => {
                Place::Legacy { memory: memory.as_ref().map(Tree::slice).transpose()?, cpuacct: None }
            }
        })
    }

    /// The folder with the slice's stalls, where the host has such.
    pub(super) fn slice_pressure(&self) -> Option<PathBuf> {
        match &self.trees {
            Trees::Unified(tree) => tree.slice().ok(),
            Trees::Legacy(Legacy { unified, .. }) => unified.as_ref()?.slice().ok(),
        }
    }

    /// The files that hold the hard limits of the slice.
    ///
    /// # Errors
    /// Why there are none, in one line.
    pub fn slice_limits(&self) -> Result<SliceLimits, String> {
        let of = |tree: &Option<Tree>, file| match tree {
            Some(tree) => Ok(tree.slice()?.join(file)),
            None => Err(format!("the host has cgroup v1 without the controller of `{file}`")),
        };
        Ok(match &self.trees {
            Trees::Unified(tree) => {
                let dir = tree.slice()?;
                let file = |name| Ok(dir.join(name));
                SliceLimits {
                    memory: file("memory.max"),
                    cpu: file("cpu.weight"),
                    pids: file("pids.max"),
                    unified: true,
                }
            }
            Trees::Legacy(Legacy { memory, cpu, pids, .. }) => SliceLimits {
                memory: of(memory, "memory.limit_in_bytes"),
                cpu: of(cpu, "cpu.shares"),
                pids: of(pids, "pids.max"),
                unified: false,
            },
        })
    }

    /// Where the cgroup of this process is, by the process's own account.
    pub(super) fn place_of(&self, pid: u32, page: &mut Page) -> Result<Place, MeasureError> {
        let file = Kept::open(&self.proc.join(pid.to_string()), "cgroup", TEXT_MAX)
            .map_err(|source| MeasureError::Process { pid, source })?;
        let text = file.read(page).map_err(|unread| MeasureError::Odd { pid, why: unread.0 })?;
        let list = ProcessCGroups::from_buf_read(text.as_bytes())
            .map_err(|_| odd(pid, "the list does not read as one"))?;
        let within = |tree: &Tree, controller| tree.within(pid, path_in(&list, controller, pid)?);
        Ok(match &self.trees {
            Trees::Unified(tree) => Place::Unified(within(tree, None)?),
            Trees::Legacy(Legacy { memory, cpuacct, .. }) => Place::Legacy {
                memory: memory.as_ref().map(|tree| within(tree, Some("memory"))).transpose()?,
                cpuacct: cpuacct.as_ref().map(|tree| within(tree, Some("cpuacct"))).transpose()?,
            },
        })
    }
}

impl Tree {
    fn slice(&self) -> Result<PathBuf, String> {
        match self.top == Path::new("/") {
            true => Ok(self.point.join(SLICE)),
            false => Err(format!("only a part of the tree is mounted at `{}`", self.point.display())),
        }
    }

    /// The directory of the cgroup `path`, which must be a real part of the tree.
    fn within(&self, pid: u32, path: &str) -> Result<PathBuf, MeasureError> {
        // Seen from inside a cgroup namespace, what is outside begins with `..`; joining it would lead astray.
        if Path::new(path).components().any(|part| part == Component::ParentDir) {
            return Err(odd(pid, "its cgroup is outside our namespace"));
        }
        let below = Path::new(path)
            .strip_prefix(&self.top)
            .map_err(|_| odd(pid, "its cgroup is not mounted here"))?;
        if below.as_os_str().is_empty() {
            return Err(MeasureError::NotItsOwn { pid, path: path.to_owned() });
        }
        Ok(self.point.join(below))
    }
}

/// The path that the list has for a v1 controller, or for the v2 tree (`None`).
fn path_in<'list>(
    list: &'list ProcessCGroups,
    controller: Option<&str>,
    pid: u32,
) -> Result<&'list str, MeasureError> {
    let line = list.0.iter().find(|line| match controller {
        Some(controller) => line.controllers.iter().any(|name| name == controller),
        None => line.hierarchy == 0,
    });
    let path = line.map(|line| line.pathname.as_str()).filter(|path| path.starts_with('/'));
    path.ok_or_else(|| odd(pid, "it is in no such tree"))
}

fn odd(pid: u32, why: &str) -> MeasureError {
    MeasureError::Odd { pid, why: why.to_owned() }
}
