//! The line that a starting session shows to the user: one at most, and by default only when something needs the user.

use std::path::Path;
use std::time::UNIX_EPOCH;

use rusqlite::Connection;

use super::{Spooled, history};
use crate::api::PrintedContext;
use crate::clock::{DAY, HOUR};
use crate::config::{Config, Environment, Notice};
use crate::model::{Agent, Event, Millis};
use crate::paths::Home;
use crate::project::Project;
use crate::spool;
use crate::store::{self, StoreError, projects};
use crate::text::number::counted;

/// A loss or an installation older than this is no news. Shorter than the event log is kept by default.
const NEWS: Millis = 30 * DAY;

/// A session start, as far as a notice depends on it.
pub struct SessionStart<'s> {
    pub home: &'s Home,
    pub config: &'s Config,
    pub environment: &'s Environment,
    pub event: &'s Event,
}

impl SessionStart<'_> {
    /// Returns the most urgent message that was not shown yet. Without a reader it stays for the next session.
    pub fn needed(&self, database: Option<&Connection>) -> Option<String> {
        let database = database.filter(|_| self.is_wanted())?;
        let left = || store::take_notice(database).ok().flatten();
        let message = left().or_else(|| self.lost(database)).or_else(|| self.backlog(database));
        let offer = || history::offer(database, self.environment, self.event);
        message.or_else(|| self.welcome(database)).or_else(offer).map(|message| one_line(&message))
    }

    /// Returns a message for every session as long as no worker of this version can take its events in.
    pub fn newer(&self, spooled: Option<&Spooled>) -> Option<String> {
        let Spooled(error) = spooled.filter(|_| self.is_wanted())?;
        let is_newer = matches!(error, StoreError::Newer { .. });
        is_newer.then(|| one_line(&format!("claude-mem: events wait in the spool: {error}")))
    }

    fn is_wanted(&self) -> bool {
        let agent = self.event.session.as_ref().map(|session| session.agent).unwrap_or_default();
        // Other agents may pass the line to the model.
        agent == Agent::ClaudeCode
            && self.config.context.notice != Notice::Never
            && !self.environment.is_unattended
    }

    /// Returns a line about the project's memory, if the user wants one in every session.
    pub fn always(&self, database: Option<&Connection>, answer: Option<&PrintedContext>) -> Option<String> {
        let database =
            database.filter(|_| self.is_wanted() && self.config.context.notice == Notice::Always)?;
        let session = self.event.session.as_ref()?;
        let place = Project::of(Path::new(&session.cwd), &self.config.capture);
        let project = projects::name_of(database, &place).ok()?;
        let count = store::count_observations(database, &project).ok()?;
        let memories = counted(count, "memory", "memories");
        let tokens = i64::try_from(answer.map_or(0, |answer| answer.tokens)).unwrap_or(i64::MAX);
        let tokens = counted(tokens, "token", "tokens");
        Some(one_line(&format!("claude-mem: {memories} of {project} ({tokens}) · claude-mem open")))
    }

    /// Events that neither the database nor the spool took.
    fn lost(&self, database: &Connection) -> Option<String> {
        let notes = spool::dropped_notes(self.home, self.environment);
        let age = notes.iter().filter_map(|note| self.age(note)).min()?;
        let count = spool::dropped(self.home, self.environment);
        let count = counted(i64::try_from(count).unwrap_or(i64::MAX), "event was", "events were");
        let message = format!("claude-mem: {count} lost; `claude-mem doctor` shows why");
        (age < NEWS && self.is_new(database, &message, NEWS)).then_some(message)
    }

    /// Events that have waited for more than an hour.
    fn backlog(&self, database: &Connection) -> Option<String> {
        let oldest = store::oldest_waiting(database).ok()??;
        let message = "claude-mem: events have waited for over an hour; `claude-mem status` shows why";
        (oldest < self.event.at - HOUR && self.is_new(database, message, DAY)).then(|| message.to_owned())
    }

    /// The first session after `install`.
    fn welcome(&self, database: &Connection) -> Option<String> {
        let age = self.age(&self.home.install_record())?;
        let message =
            "claude-mem: installed; it remembers from this session on. `claude-mem status` shows its state";
        (age < NEWS && self.is_new(database, message, age)).then(|| message.to_owned())
    }

    /// Returns how long ago a file was changed.
    fn age(&self, file: &Path) -> Option<Millis> {
        let changed = std::fs::metadata(file).and_then(|meta| meta.modified()).ok()?;
        let changed = Millis::try_from(changed.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
        Some((self.event.at - changed).max(0))
    }

    /// Notes the message as shown. False if it was shown within that time.
    fn is_new(&self, database: &Connection, message: &str, within: Millis) -> bool {
        let now = self.event.at;
        store::show_once(database, message, now - within, now).unwrap_or(false)
    }
}

/// The message on one line.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
