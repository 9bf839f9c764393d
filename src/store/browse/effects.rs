//! Counts the use of memories by the sessions that were shown them, and the things that had to be found again.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use rusqlite::{Connection, OptionalExtension, params};

use super::injections::files_since;
use super::listed;
use crate::api::{Again, Effects, Holdout, Moment};
use crate::clock::DAY;
use crate::model::Millis;
use crate::project::is_same_file;
use crate::store::StoreError;
use crate::store::context::{SHOWN_EVENTS, WITHHELD_EVENT};
use crate::value::{LEAST_SESSIONS, compare};

/// Sessions before the period are read this far back to know what was known.
const KNOWN_BEFORE: Millis = 180 * DAY;
/// Maximum notes that are read for a report, the newest.
const MOST_NOTES: u32 = 50_000;

/// Adds up the effects since a time. `holdout_percent` is the setting in force.
pub fn effects(database: &Connection, since: Millis, holdout_percent: u64) -> Result<Effects, StoreError> {
    let mut reader = EffectsReader { database, notes: HashMap::new(), shown_files: HashMap::new() };
    let moments = reader.moments(since)?;
    let (again, by_session) = again(database, since, &reader.shown_files)?;
    let holdout = holdout(database, since, holdout_percent, &by_session)?;
    Ok(Effects { moments, again, holdout })
}

/// A note as far as its use can be recognised.
#[derive(Debug, Default)]
struct NoteTraces {
    files: Vec<String>,
    commands: Vec<String>,
}

struct EffectsReader<'a> {
    database: &'a Connection,
    notes: HashMap<i64, NoteTraces>,
    /// Files of the memories that each session was shown, with the time.
    shown_files: HashMap<String, Vec<(String, Millis)>>,
}

impl EffectsReader<'_> {
    fn moments(&mut self, since: Millis) -> Result<Vec<Moment>, StoreError> {
        let sql =
            "SELECT session_id, created_at, coalesce(data ->> 'tokens', 0), data ->> 'shown' FROM event_log
                   WHERE event_type = ?2 AND created_at >= ?1 AND session_id IS NOT NULL
                     AND coalesce(data ->> 'tokens', 0) > 0";
        let mut moments = Vec::new();
        for event in SHOWN_EVENTS {
            let name = event.strip_prefix("context_").unwrap_or("start");
            let mut moment = Moment { moment: name.to_owned(), ..Moment::default() };
            let mut statement = self.database.prepare_cached(sql)?;
            let mut rows = statement.query(params![since, event])?;
            while let Some(row) = rows.next()? {
                let (session, at): (String, Millis) = (row.get(0)?, row.get(1)?);
                let shown: Option<String> = row.get(3)?;
                let shown: Vec<i64> =
                    shown.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
                moment.contexts += 1;
                moment.tokens += row.get::<_, i64>(2)?;
                self.followed(&mut moment, &session, at, &shown)?;
            }
            moments.push(moment);
        }
        Ok(moments)
    }

    /// Counts what a session did after it was shown these memories.
    fn followed(
        &mut self,
        moment: &mut Moment,
        session: &str,
        at: Millis,
        shown: &[i64],
    ) -> Result<(), StoreError> {
        let is_failure = moment.moment == "failure";
        let has_repaired = is_failure && repaired_since(self.database, session, at)?;
        if is_failure && shown.is_empty() {
            // A command that repaired the failure elsewhere is no note.
            moment.shown += 1;
            moment.repaired += i64::from(has_repaired);
            moment.used += i64::from(has_repaired);
            return Ok(());
        }
        if shown.is_empty() {
            return Ok(());
        }
        let (changed, read) = files_since(self.database, session, at)?;
        let commands = commands_since(self.database, session, at)?;
        let text = text_since(self.database, session, at)?;
        for id in shown {
            let note = self.note(*id)?;
            let is_in = |files: &[String]| {
                note.files.iter().any(|file| files.iter().any(|other| is_same_file(file, other)))
            };
            let edited = is_in(&changed);
            let opened = is_in(&read);
            let ran = note.commands.iter().any(|command| commands.contains(command));
            let cited = cites(&text, *id);
            moment.shown += 1;
            moment.edited += i64::from(edited);
            moment.opened += i64::from(opened);
            moment.ran += i64::from(ran);
            moment.cited += i64::from(cited);
            moment.repaired += i64::from(has_repaired);
            moment.used += i64::from(edited || opened || ran || cited || has_repaired);
            let files: Vec<(String, Millis)> = note.files.iter().map(|file| (file.clone(), at)).collect();
            self.shown_files.entry(session.to_owned()).or_default().extend(files);
        }
        Ok(())
    }

    fn note(&mut self, id: i64) -> Result<&NoteTraces, StoreError> {
        if !self.notes.contains_key(&id) {
            let sql = "SELECT files_modified, files_read, facts, coalesce(title, '') || ' ' || coalesce(summary, '')
                       FROM observations WHERE id = ?1";
            let read = |row: &rusqlite::Row<'_>| {
                let (mut files, read): (Vec<String>, Vec<String>) = (listed(row, 0)?, listed(row, 1)?);
                files.extend(read);
                let facts: Vec<String> = listed(row, 2)?;
                let text = format!("{} {}", row.get::<_, String>(3)?, facts.join(" "));
                Ok(NoteTraces { files, commands: quoted(&text) })
            };
            let note = self.database.prepare_cached(sql)?.query_row([id], read).optional()?;
            self.notes.insert(id, note.unwrap_or_default());
        }
        Ok(&self.notes[&id])
    }
}

