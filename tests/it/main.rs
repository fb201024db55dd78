#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]
//! What can be seen from outside the crate.

mod engine;
mod host;
mod level;

mod commands;
mod deadlines;
mod failures;
mod lives;
mod netns_sockets;
mod queues;
mod tidy;
