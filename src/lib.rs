//! Stoker supervises one bare-metal Linux host that lends browsers and code sandboxes to AI workers.

pub mod api;
pub mod auth;
pub mod control;
pub mod ctl;
pub mod daemon;
pub mod docker;
pub mod gateway;
pub mod measure;
pub mod netns;
pub mod profile;
pub mod quantity;
pub mod sim;
pub mod systemd;
