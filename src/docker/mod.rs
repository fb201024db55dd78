//! Docker: instances as containers, and the engine's word on them.
//!
//! Think of a hotel desk. We hand it an order with a name on it, it may answer late or never, and
//! the only register is its own: every container carries its owner and its instance as labels, and
//! whatever went wrong before, a listing by those labels says what exists. So no order depends on a
//! container id that a lost answer may have swallowed: ending goes by instance ([`Docker::stop_and_remove`]).
//!
//! - `spec` makes the order out of a pool: what every container gets and what none ever gets.
//! - `remove` ends an instance, until a listing no longer shows it.
//! - `exec` runs a command inside, within memory and time.
//! - `output` reads what a container writes.
//! - `watch` holds the first process (pidfd) and says when it has ended; no engine is needed for that.
//! - `events` is the engine's own telling; it may skip, so it only ever hastens what a listing finds.
//!
//! Invariants: every question has a deadline of ours, and one that passed means unknown, never done and
//! never failed. A pid is used only after `/proc` said that it belongs to the container. Nothing here
//! pulls, publishes a port, mounts a path of the host or grants a privilege.
//!
//! The client is pinned (`bollard` 0.21.1): it asks without an API version, which each engine from 20.10
//! to 29 serves as its own; later clients name a version that old engines refuse with 400.
//!
//! Not here: sockets into a container (`netns`), its memory and processor time (`measure`), retrying and
//! reconnecting (`daemon`), images.

mod error;
mod events;
mod exec;
mod facts;
mod output;
mod remove;
mod spec;
mod watch;

pub use error::DockerError;
pub use events::EngineEvent;
pub use exec::{Exec, Execed};
pub use facts::{CgroupDriver, EngineFacts};
pub use output::Reading;
pub use spec::{Owner, cgroup_parent, template_hash};
pub use watch::Running;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{ContainerState, ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{CreateContainerOptionsBuilder, ListContainersOptionsBuilder};

use crate::control::message::{Exit, InstanceId};
use crate::docker::error::within;
use crate::profile::{Pool, PoolName};

/// A look at the engine takes a millisecond; one that takes this long has a daemon that hangs.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// Creating takes some 30 ms, but waits behind the disk when many containers come and go at once.
const CREATE_WITHIN: Duration = Duration::from_secs(30);

/// Starting takes some 200 ms; the engine itself waits this order of time for its runtime.
const START_WITHIN: Duration = Duration::from_secs(60);

/// The client's own limit, out of the way of all of ours: each call has its own outer deadline.
const CLIENT_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// An address of an engine that is not on this host, or of none.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no local engine: a path or a `unix://` address is")]
pub struct NotLocal(String);

/// The socket of an engine on this host, from an address as `DOCKER_HOST` has it: a path, or `unix://` and one.
///
/// # Errors
/// Where it is none.
pub fn socket_of(address: &str) -> Result<PathBuf, NotLocal> {
    let path = address.strip_prefix("unix://").unwrap_or(address);
    if path.starts_with('/') { Ok(PathBuf::from(path)) } else { Err(NotLocal(address.to_owned())) }
}

/// The engine, as one owner uses it; cheap to clone.
#[derive(Debug, Clone)]
pub struct Docker {
    client: bollard::Docker,
    owner: Arc<Owner>,
    facts: Arc<EngineFacts>,
}

/// A container's name by the engine: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerId(Arc<str>);

/// One container of this host's, in whatever state, as the engine listed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its instance.
    pub instance: InstanceId,
    /// The engine's name for it.
    pub container: ContainerId,
    /// The pool it was made for.
    pub pool: String,
    /// The hash of the template it was made from; see [`template_hash`].
    pub template: String,
    /// The run of the daemon that made it.
    pub run: u32,
    /// The boot of the host in which it was made.
    pub boot: String,
    /// Whether its first process runs; a paused one does.
    pub running: bool,
}

