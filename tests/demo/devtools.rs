//! A caller of a lent browser, over the stream of a tunnel: one HTTP question, then DevTools' own protocol.
//!
//! Only what a screenshot needs. Messages are JSON: a question has an `id` that its answer repeats, everything
//! else is an event. All sessions share one connection (`flatten`), told apart by `sessionId`.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::upgrade::Upgraded;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use stoker::api::client::Client;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Where every browser of ours listens on its own loopback.
pub(crate) const PORT: u16 = 9222;
/// Loading and drawing a small page takes a second on a busy machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Events that nobody asked for yet; more than a small page ever sends.
const EVENTS: usize = 1000;

/// What a browser says of itself at `/json/version`.
pub(crate) async fn version(client: &Client, lease: &str) -> anyhow::Result<Value> {
    let stream = client.tunnel(lease, PORT).await?.into_inner();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let request = Request::get("/json/version").header(header::HOST, "localhost");
    let request = request.header(header::CONNECTION, "close").body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        anyhow::ensure!(response.status().is_success(), "the browser answered {}", response.status());
        Ok(response.into_body().collect().await?.to_bytes())
    };
    let both = async { tokio::join!(answer, connection).0 };
    let body = timeout(ANSWER_WITHIN, both).await.context("the browser was silent")??;
    serde_json::from_slice(&body).context("the browser's answer is no JSON")
}

/// A page of a browser.
#[derive(Debug)]
pub(crate) struct Page {
    socket: WebSocketStream<TokioIo<Upgraded>>,
    session: Option<String>,
    asked: u64,
    events: VecDeque<Value>,
}

impl Page {
    /// Opens a page of this size in the browser that calls itself so at `/json/version`.
    pub(crate) async fn open(
        client: &Client,
        lease: &str,
        version: &Value,
        size: (u32, u32),
    ) -> anyhow::Result<Page> {
        let address = version["webSocketDebuggerUrl"].as_str().context("the browser names no address")?;
        let stream = client.tunnel(lease, PORT).await?;
        let (socket, _) = tokio_tungstenite::client_async(address, stream).await?;
        let mut page = Page { socket, session: None, asked: 0, events: VecDeque::new() };
        let target = page.ask("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = page.ask("Target.attachToTarget", attach).await?;
        page.session = Some(attached["sessionId"].as_str().context("the page has no session")?.to_owned());
        page.ask("Page.enable", json!({})).await?;
        let metrics = json!({ "width": size.0, "height": size.1, "deviceScaleFactor": 1, "mobile": false });
        page.ask("Emulation.setDeviceMetricsOverride", metrics).await?;
        Ok(page)
    }

    /// Loads an address, and returns once all of it is there.
    pub(crate) async fn load(&mut self, address: &str) -> anyhow::Result<()> {
        let begun = self.ask("Page.navigate", json!({ "url": address })).await?;
        if let Some(why) = begun["errorText"].as_str() {
            anyhow::bail!("the browser cannot load {address}: {why}");
        }
        self.wait_for("Page.loadEventFired").await
    }

    pub(crate) async fn title(&mut self) -> anyhow::Result<String> {
        let question = json!({ "expression": "document.fonts.ready.then(() => document.title)",
                               "awaitPromise": true, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", question).await?;
        answer["result"]["value"].as_str().map(str::to_owned).context("the page has no title")
    }

    /// What the page looks like, as a PNG.
    pub(crate) async fn screenshot(&mut self) -> anyhow::Result<Vec<u8>> {
        let answer = self.ask("Page.captureScreenshot", json!({ "format": "png" })).await?;
        let text = answer["data"].as_str().context("the browser sent no picture")?;
        BASE64_STANDARD.decode(text).context("the browser's picture is no base64")
    }

    async fn ask(&mut self, method: &str, parameters: Value) -> anyhow::Result<Value> {
        self.asked += 1;
        let id = self.asked;
        let mut question = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            question["sessionId"] = json!(session);
        }
        let answered = async {
            self.socket.send(Message::text(question.to_string())).await?;
            loop {
                let message = self.hear().await?;
                if message["id"] == json!(id) {
                    return Ok(message);
                }
                self.events.truncate(EVENTS);
                self.events.push_front(message);
            }
        };
        let answer: anyhow::Result<Value> = timeout(ANSWER_WITHIN, answered)
            .await
            .unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {} s", ANSWER_WITHIN.as_secs())));
        let mut answer = answer.with_context(|| format!("{method} failed"))?;
        anyhow::ensure!(answer["error"].is_null(), "{method} failed: {}", answer["error"]["message"]);
        Ok(answer["result"].take())
    }

    async fn wait_for(&mut self, event: &str) -> anyhow::Result<()> {
        let found = async {
            while !self.events.iter().any(|seen| seen["method"] == event) {
                let message = self.hear().await?;
                self.events.truncate(EVENTS);
                self.events.push_front(message);
            }
            self.events.clear();
            Ok(())
        };
        timeout(ANSWER_WITHIN, found).await.unwrap_or_else(|_| anyhow::bail!("the page did not load"))
    }

    async fn hear(&mut self) -> anyhow::Result<Value> {
        loop {
            let message =
                self.socket.next().await.context("the browser left")?.context("the browser left")?;
            if let Message::Text(text) = message {
                return serde_json::from_str(&text).context("the browser sent no JSON");
            }
        }
    }
}

/// The width and height of a PNG.
pub(crate) fn size_of(png: &[u8]) -> Option<(u32, u32)> {
    let rest = png.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    // The first chunk: its length, its name, then both numbers.
    let header = rest.get(4..16).filter(|header| header.starts_with(b"IHDR"))?;
    let number = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    Some((number(4)?, number(8)?))
}
