//! What the journal has of a lease, a pool or an instance, by journalctl(1): it reads, pages, follows and
//! explains; the verb only knows which field a name belongs to.
//!
//! Any program may write any field to the journal, so only entries of root's are asked for: stokerd runs as root.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use clap::Args;

use crate::control::message::InstanceId;

/// The field with a pool's name.
const POOL: &str = "STOKER_POOL";

/// Which entries, and how they are shown.
#[derive(Debug, Args)]
pub(super) struct Logs {
    /// A lease, a pool or an instance; all of stokerd's entries where absent
    name: Option<String>,
    /// Go on with what comes
    #[arg(long, short)]
    follow: bool,
    /// Only the last so many entries
    #[arg(long, short = 'n', value_name = "COUNT")]
    lines: Option<u32>,
    /// Add to each entry what it means and what to do, where the catalog is installed
    #[arg(long, short = 'x')]
    explain: bool,
    /// More for journalctl, such as `-- --since -1h --output cat`
    #[arg(last = true)]
    more: Vec<String>,
}

/// Becomes journalctl.
///
/// # Errors
/// When there is none.
pub(super) fn show(logs: &Logs, json: bool) -> anyhow::Result<ExitCode> {
    if let Some(unknown) = logs.name.as_deref().and_then(unknown_pool) {
        super::say(&unknown);
    }
    let mut command = Command::new("journalctl");
    command.args(arguments(logs, json));
    // On success this program is another one from here on.
    let error = command.exec();
    Err(error).context("cannot run journalctl, which reads systemd's journal; without systemd stokerd writes to its standard error")
}

/// What there is to say of a name that stands nowhere in the journal and may be mistyped. Only pools are looked for: a
/// journal has few of them, and any number of leases and instances.
fn unknown_pool(name: &str) -> Option<String> {
    if field(name) != POOL {
        return None;
    }
    let known =
        Command::new("journalctl").args(["--quiet", "--field", POOL]).stderr(Stdio::null()).output().ok()?;
    not_among(name, &String::from_utf8_lossy(&known.stdout))
}

fn not_among(name: &str, known: &str) -> Option<String> {
    let mut known: Vec<_> = known.lines().collect();
    known.sort_unstable();
    if known.contains(&name) {
        return None;
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Some(format!("stokerctl: no lease, instance or pool `{name}` is in the journal; pools that are: {known}"))
}

fn arguments(logs: &Logs, json: bool) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |word: &str| all.push(word.to_owned());
    if logs.follow {
        add("--follow");
    }
    if let Some(lines) = logs.lines {
        add(&format!("--lines={lines}"));
    }
    if logs.explain {
        add("--catalog");
    }
    if json {
        add("--output=json");
    }
    logs.more.iter().for_each(|word| add(word));
    add("_UID=0");
    match &logs.name {
        // Also what `stokerctl reap` has ended.
        Some(name) => add(&format!("{}={name}", field(name))),
        None => add("SYSLOG_IDENTIFIER=stokerd"),
    }
    all
}

/// The field that has such a name. Pools have no names of the other shapes by chance: a lease's ends with the
/// first 8 digits of a boot and 24 drawn ones, an instance's begins with the 8 digits of a run.
fn field(name: &str) -> &'static str {
    let hex = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts = name.rsplit('-');
    let (drawn, boot) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if hex(drawn, 24) && hex(boot, 8) {
        "STOKER_LEASE"
    } else if name.parse::<InstanceId>().is_ok() {
        "STOKER_INSTANCE"
    } else {
        POOL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_where_it_stands() {
        assert_eq!(field("b07-3f2a9c01-0123456789abcdef01234567"), "STOKER_LEASE");
        assert_eq!(field("0000002a-7"), "STOKER_INSTANCE");
        assert_eq!(field("chromium"), "STOKER_POOL");
        assert_eq!(field("python-3"), "STOKER_POOL");
        let unknown = not_among("chrmium", "python\nchromium\n").unwrap();
        assert_eq!(
            unknown,
            "stokerctl: no lease, instance or pool `chrmium` is in the journal; pools that are: chromium, python"
        );
        assert_eq!(not_among("chromium", "python\nchromium\n"), None);
        let logs = Logs {
            name: Some("chromium".into()),
            follow: true,
            lines: Some(5),
            explain: true,
            more: vec!["--since".into(), "-1h".into()],
        };
        let wanted = "--follow --lines=5 --catalog --output=json --since -1h _UID=0 STOKER_POOL=chromium";
        assert_eq!(arguments(&logs, true).join(" "), wanted);
    }
}
