//! Saving and deleting memories by hand: strips private parts, redacts secrets, and rejects
//! unusable input with advice.
//!
//! Shared by the worker and by callers that write without one. Independent of HTTP and MCP.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::anchors::WorkingTree;
use crate::api::{Changed, EditRequest, Saved, Statement, Veto};
use crate::compress::redacted;
use crate::config::CaptureSettings;
use crate::learn;
use crate::model::{Category, LearningDraft, Millis, ObservationDraft, ObservationType, SessionId};
use crate::privacy::redact::Redactor;
use crate::privacy::tags::PrivateTags;
use crate::project::{Project, worktree_root};
use crate::responses;
use crate::store::corrections::{Amendment, vetoes};
use crate::store::index::search::Kind;
use crate::store::memory::anchors::{self, Anchor};
use crate::store::memory::manual::{ChangeOutcome, Forgettable, Stated};
use crate::store::memory::{learnings, manual as store, new_uid};
use crate::store::{StoreError, browse, projects};
use crate::text::line::one_line;

/// Maximum length of a memory; a longer text is a document.
const MAX_CHARS: usize = 20_000;
/// Maximum length of a learning, because it is in every context; a longer text is a memory.
const MAX_LEARNING_CHARS: usize = learn::LONGEST;
/// Longer texts go into the detail, with a shortened summary.
const SHORT_CHARS: usize = 600;

/// Confidence in a learning that an agent states: high enough to be shown, fading unless sessions
/// confirm it.
const BY_AGENT: f64 = 0.7;
const EVERYWHERE: &str =
    "only the user can add a learning for every project: `claude-mem learn add --everywhere`";

/// A validated statement.
#[derive(Debug, Clone)]
pub struct Accepted {
    about: About,
    what: StoredStatement,
}

#[derive(Debug, Clone)]
enum StoredStatement {
    /// As an observation; its project is resolved when it is stored.
    Memory(Box<Stated>),
    /// As a learning.
    Learning { draft: LearningDraft, now: Millis },
}

/// Validates a statement. The error is a sentence to act on.
pub fn accept(
    statement: Statement,
    capture: &CaptureSettings,
    user_home: Option<&Path>,
    now: Millis,
) -> Result<Accepted, String> {
    let about = About::of(&statement, capture, user_home)?;
    let text = harmless(&statement.text);
    if text.is_empty() {
        return Err(if statement.text.trim().is_empty() {
            "text is empty; pass the text to remember".into()
        } else {
            "nothing is left of the text after its private parts were removed".into()
        });
    }
    let uid = if statement.uid.is_empty() { new_uid() } else { statement.uid.clone() };
    if statement.learning.is_empty() {
        let draft = draft(&statement, text)?;
        let session = Some(statement.session_id).filter(|id| !id.is_empty()).map(SessionId);
        Ok(Accepted {
            about,
            what: StoredStatement::Memory(Box::new(Stated { uid, session, draft, now, ..Stated::default() })),
        })
    } else {
        let category = category(&statement.learning)?;
        bounded(&text, MAX_LEARNING_CHARS, "a learning is one or two sentences; save the rest as a memory")?;
        if statement.by_agent && statement.everywhere {
            return Err(EVERYWHERE.into());
        }
        let confidence = if statement.by_agent { BY_AGENT } else { 1.0 };
        let draft = LearningDraft {
            everywhere: statement.everywhere,
            ..LearningDraft::new(category, &text, confidence)
        };
        let draft = learn::cleaned(draft)
            .ok_or("nothing is left of the text after clean-up; state it as a sentence")?;
        Ok(Accepted { about, what: StoredStatement::Learning { draft, now } })
    }
}

/// Stores it and returns its reference.
pub fn keep(database: &mut Connection, accepted: &Accepted) -> Result<Saved, StoreError> {
    let (project_key, project, project_path) = accepted.about.settle(database)?;
    let (reference, title, known) = match &accepted.what {
        StoredStatement::Memory(stated) => {
            let stated = Stated { project_key, project, project_path, ..(**stated).clone() };
            let kept = store::save(database, &stated)?;
            let title = stated.draft.title.clone().unwrap_or_default();
            (responses::reference(Kind::Observation, kept.id), title, kept.known)
        }
        StoredStatement::Learning { draft, now } => {
            let known = learnings::known(database, &project)?;
            let step = if draft.confidence >= 1.0 {
                learn::weigh_by_hand(&known, draft.clone())
            } else {
                // An agent must not restore a learning that the user forgot.
                let Some(step) = learn::weigh(&known, vec![draft.clone()]).pop() else {
                    return Ok(Saved { title: draft.content.clone(), known: true, ..Saved::default() });
                };
                step
            };
            let is_known = step.seen.is_some();
            let added = learnings::add(database, &step, &project, *now)?.ok_or(StoreError::Gone)?;
            (format!("L{}", added.id), added.content, is_known)
        }
    };
    Ok(Saved { reference, title, known })
}

