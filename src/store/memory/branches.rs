//! Branches: which notes have reached the default branch, according to git.
//!
//! A branch is followed by name. Its notes count as merged up to the latest one that git shows on the default branch: by the
//! commit that its turn made, by the same commit under another id (a rebase), by a file with exactly the content that the turn left
//! (a squash), or by a tip of the branch that is part of the default branch. A branch that git no longer has, and that nothing shows
//! as merged, is deleted; if its history is incomplete here, or if it belongs to another clone, it is unknown.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};

use crate::clock::DAY;
use crate::model::Millis;
use crate::store::{StoreError, listed};

/// A description of a repository by git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// The default branch.
    pub default: Option<String>,
    /// Local and remote branches, by their names without the remote.
    pub branches: Vec<Tip>,
    /// The commits of the default branch since the oldest note that waits for them.
    pub commits: Vec<BranchCommit>,
    /// False if some of those commits may be missing: a shallow clone, or too many.
    pub is_complete: bool,
}

/// The last commit of a branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tip {
    /// The branch.
    pub branch: String,
    /// The commit.
    pub commit: String,
    /// Its time.
    pub at: Millis,
}

/// A commit of the default branch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchCommit {
    /// Its id.
    pub id: String,
    /// The time at which it was written; a rebase keeps it.
    pub authored_at: Millis,
    /// The time at which it was committed.
    pub committed_at: Millis,
    /// The first line of its message.
    pub subject: String,
    /// The files that it changed, with the blob ids that they got.
    pub files: Vec<(String, String)>,
}

/// Maximum difference between a commit's time and that of its note for the same subject to mean the same commit.
const SAME_WORK: Millis = DAY;
/// Maximum notes of a branch that are looked at, the newest.
const MOST_NOTES: u32 = 300;
/// Branches without activity for this long are not looked at again.
const FORGOTTEN: Millis = 180 * DAY;

/// A note that waits for its merge.
struct UnmergedNote {
    created_at: Millis,
    /// Abbreviated ids and subjects of the commits of its turn.
    commits: Vec<(Option<String>, String)>,
    files: Vec<String>,
    blobs: Vec<String>,
}

/// A branch as it is stored.
#[derive(Default)]
struct StoredBranch {
    merged_until: Millis,
    tip: Option<Tip>,
}

/// The oldest note of a project whose branch is not settled: git has to look no further back.
pub fn oldest_waiting(database: &Connection, project: &str, now: Millis) -> Result<Millis, StoreError> {
    let sql = "SELECT min(s.started_at) FROM sessions s LEFT JOIN branches b ON b.project = s.project AND b.name = s.branch
               WHERE s.project = ?1 AND s.branch IS NOT NULL AND s.last_activity_at > max(coalesce(b.merged_until, 0), ?2)
                 AND coalesce(b.state, '') <> 'default'";
    let oldest: Option<Millis> =
        database.prepare_cached(sql)?.query_row(params![project, now - FORGOTTEN], |row| row.get(0))?;
    Ok(oldest.unwrap_or(now))
}

/// Records the state of every branch that a project has notes of. `project_path` is the main worktree of the repository that was
/// looked at: branches of other clones cannot be called deleted.
pub fn record(
    database: &Connection,
    project: &str,
    project_path: &str,
    survey: &Survey,
    now: Millis,
) -> Result<(), StoreError> {
    let evidence = Evidence::of(survey);
    for (branch, is_ours) in names(database, project, project_path, now - FORGOTTEN)? {
        let known = known(database, project, &branch)?;
        let present = survey.branches.iter().filter(|tip| tip.branch == branch).max_by_key(|tip| tip.at);
        let tip = present.cloned().or(known.tip);
        let notes = waiting(database, project, &branch, known.merged_until)?;
        let proven = notes.iter().filter(|note| evidence.shows(note)).map(|note| note.created_at).max();
        let by_tip =
            tip.as_ref().filter(|tip| evidence.commits.contains(tip.commit.as_str())).map(|tip| tip.at);
        let merged_until = known.merged_until.max(proven.unwrap_or(0)).max(by_tip.unwrap_or(0));
        let left: Vec<&UnmergedNote> = notes.iter().filter(|note| note.created_at > merged_until).collect();
        let state = match &survey.default {
            None => "unknown",
            Some(default) if *default == branch => "default",
            Some(_) if present.is_some() => "open",
            Some(_) if is_ours && survey.is_complete && !evidence.resembles(&left) => "deleted",
            Some(_) => "unknown",
        };
        let sql = "INSERT INTO branches (project, name, state, merged_until, tip, tip_at, checked_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                   ON CONFLICT (project, name) DO UPDATE SET state = ?3, merged_until = ?4, tip = ?5, tip_at = ?6, checked_at = ?7";
        let (commit, at) = (tip.as_ref().map(|tip| &tip.commit), tip.as_ref().map(|tip| tip.at));
        database.prepare_cached(sql)?.execute(params![
            project,
            branch,
            state,
            merged_until,
            commit,
            at,
            now
        ])?;
    }
    Ok(())
}

