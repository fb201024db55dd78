#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]
//! What can be seen from outside the crate.

mod engine;
mod host;
mod level;

mod commands;
mod crates;
mod deadlines;
mod demo;
mod docker;
mod docs;
mod drains;
mod engine_away;
mod failures;
mod growth;
mod holds;
mod lives;
mod metrics;
mod mistakes;
mod netns_sockets;
mod output;
mod packaging;
mod pressure;
mod profiles;
mod providers;
mod queues;
mod recovery;
mod reloads;
mod reopens;
mod restarts;
mod scenario;
mod service;
mod shutdown;
mod sim;
mod simulate;
mod stress;
mod tidy;
mod tool;
mod units;
mod walls;
