//! Takes secrets out of text: keys, tokens, passwords, private keys.
//!
//! Owns the rules of `config/redact.toml` and how they are run, in time linear in the text. It must not know where a
//! text comes from or where it goes; plain text, JSON, and JSON within JSON are all just text here.

mod key_block;
mod value;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::{CaptureLocations, Match, Regex};
use serde::Deserialize;

use super::Redacted;
use value::Trust;

/// How every replacement begins. What is already a replacement is never replaced again.
const MARK: &str = "[redacted:";

/// Removes secrets. Free to make and to copy: all share the compiled-in rules.
#[derive(Debug, Clone, Copy)]
pub struct Redactor {
    rules: &'static Rules,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl Redactor {
    /// With the rules of `config/redact.toml`.
    pub fn new() -> Self {
        static RULES: LazyLock<Rules> = LazyLock::new(Rules::compiled_in);
        Self { rules: &RULES }
    }

    /// The text without its secrets. Redacting again changes nothing.
    pub fn redact(&self, text: &str) -> Redacted {
        Redacted(self.rules.redact(text))
    }
}

/// A rule as the file has it; its examples are for the tests.
#[derive(Debug, Deserialize)]
struct Written {
    anchors: Vec<String>,
    pattern: String,
    replacement: String,
    follow: Option<Follow>,
    #[serde(default)]
    trust: Trust,
    #[serde(default)]
    whole_word: bool,
    requires: Option<String>,
    unless: Option<String>,
}

/// What stands behind the pattern and belongs to the secret.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Follow {
    Value,
    Assignment,
    KeyBlock,
}

#[derive(Debug)]
struct Rules {
    /// Finds all anchors in one pass.
    anchors: AhoCorasick,
    /// The rule of each anchor, and the anchor itself if its case matters.
    owners: Vec<(usize, Option<String>)>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    written: Written,
    pattern: Pattern,
    requires: Option<Pattern>,
    unless: Option<Pattern>,
}

/// A pattern that is compiled when a text first needs it: most texts need none, and the worker stays small.
#[derive(Debug)]
struct Pattern {
    source: String,
    compiled: OnceLock<Regex>,
}

impl Pattern {
    fn new(source: String) -> Self {
        Self { source, compiled: OnceLock::new() }
    }

    /// A clone shares the program and brings its own working memory, which is freed with it: what a large text needs
    /// would otherwise stay for good.
    #[allow(clippy::expect_used, reason = "the patterns are compiled in, and a test compiles each")]
    fn regex(&self) -> Regex {
        self.compiled
            .get_or_init(|| Regex::new(&self.source).expect("the compiled-in patterns are valid"))
            .clone()
    }
}

impl Rules {
    #[allow(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
    fn compiled_in() -> Self {
        #[derive(Deserialize)]
        struct File {
            rule: Vec<Written>,
        }
        let file: File =
            toml::from_str(include_str!("../../config/redact.toml")).expect("the rules are valid TOML");
        let cased =
            |anchor: &String| anchor.bytes().any(|byte| byte.is_ascii_uppercase()).then(|| anchor.clone());
        let mut owners = Vec::new();
        for (index, rule) in file.rule.iter().enumerate() {
            owners.extend(rule.anchors.iter().map(|anchor| (index, cased(anchor))));
        }
        let anchors = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(file.rule.iter().flat_map(|rule| &rule.anchors))
            .expect("a few short words always fit");
        Self { anchors, owners, rules: file.rule.into_iter().map(Rule::new).collect() }
    }

    fn redact(&self, text: &str) -> String {
        /// One pass finds everything; a second finds nothing more, but where secrets touch each other.
        const MOST_PASSES: usize = 4;
        let relevant = self.relevant(text);
        let mut text = Cow::Borrowed(text);
        for _ in 0..MOST_PASSES {
            match relevant
                .iter()
                .fold(None, |done, rule| rule.apply(done.as_deref().unwrap_or(&text)).or(done))
            {
                Some(redacted) => text = Cow::Owned(redacted),
                None => break,
            }
        }
        text.into_owned()
    }

