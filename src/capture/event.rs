//! From a hook's input to the event that is stored, or to nothing if it is not to be recorded.

use std::borrow::Cow;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::payload::{build, build_from_bytes, raw_part, text_part};
use super::{Input, Verb};
use crate::config::{Config, Environment};
use crate::model::{Agent, Event, EventBody, EventKey, Millis, Payload, SessionId, SessionStamp, ToolUse};
use crate::privacy::tags::PrivateTags;
use crate::project::Project;
use crate::protocol::HookInput;

/// The event to store; none if the user does not want this recorded.
pub fn event_from_input(
    verb: Verb,
    input: &Input,
    now: Millis,
    config: &Config,
    environment: &Environment,
) -> Option<Event> {
    let text = text_of(&input.bytes);
    let (wire, outcome) = HookInput::parse(&text);
    let mut session = session_of(&wire, config, environment)?;
    if let Some(session) = &mut session {
        session.agent = input.agent;
    }
    let make = Make {
        verb,
        input,
        wire: &wire,
        limit: usize::try_from(config.hook.max_payload_bytes).unwrap_or(usize::MAX),
    };
    let (key, body) = match (&session, outcome) {
        (Some(session), Ok(())) => (make.key(session), make.body()?),
        (None, Ok(())) => make.rejected("the payload has no session_id"),
        (_, Err(_)) if input.bytes.is_empty() => make.rejected("the payload is empty"),
        (_, Err(error)) => make.rejected(&error.to_string()),
    };
    Some(Event { key, at: now, session, body })
}

/// Whose payload it is, as far as it says; none at all if the user does not want it recorded.
pub fn session_of(
    wire: &HookInput<'_>,
    config: &Config,
    environment: &Environment,
) -> Option<Option<SessionStamp>> {
    if wire.tool_name.as_deref().is_some_and(|tool| is_skipped(tool, &config.capture.skip_tools)) {
        return None;
    }
    let cwd = wire.cwd.as_deref().filter(|cwd| Path::new(cwd).is_absolute());
    let project = cwd.map(|cwd| Project::of(Path::new(cwd), &config.capture));
    if is_excluded(project.as_ref(), config, environment) {
        return None;
    }
    Some(wire.session_id.clone().map(|id| stamp(id, cwd, project)))
}

/// The input as text. Invalid UTF-8 is replaced, but only where it can be a payload at all: noise stays as it is.
pub fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) if bytes.trim_ascii_start().first() == Some(&b'{') => String::from_utf8_lossy(bytes),
        Err(_) => Cow::Borrowed("noise"),
    }
}

fn is_skipped(tool: &str, skip: &[String]) -> bool {
    skip.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => tool.starts_with(prefix),
        None => tool == pattern,
    })
}

/// A session that was started in an excluded project stays excluded wherever it goes.
fn is_excluded(project: Option<&Project>, config: &Config, environment: &Environment) -> bool {
    let excluded = |project: &Project| project.is_excluded(&config.capture, environment.user_home.as_deref());
    let started_in =
        environment.project_dir.as_deref().filter(|dir| project.is_none_or(|it| it.root != *dir));
    project.is_some_and(excluded)
        || started_in.is_some_and(|dir| excluded(&Project::of(dir, &config.capture)))
}

fn stamp(id: String, cwd: Option<&str>, project: Option<Project>) -> SessionStamp {
    let Project { key, name, is_alias, path, branch, .. } = project.unwrap_or_default();
    SessionStamp {
        id: SessionId(id),
        project_key: key,
        project: name,
        is_alias,
        project_path: path.to_string_lossy().into_owned(),
        cwd: cwd.unwrap_or_default().to_owned(),
        branch,
        agent: Agent::ClaudeCode,
    }
}

/// The parts of an event.
struct Make<'a> {
    verb: Verb,
    input: &'a Input,
    wire: &'a HookInput<'a>,
    limit: usize,
}

