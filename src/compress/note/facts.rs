//! Single statements that stand on their own: decisions, certain results, commits, rows of tables.

use std::sync::LazyLock;

use regex::Regex;

use super::Material;
use super::prose::{Section, whole_sentences};
use crate::compress::turn::Turn;
use crate::text::{pattern, push_new};
use crate::tools::{Action, Outcome, Purpose};

/// Maximum number of facts of a note.
const MOST_FACTS: usize = 16;
/// Maximum number of table rows among them.
const MOST_ROWS: usize = 8;
const FACT_COLUMNS: usize = 300;

/// The facts of a turn, decisions first.
pub(super) fn facts(turn: &Turn, material: &Material) -> Vec<String> {
    let mut facts = Vec::new();
    let mut push = |fact: &str| push_new(&mut facts, &whole_sentences(fact, FACT_COLUMNS), MOST_FACTS);
    decisions(turn).iter().for_each(|fact| push(fact));
    let stated = material.body().filter(|statement| statement.section != Section::Proposal);
    for statement in stated.filter(|statement| is_decision(&statement.text)) {
        push(&statement.shown(None));
    }
    commits(turn).iter().for_each(|fact| push(fact));
    result(turn).iter().for_each(|fact| push(fact));
    let rows = material.statements.iter().filter(|row| row.is_row && row.section != Section::Aside);
    rows.take(MOST_ROWS).for_each(|row| push(&row.shown(None)));
    facts
}

/// Decisions of the user: questions answered and calls refused.
pub fn decisions(turn: &Turn) -> Vec<String> {
    let mut decisions = Vec::new();
    let mut push = |fact: String| push_new(&mut decisions, &fact, 8);
    for event in &turn.events {
        match &event.action {
            Action::Answers(answers) => {
                for pair in answers {
                    push(format!("User's decision: {} {}", with_end(&pair.question), pair.answer));
                }
            }
            Action::Refused(words) if !words.is_empty() => push(refused(words)),
            _ => {}
        }
    }
    turn.refusals.iter().for_each(|words| push(refused(words)));
    decisions
}

fn refused(words: &str) -> String {
    format!("User refused a call: \"{words}\"")
}

fn with_end(question: &str) -> String {
    if question.ends_with(['?', '.', ':']) { question.to_owned() } else { format!("{question}:") }
}

/// "Decision: …", "We use X instead of Y": a choice that someone may want to undo later.
fn is_decision(text: &str) -> bool {
    static DECISION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)\b(decision|decided|we chose|chose to|instead of|rather than|entschieden|stattdessen)\b",
        )
    });
    DECISION.as_ref().is_some_and(|decision| decision.is_match(text))
        && (5..=60).contains(&text.split_whitespace().count())
        && !text.ends_with(':')
}

fn commits(turn: &Turn) -> Vec<String> {
    let line = |commit: &&crate::tools::Commit| match &commit.id {
        Some(id) => format!("Commit {id}: {}", commit.subject),
        None => format!("Commit: {}", commit.subject),
    };
    let addresses = turn.events.iter().filter_map(|event| event.command()?.address.clone());
    turn.commits().iter().map(line).chain(addresses).collect()
}

/// The last certain result of a test run. A command whose last run is uncertain has none.
fn result(turn: &Turn) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    let runs = turn.events.iter().rev().filter_map(|event| event.command());
    for command in runs.filter(|command| command.purpose == Purpose::Test) {
        let is_last = !seen.contains(&command.main.as_str());
        seen.push(&command.main);
        let counted = command.tests.filter(|tests| tests.passed + tests.failed > 0);
        let result = match counted {
            Some(tests) if command.outcome != Outcome::Unknown => tests.to_string(),
            _ if command.outcome.succeeded() => "passed".to_owned(),
            _ => continue,
        };
        if is_last {
            return Some(format!("`{}`: {result}", command.main));
        }
    }
    None
}
