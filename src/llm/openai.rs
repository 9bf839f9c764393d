//! Any endpoint with OpenAI's chat API: uses a JSON schema for the response if supported, otherwise
//! a description.

use std::sync::Arc;

use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::api::{Api, Manner, Offer};
use super::{Failure, ModelRequest, Response, Usage};

/// The format of the response is described, not enforced.
const NO_SCHEMA: u8 = 1;
/// The output limit uses its newer name.
const NEW_LIMIT: u8 = 2;
/// The effort parameter is omitted.
const EFFORT: u8 = 4;

const OFFERS: [Offer; 3] = [
    Offer { bit: EFFORT, words: &["reasoning_effort", "reasoning.effort"] },
    Offer { bit: NEW_LIMIT, words: &["max_completion_tokens"] },
    Offer { bit: NO_SCHEMA, words: &["response_format", "json_schema", "schema", "structured output"] },
];

/// The provider.
#[derive(Debug, Clone)]
pub struct OpenAi(pub(super) Arc<Api>);

impl OpenAi {
    pub(super) async fn complete(&self, request: &ModelRequest) -> Result<Response, Failure> {
        let manner = Manner {
            path: "/chat/completions",
            key_header: AUTHORIZATION,
            key_prefix: "Bearer ",
            headers: &[],
            offers: &OFFERS,
        };
        let answer = self.0.ask(&manner, |given_up| self.question(request, given_up)).await?;
        self.response(request, &answer)
    }

    fn question(&self, request: &ModelRequest, given_up: u8) -> Value {
        let by_schema = given_up & NO_SCHEMA == 0;
        let system = if by_schema { request.system.clone() } else { request.system_with_form() };
        let mut question = json!({
            "model": self.0.model,
            "messages": [
                { "role": "system", "content": system },
                { "role": "user", "content": request.prompt.as_str() },
            ],
        });
        let limit = if given_up & NEW_LIMIT == 0 { "max_tokens" } else { "max_completion_tokens" };
        question[limit] = request.max_output_tokens.into();
        // Thinking is billed, uses up the output limit, and is not needed for this task.
        if given_up & EFFORT == 0 {
            question["reasoning_effort"] = "low".into();
        }
        if by_schema {
            let tool = &request.tool;
            // Not strict: strict mode requires every field, and a partial response is useful.
            question["response_format"] = json!({
                "type": "json_schema",
                "json_schema": {
                    "name": tool.name, "description": tool.description, "schema": tool.schema, "strict": false,
                },
            });
        }
        question
    }

    fn response(&self, request: &ModelRequest, answer: &Value) -> Result<Response, Failure> {
        let Some(choice) = answer.get("choices").and_then(|choices| choices.get(0)) else {
            return Err(self.0.endpoint.not_the_api(answer));
        };
        let text = text_of(&choice["message"]);
        Ok(Response {
            usage: usage(answer).unwrap_or_else(|| Usage::at_most(request, &text)),
            model: self.0.model_in(answer),
            truncated: choice["finish_reason"] == "length",
            text,
        })
    }
}

/// Returns the text of a message, in any of the formats that endpoints use.
fn text_of(message: &Value) -> String {
    let part = |part: &Value| part["text"].as_str().map(str::to_owned);
    let content = match &message["content"] {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(part).collect::<String>()),
        _ => None,
    };
    let called = || message["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned);
    let refused = || message["refusal"].as_str().map(str::to_owned);
    content.filter(|text| !text.trim().is_empty()).or_else(called).or_else(refused).unwrap_or_default()
}

fn usage(answer: &Value) -> Option<Usage> {
    let usage = answer.get("usage")?;
    let count = |name| usage.get(name).and_then(Value::as_u64);
    let cost_usd = usage.get("cost").and_then(Value::as_f64).filter(|cost| *cost >= 0.0);
    Some(Usage { tokens_in: count("prompt_tokens")?, tokens_out: count("completion_tokens")?, cost_usd })
}
