//! Stoker supervises one bare-metal host that lends browsers and code sandboxes.

pub mod control;
pub mod docker;
pub mod measure;
pub mod netns;
pub mod profile;
pub mod quantity;
