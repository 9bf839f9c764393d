//! A model behind an HTTP API, asked again without what it refuses.
//!
//! Models and endpoints differ in what they accept, and tables of who accepts what grow old. Each refusal names what it
//! refuses: that is given up, for the life of the process, and the request is made again.

use std::sync::atomic::{AtomicU8, Ordering};

use reqwest::header::HeaderName;
use serde_json::Value;

use super::failure::Failure;
use super::http::Endpoint;

/// A model and where it is.
#[derive(Debug)]
pub(super) struct Api {
    pub endpoint: Endpoint,
    pub model: String,
    given_up: GivenUp,
}

/// How an API is asked.
pub(super) struct Manner<'a> {
    /// What follows the base address.
    pub path: &'a str,
    /// The header for the key.
    pub key_header: HeaderName,
    /// What stands before the key there.
    pub key_prefix: &'a str,
    /// Further headers.
    pub headers: &'a [(&'static str, &'static str)],
    /// What can be given up.
    pub offers: &'a [Offer],
}

/// Something that can be given up.
#[derive(Debug)]
pub(super) struct Offer {
    /// Its bit in the set.
    pub bit: u8,
    /// A refusal of it contains one of these.
    pub words: &'static [&'static str],
}

impl Api {
    pub fn new(endpoint: Endpoint, model: &str) -> Self {
        Self { endpoint, model: model.to_owned(), given_up: GivenUp::default() }
    }

    /// Asks what `question` makes of the set of things given up.
    pub async fn ask(&self, manner: &Manner<'_>, question: impl Fn(u8) -> Value) -> Result<Value, Failure> {
        loop {
            let used = self.given_up.so_far();
            match self.endpoint.post(manner, &question(used)).await {
                Err(failure) if self.given_up.retry(used, manner.offers, &failure) => {}
                answer => return answer,
            }
        }
    }

    /// The model that answered, by its own account.
    pub fn model_in(&self, answer: &Value) -> String {
        answer.get("model").and_then(Value::as_str).unwrap_or(&self.model).to_owned()
    }
}

/// What was given up so far.
#[derive(Debug, Default)]
struct GivenUp(AtomicU8);

impl GivenUp {
    fn so_far(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether the request, made with `used` given up, is worth making again after this failure: something more can be
    /// given up, or was meanwhile.
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
    fn each_thing_is_given_up_once_and_only_when_it_is_named() {
        let given_up = GivenUp::default();
        assert!(!given_up.retry(0, &OFFERS, &refusal("too long")));
        assert!(given_up.retry(0, &OFFERS, &refusal("no blue, please")));
        assert_eq!(given_up.so_far(), 2);
        assert!(!given_up.retry(2, &OFFERS, &refusal("no blue, please")));
        assert!(given_up.retry(2, &OFFERS, &refusal("red and blue")));
        assert!(!given_up.retry(3, &OFFERS, &refusal("red and blue")));
    }

    #[test]
    fn a_call_that_was_under_way_when_another_learned_it_is_made_again() {
        let given_up = GivenUp::default();
        assert!(given_up.retry(0, &OFFERS, &refusal("red")));
        assert!(given_up.retry(0, &OFFERS, &refusal("red")));
    }
}