/// The passages in backticks that may be commands: of several words.
fn quoted(text: &str) -> Vec<String> {
    let passages = text.split('`').skip(1).step_by(2);
    passages.filter(|passage| passage.contains(' ')).map(|passage| passage.trim().to_owned()).collect()
}

/// True if a text names the memory by its number: `#12`.
fn cites(text: &str, id: i64) -> bool {
    let mark = format!("#{id}");
    let ends = |at: usize| !text[at + mark.len()..].starts_with(|next: char| next.is_ascii_digit());
    text.match_indices(&mark).any(|(at, _)| ends(at))
}

/// The commands that a session ran, as far as sightings have them.
fn commands_since(
    database: &Connection,
    session: &str,
    since: Millis,
) -> Result<HashSet<String>, StoreError> {
    let sql = "SELECT subject FROM sightings WHERE session_id = ?1 AND created_at >= ?2 LIMIT 500";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![session, since], |row| row.get::<_, String>(0))?;
    Ok(rows.collect::<Result<Vec<_>, _>>()?.iter().flat_map(|subject| quoted(subject)).collect())
}

fn text_since(database: &Connection, session: &str, since: Millis) -> Result<String, StoreError> {
    let sql = "SELECT coalesce(group_concat(text, ' '), '') FROM (
                 SELECT coalesce(summary, '') || ' ' || coalesce(completed, '') || ' ' || coalesce(learned, '')
                   || ' ' || coalesce(notes, '') AS text
                 FROM session_summaries WHERE session_id = ?1 AND created_at >= ?2
                 UNION ALL SELECT prompt FROM user_prompts WHERE session_id = ?1 AND created_at >= ?2 AND is_raw = 0)";
    Ok(database.prepare_cached(sql)?.query_row(params![session, since], |row| row.get(0))?)
}

fn repaired_since(database: &Connection, session: &str, since: Millis) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM repairs WHERE session_id = ?1 AND created_at >= ?2";
    Ok(database.prepare_cached(sql)?.exists(params![session, since])?)
}

/// The session that knew a file first, and the one that read it last.
struct KnownFile {
    first: Rc<str>,
    last_reader: Option<Rc<str>>,
}

impl KnownFile {
    fn of(session: &Rc<str>) -> Self {
        Self { first: Rc::clone(session), last_reader: None }
    }
}

/// Returns the time from which notes are read: `since`, or that of the last of the newest notes.
fn oldest_note(database: &Connection, since: Millis) -> Result<Millis, StoreError> {
    let sql = "SELECT created_at FROM observations WHERE created_at >= ?1 ORDER BY created_at DESC LIMIT 1 OFFSET ?2";
    let last = database.prepare_cached(sql)?.query_row(params![since, MOST_NOTES], |row| row.get(0));
    Ok(last.optional()?.unwrap_or(since))
}

