//! A page for the browser, served inside the browser's own network namespace.
//!
//! The listener is on the loopback of the container and the server out here: so the browser reaches it
//! whatever network its pool has, also none, and nobody else does.

use std::sync::Arc;

use anyhow::Context;
use stoker::netns::{Netns, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Where the browser finds it.
pub(crate) const ADDRESS: &str = "http://127.0.0.1:8000/";
const PORT: u16 = 8000;
/// A browser's request for a page is some 500 bytes.
const HEAD_MOST: usize = 16 << 10;

/// The page, while it is served.
#[derive(Debug)]
pub(crate) struct Served(JoinHandle<()>);

impl Served {
    /// Serves the page on the loopback of the container with this first process.
    pub(crate) async fn inside(pid: u32, page: String) -> anyhow::Result<Served> {
        let netns = Netns::spawn().context("cannot start the thread that enters namespaces")?;
        let target = Target::of(pid).context("cannot open the container's network namespace")?;
        let listener = netns.listen(&target, PORT).await?;
        Ok(Served(tokio::spawn(serve(listener, page.into()))))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The page with these facts in it, each in place of `{{its name}}`.
pub(crate) fn page(facts: &[(&str, &str)]) -> String {
    facts.iter().fold(include_str!("page.html").to_owned(), |page, (name, value)| {
        page.replace(&format!("{{{{{name}}}}}"), value)
    })
}

async fn serve(listener: TcpListener, page: Arc<str>) {
    while let Ok((stream, _)) = listener.accept().await {
        let page = page.clone();
        // A browser opens connections that it never uses; none may keep the others waiting.
        tokio::spawn(async move {
            // A browser that leaves in the middle is its own business.
            let _ = answer(stream, &page).await;
        });
    }
}

async fn answer(mut stream: TcpStream, page: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MOST {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let (status, kind, body) = match head.starts_with(b"GET / ") {
        true => ("200 OK", "text/html; charset=utf-8", page),
        false => ("404 Not Found", "text/plain", "not here\n"),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
