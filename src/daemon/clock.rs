//! The clock, as the whole daemon knows it: the store's, since what is written down is counted by it.

pub(super) use crate::store::clock::{boot_id, draw_run, now, wall_ms};