/// Branches with recent sessions, and whether one of those was in this clone.
fn names(
    database: &Connection,
    project: &str,
    project_path: &str,
    since: Millis,
) -> Result<Vec<(String, bool)>, StoreError> {
    let sql = "SELECT branch, max(project_path = ?2 AND origin <> 'sync') FROM sessions
               WHERE project = ?1 AND branch IS NOT NULL AND last_activity_at > ?3 GROUP BY branch";
    let mut statement = database.prepare_cached(sql)?;
    let rows =
        statement.query_map(params![project, project_path, since], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn known(database: &Connection, project: &str, branch: &str) -> Result<StoredBranch, StoreError> {
    let sql = "SELECT merged_until, tip, tip_at FROM branches WHERE project = ?1 AND name = ?2";
    let read = |row: &rusqlite::Row<'_>| {
        let (commit, at): (Option<String>, Option<Millis>) = (row.get(1)?, row.get(2)?);
        let tip = commit.zip(at).map(|(commit, at)| Tip { branch: branch.to_owned(), commit, at });
        Ok(StoredBranch { merged_until: row.get(0)?, tip })
    };
    Ok(database.prepare_cached(sql)?.query_row([project, branch], read).optional()?.unwrap_or_default())
}

fn waiting(
    database: &Connection,
    project: &str,
    branch: &str,
    since: Millis,
) -> Result<Vec<UnmergedNote>, StoreError> {
    let sql = "SELECT o.id, o.created_at, o.facts, o.files_modified FROM observations o
               WHERE o.project = ?1 AND o.created_at > ?3 AND o.branch = ?2 AND o.deleted_at IS NULL
               ORDER BY o.created_at DESC LIMIT ?4";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query(params![project, branch, since, MOST_NOTES])?;
    let mut notes = Vec::new();
    while let Some(row) = rows.next()? {
        let facts: Vec<String> = listed(row, 2)?;
        let sql = "SELECT hash FROM anchors WHERE observation_id = ?1 AND symbol = '' AND hash <> ''";
        let mut blobs = database.prepare_cached(sql)?;
        let blobs = blobs.query_map([row.get::<_, i64>(0)?], |row| row.get(0))?;
        notes.push(UnmergedNote {
            created_at: row.get(1)?,
            commits: facts.iter().filter_map(|fact| committed(fact)).collect(),
            files: listed(row, 3)?,
            blobs: blobs.collect::<Result<_, _>>()?,
        });
    }
    Ok(notes)
}

/// Parses the fact of a commit (compress/note/facts.rs): `Commit 1a2b3c4: Subject`, or without an id.
fn committed(fact: &str) -> Option<(Option<String>, String)> {
    let rest = fact.strip_prefix("Commit")?;
    let (id, subject) = rest.split_once(": ")?;
    let id = id.trim();
    let is_id = id.is_empty() || (id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_id.then(|| ((!id.is_empty()).then(|| id.to_owned()), subject.to_owned()))
}

/// A survey, indexed.
struct Evidence<'a> {
    commits: HashSet<&'a str>,
    all: &'a [BranchCommit],
    blobs: HashSet<&'a str>,
    subjects: HashMap<&'a str, Vec<Millis>>,
}

impl<'a> Evidence<'a> {
    fn of(survey: &'a Survey) -> Self {
        let mut subjects: HashMap<&str, Vec<Millis>> = HashMap::new();
        for commit in &survey.commits {
            subjects.entry(&commit.subject).or_default().push(commit.authored_at);
        }
        let files = || survey.commits.iter().flat_map(|commit| &commit.files);
        Self {
            commits: survey.commits.iter().map(|commit| commit.id.as_str()).collect(),
            all: &survey.commits,
            blobs: files().map(|(_, blob)| blob.as_str()).collect(),
            subjects,
        }
    }

    /// True if the default branch has the work of a note.
    fn shows(&self, note: &UnmergedNote) -> bool {
        let is_committed = |(id, subject): &(Option<String>, String)| {
            let has_id =
                id.as_deref().is_some_and(|id| self.all.iter().any(|commit| commit.id.starts_with(id)));
            let is_near = |at: &Millis| (at - note.created_at).abs() <= SAME_WORK;
            has_id || self.subjects.get(subject.as_str()).is_some_and(|times| times.iter().any(is_near))
        };
        note.commits.iter().any(is_committed)
            || note.blobs.iter().any(|blob| self.blobs.contains(blob.as_str()))
    }

    /// True if a single later commit changed all files of these notes: it may be their squash, with further changes.
    fn resembles(&self, notes: &[&UnmergedNote]) -> bool {
        let files: HashSet<&str> = notes.iter().flat_map(|note| &note.files).map(String::as_str).collect();
        let last = notes.iter().map(|note| note.created_at).max().unwrap_or_default();
        let has_all = |commit: &&BranchCommit| {
            commit.committed_at >= last
                && files.iter().all(|file| commit.files.iter().any(|(changed, _)| changed == file))
        };
        !files.is_empty() && self.all.iter().any(|commit| has_all(&commit))
    }
}
