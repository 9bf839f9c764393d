//! The rows that a context is made of: changed code, learnings, observations, and the memories that were shown already.
//! The hook links it.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{StoreError, listed};
use crate::model::{Millis, SessionId, Standing, confidence_left};

/// A memory as the context looks at it: an observation, or the summary of a turn that has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextMemory {
    /// Its id, by which it can be shown in full; that of a summary is negative.
    pub id: i64,
    /// Whose it is.
    pub session_id: String,
    /// The prompt that began its turn.
    pub prompt_number: Option<i64>,
    /// Its type.
    pub kind: String,
    /// Its title.
    pub title: String,
    /// The short form.
    pub summary: String,
    /// The rest.
    pub detail: String,
    /// Single statements.
    pub facts: Vec<String>,
    /// Files that were changed.
    pub files_modified: Vec<String>,
    /// Files that were read.
    pub files_read: Vec<String>,
    /// Functions and types that were changed.
    pub functions: Vec<String>,
    /// The branch that it was made on.
    pub branch: Option<String>,
    /// Time of its creation.
    pub created_at: Millis,
    /// True if the user wants it in every context.
    pub is_pinned: bool,
    /// True if a later note replaced it.
    pub is_superseded: bool,
    /// State of its code at the last check.
    pub standing: Standing,
    /// The state of its branch, if git was asked about it.
    pub branch_line: Option<BranchLine>,
    /// Number of sessions that left it; 0 counts as one.
    pub times_seen: i64,
    /// Words about its truth, for its line.
    pub label: String,
}

/// The state of a branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchLine {
    /// default, open, deleted, unknown.
    pub state: String,
    /// Notes up to this time have reached the default branch.
    pub merged_until: Millis,
}

/// The relation of a memory to the branch that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Made on it, or part of the default branch.
    Here,
    /// Of another branch that is not merged.
    Elsewhere,
    /// Of a branch that was deleted without a merge.
    Faded,
    /// Of another branch, of which nothing certain is known.
    Doubtful,
}

/// Relates a memory of `branch` to the branch `here`.
fn reach(branch: Option<&str>, line: Option<&BranchLine>, at: Millis, here: Option<&str>) -> Reach {
    match (branch, line) {
        (None, _) => Reach::Here,
        (Some(branch), _) if here == Some(branch) => Reach::Here,
        (_, Some(line)) if line.state == "default" || at <= line.merged_until => Reach::Here,
        (_, Some(line)) if line.state == "open" => Reach::Elsewhere,
        (_, Some(line)) if line.state == "deleted" => Reach::Faded,
        _ => Reach::Doubtful,
    }
}

impl ContextMemory {
    /// Relates it to a branch.
    pub fn reach(&self, here: Option<&str>) -> Reach {
        reach(self.branch.as_deref(), self.branch_line.as_ref(), self.created_at, here)
    }
}

fn branch_line(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<BranchLine>> {
    let state: Option<String> = row.get(at)?;
    state.map(|state| Ok(BranchLine { state, merged_until: row.get(at + 1)? })).transpose()
}

/// Of a text nobody reads more than this here.
const COLUMNS: &str = "o.id, o.session_id, o.type, coalesce(substr(o.title, 1, 400), ''),
    coalesce(substr(coalesce(o.summary, o.detail), 1, 2000), ''), coalesce(substr(o.detail, 1, 2000), ''), o.facts,
    o.files_modified, o.files_read, o.functions_changed, o.branch, o.created_at, o.prompt_number,
    o.pinned_at IS NOT NULL, o.superseded_by IS NOT NULL, c.standing, b.state, b.merged_until, o.times_seen
    FROM observations o JOIN sessions s ON s.id = o.session_id
    LEFT JOIN stale_notes c ON c.observation_id = o.id
    LEFT JOIN branches b ON b.project = o.project AND b.name = o.branch";

impl ContextMemory {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let list = |index| listed(row, index);
        Ok(Self {
            id: row.get(0)?,
            session_id: row.get(1)?,
            kind: row.get(2)?,
            title: row.get(3)?,
            summary: row.get(4)?,
            detail: row.get(5)?,
            facts: list(6)?,
            files_modified: list(7)?,
            files_read: list(8)?,
            functions: list(9)?,
            branch: row.get(10)?,
            created_at: row.get(11)?,
            prompt_number: row.get(12)?,
            is_pinned: row.get(13)?,
            is_superseded: row.get(14)?,
            standing: Standing::from_word(row.get::<_, Option<String>>(15)?.as_deref()),
            branch_line: branch_line(row, 16)?,
            times_seen: row.get(18)?,
            label: String::new(),
        })
    }
}

