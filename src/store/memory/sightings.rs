//! Sightings: commands and repairs that sessions have in common. The third session turns one into a
//! learning.

use rusqlite::{Connection, Transaction, params};

use super::learnings::{self, Learning, LearningDecision, LearningState, Occasion};
use crate::model::{Category, LearningDraft};
use crate::store::StoreError;

/// Number of sessions that must have it.
const NEEDED: i64 = 3;

/// Initial confidence of a learning seen in exactly `NEEDED` sessions.
const CONFIDENCE: f64 = 0.5;

/// The kind of a sighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SightingKind {
    /// A command that checks the project.
    Command,
    /// A command that repaired a failure.
    Repair,
}

impl SightingKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Repair => "repair",
        }
    }

    /// Maximum learnings of one group: two ways to run the tests are enough, and one repair of a failure.
    fn most(self) -> i64 {
        match self {
            Self::Command => 2,
            Self::Repair => 1,
        }
    }
}

/// An action of a turn that other sessions may repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The kind.
    pub kind: SightingKind,
    /// The sentence of the learning that it becomes. Ends with the command in backquotes.
    pub subject: String,
    /// The events that contain it.
    pub sources: Vec<i64>,
    /// True if the command certainly succeeded. Uncertain ones count, but teach nothing by
    /// themselves: behind a pipe, a command that always fails looks like one that works.
    pub is_certain: bool,
}

impl Sighting {
    /// The sentence up to its last command. Sightings with the same beginning serve the same purpose.
    fn group(&self) -> &str {
        let open = self.subject.trim_end_matches('`').rfind('`');
        open.map_or(self.subject.as_str(), |open| &self.subject[..=open])
    }
}

/// Records the sightings of a session, and turns those that enough sessions had into learnings.
pub(in crate::store) fn record(
    transaction: &Transaction<'_>,
    sightings: &[Sighting],
    occasion: Occasion<'_>,
) -> Result<(), StoreError> {
    let Some(session) = occasion.session else { return Ok(()) };
    let sql = "INSERT OR IGNORE INTO sightings (project, kind, subject, session_id, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    for sighting in sightings {
        let row = params![
            occasion.project,
            sighting.kind.as_str(),
            sighting.subject,
            session.as_str(),
            occasion.now
        ];
        // A session counts once.
        let is_new = transaction.prepare_cached(sql)?.execute(row)? > 0;
        if is_new || sighting.is_certain {
            let evidence = learnings::evidence(transaction, &sighting.sources)?.or(occasion.evidence);
            learn(transaction, sighting, Occasion { evidence, ..occasion }, is_new)?;
        }
    }
    Ok(())
}

/// Stores the sighting as a learning if it is among the most frequent of its group, and supersedes
/// the learnings that no longer are.
fn learn(
    transaction: &Transaction<'_>,
    sighting: &Sighting,
    occasion: Occasion<'_>,
    is_new: bool,
) -> Result<(), StoreError> {
    let best = most_frequent(transaction, sighting, occasion.project)?;
    let sessions =
        best.iter().find(|(subject, _)| *subject == sighting.subject).map(|(_, sessions)| *sessions);
    let known = learned(transaction, sighting, occasion.project)?;
    let seen = known.iter().find(|known| known.content == sighting.subject);
    match seen.map(Learning::standing) {
        Some(LearningState::Forgotten) => return Ok(()),
        // Still in use, even if its old sightings are gone.
        Some(LearningState::Active) if is_new => {}
        Some(LearningState::Superseded) | None if sessions.is_some() && sighting.is_certain => {}
        _ => return Ok(()),
    }
    let is_outdated = |known: &&Learning| {
        known.is_active
            && known.confidence < 1.0
            && !best.iter().any(|(subject, _)| *subject == known.content)
    };
    let mut draft = LearningDraft::new(Category::Command, sighting.subject.as_str(), CONFIDENCE);
    draft.sources.clone_from(&sighting.sources);
    let supersedes =
        known.iter().filter(|_| sessions.is_some()).filter(is_outdated).map(|known| known.id).collect();
    let step = LearningDecision { draft, seen: seen.map(|known| known.id), supersedes };
    let id = match learnings::take(transaction, &step, occasion) {
        Err(StoreError::Vetoed) => return Ok(()),
        taken => taken?,
    };
    match sessions {
        Some(sessions) if seen.is_none() => learnings::credit(transaction, id, sessions, sessions - NEEDED),
        _ => Ok(()),
    }
}

