//! Answers of a model's endpoint: a good one, and every kind of fault.

use serde_json::json;

use crate::harness::endpoint::{Asked, Reply};

/// A good answer to the one question that there is.
pub fn good(asked: &Asked) -> Reply {
    assert_eq!(asked.body["tools"][0]["name"], "store_turn");
    let observation =
        json!({"type": "bugfix", "title": "Make it work", "summary": "It did not.", "concepts": ["work"]});
    let summary = json!({"request": "Make it work", "completed": "Made it work"});
    Reply::tool_call(&json!({"observations": [observation], "summary": summary}))
}

/// A fault of the endpoint, and whose fault it is.
pub struct Fault {
    pub name: &'static str,
    /// `None`: nothing listens there.
    pub reply: Option<Reply>,
    pub is_item: bool,
}

pub fn faults() -> Vec<Fault> {
    let provider = |name, reply| Fault { name, reply: Some(reply), is_item: false };
    let item = |name, reply| Fault { name, reply: Some(reply), is_item: true };
    let status = |code: u16| Reply::error(code, "some_error", "something is wrong with {key}");
    let useless = |text: &str| Reply::anthropic(&json!([{"type": "text", "text": text}]), "end_turn");
    vec![
        Fault { name: "refused", reply: None, is_item: false },
        provider("reset mid-body", Reply::ResetMidBody),
        provider("truncated JSON", Reply::EndMidBody),
        provider("hang", Reply::Hang),
        provider("slow drip", Reply::Drip),
        provider("401", status(401)),
        provider("402", status(402)),
        provider("403", status(403)),
        provider("404 model", Reply::error(404, "not_found_error", "model: no-such-model")),
        provider("408", status(408)),
        item("413", status(413)),
        item("400", status(400)),
        provider("429", status(429)),
        provider("429 with seconds", status(429).with_header("retry-after", "1")),
        provider("429 with a date", status(429).with_header("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")),
        provider("500", status(500)),
        provider("502", Reply::text(502, "text/html", "<html>Bad gateway</html>")),
        provider("529", status(529)),
        provider("no credit", Reply::error(400, "invalid_request_error", "Your credit balance is too low")),
        provider("HTML instead of JSON", Reply::text(200, "text/html", "<html>Log in to the Wi-Fi</html>")),
        provider("empty body", Reply::text(200, "application/json", "")),
        item("refusal", useless("I cannot help with that.")),
        item(
            "a tool call without its fields",
            Reply::tool_call(&json!({"observations": [{"type": "bugfix"}]})),
        ),
    ]
}
