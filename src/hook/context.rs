//! The context that a starting session is given.

use std::io::{self, Write};

use crate::config::Config;
use crate::context::{self, Request};
use crate::model::{Event, EventBody};
use crate::paths::Home;
use crate::store;
use crate::wire::{HookOutput, HookSpecificOutput, MAX_CONTEXT_UNITS};

/// Prints the context for the session that `event` starts, and what the user is to be told; nothing if there is neither.
pub fn print(
    home: &Home,
    config: &Config,
    event: &Event,
    notice: Option<&str>,
    mut output: impl Write,
) -> io::Result<()> {
    let context = context_for(home, config, event).unwrap_or_default();
    if context.is_empty() && notice.is_none() {
        return Ok(());
    }
    let answer = HookOutput {
        hook_specific_output: (!context.is_empty()).then(|| HookSpecificOutput {
            hook_event_name: "SessionStart",
            additional_context: within_units(&context, MAX_CONTEXT_UNITS),
        }),
        system_message: notice,
    };
    serde_json::to_writer(&mut output, &answer)?;
    output.flush()
}

fn context_for(home: &Home, config: &Config, event: &Event) -> Option<String> {
    let (Some(session), EventBody::Start { source }) = (&event.session, &event.body) else { return None };
    if !is_wanted(config, source.as_deref()) {
        return None;
    }
    let database = store::open_to_read(home, config.hook.busy_ms).ok()?;
    let request = Request {
        project: &session.project,
        project_path: &session.project_path,
        session_id: session.id.as_str(),
        now: event.at,
        budget: usize::try_from(config.context.budget).unwrap_or(usize::MAX),
    };
    Some(context::build(&database, &request).text)
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