impl Docker {
    /// Makes acquaintance with the engine behind this socket.
    ///
    /// # Errors
    /// When it cannot be reached, does not answer in time, or cannot enforce limits.
    pub async fn connect(socket: &Path, owner: Owner) -> Result<Docker, DockerError> {
        let address = socket.to_string_lossy();
        let what = format!("speak to the container engine at `{address}`");
        let client = bollard::Docker::connect_with_unix(
            &address,
            CLIENT_WITHIN.as_secs(),
            bollard::API_DEFAULT_VERSION,
        )
        .map_err(|cause| DockerError::of(what.clone(), LOOK_WITHIN, cause))?;
        let client = within(LOOK_WITHIN, what.clone(), client.negotiate_version()).await?;
        let version = within(LOOK_WITHIN, what.clone(), client.version()).await?;
        let info = within(LOOK_WITHIN, what, client.info()).await?;
        let facts = EngineFacts::of(version, info)
            .map_err(|why| DockerError::Unfit { socket: address.into_owned(), why })?;
        Ok(Docker { client, owner: Arc::new(owner), facts: Arc::new(facts) })
    }

    /// What the engine said of itself when we connected.
    pub fn facts(&self) -> &EngineFacts {
        &self.facts
    }

    /// Whether the engine answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), DockerError> {
        within(LOOK_WITHIN, "ping the container engine", self.client.ping()).await.map(drop)
    }

    /// Makes the container of an instance, without starting it.
    ///
    /// A name that is taken by this very instance is an earlier order whose answer was lost: that container
    /// is removed and the order repeated once.
    ///
    /// # Errors
    /// [`DockerError::ImageMissing`], or as the engine answers. After an unknown outcome the container may
    /// appear yet; [`Docker::stop_and_remove`] and a later listing see to it.
    pub async fn create(
        &self,
        instance: InstanceId,
        pool: &PoolName,
        spec: &Pool,
    ) -> Result<ContainerId, DockerError> {
        let first = self.create_once(instance, pool, spec).await;
        if !first.as_ref().is_err_and(DockerError::is_conflict) {
            return first;
        }
        let name = spec::container_name(pool, instance);
        match self.instance_of(&name).await {
            Ok(Some(holder)) if holder == instance => self.stop_and_remove(instance, Duration::ZERO).await?,
            Ok(_) => return Err(DockerError::Conflict { name }),
            Err(gone) if gone.is_missing() => {}
            Err(error) => return Err(error),
        }
        self.create_once(instance, pool, spec).await
    }

    /// Starts a container and takes hold of its first process.
    ///
    /// # Errors
    /// [`DockerError::Ended`] when that process has already ended, and otherwise as the engine answers.
    pub async fn start(&self, container: &ContainerId) -> Result<Running, DockerError> {
        let what = format!("start container `{container}`");
        within(START_WITHIN, what, self.client.start_container(container.as_str(), None)).await?;
        self.running(container).await
    }

    /// Takes hold of the first process of a container that runs, as after a restart of ours.
    ///
    /// # Errors
    /// [`DockerError::Ended`] when it does not run, and otherwise as the engine answers.
    pub async fn running(&self, container: &ContainerId) -> Result<Running, DockerError> {
        let exit = match self.look(container).await? {
            Life::Running { pid } => match Running::hold(container, pid)? {
                Some(running) => return Ok(running),
                None => watch::exit_of(self, container).await,
            },
            Life::Ended(exit) => exit,
        };
        Err(DockerError::Ended { container: container.clone(), exit })
    }

    /// Waits until the first process has ended, and asks the engine how. That it has ended is the kernel's
    /// word and needs no engine; the exit code is `None` when the engine cannot say.
    pub async fn died(&self, running: &Running) -> Exit {
        running.ended().await;
        watch::exit_of(self, running.container()).await
    }

    /// All containers of this host's daemon, whatever their state and whichever run made them. One whose
    /// labels do not read was not made here, and is left out.
    ///
    /// # Errors
    /// As the engine answers; a listing that failed says nothing.
    pub async fn list(&self) -> Result<Vec<Listed>, DockerError> {
        let found = self.find("list our containers", vec![spec::host_filter(&self.owner)]).await?;
        Ok(found.into_iter().filter_map(listed).collect())
    }

    async fn create_once(
        &self,
        instance: InstanceId,
        pool: &PoolName,
        spec: &Pool,
    ) -> Result<ContainerId, DockerError> {
        let name = spec::container_name(pool, instance);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let body = spec::body(&spec::Order { instance, pool, spec, owner: &self.owner, facts: &self.facts });
        let what = format!("create container `{name}`");
        let made = within(CREATE_WITHIN, what, self.client.create_container(Some(options), body)).await;
        match made {
            Ok(made) => Ok(ContainerId(made.id.into())),
            // Of all that a creation names, the image is all that can be missing.
            Err(error) if error.is_missing() => {
                Err(DockerError::ImageMissing { image: spec.template.image.clone() })
            }
            Err(error) => Err(error),
        }
    }

    /// The instance of ours that the container of this name says it is.
    async fn instance_of(&self, name: &str) -> Result<Option<InstanceId>, DockerError> {
        let what = format!("look at container `{name}`");
        let seen = within(LOOK_WITHIN, what, self.client.inspect_container(name, None)).await?;
        let labels = seen.config.and_then(|config| config.labels).unwrap_or_default();
        let ours = labels.get(spec::HOST) == Some(&self.owner.host);
        Ok(labels.get(spec::INSTANCE).filter(|_| ours).and_then(|text| text.parse().ok()))
    }

    async fn look(&self, container: &ContainerId) -> Result<Life, DockerError> {
        let what = format!("look at container `{container}`");
        let seen = within(LOOK_WITHIN, what, self.client.inspect_container(container.as_str(), None)).await?;
        Ok(Life::of(seen.state.unwrap_or_default()))
    }

    /// All containers with these labels (`name=value`), in any state.
    async fn find(
        &self,
        what: impl Into<String>,
        labels: Vec<String>,
    ) -> Result<Vec<ContainerSummary>, DockerError> {
        let filters = [("label", labels)].into_iter().collect();
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        within(LOOK_WITHIN, what, self.client.list_containers(Some(options))).await
    }
}

