//! `stokerd`: the daemon. Arguments in, exit code out.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use stoker::ctl::daemon::Arguments;
use stoker::ctl::exit;
use stoker::daemon::{self, Places};
use stoker::profile::Layers;
use stoker::{docker, systemd};

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
    let layers = Layers::of(arguments.profile);
    let profile = layers.read()?.profile;
    if arguments.check {
        return Ok(());
    }
    let engine = docker::socket_of(&arguments.engine)?;
    systemd::start_logging("stokerd").context("cannot log")?;
    let passed = systemd::passed_listener()?;
    // Two threads: the loop, and beside it bytes and engine calls. Work is done in containers, not here.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // What blocks is a look into the files of users, once a connection; a crowd of callers shares a few.
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let places = Places { socket: arguments.socket, passed, engine, state: arguments.state };
    runtime.block_on(daemon::run(profile, layers, places))
}
