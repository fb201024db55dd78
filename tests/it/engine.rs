//! The container engine of the tests, and the one decision on what a test does where there is none.
//!
//! It is that of `DOCKER_HOST` (a `unix://` address) or `/var/run/docker.sock`. With `STOKER_REQUIRE_DOCKER=1`,
//! and in CI, a missing engine or image is a failure; elsewhere a test says aloud that it did not run.
//!
//! [`Private`] is an engine that a test may break: with its own folder, without a network, gone with the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bollard::Docker;
use bollard::exec::StartExecResults;
use bollard::models::{ContainerInspectResponse, ContainerSummary, ExecConfig};
use bollard::query_parameters::{
    ImportImageOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::level::until;

/// The image of nearly all tests.
pub(crate) const TINY: &str = "stoker/tiny:latest";

/// An engine that answers and has the image.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    pub(crate) docker: Docker,
    /// Its socket.
    pub(crate) socket: PathBuf,
}

/// Says something past the test runner, which keeps what a test prints that passes.
pub(crate) fn aloud(line: &str) {
    use std::io::Write;
    // Not a macro that is captured. Nobody may be there to read it.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says that this test does not run, and why; fails it where everything is required.
pub(crate) fn skip(why: &str) {
    let required = ["CI", "STOKER_REQUIRE_DOCKER"].map(|name| std::env::var(name).unwrap_or_default());
    assert!(!required.iter().any(|value| value == "true" || value == "1"), "it is required: {why}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    aloud(&format!("SKIPPED: {test}: {why}"));
}

/// Where there is no engine, this is the one test whose words are always shown (`.config/nextest.toml`): most
/// others have then shown nothing.
#[tokio::test]
async fn an_engine_is_there_or_tests_are_skipped_aloud() {
    if Engine::with("stoker/tiny:latest").await.is_none() {
        aloud("SKIPPED: all tests with real containers; `make test` finds or starts an engine for them");
    }
}

impl Engine {
    /// The engine, with this image; `None`, aloud, where there is none.
    pub(crate) async fn with(image: &str) -> Option<Engine> {
        let address = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
        let socket = PathBuf::from(address.strip_prefix("unix://").unwrap_or(&address));
        let missing = match Engine::at(&socket).await {
            Err(error) => error.to_string(),
            Ok(engine) => match engine.docker.inspect_image(image).await {
                Ok(_) => return Some(engine),
                Err(error) => format!("{image}: {error}"),
            },
        };
        skip(&format!("no container engine at {address} ({missing})"));
        None
    }

    async fn at(socket: &Path) -> Result<Engine, bollard::errors::Error> {
        let docker = Docker::connect_with_unix(&socket.to_string_lossy(), 120, bollard::API_DEFAULT_VERSION)?;
        docker.ping().await?;
        Ok(Engine { docker, socket: socket.into() })
    }

    /// All containers with this label, in whatever state.
    pub(crate) async fn containers(&self, label: &str) -> Vec<ContainerSummary> {
        let filters = [("label", vec![label.to_owned()])].into();
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        self.docker.list_containers(Some(options)).await.expect("the engine lists")
    }

    /// The id of an instance's container, if there is one.
    pub(crate) async fn container_of(&self, instance: &str) -> Option<String> {
        let found = self.containers(&format!("stoker.instance={instance}")).await;
        found.into_iter().find_map(|container| container.id)
    }

    /// What the engine says of an instance's container.
    pub(crate) async fn inspect(&self, instance: &str) -> ContainerInspectResponse {
        let id = self.container_of(instance).await.expect("the instance has a container");
        self.docker.inspect_container(&id, None).await.expect("it was listed just now")
    }

    /// Kills an instance's first process, as somebody else would.
    pub(crate) async fn kill(&self, instance: &str) {
        let id = self.container_of(instance).await.expect("the instance has a container");
        let options = KillContainerOptionsBuilder::default().signal("KILL").build();
        self.docker.kill_container(&id, Some(options)).await.expect("it runs");
    }

    /// Runs a script in a container without the daemon's help, and hands back what it printed.
    pub(crate) async fn sh(&self, container: &str, script: &str) -> String {
        let command = ["sh", "-c", script].map(String::from).to_vec();
        let config = ExecConfig { cmd: Some(command), attach_stdout: Some(true), ..ExecConfig::default() };
        let made = self.docker.create_exec(container, config).await.expect("it runs");
        let begun = self.docker.start_exec(&made.id, None).await.expect("it runs");
        let StartExecResults::Attached { output, .. } = begun else { panic!("it was to be attached") };
        let pieces: Vec<_> = output.try_collect().await.expect("it prints");
        pieces.iter().map(ToString::to_string).collect()
    }

    /// Removes a container, whatever its state; one that is gone already is as well.
    pub(crate) async fn remove(&self, id: &str) {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        // Its own removal may be under way.
        let _ = self.docker.remove_container(id, Some(options)).await;
    }
}

/// Removes all containers with this label. On a thread and runtime of its own: the test's is in a drop.
pub(crate) fn remove_all(engine: &Engine, label: &str) {
    let (socket, label) = (engine.socket.clone(), label.to_owned());
    let removal = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("the system has threads").block_on(async {
            let Ok(engine) = Engine::at(&socket).await else { return };
            // A creation that was under way when its daemon ended appears a little later.
            let mut empty_looks = 0;
            while empty_looks < 5 {
                let all = engine.containers(&label).await;
                empty_looks = if all.is_empty() { empty_looks + 1 } else { 0 };
                for id in all.into_iter().filter_map(|container| container.id) {
                    engine.remove(&id).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    });
    let _ = removal.join();
}

/// An engine of this test alone.
#[derive(Debug)]
pub(crate) struct Private {
    folder: TempDir,
    dockerd: Option<Child>,
    /// The cgroup that is the root of all of them for it, in each of the v1 trees.
    apart: Option<String>,
}

/// Runs a program in a cgroup of its own of each v1 tree, which it and its children take for the tree's root.
const APART: &str = r#"
set -eu
name=$1; shift
for tree in /sys/fs/cgroup/*/; do
    [ "$tree" = /sys/fs/cgroup/cpuset/ ] && continue # A new one has no processors there.
    mkdir -p "$tree$name"
    echo $$ >"$tree$name/cgroup.procs"
done
exec unshare --net --mount --cgroup sh -c '
    set -eu
    awk "\$3 == \"cgroup\" || \$3 == \"cgroup2\" { print \$2, \$3, \$4 }" /proc/mounts | while read -r point type options; do
        umount "$point"
        case $type in
        cgroup2) mount -t cgroup2 none "$point" ;;
        cgroup) mount -t cgroup -o "$(echo "$options" | tr , "\n" | grep -vE "^(rw|ro|nosuid|nodev|noexec|relatime|xattr|release_agent=.*)$" | paste -sd,)" none "$point" ;;
        esac
    done
    exec "$@"' sh "$@"
"#;

impl Private {
    /// Starts one and gives it the tiny image; `None`, aloud, where none can be had.
    pub(crate) async fn start() -> Option<Private> {
        Private::start_in(None).await
    }

    /// The same with cgroups of its own, so that limits on all of its containers concern nobody else.
    pub(crate) async fn start_apart(name: &str) -> Option<Private> {
        Private::start_in(Some(format!("stoker-{name}-{}", std::process::id()))).await
    }

    async fn start_in(apart: Option<String>) -> Option<Private> {
        let public = Engine::with(TINY).await?;
        let folder = tempfile::Builder::new().prefix("stoker-engine-").tempdir().expect("there is room");
        std::fs::write(folder.path().join("daemon.json"), "{}").expect("there is room");
        let mut private = Private { folder, dockerd: None, apart };
        private.launch();
        let engine = private.engine().await;
        let image = public.docker.export_image(TINY).map(|piece| piece.expect("the engine exports"));
        let options = ImportImageOptionsBuilder::default().build();
        let imported = engine.docker.import_image(options, bollard::body_try_stream(image.map(Ok)), None);
        imported.try_collect::<Vec<_>>().await.expect("the engine imports");
        Some(private)
    }

    /// Starts its process; its containers outlive it (`--live-restore`).
    pub(crate) fn launch(&mut self) {
        let folder = self.folder.path();
        let log = File::options().create(true).append(true).open(folder.join("log")).expect("there is room");
        // In a network namespace of its own: a dockerd without a bridge removes `docker0` from the one it is in, and
        // with it the network of every other engine of the host.
        let mut command = match &self.apart {
            None => {
                let mut command = Command::new("unshare");
                command.args(["--net", "dockerd"]);
                command
            }
            Some(name) => {
                let mut command = Command::new("sh");
                command.args(["-c", APART, "sh", name, "dockerd"]);
                command
            }
        };
        let dockerd = command
            .args(["--bridge", "none", "--iptables=false", "--ip6tables=false", "--live-restore"])
            .arg("--config-file")
            .arg(folder.join("daemon.json"))
            .arg("--data-root")
            .arg(folder.join("data"))
            .arg("--exec-root")
            .arg(folder.join("exec"))
            .arg("--pidfile")
            .arg(folder.join("pid"))
            .arg("--host")
            .arg(format!("unix://{}", self.socket().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("who has an engine has dockerd");
        self.dockerd = Some(dockerd);
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    /// It, once it answers.
    pub(crate) async fn engine(&self) -> Engine {
        let socket = self.socket();
        let answers = until(
            "the private engine answers",
            async || Engine::at(&socket).await.map_err(|error| error.to_string()),
            Result::is_ok,
        );
        answers.await.expect("it answers")
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.dockerd.as_ref().expect("it was launched").id()
    }

    /// Sends its process a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.dockerd.as_ref().expect("it was launched").id();
        kill(Pid::from_raw(pid.cast_signed()), signal).expect("it is our child");
    }

    /// Stops its process and waits for its end.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        self.dockerd.take().expect("it was launched").wait().expect("it is our child");
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if let Some(mut dockerd) = self.dockerd.take() {
            let pid = Pid::from_raw(dockerd.id().cast_signed());
            let _ = kill(pid, Signal::SIGCONT);
            let _ = kill(pid, Signal::SIGTERM);
            let _ = dockerd.wait();
        }
        // A test that failed while the engine was away leaves its containers' shims, its containerd and mounts.
        let place = self.folder.path().to_string_lossy().into_owned();
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let below =
            |line: &str| line.split(' ').nth(1).filter(|path| path.starts_with(&place)).map(String::from);
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let name = String::from_utf8_lossy(&command);
            if name.contains(&place)
                && name.split('\0').next().is_some_and(|name| name.contains("containerd"))
            {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        for path in mounts.lines().rev().filter_map(below) {
            let _ = Command::new("umount").args(["-l", &path]).stderr(Stdio::null()).status();
        }
        if let Some(name) = &self.apart {
            let place = format!("/sys/fs/cgroup/*/{name}");
            let remove = format!("find {place} -depth -type d -exec rmdir {{}} + 2>/dev/null");
            let _ = Command::new("sh").args(["-c", &remove]).status();
        }
    }
}
