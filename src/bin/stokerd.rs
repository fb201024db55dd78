//! `stokerd`: the daemon. Arguments in, exit code out.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use stoker::ctl::exit;
use stoker::daemon::{self, Places};
use stoker::{docker, profile, systemd};

/// Lends the browsers and sandboxes of this host.
///
/// It measures what the host really has, keeps instances of each pool warm, lends them out, and refuses in
/// time what does not fit. SIGTERM ends it and leaves instances alone; `stokerctl drain` empties the host.
#[derive(Debug, Parser)]
#[command(name = "stokerd", version, after_help = exit::DAEMON_HELP)]
struct Arguments {
    /// The host profile.
    #[arg(long, value_name = "FILE", default_value = "/etc/stoker/host.toml")]
    profile: PathBuf,

    /// Where the API is served.
    #[arg(long, value_name = "PATH", env = "STOKER_SOCKET", default_value = stoker::ctl::DEFAULT_SOCKET)]
    socket: PathBuf,

    /// The container engine: a path, or a `unix://` address.
    #[arg(long, value_name = "ADDRESS", env = "DOCKER_HOST", default_value = "unix:///var/run/docker.sock")]
    engine: String,

    /// The folder of what must outlive the daemon; its owner alone may look into it.
    #[arg(long, value_name = "DIR", env = "STATE_DIRECTORY", default_value = stoker::ctl::DEFAULT_STATE)]
    state: PathBuf,

    /// Check the profile and end.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.check && !nix::unistd::geteuid().is_root() {
        let error = anyhow::anyhow!("it enters the network namespaces of containers, which needs root");
        return exit::report("stokerd", &error, exit::NO_PERMISSION);
    }
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report("stokerd", &error, exit::UNAVAILABLE),
    }
}

fn start(arguments: Arguments) -> anyhow::Result<()> {
    let profile = profile::read(&arguments.profile)?;
    if arguments.check {
        return Ok(());
    }
    let engine = docker::socket_of(&arguments.engine).with_context(|| {
        format!("`{}` is no local engine: a path or a `unix://` address is", arguments.engine)
    })?;
    systemd::start_logging().context("cannot log")?;
    // Two threads: the loop, and beside it bytes and engine calls. Work is done in containers, not here.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // What blocks is a look into the files of users, once a connection; a crowd of callers shares a few.
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime
        .block_on(daemon::run(profile, Places { socket: arguments.socket, engine, state: arguments.state }))
}
