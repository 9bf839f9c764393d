//! Claude Code transcripts as the hook events that the client sent when they were written, at their original times.
//!
//! Left out, as the client fires no hook for them: rejected tool calls and commands of the client itself. Also left out:
//! records copied from another file (forks and resumes repeat their history) and sidechain records.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use claude_mem::capture::Verb;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::project::{Project, Transcript};
use crate::prompt::prompt_of;
use crate::response;

/// Any object of a transcript (a record, its message, a block of that), with the fields that matter in one of them.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Part<'a> {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    subtype: Option<String>,
    pub session_id: Option<String>,
    pub cwd: Option<String>,
    git_branch: Option<String>,
    pub timestamp: Option<String>,
    uuid: Option<String>,
    prompt_id: Option<String>,
    is_sidechain: Option<bool>,
    is_meta: Option<bool>,
    is_compact_summary: Option<bool>,
    is_visible_in_transcript_only: Option<bool>,
    hook_event: Option<String>,
    hook_name: Option<String>,
    agent_id: Option<String>,
    command_mode: Option<String>,
    #[serde(rename = "is_error")]
    is_error: Option<bool>,
    #[serde(rename = "tool_use_id")]
    tool_use_id: Option<String>,
    id: Option<String>,
    name: Option<String>,
    model: Option<String>,
    text: Option<String>,
    input: Option<Box<RawValue>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_use_result: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    attachment: Option<&'a RawValue>,
    #[serde(borrow)]
    origin: Option<&'a RawValue>,
    #[serde(borrow)]
    compact_metadata: Option<&'a RawValue>,
}

impl Part<'_> {
    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }
}

struct ToolCall {
    name: String,
    input: Option<Box<RawValue>>,
    agent: Option<String>,
}

type Fields = BTreeMap<&'static str, Box<RawValue>>;

/// Adds the events of one transcript to its project. `seen` maps each record's uuid to the file that had it first.
pub fn convert(
    transcript: &Transcript,
    number: usize,
    seen: &mut HashMap<String, usize>,
    project: &mut Project,
) -> io::Result<()> {
    project.branch = None;
    let mut conversion = Conversion::new(transcript, project);
    for_each_line(&transcript.path, |line| {
        let line = conversion.project.rewriter.rewrite(line);
        let Ok(record) = serde_json::from_str::<Part<'_>>(&line) else {
            return conversion.project.leave_out("unreadable lines");
        };
        let first = record.uuid.clone().map_or(number, |uuid| *seen.entry(uuid).or_insert(number));
        if first != number {
            conversion.project.leave_out("copied records");
        } else if record.is_sidechain == Some(true) {
            conversion.project.leave_out("sidechain records");
        } else {
            conversion.take(&record);
        }
    })?;
    conversion.finish();
    Ok(())
}

/// Calls `each` with every line that is not empty; invalid UTF-8 is replaced.
pub fn for_each_line(path: &Path, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if !text.trim_ascii().is_empty() {
            each(&text);
        }
        line.clear();
    }
    Ok(())
}

/// The state while one transcript is read.
struct Conversion<'a> {
    project: &'a mut Project,
    session: String,
    clock: i64,
    cwd: String,
    prompt_id: Option<String>,
    tools: HashMap<String, ToolCall>,
    message_id: Option<String>,
    /// The texts of the last message, unless it called a tool.
    closing: Vec<String>,
    is_open: bool,
    is_interrupted: bool,
    last: Option<Verb>,
}

impl<'a> Conversion<'a> {
    fn new(transcript: &Transcript, project: &'a mut Project) -> Self {
        Self {
            session: transcript.session.clone(),
            clock: 0,
            cwd: project.root.clone(),
            prompt_id: None,
            tools: HashMap::new(),
            message_id: None,
            closing: Vec::new(),
            is_open: false,
            is_interrupted: false,
            last: None,
            project,
        }
    }

