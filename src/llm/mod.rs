//! Models: one request, one response, whoever answers.
//!
//! The only place with outgoing HTTP and child processes. Knows providers, keys, money and trouble; knows nothing of
//! what is asked or of what is done with the answer.

mod anthropic;
mod api;
pub mod breaker;
pub mod budget;
mod choose;
mod claude_cli;
pub mod credentials;
pub mod download;
pub mod failure;
pub mod guard;
mod http;
pub(crate) mod installed;
mod openai;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::Price;
use crate::privacy::Redacted;

pub use choose::{Choice, choose};
pub use failure::{Failure, ProviderFailure, Trouble};

/// What is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who the model is and what it does: the program's own words.
    pub system: String,
    /// What it does it with.
    pub prompt: Redacted,
    /// The form of the answer.
    pub tool: Tool,
    /// The answer may be no longer than this.
    pub max_output_tokens: u32,
}

/// The form of an answer: a tool that the model must call, where a provider has such a thing, and a description of the
/// JSON to write, where not.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Letters, digits and underscores.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// The JSON schema of its input, an object.
    pub schema: Value,
}

/// What was answered. Whether it is of any use is for the caller to see.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The tool call's input as JSON, or what the model said instead.
    pub text: String,
    /// What it took.
    pub usage: Usage,
    /// The model that answered, by its own account.
    pub model: String,
    /// Whether the answer ends where it does because it reached the limit.
    pub truncated: bool,
}

/// What a call took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// What the provider itself says that it cost.
    pub cost_usd: Option<f64>,
}

/// A model that can be asked.
#[derive(Debug, Clone)]
pub enum Llm {
    /// Anthropic's Messages API.
    Anthropic(anthropic::Anthropic),
    /// Any OpenAI-compatible chat endpoint.
    OpenAi(openai::OpenAi),
    /// The user's own `claude` in print mode.
    ClaudeCli(claude_cli::ClaudeCli),
}

impl Llm {
    /// Asks. Dropping the future gives up the call and whatever it started.
    pub async fn complete(&self, request: &Request) -> Result<Response, Failure> {
        match self {
            Self::Anthropic(provider) => provider.complete(request).await,
            Self::OpenAi(provider) => provider.complete(request).await,
            Self::ClaudeCli(provider) => provider.complete(request).await,
        }
    }

    /// The provider's name, as in the settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Anthropic(_) => "anthropic",
            Self::OpenAi(_) => "openai",
            Self::ClaudeCli(_) => "claude-cli",
        }
    }

    /// The model that is asked for.
    pub fn model(&self) -> &str {
        match self {
            Self::Anthropic(provider) => &provider.0.model,
            Self::OpenAi(provider) => &provider.0.model,
            Self::ClaudeCli(provider) => provider.model(),
        }
    }

    /// What a call cost, whether it gave a response or took something in vain: what the provider says, else the
    /// tokens at the price of the model.
    pub fn cost(&self, prices: &BTreeMap<String, Price>, usage: &Usage) -> f64 {
        usage.cost_usd.unwrap_or_else(|| budget::cost(self.price(prices), usage))
    }

    /// What a request might cost at most.
    pub fn cost_at_most(&self, prices: &BTreeMap<String, Price>, request: &Request) -> f64 {
        let usage = Usage {
            tokens_in: request.most_tokens_in(),
            tokens_out: u64::from(request.max_output_tokens),
            cost_usd: None,
        };
        budget::cost(self.price(prices), &usage)
    }

    fn price(&self, prices: &BTreeMap<String, Price>) -> Price {
        let on_this_machine = match self {
            Self::Anthropic(provider) => provider.0.endpoint.is_on_this_machine(),
            Self::OpenAi(provider) => provider.0.endpoint.is_on_this_machine(),
            Self::ClaudeCli(_) => false,
        };
        budget::price_of(prices, self.model(), on_this_machine)
    }
}

impl Request {
    /// More tokens than the request has, with what providers add to it.
    fn most_tokens_in(&self) -> u64 {
        const ADDED: u64 = 1_000;
        let tool = self.tool.description.len() + self.tool.schema.to_string().len();
        budget::most_tokens(self.system.len() + self.prompt.as_str().len() + tool) + ADDED
    }

    /// The system prompt for a provider that cannot be made to call a tool.
    fn system_with_form(&self) -> String {
        let Tool { name, description, schema } = &self.tool;
        format!(
            "{}\n\nAnswer with exactly one JSON object and nothing else: no prose, no code fence. It is the input of \
             `{name}` ({description}) and follows this JSON schema:\n{schema}",
            self.system
        )
    }
}

impl Usage {
    /// For an endpoint that does not say what a call took: more than it did.
    fn at_most(request: &Request, answer: &str) -> Self {
        Self {
            tokens_in: request.most_tokens_in(),
            tokens_out: budget::most_tokens(answer.len()),
            cost_usd: None,
        }
    }
}