/// The observations of these ids that are there and of this project, in the order asked for.
pub fn memories(database: &Connection, project: &str, ids: &[i64]) -> Result<Vec<ContextMemory>, StoreError> {
    let sql = format!("SELECT {COLUMNS} WHERE o.id = ?1 AND s.project = ?2 AND o.deleted_at IS NULL");
    let mut statement = database.prepare_cached(&sql)?;
    let found =
        ids.iter().map(|id| statement.query_row(params![id, project], ContextMemory::read).optional());
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The branch that a session is on.
#[cfg(feature = "service")]
pub fn branch_of(database: &Connection, session: &SessionId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT branch FROM sessions WHERE id = ?1";
    Ok(database.prepare_cached(sql)?.query_row([session.as_str()], |row| row.get(0)).optional()?.flatten())
}

/// True if a session has a note of its own.
#[cfg(feature = "service")]
pub fn has_note(database: &Connection, session: &SessionId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM observations WHERE session_id = ?1)";
    Ok(database.prepare_cached(sql)?.query_row([session.as_str()], |row| row.get(0))?)
}

/// The directory that a session works in.
#[cfg(feature = "service")]
pub fn directory_of(database: &Connection, session: &SessionId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT cwd FROM sessions WHERE id = ?1";
    Ok(database.prepare_cached(sql)?.query_row([session.as_str()], |row| row.get(0)).optional()?.flatten())
}

/// The first note of a turn of this project.
#[cfg(feature = "service")]
pub fn note_of_turn(
    database: &Connection,
    project: &str,
    session: &str,
    prompt_number: Option<i64>,
) -> Result<Option<ContextMemory>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} WHERE o.session_id = ?1 AND o.prompt_number IS ?2 AND s.project = ?3
         AND o.deleted_at IS NULL ORDER BY o.id LIMIT 1"
    );
    let turn = params![session, prompt_number, project];
    Ok(database.prepare_cached(&sql)?.query_row(turn, ContextMemory::read).optional()?)
}

/// The memory of a turn's summary: the turn's note or, where it has none, the summary itself.
#[cfg(feature = "service")]
pub fn memory_of_summary(
    database: &Connection,
    project: &str,
    id: i64,
) -> Result<Option<ContextMemory>, StoreError> {
    let sql = "SELECT m.session_id, m.prompt_number, coalesce(substr(m.request, 1, 400), ''),
                 coalesce(substr(coalesce(m.completed, m.learned, m.summary), 1, 2000), ''), m.files_edited, m.files_read,
                 m.created_at, s.branch
               FROM session_summaries m JOIN sessions s ON s.id = m.session_id
               WHERE m.id = ?1 AND s.project = ?2";
    let read = |row: &Row<'_>| {
        Ok(ContextMemory {
            id: -id,
            kind: "summary".into(),
            session_id: row.get(0)?,
            prompt_number: row.get(1)?,
            title: row.get(2)?,
            summary: row.get(3)?,
            files_modified: listed(row, 4)?,
            files_read: listed(row, 5)?,
            created_at: row.get(6)?,
            branch: row.get(7)?,
            ..ContextMemory::default()
        })
    };
    let Some(summary) = database.prepare_cached(sql)?.query_row(params![id, project], read).optional()?
    else {
        return Ok(None);
    };
    let note = note_of_turn(database, project, &summary.session_id, summary.prompt_number)?;
    Ok(Some(note.unwrap_or(summary)))
}

