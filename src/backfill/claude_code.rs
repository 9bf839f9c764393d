//! Claude Code, from 1.0.117 on: one record a line, one content block a record.
//!
//! Subagents write files of their own, which are read where the main session has their answer; older clients put their
//! messages into the main file, as sidechain or progress records.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::dialogue::{CallResult, Dialogue, PendingCall, Subagent};
use super::json::{Object, content_text, elements, quoted, with_slashes};
use super::lines::Lines;
use super::{FileSession, LeftOut, Reader, Sink, Stop, Transcript};
use crate::capture::tool_names::{rebuilt_response, tool_name};
use crate::tools::refusal;

pub struct ClaudeCode;

impl Reader for ClaudeCode {
    fn is_history(&self, path: &Path) -> bool {
        let is_main = |name: &str| name.ends_with(".jsonl") && !name.starts_with("agent-");
        path.file_name().and_then(|name| name.to_str()).is_some_and(is_main)
            && !path.components().any(|part| part.as_os_str() == "subagents")
    }

    fn begins_like(&self, head: &str) -> bool {
        head.contains("\"sessionId\"") && head.contains("\"type\"") && !head.contains("\"projectHash\"")
    }

    fn survey(&self, path: &Path, head: &str, tail: &str) -> Option<FileSession> {
        let stem = path.file_stem()?.to_str()?.to_owned();
        let records = || head.lines().filter_map(Object::parse);
        let named = || records().find_map(|record| record.text("sessionId"));
        // The file's name is the session's id. A file of another name is somebody's copy.
        let session = if is_uuid(&stem) { stem } else { named()? };
        let cwd = records().find_map(|record| record.text("cwd"));
        let last = tail.lines().rev().filter_map(Object::parse).find_map(|record| record.time("timestamp"));
        Some(FileSession { session, cwd, last })
    }

    fn read(&self, transcript: &Transcript, from: u64, sink: &mut dyn Sink) -> Result<bool, Stop> {
        let mut reading = ClaudeCodeReading {
            dialogue: Dialogue::new(sink),
            transcript,
            message: None,
            command: None,
            last_record: String::new(),
            read: HashSet::new(),
            is_resumed: from > 0,
        };
        let mut lines = Lines::open(&transcript.path, from, transcript.size)?;
        while let Some(line) = lines.next()? {
            if let Some(record) = line.record(reading.dialogue.sink) {
                reading.take(&record, line.start)?;
            }
        }
        reading.finish()
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// A slash command of which the next record shows whether the client itself handled it.
struct SlashCommand {
    prompt: String,
    id: String,
    record: String,
    offset: u64,
}

struct ClaudeCodeReading<'a> {
    dialogue: Dialogue<'a>,
    transcript: &'a Transcript,
    /// The id of the message whose blocks are being read.
    message: Option<String>,
    command: Option<SlashCommand>,
    last_record: String,
    /// Files of subagents that were read.
    read: HashSet<PathBuf>,
    is_resumed: bool,
}

impl ClaudeCodeReading<'_> {
    fn take(&mut self, record: &Object<'_>, offset: u64) -> Result<(), Stop> {
        if record.text("sessionId").is_some_and(|session| session != self.transcript.session) {
            self.dialogue.sink.leave_out(LeftOut::OtherSession);
            return Ok(());
        }
        let kind = record.text("type").unwrap_or_default();
        match kind.as_str() {
            "custom-title" | "ai-title" => {
                let title = record.text("customTitle").or_else(|| record.text("aiTitle"));
                title
                    .or_else(|| record.text("title"))
                    .into_iter()
                    .for_each(|title| self.dialogue.sink.title(title));
                return Ok(());
            }
            "pr-link" => {
                let link = record.text("prUrl").map(|url| format!("Pull request: {url}"));
                link.into_iter().for_each(|link| self.dialogue.note(link));
                return Ok(());
            }
            "user" | "assistant" | "system" | "progress" | "attachment" => {}
            _ => return Ok(()),
        }
        let cwd = record.text("cwd").map(|cwd| slashed(&cwd));
        self.dialogue.at(record.time("timestamp"), cwd, record.text("gitBranch"));
        self.last_record = record.text("uuid").unwrap_or_default();
        if record.flag("isSidechain") {
            let id = record.text("agentId").unwrap_or_else(|| "sidechain".into());
            return self.subagent_blocks(record, &Subagent { id, kind: None });
        }
        match kind.as_str() {
            "user" => self.user(record, offset),
            "assistant" => self.assistant(record),
            "system" => self.system(record),
            "attachment" => self.attachment(record),
            _ => self.progress(record),
        }
    }

