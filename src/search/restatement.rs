//! Statements that say in other words what the user has vetoed: by their words, and by their embeddings if there is a model.
//!
//! A restatement shares words and meaning. A different statement on the same subject does so as well, but keeps the sentence and
//! replaces a part of it, turns it around, or has another number (docs/decisions/018-truth.md has the measurement).

use std::collections::BTreeSet;

use super::embedding::{Bert, EmbeddingError, Pace, Role, Vector};
use super::language::stop_words::is_stop_word;
use super::language::words::{fold, key, pairs, words};
use crate::learn;
use crate::model::Millis;

/// Weight of the common words; the likeness of the embeddings has weight 1.
const COMMON_WEIGHT: f64 = 0.75;
/// Cost of a common sentence in which other words stand.
const REPLACED_COST: f64 = 1.0;
/// Cost of a common sentence if one of the two is negated. Their common words then count for nothing.
const OPPOSITE_COST: f64 = 0.25;
/// Without a model: share of common words from which on two statements are the same.
const SAME_WORDS: f64 = 0.8;
/// Without a model: share of a common sentence from which on other words in it make another statement.
const SAME_SENTENCE: f64 = 0.7;
/// Longest part of a statement that is compared, in bytes.
const MOST_BYTES: usize = 400;

/// A statement as it is compared.
#[derive(Debug, Clone)]
struct Statement {
    /// The stems of all words, in order.
    sentence: Vec<String>,
    /// The stems of those that carry content, without numbers.
    content: BTreeSet<String>,
    numbers: BTreeSet<u64>,
    is_negated: bool,
    /// None without a model.
    vector: Option<Vector>,
}

impl Statement {
    fn new(text: &str, model: Option<&Bert>) -> Result<Self, EmbeddingError> {
        let text = &text[..text.floor_char_boundary(MOST_BYTES)];
        let embed = |model: &Bert| model.embed(text, Role::Memory, Pace::InTheBackground);
        let mut statement = Self {
            sentence: Vec::new(),
            content: BTreeSet::new(),
            numbers: BTreeSet::new(),
            is_negated: learn::is_negated(text),
            vector: model.map(embed).transpose()?,
        };
        for word in words(text) {
            if word.unspaced {
                pairs(word.text).for_each(|(_, pair)| statement.add(pair));
            } else if !is_ending(&text[..word.start], word.text) {
                statement.add(word.text);
            }
        }
        Ok(statement)
    }

    fn add(&mut self, word: &str) {
        let (folded, stem) = (fold(word), key(word));
        if let Some(number) = number(&folded) {
            self.numbers.insert(number);
        } else if !is_stop_word(&folded) && !learn::is_filler(&folded) {
            self.content.insert(stem.clone());
        }
        self.sentence.push(stem);
    }

    /// True if `other` says the same. `same` is the model's scale.
    fn is_restated_by(&self, other: &Self, same: f64) -> bool {
        if self.content.is_empty() || !self.numbers.is_subset(&other.numbers) {
            return false;
        }
        let common = self.content.intersection(&other.content).count();
        let is_replaced = common < self.content.len().min(other.content.len());
        let common = share(common, self.content.len(), other.content.len());
        let is_opposite = self.is_negated != other.is_negated;
        let is_same_by_words = || {
            common >= SAME_WORDS
                && !is_opposite
                && (!is_replaced || self.common_sentence(other) < SAME_SENTENCE)
        };
        let likeness = self.vector.as_ref().zip(other.vector.as_ref()).and_then(|(one, other)| {
            let likeness = f64::from(one.likeness(&other.to_blob())?);
            Some(if is_opposite { likeness } else { likeness + COMMON_WEIGHT * common })
        });
        let is_same_by_meaning = |most: f64| {
            let cost = match (is_opposite, is_replaced) {
                (true, _) => OPPOSITE_COST,
                (false, true) => REPLACED_COST,
                (false, false) => 0.0,
            };
            // Comparing sentences is the slow part.
            most >= same && (cost == 0.0 || most - cost * self.common_sentence(other) >= same)
        };
        likeness.is_some_and(is_same_by_meaning) || is_same_by_words()
    }

    /// The share of the words that both have in the same order.
    fn common_sentence(&self, other: &Self) -> f64 {
        let mut row = vec![0; other.sentence.len() + 1];
        for word in &self.sentence {
            let mut diagonal = 0;
            for (at, known) in other.sentence.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if word == known { diagonal + 1 } else { above.max(row[at]) };
                diagonal = above;
            }
        }
        share(row.last().copied().unwrap_or_default(), self.sentence.len(), other.sentence.len())
    }
}

/// The common part of two wholes, from 0 to 1.
fn share(common: usize, one: usize, other: usize) -> f64 {
    2.0 * common as f64 / (one + other).max(1) as f64
}

