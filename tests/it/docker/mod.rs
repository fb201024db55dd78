//! The docker room by itself, against a real engine. Each test is an owner of its own, so they never see each
//! other's containers.

mod exec;
mod life;
mod limits;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stoker::control::message::InstanceId;
use stoker::docker::{ContainerId, Docker, DockerError, Owner, Running};
use stoker::profile::{self, Pool, PoolName};

use crate::engine::{Engine, TINY, remove_all};

/// An owner on the real engine, and what it makes.
struct Live {
    engine: Engine,
    docker: Docker,
    owner: Owner,
    pool: PoolName,
    spec: Pool,
}

/// `None`, aloud, where there is no engine.
async fn live() -> Option<Live> {
    static OWNERS: AtomicU32 = AtomicU32::new(0);
    let engine = Engine::with(TINY).await?;
    let run = std::process::id().wrapping_shl(8) | OWNERS.fetch_add(1, Ordering::Relaxed);
    let owner = Owner { host: format!("docker-{run:08x}"), boot: "boot".into(), run };
    let docker = Docker::connect(&engine.socket, owner.clone()).await.expect("it answered just now");
    Some(Live { engine, docker, owner, pool: PoolName::new("tiny"), spec: pool("") })
}

/// A small sandbox that sleeps, with these keys beside or instead.
fn pool(keys: &str) -> Pool {
    let text = format!(
        "[pool.tiny]\nkind = \"sandbox\"\nmemory_max = \"64MiB\"\nshm = \"16MiB\"\n\
         tmpfs = {{ \"/tmp\" = \"16MiB\" }}\ncpus = \"0.5\"\npids = 64\nnofile = 1024\nenv = {{ A = \"1\" }}\nuser = \"1000:1000\"\n{keys}\n"
    );
    let own = [("image", format!("{TINY:?}")), ("command", "[\"sleep\", \"600\"]".into())];
    let own = own.iter().filter(|(key, _)| !keys.starts_with(key));
    let text: String = own.fold(text, |text, (key, value)| text + &format!("{key} = {value}\n"));
    let mut checked = profile::check("test", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    checked.pools.remove("tiny").expect("it was written")
}

impl Drop for Live {
    fn drop(&mut self) {
        remove_all(&self.engine, &format!("stoker.host={}", self.owner.host));
    }
}

impl Live {
    fn instance(&self, count: u32) -> InstanceId {
        InstanceId { run: self.owner.run, count }
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
        self.spec = pool(&format!("command = [\"sh\", \"-c\", {script:?}]"));
    }
}
