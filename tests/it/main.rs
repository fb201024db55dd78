//! What can be seen from outside the crate.

mod netns_sockets;
mod scenario;
mod sim;