impl Make<'_> {
    fn key(&self, session: &SessionStamp) -> EventKey {
        match (self.verb, &self.wire.tool_use_id, &self.wire.prompt_id) {
            (Verb::Save, Some(tool_use_id), _) => {
                EventKey::Exact(format!("tool:{}:{tool_use_id}", session.id))
            }
            (Verb::New, _, Some(prompt_id)) => {
                // Prompts typed during one turn share the id. Their text distinguishes them, or else their time: the user may
                // say the same twice.
                let hash = hash(self.verb, self.wire.prompt.as_deref().unwrap_or_default().as_bytes());
                EventKey::Near(format!("prompt:{}:{prompt_id}:{hash:032x}", session.id))
            }
            _ => EventKey::Near(format!("event:{}:{:032x}", session.id, hash(self.verb, &self.input.bytes))),
        }
    }

    /// The event's body; none if a file is only about to be changed.
    fn body(&self) -> Option<EventBody> {
        match self.verb {
            Verb::Context => Some(EventBody::Start { source: self.wire.source.clone() }),
            Verb::New => Some(EventBody::Prompt { text: self.prompt() }),
            Verb::Save => Some(EventBody::Tool(self.tool_use())),
            Verb::File => None,
            Verb::Summary | Verb::Compact => Some(EventBody::Summarize(self.turn())),
            Verb::End => Some(EventBody::End { reason: self.wire.reason.clone() }),
        }
    }

    fn prompt(&self) -> String {
        let text = self.wire.prompt.as_deref().unwrap_or_default();
        let text = PrivateTags::default().strip(text).replace('\0', "\u{fffd}");
        if text.len() <= self.limit {
            return text;
        }
        let half = self.limit / 2;
        let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
        format!("{}[claude-mem: {} bytes cut]{}", &text[..head], tail - head, &text[tail..])
    }

    fn tool_use(&self) -> ToolUse {
        let wire = self.wire;
        let parts = [
            raw_part("tool_input", wire.tool_input),
            raw_part("tool_response", wire.tool_response),
            raw_part("error", wire.error),
            raw_part("is_interrupt", wire.is_interrupt),
            raw_part("duration_ms", wire.duration_ms),
        ];
        let failed = wire.hook_event_name.as_deref() == Some("PostToolUseFailure")
            || (wire.error.is_some() && wire.tool_response.is_none());
        ToolUse {
            tool_name: wire.tool_name.clone(),
            tool_use_id: wire.tool_use_id.clone(),
            agent_id: wire.agent_id.clone(),
            agent_type: wire.agent_type.clone(),
            failed,
            payload: self.payload(build(parts, self.limit)),
        }
    }

    /// The facts about the turn that a summary needs. Older clients do not send the last message: then the worker reads
    /// it from the transcript.
    fn turn(&self) -> Payload {
        let wire = self.wire;
        let parts = [
            text_part("event", wire.hook_event_name.as_deref()),
            raw_part("last_assistant_message", wire.last_assistant_message),
            raw_part("error", wire.error),
            text_part("trigger", wire.trigger.as_deref()),
            raw_part("custom_instructions", wire.custom_instructions),
            text_part("transcript_path", wire.transcript_path.as_deref()),
        ];
        self.payload(build(parts, self.limit))
    }

    fn rejected(&self, reason: &str) -> (EventKey, EventBody) {
        let payload = self.payload(build_from_bytes(&self.input.bytes, self.limit));
        let key = EventKey::Exact(format!("rejected:{:032x}", hash(self.verb, &self.input.bytes)));
        (key, EventBody::Rejected { reason: reason.to_owned(), payload })
    }

    fn payload(&self, json: String) -> Payload {
        Payload { json, raw_bytes: self.input.raw_bytes }
    }
}

fn hash(verb: Verb, bytes: &[u8]) -> u128 {
    let mut hasher = Xxh3::with_seed(verb as u64);
    hasher.update(bytes);
    hasher.digest128()
}
