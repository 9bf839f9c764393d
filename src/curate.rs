//! From what somebody says to a memory: what is private goes, secrets go, and what cannot be kept is refused with advice.
//!
//! The worker and whoever writes without one do it with the same code. Knows nothing of HTTP or MCP.

use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::compress::redacted;
use crate::config::Capture;
use crate::context::line::one_line;
use crate::learn;
use crate::model::{Category, LearningDraft, Millis, ObservationDraft, ObservationType, SessionId};
use crate::privacy::redact::Redactor;
use crate::privacy::tags::PrivateTags;
use crate::project::Project;
use crate::search::answer;
use crate::store::StoreError;
use crate::store::curate::{self as store, Forgettable, Stated};
use crate::store::learnings;
use crate::store::memory::new_uid;
use crate::store::search::Kind;

/// More than this is a document, not a memory.
const MOST_CHARS: usize = 20_000;
/// More than this is a memory, not a learning: it stands in every context.
const MOST_LEARNING_CHARS: usize = learn::LONGEST;
/// What is longer than this is told in full in the detail, and in short in the summary.
const SHORT_CHARS: usize = 600;

/// Something that is to be remembered, as it comes over the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Statement {
    /// Makes a second arrival of the same one known; made here if it is missing.
    pub uid: String,
    /// What is to be remembered.
    pub text: String,
    /// What it is called; its beginning if missing.
    pub title: String,
    /// An observation's type; discovery if missing.
    #[serde(rename = "type")]
    pub kind: String,
    /// A learning's category, if it is a learning.
    pub learning: String,
    /// Whether the learning holds in every project.
    pub everywhere: bool,
    /// Files that it is about.
    pub files: Vec<String>,
    /// Words to find it by.
    pub concepts: Vec<String>,
    /// The project's name; that of `project_path` if missing.
    pub project: String,
    /// A directory of the project.
    pub project_path: String,
    /// The session in which it was said.
    pub session_id: String,
}

/// A statement that can be kept.
#[derive(Debug, Clone)]
pub enum Accepted {
    /// As an observation.
    Memory(Stated),
    /// As a learning.
    Learning {
        /// What it says.
        draft: LearningDraft,
        /// The project's name.
        project: String,
        /// The present.
        now: Millis,
    },
}

/// What a statement makes, or why it is not kept, as a sentence to act on.
pub fn accept(
    statement: Statement,
    capture: &Capture,
    user_home: Option<&Path>,
    now: Millis,
) -> Result<Accepted, String> {
    let place = Place::of(&statement, capture, user_home)?;
    let text = harmless(&statement.text);
    if text.is_empty() {
        return Err(if statement.text.trim().is_empty() {
            "text is empty: say what to remember".into()
        } else {
            "nothing is left of the text without what is private in it".into()
        });
    }
    let uid = if statement.uid.is_empty() { new_uid() } else { statement.uid.clone() };
    if statement.learning.is_empty() {
        let draft = draft(&statement, text)?;
        let session = Some(statement.session_id).filter(|id| !id.is_empty()).map(SessionId);
        let Place { project, path } = place;
        Ok(Accepted::Memory(Stated { uid, project, project_path: path, session, draft, now }))
    } else {
        let category = category(&statement.learning)?;
        bounded(&text, MOST_LEARNING_CHARS, "a learning is a sentence or two; save the rest as a memory")?;
        let draft =
            LearningDraft { everywhere: statement.everywhere, ..LearningDraft::new(category, &text, 1.0) };
        let draft = learn::cleaned(draft).ok_or("nothing is left of it to be known: say it as a sentence")?;
        Ok(Accepted::Learning { draft, project: place.project, now })
    }
}

/// Keeps it, and tells under which reference.
pub fn keep(database: &mut Connection, accepted: &Accepted) -> Result<Value, StoreError> {
    let (reference, title, known) = match accepted {
        Accepted::Memory(stated) => {
            let kept = store::save(database, stated)?;
            let title = stated.draft.title.clone().unwrap_or_default();
            (answer::reference(Kind::Observation, kept.id), title, kept.known)
        }
        Accepted::Learning { draft, project, now } => {
            let step = learn::weigh_by_hand(&learnings::known(database, project)?, draft.clone());
            let is_known = step.seen.is_some();
            let added = learnings::add(database, &step, project, *now)?.ok_or(StoreError::Gone)?;
            (format!("L{}", added.id), added.content, is_known)
        }
    };
    Ok(json!({"ref": reference, "title": title, "known": known}))
}

