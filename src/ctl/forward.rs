//! A local address for a port of a lease's instance.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::{Forward, Tool, say};
use crate::api::client::{Client, ClientError, path};
use crate::api::wire::LeaseBody;

/// The API keeps a watch waiting for at most five minutes; then it is asked again.
const WATCH: Duration = Duration::from_secs(300);

impl Tool {
    pub(super) async fn forward(&self, forward: Forward) -> anyhow::Result<ExitCode> {
        anyhow::ensure!(
            forward.listen.ip().is_loopback(),
            "`{}` is not a loopback address: whoever reaches it would reach the instance",
            forward.listen
        );
        // Asked first, so that a lease that is not there is an error and not an address that leads nowhere.
        drop(self.client.tunnel(&forward.lease, forward.port).await?);
        let listener = TcpListener::bind(forward.listen)
            .await
            .with_context(|| format!("cannot listen at {}", forward.listen))?;
        let address = listener.local_addr().context("cannot tell the local address")?;
        let place = serde_json::json!({ "address": address.to_string(), "url": format!("http://{address}") });
        self.print(&place, |_| format!("http://{address}\n"))?;
        tokio::select! {
            result = accept(&self.client, &listener, &forward) => result?,
            ended = self.watch_end(&forward.lease) => say(&format!("the lease ended: {}", ended?)),
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Waits for the lease's end, and says how it was.
    async fn watch_end(&self, lease: &str) -> anyhow::Result<String> {
        let path = format!("{}?wait_for=ended&wait={}s", path(&["leases", lease]), WATCH.as_secs());
        loop {
            let lease: LeaseBody = self.client.watch(&path, WATCH).await?;
            if let Some(detail) = lease.detail {
                return Ok(format!("{}: {detail}", lease.state));
            }
        }
    }
}

async fn accept(client: &Client, listener: &TcpListener, forward: &Forward) -> anyhow::Result<()> {
    loop {
        let (near, _) = listener.accept().await.context("cannot accept a connection")?;
        let (client, lease, port) = (client.clone(), forward.lease.clone(), forward.port);
        tokio::spawn(async move {
            if let Err(error) = carry(&client, near, &lease, port).await {
                say(&format!("a connection was refused: {error}"));
            }
        });
    }
}

async fn carry(client: &Client, mut near: TcpStream, lease: &str, port: u16) -> Result<(), ClientError> {
    let mut far = client.tunnel(lease, port).await?;
    // Either side's leaving is the end of both.
    let _ = copy_bidirectional(&mut near, &mut far).await;
    Ok(())
}
