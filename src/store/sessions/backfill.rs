//! Histories that agents keep: how far each file was read, which records are known, and the events of both in one step.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::model::{Event, EventBody, EventKey, Millis};
use crate::store::StoreError;
use crate::store::ingest::{Recorded, record_in};

/// A history file and the state in which it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFile {
    /// Its place.
    pub path: String,
    /// The agent that wrote it.
    pub agent: &'static str,
    /// The session that it holds.
    pub session: String,
    /// Its size.
    pub size: u64,
    /// Its modification time.
    pub modified_at: Millis,
    /// A model may be asked about its session.
    pub with_model: bool,
    /// The client's own title of the session.
    pub title: Option<String>,
}

/// The marker of a file: everything before `read_to` is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileMarker {
    /// Its number.
    pub id: i64,
    /// The size that the file had.
    pub size: u64,
    /// The modification time that it had.
    pub modified_at: Millis,
    /// Where to read on.
    pub read_to: u64,
    /// The number of the last prompt before that place.
    pub prompts: i64,
    /// It was read to its end.
    pub is_done: bool,
}

/// Reads a file's marker.
pub fn marker(database: &Connection, path: &str) -> Result<Option<FileMarker>, StoreError> {
    let sql = "SELECT id, size, modified_at, read_to, prompts, is_done FROM backfill_files WHERE path = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let unsigned = |index| row.get::<_, i64>(index).map(|value| u64::try_from(value).unwrap_or_default());
        Ok(FileMarker {
            id: row.get(0)?,
            size: unsigned(1)?,
            modified_at: row.get(2)?,
            read_to: unsigned(3)?,
            prompts: row.get(4)?,
            is_done: row.get(5)?,
        })
    };
    Ok(database.prepare_cached(sql)?.query_row([path], read).optional()?)
}

/// One step of reading a file, in order.
#[derive(Debug)]
pub enum ReplayStep {
    /// Something happened.
    Event {
        /// The event.
        event: Box<Event>,
        /// The number of the turn's prompt, if that was known before.
        turn: Option<i64>,
    },
    /// A prompt that is stored already, by its number.
    Known(i64),
    /// A record made an event.
    Record(i64),
    /// Reading may start again at this offset.
    Restart(u64),
}

/// The outcome of storing some steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// Events that are new.
    pub new: u64,
    /// Events that were there.
    pub known: u64,
    /// The number of the last prompt that was read.
    pub last_prompt: i64,
}

/// Stores the steps and the file's marker: all of it, or nothing. `last_prompt` is the number of the last prompt that was read
/// before them.
pub fn store(
    database: &mut Connection,
    file: &HistoryFile,
    steps: &[ReplayStep],
    last_prompt: i64,
    is_done: bool,
    now: Millis,
) -> Result<Stored, StoreError> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut marker = put_marker(&transaction, file, now)?;
    let before = SessionBefore::read(&transaction, &file.session)?;
    let mut stored = Stored { last_prompt, ..Stored::default() };
    for step in steps {
        match step {
            ReplayStep::Known(number) => stored.last_prompt = stored.last_prompt.max(*number),
            ReplayStep::Restart(offset) => (marker.read_to, marker.prompts) = (*offset, stored.last_prompt),
            ReplayStep::Record(record) => {
                let sql = "INSERT OR IGNORE INTO backfill_records (record, file) VALUES (?1, ?2)";
                transaction.prepare_cached(sql)?.execute([*record, marker.id])?;
            }
            ReplayStep::Event { event, turn } => {
                if before.is_none() {
                    create_session(&transaction, file, event.at)?;
                }
                if record_in(&transaction, event)? == Recorded::Duplicate {
                    stored.known += 1;
                    continue;
                }
                stored.new += 1;
                if let (Some(turn), EventKey::Exact(key)) = (turn, &event.key) {
                    let sql = "UPDATE pending_queue SET prompt_number = ?2 WHERE event_key = ?1";
                    transaction.prepare_cached(sql)?.execute(params![key, turn])?;
                }
                if matches!(event.body, EventBody::Prompt { .. }) {
                    stored.last_prompt = prompt_count(&transaction, &file.session)?;
                }
            }
        }
    }
    match before {
        Some(before) => before.restore(&transaction, &file.session, stored.new > 0)?,
        None => set_origin(&transaction, &file.session)?,
    }
    finish_marker(&transaction, &marker, is_done)?;
    transaction.commit()?;
    Ok(stored)
}

