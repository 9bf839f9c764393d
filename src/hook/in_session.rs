//! Memories after a session's start: asks the worker, with a short timeout, and prints the answer. Without a worker
//! nothing is said.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::context::{note_shown, write_answer};
use super::http;
use crate::capture::{self, Input, agents};
use crate::clock;
use crate::config::{Config, Environment};
use crate::model::{Event, EventBody, SessionStamp};
use crate::paths::Home;
use crate::project::Project;
use crate::protocol::{HookInput, text_of};
use crate::store;
use crate::value;

/// The data directory, settings and environment of a request.
pub struct Asker<'a> {
    pub home: &'a Home,
    pub config: &'a Config,
    pub environment: &'a Environment,
}

/// A text that is asked about need not be longer, from its beginning and from its end.
const HALF_BYTES: usize = 2_000;

/// Of the lines that an edit adds, and of those that it removes, no more than this is sent.
const LINES_BYTES: usize = 6_000;

/// An edit, by any of the client's tools.
#[derive(Deserialize, Default)]
struct EditTarget<'a> {
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    notebook_path: Option<&'a RawValue>,
    #[serde(borrow, default)]
    edits: Vec<Change<'a>>,
}

/// One replacement of text; most tools make a single one, and say so at the top.
#[derive(Deserialize, Default)]
struct Change<'a> {
    #[serde(borrow)]
    old_string: Option<&'a RawValue>,
    #[serde(borrow)]
    new_string: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

impl Change<'_> {
    /// The lines that all of them add and those that they remove, without the ones that they keep.
    fn lines(changes: &[Self]) -> (String, String) {
        let (mut old, mut new) = (String::new(), String::new());
        for change in changes {
            for (text, field) in
                [(&mut old, change.old_string), (&mut new, change.new_string.or(change.content))]
            {
                text.push_str(&field.and_then(text_of).unwrap_or_default());
                text.push('\n');
            }
        }
        (lines_without(&new, &old), lines_without(&old, &new))
    }
}

/// The lines of a text that another one has not, bounded.
fn lines_without(text: &str, other: &str) -> String {
    let known: HashSet<&str> = other.lines().map(str::trim).collect();
    let mut lines = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !known.contains(line)) {
        if lines.len() + line.len() > LINES_BYTES {
            break;
        }
        lines.push_str(line);
        lines.push('\n');
    }
    lines
}

/// The part of a stored payload that says why a tool failed.
#[derive(Deserialize)]
struct Failed<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Asker<'_> {
    /// Prints memories of the file that is about to be changed.
    pub fn before_change(&self, input: &Input, output: &mut impl Write) -> io::Result<()> {
        if !self.config.context.per_file {
            return Ok(());
        }
        let text = capture::text_of(&input.bytes);
        let (wire, outcome) = HookInput::parse(&text);
        let session = capture::session_of(&wire, self.config, self.environment).flatten();
        let given = wire.tool_input.map(RawValue::get).unwrap_or_default();
        let target = serde_json::from_str::<EditTarget<'_>>(given).ok();
        let path =
            target.as_ref().and_then(|target| target.file_path.or(target.notebook_path)).and_then(text_of);
        match (outcome, session, path) {
            (Ok(()), Some(session), Some(path)) => {
                let mut changes = target.map(|target| target.edits).unwrap_or_default();
                changes.extend(serde_json::from_str::<Change<'_>>(given));
                let (added, removed) = Change::lines(&changes);
                let root = Project::of(session.cwd.as_ref(), &self.config.capture).root;
                let within = Path::new(&path).strip_prefix(&root).ok().and_then(Path::to_str);
                let question = [("text", within.unwrap_or(&path)), ("added", &added), ("removed", &removed)];
                let told =
                    Told { route: "/api/context/file", hook_event: "PreToolUse", log_event: "context_file" };
                self.tell(&session, &told, &question, None, output)
            }
            _ => Ok(()),
        }
    }

    /// Prints memories for a prompt, or for the failure of a tool. `database` is there if the event went into it.
    pub fn after(
        &self,
        event: &Event,
        input: &Input,
        database: Option<&Connection>,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let settings = &self.config.context;
        match (&event.session, &event.body) {
            (Some(session), EventBody::Prompt { text }) if settings.per_prompt => {
                let told = Told {
                    route: "/api/context/prompt",
                    hook_event: "UserPromptSubmit",
                    log_event: "context_prompt",
                };
                self.tell(session, &told, &[("text", &shortened(text))], database, output)
            }
            (Some(session), EventBody::Tool(tool)) if settings.on_failure && tool.failed => {
                let failed = serde_json::from_str::<Failed<'_>>(&tool.payload.json).ok();
                let error = failed.and_then(|failed| failed.error).and_then(text_of);
                // The client wants its own name of the event back, and old ones report failures under another.
                let Some(error) = error.filter(|_| is_called(input, "PostToolUseFailure")) else {
                    return Ok(());
                };
                let told = Told {
                    route: "/api/context/failure",
                    hook_event: "PostToolUseFailure",
                    log_event: "context_failure",
                };
                self.tell(session, &told, &[("text", &shortened(&error))], database, output)
            }
            _ => Ok(()),
        }
    }

    fn tell(
        &self,
        session: &SessionStamp,
        told: &Told,
        question: &[(&str, &str)],
        database: Option<&Connection>,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let settings = &self.config.context;
        let place = Project::of(session.cwd.as_ref(), &self.config.capture);
        let user_home = self.environment.user_home.as_deref();
        if !settings.enabled
            || place.is_without_context(&settings.exclude_projects, user_home)
            || value::is_withheld(session.id.as_str(), self.config.value.holdout_percent)
        {
            return Ok(());
        }
        let began = Instant::now();
        let mut parameters =
            vec![("project_path", session.project_path.as_str()), ("session_id", session.id.as_str())];
        parameters.extend(question);
        let patience = Duration::from_millis(settings.moment_timeout_ms);
        let Some(answer) = http::context(&self.home.socket(), told.route, &parameters, patience) else {
            return Ok(());
        };
        let hook_event = agents::event_name(session.agent, told.hook_event);
        write_answer(output, session.agent, hook_event, &answer.context, None)?;
        if !answer.context.is_empty() {
            let busy_ms = self.config.hook.busy_ms;
            let opened = database.is_none().then(|| store::open_for_hook(self.home, busy_ms).ok()).flatten();
            if let Some(database) = database.or(opened.as_ref()) {
                note_shown(database, told.log_event, session, answer, began.elapsed(), clock::now());
            }
        }
        Ok(())
    }
}

/// The route of a moment, and its names.
struct Told {
    route: &'static str,
    hook_event: &'static str,
    log_event: &'static str,
}

fn is_called(input: &Input, name: &str) -> bool {
    let text = capture::text_of(&input.bytes);
    HookInput::parse(&text).0.hook_event_name.as_deref() == Some(name)
}

/// The beginning and the end of a text.
fn shortened(text: &str) -> String {
    if text.len() <= 2 * HALF_BYTES {
        return text.to_owned();
    }
    let (head, tail) =
        (text.floor_char_boundary(HALF_BYTES), text.ceil_char_boundary(text.len() - HALF_BYTES));
    format!("{}\n{}", &text[..head], &text[tail..])
}
