//! What can be seen from outside the crate.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

mod demo;
mod netns_sockets;
mod tidy;
