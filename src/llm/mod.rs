//! Models: one request, one response, any provider.
//!
//! The only module with outgoing HTTP and child processes. Handles providers, keys, costs and
//! failures; independent of the content of requests and the use of responses.

mod anthropic;
mod api;
pub mod breaker;
pub mod budget;
mod choose;
pub(crate) mod claude_cli;
pub mod credentials;
pub mod download;
pub mod failure;
pub mod guard;
mod http;
mod openai;
mod session;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::Price;
use crate::privacy::Redacted;

pub use choose::{Choice, choose};
pub use failure::{Failure, ProviderFailure, ProviderProblem};
pub use session::SessionJobs;

/// A request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The system prompt: fixed text of this program.
    pub system: String,
    /// The user prompt.
    pub prompt: Redacted,
    /// The format of the response.
    pub tool: Tool,
    /// Maximum length of the response.
    pub max_output_tokens: u32,
}

/// The format of a response: a tool that the model must call, if the provider supports tools,
/// otherwise a description of the expected JSON.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Letters, digits and underscores.
    pub name: &'static str,
    /// Its purpose.
    pub description: &'static str,
    /// The JSON schema of its input, an object.
    pub schema: Value,
}

/// A response. The caller validates its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The tool call's input as JSON, or the model's text instead of it.
    pub text: String,
    /// The usage.
    pub usage: Usage,
    /// The name of the model, as it reports it.
    pub model: String,
    /// True if the response was cut off at the limit.
    pub truncated: bool,
}

/// The usage of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// The cost that the provider reports.
    pub cost_usd: Option<f64>,
}

/// A configured model.
#[derive(Debug, Clone)]
pub enum Llm {
    /// Anthropic's Messages API.
    Anthropic(anthropic::Anthropic),
    /// Any OpenAI-compatible chat endpoint.
    OpenAi(openai::OpenAi),
    /// The user's own `claude` in print mode.
    ClaudeCli(claude_cli::ClaudeCli),
    /// A running Claude Code session, through the plugin's mod.
    Session(session::Session),
}

/// A model that takes the next request at once.
#[derive(Debug)]
#[allow(missing_docs, reason = "the variants of [`Llm`]")]
pub enum Ready<'a> {
    Anthropic(&'a anthropic::Anthropic),
    OpenAi(&'a openai::OpenAi),
    ClaudeCli(&'a claude_cli::ClaudeCli),
    Session(session::Seat),
}

impl Ready<'_> {
    /// Sends the request. Dropping the future cancels the call and everything it started.
    pub async fn complete(self, request: &ModelRequest) -> Result<Response, Failure> {
        match self {
            Self::Anthropic(provider) => provider.complete(request).await,
            Self::OpenAi(provider) => provider.complete(request).await,
            Self::ClaudeCli(provider) => provider.complete(request).await,
            Self::Session(seat) => seat.complete(request).await,
        }
    }
}

impl Llm {
    /// Waits until the model can take a request. Only a session has to be waited for.
    pub async fn ready(&self) -> Result<Ready<'_>, Failure> {
        Ok(match self {
            Self::Anthropic(provider) => Ready::Anthropic(provider),
            Self::OpenAi(provider) => Ready::OpenAi(provider),
            Self::ClaudeCli(provider) => Ready::ClaudeCli(provider),
            Self::Session(session) => Ready::Session(session.seat().await?),
        })
    }

    /// Sends the request as soon as the model can take it.
    pub async fn complete(&self, request: &ModelRequest) -> Result<Response, Failure> {
        self.ready().await?.complete(request).await
    }

    /// Returns the provider's name, as in the settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Anthropic(_) => "anthropic",
            Self::OpenAi(_) => "openai",
            Self::ClaudeCli(_) => "claude-cli",
            Self::Session(_) => "session",
        }
    }

    /// Returns the name of the requested model.
    pub fn model(&self) -> &str {
        match self {
            Self::Anthropic(provider) => &provider.0.model,
            Self::OpenAi(provider) => &provider.0.model,
            Self::ClaudeCli(provider) => provider.model(),
            Self::Session(session) => &session.model,
        }
    }

    /// Returns the cost of a call, successful or not: as the provider reports it, else the tokens
    /// at the model's price.
    pub fn cost(&self, prices: &BTreeMap<String, Price>, usage: &Usage) -> f64 {
        usage.cost_usd.unwrap_or_else(|| budget::cost(self.price(prices), usage))
    }

    /// Returns the maximum cost of a request.
    pub fn cost_at_most(&self, prices: &BTreeMap<String, Price>, request: &ModelRequest) -> f64 {
        budget::cost(self.price(prices), &request.most_usage())
    }

    fn price(&self, prices: &BTreeMap<String, Price>) -> Price {
        let on_this_machine = match self {
            Self::Anthropic(provider) => provider.0.endpoint.is_on_this_machine(),
            Self::OpenAi(provider) => provider.0.endpoint.is_on_this_machine(),
            Self::ClaudeCli(_) | Self::Session(_) => false,
        };
        budget::price_of(prices, self.model(), on_this_machine)
    }
}

impl ModelRequest {
    /// Returns the maximum usage of the request.
    pub fn most_usage(&self) -> Usage {
        Usage {
            tokens_in: self.most_tokens_in(),
            tokens_out: u64::from(self.max_output_tokens),
            cost_usd: None,
        }
    }

    /// Upper bound of the input tokens, including those that providers add.
    fn most_tokens_in(&self) -> u64 {
        const ADDED: u64 = 1_000;
        let tool = self.tool.description.len() + self.tool.schema.to_string().len();
        budget::most_tokens(self.system.len() + self.prompt.as_str().len() + tool) + ADDED
    }

    /// Returns the system prompt for a provider that cannot force a tool call.
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
    /// Upper bound of the usage, for an endpoint that does not report it.
    fn at_most(request: &ModelRequest, answer: &str) -> Self {
        Self {
            tokens_in: request.most_tokens_in(),
            tokens_out: budget::most_tokens(answer.len()),
            cost_usd: None,
        }
    }
}