impl ContainerId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerId {
    /// The first twelve digits, as the engine's own tools show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.get(..12).unwrap_or(&self.0))
    }
}

/// What the engine says of a container's first process.
enum Life {
    Running { pid: u32 },
    Ended(Exit),
}

impl Life {
    fn of(state: ContainerState) -> Life {
        let pid = state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        match pid {
            Some(pid) if state.running == Some(true) => Life::Running { pid },
            Some(_) | None => Life::Ended(Exit { code: state.exit_code }),
        }
    }
}

fn listed(summary: ContainerSummary) -> Option<Listed> {
    let labels = summary.labels?;
    let label = |name: &str| labels.get(name).cloned();
    Some(Listed {
        instance: label(spec::INSTANCE)?.parse().ok()?,
        container: ContainerId(summary.id?.into()),
        pool: label(spec::POOL)?,
        template: label(spec::TEMPLATE)?,
        run: u32::from_str_radix(&label(spec::RUN)?, 16).ok()?,
        boot: label(spec::BOOT)?,
        running: summary.state.is_some_and(has_process),
    })
}

/// Whether a container in this state has a first process.
fn has_process(state: ContainerSummaryStateEnum) -> bool {
    match state {
        ContainerSummaryStateEnum::RUNNING
        | ContainerSummaryStateEnum::PAUSED
        | ContainerSummaryStateEnum::RESTARTING
        | ContainerSummaryStateEnum::STOPPING => true,
        ContainerSummaryStateEnum::EMPTY
        | ContainerSummaryStateEnum::CREATED
        | ContainerSummaryStateEnum::EXITED
        | ContainerSummaryStateEnum::REMOVING
        | ContainerSummaryStateEnum::DEAD => false,
    }
}