/// A session by its digest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionLine {
    /// Claude's id.
    pub id: String,
    /// The branch that it was on.
    pub branch: Option<String>,
    /// Time of its last activity.
    pub last_activity_at: Millis,
    /// True if it went silent without an end.
    pub is_interrupted: bool,
    /// Its title: of its digest, else the request of its latest summary, else its latest prompt.
    pub title: Option<String>,
    /// Its outcome: of its digest, else its latest summary.
    pub outcome: Option<String>,
    /// Points that are still open.
    pub open_items: Vec<String>,
    /// The state of its branch, if git was asked about it.
    pub branch_line: Option<BranchLine>,
}

impl SessionLine {
    /// Relates it to a branch.
    pub fn reach(&self, here: Option<&str>) -> Reach {
        reach(self.branch.as_deref(), self.branch_line.as_ref(), self.last_activity_at, here)
    }
}

/// Candidates for the sessions of project `?1` with the latest activity: the last to begin, and those of the last turns, however
/// long ago they began. Two short walks over indexes: an index by last activity would cost every hook a write.
const RECENT: &str = "
    SELECT id FROM (SELECT id FROM sessions WHERE project = ?1 ORDER BY started_at DESC LIMIT 120)
    UNION
    SELECT session_id FROM (SELECT session_id FROM session_summaries WHERE project = ?1 ORDER BY created_at DESC LIMIT 400)";

