//! The container engine, asked by ourselves: what stokerd says of it is what is being shown or measured.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use tokio::time::{Instant, sleep, timeout};

use super::{LOOK_AGAIN, Obstacle};

/// Containers that are removed one after another need some 100 ms each; a busy disk takes its time.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// The engine at `DOCKER_HOST`, or where engines usually are.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    pub(crate) client: bollard::Docker,
    pub(crate) socket: PathBuf,
    pub(crate) version: String,
}

impl Engine {
    pub(crate) async fn find() -> anyhow::Result<Engine> {
        let address = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
        let Some(path) = address.strip_prefix("unix://") else {
            let text = format!("DOCKER_HOST is {address}; an engine on this host is needed: unset it");
            return Err(Obstacle::missing(text).into());
        };
        let socket = PathBuf::from(path);
        // Asked without the client first, because the kernel says best what is wrong with a socket.
        tokio::net::UnixStream::connect(&socket).await.map_err(|error| unreachable_engine(path, &error))?;
        let client = bollard::Docker::connect_with_unix(path, 120, bollard::API_DEFAULT_VERSION)
            .context("cannot speak to the engine")?;
        let client = client.negotiate_version().await.context("the engine does not answer")?;
        let version = client.version().await.context("the engine does not answer")?.version;
        Ok(Engine { client, socket, version: version.unwrap_or_else(|| "of unknown version".into()) })
    }

    pub(crate) async fn need_image(&self, image: &str) -> anyhow::Result<()> {
        match self.client.inspect_image(image).await {
            Ok(_) => Ok(()),
            Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => {
                let name = image.trim_start_matches("stoker/").split(':').next().unwrap_or(image);
                let build = format!("packaging/engine.sh run -- packaging/images/build.sh --only {name}");
                let text = format!("there is no image {image}; build it with: {build} (needs 4 GiB of disk)");
                Err(Obstacle::missing(text).into())
            }
            Err(error) => Err(error).with_context(|| format!("cannot look at image {image}")),
        }
    }

    /// All containers with this label, in any state.
    pub(crate) async fn containers(&self, label: &str) -> anyhow::Result<Vec<ContainerSummary>> {
        let filters = [("label", vec![label.to_owned()])].into_iter().collect();
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        self.client.list_containers(Some(options)).await.context("the engine cannot list containers")
    }

    /// All containers of a host's stokerd, in any state.
    pub(crate) async fn containers_of(&self, host: &str) -> anyhow::Result<Vec<ContainerSummary>> {
        self.containers(&format!("stoker.host={host}")).await
    }

    /// The first process of an instance's container.
    pub(crate) async fn pid_of(&self, instance: &str) -> anyhow::Result<u32> {
        let found = self.containers(&format!("stoker.instance={instance}")).await?;
        let id = found.into_iter().find_map(|container| container.id);
        let id = id.with_context(|| format!("the engine has no container of instance {instance}"))?;
        let seen = self.client.inspect_container(&id, None).await.context("the engine lost a container")?;
        let pid = seen.state.and_then(|state| state.pid).and_then(|pid| u32::try_from(pid).ok());
        pid.filter(|pid| *pid > 0).with_context(|| format!("instance {instance} does not run"))
    }

    /// Removes what is left of a host's stokerd, and returns once the engine has shown nothing for a while.
    pub(crate) async fn remove_all(&self, host: &str, quiet: Duration) -> anyhow::Result<()> {
        let mut empty_since = None;
        let removed = timeout(GONE_WITHIN, async {
            loop {
                let left = self.containers_of(host).await?;
                let since = *empty_since.get_or_insert_with(Instant::now);
                if !left.is_empty() {
                    empty_since = None;
                } else if since.elapsed() >= quiet {
                    return Ok(());
                } else {
                    sleep(LOOK_AGAIN).await;
                }
                for id in left.into_iter().filter_map(|container| container.id) {
                    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
                    // Somebody else may be removing it; what counts is the next look.
                    let _ = self.client.remove_container(&id, Some(options)).await;
                }
            }
        });
        removed.await.unwrap_or_else(|_| {
            anyhow::bail!("containers are left: docker ps -a --filter label=stoker.host={host}")
        })
    }
}

fn unreachable_engine(path: &str, error: &io::Error) -> Obstacle {
    if error.kind() == io::ErrorKind::PermissionDenied {
        let text = format!("may not open {path}: join the group docker (then log in again), or use sudo");
        return Obstacle::denied(text);
    }
    Obstacle::missing(format!(
        "no container engine at {path} ({error}): `make` starts one, or use packaging/engine.sh run -- COMMAND"
    ))
}
