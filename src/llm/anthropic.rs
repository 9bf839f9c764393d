//! Anthropic's Messages API: one message in, one forced tool call out.

use std::sync::Arc;

use reqwest::header::HeaderName;
use serde_json::{Map, Value, json};

use super::api::{Api, Manner, Offer};
use super::{Failure, ModelRequest, Response, Usage};

/// Thinking is left on: some models require it.
const THINKING: u8 = 1;
/// The tool call is requested, not forced: models that always think reject a forced call.
const UNFORCED: u8 = 2;
/// The effort parameter is omitted.
const EFFORT: u8 = 4;

const OFFERS: [Offer; 3] = [
    Offer { bit: THINKING, words: &["thinking.type", "thinking:", "Thinking may not"] },
    Offer { bit: UNFORCED, words: &["tool_choice"] },
    Offer { bit: EFFORT, words: &["effort", "output_config"] },
];

/// The provider.
#[derive(Debug, Clone)]
pub struct Anthropic(pub(super) Arc<Api>);

impl Anthropic {
    pub(super) async fn complete(&self, request: &ModelRequest) -> Result<Response, Failure> {
        // The usual base URL has no version; some gateways are configured with it.
        let has_version = self.0.endpoint.path().ends_with("/v1");
        let manner = Manner {
            path: if has_version { "/messages" } else { "/v1/messages" },
            key_header: HeaderName::from_static("x-api-key"),
            key_prefix: "",
            headers: &[("anthropic-version", "2023-06-01")],
            offers: &OFFERS,
        };
        let answer = self.0.ask(&manner, |given_up| self.question(request, given_up)).await?;
        self.response(request, &answer)
    }

    fn question(&self, request: &ModelRequest, given_up: u8) -> Value {
        let tool = &request.tool;
        let mut question = json!({
            "model": self.0.model,
            "max_tokens": request.max_output_tokens,
            "system": self.system(&request.system),
            "messages": [{ "role": "user", "content": request.prompt.as_str() }],
            "tools": [{ "name": tool.name, "description": tool.description, "input_schema": tool.schema }],
            "tool_choice": { "type": "tool", "name": tool.name, "disable_parallel_tool_use": true },
        });
        if given_up & UNFORCED != 0 {
            question["tool_choice"] = json!({ "type": "auto", "disable_parallel_tool_use": true });
            question["system"] =
                self.system(&format!("{}\n\nAnswer by calling `{}`.", request.system, tool.name));
        }
        // Thinking is billed, and this task does not need it.
        if given_up & THINKING == 0 {
            question["thinking"] = json!({ "type": "disabled" });
        } else if given_up & EFFORT == 0 {
            question["output_config"] = json!({ "effort": "low" });
        }
        question
    }

    /// Builds the instructions, which are the same in every request. Marked for the cache if that
    /// pays off: Haiku caches nothing below 4,096 tokens, and these are fewer.
    fn system(&self, text: &str) -> Value {
        if self.0.model.contains("haiku") {
            return text.into();
        }
        json!([{ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }])
    }

    fn response(&self, request: &ModelRequest, answer: &Value) -> Result<Response, Failure> {
        let Some(blocks) = answer.get("content").and_then(Value::as_array) else {
            return Err(self.0.endpoint.not_the_api(answer));
        };
        let text = tool_input(blocks).unwrap_or_else(|| text_of(blocks));
        let stop = answer.get("stop_reason").and_then(Value::as_str).unwrap_or_default();
        Ok(Response {
            usage: usage(answer).unwrap_or_else(|| Usage::at_most(request, &text)),
            model: self.0.model_in(answer),
            truncated: matches!(stop, "max_tokens" | "model_context_window_exceeded"),
            text,
        })
    }
}

/// Returns the input of the tool call, if there is one that is not empty.
fn tool_input(blocks: &[Value]) -> Option<String> {
    let input = blocks.iter().find(|block| block["type"] == "tool_use")?.get("input")?;
    (!input.as_object().is_some_and(Map::is_empty)).then(|| input.to_string())
}

fn text_of(blocks: &[Value]) -> String {
    let texts =
        blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Parses the usage in this API's format, which `claude -p` uses as well.
pub(super) fn usage(answer: &Value) -> Option<Usage> {
    let usage = answer.get("usage")?;
    let count = |name| usage.get(name).and_then(Value::as_u64);
    let cached =
        ["cache_creation_input_tokens", "cache_read_input_tokens"].map(|name| count(name).unwrap_or(0));
    Some(Usage {
        tokens_in: count("input_tokens")? + cached[0] + cached[1],
        tokens_out: count("output_tokens")?,
        cost_usd: None,
    })
}