/// What a reference to forget refers to: `12` is an observation, `L12` a learning.
pub fn forgettable(reference: &str) -> Result<Forgettable, String> {
    let word = reference.trim().trim_start_matches('#');
    if let Some(digits) = word.strip_prefix(['L', 'l']) {
        let id = digits.parse().ok().filter(|id| *id > 0);
        return id.map(Forgettable::Learning).ok_or_else(|| format!("'{reference}' is no id"));
    }
    match answer::referred(word) {
        Some((Kind::Observation, id)) => Ok(Forgettable::Observation(id)),
        Some(_) => Err(format!(
            "{reference} is a summary or a prompt: only observations (12) and learnings (L12) can be forgotten singly"
        )),
        None => Err(format!("'{reference}' is no id: they look like 12, or L12 for a learning")),
    }
}

/// Forgets something, or brings it back.
pub fn forget(
    database: &mut Connection,
    what: Forgettable,
    undo: bool,
    now: Millis,
) -> Result<Option<Value>, StoreError> {
    let outcome =
        if undo { store::restore(database, what, now)? } else { store::forget(database, what, now)? };
    let reference = match what {
        Forgettable::Observation(id) => id.to_string(),
        Forgettable::Learning(id) => format!("L{id}"),
    };
    Ok(outcome.map(|outcome| json!({"ref": reference, "title": outcome.title, "changed": outcome.changed})))
}

/// The project that a statement is about.
struct Place {
    project: String,
    path: String,
}

impl Place {
    fn of(statement: &Statement, capture: &Capture, user_home: Option<&Path>) -> Result<Self, String> {
        if statement.project_path.is_empty() {
            if statement.project.is_empty() {
                return Err("project or project_path must say what it is about".into());
            }
            return Ok(Self { project: statement.project.clone(), path: String::new() });
        }
        let found = Project::of(Path::new(&statement.project_path), capture);
        if !statement.project.is_empty() && statement.project != found.name {
            return Ok(Self { project: statement.project.clone(), path: String::new() });
        }
        if found.is_excluded(capture, user_home) {
            return Err(format!(
                "the project {} is excluded from memory (capture.exclude_projects, or a .claude-mem-off file), so \
                 nothing is kept",
                found.name
            ));
        }
        Ok(Self { project: found.name, path: found.path.to_string_lossy().into_owned() })
    }
}

fn draft(statement: &Statement, text: String) -> Result<ObservationDraft, String> {
    bounded(&text, MOST_CHARS, "say the essence, and where the rest is")?;
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

/// Without what is private and without secrets.
fn harmless(text: &str) -> String {
    let stripped = PrivateTags::default().strip(text).into_owned();
    Redactor::new().redact(stripped.trim()).into_string().trim().replace('\0', "")
}

fn bounded(text: &str, most: usize, advice: &str) -> Result<(), String> {
    let count = text.chars().count();
    if count > most {
        return Err(format!("the text has {count} characters, and {most} are the most: {advice}"));
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
        format!("type: '{word}' is none of {words}")
    })
}

fn category(word: &str) -> Result<Category, String> {
    Category::from_word(word).ok_or_else(|| {
        format!("learning: '{word}' is none of {}", Category::ALL.map(Category::as_str).join(", "))
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
            Ok(Accepted::Memory(stated)) => stated.draft,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_private_and_no_secret_is_kept_in_any_field() {
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
    fn a_title_is_made_of_the_first_sentence() {
        let draft = memory(of_text("We dropped the token cache. It raced with logout.\nMore."));
        assert_eq!(draft.title.as_deref(), Some("We dropped the token cache"));
        assert_eq!(
            draft.summary.as_deref(),
            Some("We dropped the token cache. It raced with logout.\nMore.")
        );
        assert_eq!(memory(of_text("Short")).summary, None, "what the title says is not said twice");
        let long = memory(of_text(&"many words ".repeat(100)));
        assert!(long.detail.is_some_and(|detail| detail.len() > 1000));
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_advice() {
        let learning = |text: &str, category: &str| Statement { learning: category.into(), ..of_text(text) };
        let nowhere = Statement { text: "x".into(), ..Statement::default() };
        let odd = Statement { kind: "bug".into(), ..of_text("x") };
        let cases = [
            (of_text("  "), "empty"),
            (of_text("<private>all of it"), "private"),
            (of_text(&"x".repeat(MOST_CHARS + 1)), "essence"),
            (learning(&"x".repeat(MOST_LEARNING_CHARS + 1), "gotcha"), "memory"),
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
    fn an_excluded_project_keeps_nothing() {
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
