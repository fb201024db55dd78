#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]
//! What can be seen from outside the crate.

mod engine;
mod host;
mod level;

mod commands;
mod deadlines;
mod demo;
mod docker;
mod drains;
mod engine_away;
mod failures;
mod growth;
mod lives;
mod mistakes;
mod netns_sockets;
mod output;
mod pressure;
mod queues;
mod restarts;
mod scenario;
mod sim;
mod tidy;
mod tool;
mod walls;