/// Cleans the text of an edit, as that of a new memory. The error is a sentence to act on.
pub fn amendment(request: EditRequest) -> Result<Amendment, String> {
    let clean = |text: Option<String>| text.map(|text| harmless(&text));
    let amendment = Amendment {
        title: clean(request.title).map(|title| one_line(&title, 200)),
        summary: clean(request.summary),
        detail: clean(request.detail),
        facts: request
            .facts
            .map(|facts| facts.iter().map(|fact| harmless(fact)).filter(|fact| !fact.is_empty()).collect()),
    };
    for text in [&amendment.title, &amendment.summary, &amendment.detail].into_iter().flatten() {
        bounded(text, MAX_CHARS, "keep the essence, and where to find the rest")?;
    }
    if amendment.title.as_deref() == Some("") {
        return Err("the title is empty; a memory needs one".into());
    }
    Ok(amendment)
}

/// Parses a reference to forget: `12` is an observation, `L12` a learning.
pub fn forgettable(reference: &str) -> Result<Forgettable, String> {
    let word = reference.trim().trim_start_matches('#');
    if let Some(digits) = word.strip_prefix(['L', 'l']) {
        let id = digits.parse().ok().filter(|id| *id > 0);
        return id.map(Forgettable::Learning).ok_or_else(|| format!("'{reference}' is not an id"));
    }
    match responses::referred(word) {
        Some((Kind::Observation, id)) => Ok(Forgettable::Observation(id)),
        Some(_) => Err(format!(
            "{reference} is a summary or a prompt; only observations (12) and learnings (L12) can be forgotten one by one"
        )),
        None => Err(format!("'{reference}' is not an id; ids look like 12, or L12 for a learning")),
    }
}

/// Forgets a memory, or restores it. With `within`, only a learning of that project: others, and those that hold everywhere,
/// count as missing.
pub fn forget(
    database: &mut Connection,
    what: Forgettable,
    undo: bool,
    within: Option<&str>,
    now: Millis,
) -> Result<Option<Changed>, StoreError> {
    if let (Forgettable::Learning(id), Some(project)) = (what, within) {
        let learning = learnings::get(database, id)?;
        if learning.is_none_or(|learning| learning.project.as_deref() != Some(project)) {
            return Ok(None);
        }
    }
    let outcome =
        if undo { store::restore(database, what, now)? } else { store::forget(database, what, now)? };
    let reference = match what {
        Forgettable::Observation(id) => id.to_string(),
        Forgettable::Learning(id) => format!("L{id}"),
    };
    Ok(outcome.map(|outcome| Changed { reference, title: outcome.title, changed: outcome.changed }))
}

/// The statements of a memory, with their project: title and summary of a note, the text of a learning.
pub fn statements(database: &Connection, memory: Forgettable) -> Result<Vec<(String, String)>, StoreError> {
    match memory {
        Forgettable::Observation(id) => {
            let Some(note) = browse::note(database, id)?.map(|found| found.note) else {
                return Ok(Vec::new());
            };
            let texts = [note.title, note.summary].into_iter().flatten();
            let texts = texts.filter(|text| !text.trim().is_empty());
            Ok(texts.map(|text| (note.project.clone(), text)).collect())
        }
        Forgettable::Learning(id) => {
            let found = learnings::get(database, id)?;
            Ok(found
                .map(|learning| (learning.project.unwrap_or_default(), learning.content))
                .into_iter()
                .collect())
        }
    }
}

/// Vetoes the statements of a memory. Returns the vetoes; none if there is no such memory.
pub fn veto(database: &mut Connection, memory: Forgettable, now: Millis) -> Result<Vec<Veto>, StoreError> {
    let found = statements(database, memory)?.into_iter();
    found.map(|(project, statement)| vetoes::add(database, project, statement, None, now)).collect()
}

