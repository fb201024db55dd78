//! Against a real engine: `DOCKER_HOST` (a `unix://` address) or `/var/run/docker.sock`, which must have the
//! image `stoker/tiny:latest` (busybox).
//!
//! They are here and not with the integration tests because a pool is made by the profile's check alone,
//! and in these tests every field is drawn as needed. Each test is a host of its own, so they never see
//! each other's containers.

mod exec;
mod life;
mod limits;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;
use crate::docker::spec::tests::pool;
use crate::profile::Kind;

const IMAGE: &str = "stoker/tiny:latest";

/// A host of its own on the real engine, and what it makes.
struct Live {
    docker: Docker,
    pool: PoolName,
    spec: Pool,
}

/// `None`, aloud, where there is no engine; a failure where there must be one.
async fn live() -> Option<Live> {
    static HOSTS: AtomicU32 = AtomicU32::new(0);
    let address = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".into());
    let socket = PathBuf::from(address.strip_prefix("unix://").unwrap_or(&address));
    let run = std::process::id().wrapping_shl(8) | HOSTS.fetch_add(1, Ordering::Relaxed);
    let owner = Owner { host: format!("test-{run:08x}"), boot: "boot".into(), run };
    let missing = match Docker::connect(&socket, owner).await {
        Err(error) => error.to_string(),
        Ok(docker) => match docker.client.inspect_image(IMAGE).await {
            Err(error) => format!("{IMAGE}: {error}"),
            Ok(_) => {
                let mut spec = pool(Kind::Sandbox);
                spec.template.image = IMAGE.into();
                spec.template.memory_max = crate::quantity::Bytes::mib(64);
                return Some(Live { docker, pool: PoolName::new("tiny"), spec });
            }
        },
    };
    let required = ["CI", "STOKER_REQUIRE_DOCKER"].map(|name| std::env::var(name).unwrap_or_default());
    assert!(
        !required.iter().any(|value| value == "true" || value == "1"),
        "an engine is required: {missing}"
    );
    println!("SKIPPED: no container engine at {address} ({missing})");
    None
}

impl Live {
    fn instance(&self, count: u32) -> InstanceId {
        InstanceId { run: self.docker.owner.run, count }
    }

    async fn create(&self, count: u32) -> Result<ContainerId, DockerError> {
        self.docker.create(self.instance(count), &self.pool, &self.spec).await
    }

    async fn run(&self, count: u32) -> Running {
        let container = self.create(count).await.expect("the image is there");
        self.docker.start(&container).await.expect("it sleeps")
    }

    async fn end(&self, count: u32, grace: Duration) {
        self.docker.stop_and_remove(self.instance(count), grace).await.expect("nothing stands in its way");
    }

    fn command(&mut self, script: &str) {
        self.spec.template.command = Some(["sh", "-c", script].map(String::from).to_vec());
    }
}
