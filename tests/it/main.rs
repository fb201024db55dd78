//! What can be seen from outside the crate.

mod demo;
mod netns_sockets;
