//! The context that a starting session is given.

use std::io::{self, Write};

use crate::config::Config;
use crate::context::{self, Request};
use crate::model::{Event, EventBody, Millis};
use crate::paths::Home;
use crate::store;
use crate::wire::{HookOutput, HookSpecificOutput, MAX_CONTEXT_UNITS};

/// Prints the context for the session that `event` starts, or nothing if there is none to give.
pub fn print(
    home: &Home,
    config: &Config,
    event: &Event,
    now: Millis,
    mut output: impl Write,
) -> io::Result<()> {
    let (Some(session), EventBody::Start { source }) = (&event.session, &event.body) else { return Ok(()) };
    if !is_wanted(config, source.as_deref()) {
        return Ok(());
    }
    let Ok(database) = store::open_to_read(home, config.hook.busy_ms) else { return Ok(()) };
    let request = Request {
        project: &session.project,
        project_path: &session.project_path,
        session_id: session.id.as_str(),
        now,
        budget: usize::try_from(config.context.budget).unwrap_or(usize::MAX),
    };
    let context = context::build(&database, &request);
    if context.text.is_empty() {
        return Ok(());
    }
    let additional_context = within_units(&context.text, MAX_CONTEXT_UNITS);
    let answer = HookOutput {
        hook_specific_output: HookSpecificOutput { hook_event_name: "SessionStart", additional_context },
    };
    serde_json::to_writer(&mut output, &answer)?;
    output.flush()
}

/// A source that we do not know is a new way to start, and wants its context like any other.
fn is_wanted(config: &Config, source: Option<&str>) -> bool {
    const KNOWN: [&str; 5] = ["startup", "resume", "clear", "compact", "fork"];
    let listed = |source: &str| config.context.sources.iter().any(|wanted| wanted == source);
    config.context.enabled && source.is_none_or(|source| listed(source) || !KNOWN.contains(&source))
}

/// As many whole lines as the client takes.
fn within_units(text: &str, limit: usize) -> &str {
    let mut units = 0;
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        units += line.encode_utf16().count();
        if units > limit {
            break;
        }
        end += line.len();
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_limit_is_counted_in_its_own_units() {
        assert_eq!(within_units("😀\nab\n", 3), "😀\n");
        assert_eq!(within_units("😀\nab\n", 6), "😀\nab\n");
    }
}