fn put_marker(
    transaction: &Transaction<'_>,
    file: &HistoryFile,
    now: Millis,
) -> Result<FileMarker, StoreError> {
    let sql = "INSERT INTO backfill_files (path, agent, session_id, size, modified_at, with_model, title, read_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
               ON CONFLICT (path) DO UPDATE SET session_id = excluded.session_id, size = excluded.size,
                 modified_at = excluded.modified_at, with_model = max(with_model, excluded.with_model),
                 title = coalesce(excluded.title, title), read_at = excluded.read_at,
                 -- A file that became shorter is another one.
                 read_to = iif(excluded.size < read_to, 0, read_to), prompts = iif(excluded.size < read_to, 0, prompts)";
    transaction.prepare_cached(sql)?.execute(params![
        file.path,
        file.agent,
        file.session,
        signed(file.size),
        file.modified_at,
        file.with_model,
        file.title,
        now,
    ])?;
    Ok(marker(transaction, &file.path)?.unwrap_or_default())
}

fn finish_marker(
    transaction: &Transaction<'_>,
    marker: &FileMarker,
    is_done: bool,
) -> Result<(), StoreError> {
    let sql = "UPDATE backfill_files SET read_to = ?2, prompts = ?3, is_done = ?4 WHERE id = ?1";
    let row = params![marker.id, signed(marker.read_to), marker.prompts, is_done];
    transaction.prepare_cached(sql)?.execute(row)?;
    Ok(())
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn create_session(transaction: &Transaction<'_>, file: &HistoryFile, at: Millis) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO sessions (id, origin, agent, started_at, last_activity_at)
               VALUES (?1, 'backfill', ?2, ?3, ?3)";
    transaction.prepare_cached(sql)?.execute(params![file.session, file.agent, at])?;
    Ok(())
}

fn set_origin(transaction: &Transaction<'_>, session: &str) -> Result<(), StoreError> {
    let sql = "UPDATE sessions SET origin = 'backfill' WHERE id = ?1 AND origin <> 'backfill'";
    transaction.prepare_cached(sql)?.execute([session])?;
    Ok(())
}

fn prompt_count(database: &Connection, session: &str) -> Result<i64, StoreError> {
    let sql = "SELECT prompt_count FROM sessions WHERE id = ?1";
    Ok(database.prepare_cached(sql)?.query_row([session], |row| row.get(0))?)
}

/// The state of a session that history must not change.
struct SessionBefore {
    origin: String,
    status: String,
    started_at: Millis,
    ended_at: Option<Millis>,
    cwd: Option<String>,
    branch: Option<String>,
}

impl SessionBefore {
    fn read(database: &Connection, session: &str) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT origin, status, ended_at, cwd, branch, started_at FROM sessions WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Self {
                origin: row.get(0)?,
                status: row.get(1)?,
                ended_at: row.get(2)?,
                cwd: row.get(3)?,
                branch: row.get(4)?,
                started_at: row.get(5)?,
            })
        };
        Ok(database.prepare_cached(sql)?.query_row([session], read).optional()?)
    }

    /// A session that hooks recorded stays as they left it; only what they missed can make it older.
    fn restore(&self, transaction: &Transaction<'_>, session: &str, has_new: bool) -> Result<(), StoreError> {
        if self.origin == "backfill" {
            return set_origin(transaction, session);
        }
        let sql = "UPDATE sessions SET origin = ?2, status = ?3, ended_at = ?4, cwd = ?5, branch = ?6,
                          started_at = iif(?7, started_at, ?8) WHERE id = ?1";
        let Self { origin, status, ended_at, cwd, branch, started_at } = self;
        let row = params![session, origin, status, ended_at, cwd, branch, has_new, started_at];
        transaction.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }
}