/// Counts files and failures that were known before, and the known files by session.
fn again(
    database: &Connection,
    since: Millis,
    shown_files: &HashMap<String, Vec<(String, Millis)>>,
) -> Result<(Again, HashMap<String, f64>), StoreError> {
    let mut again = Again::default();
    let mut by_session: HashMap<String, f64> = HashMap::new();
    let mut known: HashMap<String, HashMap<String, KnownFile>> = HashMap::new();
    // In the order of the index by time, so that nothing is sorted.
    let sql = "SELECT project, session_id, created_at, files_read, files_modified FROM observations
               WHERE created_at >= ?1 AND deleted_at IS NULL ORDER BY created_at";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query([oldest_note(database, since - KNOWN_BEFORE)?])?;
    let mut last_session: Rc<str> = "".into();
    while let Some(row) = rows.next()? {
        let (project, at): (String, Millis) = (row.get(0)?, row.get(2)?);
        let session = row.get_ref(1)?.as_str().unwrap_or_default();
        if *last_session != *session {
            last_session = session.into();
        }
        let session = &last_session;
        let known = known.entry(project).or_default();
        for file in listed(row, 3)? {
            let entry = known.entry(file.clone()).or_insert_with(|| KnownFile::of(session));
            let is_first_time = entry.last_reader.as_ref() != Some(session);
            entry.last_reader = Some(Rc::clone(session));
            if at < since || !is_first_time {
                continue;
            }
            again.files += 1;
            if entry.first != *session {
                again.known_files += 1;
                *by_session.entry(session.to_string()).or_default() += 1.0;
                let is_shown = |(shown, when): &(String, Millis)| *when <= at && is_same_file(shown, &file);
                let has_shown = shown_files.get(&**session).is_some_and(|shown| shown.iter().any(is_shown));
                again.shown_files += i64::from(has_shown);
            }
        }
        for file in listed(row, 4)? {
            known.entry(file).or_insert_with(|| KnownFile::of(session));
        }
    }
    let sql = "SELECT count(*), coalesce(sum(EXISTS (SELECT 1 FROM repairs e WHERE e.project = r.project
                 AND e.signature = r.signature AND e.session_id <> r.session_id AND e.created_at < r.created_at)), 0)
               FROM repairs r WHERE r.created_at >= ?1";
    (again.failures, again.known_failures) =
        database.prepare_cached(sql)?.query_row([since], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok((again, by_session))
}

/// Compares the sessions from which memory was withheld with the others since the first of them.
fn holdout(
    database: &Connection,
    since: Millis,
    percent: u64,
    known_files: &HashMap<String, f64>,
) -> Result<Holdout, StoreError> {
    let needed = i64::try_from(LEAST_SESSIONS).unwrap_or(i64::MAX);
    let sql = "SELECT min(created_at) FROM event_log WHERE event_type = ?1 AND created_at >= ?2";
    let first: Option<Millis> =
        database.prepare_cached(sql)?.query_row(params![WITHHELD_EVENT, since], |row| row.get(0))?;
    let Some(first) = first else { return Ok(Holdout { percent, needed, ..Holdout::default() }) };
    let shown = group(database, SHOWN_EVENTS[0], first)?;
    let withheld = group(database, WITHHELD_EVENT, first)?;
    let again = |sessions: &[SessionWork]| -> Vec<f64> {
        let of = |session: &SessionWork| {
            known_files.get(&session.id).copied().unwrap_or_default() / session.prompts
        };
        sessions.iter().map(of).collect()
    };
    let calls =
        |sessions: &[SessionWork]| sessions.iter().map(|one| one.calls / one.prompts).collect::<Vec<_>>();
    let failed =
        |sessions: &[SessionWork]| sessions.iter().map(|one| one.failed / one.prompts).collect::<Vec<_>>();
    let count = |sessions: &[SessionWork]| i64::try_from(sessions.len()).unwrap_or(i64::MAX);
    Ok(Holdout {
        percent,
        shown: count(&shown),
        withheld: count(&withheld),
        needed,
        measures: vec![
            compare("tool calls per prompt", &calls(&shown), &calls(&withheld)),
            compare("failed calls per prompt", &failed(&shown), &failed(&withheld)),
            compare("known files read again per prompt", &again(&shown), &again(&withheld)),
        ],
    })
}

/// The work of a session.
struct SessionWork {
    id: String,
    prompts: f64,
    calls: f64,
    failed: f64,
}