    fn take(&mut self, record: &Part<'_>) {
        let kind = record.kind.as_deref().unwrap_or_default();
        if !matches!(kind, "user" | "assistant" | "system" | "progress" | "attachment") {
            return;
        }
        let time = record.timestamp.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        self.clock = self.clock.max(time.map_or(0, jiff::Timestamp::as_millisecond));
        if let Some(cwd) = &record.cwd {
            let is_inside = Path::new(cwd).starts_with(&self.project.root);
            self.cwd.clone_from(if is_inside { cwd } else { &self.project.root });
        }
        if let Some(branch) =
            record.git_branch.as_ref().filter(|branch| !branch.is_empty() && *branch != "HEAD")
        {
            self.project.branch = Some(branch.clone());
        }
        match kind {
            "progress" => self.progress(&parse(record.data)),
            "attachment" => self.attachment(&parse(record.attachment)),
            "system" => self.system(record),
            "assistant" => self.assistant(parse(record.message)),
            _ => self.user(record),
        }
    }

    fn progress(&mut self, data: &Part<'_>) {
        if data.is("hook_progress") {
            self.session_start(data);
        } else if data.is("agent_progress") {
            let inner: Part<'_> = parse(data.message);
            for block in blocks(parse::<Part<'_>>(inner.message).content) {
                if block.is("tool_use") {
                    self.tool_use(block, data.agent_id.clone());
                } else if block.is("tool_result") {
                    self.tool_result(&block, inner.tool_use_result);
                }
            }
        }
    }

    fn attachment(&mut self, attachment: &Part<'_>) {
        if attachment.hook_event.is_some() {
            self.session_start(attachment);
        } else if attachment.is("queued_command")
            && attachment.command_mode.as_deref() == Some("prompt")
            && string(attachment.origin, "kind").as_deref() == Some("human")
            && let Some(prompt) = prompt_of(&text_of(attachment.prompt))
        {
            self.emit(Verb::New, "UserPromptSubmit", [("prompt", json(&prompt))]);
        }
    }

    /// Takes the record of a SessionStart hook. The one after a compaction comes with its boundary.
    fn session_start(&mut self, hook: &Part<'_>) {
        let source = hook.hook_name.as_deref().and_then(|name| name.rsplit(':').next()).unwrap_or("startup");
        let is_start = hook.hook_event.as_deref() == Some("SessionStart");
        if !is_start || source == "compact" || self.last == Some(Verb::Context) {
            return;
        }
        match (self.last, source) {
            (None, _) => {}
            (Some(_), "resume") => self.emit(Verb::End, "SessionEnd", [("reason", json("other"))]),
            _ => return,
        }
        self.start(source);
    }

    fn start(&mut self, source: &str) {
        self.emit(Verb::Context, "SessionStart", [("source", json(source))]);
    }

    fn system(&mut self, record: &Part<'_>) {
        match record.subtype.as_deref() {
            Some("stop_hook_summary") => self.stop(),
            Some("compact_boundary") => {
                let trigger = string(record.compact_metadata, "trigger").unwrap_or_else(|| "auto".into());
                self.emit(Verb::Compact, "PreCompact", [("trigger", json(&trigger))]);
                self.start("compact");
            }
            _ => {}
        }
    }

    fn assistant(&mut self, message: Part<'_>) {
        if message.model.as_deref() == Some("<synthetic>") {
            return;
        }
        if message.id != self.message_id {
            self.message_id = message.id;
            self.closing.clear();
        }
        for block in blocks(message.content) {
            if block.is("text") {
                self.closing.extend(block.text.filter(|text| !text.trim().is_empty()));
            } else if block.is("tool_use") {
                self.closing.clear();
                self.tool_use(block, None);
            }
        }
    }

    fn user(&mut self, record: &Part<'_>) {
        let message: Part<'_> = parse(record.message);
        let text = text_of(message.content);
        self.is_interrupted |= text.contains("[Request interrupted by user");
        let mut results = blocks(message.content);
        results.retain(|block| block.is("tool_result"));
        results.iter().for_each(|block| self.tool_result(block, record.tool_use_result));
        let is_injected = [record.is_meta, record.is_compact_summary, record.is_visible_in_transcript_only]
            .contains(&Some(true));
        if !is_injected
            && results.is_empty()
            && let Some(prompt) = prompt_of(&text)
        {
            self.ask(&prompt, record.prompt_id.clone().or_else(|| record.uuid.clone()));
        }
    }

