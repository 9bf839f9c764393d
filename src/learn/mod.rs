//! Durable knowledge of a project: drawn by rules from prompts and commands, and compared with the known learnings.
//!
//! Three kinds come by rule: rules that the user states in a prompt, commands that several sessions check the project
//! with, and repairs of failures that several sessions met. Precision comes first: a missed rule is stated again, a wrong
//! one misleads every later session. Independent of SQL and of models; a model's learnings are weighed here as well.

mod by_model;
mod chinese;
mod commands;
mod english;
mod equivalence;
mod german;
mod japanese;
mod rules;
mod sentences;
#[cfg(test)]
mod tests;
mod weigh;

use crate::model::{Category, LearningDraft};
use crate::privacy::redact::Redactor;
use crate::privacy::tags::PrivateTags;

pub use by_model::{KnownList, by_model};
pub use commands::{CheckKind, Run, TurnStep, sightings};
pub use equivalence::{contradicts, includes, is_filler, is_negated, is_same, restates};
pub use weigh::{weigh, weigh_by_hand};

/// Lowest confidence of a learning that new sessions see.
pub const SHOWN_FROM: f64 = 0.5;

/// Initial confidence of a rule that the user states.
mod confidence {
    /// "Never …", "from now on …".
    pub(super) const RULE: f64 = 0.7;
    /// "We use …", "no, use this, not that".
    pub(super) const CUSTOM: f64 = 0.6;
}

/// Initial confidence of a model's learning: hidden until a second session confirms it.
pub const BY_MODEL: f64 = 0.4;

/// Maximum learnings from one turn. More is a pasted guide.
pub const MOST_PER_TURN: usize = 6;

/// Maximum length of a learning, in characters.
pub const LONGEST: usize = 240;

/// Returns the lasting rules that the user states in a prompt, without secrets, each once.
pub fn from_prompt(prompt: &str) -> Vec<LearningDraft> {
    let mut kept: Vec<LearningDraft> = Vec::new();
    for draft in rules::stated(prompt).into_iter().filter_map(cleaned) {
        if kept.len() < MOST_PER_TURN && !kept.iter().any(|known| is_same(&known.content, &draft.content)) {
            kept.push(draft);
        }
    }
    kept
}

/// Returns the draft on one line, without private passages and secrets; none if no words are left.
pub fn cleaned(mut draft: LearningDraft) -> Option<LearningDraft> {
    let public = PrivateTags::default().strip(&draft.content).into_owned();
    let redacted = Redactor::new().redact(&public).into_string();
    let words: Vec<&str> = redacted.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|char| !char.is_control()).collect();
    draft.content = match line.char_indices().nth(LONGEST) {
        None => line,
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    };
    draft.content.chars().any(char::is_alphanumeric).then_some(draft)
}

/// Category words, in order of precedence.
const CATEGORIES: [(Category, &str); 4] = [
    (
        Category::Preference,
        "i prefer|i like|i want|reply in|answer in|respond in|ich bevorzuge|antworte|偏好|回答",
    ),
    (Category::Dependency, "depends on|dependency|package version|pinned to"),
    (Category::Gotcha, "fails|broken|beware|careful|breaks|workaround|deadlock|flaky"),
    (
        Category::Convention,
        "always|never|use |don't|do not|avoid|must|immer|nie|verwende|不要|必须|始终|必ず|常に",
    ),
];

/// Guesses the category of a sentence from its words.
pub fn category_of(content: &str) -> Category {
    let text = content.to_lowercase();
    let has = |words: &'static str| each(words).any(|word| text.contains(word));
    let is_command =
        text.starts_with("run ") || (text.contains('`') && has("run |command|tests with|build with"));
    match CATEGORIES.iter().find(|(_, words)| has(words)) {
        Some((Category::Convention, _)) | None if is_command => Category::Command,
        Some((category, _)) => *category,
        None => Category::Architecture,
    }
}

/// Splits a list of phrases that is written as one text, `a|b c|d`.
fn each(list: &'static str) -> std::str::Split<'static, char> {
    list.split('|')
}
