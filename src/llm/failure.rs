//! Failures of model calls and their classification: the one table of HTTP statuses and error
//! texts.
//!
//! An item's failure counts against the item. A provider's failure counts against no item:
//! everything waits until the provider is healthy. In doubt it is the provider, because waiting
//! loses nothing.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::Serialize;
use serde_json::Value;

use super::Usage;

/// The failure of a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// This request cannot be answered, but others may be.
    #[error("{message}")]
    Item {
        /// The problem, as a sentence.
        message: String,
        /// The response, shortened.
        response: Option<String>,
        /// The usage, if it is known.
        usage: Option<Usage>,
    },
    /// The request was not answered, and is not repeated: rules do the work.
    #[error("{message}")]
    Declined {
        /// The reason, as a clause for the user.
        message: String,
        /// The usage, if there may have been any.
        usage: Option<Usage>,
    },
    /// No request can be answered at present.
    #[error("{0}")]
    Provider(ProviderFailure),
}

/// The reason why a provider cannot answer any request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderFailure {
    /// The kind of problem.
    pub kind: ProviderProblem,
    /// The problem and its remedy, as a sentence for the user.
    pub message: String,
    /// The wait that the provider asks for.
    pub retry_after: Option<Duration>,
    /// True if the request was sent and no complete response arrived: it may have been processed
    /// and billed.
    pub may_cost: bool,
}

/// The kinds of provider problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderProblem {
    /// No connection, or a broken one.
    Unreachable,
    /// No complete response in time.
    Timeout,
    /// The key or the login was rejected.
    Auth,
    /// No credit, or a spending limit.
    Billing,
    /// The model or the URL does not exist.
    Model,
    /// Too many requests.
    RateLimited,
    /// The provider is overloaded.
    Overloaded,
    /// An internal error of the provider.
    Server,
    /// The response is not from the API: a captive portal, a proxy's page, a partial response.
    NotTheApi,
}

impl ProviderProblem {
    /// True if the provider refuses us until the user does something.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Auth | Self::Billing | Self::Model)
    }

    /// Returns the remedy; empty if waiting is enough.
    fn advice(self) -> &'static str {
        match self {
            Self::Auth => "Check the key or the login.",
            Self::Billing => "Check the account's credit and limits.",
            Self::Model => "Check the configured model and base_url.",
            Self::NotTheApi => "Check base_url, the proxy, and whether the network requires a login.",
            _ => "",
        }
    }
}

impl Failure {
    /// Builds a failure of the provider, with a remedy if there is one.
    pub(super) fn provider(kind: ProviderProblem, what: impl Into<String>) -> Self {
        let mut message: String = what.into();
        if !kind.advice().is_empty() {
            message = format!("{}. {}", message.trim_end_matches('.'), kind.advice());
        }
        Self::Provider(ProviderFailure { kind, message, retry_after: None, may_cost: false })
    }

    /// Builds a failure of the item; keeps the start of the response.
    pub(super) fn item(message: impl Into<String>, response: &str) -> Self {
        let response = (!response.is_empty()).then(|| head(response, KEPT_RESPONSE).to_owned());
        Self::Item { message: message.into(), response, usage: None }
    }

    /// Marks the failure of a request that may be billed nevertheless.
    pub(super) fn may_cost(self) -> Self {
        match self {
            Self::Provider(failure) => Self::Provider(ProviderFailure { may_cost: true, ..failure }),
            item => item,
        }
    }

    pub(super) fn retry_after(self, wait: Option<Duration>) -> Self {
        match self {
            Self::Provider(failure) => Self::Provider(ProviderFailure { retry_after: wait, ..failure }),
            item => item,
        }
    }
}

/// Bytes of an unusable response that are kept for the user.
const KEPT_RESPONSE: usize = 16 * 1024;
/// Maximum length of a provider's message in a sentence.
const MAX_MESSAGE_BYTES: usize = 300;

/// Classifies an HTTP status and its body. `who` is the host that answered.
pub(super) fn of_status(who: &str, status: u16, body: &str) -> Failure {
    of_message(who, status, &message_in(body), body)
}

/// Like [`of_status`], for a message that is already extracted.
pub(super) fn of_message(who: &str, status: u16, text: &str, body: &str) -> Failure {
    let sentence = if text.is_empty() {
        format!("{who} answered with status {status}")
    } else {
        format!("{who} answered with status {status}: {text}")
    };
    match trouble_of(status, text) {
        Some(kind) => Failure::provider(kind, sentence),
        None => Failure::item(sentence, body),
    }
}

