//! An HTTP endpoint: JSON request, JSON response, or a classified failure.
//!
//! Everything is bounded: the time to connect, the total time, the size of the response. Redirects
//! are not followed: an API has none, and the key would be sent along. The client is created for
//! the first request, because its certificates take memory that an idle worker does not need.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, NoProxy, Proxy, Url};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::api::Manner;
use super::failure::{self, Failure, ProviderProblem};
use crate::config::{Proxies, Secret};

/// Maximum size of a response. A model's response has a few thousand tokens.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
/// Maximum size of an error body.
const MAX_ERROR: usize = 64 * 1024;
/// Maximum time to connect; a host that takes longer counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time of pooled connections: long enough for the next call of a burst, not for the next
/// turn.
const KEEP_IDLE: Duration = Duration::from_secs(20);

/// An HTTP API.
pub(super) struct Endpoint {
    base: Url,
    who: String,
    key: Option<Secret>,
    proxies: Proxies,
    timeout: Duration,
    client: OnceCell<Client>,
}

impl fmt::Debug for Endpoint {
    /// Shows neither the key nor credentials in the address or a proxy's address.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Endpoint({})", self.who)
    }
}

impl Endpoint {
    /// Creates the endpoint at this URL.
    pub fn new(
        base_url: &str,
        key: Option<Secret>,
        proxies: &Proxies,
        timeout: Duration,
    ) -> Result<Self, &'static str> {
        let base = Url::parse(base_url.trim().trim_end_matches('/')).map_err(|_| "is not an address")?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err("must begin with https:// or http://");
        }
        let host = base.host_str().ok_or("has no host")?;
        let who = base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self { base, who, key, proxies: proxies.clone(), timeout, client: OnceCell::new() })
    }

    /// Returns the path of the URL.
    pub fn path(&self) -> &str {
        self.base.path()
    }

    /// True if it is on this machine.
    pub fn is_on_this_machine(&self) -> bool {
        let host = self.base.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    }

    /// Sends one request.
    pub async fn post(&self, manner: &Manner<'_>, question: &Value) -> Result<Value, Failure> {
        let exchange = async {
            let request = self
                .client()
                .await?
                .post(self.url(manner.path))
                .headers(self.headers(manner)?)
                .body(question.to_string());
            self.answer(request.send().await.map_err(|error| self.broken(error))?).await
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                let seconds = self.timeout.as_secs_f32();
                let what = format!("{} did not respond completely within {seconds} s", self.who);
                Err(Failure::provider(ProviderProblem::Timeout, what).may_cost())
            }
        }
    }

    /// Builds the failure of a response that is not from a known API.
    pub fn not_the_api(&self, answer: &Value) -> Failure {
        let what = format!("{} answered with JSON in an unknown format: {answer}", self.who);
        Failure::provider(ProviderProblem::NotTheApi, failure::one_line(&what))
    }

    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    fn headers(&self, manner: &Manner<'_>) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in manner.headers {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(key) = &self.key {
            let mut value = HeaderValue::from_str(&format!("{}{}", manner.key_prefix, key.expose()))
                .map_err(|_| {
                    Failure::provider(ProviderProblem::Auth, "the key contains invalid characters")
                })?;
            value.set_sensitive(true);
            headers.insert(manner.key_header.clone(), value);
        }
        Ok(headers)
    }

    async fn answer(&self, mut response: reqwest::Response) -> Result<Value, Failure> {
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let wait = header(RETRY_AFTER).and_then(|text| failure::parse_retry_after(text, Timestamp::now()));
        let claims_json = header(CONTENT_TYPE).is_some_and(|kind| kind.contains("json"));
        let success = response.status().is_success();
        let limit = if success { MAX_ANSWER } else { MAX_ERROR };
        let (body, complete) = self.read(&mut response, limit).await?;
        if !success {
            return Err(failure::of_status(&self.who, status, &body).retry_after(wait));
        }
        match serde_json::from_str::<Value>(&body) {
            Ok(answer) if answer.is_object() => self.checked(answer, wait),
            // It accepted the request and answered at length: that concerns this request.
            _ if !complete && claims_json => {
                Err(Failure::item(format!("{} answered with more than {limit} bytes", self.who), &body))
            }
            _ => Err(failure::of_strange_body(&self.who, &body)),
        }
    }

    /// Checks for errors that some gateways report with status 200.
    fn checked(&self, answer: Value, wait: Option<Duration>) -> Result<Value, Failure> {
        let Some(error) = answer.get("error").filter(|error| !error.is_null()) else { return Ok(answer) };
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let status = code.filter(|code| (400..600).contains(code)).unwrap_or(500);
        Err(failure::of_status(&self.who, status, &answer.to_string()).retry_after(wait))
    }

    /// Reads the body and removes our key from it, in case it is echoed. The flag is true if the
    /// body is complete.
    async fn read(&self, response: &mut reqwest::Response, limit: usize) -> Result<(String, bool), Failure> {
        let mut body = Vec::new();
        let mut complete = true;
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
            let room = limit - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                complete = false;
                break;
            }
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok((self.key.iter().fold(text, |text, key| key.scrub(text)), complete))
    }

    /// Builds the failure of a connection error. Never shows a URL: it may contain a password.
    pub(super) fn broken(&self, error: reqwest::Error) -> Failure {
        let kind = if error.is_timeout() { ProviderProblem::Timeout } else { ProviderProblem::Unreachable };
        let error = error.without_url();
        let mut cause: &dyn Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let is_unsent = error.is_connect() || error.is_builder();
        let what = if error.is_connect() { "cannot be reached" } else { "closed the connection" };
        let failure = Failure::provider(
            kind,
            format!("{} {what}: {}", self.who, failure::one_line(&cause.to_string())),
        );
        if is_unsent { failure } else { failure.may_cost() }
    }

    pub(super) async fn client(&self) -> Result<&Client, Failure> {
        self.client.get_or_try_init(|| async { self.build() }).await
    }

    fn build(&self) -> Result<Client, Failure> {
        // An error means that it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("claude-mem/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT.min(self.timeout))
            .pool_idle_timeout(KEEP_IDLE)
            .pool_max_idle_per_host(1)
            .no_proxy();
        if !self.is_on_this_machine() {
            for proxy in self.proxies()? {
                builder = builder.proxy(proxy);
            }
        }
        let failed = |error| format!("cannot create an HTTP client: {error}");
        builder
            .build()
            .map_err(|error| Failure::provider(ProviderProblem::Unreachable, failed(error.without_url())))
    }

    fn proxies(&self) -> Result<Vec<Proxy>, Failure> {
        type Make = fn(&str) -> reqwest::Result<Proxy>;
        let kinds: [(&Option<Secret>, Make); 3] = [
            (&self.proxies.https, |url| Proxy::https(url)),
            (&self.proxies.http, |url| Proxy::http(url)),
            (&self.proxies.all, |url| Proxy::all(url)),
        ];
        let none_for = self.proxies.none_for.as_deref().and_then(NoProxy::from_string);
        let set = kinds.into_iter().filter_map(|(url, make)| Some((url.as_ref()?, make)));
        set.map(|(url, make)| match make(url.expose()) {
            Ok(proxy) => Ok(proxy.no_proxy(none_for.clone())),
            Err(_) => Err(Failure::provider(
                ProviderProblem::Unreachable,
                "the proxy in the environment is not an address",
            )),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> Result<Endpoint, &'static str> {
        Endpoint::new(base_url, Secret::new("sk-very-secret"), &Proxies::default(), Duration::from_secs(1))
    }

    #[test]
    fn urls_are_joined_with_and_without_a_trailing_slash() {
        for base in ["https://host/v1", "https://host/v1/", " https://host/v1// "] {
            assert_eq!(endpoint(base).unwrap().url("/messages").as_str(), "https://host/v1/messages");
        }
        assert_eq!(endpoint("http://host:81").unwrap().url("/x").as_str(), "http://host:81/x");
    }

    #[test]
    fn an_invalid_url_is_rejected_with_the_reason() {
        for base in ["", "api.anthropic.com", "ftp://host", "https://"] {
            assert!(endpoint(base).is_err(), "{base}");
        }
    }

    #[test]
    fn this_machine_is_recognised_by_name_and_address() {
        for base in ["http://localhost:1", "http://127.0.0.1", "http://127.8.8.8:2/v1", "http://[::1]:3"] {
            assert!(endpoint(base).unwrap().is_on_this_machine(), "{base}");
        }
        for base in ["https://api.anthropic.com", "http://10.0.0.1", "http://localhost.example.org"] {
            assert!(!endpoint(base).unwrap().is_on_this_machine(), "{base}");
        }
    }

    #[test]
    fn debug_output_has_neither_key_nor_password() {
        let shown = format!("{:?}", endpoint("https://me:hunter2@host/v1").unwrap());
        assert_eq!(shown, "Endpoint(host)");
    }

    #[test]
    fn an_invalid_key_is_reported_but_not_shown() {
        let endpoint =
            Endpoint::new("http://host", Secret::new("sk-a\nb"), &Proxies::default(), Duration::ZERO)
                .unwrap();
        let manner = Manner { path: "", key_header: CONTENT_TYPE, key_prefix: "", headers: &[], offers: &[] };
        let failure = endpoint.headers(&manner).unwrap_err();
        assert!(!format!("{failure} {failure:?}").contains("sk-a"));
    }
}
