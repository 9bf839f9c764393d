//! HTTP requests on the worker's socket.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyperlocal::{UnixConnector, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{ApiError, ErrorBody};

/// A worker that takes longer than this is considered down.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A request: method, path with its query string, and body.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    target: String,
    body: Option<Value>,
}

impl Call {
    /// A GET with the fields of `query` as parameters.
    pub fn get(route: &str, query: &impl Serialize) -> Self {
        Self { method: Method::GET, target: with_query(route, query), body: None }
    }

    /// A POST of a JSON body.
    pub fn post(route: &str, body: &impl Serialize) -> Self {
        let body = Some(serde_json::to_value(body).unwrap_or_default());
        Self { method: Method::POST, target: route.to_owned(), body }
    }

    /// A request without a body, for the value `id` of the route.
    pub fn on(method: Method, route: &str, id: &str, query: &impl Serialize) -> Self {
        Self { method, target: with_query(&route.replace("{id}", &encoded(id)), query), body: None }
    }

    /// A POST of a JSON body, for the value `id` of the route.
    pub fn post_on(route: &str, id: &str, body: &impl Serialize) -> Self {
        Self::post(&route.replace("{id}", &encoded(id)), body)
    }

    /// A request as somebody else wrote it.
    pub fn raw(method: Method, target: String, body: Option<Value>) -> Self {
        Self { method, target, body }
    }

    /// Sends the request and returns the body of a successful response as it arrives.
    pub async fn stream(&self, socket: &Path) -> anyhow::Result<hyper::body::Incoming> {
        let response = tokio::time::timeout(TIMEOUT, self.request(socket)).await;
        let response = response.context("the worker does not respond")??;
        anyhow::ensure!(response.status().is_success(), "the worker refuses: {}", response.status());
        Ok(response.into_body())
    }

    async fn request(&self, socket: &Path) -> anyhow::Result<hyper::Response<hyper::body::Incoming>> {
        let body = self.body.as_ref().map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(self.method.clone())
            .uri(Uri::new(socket, &self.target))
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        // A new connection is cheaper than detecting that a pooled one is dead.
        let client: Client<UnixConnector, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(UnixConnector);
        Ok(client.request(request).await?)
    }

    /// Sends the request. The outer error means that there was no usable response.
    pub async fn send<R: DeserializeOwned>(&self, socket: &Path) -> anyhow::Result<Result<R, ApiError>> {
        let response = tokio::time::timeout(TIMEOUT, async {
            let response = self.request(socket).await?;
            let is_success = response.status().is_success();
            Ok::<_, anyhow::Error>((is_success, response.into_body().collect().await?.to_bytes()))
        });
        let (is_success, bytes) = response.await.context("the worker does not respond")??;
        let unreadable = "the worker's response has an unexpected form";
        if is_success {
            // A response without a body is null.
            let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
            return Ok(Ok(serde_json::from_slice(bytes).context(unreadable)?));
        }
        Ok(Err(serde_json::from_slice::<ErrorBody>(&bytes).context(unreadable)?.error))
    }
}

/// Appends the fields of `query` that are not null.
fn with_query(route: &str, query: &impl Serialize) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else { return route.to_owned() };
    let word = |value: Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    let pairs: Vec<String> = fields
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", encoded(&word(value)?))))
        .collect();
    if pairs.is_empty() { route.to_owned() } else { format!("{route}?{}", pairs.join("&")) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{InSessionQuery, route};

    #[test]
    fn parameters_are_encoded_and_missing_ones_left_out() {
        let query =
            InSessionQuery { project_path: "/a b".into(), text: "ü&=?".into(), ..InSessionQuery::default() };
        let target = with_query("/api/context/prompt", &query);
        assert_eq!(target, "/api/context/prompt?project_path=%2Fa%20b&text=%C3%BC%26%3D%3F&explain=false");
        assert_eq!(
            Call::on(Method::DELETE, route::OBSERVATION, "L1/2", &()).target,
            "/api/observations/L1%2F2"
        );
    }
}
