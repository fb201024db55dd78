//! How full the file systems are that we depend on: the engine's and our own state's.
//!
//! `statvfs` answers from the kernel's memory and needs no permission in the folder itself, only on the way to it. What root
//! alone may still write (five of a hundred on a new ext4) is not counted as free: it is what an operator mends with.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{Statvfs, statvfs};

use crate::control::message::{Disk, Inodes, Read, Unread};
use crate::quantity::Bytes;

/// The folder whose file system is looked at, once it is known.
#[derive(Debug, Default)]
pub(super) struct Folder(Option<PathBuf>);

impl Folder {
    pub(super) fn is_at(&mut self, path: PathBuf) {
        self.0 = Some(path);
    }

    pub(super) fn disk(&self) -> Read<Disk> {
        let path = self.0.as_deref().ok_or_else(|| Unread("nobody has said where it is".into()))?;
        let seen = statvfs(path).map_err(|error| unread(path, error))?;
        disk(&seen).map_err(|why| unread(path, why))
    }
}

fn unread(path: &Path, why: impl std::fmt::Display) -> Unread {
    Unread(format!("cannot tell how full the disk of `{}` is: {why}", path.display()))
}

fn disk(seen: &Statvfs) -> Result<Disk, &'static str> {
    let bytes = |blocks: u64| Bytes::new(blocks.saturating_mul(seen.fragment_size()));
    let (total, free) = (bytes(seen.blocks()), bytes(seen.blocks_available()));
    let inodes = Inodes { total: seen.files(), free: seen.files_available() };
    if total == Bytes::ZERO {
        return Err("the file system says that it has no size");
    }
    // More free than there is would admit what no disk holds.
    if free > total || inodes.free > inodes.total {
        return Err("more of it is free than there is");
    }
    Ok(Disk { total, free, inodes: Some(inodes).filter(|inodes| inodes.total > 0) })
}