/// A stale note that the user confirms: from now on it is compared with the code as it is now.
#[derive(Debug)]
pub struct Confirmation {
    id: i64,
    title: String,
    /// The worktree of its session, or the main one if that is gone.
    pub root: PathBuf,
    anchors: Vec<Anchor>,
    is_changed: bool,
}

impl Confirmation {
    /// Reads the note; `None` if there is none.
    pub fn of(database: &Connection, id: i64) -> Result<Option<Self>, StoreError> {
        let Some((title, project_path, cwd)) = store::place_of(database, id)? else { return Ok(None) };
        let path = PathBuf::from(project_path);
        let root = worktree_root(Path::new(&cwd), &path).unwrap_or(path);
        Ok(Some(Self { id, title, root, anchors: anchors::of_note(database, id)?, is_changed: false }))
    }

    /// Takes the anchors again from the tree at `root`; `is_complete` if its renames are known. Reads files.
    pub fn retake(&mut self, (tree, is_complete): (WorkingTree, bool)) {
        let taken = tree.taken_again(&self.anchors, is_complete);
        self.is_changed |= taken != self.anchors;
        self.anchors = taken;
    }

    /// Stores the anchors.
    pub fn store(self, database: &mut Connection) -> Result<ChangeOutcome, StoreError> {
        let transaction = database.transaction()?;
        anchors::replace(&transaction, self.id, &self.anchors)?;
        transaction.commit()?;
        Ok(ChangeOutcome { title: self.title, changed: self.is_changed })
    }
}

/// The project of a statement: the named one, else that of its directory.
#[derive(Debug, Clone)]
struct About {
    named: String,
    place: Option<Project>,
}

impl About {
    fn of(
        statement: &Statement,
        capture: &CaptureSettings,
        user_home: Option<&Path>,
    ) -> Result<Self, String> {
        let named = statement.project.clone();
        if statement.project_path.is_empty() {
            if named.is_empty() {
                return Err("set project or project_path".into());
            }
            return Ok(Self { named, place: None });
        }
        let place = Project::of(Path::new(&statement.project_path), capture);
        // A given name that ends with the folder's name may be its disambiguated form.
        if (named.is_empty() || named.ends_with(&place.name)) && place.is_excluded(capture, user_home) {
            return Err(format!(
                "the project {} is excluded (capture.exclude_projects, or a .claude-mem-off file), so \
                 nothing was saved",
                place.name
            ));
        }
        Ok(Self { named, place: Some(place) })
    }

    /// Returns the project's key, name and path. A named project other than the directory's has
    /// only a name.
    fn settle(&self, database: &mut Connection) -> Result<(String, String, String), StoreError> {
        if let Some(place) = &self.place {
            let is_here = self.named.is_empty() || self.named == projects::name_of(database, place)?;
            if is_here {
                let name = projects::settle(database, place)?;
                return Ok((place.key.clone(), name, place.path.to_string_lossy().into_owned()));
            }
        }
        Ok((String::new(), self.named.clone(), String::new()))
    }
}

fn draft(statement: &Statement, text: String) -> Result<ObservationDraft, String> {
    bounded(&text, MAX_CHARS, "save the essence, and where to find the rest")?;
    let kind = if statement.kind.is_empty() { ObservationType::Discovery } else { kind(&statement.kind)? };
    let title = harmless(&statement.title);
    let title = one_line(if title.is_empty() { first_sentence(&text) } else { &title }, 100);
    let is_long = text.chars().nth(SHORT_CHARS).is_some();
    let (summary, detail) = if is_long {
        (Some(one_line(&text, SHORT_CHARS / 2)), Some(text))
    } else {
        ((text != title).then_some(text), None)
    };
    let list = |items: &[String]| {
        items.iter().map(|item| harmless(item)).filter(|item| !item.is_empty()).take(50).collect()
    };
    let draft = ObservationDraft {
        kind,
        title: Some(title),
        summary,
        detail,
        concepts: list(&statement.concepts),
        files_modified: list(&statement.files),
        ..ObservationDraft::default()
    };
    Ok(redacted::observation(draft))
}

/// Removes private parts and redacts secrets.
fn harmless(text: &str) -> String {
    let stripped = PrivateTags::default().strip(text).into_owned();
    Redactor::new().redact(stripped.trim()).into_string().trim().replace('\0', "")
}

