//! What the host has beside memory and processors, and can run out of: processes, and what its disks take.

use crate::quantity::Bytes;

/// Processes and threads of the host: each has a number of its own, and the kernel counts both alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPids {
    /// How many the kernel can have: the lesser of `pid_max` and `threads-max`.
    pub most: u64,
    /// How many there are.
    pub there: u64,
    /// How many of them are in containers of ours.
    pub ours: u64,
}

/// The file system that a folder is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// All of it.
    pub total: Bytes,
    /// What anybody but root can still write.
    pub free: Bytes,
    /// Its inodes; `None` where it makes them as they are needed.
    pub inodes: Option<Inodes>,
}

/// The inodes of a file system: each file and folder needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inodes {
    /// All of them.
    pub total: u64,
    /// Those that anybody but root can still have.
    pub free: u64,
}

/// Whose folder a disk is looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOf {
    /// The engine's, where images and containers are.
    Engine,
    /// Our own, where the store is.
    State,
}
