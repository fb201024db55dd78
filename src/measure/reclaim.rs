//! Asking the kernel to take memory back from one cgroup.
//!
//! A write to `memory.reclaim` lasts until so much was taken, or fails when no more can be. It is asked for a
//! little at a time, so that whoever asks can stop.

use std::fs::File;
use std::io::Write;

use crate::quantity::Bytes;

/// The kernel frees so much within milliseconds, or to a slow disk of swap within a tenth of a second.
const PIECE: u64 = 4 << 20;
/// More than one instance has.
const PIECES: u32 = 16 << 10;

/// One cgroup's file, open.
#[derive(Debug)]
pub struct Reclaim(File);

impl Reclaim {
    pub(super) fn new(file: File) -> Reclaim {
        Reclaim(file)
    }

    /// Asks for as long as the kernel gives and `go_on` says so; what was given, in whole pieces.
    pub fn run(mut self, go_on: impl Fn() -> bool) -> Bytes {
        let mut given = 0;
        for _ in 0..PIECES {
            // EAGAIN says that less could be taken than was asked for: there is no more.
            if !go_on() || self.0.write_all(PIECE.to_string().as_bytes()).is_err() {
                break;
            }
            given += PIECE;
        }
        Bytes::new(given)
    }
}
