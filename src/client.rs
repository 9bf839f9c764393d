//! Asks the worker over its socket. What an answer means is the caller's to judge.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyperlocal::{UnixConnector, Uri};
use serde_json::Value;

/// A worker that does not answer within this is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a route, with a body if there is one, and returns its JSON, whatever its status. An error means that there was no
/// answer.
pub async fn ask(socket: &Path, method: Method, route: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let request = Request::builder()
        .method(method)
        .uri(Uri::new(socket, route))
        .header("content-type", "application/json")
        .body(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()))?;
    // A connection costs less than finding out that an old one is dead.
    let client: Client<UnixConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(UnixConnector);
    let answer = tokio::time::timeout(PATIENCE, async {
        let response = client.request(request).await?;
        Ok::<_, anyhow::Error>(response.into_body().collect().await?.to_bytes())
    });
    let bytes = answer.await.context("the worker does not answer")??;
    serde_json::from_slice(&bytes).context("the worker's answer makes no sense")
}

/// Text as part of a URL.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
