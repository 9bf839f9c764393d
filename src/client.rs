//! HTTP client for the worker's socket. Interpreting the response is up to the caller.

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

/// A worker that takes longer than this is considered down.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends a request, with a body if given, and returns the response's JSON regardless of its status.
/// An error means that there was no response.
pub async fn ask(socket: &Path, method: Method, route: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    let request = Request::builder()
        .method(method)
        .uri(Uri::new(socket, route))
        .header("content-type", "application/json")
        .body(Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default()))?;
    // A new connection is cheaper than detecting that a pooled one is dead.
    let client: Client<UnixConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(UnixConnector);
    let answer = tokio::time::timeout(TIMEOUT, async {
        let response = client.request(request).await?;
        Ok::<_, anyhow::Error>(response.into_body().collect().await?.to_bytes())
    });
    let bytes = answer.await.context("the worker does not respond")??;
    serde_json::from_slice(&bytes).context("the worker's response is not valid JSON")
}

/// Percent-encodes text for a URL.
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