fn bounded(text: &str, most: usize, advice: &str) -> Result<(), String> {
    let count = text.chars().count();
    if count > most {
        return Err(format!("the text has {count} characters, but at most {most} are allowed: {advice}"));
    }
    Ok(())
}

fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let end = [". ", "! ", "? ", "。"].iter().filter_map(|mark| line.find(mark)).min();
    end.map_or(line, |end| &line[..end])
}

fn kind(word: &str) -> Result<ObservationType, String> {
    let known = ObservationType::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(word.trim()));
    known.ok_or_else(|| {
        let words = ObservationType::ALL.map(ObservationType::as_str).join(", ");
        format!("unknown type '{word}'; expected one of {words}")
    })
}

fn category(word: &str) -> Result<Category, String> {
    Category::from_word(word).ok_or_else(|| {
        format!(
            "unknown learning category '{word}'; expected one of {}",
            Category::ALL.map(Category::as_str).join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn of_text(text: &str) -> Statement {
        Statement { text: text.into(), project: "harborline".into(), ..Statement::default() }
    }

    fn accepted(statement: Statement) -> Result<Accepted, String> {
        accept(statement, &Config::default().capture, None, 5)
    }

    fn memory(statement: Statement) -> ObservationDraft {
        match accepted(statement) {
            Ok(Accepted { what: StoredStatement::Memory(stated), .. }) => stated.draft,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn private_parts_and_secrets_are_removed_from_all_fields() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let words = format!("Deploy with {secret} <private>the door code is 4711</private> on Mondays");
        let statement = Statement {
            title: words.clone(),
            files: vec![words.clone()],
            concepts: vec![words.clone()],
            ..of_text(&words)
        };
        let kept = format!("{:?}", memory(statement.clone()));
        assert!(kept.contains("Deploy with") && kept.contains("on Mondays"), "{kept}");
        assert!(!kept.contains(secret) && !kept.contains("4711"), "{kept}");
        let learning = accepted(Statement { learning: "command".into(), ..statement }).unwrap();
        let kept = format!("{learning:?}");
        assert!(!kept.contains(secret) && !kept.contains("4711"), "{kept}");
    }

    #[test]
    fn title_defaults_to_the_first_sentence() {
        let draft = memory(of_text("We dropped the token cache. It raced with logout.\nMore."));
        assert_eq!(draft.title.as_deref(), Some("We dropped the token cache"));
        assert_eq!(
            draft.summary.as_deref(),
            Some("We dropped the token cache. It raced with logout.\nMore.")
        );
        assert_eq!(memory(of_text("Short")).summary, None, "the summary does not repeat the title");
        let long = memory(of_text(&"many words ".repeat(100)));
        assert!(long.detail.is_some_and(|detail| detail.len() > 1000));
    }

    #[test]
    fn invalid_statements_are_refused_with_advice() {
        let learning = |text: &str, category: &str| Statement { learning: category.into(), ..of_text(text) };
        let nowhere = Statement { text: "x".into(), ..Statement::default() };
        let odd = Statement { kind: "bug".into(), ..of_text("x") };
        let cases = [
            (of_text("  "), "empty"),
            (of_text("<private>all of it"), "private"),
            (of_text(&"x".repeat(MAX_CHARS + 1)), "essence"),
            (learning(&"x".repeat(MAX_LEARNING_CHARS + 1), "gotcha"), "memory"),
            (learning("x", "rule"), "architecture, convention"),
            (odd, "bugfix, feature"),
            (nowhere, "project"),
        ];
        for (statement, word) in cases {
            let refusal = accepted(statement).unwrap_err();
            assert!(refusal.contains(word), "{refusal}");
        }
    }

    #[test]
    fn excluded_project_saves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join(crate::project::OFF_FILE), "").unwrap();
        let here = Statement {
            project: String::new(),
            project_path: scratch.path().to_string_lossy().into(),
            ..of_text("x")
        };
        assert!(accepted(here).unwrap_err().contains("excluded"));
    }

    #[test]
    fn observations_and_learnings_can_be_forgotten() {
        assert_eq!(forgettable("#12"), Ok(Forgettable::Observation(12)));
        assert_eq!(forgettable(" l3 "), Ok(Forgettable::Learning(3)));
        for wrong in ["S12", "P1", "", "L", "L-1", "twelve"] {
            assert!(forgettable(wrong).is_err(), "{wrong}");
        }
    }
}
