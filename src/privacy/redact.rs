//! Removes keys, tokens, passwords and private keys from text.
//!
//! Owns the rules of `config/redact.toml` and the order in which they run, in time linear in the text. Independent
//! of where a text comes from or goes; plain text, JSON, and JSON within JSON are all just text here.

mod is_secret;
mod key_block;
mod letters;
mod names;
mod rule;
mod value;

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde::Deserialize;

use super::Redacted;
use rule::{Rule, WrittenRule};

/// The start of every replacement. Replacements are never replaced again.
const MARK: &str = "[redacted:";

/// Removes secrets. Free to make and to copy: all share the compiled-in rules, which are loaded with the first text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Redactor(());

impl Redactor {
    /// Uses the rules of `config/redact.toml`.
    pub fn new() -> Self {
        Self(())
    }

    /// Returns the text without its secrets. Idempotent.
    pub fn redact(&self, text: &str) -> Redacted {
        static RULES: LazyLock<Rules> = LazyLock::new(Rules::compiled_in);
        Redacted(RULES.redact(text))
    }
}

#[derive(Debug)]
struct Rules {
    /// Finds the anchors of all rules in one pass.
    anchors: AhoCorasick,
    /// The rule of each anchor, and the anchor itself if its case matters.
    owners: Vec<(usize, Option<String>)>,
    rules: Vec<Rule>,
}

impl Rules {
    #[allow(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
    fn compiled_in() -> Self {
        #[derive(Deserialize)]
        struct RuleFile {
            rule: Vec<WrittenRule>,
        }
        let text = include_str!("../../config/redact.toml");
        let file: RuleFile = toml::from_str(text).expect("the rules are valid TOML");
        let has_capitals = |anchor: &String| anchor.bytes().any(|byte| byte.is_ascii_uppercase());
        let mut owners = Vec::new();
        for (index, rule) in file.rule.iter().enumerate() {
            owners
                .extend(rule.anchors.iter().map(|anchor| (index, Some(anchor.clone()).filter(has_capitals))));
        }
        let anchors = finder_of(file.rule.iter().flat_map(|rule| &rule.anchors));
        Self { anchors, owners, rules: file.rule.into_iter().map(Rule::new).collect() }
    }

    fn redact(&self, text: &str) -> String {
        /// One pass is enough unless secrets touch each other.
        const MOST_PASSES: usize = 4;
        let relevant = self.relevant(text);
        let mut text = Cow::Borrowed(text);
        for _ in 0..MOST_PASSES {
            let mut changed = false;
            for rule in &relevant {
                if let Some(redacted) = rule.apply(&text) {
                    text = Cow::Owned(redacted);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        text.into_owned()
    }

    /// Returns the rules that have an anchor in the text.
    fn relevant(&self, text: &str) -> Vec<&Rule> {
        let mut seen = vec![false; self.rules.len()];
        for found in self.anchors.find_overlapping_iter(text) {
            let (rule, anchor) = &self.owners[found.pattern()];
            let is_it = |anchor: &String| anchor.as_bytes() == &text.as_bytes()[found.range()];
            seen[*rule] |= anchor.as_ref().is_none_or(is_it);
        }
        self.rules.iter().zip(seen).filter_map(|(rule, seen)| seen.then_some(rule)).collect()
    }
}

/// Finds words in any case.
#[allow(clippy::expect_used, reason = "the words are compiled in, and a test builds all finders")]
fn finder_of<'w>(words: impl IntoIterator<Item = &'w String>) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .expect("a few short words always fit")
}

#[cfg(test)]
mod tests;