/// Returns the most frequent subjects of a group that enough sessions had, with the number of
/// sessions. Other subjects count only if they are learnings: one that never certainly succeeded
/// replaces nothing.
fn most_frequent(
    database: &Connection,
    sighting: &Sighting,
    project: &str,
) -> Result<Vec<(String, i64)>, StoreError> {
    let sql = "SELECT subject, count(*) AS sessions FROM sightings
               WHERE project = ?1 AND kind = ?2 AND substr(subject, 1, length(?3)) = ?3
                 AND (subject = ?6 OR subject IN (SELECT content FROM learnings WHERE project = ?1 AND is_active = 1))
               GROUP BY subject HAVING sessions >= ?4 ORDER BY sessions DESC, min(created_at) LIMIT ?5";
    let mut statement = database.prepare_cached(sql)?;
    let parameters = params![
        project,
        sighting.kind.as_str(),
        sighting.group(),
        NEEDED,
        sighting.kind.most(),
        sighting.subject
    ];
    let rows = statement.query_map(parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the learnings made of sightings of the same group, active ones first.
fn learned(database: &Connection, sighting: &Sighting, project: &str) -> Result<Vec<Learning>, StoreError> {
    let sql = "SELECT DISTINCT l.id, l.is_active FROM learnings l
               JOIN sightings s ON s.project = l.project AND s.kind = ?2 AND s.subject = l.content
               WHERE l.project = ?1 AND substr(l.content, 1, length(?3)) = ?3 ORDER BY l.is_active DESC, l.id DESC";
    let mut statement = database.prepare_cached(sql)?;
    let parameters = params![project, sighting.kind.as_str(), sighting.group()];
    let ids = statement.query_map(parameters, |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    ids.into_iter().filter_map(|id| learnings::get(database, id).transpose()).collect()
}

/// Drops sightings from before a time, a limited number at once. True if there may be more.
pub fn drop_old(database: &Connection, before: i64, limit: i64) -> Result<bool, StoreError> {
    let sql = "DELETE FROM sightings WHERE (project, kind, subject, session_id) IN (
                 SELECT project, kind, subject, session_id FROM sightings WHERE created_at < ?1 LIMIT ?2)";
    let dropped = database.prepare_cached(sql)?.execute([before, limit])?;
    Ok(i64::try_from(dropped).unwrap_or_default() == limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;
    use crate::paths::Home;

    struct Database(Connection, #[allow(dead_code, reason = "deleted when dropped")] tempfile::TempDir);

    impl Database {
        fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            Self(crate::store::open_for_worker(&Home::at(scratch.path()), 0).unwrap(), scratch)
        }

        fn record(&mut self, session: &str, subject: &str, is_certain: bool, now: i64) {
            let sql = "INSERT OR IGNORE INTO sessions (id, project, started_at, last_activity_at) VALUES (?1, 'p', 1, 1)";
            self.0.execute(sql, [session]).unwrap();
            let kind = if subject.contains(" fails ") { SightingKind::Repair } else { SightingKind::Command };
            let sighting = Sighting { kind, subject: subject.into(), sources: Vec::new(), is_certain };
            let session = SessionId(session.to_owned());
            let transaction = self.0.transaction().unwrap();
            let occasion = Occasion { session: Some(&session), project: "p", evidence: None, now };
            record(&transaction, &[sighting], occasion).unwrap();
            transaction.commit().unwrap();
        }

        /// Active learnings: confidence in hundredths, sessions, sentence.
        fn learnings(&self) -> Vec<String> {
            let sql = "SELECT cast(round(confidence * 100) AS INTEGER) || ' ' || times_seen || ' ' || content
                       FROM learnings WHERE is_active ORDER BY id";
            let mut statement = self.0.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        }
    }

    const TESTS: &str = "Run the tests with `make test`";

    #[test]
    fn third_session_makes_a_learning() {
        let mut database = Database::new();
        for session in ["a", "a", "b", "b", "a"] {
            database.record(session, TESTS, true, 1);
        }
        assert_eq!(database.learnings(), [""; 0]);
        database.record("c", TESTS, true, 2);
        assert_eq!(database.learnings(), ["50 3 Run the tests with `make test`"]);
        database.record("c", TESTS, true, 3);
        database.record("d", TESTS, false, 4);
        assert_eq!(database.learnings(), ["61 4 Run the tests with `make test`"]);
    }

    #[test]
    fn only_a_success_teaches() {
        let mut database = Database::new();
        for session in ["a", "b", "c", "d"] {
            database.record(session, TESTS, false, 1);
        }
        for session in ["a", "b", "c"] {
            database.record(session, "Run the tests with `just test`", true, 2);
            database.record(session, "Run the tests with `just quick`", true, 2);
        }
        assert_eq!(database.learnings().len(), 2, "an uncertain command replaces nothing");
        database.record("d", TESTS, true, 3);
        assert_eq!(database.learnings()[1], "61 4 Run the tests with `make test`");
    }

    #[test]
    fn most_frequent_of_a_purpose_are_kept() {
        let mut database = Database::new();
        let mut sight = |subject: &str, sessions: std::ops::Range<u8>| {
            sessions
                .for_each(|session| database.record(&session.to_string(), subject, true, i64::from(session)));
        };
        sight(TESTS, 0..3);
        sight("Run the tests with `just test`", 0..4);
        sight("Lint with `make lint`", 0..3);
        sight("Run the tests with `cargo test`", 0..5);
        sight("`a x` fails with \"e\": run `b x`", 0..3);
        sight("`a x` fails with \"e\": run `c x`", 0..4);
        let contents: Vec<String> =
            database.learnings().iter().map(|line| line.splitn(3, ' ').nth(2).unwrap().to_owned()).collect();
        let expected = [
            "Run the tests with `just test`",
            "Lint with `make lint`",
            "Run the tests with `cargo test`",
            "`a x` fails with \"e\": run `c x`",
        ];
        assert_eq!(contents, expected);
    }

    #[test]
    fn a_forgotten_command_does_not_come_back() {
        let mut database = Database::new();
        ["a", "b", "c"].iter().for_each(|session| database.record(session, TESTS, true, 1));
        assert!(learnings::forget(&database.0, 1, 2).unwrap());
        ["d", "e"].iter().for_each(|session| database.record(session, TESTS, true, 3));
        assert_eq!(database.learnings(), [""; 0]);
    }

    #[test]
    fn old_sightings_are_dropped() {
        let mut database = Database::new();
        for (session, now) in [("a", 10), ("b", 20), ("c", 30)] {
            database.record(session, TESTS, true, now);
        }
        let count = |database: &Database| -> i64 {
            database.0.query_row("SELECT count(*) FROM sightings", [], |row| row.get(0)).unwrap()
        };
        assert!(drop_old(&database.0, 30, 1).unwrap(), "there is more");
        assert!(!drop_old(&database.0, 30, 5).unwrap());
        assert_eq!(count(&database), 1);
        database.0.execute("DELETE FROM sessions WHERE id = 'c'", []).unwrap();
        assert_eq!(count(&database), 0);
        database.record("d", TESTS, true, 40);
        assert_eq!(database.learnings(), ["61 4 Run the tests with `make test`"], "it is still in use");
    }
}
