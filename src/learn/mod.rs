//! Durable knowledge of a project: what is drawn from a turn by rules, and how it relates to what is known.
//!
//! Rules look at what the user said and at what commands did. They would rather learn nothing than something wrong: a
//! sentence counts only if it is plainly an instruction that outlives its task. Knows nothing of SQL or of models; whoever
//! has a model asks it for more (`compress::prompt`), and what it answers is weighed here all the same.

mod chinese;
mod commands;
mod english;
mod german;
mod japanese;
mod meaning;
mod said;
mod sentences;
#[cfg(test)]
mod tests;
mod weigh;

use crate::compress::turn::Turn;
use crate::model::{Category, LearningDraft};
use crate::privacy::redact::Redactor;
use crate::privacy::tags::PrivateTags;

pub use meaning::{contradicts, includes, is_same, restates};
pub use weigh::{weigh, weigh_by_hand};

/// From this confidence on a learning is told to new sessions. What was seen only once, and says little by itself, starts
/// below it.
pub const TOLD_FROM: f64 = 0.5;

/// How sure something is when it is first learnt.
mod sure {
    /// "Never …", "from now on …".
    pub(super) const RULE: f64 = 0.7;
    /// "No, use …".
    pub(super) const CORRECTION: f64 = 0.6;
    /// A command that worked where another did not; "use this, not that".
    pub(super) const SHOWN: f64 = 0.5;
    /// What may concern the task at hand alone.
    pub(super) const HEARD: f64 = 0.4;
    /// What was merely done; the third session that does it makes it known.
    pub(super) const DONE: f64 = 0.3;
}

/// How sure something is that a model wrote down.
pub const BY_MODEL: f64 = 0.6;

/// The most that one turn teaches.
pub const MOST_OF_A_TURN: usize = 6;

/// The longest that is kept, in characters.
pub const LONGEST: usize = 240;

/// What a turn teaches by rules, without secrets.
pub fn from_turn(turn: &Turn) -> Vec<LearningDraft> {
    let mut drafts = turn.request().map(said::said).unwrap_or_default();
    drafts.extend(commands::learnt(turn));
    each_once(drafts)
}

/// What the user plainly said in a turn, without secrets. What may concern its task alone is left to others to judge.
pub fn said_in(turn: &Turn) -> Vec<LearningDraft> {
    let mut drafts = turn.request().map(said::said).unwrap_or_default();
    drafts.retain(|draft| draft.confidence >= TOLD_FROM);
    each_once(drafts)
}

fn each_once(drafts: Vec<LearningDraft>) -> Vec<LearningDraft> {
    let mut kept: Vec<LearningDraft> = Vec::new();
    for draft in drafts.into_iter().filter_map(cleaned) {
        if kept.len() < MOST_OF_A_TURN && !kept.iter().any(|known| is_same(&known.content, &draft.content)) {
            kept.push(draft);
        }
    }
    kept
}

/// The draft without what is private or secret, on one line; nothing if nothing is left of it.
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

/// What a sentence is about, where nobody said so.
pub fn category_of(content: &str) -> Category {
    let text = content.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&[
        "i prefer",
        "i like",
        "i want",
        "reply in",
        "answer in",
        "respond in",
        "ich bevorzuge",
        "偏好",
        "回答",
    ]) {
        Category::Preference
    } else if has(&["depends on", "dependency", "package version", "pinned to"]) {
        Category::Dependency
    } else if has(&["fails", "broken", "beware", "careful", "breaks", "workaround", "deadlock", "flaky"]) {
        Category::Gotcha
    } else if text.starts_with("run ")
        || (text.contains('`') && has(&["run ", "command", "tests with", "build with"]))
    {
        Category::Command
    } else if has(&[
        "always", "never", "use ", "don't", "do not", "avoid", "must", "immer", "nie", "verwende",
    ]) {
        Category::Convention
    } else {
        Category::Architecture
    }
}

/// The phrases of a list that is written as one text, `a|b c|d`.
fn each(list: &'static str) -> std::str::Split<'static, char> {
    list.split('|')
}
