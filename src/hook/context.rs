//! The context that a starting session is given.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::ask;
use crate::config::{Config, Environment};
use crate::context::{self, Hint, Request, Situation};
use crate::model::{Event, EventBody, Millis, SessionStamp};
use crate::paths::Home;
use crate::project::Project;
use crate::store;
use crate::store::log::{LogEntry, log};
use crate::wire::{HookOutput, HookSpecificOutput, MAX_CONTEXT_UNITS};

/// Prints the context for the session that `event` starts, and what the user is to be told; nothing if there is neither.
/// `database` is there if the event went into it.
pub fn print(
    home: &Home,
    config: &Config,
    environment: &Environment,
    event: &Event,
    database: Option<Connection>,
    mut output: impl Write,
) -> io::Result<()> {
    let notice = database.as_ref().and_then(|database| store::take_notice(database).ok().flatten());
    let context = context_for(home, config, environment, event, database).unwrap_or_default();
    write_answer(&mut output, "SessionStart", &context, notice.as_deref())
}

/// Writes what the client shall give to the model, and tell the user; nothing if there is neither.
pub fn write_answer(
    output: &mut impl Write,
    hook_event_name: &str,
    context: &str,
    system_message: Option<&str>,
) -> io::Result<()> {
    if context.is_empty() && system_message.is_none() {
        return Ok(());
    }
    let additional_context = within_units(context, MAX_CONTEXT_UNITS);
    let answer = HookOutput {
        hook_specific_output: (!context.is_empty())
            .then_some(HookSpecificOutput { hook_event_name, additional_context }),
        system_message,
    };
    serde_json::to_writer(&mut *output, &answer)?;
    output.flush()
}

/// The worker's context or, if it does not answer in time, one that is built here.
fn context_for(
    home: &Home,
    config: &Config,
    environment: &Environment,
    event: &Event,
    database: Option<Connection>,
) -> Option<String> {
    let (Some(session), EventBody::Start { source }) = (&event.session, &event.body) else { return None };
    let source = source.as_deref();
    let place = Project::of(Path::new(&session.cwd), &config.capture);
    if !is_wanted(config, source)
        || place.is_without_context(&config.context.exclude_projects, environment.user_home.as_deref())
    {
        return None;
    }
    let parameters = [
        ("project_path", session.project_path.as_str()),
        ("cwd", session.cwd.as_str()),
        ("session_id", session.id.as_str()),
        ("source", source.unwrap_or_default()),
    ];
    let patience = Duration::from_millis(config.context.worker_timeout_ms);
    if let Some(text) = ask::context(&home.socket(), "/api/context", &parameters, patience) {
        return Some(text);
    }
    let database = database.or_else(|| store::open_to_read(home, config.hook.busy_ms).ok())?;
    Some(build(home, config, &database, session, &place.root, source, event.at))
}

/// Builds the context here: by the same rules, without a search and without git.
fn build(
    home: &Home,
    config: &Config,
    database: &Connection,
    session: &SessionStamp,
    root: &Path,
    source: Option<&str>,
    now: Millis,
) -> String {
    let budget = usize::try_from(config.context.budget).unwrap_or(usize::MAX);
    let began = Instant::now();
    let built = context::build(
        database,
        &Request {
            project: &session.project,
            project_path: &session.project_path,
            root: &root.to_string_lossy(),
            session_id: session.id.as_str(),
            source,
            situation: Situation { branch: session.branch.clone(), ..Situation::default() },
            repository: None,
            prepare: None,
            recall: None,
            hint: Hint::of(home),
            now,
            budget,
        },
    );
    let entry = LogEntry {
        event_type: "context",
        session: Some(session.id.clone()),
        data: built.log_data(budget, "hook", source),
        duration_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
        ..LogEntry::default()
    };
    // Best effort: nobody waits for a log.
    let _ = database.busy_timeout(Duration::ZERO);
    let _ = log(database, &entry, now);
    built.text
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
