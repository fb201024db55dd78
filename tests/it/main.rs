#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]
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