/// True if another file had the record first.
pub fn is_copy(database: &Connection, record: i64, path: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM backfill_records
               WHERE record = ?1 AND file IS NOT (SELECT id FROM backfill_files WHERE path = ?2)";
    Ok(database.prepare_cached(sql)?.exists(params![record, path])?)
}

/// A session as it is known before its history is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownSession {
    /// Hooks recorded it.
    pub is_live: bool,
    /// It has not ended.
    pub is_active: bool,
    /// The time of its last event.
    pub last_activity_at: Millis,
}

/// Looks a session up.
pub fn session(database: &Connection, session: &str) -> Result<Option<KnownSession>, StoreError> {
    let sql = "SELECT origin <> 'backfill', status = 'active', last_activity_at FROM sessions WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(KnownSession { is_live: row.get(0)?, is_active: row.get(1)?, last_activity_at: row.get(2)? })
    };
    Ok(database.prepare_cached(sql)?.query_row([session], read).optional()?)
}

/// A prompt that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPrompt {
    /// Its number in the session.
    pub number: i64,
    /// Its text.
    pub text: String,
    /// Its time.
    pub created_at: Millis,
}

/// Passes the prompts of a session behind a number to `take`, in order.
pub fn for_each_prompt(
    database: &Connection,
    session: &str,
    after: i64,
    mut take: impl FnMut(KnownPrompt),
) -> Result<(), StoreError> {
    let sql = "SELECT prompt_number, prompt, created_at FROM user_prompts
               WHERE session_id = ?1 AND prompt_number > ?2 ORDER BY prompt_number";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(params![session, after])?;
    while let Some(row) = rows.next()? {
        take(KnownPrompt { number: row.get(0)?, text: row.get(1)?, created_at: row.get(2)? });
    }
    Ok(())
}

/// The turn as the queue has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownTurn {
    /// Its rows are there: an event of it that is not among them is new. Otherwise retention dropped them.
    pub is_kept: bool,
    /// It ended.
    pub has_ended: bool,
}

/// Looks up the turn of a stored prompt.
pub fn turn(database: &Connection, session: &str, prompt: &KnownPrompt) -> Result<KnownTurn, StoreError> {
    // Two conditions, one for each index: open rows and finished ones.
    let sql = "SELECT EXISTS (SELECT 1 FROM pending_queue WHERE session_id = ?1 AND finished_at IS NOT NULL
                              AND prompt_number = ?2 AND kind = ?3 AND (?4 IS NULL OR created_at = ?4))
                   OR EXISTS (SELECT 1 FROM pending_queue WHERE session_id = ?1 AND status IN ('raw', 'processing')
                              AND prompt_number = ?2 AND kind = ?3 AND (?4 IS NULL OR created_at = ?4))";
    let mut statement = database.prepare_cached(sql)?;
    // The row of a prompt ends the turn before it.
    let own = params![session, prompt.number - 1, "flush", prompt.created_at];
    let is_kept = statement.query_row(own, |row| row.get(0))?;
    let end = params![session, prompt.number, "summarize", None::<Millis>];
    let has_ended = statement.query_row(end, |row| row.get(0))?;
    Ok(KnownTurn { is_kept, has_ended })
}

/// True if the file was read, or hooks recorded the session that it is named after.
pub fn is_known(database: &Connection, path: &str, session: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM backfill_files WHERE path = ?1)
                   OR EXISTS (SELECT 1 FROM sessions WHERE id = ?2)";
    Ok(database.prepare_cached(sql)?.query_row([path, session], |row| row.get(0))?)
}
