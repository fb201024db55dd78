//! The brain: pure, decides, never acts.

pub mod message;