/// The sessions with an entry of this kind since a time.
fn group(database: &Connection, event: &str, since: Millis) -> Result<Vec<SessionWork>, StoreError> {
    let sql = "SELECT s.id, s.prompt_count, count(q.id), coalesce(sum(q.failed), 0) FROM sessions s
               LEFT JOIN pending_queue q ON q.session_id = s.id AND q.kind = 'observation'
               WHERE s.prompt_count > 0 AND s.id IN (
                 SELECT session_id FROM event_log WHERE event_type = ?1 AND created_at >= ?2)
               GROUP BY s.id";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![event, since], |row| {
        Ok(SessionWork { id: row.get(0)?, prompts: row.get(1)?, calls: row.get(2)?, failed: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;

    /// Session `a` leaves two notes; `b` is shown both, edits the file of one, runs the command of the other and cites it.
    fn history() -> (tempfile::TempDir, Connection) {
        let scratch = tempfile::tempdir().unwrap();
        let database = crate::store::open_for_worker(&Home::at(scratch.path().join("mem")), 0).unwrap();
        let sql = r##"INSERT INTO sessions (id, project, started_at, last_activity_at, prompt_count) VALUES
              ('a', 'p', 1, 1, 1), ('b', 'p', 100, 100, 2), ('c', 'p', 200, 200, 1);
            INSERT INTO observations (id, uid, session_id, project, title, summary, files_modified, files_read, created_at) VALUES
              (1, 'u1', 'a', 'p', 'One', NULL, '["src/one.rs"]', NULL, 10),
              (2, 'u2', 'a', 'p', 'Two', 'Check with `make lint fast`', NULL, '["src/two.rs"]', 11),
              (3, 'u3', 'b', 'p', 'Work', NULL, '["src/one.rs"]', '["src/two.rs", "src/new.rs"]', 120);
            INSERT INTO event_log (event_type, session_id, data, created_at) VALUES
              ('context', 'b', '{"tokens": 300, "shown": [1, 2]}', 100), ('context', 'c', '{"tokens": 100, "shown": [1]}', 200),
              ('context_failure', 'b', '{"tokens": 40, "shown": []}', 110);
            INSERT INTO sightings VALUES ('p', 'command', 'Lint with `make lint fast`', 'b', 130);
            INSERT INTO session_summaries (uid, session_id, project, completed, created_at) VALUES
              ('s', 'b', 'p', 'Done as #2 says, not as #12 does', 140);
            INSERT INTO repairs (session_id, project, signature, created_at) VALUES ('a', 'p', 7, 20), ('b', 'p', 7, 130)"##;
        database.execute_batch(sql).unwrap();
        (scratch, database)
    }

    #[test]
    fn uses_are_counted_by_what_the_session_did_afterwards() {
        let (_scratch, database) = history();
        let effects = effects(&database, 50, 0).unwrap();
        let start = &effects.moments[0];
        assert_eq!((start.contexts, start.tokens, start.shown), (2, 400, 3));
        assert_eq!(
            (start.edited, start.opened, start.ran, start.cited, start.used),
            (1, 1, 1, 1, 2),
            "{start:?}"
        );
        let failure = &effects.moments[3];
        assert_eq!((failure.shown, failure.repaired, failure.used), (1, 1, 1));
        let again = &effects.again;
        assert_eq!((again.files, again.known_files, again.shown_files), (2, 1, 1), "{again:?}");
        assert_eq!((again.failures, again.known_failures), (1, 1));
        assert_eq!(effects.holdout.measures, [], "nothing was withheld");
    }

    #[test]
    fn groups_are_compared_only_with_enough_sessions() {
        let (_scratch, database) = history();
        let add = |group: &str, count: usize, calls: usize| {
            for session in 0..count {
                let id = format!("{group}{session}");
                let sql = "INSERT INTO sessions (id, project, started_at, last_activity_at, prompt_count) VALUES (?1, 'p', 300, 300, 1)";
                database.execute(sql, [&id]).unwrap();
                let sql = "INSERT INTO event_log (event_type, session_id, data, created_at) VALUES (?1, ?2, '{}', 300)";
                database.execute(sql, [group, &id]).unwrap();
                for call in 0..calls + session % 3 {
                    let sql = "INSERT INTO pending_queue (event_key, session_id, kind, created_at) VALUES (?1, ?2, 'observation', 300)";
                    database.execute(sql, [format!("{id}.{call}"), id.clone()]).unwrap();
                }
            }
        };
        add(WITHHELD_EVENT, LEAST_SESSIONS - 1, 13);
        add("context", 60, 10);
        let compared = effects(&database, 50, 10).unwrap().holdout;
        assert_eq!((compared.percent, compared.withheld, compared.shown), (10, 19, 60));
        assert!(compared.measures.iter().all(|measure| measure.interval.is_none()));
        let sql =
            "INSERT INTO event_log (event_type, session_id, data, created_at) VALUES (?1, 'c', '{}', 301)";
        database.execute(sql, [WITHHELD_EVENT]).unwrap();
        let compared = effects(&database, 50, 10).unwrap().holdout;
        assert!(
            compared.measures[0].is_shown() && compared.measures[0].change.unwrap() < 0.0,
            "{compared:?}"
        );
        assert_eq!(compared.measures[1].change, None, "no call failed");
    }
}
