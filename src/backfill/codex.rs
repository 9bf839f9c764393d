//! Codex: `sessions/YYYY/MM/DD/rollout-….jsonl`, one `{timestamp, type, payload}` a line.

use std::path::Path;

use serde_json::{Value, json};

use super::dialogue::{CallResult, Dialogue, PendingCall};
use super::json::{Object, content_text, quoted};
use super::lines::Lines;
use super::{FileSession, LeftOut, Reader, Sink, Stop, Transcript};
use crate::capture::tool_names::{patched_files, rebuilt_response, translated};

pub struct Codex;

impl Reader for Codex {
    fn is_history(&self, path: &Path) -> bool {
        let is_rollout = |name: &str| name.starts_with("rollout-") && name.ends_with(".jsonl");
        path.file_name().and_then(|name| name.to_str()).is_some_and(is_rollout)
    }

    fn begins_like(&self, head: &str) -> bool {
        head.lines().next().is_some_and(|line| line.contains("\"session_meta\""))
    }

    fn survey(&self, _: &Path, head: &str, tail: &str) -> Option<FileSession> {
        let meta = head.lines().filter_map(Object::parse).find(|line| line.is("type", "session_meta"))?;
        let payload = meta.object("payload");
        let last = tail.lines().rev().filter_map(Object::parse).find_map(|line| line.time("timestamp"));
        Some(FileSession { session: payload.text("id")?, cwd: payload.text("cwd"), last })
    }

    fn read(&self, transcript: &Transcript, from: u64, sink: &mut dyn Sink) -> Result<bool, Stop> {
        let dialogue = Dialogue::new(sink);
        let mut reading = CodexReading { dialogue, session: &transcript.session, time: String::new() };
        reading.dialogue.cwd.clone_from(&transcript.cwd);
        let mut lines = Lines::open(&transcript.path, from, transcript.size)?;
        while let Some(line) = lines.next()? {
            if let Some(record) = line.record(reading.dialogue.sink) {
                reading.take(&record, line.start)?;
            }
        }
        let last = format!("{}:{}", reading.session, reading.time);
        reading.dialogue.finish(&last)
    }
}

struct CodexReading<'a> {
    dialogue: Dialogue<'a>,
    session: &'a str,
    time: String,
}

impl CodexReading<'_> {
    fn take(&mut self, record: &Object<'_>, offset: u64) -> Result<(), Stop> {
        self.time = record.text("timestamp").unwrap_or_default();
        let payload = record.object("payload");
        let branch = payload.object("git").text("branch");
        self.dialogue.at(record.time("timestamp"), payload.text("cwd"), branch);
        // Records have no ids; two of one session never have the same time and kind.
        let id = format!("{}:{}", self.session, self.time);
        let kind = payload.text("type").unwrap_or_default();
        match (record.text("type").as_deref(), kind.as_str()) {
            (Some("event_msg"), "user_message") => {
                let text = payload.text("message").unwrap_or_default();
                if text.trim().is_empty() {
                    Ok(())
                } else {
                    self.dialogue.prompt(&text, &id, &id, Some(offset))
                }
            }
            (Some("event_msg"), "agent_message") => {
                self.dialogue.drop_closing();
                self.dialogue.say(payload.text("message").unwrap_or_default(), &id);
                Ok(())
            }
            (Some("event_msg"), "task_complete") => {
                if let Some(message) = payload.text("last_agent_message") {
                    self.dialogue.drop_closing();
                    self.dialogue.say(message, &id);
                }
                self.dialogue.stop()
            }
            (Some("event_msg"), "turn_aborted") => {
                self.dialogue.interrupt();
                Ok(())
            }
            (Some("response_item"), "function_call" | "custom_tool_call" | "local_shell_call") => {
                self.call(&payload);
                Ok(())
            }
            (Some("response_item"), "function_call_output" | "custom_tool_call_output") => {
                self.output(&payload)
            }
            _ => Ok(()),
        }
    }

    fn call(&mut self, payload: &Object<'_>) {
        let Some(id) = payload.text("call_id") else { return };
        let name = payload.text("name").unwrap_or_else(|| "local_shell".into());
        let arguments = payload.text("arguments").or_else(|| payload.text("input"));
        let input = match &arguments {
            Some(text) => serde_json::from_str(text).unwrap_or_else(|_| json!({"input": text})),
            None => {
                payload.get("action").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
            }
        };
        if name == "apply_patch" {
            let patch = input["input"].as_str().or(input["patch"].as_str()).or(arguments.as_deref());
            for (number, file) in patched_files(patch.unwrap_or_default()).iter().enumerate() {
                let call =
                    PendingCall { name: file.tool.into(), input: file.input().to_string(), agent: None };
                self.dialogue.call(format!("{id}:{number}"), call);
            }
            return;
        }
        let (name, input) = translated(&name, &input);
        self.dialogue.call(id, PendingCall { name, input: input.to_string(), agent: None });
    }

    fn output(&mut self, payload: &Object<'_>) -> Result<(), Stop> {
        let Some(id) = payload.text("call_id") else { return Ok(()) };
        let text =
            payload.text("output").unwrap_or_else(|| content_text(payload.object("output").get("content")));
        let (text, exit) = shell_output(&text);
        let ids: Vec<String> = std::iter::once(id.clone())
            .chain(
                (0..)
                    .map(|number| format!("{id}:{number}"))
                    .take_while(|id| self.dialogue.open_call(id).is_some()),
            )
            .filter(|id| self.dialogue.open_call(id).is_some())
            .collect();
        if ids.is_empty() {
            self.dialogue.sink.leave_out(LeftOut::NoCall);
        }
        for id in ids {
            let Some(call) = self.dialogue.open_call(&id) else { continue };
            let outcome = match exit {
                Some(code) if code != 0 => CallResult::Failed(format!("Exit code {code}\n{text}")),
                _ if call.name == "Bash" || call.name == "Edit" || call.name == "Write" => {
                    CallResult::Response(rebuilt_response(&call.name, &call.input, &text))
                }
                _ => CallResult::Response(quoted(&text)),
            };
            self.dialogue.result(&id, outcome, None)?;
        }
        Ok(())
    }
}

/// The output of a command and its exit code, in the ways in which Codex has written them.
fn shell_output(text: &str) -> (String, Option<i64>) {
    if let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) {
        let exit = object.get("metadata").and_then(|metadata| metadata["exit_code"].as_i64());
        if let Some(output) = object.get("output").and_then(Value::as_str) {
            return (output.to_owned(), exit);
        }
    }
    let heading = &text[..text.floor_char_boundary(400)];
    let code = |mark: &str| {
        let (_, rest) = heading.split_once(mark)?;
        rest.split_whitespace().next()?.parse::<i64>().ok()
    };
    let exit = code("Process exited with code ").or_else(|| code("Exit code: "));
    let body = match (exit, text.split_once("Output:\n")) {
        (Some(_), Some((_, body))) => body,
        _ => text,
    };
    (body.to_owned(), exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_found_in_every_form() {
        let text = "Chunk ID: 1f\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nboom";
        assert_eq!(shell_output(text), ("boom".into(), Some(2)));
        let json = r#"{"output":"fine","metadata":{"exit_code":0,"duration_seconds":0.1}}"#;
        assert_eq!(shell_output(json), ("fine".into(), Some(0)));
        assert_eq!(shell_output("plain"), ("plain".into(), None));
    }
}