/// The sessions of a project that were heard of last, without the one that asks. Commands and notes of the client are no titles.
pub fn latest_sessions(
    database: &Connection,
    project: &str,
    asking: &str,
    limit: u32,
) -> Result<Vec<SessionLine>, StoreError> {
    let mut statement = database.prepare_cached(&latest_sessions_sql())?;
    let rows = statement.query_map(params![project, asking, limit], |row| {
        Ok(SessionLine {
            id: row.get(0)?,
            branch: row.get(1)?,
            last_activity_at: row.get(2)?,
            is_interrupted: row.get(3)?,
            title: row.get(4)?,
            outcome: row.get(5)?,
            open_items: listed(row, 6)?,
            branch_line: branch_line(row, 7)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn latest_sessions_sql() -> String {
    format!(
        "
        SELECT s.id, s.branch, s.last_activity_at, s.status = 'interrupted',
               coalesce(s.title, m.request, (SELECT substr(p.prompt, 1, 2000) FROM user_prompts p
                                    WHERE p.session_id = s.id AND p.is_raw = 0 AND substr(p.prompt, 1, 1) NOT IN ('<', '/', '!')
                                    ORDER BY p.prompt_number DESC LIMIT 1)),
               coalesce(s.outcome, m.summary, m.completed),
               iif(s.title IS NULL, json_array(m.next_steps), s.open_items), b.state, b.merged_until
        FROM (SELECT id, branch, last_activity_at, status, title, outcome, open_items FROM sessions
              WHERE id IN ({RECENT}) AND +project = ?1 AND id <> ?2 AND prompt_count > 0
              ORDER BY last_activity_at DESC, id DESC LIMIT ?3) s
        LEFT JOIN session_summaries m
               ON m.id = (SELECT max(id) FROM session_summaries WHERE session_id = s.id)
        LEFT JOIN branches b ON b.project = ?1 AND b.name = s.branch
        ORDER BY s.last_activity_at DESC, s.id DESC"
    )
}

/// A cross join keeps the order of the index: observations first.
pub(crate) const NEWEST_OBSERVATIONS: &str =
    "SELECT o.id FROM observations o CROSS JOIN sessions s ON s.id = o.session_id
     WHERE o.project = ?1 AND s.prompt_count > 0 ORDER BY o.created_at DESC, o.id DESC LIMIT ?2";

/// The newest observations of a project, newest first. Sessions in which nothing was asked do not count.
pub fn newest_observations(database: &Connection, project: &str, limit: u32) -> Result<Vec<i64>, StoreError> {
    let mut statement = database.prepare_cached(NEWEST_OBSERVATIONS)?;
    let rows = statement.query_map(params![project, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The pinned observations of a project, latest pin first.
pub fn pinned_observations(database: &Connection, project: &str, limit: u32) -> Result<Vec<i64>, StoreError> {
    let sql =
        "SELECT id FROM observations WHERE project = ?1 AND pinned_at IS NOT NULL AND deleted_at IS NULL
               ORDER BY pinned_at DESC LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The newest observations of a project of that name that have this phrase in their title, concepts or files. Nothing in the
/// phrase is an operator.
pub fn observations_with(
    database: &Connection,
    project: &str,
    phrase: &str,
    limit: u32,
) -> Result<Vec<i64>, StoreError> {
    // A project's observations are one range of the index (migrations/0001_schema.sql).
    let sql = "SELECT rowid & ((1 << 42) - 1) FROM search_index
               WHERE search_index MATCH ?1
                 AND rowid BETWEEN (SELECT no << 44 FROM search_projects WHERE project = ?2)
                           AND (SELECT (no << 44) + (1 << 42) - 1 FROM search_projects WHERE project = ?2)
               ORDER BY rowid DESC LIMIT ?3";
    let phrase: String = phrase.chars().map(|c| if c == '"' || c == '\0' { ' ' } else { c }).collect();
    if !phrase.chars().any(char::is_alphanumeric) {
        return Ok(Vec::new());
    }
    let mut statement = database.prepare_cached(sql)?;
    let rows =
        statement.query_map(params![format!("head : \"{phrase}\""), project, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Number of a project's memories in the index.
#[cfg(feature = "service")]
pub fn observations_of(database: &Connection, project: &str) -> Result<u32, StoreError> {
    let sql = "SELECT coalesce(max(rows), 0) FROM search_projects WHERE project = ?1";
    Ok(database.prepare_cached(sql)?.query_row([project], |row| row.get(0))?)
}

/// Number of a project's observations that have a word, counted up to `most`.
#[cfg(feature = "service")]
pub fn observations_having(
    database: &Connection,
    project: &str,
    word: &str,
    most: u32,
) -> Result<u32, StoreError> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM search_index WHERE search_index MATCH ?1
                 AND rowid BETWEEN (SELECT no << 44 FROM search_projects WHERE project = ?2)
                           AND (SELECT (no << 44) + (1 << 42) - 1 FROM search_projects WHERE project = ?2) LIMIT ?3)";
    let word = format!("{{head body}} : \"{}\"", word.replace('"', ""));
    Ok(database.prepare_cached(sql)?.query_row(params![word, project, most], |row| row.get(0))?)
}

/// A change to some code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeChange {
    /// The file.
    pub file_path: String,
    /// The whole name of the function or type.
    pub qualified_name: String,
    /// As it is declared, or was.
    pub signature: Option<String>,
    /// Its first line.
    pub line_start: Option<i64>,
    /// new, modified, deleted.
    pub change_type: String,
    /// Time of the change.
    pub snapshot_at: Millis,
}

/// Sessions that are looked through for changed code; of those that have some, [`CODE_SESSIONS`] count.
const LOOKED_THROUGH: u32 = 40;
const CODE_SESSIONS: u32 = 5;
/// More changes than this are not one context's matter.
const MOST_CHANGES: u32 = 2_000;

/// The code that the last sessions of a project changed on a branch, or on any if none is given, oldest change first.
pub fn code_changes(
    database: &Connection,
    project: &str,
    branch: Option<&str>,
) -> Result<Vec<CodeChange>, StoreError> {
    let sql = "
        SELECT file_path, qualified_name, signature, line_start, change_type, snapshot_at FROM (
          SELECT * FROM function_map WHERE change_type <> 'unchanged' AND session_id IN (
            SELECT id FROM (SELECT id, started_at FROM sessions
                            WHERE project = ?1 AND prompt_count > 0 AND (?5 IS NULL OR branch = ?5)
                            ORDER BY started_at DESC LIMIT ?2) s
            WHERE EXISTS (SELECT 1 FROM function_map f WHERE f.session_id = s.id AND f.change_type <> 'unchanged')
            ORDER BY started_at DESC LIMIT ?3)
          ORDER BY snapshot_at DESC, id DESC LIMIT ?4)
        ORDER BY snapshot_at, id";
    let mut statement = database.prepare_cached(sql)?;
    let parameters = params![project, LOOKED_THROUGH, CODE_SESSIONS, MOST_CHANGES, branch];
    let rows = statement.query_map(parameters, |row| {
        Ok(CodeChange {
            file_path: row.get(0)?,
            qualified_name: row.get(1)?,
            signature: row.get(2)?,
            line_start: row.get(3)?,
            change_type: row.get(4)?,
            snapshot_at: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Something that holds beyond one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// architecture, convention, gotcha, preference, command, dependency.
    pub category: String,
    /// Its text.
    pub content: String,
}

/// Learnings of a project and global ones, best first: neither forgotten, nor superseded, nor doubtful by now.
pub fn learned(
    database: &Connection,
    project: &str,
    limit: u32,
    now: Millis,
) -> Result<Vec<Learned>, StoreError> {
    let sql = "SELECT category, substr(content, 1, 2000), confidence, times_seen, updated_at, id, pinned_at IS NOT NULL
               FROM learnings
               WHERE is_active = 1 AND superseded_by IS NULL AND (confidence >= 0.5 OR pinned_at IS NOT NULL)
                 AND (project = ?1 OR project IS NULL)
               ORDER BY pinned_at IS NULL, confidence DESC, times_seen DESC, updated_at DESC, id DESC LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    // Some may have faded since they were last seen.
    let rows = statement.query_map(params![project, 4 * limit], |row| {
        let (seen, at, id): (i64, Millis, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
        let is_pinned: bool = row.get(6)?;
        // Above every other, and it does not fade.
        let left = if is_pinned { 2.0 } else { confidence_left(row.get(2)?, at, now) };
        Ok((left, seen, at, id, Learned { category: row.get(0)?, content: row.get(1)? }))
    })?;
    let mut found = rows.collect::<Result<Vec<_>, _>>()?;
    found.retain(|(left, ..)| *left >= 0.5);
    found.sort_by(|one, other| {
        let rank = |row: &(f64, i64, Millis, i64, Learned)| (row.1, row.2, row.3);
        other.0.total_cmp(&one.0).then_with(|| rank(other).cmp(&rank(one)))
    });
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|(.., learned)| learned).collect())
}

/// The entries of the event log for memories that a session was shown: at its start, which comes first, and later.
pub const SHOWN_EVENTS: [&str; 4] = ["context", "context_prompt", "context_file", "context_failure"];

/// The entry of the event log for a session from which memories are withheld (src/value.rs).
pub const WITHHELD_EVENT: &str = "withheld";

/// Memories that a session was shown since its context was last built from the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// Memories.
    pub ids: Vec<i64>,
    /// Lines, by their hashes.
    pub keys: Vec<i64>,
    /// Files that were spoken of.
    pub files: Vec<String>,
}

/// Reads the memories that a session was shown. A context at its start, or after a compaction, begins the list again, since nothing from
/// before it is left; one for a resumed session adds to it.
pub fn shown(database: &Connection, session: &SessionId) -> Result<Shown, StoreError> {
    let mut shown = Shown::default();
    let began: Option<Millis> = database
        .prepare_cached("SELECT started_at FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    let mut statement = database.prepare_cached(
        "SELECT data ->> 'shown', data ->> 'keys', data ->> 'file', created_at, data ->> 'source' FROM event_log
         WHERE event_type = ?2 AND created_at >= ?3 AND session_id = ?1 ORDER BY created_at, id",
    )?;
    let mut since = began.unwrap_or_default();
    for event in SHOWN_EVENTS {
        let mut rows = statement.query(params![session.as_str(), event, since])?;
        while let Some(row) = rows.next()? {
            let is_continued = row.get::<_, Option<String>>(4)?.as_deref() == Some("resume");
            if event == SHOWN_EVENTS[0] && !is_continued {
                shown = Shown::default();
                since = row.get(3)?;
            }
            let numbers = |index| -> Result<Vec<i64>, StoreError> {
                let json: Option<String> = row.get(index)?;
                Ok(json.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default())
            };
            shown.ids.extend(numbers(0)?);
            shown.keys.extend(numbers(1)?);
            shown.files.extend(row.get::<_, Option<String>>(2)?);
        }
    }
    Ok(shown)
}