/// Returns the provider problem behind a status and a message; `None` if the item is at fault.
fn trouble_of(status: u16, text: &str) -> Option<ProviderProblem> {
    let by_words = || of_words(text);
    match status {
        400 | 413 | 422 => by_words(),
        401 | 403 => Some(by_words().unwrap_or(ProviderProblem::Auth)),
        402 => Some(ProviderProblem::Billing),
        404 => Some(by_words().unwrap_or(ProviderProblem::Model)),
        407 => Some(ProviderProblem::Unreachable),
        408 | 504 => Some(ProviderProblem::Timeout),
        429 => Some(by_words().unwrap_or(ProviderProblem::RateLimited)),
        503 | 529 => Some(by_words().unwrap_or(ProviderProblem::Overloaded)),
        409 | 500..=599 => Some(by_words().unwrap_or(ProviderProblem::Server)),
        _ => Some(ProviderProblem::NotTheApi),
    }
}

/// Returns the provider problem that an API's message describes, whatever the status. The phrases
/// are long enough not to match by chance: an API may quote the prompt in its message.
pub(super) fn of_words(text: &str) -> Option<ProviderProblem> {
    first_phrase(
        &[
            ("credit balance is too low", ProviderProblem::Billing),
            ("reached your specified api usage limits", ProviderProblem::Billing),
            ("reached your specified workspace api usage limits", ProviderProblem::Billing),
            ("insufficient_quota", ProviderProblem::Billing),
            ("insufficient credits", ProviderProblem::Billing),
            ("exceeded your current quota", ProviderProblem::Billing),
            ("billing_error", ProviderProblem::Billing),
            ("billing hard limit", ProviderProblem::Billing),
            ("invalid x-api-key", ProviderProblem::Auth),
            ("invalid api key", ProviderProblem::Auth),
            ("incorrect api key", ProviderProblem::Auth),
            ("api key not valid", ProviderProblem::Auth),
            ("authentication_error", ProviderProblem::Auth),
            ("not a valid model", ProviderProblem::Model),
            ("unknown model", ProviderProblem::Model),
            ("model_not_found", ProviderProblem::Model),
            ("model_not_supported", ProviderProblem::Model),
            ("rate_limit_error", ProviderProblem::RateLimited),
            ("overloaded_error", ProviderProblem::Overloaded),
        ],
        text,
    )
}

/// Returns the problem of the first phrase that the text contains, case-insensitive.
pub(super) fn first_phrase(phrases: &[(&str, ProviderProblem)], text: &str) -> Option<ProviderProblem> {
    let text = text.to_ascii_lowercase();
    phrases.iter().find(|(phrase, _)| text.contains(phrase)).map(|(_, kind)| *kind)
}

/// Builds the failure of a success status whose body is not the API's JSON.
pub(super) fn of_strange_body(who: &str, body: &str) -> Failure {
    let trimmed = body.trim_start();
    let what = if trimmed.is_empty() {
        format!("{who} answered with an empty body")
    } else if trimmed.starts_with('<') {
        format!("{who} answered with a web page instead of JSON")
    } else if trimmed.starts_with('{') {
        format!("{who} answered with incomplete JSON")
    } else {
        format!("{who} answered with something that is not JSON: {}", one_line(trimmed))
    };
    Failure::provider(ProviderProblem::NotTheApi, what)
}

/// Extracts a one-line message from an error body: its type and message, a page's title, or its
/// beginning.
fn message_in(body: &str) -> String {
    if let Ok(value) = serde_json::from_str::<Value>(body) {
        return one_line(&error_text(&value));
    }
    if let Some((_, rest)) = body.split_once("<title>") {
        return one_line(rest.split('<').next().unwrap_or_default());
    }
    one_line(body)
}

/// Extracts the type, code and message of an error in any of the common formats.
pub(super) fn error_text(value: &Value) -> String {
    // Gemini wraps it in a list.
    let value = value.get(0).unwrap_or(value);
    let error = value.get("error").unwrap_or(value);
    if let Some(text) = error.as_str() {
        return text.to_owned();
    }
    let text = |key| error.get(key).and_then(Value::as_str);
    let message = text("message").or_else(|| value.get("detail").and_then(Value::as_str)).unwrap_or_default();
    let kind =
        text("code").or_else(|| text("type")).filter(|kind| *kind != "error" && !message.contains(kind));
    match kind {
        Some(kind) if message.is_empty() => kind.to_owned(),
        Some(kind) => format!("{message} ({kind})"),
        None => message.to_owned(),
    }
}