    fn user(&mut self, record: &Object<'_>, offset: u64) -> Result<(), Stop> {
        let message = record.object("message");
        let content = message.get("content");
        let results: Vec<Object<'_>> = blocks(content, "tool_result");
        if !results.is_empty() {
            self.submit_command()?;
            let response = record.get("toolUseResult").filter(|_| results.len() == 1);
            for result in &results {
                self.result(result, response)?;
            }
            return Ok(());
        }
        let text = content_text(content);
        if ["isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"].iter().any(|flag| record.flag(flag)) {
            // The text of a command follows its name.
            self.submit_command()?;
            self.dialogue.sink.leave_out(LeftOut::Injected);
            return Ok(());
        }
        if text.trim_start().starts_with("[Request interrupted by user") {
            self.dialogue.interrupt();
        }
        let record_id = self.last_record.clone();
        let id = record.text("promptId").unwrap_or_else(|| record_id.clone());
        match prompt_of(&text) {
            Some(Prompt::Typed(prompt)) => {
                self.submit_command()?;
                self.dialogue.prompt(&prompt, &id, &record_id, Some(offset))
            }
            Some(Prompt::Command(prompt)) => {
                self.submit_command()?;
                self.command = Some(SlashCommand { prompt, id, record: record_id, offset });
                Ok(())
            }
            None => {
                // The client printed an answer of its own.
                self.command = None;
                self.dialogue.sink.leave_out(LeftOut::Injected);
                Ok(())
            }
        }
    }

    fn submit_command(&mut self) -> Result<(), Stop> {
        let Some(SlashCommand { prompt, id, record, offset }) = self.command.take() else { return Ok(()) };
        self.dialogue.prompt(&prompt, &id, &record, Some(offset))
    }

    fn assistant(&mut self, record: &Object<'_>) -> Result<(), Stop> {
        self.submit_command()?;
        let message = record.object("message");
        if message.is("model", "<synthetic>") {
            return Ok(());
        }
        let id = message.text("id");
        if id != self.message || id.is_none() {
            self.message = id;
            self.dialogue.drop_closing();
            let usage = message.object("usage");
            let tokens = |name: &str| usage.number(name).unwrap_or_default() as u64;
            let cached = tokens("cache_creation_input_tokens") + tokens("cache_read_input_tokens");
            self.dialogue.sink.usage(tokens("input_tokens") + cached, tokens("output_tokens"));
        }
        let record_id = self.last_record.clone();
        for block in message.list("content") {
            let block = Object::of(Some(block));
            if block.is("type", "text") {
                self.dialogue.say(block.text("text").unwrap_or_default(), &record_id);
            } else if block.is("type", "tool_use") {
                self.call(&block, None);
            }
        }
        Ok(())
    }

