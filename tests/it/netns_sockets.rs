//! Sockets inside the network namespace of a real container that has no network.
//!
//! Entering needs root.

use std::io;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use stoker::netns::{Netns, NetnsError, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::engine::{Engine, TINY};

const LIMIT: Duration = Duration::from_secs(5);
const DEVTOOLS: u16 = 9222;

/// A container without a network, and its first process.
struct Container {
    docker: Docker,
    id: String,
    pid: u32,
}

#[tokio::test]
async fn a_server_on_the_loopback_inside_is_reached() {
    let Some(container) = Container::run(&["httpd", "-f", "-p", "127.0.0.1:9222", "-h", "/www"]).await else {
        return;
    };
    let netns = Netns::spawn().unwrap();
    let target = Target::of(container.pid).unwrap();
    assert!(get(&netns, &target).await.contains("Browser"));
    let host = tokio::net::TcpStream::connect(("127.0.0.1", DEVTOOLS)).await;
    assert!(host.is_err(), "the host's own loopback is another");

    let error = netns.dial(&target, 1, LIMIT).await.unwrap_err();
    assert!(
        matches!(&error, NetnsError::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused),
        "{error}"
    );
    // As many as the small server inside lets wait.
    let answers = (0..8).map(|_| get(&netns, &target));
    assert!(futures_util::future::join_all(answers).await.iter().all(|answer| answer.contains("Browser")));
    container.remove().await;
}

#[tokio::test]
async fn an_instance_without_a_network_can_be_served() {
    let fetch = "until nc 127.0.0.1 8000 </dev/null | grep -q welcome; do sleep 0.1; done";
    let Some(container) = Container::run(&["sh", "-c", fetch]).await else { return };
    let netns = Netns::spawn().unwrap();
    let target = Target::of(container.pid).unwrap();
    let listener = netns.listen(&target, 8000).await.unwrap();
    assert_eq!(listener.local_addr().unwrap().to_string(), "127.0.0.1:8000");
    let (mut stream, _) = tokio::time::timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    stream.write_all(b"welcome\n").await.unwrap();
    drop(stream);

    let taken = netns.listen(&target, 8000).await.unwrap_err();
    assert!(matches!(taken, NetnsError::Listen { port: 8000, .. }), "{taken}");
    container.remove().await;
}

#[tokio::test]
async fn a_namespace_outlives_its_process_and_is_then_silent() {
    let Some(container) = Container::run(&["sleep", "60"]).await else { return };
    let netns = Netns::spawn().unwrap();
    let target = Target::of(container.pid).unwrap();
    let pid = container.pid;
    container.remove().await;
    let error = netns.dial(&target, DEVTOOLS, LIMIT).await.unwrap_err();
    assert!(matches!(error, NetnsError::Connect { .. } | NetnsError::Timeout { .. }), "{error}");
    assert!(Target::of(pid).is_err(), "the process is gone");
}

#[tokio::test]
async fn the_namespace_of_the_host_is_not_a_target() {
    let error = Target::of(std::process::id()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

async fn get(netns: &Netns, target: &Target) -> String {
    let mut stream = netns.dial(target, DEVTOOLS, LIMIT).await.expect("it listens");
    stream.write_all(b"GET /json/version HTTP/1.0\r\n\r\n").await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}

impl Container {
    /// Runs a command in one; `None`, aloud, where there is no engine.
    async fn run(command: &[&str]) -> Option<Container> {
        let docker = Engine::with(TINY).await?.docker;
        let body = ContainerCreateBody {
            image: Some(TINY.into()),
            cmd: Some(command.iter().copied().map(String::from).collect()),
            host_config: Some(HostConfig { network_mode: Some("none".into()), ..HostConfig::default() }),
            ..ContainerCreateBody::default()
        };
        let id = docker.create_container(None, body).await.expect("the image is there").id;
        docker.start_container(&id, None).await.expect("it starts");
        let state = docker.inspect_container(&id, None).await.expect("it exists").state;
        let pid = state.and_then(|state| state.pid).expect("it runs");
        let container = Container { docker, id, pid: u32::try_from(pid).expect("it is a pid") };
        if command.first() == Some(&"httpd") {
            container.wait_for_server().await;
        }
        Some(container)
    }

    /// Waits until the server inside listens, as a readiness probe does.
    async fn wait_for_server(&self) {
        let netns = Netns::spawn().expect("the system has threads");
        let target = Target::of(self.pid).expect("it runs");
        let listens = async {
            while netns.dial(&target, DEVTOOLS, LIMIT).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LIMIT, listens).await.expect("the server listens");
    }

    async fn remove(self) {
        let options = RemoveContainerOptionsBuilder::default().force(true).build();
        self.docker.remove_container(&self.id, Some(options)).await.expect("nothing stands in its way");
    }
}