/// True for the rest of a word behind an apostrophe: "isn't", "server's".
fn is_ending(before: &str, word: &str) -> bool {
    word.len() <= 2 && before.ends_with(['\'', '’'])
}

/// Words for numbers, in English and German.
#[rustfmt::skip]
const NUMBERS: [(u64, &[&str]); 17] = [
    (2, &["two", "twice", "zwei", "zweimal"]), (3, &["three", "drei", "dreimal"]), (4, &["four", "vier"]),
    (5, &["five", "funf"]), (6, &["six", "sechs"]), (7, &["seven", "sieben"]), (8, &["eight", "acht"]),
    (9, &["nine", "neun"]), (10, &["ten", "zehn"]), (12, &["twelve", "zwolf"]), (20, &["twenty", "zwanzig"]),
    (30, &["thirty", "dreissig"]), (40, &["forty", "vierzig"]), (50, &["fifty", "funfzig"]),
    (60, &["sixty", "sechzig"]), (100, &["hundred", "hundert"]), (1_000, &["thousand", "tausend"]),
];

/// The number that a folded word stands for, or begins with: "30", "30s", "thirty".
fn number(word: &str) -> Option<u64> {
    let digits = word.find(|char: char| !char.is_ascii_digit()).unwrap_or(word.len());
    let named = || NUMBERS.iter().find(|(_, names)| names.contains(&word));
    word[..digits].parse().ok().or_else(|| named().map(|(number, _)| *number))
}

/// A vetoed statement.
#[derive(Debug, Clone)]
pub struct Vetoed {
    project: String,
    since: Millis,
    statement: Statement,
}

impl Vetoed {
    /// Reads a statement that was vetoed at `since` in a project; empty for every project.
    pub fn new(
        project: &str,
        since: Millis,
        text: &str,
        model: Option<&Bert>,
    ) -> Result<Self, EmbeddingError> {
        Ok(Self { project: project.to_owned(), since, statement: Statement::new(text, model)? })
    }
}

/// A statement that is compared with the vetoes.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its project; empty if it holds everywhere.
    pub project: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The time at which the user restored it: only later vetoes count.
    pub restored_at: Option<Millis>,
}

/// True if a statement says what a veto blocks.
pub fn is_vetoed(
    candidate: Candidate<'_>,
    vetoes: &[Vetoed],
    model: Option<&Bert>,
) -> Result<bool, EmbeddingError> {
    let holds = |veto: &&Vetoed| {
        (veto.project.is_empty() || veto.project == candidate.project)
            && candidate.restored_at.is_none_or(|restored_at| veto.since > restored_at)
    };
    let mut vetoes = vetoes.iter().filter(holds).peekable();
    if vetoes.peek().is_none() {
        return Ok(false);
    }
    let statement = Statement::new(candidate.text, model)?;
    let same = model.map_or(f64::INFINITY, |model| model.scale().same);
    Ok(vetoes.any(|veto| veto.statement.is_restated_by(&statement, same)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(veto: &str, text: &str) -> bool {
        let veto = Vetoed::new("", 5, veto, None).unwrap();
        is_vetoed(Candidate { project: "p", text, restored_at: None }, &[veto], None).unwrap()
    }

    #[test]
    fn without_a_model_the_same_words_in_another_order_are_the_same_statement() {
        let cases = [
            ("Run the linter before every push", "Before every push, always run the linter", true),
            ("Run the linter before every push", "Run the formatter before every push", false),
            ("Run the linter on harbour code before a push", "Before a push, format harbour code", false),
            ("Run the linter before every push", "Never run the linter before a push", false),
            ("The pool has ten connections", "The pool has 10 connections now", true),
            ("The pool has ten connections", "The pool has 40 connections now", false),
            ("The pool has ten connections", "The pool's connections: isn't it time to count them?", false),
            ("Commit messages are written in English", "Write commit messages in English", true),
            ("Commit messages are written in English", "Write code comments in English", false),
            ("每次推送之前都要运行测试", "每次推送之前，都要运行测试！", true),
        ];
        for (veto, text, expected) in cases {
            assert_eq!(is_blocked(veto, text), expected, "{veto} | {text}");
        }
        assert!(!is_blocked("it is", "it is"), "nothing to compare: the same words are blocked elsewhere");
    }

    #[test]
    fn a_restored_statement_is_blocked_by_later_vetoes_only() {
        let text = "Before every push, run the linter";
        let veto = [Vetoed::new("p", 5, "Run the linter before every push", None).unwrap()];
        for (project, restored_at, expected) in
            [("p", None, true), ("q", None, false), ("p", Some(5), false), ("p", Some(4), true)]
        {
            let candidate = Candidate { project, text, restored_at };
            assert_eq!(is_vetoed(candidate, &veto, None).unwrap(), expected, "{candidate:?}");
        }
    }
}
