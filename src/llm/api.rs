//! A model behind an HTTP API, called again without the parameters that it rejects.
//!
//! Models and endpoints differ in the parameters that they accept, and compatibility tables grow
//! old. Each rejection names a parameter: it is dropped for the life of the process, and the
//! request is repeated.

use std::sync::atomic::{AtomicU8, Ordering};

use reqwest::header::HeaderName;
use serde_json::Value;

use super::failure::Failure;
use super::http::Endpoint;

/// A model and its endpoint.
#[derive(Debug)]
pub(super) struct Api {
    pub endpoint: Endpoint,
    pub model: String,
    given_up: GivenUp,
}

/// The HTTP details of an API.
pub(super) struct Manner<'a> {
    /// Path after the base URL.
    pub path: &'a str,
    /// The header for the key.
    pub key_header: HeaderName,
    /// Prefix of the key in that header.
    pub key_prefix: &'a str,
    /// Further headers.
    pub headers: &'a [(&'static str, &'static str)],
    /// Parameters that can be dropped.
    pub offers: &'a [Offer],
}

/// A parameter that can be dropped.
#[derive(Debug)]
pub(super) struct Offer {
    /// Its bit in the set.
    pub bit: u8,
    /// A rejection of it contains one of these words.
    pub words: &'static [&'static str],
}

impl Api {
    pub fn new(endpoint: Endpoint, model: &str) -> Self {
        Self { endpoint, model: model.to_owned(), given_up: GivenUp::default() }
    }

    /// Sends the body that `question` builds for the set of dropped parameters.
    pub async fn ask(&self, manner: &Manner<'_>, question: impl Fn(u8) -> Value) -> Result<Value, Failure> {
        loop {
            let used = self.given_up.so_far();
            match self.endpoint.post(manner, &question(used)).await {
                Err(failure) if self.given_up.retry(used, manner.offers, &failure) => {}
                answer => return answer,
            }
        }
    }

    /// Returns the name of the model that answered, as it reports it.
    pub fn model_in(&self, answer: &Value) -> String {
        answer.get("model").and_then(Value::as_str).unwrap_or(&self.model).to_owned()
    }
}

/// The parameters dropped so far.
#[derive(Debug, Default)]
struct GivenUp(AtomicU8);

impl GivenUp {
    fn so_far(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// True if the request, sent without the parameters in `used`, is worth repeating after this
    /// failure: another parameter can be dropped, or was dropped meanwhile.
    fn retry(&self, used: u8, offers: &[Offer], failure: &Failure) -> bool {
        let Failure::Item { message, .. } = failure else { return false };
        if self.so_far() != used {
            return true;
        }
        let refused = |offer: &&Offer| offer.words.iter().any(|word| message.contains(word));
        let Some(offer) = offers.iter().filter(|offer| used & offer.bit == 0).find(refused) else {
            return false;
        };
        self.0.fetch_or(offer.bit, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERS: [Offer; 2] = [Offer { bit: 1, words: &["red"] }, Offer { bit: 2, words: &["blue"] }];

    fn refusal(message: &str) -> Failure {
        Failure::item(message, "")
    }

    #[test]
    fn a_parameter_is_dropped_once_and_only_when_named() {
        let given_up = GivenUp::default();
        assert!(!given_up.retry(0, &OFFERS, &refusal("too long")));
        assert!(given_up.retry(0, &OFFERS, &refusal("no blue, please")));
        assert_eq!(given_up.so_far(), 2);
        assert!(!given_up.retry(2, &OFFERS, &refusal("no blue, please")));
        assert!(given_up.retry(2, &OFFERS, &refusal("red and blue")));
        assert!(!given_up.retry(3, &OFFERS, &refusal("red and blue")));
    }

    #[test]
    fn a_concurrent_call_retries_without_a_dropped_parameter() {
        let given_up = GivenUp::default();
        assert!(given_up.retry(0, &OFFERS, &refusal("red")));
        assert!(given_up.retry(0, &OFFERS, &refusal("red")));
    }
}