    /// The rules of which an anchor is in the text.
    fn relevant(&self, text: &str) -> Vec<&Rule> {
        let mut seen = vec![false; self.rules.len()];
        for found in self.anchors.find_overlapping_iter(text) {
            let (rule, cased) = &self.owners[found.pattern()];
            seen[*rule] |=
                cased.as_ref().is_none_or(|anchor| anchor.as_bytes() == &text.as_bytes()[found.range()]);
        }
        self.rules.iter().zip(seen).filter_map(|(rule, seen)| seen.then_some(rule)).collect()
    }
}

impl Rule {
    fn new(written: Written) -> Self {
        Self {
            pattern: Pattern::new(written.pattern.clone()),
            requires: written.requires.clone().map(Pattern::new),
            unless: written.unless.clone().map(Pattern::new),
            written,
        }
    }

    /// The text without this rule's secrets; `None` if there are none.
    fn apply(&self, text: &str) -> Option<String> {
        if self.requires.as_ref().is_some_and(|needed| !needed.regex().is_match(text)) {
            return None;
        }
        let regex = self.pattern.regex();
        let mut places = regex.capture_locations();
        let (mut redacted, mut copied, mut from) = (String::new(), 0, 0);
        while let Some(found) = find(&regex, &mut places, text, from) {
            from = found.end();
            let Some(secret) = self.secret(text, &places, found.range()) else { continue };
            redacted.push_str(&text[copied..secret.start]);
            redacted.push_str(&self.written.replacement);
            copied = secret.end;
            from = from.max(copied);
        }
        if copied == 0 {
            return None;
        }
        redacted.push_str(&text[copied..]);
        Some(redacted)
    }

    /// What of a match is to be replaced, if it is one.
    fn secret(&self, text: &str, places: &CaptureLocations, found: Range<usize>) -> Option<Range<usize>> {
        // The word within a replacement is not a name: `[redacted:token]: …`
        if text[..found.start].ends_with(MARK)
            || self.written.whole_word && continues_a_word(text, found.start)
        {
            return None;
        }
        if self.unless.as_ref().is_some_and(|not| not.regex().is_match(&text[found.clone()])) {
            return None;
        }
        let secret = match self.written.follow {
            Some(Follow::Value) => value::secret_after(text, found.clone(), found.end, self.written.trust)?,
            Some(Follow::Assignment) => {
                let value_at = value::assigned_after(text, found.end)?;
                value::secret_after(text, found, value_at, self.written.trust)?
            }
            Some(Follow::KeyBlock) => found.start..key_block::end(text, found.end)?,
            None => {
                (1..places.len()).find_map(|group| places.get(group)).map_or(found, |(start, end)| start..end)
            }
        };
        (!is_replacement(&text[secret.clone()])).then_some(secret)
    }
}

fn find<'t>(regex: &Regex, places: &mut CaptureLocations, text: &'t str, from: usize) -> Option<Match<'t>> {
    // Groups cost several times as much, and most patterns have none.
    if places.len() == 1 { regex.find_at(text, from) } else { regex.captures_read_at(places, text, from) }
}

fn is_replacement(text: &str) -> bool {
    text.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(']')).is_some_and(|name| !name.contains(']'))
}

/// Whether the byte before `start` is of the same word: not so after an escaped line break (`\nsk-…` in JSON) or a
/// terminal's colour (`ESC[32msk-…`).
fn continues_a_word(text: &str, start: usize) -> bool {
    let before = &text.as_bytes()[..start];
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => false,
        [rest @ .., b'm'] => {
            let digits =
                rest.iter().rev().take(12).take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
            rest.get(..rest.len() - digits).and_then(<[u8]>::last) != Some(&b'[')
        }
        [.., last] => last.is_ascii_alphanumeric() || *last == b'_',
        [] => false,
    }
}

#[cfg(test)]
mod tests;
