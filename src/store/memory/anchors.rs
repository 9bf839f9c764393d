//! Anchors: the code that a note is about, as its turn left it, and the notes that later edits
//! reverse.
//!
//! Anchors come from the turn's traces and from the function map, in the transaction that stores
//! the note. `src/anchors.rs` compares them with a working tree; the result of the last comparison
//! is kept for readers without one.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::traces::{EditTrace, Hash, bytes, hashes};
use crate::model::{Millis, SessionId, Standing};
use crate::project::is_same_file;
use crate::store::StoreError;

/// The state of a file, or of a function or type in it, when a note was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anchor {
    /// The file path, relative to the project root.
    pub file_path: String,
    /// The qualified name of the symbol; empty for the file.
    pub symbol: String,
    /// The blob id of the file or the body hash of the symbol; empty if it is unknown or deleted.
    pub hash: String,
    /// Hashes of lines that the turn added to the file.
    pub added: Vec<Hash>,
    /// Hashes of lines that the turn removed from the file.
    pub removed: Vec<Hash>,
}

/// Maximum lines kept per note, of all its files together. Enough to distinguish a fifth from a half.
const MOST_ADDED: usize = 64;
const MOST_REMOVED: usize = 32;
/// Maximum files and symbols kept per note.
const MOST_FILES: usize = 16;
const MOST_SYMBOLS: usize = 24;

/// Share of a note's added lines that an edit must take out to reverse it, and share of its removed
/// lines that must be back.
const TAKEN_OUT: f64 = 0.6;
const BACK: f64 = 0.5;
/// The same for a note whose turn only removed lines.
const BACK_ALONE: f64 = 0.8;

/// Replaces the anchors of a note by the state that its turn left.
pub(super) fn record(
    transaction: &Transaction<'_>,
    note: i64,
    session: &SessionId,
    prompt_number: Option<i64>,
    files: &[String],
    functions: &[String],
) -> Result<(), StoreError> {
    let mut traces = of_turn(transaction, session, prompt_number)?;
    traces.retain(|path, _| files.iter().any(|file| is_same_file(file, path)));
    let mut anchors: Vec<Anchor> = traces.into_values().take(MOST_FILES).collect();
    sample(&mut anchors, MOST_ADDED, |anchor| &mut anchor.added);
    sample(&mut anchors, MOST_REMOVED, |anchor| &mut anchor.removed);
    let mut symbols = Vec::new();
    for anchor in &anchors {
        symbols.extend(symbols_of(transaction, session, &anchor.file_path, functions)?);
    }
    symbols.truncate(MOST_SYMBOLS);
    anchors.extend(symbols);
    replace(transaction, note, &anchors)
}

/// Stores these anchors of a note instead of earlier ones.
pub fn replace(database: &Connection, note: i64, anchors: &[Anchor]) -> Result<(), StoreError> {
    for table in ["anchors", "stale_notes"] {
        let sql = format!("DELETE FROM {table} WHERE observation_id = ?1");
        database.prepare_cached(&sql)?.execute([note])?;
    }
    let sql = "INSERT INTO anchors (observation_id, file_path, symbol, hash, added, removed)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    for Anchor { file_path, symbol, hash, added, removed } in anchors {
        let row = params![note, file_path, symbol, hash, bytes(added), bytes(removed)];
        database.prepare_cached(sql)?.execute(row)?;
    }
    Ok(())
}

/// The files that a turn changed, each with the net effect of all its traces.
fn of_turn(
    database: &Connection,
    session: &SessionId,
    prompt_number: Option<i64>,
) -> Result<BTreeMap<String, Anchor>, StoreError> {
    let sql = "SELECT file_path, removed, added, blob FROM edit_traces
               WHERE session_id = ?1 AND prompt_number IS ?2 ORDER BY id";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![session.as_str(), prompt_number], |row| {
        Ok(EditTrace {
            file_path: row.get(0)?,
            removed: hashes(row.get_ref(1)?.as_blob()?),
            added: hashes(row.get_ref(2)?.as_blob()?),
            blob: row.get(3)?,
        })
    })?;
    let mut files: BTreeMap<String, EditTrace> = BTreeMap::new();
    for next in rows {
        let next = next?;
        let empty = EditTrace { file_path: next.file_path.clone(), ..EditTrace::default() };
        files.entry(next.file_path.clone()).or_insert(empty).then(next);
    }
    let anchor = |EditTrace { file_path, removed, added, blob }| Anchor {
        file_path,
        hash: blob.unwrap_or_default(),
        added,
        removed,
        ..Anchor::default()
    };
    Ok(files.into_iter().map(|(path, trace)| (path, anchor(trace))).collect())
}

