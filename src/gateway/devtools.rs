//! One question to a browser: `GET /json/version`.

use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An idle browser answers in a few milliseconds, one that has just started in some hundred.
const DEADLINE: Duration = Duration::from_secs(2);
/// The answer is some 400 bytes.
const BODY_MOST: usize = 64 << 10;

/// Whether a browser answers over this stream; what it did instead, if not.
pub(super) async fn version(stream: TcpStream) -> Result<(), String> {
    let asked = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get("/json/version")
            // Chromium answers only to an address or to this name.
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .expect("a fixed request is valid");
        let answer = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            // Read to its end, so that the browser does not see its caller leave in the middle.
            let whole = Limited::new(response.into_body(), BODY_MOST).collect().await.is_ok();
            Ok::<_, hyper::Error>((status, whole))
        };
        let (answer, _) = tokio::join!(answer, connection);
        answer
    };
    match timeout(DEADLINE, asked).await {
        Ok(Ok((StatusCode::OK, true))) => Ok(()),
        Ok(Ok((status, whole))) => {
            Err(format!("it answered {status}, {}", if whole { "whole" } else { "in part" }))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it was silent".into()),
    }
}
