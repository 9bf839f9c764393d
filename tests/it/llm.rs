//! Model providers, seen from outside.

mod choosing;
pub mod claude;
mod cli;
pub mod ends;
mod http;

use claude_mem::llm::{Request, Tool};
use claude_mem::privacy::Redacted;
use serde_json::json;

/// A key that resembles no word, so that a search for it finds nothing else.
const KEY: &str = "sk-ant-Qx7mmUnmistakable0Zz";

fn request() -> Request {
    Request {
        system: "You keep $HOME records.".into(),
        prompt: Redacted::of_program("Three events.\n\"quoted\" \u{1b} ünï"),
        tool: Tool {
            name: "record",
            description: "Records what happened.",
            schema: json!({ "type": "object", "properties": { "title": { "type": "string" } } }),
        },
        max_output_tokens: 700,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
