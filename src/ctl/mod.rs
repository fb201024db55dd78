//! `stokerctl`: verbs, and how their answers look.
//!
//! Data goes to standard output and talk to standard error, so that `LEASE=$(stokerctl acquire python)` is a
//! lease's name and nothing else. Every verb that reads has `--json`, which prints what the API said.
//!
//! Not here: any decision. The tool asks the daemon, and checks profiles and simulates with the daemon's own code.

pub mod daemon;
pub mod exit;
mod explain;
mod explain_lease;
mod forward;
mod logs;
mod look;
mod operate;
mod profile;
mod reap;
mod simulate;
mod verbs;
pub mod version;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::api::client::{Client, ClientError};
use crate::quantity::parse_duration;

/// Where the daemon serves if nobody says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/stoker.sock";

/// Where the daemon keeps what must outlive it if nobody says otherwise.
pub const DEFAULT_STATE: &str = "/var/lib/stoker";

/// Asks a stokerd: what it has, and for a browser or a sandbox.
#[derive(Debug, Parser)]
#[command(name = "stokerctl", version = version::version(), after_help = exit::HELP, subcommand_required = true)]
struct Arguments {
    /// Where stokerd serves.
    #[arg(long, value_name = "PATH", env = "STOKER_SOCKET", default_value = DEFAULT_SOCKET, global = true)]
    socket: PathBuf,

    /// Print what the API answered, as JSON.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The host, its pools and the leases that live
    Status,
    /// Whether every pool has its smallest stock
    Ready {
        /// Wait so long for it, and show what is being waited for
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        wait: Option<Duration>,
    },
    /// Lend an instance; prints the lease's name
    Acquire(Acquire),
    /// Give leases back: their instances are destroyed
    Release {
        /// The leases
        #[arg(required = true)]
        leases: Vec<String>,
    },
    /// Take leases back, whether they wait or execute
    Cancel {
        /// The leases
        #[arg(required = true)]
        leases: Vec<String>,
    },
    /// Let a lease live at least so long from now
    Renew {
        /// The lease
        lease: String,
        /// How long
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        by: Duration,
    },
    /// Let a lease wait for a person: it keeps its instance, and is not idle
    Hold {
        /// The lease
        lease: String,
        /// What is waited for, in a line
        #[arg(long)]
        reason: String,
        /// For how long at most; the pool's hold.timeout where absent
        #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
        lasting: Option<Duration>,
    },
    /// Let a lease go on that waited for a person
    Resume {
        /// The lease
        lease: String,
    },
    /// All leases, ended ones of the last ten minutes included
    Leases,
    /// All pools
    Pools,
    /// All external providers: their rates, what of them is used, and who waits
    Providers,
    /// Why a pool has what it has, or why a lease waits or has ended, in numbers
    Explain {
        /// The pool
        #[arg(required_unless_present = "lease", conflicts_with = "lease")]
        pool: Option<String>,
        /// A lease instead: where it stands, who is served before it, and what it waits for; or why it ended
        #[arg(long, value_name = "LEASE")]
        lease: Option<String>,
    },
    /// Everything about one lease or one pool
    Show {
        /// A lease or a pool
        name: String,
    },
    /// Run a command in a lease's instance, and end with its exit code
    #[command(after_help = exit::EXEC_HELP)]
    Exec(Exec),
    /// Reach a port of a lease's instance at a local address, until Ctrl-C or the lease's end
    Forward(Forward),
    /// What the journal has of a lease, a pool or an instance (journalctl)
    Logs(logs::Logs),
    /// Take no new work, let running leases end within a window, then reclaim
    Drain(Drain),
    /// Take work again
    Undrain {
        /// One pool; the whole host where absent
        pool: Option<String>,
    },
    /// Have stokerd read its profile anew; shows what has changed
    Reload,
    /// End what is past its deadline while stokerd is down; says nothing where nothing is
    Reap(Reap),
    /// Try a host profile with a workload, in virtual time and without a daemon
    Simulate(simulate::Simulate),
    /// Host profiles
    Profile {
        #[command(subcommand)]
        verb: ProfileVerb,
    },
}

#[derive(Debug, Args)]
struct Acquire {
    /// The pool to lend from
    pool: String,
    /// The class; the pool's own where absent
    #[arg(long)]
    class: Option<String>,
    /// What you call it: asked for again under this name, the answer is the same lease
    #[arg(long, value_name = "NAME")]
    task_id: Option<String>,
    /// The longest wait; the class's max_wait where absent, 0s not to wait
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Do not wait: print the name of a lease that is queued
    #[arg(long = "async")]
    asynchronous: bool,
    /// A shorter life than the pool allows
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_runtime: Option<Duration>,
    /// A shorter idle time than the pool allows
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    idle_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
struct Exec {
    /// The lease
    lease: String,
    /// How long the command may run; what runs longer ends the lease
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    timeout: Duration,
    /// The folder it runs in
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,
    /// Environment on top of the container's
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = setting)]
    env: Vec<(String, String)>,
    /// Read its standard input from here to its end (text, 3 MiB at most)
    #[arg(long, short = 'i')]
    stdin: bool,
    /// The command and its arguments
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct Forward {
    /// The lease
    lease: String,
    /// The port on the instance's own loopback; a browser's DevTools where absent
    #[arg(default_value_t = 9222)]
    port: u16,
    /// The local address; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: std::net::SocketAddr,
}