/// Shortens text to one line without control characters.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<_> =
        head(text, 4 * MAX_MESSAGE_BYTES).split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let short = head(&line, MAX_MESSAGE_BYTES);
    if short.len() < line.len() { format!("{short}…") } else { line }
}

fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Parses the wait in a `retry-after` header: seconds, or a date.
pub(super) fn parse_retry_after(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(header).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> Option<ProviderProblem> {
        match of_status("the-host", status, body) {
            Failure::Provider(failure) => Some(failure.kind),
            Failure::Item { .. } | Failure::Declined { .. } => None,
        }
    }

    #[test]
    fn a_status_is_classified_without_a_body() {
        let table = [
            (400, None),
            (413, None),
            (422, None),
            (401, Some(ProviderProblem::Auth)),
            (402, Some(ProviderProblem::Billing)),
            (403, Some(ProviderProblem::Auth)),
            (404, Some(ProviderProblem::Model)),
            (407, Some(ProviderProblem::Unreachable)),
            (408, Some(ProviderProblem::Timeout)),
            (409, Some(ProviderProblem::Server)),
            (429, Some(ProviderProblem::RateLimited)),
            (500, Some(ProviderProblem::Server)),
            (502, Some(ProviderProblem::Server)),
            (503, Some(ProviderProblem::Overloaded)),
            (504, Some(ProviderProblem::Timeout)),
            (529, Some(ProviderProblem::Overloaded)),
            (302, Some(ProviderProblem::NotTheApi)),
            (418, Some(ProviderProblem::NotTheApi)),
        ];
        for (status, expected) in table {
            assert_eq!(kind(status, ""), expected, "{status}");
        }
    }

    #[test]
    fn a_body_about_billing_or_keys_is_a_provider_problem() {
        let table = [
            (
                400,
                r#"{"error":{"message":"Your credit balance is too low to access the API."}}"#,
                ProviderProblem::Billing,
            ),
            (
                400,
                r#"{"error":{"message":"You have reached your specified API usage limits."}}"#,
                ProviderProblem::Billing,
            ),
            (
                429,
                r#"{"error":{"message":"Try later","code":"insufficient_quota"}}"#,
                ProviderProblem::Billing,
            ),
            (
                400,
                r#"[{"error":{"message":"API key not valid. Please pass a valid API key."}}]"#,
                ProviderProblem::Auth,
            ),
            (
                400,
                r#"{"error":{"message":"foo/bar is not a valid model ID","code":400}}"#,
                ProviderProblem::Model,
            ),
            (
                500,
                r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                ProviderProblem::Overloaded,
            ),
        ];
        for (status, body, expected) in table {
            assert_eq!(kind(status, body), Some(expected), "{body}");
        }
    }

    #[test]
    fn an_error_that_quotes_such_phrases_late_stays_an_item() {
        let quoted = format!(r#"{{"error":{{"message":"bad text: {} not logged in"}}}}"#, "x ".repeat(400));
        assert_eq!(kind(400, &quoted), None);
    }

    #[test]
    fn a_message_names_host_problem_and_remedy_on_one_line() {
        let body =
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid\nx-api-key"}}"#;
        let text = of_status("api.anthropic.com", 401, body).to_string();
        assert_eq!(
            text,
            "api.anthropic.com answered with status 401: invalid x-api-key (authentication_error). \
             Check the key or the login."
        );
        let page = of_status("proxy", 502, "<html><head><title>502 Bad\x1b[1m Gateway</title>").to_string();
        assert_eq!(page, "proxy answered with status 502: 502 Bad [1m Gateway");
        assert!(of_status("proxy", 500, &"x".repeat(100_000)).to_string().len() < 400);
    }

    #[test]
    fn an_unusable_response_is_kept_shortened() {
        let Failure::Item { response: Some(kept), .. } = of_status("host", 400, &"é".repeat(100_000)) else {
            panic!("400 is an item failure");
        };
        assert_eq!(kept.len(), KEPT_RESPONSE);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:07Z".parse().unwrap();
        let table = [
            ("30", Some(30)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-5", None),
            ("soon", None),
            ("", None),
            ("1e400", None),
        ];
        for (header, seconds) in table {
            assert_eq!(parse_retry_after(header, now), seconds.map(Duration::from_secs), "{header}");
        }
    }
}
