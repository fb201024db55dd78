//! One host under test: a `stokerd` of its own with a profile, a socket and a name of its own, on the engine
//! that all tests share; and its `stokerctl`.
//!
//! Containers carry the host's name, so tests never see each other's. When a [`Host`] goes, its daemon is told to
//! end, its containers are removed, and the test fails if the daemon panicked or logged an error. Whatever
//! the daemon said is shown when a test fails.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bollard::models::ContainerSummary;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use stoker::api::client::{Client, ClientError};
use stoker::api::problem::Problem;
use stoker::api::wire::{AcquireBody, ExecAnswer, ExecBody, HostBody, LeaseBody, Leases, PoolBody};
use tempfile::TempDir;
use tokio::net::UnixStream;

use crate::engine::{Engine, TINY, remove_all};
use crate::level::{LIMIT, until};

/// A sandbox that sleeps, small enough for dozens on a small host.
pub(crate) const SANDBOX: &str = r#"
[pool.sandbox]
kind = "sandbox"
image = "stoker/tiny:latest"
command = ["sleep", "2147483647"]
memory_max = "32MiB"
memory_expect = "4MiB"
cpus = "0.1"
shm = "4MiB"
tmpfs = { "/tmp" = "4MiB" }
nofile = 1024
"#;

/// What looks like a browser as far as readiness goes.
pub(crate) const BROWSER: &str = r#"
[pool.browser]
kind = "browser"
image = "stoker/tiny:latest"
memory_max = "32MiB"
memory_expect = "4MiB"
cpus = "0.1"
shm = "4MiB"
tmpfs = { "/tmp" = "4MiB" }
nofile = 1024
"#;

/// A daemon and all that is its.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) client: Client,
    folder: TempDir,
    daemon: Option<Child>,
}