/// Keeps the lines with the smallest hashes of all files together: a uniform sample.
fn sample(anchors: &mut [Anchor], most: usize, lines: impl Fn(&mut Anchor) -> &mut Vec<Hash>) {
    let mut all: Vec<Hash> = anchors.iter_mut().flat_map(|anchor| lines(anchor).clone()).collect();
    all.sort_unstable();
    let Some(last) = all.get(most) else { return };
    anchors.iter_mut().for_each(|anchor| lines(anchor).retain(|hash| hash < last));
}

/// The named functions of a file as the session left them. A deleted one has no hash.
fn symbols_of(
    database: &Connection,
    session: &SessionId,
    file_path: &str,
    names: &[String],
) -> Result<Vec<Anchor>, StoreError> {
    let sql =
        "SELECT qualified_name, iif(change_type = 'deleted', '', coalesce(body_hash, '')) FROM function_map
               WHERE session_id = ?1 AND file_path = ?2 AND change_type <> 'unchanged' ORDER BY id";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([session.as_str(), file_path], |row| {
        Ok(Anchor {
            file_path: file_path.to_owned(),
            symbol: row.get(0)?,
            hash: row.get(1)?,
            ..Anchor::default()
        })
    })?;
    let mut found = rows.collect::<Result<Vec<_>, _>>()?;
    found.retain(|anchor| names.contains(&anchor.symbol));
    Ok(found)
}

