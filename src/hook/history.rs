//! Points out, at the first start in a project, that the client still has sessions from before.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;

use crate::config::Environment;
use crate::model::{Event, EventBody, SessionStamp};
use crate::store::sessions;

/// The message for the user; none if the project has sessions, or nothing to read. This start is one from now on, so that the
/// message comes once.
pub fn offer(database: &Connection, environment: &Environment, event: &Event) -> Option<String> {
    let (Some(session), EventBody::Start { source }) = (&event.session, &event.body) else { return None };
    let is_new = source.as_deref().is_none_or(|source| source == "startup");
    if !is_new || !sessions::is_first(database, &session.project_key, session.id.as_str()).ok()? {
        return None;
    }
    let count = earlier_sessions(environment, session);
    let sessions = if count == 1 { "session" } else { "sessions" };
    (count > 0).then(|| {
        format!(
            "claude-mem: {count} earlier {sessions} of this project can be remembered: claude-mem backfill --project ."
        )
    })
}

/// Transcripts of this directory, besides the session's own.
fn earlier_sessions(environment: &Environment, session: &SessionStamp) -> usize {
    let Some(folder) = folder(environment, &session.cwd) else { return 0 };
    let is_earlier = |name: &str| {
        name.strip_suffix(".jsonl")
            .is_some_and(|stem| stem != session.id.as_str() && !stem.starts_with("agent-"))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_earlier)).count()
}

/// The client names a directory's folder after it, with everything that is not a letter or a digit replaced.
fn folder(environment: &Environment, cwd: &str) -> Option<PathBuf> {
    let client =
        environment.client_dir.clone().or_else(|| Some(environment.user_home.as_ref()?.join(".claude")))?;
    let name: String =
        cwd.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    (!name.is_empty()).then(|| client.join("projects").join(name))
}
