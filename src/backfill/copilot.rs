//! Copilot CLI: `session-state/<id>/events.jsonl`, one `{type, data, id, timestamp}` a line.

use std::path::Path;

use serde_json::Value;

use super::dialogue::{CallResult, Dialogue, PendingCall};
use super::json::{Object, content_text};
use super::lines::Lines;
use super::{FileSession, Reader, Sink, Stop, Transcript};
use crate::capture::tool_names::{rebuilt_response, translated};

pub struct Copilot;

impl Reader for Copilot {
    fn is_history(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == "events.jsonl")
    }

    fn begins_like(&self, head: &str) -> bool {
        head.lines().next().is_some_and(|line| line.contains("\"session.start\""))
    }

    fn survey(&self, path: &Path, head: &str, tail: &str) -> Option<FileSession> {
        let start = head.lines().filter_map(Object::parse).find(|event| event.is("type", "session.start"));
        let data = start.map(|start| {
            start.object("data").get("context").map_or_else(String::new, |raw| raw.get().into())
        });
        let id =
            head.lines().filter_map(Object::parse).find_map(|event| event.object("data").text("sessionId"));
        let folder = || path.parent()?.file_name()?.to_str().map(str::to_owned);
        let cwd = data.as_deref().and_then(Object::parse).and_then(|context| context.text("cwd"));
        let last = tail.lines().rev().filter_map(Object::parse).find_map(|event| event.time("timestamp"));
        Some(FileSession { session: id.or_else(folder)?, cwd, last })
    }

    fn read(&self, transcript: &Transcript, from: u64, sink: &mut dyn Sink) -> Result<bool, Stop> {
        let mut dialogue = Dialogue::new(sink);
        dialogue.cwd.clone_from(&transcript.cwd);
        let mut last = String::new();
        let mut lines = Lines::open(&transcript.path, from, transcript.size)?;
        while let Some(line) = lines.next()? {
            let Some(event) = line.record(dialogue.sink) else { continue };
            let id = event.text("id").unwrap_or_else(|| format!("{}:{}", transcript.session, line.start));
            take(&mut dialogue, &event, &id, line.start)?;
            last = id;
        }
        dialogue.finish(&last)
    }
}

fn take(dialogue: &mut Dialogue<'_>, event: &Object<'_>, id: &str, offset: u64) -> Result<(), Stop> {
    let data = event.object("data");
    let context = data.object("context");
    dialogue.at(event.time("timestamp"), context.text("cwd"), context.text("branch"));
    match event.text("type").as_deref() {
        Some("user.message") => match data.text("content").filter(|text| !text.trim().is_empty()) {
            Some(text) => dialogue.prompt(&text, id, id, Some(offset)),
            None => Ok(()),
        },
        Some("assistant.message") => {
            dialogue.drop_closing();
            dialogue.say(data.text("content").unwrap_or_default(), id);
            Ok(())
        }
        Some("tool.execution_start") => {
            let arguments = data.get("arguments").and_then(|raw| serde_json::from_str(raw.get()).ok());
            let name = data.text("toolName").unwrap_or_default();
            let (name, input) = translated(&name, &arguments.unwrap_or(Value::Null));
            if let Some(call) = data.text("toolCallId").filter(|_| name != "report_intent") {
                dialogue.call(call, PendingCall { name, input: input.to_string(), agent: None });
            }
            Ok(())
        }
        Some("tool.execution_complete") => {
            let Some(id) = data.text("toolCallId") else { return Ok(()) };
            let Some(call) = dialogue.open_call(&id) else { return Ok(()) };
            let result = data.object("result");
            let text =
                data.object("error").text("message").unwrap_or_else(|| content_text(result.get("content")));
            let outcome = match data.flag("success") {
                true => CallResult::Response(rebuilt_response(&call.name, &call.input, &text)),
                false => CallResult::Failed(text),
            };
            dialogue.result(&id, outcome, None)
        }
        Some("assistant.turn_end") | Some("session.shutdown") => Ok(()),
        Some("abort") => {
            dialogue.interrupt();
            Ok(())
        }
        _ => Ok(()),
    }
}