    fn system(&mut self, record: &Object<'_>) -> Result<(), Stop> {
        match record.text("subtype").as_deref() {
            Some("stop_hook_summary" | "turn_duration") => self.dialogue.stop(),
            Some("local_command") => {
                self.command = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn attachment(&mut self, record: &Object<'_>) -> Result<(), Stop> {
        let attachment = record.object("attachment");
        let id = self.last_record.clone();
        match attachment.text("type").as_deref() {
            Some("queued_command") if attachment.object("origin").is("kind", "human") => {
                let text = content_text(attachment.get("prompt"));
                match prompt_of(&text).filter(|_| !attachment.is("commandMode", "task-notification")) {
                    Some(Prompt::Typed(prompt) | Prompt::Command(prompt)) => {
                        self.dialogue.queued_prompt(&prompt, &id, &id)
                    }
                    None => Ok(()),
                }
            }
            Some("edited_text_file") => self.edited(&attachment, &id),
            _ => Ok(()),
        }
    }

    /// The user, or a program of theirs, changed a file during the session.
    fn edited(&mut self, attachment: &Object<'_>, record: &str) -> Result<(), Stop> {
        let Some(file) = attachment.text("filename") else { return Ok(()) };
        let file = quoted(&slashed(&file));
        let id = format!("edited:{record}");
        let input = format!("{{\"file_path\":{file}}}");
        let agent = Some(Subagent { id: "user".into(), kind: Some("user".into()) });
        self.dialogue.call(id.clone(), PendingCall { name: "Edit".into(), input, agent });
        let response = format!("{{\"filePath\":{file},\"structuredPatch\":[],\"userModified\":true}}");
        self.dialogue.result(&id, CallResult::Unhooked(response), Some(record))
    }

    fn progress(&mut self, record: &Object<'_>) -> Result<(), Stop> {
        let data = record.object("data");
        if !data.is("type", "agent_progress") {
            return Ok(());
        }
        let id = data.text("agentId").unwrap_or_else(|| "agent".into());
        let parent = record.text("parentToolUseID").and_then(|id| self.kind_of(&id));
        self.subagent_blocks(&data.object("message"), &Subagent { id, kind: parent })
    }

    /// The kind of subagent that a call starts.
    fn kind_of(&self, call: &str) -> Option<String> {
        Object::parse(&self.dialogue.open_call(call)?.input)?.text("subagent_type")
    }

    /// Calls and results in a record of a subagent. Its prompts and texts are not the user's business.
    fn subagent_blocks(&mut self, record: &Object<'_>, agent: &Subagent) -> Result<(), Stop> {
        let message = record.object("message");
        for block in message.list("content") {
            let block = Object::of(Some(block));
            if block.is("type", "tool_use") {
                self.call(&block, Some(agent.clone()));
            } else if block.is("type", "tool_result") {
                self.result(&block, record.get("toolUseResult"))?;
            }
        }
        Ok(())
    }

    fn call(&mut self, block: &Object<'_>, agent: Option<Subagent>) {
        let (Some(id), Some(name)) = (block.text("id"), block.text("name")) else { return };
        let input = block.get("input").map_or("{}", RawValue::get);
        let call = PendingCall { name: tool_name(&name), input: with_slashes(input).into_owned(), agent };
        self.dialogue.call(id, call);
    }

    fn result(&mut self, block: &Object<'_>, response: Option<&RawValue>) -> Result<(), Stop> {
        let Some(id) = block.text("tool_use_id") else { return Ok(()) };
        let text = content_text(block.get("content"));
        let outcome = if block.flag("is_error") {
            if is_refusal(&text) { CallResult::Refused(text) } else { CallResult::Failed(text) }
        } else {
            match (response, self.dialogue.open_call(&id)) {
                (Some(response), _) => CallResult::Response(with_slashes(response.get()).into_owned()),
                (None, Some(call)) => CallResult::Response(rebuilt_response(&call.name, &call.input, &text)),
                (None, None) => CallResult::Response(quoted(&text)),
            }
        };
        if let Some(agent) = Object::of(response).text("agentId") {
            let kind = self.kind_of(&id);
            self.companion(&Subagent { id: agent, kind })?;
        }
        // A record with several results is a copy as a whole; each of its calls has an id of its own.
        let record = format!("{}:{id}", self.last_record);
        self.dialogue.result(&id, outcome, Some(&record))
    }

    /// Reads the file of a subagent whose answer is there.
    fn companion(&mut self, agent: &Subagent) -> Result<(), Stop> {
        let name = format!("agent-{}.jsonl", agent.id);
        let is_its = |path: &&PathBuf| path.file_name().is_some_and(|found| found == name.as_str());
        match self.transcript.companions.iter().find(is_its).cloned() {
            Some(path) => self.read_companion(path, agent),
            None => Ok(()),
        }
    }

    fn read_companion(&mut self, path: PathBuf, agent: &Subagent) -> Result<(), Stop> {
        if !self.read.insert(path.clone()) {
            return Ok(());
        }
        let clock = self.dialogue.clock;
        let last_record = self.last_record.clone();
        // Nothing else stops because one subagent's file cannot be read.
        let Ok(mut lines) = Lines::open(&path, 0, u64::MAX) else { return Ok(()) };
        self.dialogue.clock = 0;
        while let Some(line) = lines.next()? {
            let Some(text) = &line.text else {
                self.dialogue.sink.leave_out(LeftOut::TooLong);
                continue;
            };
            let Some(record) = Object::parse(text) else {
                if !text.is_empty() && line.is_whole {
                    self.dialogue.sink.leave_out(LeftOut::Broken);
                }
                continue;
            };
            self.dialogue.at(record.time("timestamp"), None, None);
            self.last_record = record.text("uuid").unwrap_or_default();
            self.subagent_blocks(&record, agent)?;
        }
        self.dialogue.clock = clock;
        self.last_record = last_record;
        Ok(())
    }

    fn finish(mut self) -> Result<bool, Stop> {
        if !self.is_resumed {
            // Subagents that no answer in the main file names: workflows, and those that were interrupted.
            for path in self.transcript.companions.clone() {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let id = name.strip_prefix("agent-").unwrap_or(&name).to_owned();
                self.read_companion(path, &Subagent { id, kind: None })?;
            }
        }
        let last = std::mem::take(&mut self.last_record);
        self.dialogue.finish(&last)
    }
}

fn blocks<'a>(content: Option<&'a RawValue>, kind: &str) -> Vec<Object<'a>> {
    let blocks = elements(content).into_iter().map(|block| Object::of(Some(block)));
    blocks.filter(|block| block.is("type", kind)).collect()
}

fn slashed(path: &str) -> String {
    if path.as_bytes().get(1..3) == Some(b":\\") { path.replace('\\', "/") } else { path.to_owned() }
}

/// A text in the user's name.
#[derive(Debug, PartialEq, Eq)]
enum Prompt {
    Typed(String),
    /// A slash command as it was typed.
    Command(String),
}

/// The openings of texts that the client writes in the user's name.
const INJECTED: [&str; 11] = [
    "[Request interrupted by user",
    "<local-command",
    "<bash-",
    "<command-",
    "<task-notification>",
    "<system-reminder>",
    "<user-memory-input>",
    "Caveat: The messages below",
    "Base directory for this skill:",
    "This session is being continued from a previous conversation",
    "<agent-notification>",
];

/// Returns what the user typed; none for a text of the client's.
fn prompt_of(text: &str) -> Option<Prompt> {
    let trimmed = text.trim();
    if trimmed.starts_with('<') && trimmed[..trimmed.floor_char_boundary(400)].contains("<command-name>") {
        let name = between(trimmed, "<command-name>", "</command-name>").trim_start_matches('/');
        let arguments = between(trimmed, "<command-args>", "</command-args>");
        return Some(Prompt::Command(format!("/{name} {arguments}").trim().to_owned()));
    }
    if trimmed.is_empty() || INJECTED.iter().any(|opening| trimmed.starts_with(opening)) {
        return None;
    }
    if !trimmed.starts_with("<ide_") {
        return Some(Prompt::Typed(text.to_owned()));
    }
    let typed = without_editor_tags(trimmed);
    (!typed.is_empty()).then_some(Prompt::Typed(typed))
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let inner = text.split_once(open).and_then(|(_, rest)| rest.split_once(close));
    inner.map_or("", |(inner, _)| inner.trim())
}

/// The editor puts what is open or selected in front of the prompt.
fn without_editor_tags(text: &str) -> String {
    let mut rest = text;
    while let Some(inner) = rest.trim_start().strip_prefix("<ide_") {
        let Some((_, behind)) = inner.split_once("</ide_").and_then(|(_, close)| close.split_once('>'))
        else {
            return String::new();
        };
        rest = behind;
    }
    rest.trim().to_owned()
}

fn is_refusal(text: &str) -> bool {
    let head = text[..text.floor_char_boundary(80)].to_lowercase();
    refusal(text).is_some()
        || head.starts_with("permission to use")
        || head.contains("request interrupted by user")
        || head.contains("user rejected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_client_are_no_prompts() {
        for text in INJECTED {
            assert_eq!(prompt_of(text), None, "{text}");
        }
        let command = "<command-message>fix is running</command-message>\n<command-name>/fix</command-name>\n<command-args>12 now</command-args>";
        assert_eq!(prompt_of(command), Some(Prompt::Command("/fix 12 now".into())));
        assert_eq!(
            prompt_of("<ide_opened_file>a.rs</ide_opened_file>\n<ide_selection>x</ide_selection> why?"),
            Some(Prompt::Typed("why?".into()))
        );
        assert_eq!(prompt_of("<b> is a tag"), Some(Prompt::Typed("<b> is a tag".into())));
    }
}