    fn ask(&mut self, prompt: &str, id: Option<String>) {
        self.stop_if_open();
        if self.last.is_none() {
            self.start("startup");
        }
        self.prompt_id = id;
        self.emit(Verb::New, "UserPromptSubmit", [("prompt", json(prompt))]);
        self.is_open = true;
        self.is_interrupted = false;
        self.message_id = None;
        self.closing.clear();
    }

    /// Clients without a Stop hook record no stop, and a transcript may have been copied while the hook ran.
    fn stop_if_open(&mut self) {
        if self.is_open && !self.is_interrupted {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if !self.closing.is_empty() {
            let text = self.closing.join("\n");
            self.emit(Verb::Summary, "Stop", [("last_assistant_message", json(text.trim()))]);
            self.is_open = false;
        }
    }

    fn tool_use(&mut self, block: Part<'_>, agent: Option<String>) {
        if let (Some(id), Some(name)) = (block.id, block.name) {
            self.tools.insert(id, ToolCall { name, input: block.input, agent });
        }
    }

    fn tool_result(&mut self, block: &Part<'_>, response: Option<&RawValue>) {
        let Some((id, call)) = block.tool_use_id.as_ref().and_then(|id| self.tools.remove_entry(id)) else {
            return;
        };
        let text = text_of(block.content);
        let (name, outcome) = if block.is_error != Some(true) {
            if call.name == "AskUserQuestion" {
                self.project.answers.push((self.session.clone(), self.clock, text.clone()));
            }
            let given = response.map(ToOwned::to_owned);
            let response =
                given.unwrap_or_else(|| response::rebuild(&call.name, call.input.as_deref(), &text));
            ("PostToolUse", ("tool_response", response))
        } else if is_rejection(&text) {
            return self.project.leave_out("rejected calls");
        } else {
            ("PostToolUseFailure", ("error", json(&text)))
        };
        let mut fields = vec![outcome, ("tool_name", json(&call.name)), ("tool_use_id", json(&id))];
        fields.extend(call.input.map(|input| ("tool_input", input)));
        fields.extend(call.agent.map(|agent| ("agent_id", json(&agent))));
        self.emit(Verb::Save, name, fields);
    }

    fn emit(
        &mut self,
        verb: Verb,
        name: &str,
        fields: impl IntoIterator<Item = (&'static str, Box<RawValue>)>,
    ) {
        let mut payload: Fields = fields.into_iter().collect();
        payload.insert("session_id", json(&self.session));
        payload.insert("transcript_path", json("/nonexistent/transcript.jsonl"));
        payload.insert("cwd", json(&self.cwd));
        payload.insert("hook_event_name", json(name));
        payload.extend(self.prompt_id.as_ref().map(|id| ("prompt_id", json(id))));
        self.project.capture(verb, serde_json::to_vec(&payload).unwrap(), self.clock);
        self.last = Some(verb);
    }

    fn finish(&mut self) {
        if self.last.is_some() {
            self.stop_if_open();
            self.clock += 3_000;
            self.emit(Verb::End, "SessionEnd", [("reason", json("prompt_input_exit"))]);
        }
    }
}

fn is_rejection(text: &str) -> bool {
    let head = &text[..text.floor_char_boundary(80)];
    text.starts_with("The user doesn't want to")
        || text.starts_with("Permission to use")
        || head.contains("Request interrupted by user")
        || head.to_lowercase().contains("user rejected")
}

/// The value as JSON.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

/// The value in `text`; an empty one if it has another shape.
fn parse<'a, T: Deserialize<'a> + Default>(text: Option<&'a RawValue>) -> T {
    text.and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
}

fn string(object: Option<&RawValue>, key: &str) -> Option<String> {
    parse::<serde_json::Value>(object)[key].as_str().map(ToOwned::to_owned)
}

fn blocks(content: Option<&RawValue>) -> Vec<Part<'_>> {
    parse(content.filter(|content| content.get().starts_with('[')))
}

/// The text of a message's content, which is a string or a list of blocks.
fn text_of(content: Option<&RawValue>) -> String {
    if content.is_some_and(|content| content.get().starts_with('"')) {
        return parse(content);
    }
    let texts = blocks(content).into_iter().filter(|block| block.is("text"));
    texts.filter_map(|block| block.text).collect::<Vec<_>>().join("\n")
}
