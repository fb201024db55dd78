//! The arguments of `stokerd`: here and not in its binary, so that its manual page and completions are written from
//! the same table.

use std::path::PathBuf;

use clap::Parser;

use super::exit;

/// Lends the browsers and sandboxes of this host.
///
/// It measures what the host really has, keeps instances of each pool warm, lends them out, and refuses in
/// time what does not fit. SIGTERM ends it and leaves instances alone; `stokerctl drain` empties the host. SIGHUP
/// has it read its profile anew, as `stokerctl reload` does.
#[derive(Debug, Parser)]
#[command(name = "stokerd", version = super::version::version(), after_help = exit::DAEMON_HELP)]
pub struct Arguments {
    /// A host profile instead of this host's layers; several are layers of one, a later over an earlier.
    #[arg(long, value_name = "FILE")]
    pub profile: Vec<PathBuf>,

    /// Where the API is served, unless systemd passes a socket.
    #[arg(long, value_name = "PATH", env = "STOKER_SOCKET", default_value = super::DEFAULT_SOCKET)]
    pub socket: PathBuf,

    /// The container engine: a path, or a `unix://` address.
    #[arg(long, value_name = "ADDRESS", env = "DOCKER_HOST", default_value = "unix:///var/run/docker.sock")]
    pub engine: String,

    /// The folder of what must outlive the daemon; its owner alone may look into it.
    #[arg(long, value_name = "DIR", env = "STATE_DIRECTORY", default_value = super::DEFAULT_STATE)]
    pub state: PathBuf,

    /// Check the profile and end.
    #[arg(long)]
    pub check: bool,
}
