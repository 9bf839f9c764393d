//! Gemini CLI: `tmp/<project>/chats/session-….json`, one document a session.

use std::path::Path;

use serde_json::Value;

use super::dialogue::{CallResult, Dialogue, PendingCall};
use super::json::{Object, content_text, elements};
use super::{FileSession, LeftOut, Reader, Sink, Stop, Transcript, documents};
use crate::capture::tool_names::{rebuilt_response, translated};

pub struct Gemini;

impl Reader for Gemini {
    fn is_history(&self, path: &Path) -> bool {
        let is_chat = |name: &str| name.starts_with("session-") && name.ends_with(".json");
        path.file_name().and_then(|name| name.to_str()).is_some_and(is_chat)
    }

    fn begins_like(&self, head: &str) -> bool {
        head.contains("\"projectHash\"") && head.contains("\"sessionId\"")
    }

    fn survey(&self, path: &Path, head: &str, _: &str) -> Option<FileSession> {
        // Members in front of the messages; the document as a whole may be long.
        let member = |name: &str| {
            let (_, rest) = head.split_once(&format!("\"{name}\""))?;
            Some(rest.split('"').nth(1)?.to_owned())
        };
        // The client keeps the project's place next to its chats.
        let root = path.parent()?.parent()?.join(".project_root");
        let cwd =
            documents::small(&root).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let last = member("lastUpdated").and_then(|time| super::millis(&time));
        Some(FileSession { session: member("sessionId")?, cwd, last })
    }

    fn read(&self, transcript: &Transcript, _: u64, sink: &mut dyn Sink) -> Result<bool, Stop> {
        let mut dialogue = Dialogue::new(sink);
        dialogue.cwd.clone_from(&transcript.cwd);
        let mut last = String::new();
        let is_whole = documents::read(
            &transcript.path,
            |_, _| {},
            |message| {
                let message = Object::of(Some(message));
                last = message.text("id").unwrap_or_default();
                take(&mut dialogue, &message, &format!("{}:{last}", transcript.session))
            },
        )?;
        dialogue.sink.advance(transcript.size);
        if !is_whole {
            dialogue.sink.leave_out(LeftOut::Broken);
        }
        dialogue.finish(&format!("{}:{last}", transcript.session))
    }
}

fn take(dialogue: &mut Dialogue<'_>, message: &Object<'_>, id: &str) -> Result<(), Stop> {
    dialogue.at(message.time("timestamp"), None, None);
    let text = content_text(message.get("content"));
    match message.text("type").as_deref() {
        Some("user") if !text.trim().is_empty() => dialogue.prompt(&text, id, id, None),
        Some("gemini") => {
            dialogue.drop_closing();
            for call in message.list("toolCalls") {
                tool_call(dialogue, &Object::of(Some(call)))?;
            }
            dialogue.say(text, id);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn tool_call(dialogue: &mut Dialogue<'_>, call: &Object<'_>) -> Result<(), Stop> {
    let (Some(id), Some(name)) = (call.text("id"), call.text("name")) else { return Ok(()) };
    let input: Value =
        call.get("args").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let (name, input) = translated(&name, &input);
    let (input, text) = (input.to_string(), result_text(call));
    let outcome = match call.text("status").as_deref() {
        Some("error") => CallResult::Failed(text),
        Some("cancelled") => CallResult::Refused(text),
        _ => CallResult::Response(rebuilt_response(&name, &input, &text)),
    };
    dialogue.call(id.clone(), PendingCall { name, input, agent: None });
    dialogue.result(&id, outcome, None)
}

/// The result is a list of function responses, or a text for people.
fn result_text(call: &Object<'_>) -> String {
    let answers = elements(call.get("result"));
    let texts = answers.iter().filter_map(|part| {
        let response = Object::of(Some(part)).object("functionResponse").object("response");
        response.text("output").or_else(|| response.text("error"))
    });
    let joined = texts.collect::<Vec<_>>().join("\n");
    if joined.is_empty() { call.text("resultDisplay").unwrap_or_default() } else { joined }
}
