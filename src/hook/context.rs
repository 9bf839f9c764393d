//! The context that a starting session is given.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::notice::SessionStart;
use super::{Spooled, http};
use crate::api::{PrintedContext, route};
use crate::config::{Config, Environment};
use crate::context::{self, ContextRequest, Hint, RepoState};
use crate::model::{Agent, Event, EventBody, Millis, SessionStamp};
use crate::paths::Home;
use crate::project::Project;
use crate::protocol::{HookOutput, HookSpecificOutput, MAX_CONTEXT_UNITS};
use crate::store::context::WITHHELD_EVENT;
use crate::store::log::{LogEntry, log};
use crate::store::{self, projects};
use crate::value;

/// Prints the context for the session that `event` starts, and a message for the user; nothing if there is neither.
/// `database` is there if the event went into it, `spooled` if it did not.
pub fn print(
    start: &SessionStart<'_>,
    database: Option<&Connection>,
    spooled: Option<&Spooled>,
    mut output: impl Write,
) -> io::Result<()> {
    let SessionStart { home, config, environment, event } = *start;
    let notice = start.needed(database).or_else(|| start.newer(spooled));
    let began = Instant::now();
    let opened = database.is_none().then(|| store::open_to_read(home, config.hook.busy_ms).ok()).flatten();
    let database = database.or(opened.as_ref());
    let mut answer = context_for(home, config, environment, event, database);
    let percent = config.value.holdout_percent;
    let is_withheld =
        event.session.as_ref().is_some_and(|session| value::is_withheld(session.id.as_str(), percent));
    if let (Some(unshown), Some(session), Some(database)) =
        (answer.take_if(|_| is_withheld), &event.session, database)
    {
        note_shown(database, WITHHELD_EVENT, session, unshown, began.elapsed(), event.at);
    }
    let context = answer.as_ref().map(|answer| answer.context.as_str()).unwrap_or_default();
    let notice = notice.or_else(|| start.always(database, answer.as_ref()));
    let agent = event.session.as_ref().map(|session| session.agent).unwrap_or_default();
    write_answer(&mut output, agent, "SessionStart", context, notice.as_deref())?;
    if let (Some(answer), Some(session), Some(database)) = (answer, &event.session, database) {
        note_shown(database, "context", session, answer, began.elapsed(), event.at);
    }
    Ok(())
}

/// Longest wait for the database before the printed memories are not logged.
const NOTE_PATIENCE: Duration = Duration::from_millis(30);

/// Logs the memories that a session was really shown. Best effort: at worst it is shown again.
pub fn note_shown(
    database: &Connection,
    event_type: &'static str,
    session: &SessionStamp,
    answer: PrintedContext,
    took: Duration,
    now: Millis,
) {
    let Some(data) = answer.log.filter(|_| !answer.context.is_empty()) else { return };
    let entry = LogEntry {
        event_type,
        session: Some(session.id.clone()),
        data,
        duration_ms: Some(took.as_secs_f64() * 1000.0),
        ..LogEntry::default()
    };
    let _ = database.busy_timeout(NOTE_PATIENCE);
    let _ = log(database, &entry, now);
}

/// Writes the text for the model and the message for the user; nothing if there is neither.
pub fn write_answer(
    output: &mut impl Write,
    agent: Agent,
    hook_event_name: &str,
    context: &str,
    system_message: Option<&str>,
) -> io::Result<()> {
    if context.is_empty() && system_message.is_none() {
        return Ok(());
    }
    let additional_context = within_units(context, MAX_CONTEXT_UNITS);
    // Copilot CLI takes its own form only, and shows no messages.
    let is_copilot = agent == Agent::Copilot;
    let answer = HookOutput {
        additional_context: (is_copilot && !context.is_empty()).then(|| additional_context.into()),
        hook_specific_output: (!is_copilot && !context.is_empty()).then(|| HookSpecificOutput {
            hook_event_name: hook_event_name.into(),
            additional_context: additional_context.into(),
        }),
        system_message: system_message.filter(|_| !is_copilot).map(Into::into),
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
    database: Option<&Connection>,
) -> Option<PrintedContext> {
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
    http::context(&home.socket(), route::CONTEXT, &parameters, patience)
        .or_else(|| Some(build(home, config, database?, session, &place, source, event.at)))
}

/// Builds the context here: by the same rules, without a search and without git.
fn build(
    home: &Home,
    config: &Config,
    database: &Connection,
    session: &SessionStamp,
    place: &Project,
    source: Option<&str>,
    now: Millis,
) -> PrintedContext {
    let budget = usize::try_from(config.context.budget).unwrap_or(usize::MAX);
    // A project without a name has no memory that could be shown.
    let project = projects::name_of(database, place).unwrap_or_default();
    let built = context::build(
        database,
        &ContextRequest {
            project: &project,
            project_path: &session.project_path,
            root: &place.root.to_string_lossy(),
            session_id: session.id.as_str(),
            source,
            repo_state: RepoState { branch: session.branch.clone(), ..RepoState::default() },
            repository: None,
            prepare: None,
            recall: None,
            code: context::CodeCheck::default(),
            client_memory: &[],
            hint: Hint::of(home),
            now,
            budget,
        },
    );
    let log = Some(built.log_data(budget, "hook", source));
    PrintedContext { context: built.text, tokens: built.tokens, log }
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