/// Returns the anchors of a note, each file before its symbols.
pub fn of_note(database: &Connection, note: i64) -> Result<Vec<Anchor>, StoreError> {
    let sql = "SELECT file_path, symbol, hash, added, removed FROM anchors WHERE observation_id = ?1
               ORDER BY file_path, symbol";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([note], |row| {
        Ok(Anchor {
            file_path: row.get(0)?,
            symbol: row.get(1)?,
            hash: row.get(2)?,
            added: hashes(row.get_ref(3)?.as_blob()?),
            removed: hashes(row.get_ref(4)?.as_blob()?),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Records the result of a check, if it differs from the last one.
pub fn record_standing(
    database: &Connection,
    note: i64,
    standing: Standing,
    now: Millis,
) -> Result<(), StoreError> {
    match standing {
        Standing::Holds => {
            let sql = "DELETE FROM stale_notes WHERE observation_id = ?1";
            database.prepare_cached(sql)?.execute([note])?;
        }
        Standing::Changed | Standing::Gone => {
            let sql = "INSERT INTO stale_notes (observation_id, standing, checked_at)
                       SELECT id, ?2, ?3 FROM observations WHERE id = ?1
                       ON CONFLICT (observation_id) DO UPDATE SET standing = ?2, checked_at = ?3";
            database.prepare_cached(sql)?.execute(params![note, standing.as_str(), now])?;
        }
    }
    Ok(())
}

/// Returns the newest notes of a project that have anchors and are shown, for a check of all.
pub fn anchored(database: &Connection, project: &str, limit: u32) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT o.id FROM observations o WHERE o.project = ?1 AND o.deleted_at IS NULL AND o.superseded_by IS NULL
                 AND EXISTS (SELECT 1 FROM anchors a WHERE a.observation_id = o.id)
               ORDER BY o.created_at DESC, o.id DESC LIMIT ?2";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Marks the earlier notes that the turn of a new note reverses as superseded by it. Notes that
/// one of them had superseded count again.
pub(super) fn supersede_reversed(
    transaction: &Transaction<'_>,
    note: i64,
    session: &SessionId,
    prompt_number: Option<i64>,
    project: &str,
) -> Result<(), StoreError> {
    let edits: Vec<Anchor> = of_turn(transaction, session, prompt_number)?.into_values().collect();
    for old in candidates(transaction, note, project, &edits)? {
        if is_reversed(&of_note(transaction, old)?, &edits) {
            supersede(transaction, old, note)?;
        }
    }
    Ok(())
}

/// Marks the earlier notes of the branch with this commit subject among their facts as superseded: a
/// later commit says that it reverts it.
pub(super) fn supersede_reverted(
    transaction: &Transaction<'_>,
    note: i64,
    project: &str,
    subject: &str,
) -> Result<(), StoreError> {
    let sql = "SELECT o.id FROM observations o, json_each(o.facts) f
               WHERE o.project = ?1 AND o.id < ?2 AND o.deleted_at IS NULL AND o.superseded_by IS NULL
                 AND o.pinned_at IS NULL AND o.branch IS (SELECT branch FROM observations WHERE id = ?2)
                 AND f.value GLOB 'Commit*' AND substr(f.value, -length(?3) - 2) = ': ' || ?3";
    let mut statement = transaction.prepare_cached(sql)?;
    let old: Vec<i64> =
        statement.query_map(params![project, note, subject], |row| row.get(0))?.collect::<Result<_, _>>()?;
    old.into_iter().try_for_each(|old| supersede(transaction, old, note))
}

/// Links a note to the one that replaced it. What it had replaced itself counts again.
pub fn supersede(database: &Connection, old: i64, by: i64) -> Result<(), StoreError> {
    let uid = |id: i64| -> Result<Option<String>, StoreError> {
        let sql = "SELECT uid FROM observations WHERE id = ?1 AND deleted_at IS NULL";
        Ok(database.prepare_cached(sql)?.query_row([id], |row| row.get(0)).optional()?)
    };
    let (Some(replaced), Some(new)) = (uid(old)?, uid(by)?) else { return Ok(()) };
    let sql = "UPDATE observations SET superseded_by = NULL WHERE superseded_by = ?1 AND deleted_at IS NULL";
    database.prepare_cached(sql)?.execute([replaced])?;
    let sql = "UPDATE observations SET superseded_by = ?2 WHERE id = ?1";
    database.prepare_cached(sql)?.execute(params![old, new])?;
    Ok(())
}

/// Earlier notes of the same branch about the edited files, each once. An experiment on another branch reverses nothing here.
fn candidates(
    database: &Connection,
    note: i64,
    project: &str,
    edits: &[Anchor],
) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT a.observation_id FROM anchors a JOIN observations o ON o.id = a.observation_id
               WHERE a.file_path = ?1 AND a.symbol = '' AND a.observation_id < ?2 AND o.project = ?3
                 AND o.deleted_at IS NULL AND o.superseded_by IS NULL AND o.pinned_at IS NULL
                 AND o.branch IS (SELECT branch FROM observations WHERE id = ?2)
               ORDER BY a.observation_id DESC LIMIT 200";
    let mut found = Vec::new();
    for edit in edits {
        let mut statement = database.prepare_cached(sql)?;
        let rows = statement.query_map(params![edit.file_path, note, project], |row| row.get(0))?;
        found.extend(rows.collect::<Result<Vec<i64>, _>>()?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// True if the edits are the opposite of the anchored change.
fn is_reversed(anchors: &[Anchor], edits: &[Anchor]) -> bool {
    let (mut added, mut out, mut removed, mut back) = (0, 0, 0, 0);
    for anchor in anchors.iter().filter(|anchor| anchor.symbol.is_empty()) {
        let edit = edits.iter().find(|edit| edit.file_path == anchor.file_path);
        let among = |lines: &[Hash], hash: &Hash| lines.binary_search(hash).is_ok();
        let is_out = |hash: &&Hash| edit.is_some_and(|edit| among(&edit.removed, hash));
        let is_back = |hash: &&Hash| edit.is_some_and(|edit| among(&edit.added, hash));
        (added, out) = (added + anchor.added.len(), out + anchor.added.iter().filter(is_out).count());
        (removed, back) =
            (removed + anchor.removed.len(), back + anchor.removed.iter().filter(is_back).count());
    }
    let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
    match (added, removed) {
        (0, 0) => false,
        (0, _) => share(back, removed) >= BACK_ALONE,
        (_, 0) => share(out, added) >= TAKEN_OUT,
        _ => share(out, added) >= TAKEN_OUT && share(back, removed) >= BACK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(file: &str, removed: &[Hash], added: &[Hash]) -> Anchor {
        Anchor {
            file_path: file.into(),
            removed: removed.to_vec(),
            added: added.to_vec(),
            ..Anchor::default()
        }
    }

    #[test]
    fn only_the_opposite_change_reverses_a_note() {
        let note = [anchor("a", &[1], &[2]), anchor("b", &[], &[3, 4, 5])];
        let cases = [
            ("the same change again", vec![anchor("a", &[1], &[2])], false),
            ("one of its two files", vec![anchor("a", &[2], &[1])], false),
            ("most of it", vec![anchor("a", &[2], &[1]), anchor("b", &[3, 4], &[9])], true),
            (
                "replaced by something else",
                vec![anchor("a", &[2], &[7]), anchor("b", &[3, 4, 5], &[8])],
                false,
            ),
            ("another file with the same lines", vec![anchor("c", &[2, 3, 4, 5], &[1])], false),
        ];
        for (case, edits, expected) in cases {
            assert_eq!(is_reversed(&note, &edits), expected, "{case}");
        }
        let removal = [anchor("a", &[1, 2], &[])];
        assert!(is_reversed(&removal, &[anchor("a", &[], &[1, 2])]), "a removed line is back");
        assert!(!is_reversed(&removal, &[anchor("a", &[], &[1])]));
        assert!(!is_reversed(&[anchor("a", &[], &[])], &[anchor("a", &[1], &[2])]));
    }

    #[test]
    fn a_sample_takes_lines_of_all_files() {
        let mut anchors = vec![
            anchor("a", &[], &(0..100).map(|at| at * 2).collect::<Vec<_>>()),
            anchor("b", &[], &(0..100).map(|at| at * 2 + 1).collect::<Vec<_>>()),
        ];
        sample(&mut anchors, 64, |anchor| &mut anchor.added);
        assert_eq!((anchors[0].added.len(), anchors[1].added.len()), (32, 32));
    }
}
