//! Traces of edits and repairs for later sessions: hashes of the lines that a turn removed and
//! added, and the repairs of failures.

use rusqlite::{Connection, Transaction, params};
use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Millis, SessionId};
use crate::store::{StoreError, listed};

/// A hash of a line or of a signature.
pub type Hash = i64;

/// The net effect of some edits of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditTrace {
    /// The file path, relative to the project root.
    pub file_path: String,
    /// Hashes of the removed lines.
    pub removed: Vec<Hash>,
    /// Hashes of the added lines.
    pub added: Vec<Hash>,
    /// The blob id of the file afterwards, if its whole text was known.
    pub blob: Option<String>,
}

impl EditTrace {
    /// Adds a later edit of the same file. A line that one edit adds and another removes leaves no trace.
    pub fn then(&mut self, later: Self) {
        self.removed.extend(later.removed);
        self.added.extend(later.added);
        self.blob = later.blob;
        self.settle();
    }

    /// Sorts the lines, and drops those that were both removed and added.
    pub fn settle(&mut self) {
        for list in [&mut self.removed, &mut self.added] {
            list.sort_unstable();
            list.dedup();
        }
        let both: Vec<Hash> =
            self.removed.iter().filter(|hash| self.added.binary_search(hash).is_ok()).copied().collect();
        for list in [&mut self.removed, &mut self.added] {
            list.retain(|hash| both.binary_search(hash).is_err());
        }
    }
}

/// A repaired failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// A hash of the failure's signature.
    pub signature: Hash,
    /// The command that then succeeded, if that was the repair.
    pub command: Option<String>,
    /// Files whose change was the repair.
    pub files: Vec<String>,
}

/// An edit trace with its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnTrace {
    /// The session.
    pub session_id: String,
    /// The prompt that began the turn.
    pub prompt_number: Option<i64>,
    /// The edit.
    pub trace: EditTrace,
}

/// A repair with its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRepair {
    /// The session.
    pub session_id: String,
    /// The prompt that began the turn.
    pub prompt_number: Option<i64>,
    /// The repair.
    pub repair: Repair,
    /// The time.
    pub created_at: Millis,
}

/// Minimum letters and digits of a line that is distinctive enough to recognise.
const MIN_DISTINCTIVE_CHARS: usize = 10;

/// Returns the hash of a line of code without its indentation; `None` for a line such as `} else {`
/// that occurs in any file.
pub fn line_hash(line: &str) -> Option<Hash> {
    let plain: String = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = plain.trim_end_matches([',', ';']);
    let length = plain.chars().filter(|char| char.is_alphanumeric()).count();
    (length >= MIN_DISTINCTIVE_CHARS).then(|| hash(plain))
}

/// Hashes any text.
pub fn hash(text: &str) -> Hash {
    xxh3_64(text.as_bytes()).cast_signed()
}

/// Stores the traces and repairs of a turn.
pub(in crate::store) fn record(
    transaction: &Transaction<'_>,
    session: &SessionId,
    project: &str,
    prompt_number: Option<i64>,
    (edits, repairs): (&[EditTrace], &[Repair]),
    now: Millis,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO edit_traces (session_id, project, prompt_number, file_path, removed, added, blob, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for EditTrace { file_path, removed, added, blob } in edits {
        let (removed, added) = (bytes(removed), bytes(added));
        let row = params![session.as_str(), project, prompt_number, file_path, removed, added, blob, now];
        transaction.prepare_cached(sql)?.execute(row)?;
    }
    let known = "SELECT 1 FROM repairs WHERE project = ?1 AND signature = ?2 AND session_id = ?3 AND prompt_number IS ?4";
    let sql =
        "INSERT INTO repairs (session_id, project, prompt_number, signature, command, files, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    for Repair { signature, command, files } in repairs {
        let turn = params![project, signature, session.as_str(), prompt_number];
        if transaction.prepare_cached(known)?.exists(turn)? {
            continue;
        }
        let files = serde_json::to_string(files).unwrap_or_default();
        let row = params![session.as_str(), project, prompt_number, signature, command, files, now];
        transaction.prepare_cached(sql)?.execute(row)?;
    }
    Ok(())
}

/// Maximum traces of one file that are compared.
const MOST_TRACES: u32 = 400;

/// Returns the traces of a file, newest first, without those of one session.
pub fn of_file(
    database: &Connection,
    project: &str,
    file_path: &str,
    except: &str,
) -> Result<Vec<TurnTrace>, StoreError> {
    let sql = "SELECT session_id, prompt_number, removed, added FROM edit_traces
               WHERE project = ?1 AND file_path = ?2 AND session_id <> ?3 ORDER BY id DESC LIMIT ?4";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project, file_path, except, MOST_TRACES], |row| {
        Ok(TurnTrace {
            session_id: row.get(0)?,
            prompt_number: row.get(1)?,
            trace: EditTrace {
                file_path: file_path.to_owned(),
                removed: hashes(row.get_ref(2)?.as_blob()?),
                added: hashes(row.get_ref(3)?.as_blob()?),
                blob: None,
            },
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the repairs of a failure by other sessions, newest first.
pub fn repairs_of(
    database: &Connection,
    project: &str,
    signature: Hash,
    except: &str,
) -> Result<Vec<TurnRepair>, StoreError> {
    let sql = "SELECT session_id, prompt_number, command, files, created_at FROM repairs
               WHERE project = ?1 AND signature = ?2 AND session_id <> ?3 ORDER BY id DESC LIMIT 20";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map(params![project, signature, except], |row| {
        Ok(TurnRepair {
            session_id: row.get(0)?,
            prompt_number: row.get(1)?,
            repair: Repair { signature, command: row.get(2)?, files: listed(row, 3)? },
            created_at: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Deletes rows older than `before`, oldest first. True if there may be more.
pub fn drop_old(database: &Connection, before: Millis, limit: i64) -> Result<bool, StoreError> {
    let mut more = false;
    for table in ["edit_traces", "repairs"] {
        let sql = format!(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM (SELECT id, created_at FROM {table} ORDER BY id LIMIT ?2)
             WHERE created_at < ?1)"
        );
        let dropped = database.prepare_cached(&sql)?.execute([before, limit])?;
        more |= i64::try_from(dropped).unwrap_or_default() == limit;
    }
    Ok(more)
}

pub(super) fn bytes(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect()
}

pub(super) fn hashes(bytes: &[u8]) -> Vec<Hash> {
    bytes.as_chunks::<8>().0.iter().map(|chunk| Hash::from_le_bytes(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_recognised_by_its_words_not_its_position() {
        assert_eq!(line_hash("    repositoryUrl: repoUrl,"), line_hash("repositoryUrl:  repoUrl"));
        assert_ne!(line_hash("repositoryUrl: repoUrl"), line_hash("repositoryUrl: other"));
        assert_eq!((line_hash("} else {"), line_hash("return x;")), (None, None));
    }

    #[test]
    fn hashes_survive_being_stored() {
        let some = vec![1, -5, Hash::MIN, Hash::MAX];
        assert_eq!(hashes(&bytes(&some)), some);
    }
}
