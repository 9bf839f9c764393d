//! What a session is told after its start: asks the worker, with little patience, and prints what it says. Without a worker
//! nothing is said.

use std::io::{self, Write};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::context::write_answer;
use super::{Input, ask, event};
use crate::config::{Config, Environment};
use crate::model::{Event, EventBody, SessionStamp};
use crate::paths::Home;
use crate::project::Project;
use crate::wire::{HookInput, text_of};

/// Who asks, and by which settings.
pub struct Asker<'a> {
    pub home: &'a Home,
    pub config: &'a Config,
    pub environment: &'a Environment,
}

/// A text that is asked about need not be longer, from its beginning and from its end.
const HALF_BYTES: usize = 2_000;

/// What is to be changed, by any of the client's tools.
#[derive(Deserialize)]
struct Target<'a> {
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    notebook_path: Option<&'a RawValue>,
}

/// The part of a stored payload that says why a tool failed.
#[derive(Deserialize)]
struct Failed<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Asker<'_> {
    /// Prints what is known about the file that is about to be changed.
    pub fn before_change(&self, input: &Input, output: &mut impl Write) -> io::Result<()> {
        if !self.config.context.per_file {
            return Ok(());
        }
        let text = event::text_of(&input.bytes);
        let (wire, outcome) = HookInput::parse(&text);
        let session = event::session_of(&wire, self.config, self.environment).flatten();
        let target = wire.tool_input.and_then(|input| serde_json::from_str::<Target<'_>>(input.get()).ok());
        let path = target.and_then(|target| target.file_path.or(target.notebook_path)).and_then(text_of);
        match (outcome, session, path) {
            (Ok(()), Some(session), Some(path)) => {
                self.tell(&session, "PreToolUse", ("/api/context/file", &path), output)
            }
            _ => Ok(()),
        }
    }

    /// Prints what is known about a prompt, or about the failure of a tool.
    pub fn after(&self, event: &Event, input: &Input, output: &mut impl Write) -> io::Result<()> {
        let settings = &self.config.context;
        match (&event.session, &event.body) {
            (Some(session), EventBody::Prompt { text }) if settings.per_prompt => {
                let about = shortened(text);
                self.tell(session, "UserPromptSubmit", ("/api/context/prompt", &about), output)
            }
            (Some(session), EventBody::Tool(tool)) if settings.on_failure && tool.failed => {
                let failed = serde_json::from_str::<Failed<'_>>(&tool.payload.json).ok();
                let error = failed.and_then(|failed| failed.error).and_then(text_of);
                // The client wants its own name of the event back, and old ones tell of failures under another.
                match error.filter(|_| is_called(input, "PostToolUseFailure")) {
                    Some(error) => {
                        let about = shortened(&error);
                        let question = ("/api/context/failure", about.as_str());
                        self.tell(session, "PostToolUseFailure", question, output)
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn tell(
        &self,
        session: &SessionStamp,
        event_name: &str,
        (route, about): (&str, &str),
        output: &mut impl Write,
    ) -> io::Result<()> {
        let settings = &self.config.context;
        let place = Project::of(session.cwd.as_ref(), &self.config.capture);
        let user_home = self.environment.user_home.as_deref();
        if !settings.enabled || place.is_without_context(&settings.exclude_projects, user_home) {
            return Ok(());
        }
        let parameters = [
            ("project_path", session.project_path.as_str()),
            ("session_id", session.id.as_str()),
            ("text", about),
        ];
        let patience = Duration::from_millis(settings.moment_timeout_ms);
        let told = ask::context(&self.home.socket(), route, &parameters, patience).unwrap_or_default();
        write_answer(output, event_name, &told, None)
    }
}

fn is_called(input: &Input, name: &str) -> bool {
    let text = event::text_of(&input.bytes);
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
