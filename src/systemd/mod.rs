//! What systemd is for a daemon: the journal, the service manager, who opens the socket, logind, and the limits of
//! a [`mod@slice`].
//!
//! Each is there or is not, and the daemon runs without any of them: what is missing is said in plain lines on
//! standard error, to nobody, or not at all. None may keep the daemon waiting: messages to the service manager
//! are sent without waiting, and every question on the bus has a deadline.
//!
//! Deliberately absent: RELOADING. A reload is `stokerctl reload`, whose end is the reload's end.

pub mod catalog;
mod journal;
mod logind;
mod notify;
pub mod slice;
mod socket;

pub use journal::{start_logging, stderr_is_the_journal};
pub use logind::{Lock, Logind, LogindError};
pub use notify::{Notify, Pulse, status_line};
pub use socket::{PassedError, passed_listener};
