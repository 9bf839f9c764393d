//! The words that a prompt or an edit asks with, each with its worth, and the fit of a memory or of a text with them.

use std::collections::HashMap;

use crate::context::repo_state::stem;
use crate::context::words::WordSet;
use crate::store::context::ContextMemory;
use crate::text::without_ending;

/// The worth of words in common at which a memory fits by half: so much, and a share of all that was asked, since a long prompt
/// has words in common with anything.
const HALF: f64 = 0.8;
const HALF_OF_ASKED: f64 = 0.07;
/// The share of a word's worth by where the memory has it.
const IN_TITLE: f64 = 1.0;
const IN_SUMMARY: f64 = 0.7;
const IN_REST: f64 = 0.2;
/// A word that names a file or a symbol is worth more than one of the language, and a common word less.
const NAMED: f64 = 1.3;
const COMMON: f64 = 0.4;

/// The least worth of a word, and of a name, that says what a question is about.
const TELLING: f64 = 0.45;
const TELLING_NAME: f64 = 0.8;
/// The least worth of a word that few memories have.
const RARE: f64 = 0.7;

/// Words of any request or report: rare in notes, they would decide too much. Sorted.
#[rustfmt::skip]
const COMMON_WORDS: [&str; 372] = [
    "able", "above", "actual", "actually", "adding", "address", "almost", "alone", "already", "although",
    "always", "among", "analyse", "analysis", "analyze", "another", "anymore", "anyone", "anything",
    "anyway", "approach", "around", "aside", "away", "back", "based", "basically", "because", "become",
    "behind", "below", "best", "better", "between", "bit", "both", "branch", "bring", "bug", "build",
    "came", "cannot", "case", "certain", "change", "changed", "changes", "changing", "check", "clear",
    "clearly", "code", "come", "coming", "comment", "comments", "commit", "complete", "completely",
    "consider", "consistent", "context", "correct", "correctly", "couple", "create", "created", "creates",
    "creating", "current", "currently", "didn", "different", "directly", "doesn", "don", "double", "down",
    "during", "edit", "either", "else", "end", "ended", "ends", "enough", "entirely", "error", "especially",
    "even", "ever", "every", "everything", "exactly", "example", "exist", "existing", "exists", "expect",
    "explain", "fail", "failed", "failing", "fails", "far", "feature", "feedback", "feel", "few", "file",
    "files", "final", "finally", "find", "fine", "first", "fix", "fixed", "fixing", "follow", "following",
    "follows", "found", "full", "fully", "function", "further", "future", "gave", "general", "github",
    "give", "given", "goal", "goes", "going", "good", "great", "happen", "happened", "happening", "happens",
    "hard", "hello", "help", "helpful", "however", "idea", "implement", "implementation", "important",
    "include", "included", "includes", "including", "inside", "instance", "instead", "isn", "issue",
    "itself", "keep", "keeps", "kind", "know", "known", "last", "later", "least", "left", "less", "like",
    "likely", "line", "lines", "little", "long", "longer", "look", "looking", "looks", "lot", "mainly",
    "makes", "making", "many", "matter", "may", "maybe", "mean", "meaning", "means", "might", "missing",
    "moment", "mostly", "move", "much", "multiple", "must", "needed", "never", "new", "next", "nice", "non",
    "none", "nor", "note", "nothing", "often", "okay", "old", "once", "original", "otherwise", "own",
    "part", "particular", "past", "perfect", "perfectly", "place", "places", "plan", "point", "possible",
    "pretty", "previous", "prior", "probably", "problem", "project", "proper", "properly", "propose",
    "proposed", "provide", "provided", "pull", "purpose", "push", "pushed", "pushing", "put", "quick",
    "quickly", "quite", "rather", "real", "really", "reason", "recent", "recently", "related", "relevant",
    "remaining", "remove", "removed", "removing", "rename", "repo", "repository", "request", "requests",
    "respective", "rest", "review", "reviewing", "right", "run", "running", "runs", "say", "says", "script",
    "second", "seem", "seems", "seen", "sense", "separate", "set", "several", "shouldn", "show", "showing",
    "shown", "shows", "side", "similar", "simple", "simply", "since", "single", "small", "somehow",
    "something", "sometimes", "soon", "sort", "specific", "start", "started", "starting", "starts", "stop",
    "straight", "suggest", "suggested", "summary", "sure", "take", "taken", "taking", "tell", "test",
    "tests", "thanks", "thing", "things", "think", "third", "though", "three", "through", "throughout",
    "time", "times", "today", "together", "told", "too", "toward", "tried", "try", "trying", "turn",
    "understand", "unless", "until", "update", "updated", "updating", "upon", "useful", "uses", "usually",
    "validate", "wasn", "way", "ways", "well", "went", "whatever", "whenever", "whether", "whichever",
    "while", "whole", "within", "without", "won", "wonder", "work", "worked", "working", "works", "worth",
    "wrong", "yes", "yet",
];

/// One word that is asked with.
#[derive(Debug, Clone)]
struct Term {
    word: String,
    worth: f64,
    is_name: bool,
}

