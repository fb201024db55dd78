//! The journal, where there is one; readable lines on standard error where there is not.
//!
//! Under systemd every entry goes to the journal with its fields as they are named (`STOKER_LEASE`, ...), so
//! that `journalctl STOKER_LEASE=...` finds them, and with the id by which the [`catalog`](super::catalog)
//! explains it. Elsewhere the same entry is one line for people. Only our own words are let through: what
//! libraries log at their own levels may hold bodies of requests.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How the fields of our own entries begin.
const OURS: &str = "stoker_";

/// Sends all that is logged from here on to the journal under this program's name, or to standard error.
///
/// # Errors
/// When it has been called before.
pub fn start_logging(program: &str) -> Result<(), tracing_subscriber::util::TryInitError> {
    let ours = || FilterFn::new(|entry| entry.target().starts_with("stoker"));
    if stderr_is_the_journal()
        && let Ok(journal) = tracing_journald::layer()
    {
        // The crate's own would make a notice of what is mere information.
        let levels = PriorityMappings {
            info: Priority::Informational,
            debug: Priority::Debug,
            ..PriorityMappings::new()
        };
        let journal = journal
            .with_field_prefix(None)
            .with_syslog_identifier(program.into())
            .with_priority_mappings(levels);
        return tracing_subscriber::registry()
            .with(journal.with_filter(LevelFilter::INFO).with_filter(ours()))
            .try_init();
    }
    // The message, and behind it the fields that say whose it is; an id of the catalog says nothing to people.
    let fields = debug_fn(|to, field, value| match field.name() {
        "message" => write!(to, "{value:?}"),
        "message_id" => Ok(()),
        name => write!(to, " {}={value:?}", name.strip_prefix(OURS).unwrap_or(name)),
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .fmt_fields(fields)
        .with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(LevelFilter::INFO).with_filter(ours())).try_init()
}

/// Whether standard error is the journal: systemd names the stream's device and inode (systemd.exec(5)), as the
/// variable may be an earlier process's and the stream another one since.
pub fn stderr_is_the_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let Ok(stat) = nix::sys::stat::fstat(std::io::stderr()) else { return false };
    named == format!("{}:{}", stat.st_dev, stat.st_ino)
}