#[derive(Debug, Args)]
struct Drain {
    /// One pool; the whole host where absent
    pool: Option<String>,
    /// How long running leases may go on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1h")]
    window: Duration,
    /// Wait until nothing is left, and show what is being waited for
    #[arg(long)]
    wait: bool,
    /// The drain ends with this stokerd: the next one takes work, as after a reboot
    #[arg(long)]
    for_now: bool,
}

#[derive(Debug, Args)]
struct Reap {
    /// The folder of the daemon's state
    #[arg(long, value_name = "DIR", env = "STATE_DIRECTORY", default_value = DEFAULT_STATE)]
    state: PathBuf,
    /// The container engine: a path, or a `unix://` address
    #[arg(long, value_name = "ADDRESS", env = "DOCKER_HOST", default_value = "unix:///var/run/docker.sock")]
    engine: String,
}

#[derive(Debug, Subcommand)]
enum ProfileVerb {
    /// Report every mistake of this host's profile, or of these files
    Check {
        /// Layers of one profile, a later over an earlier; this host's where absent
        files: Vec<PathBuf>,
    },
    /// What holds here: each value that is written, with the file and line it comes from
    Show {
        /// Also what is not written, with its default
        #[arg(long)]
        all: bool,
        /// Layers of one profile, a later over an earlier; this host's where absent
        files: Vec<PathBuf>,
    },
}

/// The arguments as clap has them: its manual page and completions are written from them.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Reads `NAME=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses the arguments and does what they say.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match start(arguments) {
        Ok(code) => code,
        Err(error) => exit::report("stokerctl", &error, exit::FAILED),
    }
}

fn start(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let tool = Tool { client: Client::new(arguments.socket), json: arguments.json };
    let otherwise = if matches!(arguments.verb, Verb::Exec(_)) { exit::NOT_RUN } else { exit::FAILED };
    let done = runtime.block_on(tool.run(arguments.verb));
    done.or_else(|error| {
        if let (true, Some(ClientError::Refused(problem))) = (tool.json, error.downcast_ref::<ClientError>())
        {
            tool.print(problem, |_| String::new())?;
        }
        Ok(exit::report("stokerctl", &error, otherwise))
    })
}

/// The tool with what every verb needs.
#[derive(Debug)]
struct Tool {
    client: Client,
    json: bool,
}

impl Tool {
    async fn run(&self, verb: Verb) -> anyhow::Result<ExitCode> {
        match verb {
            Verb::Status => self.status().await,
            Verb::Ready { wait } => self.ready(wait).await,
            Verb::Acquire(acquire) => self.acquire(acquire).await,
            Verb::Release { leases } => self.end_all(&leases, "release").await,
            Verb::Cancel { leases } => self.end_all(&leases, "cancel").await,
            Verb::Renew { lease, by } => self.renew(&lease, by).await,
            Verb::Hold { lease, reason, lasting } => self.hold(&lease, reason, lasting).await,
            Verb::Resume { lease } => self.resume(&lease).await,
            Verb::Leases => self.leases().await,
            Verb::Pools => self.pools().await,
            Verb::Providers => self.providers().await,
            Verb::Explain { pool, lease } => match (pool, lease) {
                (Some(pool), _) => self.explain(&pool).await,
                (None, lease) => self.explain_lease(&lease.unwrap_or_default()).await,
            },
            Verb::Show { name } => self.show(&name).await,
            Verb::Exec(exec) => self.exec(exec).await,
            Verb::Forward(forward) => self.forward(forward).await,
            Verb::Logs(logs) => logs::show(&logs, self.json),
            Verb::Drain(drain) => self.drain(drain).await,
            Verb::Undrain { pool } => self.undrain(pool.as_deref()).await,
            Verb::Reap(reap) => self.reap(&reap).await,
            Verb::Reload => self.reload().await,
            Verb::Simulate(asked) => self.simulate(asked),
            Verb::Profile { verb: ProfileVerb::Check { files } } => self.check_profile(files),
            Verb::Profile { verb: ProfileVerb::Show { all, files } } => self.show_profile(files, all),
        }
    }

    /// Prints an answer: as JSON where that is asked for, else as it looks to people.
    fn print<T: serde::Serialize>(
        &self,
        answer: &T,
        look: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<ExitCode> {
        let text = if self.json {
            format!("{}\n", serde_json::to_string_pretty(answer).context("cannot write JSON")?)
        } else {
            look(answer)
        };
        put(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Data, for standard output. A reader that has left is no failure of ours.
fn put(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Talk, for standard error.
fn say(text: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Progress on standard error: one line that is written over on a terminal, and elsewhere a line whenever
/// what it says changes.
#[derive(Debug, Default)]
struct Progress {
    last: String,
}

impl Progress {
    fn show(&mut self, line: &str) {
        if line == self.last {
            return;
        }
        self.last = line.into();
        let mut err = std::io::stderr().lock();
        let _ = if err.is_terminal() { write!(err, "\r\u{1b}[K{line}") } else { writeln!(err, "{line}") };
        let _ = err.flush();
    }

    fn end(&self) {
        let mut err = std::io::stderr().lock();
        if err.is_terminal() && !self.last.is_empty() {
            let _ = writeln!(err);
        }
    }
}