impl Term {
    fn is_telling_name(&self) -> bool {
        self.is_name && self.worth >= TELLING_NAME
    }
}

/// The words of a question, the most telling first.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms(Vec<Term>);

/// A memory and how well it fits.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The memory.
    pub memory: ContextMemory,
    /// From 0 to 1.
    pub fit: f64,
    /// The words in common, the rarest first.
    pub words: Vec<String>,
}

impl Terms {
    /// Gives each word its worth: 1 for one that a single memory has, next to nothing for one that all have. Forms of one word
    /// count once.
    pub(super) fn of(words: &[String], named: &[String], counted: &HashMap<String, u32>, rows: i64) -> Self {
        let rarity = |having: f64| (1.0 + (rows as f64 - having + 0.5).max(0.0) / (having + 0.5)).ln();
        let rarest = rarity(1.0).max(1.0);
        let term = |word: &String| {
            let having = counted.get(word).copied().filter(|having| *having > 0)?;
            let is_name = named.contains(word);
            let is_common = COMMON_WORDS.binary_search(&word.as_str()).is_ok();
            let factor = if is_name { NAMED } else { 1.0 } * if is_common { COMMON } else { 1.0 };
            Some(Term { word: word.clone(), worth: factor * rarity(f64::from(having)) / rarest, is_name })
        };
        let mut terms: Vec<Term> = words.iter().filter_map(term).collect();
        terms.sort_by(|a, b| b.worth.total_cmp(&a.worth));
        let mut kept: Vec<Term> = Vec::new();
        for term in terms {
            let is_form = |known: &Term| without_ending(&known.word) == without_ending(&term.word);
            if !kept.iter().any(is_form) {
                kept.push(term);
            }
        }
        Self(kept)
    }

    /// True if there is nothing to ask with.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stems of the words of at least this worth.
    pub(super) fn rare(&self, least: f64) -> Vec<&str> {
        self.0.iter().filter(|term| term.worth >= least).map(|term| without_ending(&term.word)).collect()
    }

    fn shared(&self, text: &str) -> impl Iterator<Item = &Term> {
        let words = WordSet::stemmed(&[text]);
        self.0.iter().filter(move |term| words.has(without_ending(&term.word)))
    }

    /// The worth of the words that a text has.
    pub(super) fn weight(&self, text: &str) -> f64 {
        self.shared(text).map(|term| term.worth).sum()
    }

    /// The fit of a text as it is shown, from 0 to 1.
    pub(super) fn fit_of(&self, text: &str) -> f64 {
        self.share(self.weight(text))
    }

    /// True if a text has what is rare in the question: a telling name, or two telling words.
    pub(super) fn are_met_by(&self, text: &str) -> bool {
        self.has_name(text) || self.shared(text).filter(|term| term.worth >= TELLING).count() >= 2
    }

    /// True if a text has a telling name of the question.
    pub(super) fn has_name(&self, text: &str) -> bool {
        self.shared(text).any(|term| term.is_telling_name())
    }

    /// True if a text speaks of the same code: it has two telling names, or one and another rare word.
    pub(super) fn are_code_of(&self, text: &str) -> bool {
        let is_rare = |term: &Term| term.is_telling_name() || term.worth >= RARE;
        self.has_name(text) && self.shared(text).filter(|term| is_rare(term)).count() >= 2
    }

    /// Scores a memory: the worth of the words in common, against the worth at which it would fit by half.
    pub(super) fn fit(&self, memory: ContextMemory) -> Fitted {
        let set = |texts: &[&str]| WordSet::stemmed(texts);
        let files: Vec<&str> = memory.files_modified.iter().map(|path| stem(path)).collect();
        let facts: Vec<&str> = memory.facts.iter().map(String::as_str).collect();
        let places = [
            (set(&[&memory.title]), IN_TITLE),
            (set(&[&memory.summary]), IN_SUMMARY),
            (set(&files), IN_SUMMARY),
            (set(&[&[memory.detail.as_str()], facts.as_slice()].concat()), IN_REST),
        ];
        let mut amount = 0.0;
        let mut words = Vec::new();
        for Term { word, worth, .. } in &self.0 {
            let stem = without_ending(word);
            let place =
                places.iter().filter(|(set, _)| set.has(stem)).map(|(_, share)| *share).fold(0.0, f64::max);
            if place > 0.0 {
                amount += worth * place;
                words.push(word.clone());
            }
        }
        Fitted { memory, fit: self.share(amount), words }
    }

    fn share(&self, amount: f64) -> f64 {
        let asked: f64 = self.0.iter().map(|term| term.worth).sum();
        amount / (amount + HALF + HALF_OF_ASKED * asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_words_are_in_order() {
        assert!(COMMON_WORDS.is_sorted());
    }

    #[test]
    fn forms_of_a_word_count_once() {
        let words = ["enable", "enabled", "hooks"].map(str::to_owned);
        let counted = words.iter().map(|word| (word.clone(), 1)).collect();
        let terms = Terms::of(&words, &[], &counted, 100);
        assert_eq!(terms.0.len(), 2);
        assert!((terms.weight("It enables the gate") - terms.weight("One hook")).abs() < 1e-9);
    }
}