/// What a program said, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// An answer with all that HTTP says.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Host {
    /// A host with these pools and classes, whose daemon serves; `None`, aloud, where there is no engine.
    pub(crate) async fn with(pools: &str) -> Option<Host> {
        let engine = Engine::with(TINY).await?;
        Some(Host::on(engine, pools).await)
    }

    /// The same on this engine.
    pub(crate) async fn on(engine: Engine, pools: &str) -> Host {
        let mut host = Host::silent(engine, pools);
        host.launch();
        host.until_it_serves().await;
        host
    }

    /// A host whose daemon has not been started.
    pub(crate) fn silent(engine: Engine, pools: &str) -> Host {
        static HOSTS: AtomicU32 = AtomicU32::new(0);
        let count = HOSTS.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::Builder::new().prefix("stoker-").tempdir().expect("there is room");
        let name = format!("it-{}-{count}", std::process::id());
        let client = Client::new(folder.path().join("socket"));
        // Reserves as small as they may be: the tests' hosts share one machine and each believes it is alone.
        let profile = format!(
            "[host]\nname = \"{name}\"\nreserve = {{ memory = \"64MiB\", cpu = \"0\" }}\nfloor = \"64MiB\"\n\
             cpu_overcommit = \"1000%\"\nmax_starts = 4\n{pools}"
        );
        fs::write(folder.path().join("host.toml"), profile).expect("there is room");
        Host { name, engine, client, folder, daemon: None }
    }

    /// Starts the daemon.
    pub(crate) fn launch(&mut self) {
        self.launch_as(self.stokerd(self.client.socket()));
    }

    /// Starts the daemon with this command, which ends as its process.
    pub(crate) fn launch_as(&mut self, mut command: Command) {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("there is room");
        self.daemon = Some(command.stderr(log).spawn().expect("it was built"));
    }

    /// Starts the daemon with the mounts and cgroups that this process sees.
    pub(crate) fn launch_within(&mut self, pid: u32) {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("there is room");
        let stokerd = self.stokerd(self.client.socket());
        let mut within = Command::new("nsenter");
        within.args(["--mount", "--cgroup", "--target", &pid.to_string(), "--"]);
        within.arg(stokerd.get_program()).args(stokerd.get_args());
        within.env_remove("JOURNAL_STREAM").stdin(Stdio::null()).stdout(Stdio::null());
        self.daemon = Some(within.stderr(log).spawn().expect("nsenter is where unshare is"));
    }

    /// The daemon's program with this host's profile, to serve at this socket, and nothing of the tests' own
    /// surroundings.
    pub(crate) fn stokerd(&self, socket: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stokerd"));
        for name in
            ["JOURNAL_STREAM", "NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "STOKER_SOCKET", "DOCKER_HOST"]
        {
            command.env_remove(name);
        }
        // No logind of the machine's own: a test that wants one brings it.
        command.env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent");
        command.arg("--profile").arg(self.profile_path()).arg("--socket").arg(socket);
        command.env_remove("STATE_DIRECTORY").arg("--state").arg(self.state());
        command.arg("--engine").arg(&self.engine.socket).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    pub(crate) async fn until_it_serves(&self) {
        until(
            "stokerd serves",
            async || self.raw("GET", "/livez", "").await.map(|a| a.status),
            |status| status.as_ref().is_ok_and(|status| *status == StatusCode::OK),
        )
        .await
        .expect("it serves");
    }

    pub(crate) fn profile_path(&self) -> PathBuf {
        self.folder.path().join("host.toml")
    }

    /// Where its daemon keeps what must outlive it.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// What the daemon has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// How often the daemon has logged this.
    pub(crate) fn logged(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// Waits until the daemon has logged this so often.
    pub(crate) async fn until_logged(&self, text: &str, times: usize) {
        until(&format!("`{text}` is logged"), async || self.logged(text), |many| *many == times).await;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("it was launched").id()
    }

    /// Sends the daemon a signal and waits for its end.
    pub(crate) fn end_daemon(&mut self, signal: Signal) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("it was launched");
        kill(Pid::from_raw(daemon.id().cast_signed()), signal).expect("it is our child");
        daemon.wait().expect("it is our child")
    }

    // ---- what is asked ----

    pub(crate) async fn host(&self) -> HostBody {
        self.client.get("/v1/host").await.expect("the daemon answers")
    }

    pub(crate) async fn pool(&self, name: &str) -> PoolBody {
        self.client.get(&format!("/v1/pools/{name}")).await.expect("the daemon answers")
    }

    pub(crate) async fn lease(&self, id: &str) -> LeaseBody {
        self.client.get(&format!("/v1/leases/{id}")).await.expect("the daemon answers")
    }

    pub(crate) async fn leases(&self) -> Vec<LeaseBody> {
        self.client.get::<Leases>("/v1/leases").await.expect("the daemon answers").leases
    }

    /// The pool, once it is like this.
    pub(crate) async fn until_pool(&self, name: &str, good: impl Fn(&PoolBody) -> bool) -> PoolBody {
        until(&format!("pool {name} is as wanted"), async || self.pool(name).await, good).await
    }

    /// The pool, once it has so many warm ones and nothing under way.
    pub(crate) async fn until_warm(&self, name: &str, warm: u32) -> PoolBody {
        self.until_pool(name, |pool| pool.warm == warm && pool.starting + pool.stopping == 0).await
    }

    /// The lease, once it has ended.
    pub(crate) async fn until_ended(&self, id: &str) -> LeaseBody {
        let path = format!("/v1/leases/{id}?wait_for=ended&wait=60s");
        let lease: LeaseBody = self.client.watch(&path, LIMIT).await.expect("the daemon answers");
        assert!(lease.reason.is_some(), "it has not ended: {lease:#?}");
        lease
    }

    /// An instance of this pool, after whatever wait the class allows.
    pub(crate) async fn acquire(&self, pool: &str) -> LeaseBody {
        let body = AcquireBody { pool: pool.into(), ..AcquireBody::default() };
        self.ask_for(&body).await.expect("it is granted")
    }

    pub(crate) async fn ask_for(&self, body: &AcquireBody) -> Result<LeaseBody, ClientError> {
        self.client.post("/v1/leases", body, LIMIT).await
    }

    /// The refusal of this request.
    pub(crate) async fn refused(&self, body: &AcquireBody) -> Problem {
        problem(self.ask_for(body).await)
    }

    pub(crate) async fn release(&self, id: &str) -> LeaseBody {
        let path = format!("/v1/leases/{id}/release");
        self.client.post(&path, &(), Duration::ZERO).await.expect("the daemon answers")
    }

    /// Runs a script in a lease's instance.
    pub(crate) async fn sh(&self, lease: &str, script: &str) -> ExecAnswer {
        let command = ["sh", "-c", script].map(String::from).to_vec();
        self.exec(lease, &ExecBody { command, ..ExecBody::default() }).await.expect("it runs")
    }

    pub(crate) async fn exec(&self, lease: &str, body: &ExecBody) -> Result<ExecAnswer, ClientError> {
        self.client.post(&format!("/v1/leases/{lease}/exec"), body, LIMIT).await
    }

    /// Asks with any method, path and body.
    pub(crate) async fn raw(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        let stream = UnixStream::connect(self.client.socket()).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "stoker")
            .body(Full::new(Bytes::from(body.to_owned())))?;
        let response = sender.send_request(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?;
        Ok(Answer { status, headers, body })
    }

    /// All containers of this host, in whatever state.
    pub(crate) async fn containers(&self) -> Vec<ContainerSummary> {
        self.engine.containers(&format!("stoker.host={}", self.name)).await
    }

    /// Waits until this host has so many containers.
    pub(crate) async fn until_containers(&self, many: usize) {
        until(
            &format!("{many} containers are left"),
            async || self.containers().await,
            |all| all.len() == many,
        )
        .await;
    }

    // ---- the tool ----

    /// Runs `stokerctl` to its end.
    pub(crate) async fn ctl(&self, arguments: &[&str]) -> Said {
        self.start_ctl(arguments, "").end().await
    }

    /// Starts `stokerctl` with this standard input.
    pub(crate) fn start_ctl(&self, arguments: &[&str], stdin: &str) -> Tool {
        let folder = tempfile::tempdir_in(self.folder.path()).expect("there is room");
        let file = |name: &str| File::create(folder.path().join(name)).expect("there is room");
        fs::write(folder.path().join("in"), stdin).expect("there is room");
        let child = Command::new(env!("CARGO_BIN_EXE_stokerctl"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("STOKER_SOCKET", self.client.socket())
            .stdin(File::open(folder.path().join("in")).expect("it was written"))
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("it was built");
        Tool { child, folder }
    }
}

/// Runs `stokerctl` in a folder, without any daemon.
pub(crate) fn stokerctl(folder: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stokerctl"));
    command.args(arguments).current_dir(folder).env_remove("STOKER_SOCKET").stdin(Stdio::null());
    let output = command.output().expect("it was built");
    let text = |bytes| String::from_utf8(bytes).expect("it speaks text");
    let code = output.status.code().unwrap_or(-1);
    Said { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The refusal in this answer.
pub(crate) fn problem<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> Problem {
    match answer {
        Err(ClientError::Refused(problem)) => *problem,
        other => panic!("it was not refused: {other:#?}"),
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The refusal, with every sign of one.
    pub(crate) fn problem(&self) -> Problem {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:#?}");
        let problem: Problem = serde_json::from_str(&self.body).expect("it is a problem");
        assert_eq!(problem.status, self.status.as_u16());
        assert!(problem.kind.starts_with("urn:stoker:"), "{problem:?}");
        let retry_after = problem.retry_after_s.map(|seconds| seconds.to_string()).unwrap_or_default();
        assert_eq!(self.header("retry-after"), retry_after);
        problem
    }
}

/// A `stokerctl` that runs; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Tool {
    child: Child,
    folder: TempDir,
}

impl Tool {
    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).expect("it was made")
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.folder.path().join("err")).expect("it was made")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it is our child");
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Said {
        let began = tokio::time::Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(began.elapsed() < LIMIT, "it does not end; it said: {}{}", self.stdout(), self.stderr());
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let code = status.code().unwrap_or(-1);
        Said { code, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    /// Its standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }

    /// All of it as one text, for snapshots.
    pub(crate) fn whole(&self) -> String {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            text.push_str(&format!("--- stderr\n{}", self.stderr));
        }
        if self.code != 0 {
            text.push_str(&format!("--- exit code {}\n", self.code));
        }
        text
    }
}

impl Drop for Host {
    #[expect(clippy::print_stderr, reason = "what the daemon said explains a failure")]
    fn drop(&mut self) {
        if self.daemon.is_some() {
            self.end_daemon(Signal::SIGTERM);
        }
        remove_all(&self.engine, &format!("stoker.host={}", self.name));
        let log = self.log();
        let trouble = log.lines().find(|line| line.starts_with("ERROR") || line.contains("panicked at"));
        if std::thread::panicking() {
            eprintln!("---- what stokerd of {} said ----\n{log}", self.name);
        } else if let Some(trouble) = trouble {
            panic!("stokerd was in trouble: {trouble}\n---- all it said ----\n{log}");
        }
    }
}
