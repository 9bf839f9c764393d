//! One rule: finds candidates by a pattern or by names, and replaces those that are secrets.

use std::ops::Range;
use std::sync::OnceLock;

use regex::{CaptureLocations, Regex};
use serde::Deserialize;

use super::is_secret::Trust;
use super::names::{self, Assigned, Names};
use super::{MARK, finder_of, key_block, value};

/// A rule as `config/redact.toml` has it, where the keys are described.
#[derive(Debug, Deserialize)]
pub(super) struct WrittenRule {
    pub(super) anchors: Vec<String>,
    pattern: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    endings: Vec<String>,
    replacement: String,
    follow: Option<Follow>,
    #[serde(default)]
    trust: Trust,
    #[serde(default)]
    whole_word: bool,
    requires: Option<String>,
    unless: Option<String>,
}

/// The part of a secret behind the pattern.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Follow {
    Value,
    KeyBlock,
}

/// A rule that can be applied.
#[derive(Debug)]
pub(super) struct Rule {
    finds: Finds,
    replacement: String,
    trust: Trust,
    whole_word: bool,
    requires: Option<Pattern>,
    unless: Option<Pattern>,
}

#[derive(Debug)]
enum Finds {
    Pattern(Pattern, Option<Follow>),
    Names(Names),
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

    #[allow(clippy::expect_used, reason = "the patterns are compiled in, and a test compiles each")]
    fn shared(&self) -> &Regex {
        self.compiled.get_or_init(|| Regex::new(&self.source).expect("the compiled-in patterns are valid"))
    }

    /// Returns a clone for one text. It shares the program and brings its own working memory, which would otherwise stay
    /// allocated after a large text.
    fn regex(&self) -> Regex {
        self.shared().clone()
    }
}

impl Rule {
    pub(super) fn new(written: WrittenRule) -> Self {
        let finds = match written.pattern {
            Some(pattern) => Finds::Pattern(Pattern::new(pattern), written.follow),
            None => Finds::Names(Names::new(finder_of(&written.anchors), written.names, written.endings)),
        };
        Self {
            finds,
            replacement: written.replacement,
            trust: written.trust,
            whole_word: written.whole_word,
            requires: written.requires.map(Pattern::new),
            unless: written.unless.map(Pattern::new),
        }
    }

    /// Returns the text without this rule's secrets; `None` if there are none.
    pub(super) fn apply(&self, text: &str) -> Option<String> {
        if self.requires.as_ref().is_some_and(|needed| !needed.regex().is_match(text)) {
            return None;
        }
        let mut redacted = String::new();
        let mut copied = 0;
        let mut replace = |secret: Range<usize>| {
            redacted.push_str(&text[copied..after_escape(text, secret.start)]);
            redacted.push_str(&self.replacement);
            copied = secret.end;
        };
        match &self.finds {
            Finds::Pattern(pattern, follow) => self.each_match(text, &pattern.regex(), *follow, &mut replace),
            Finds::Names(names) => self.each_assignment(text, names, &mut replace),
        }
        if copied == 0 {
            return None;
        }
        redacted.push_str(&text[copied..]);
        Some(redacted)
    }

    fn each_assignment(&self, text: &str, names: &Names, replace: &mut impl FnMut(Range<usize>)) {
        let mut from = 0;
        while let Some(Assigned { name, value_at }) = names.find(text, from) {
            from = value_at;
            if is_inside_replacement(text, name.start) {
                continue;
            }
            let secret = value::secret_after(text, name, value_at, self.trust);
            if let Some(secret) = secret.filter(|secret| !is_replacement(&text[secret.clone()])) {
                from = secret.end;
                replace(secret);
            }
        }
    }

    fn each_match(
        &self,
        text: &str,
        regex: &Regex,
        follow: Option<Follow>,
        replace: &mut impl FnMut(Range<usize>),
    ) {
        let mut places = regex.capture_locations();
        let has_groups = places.len() > 1;
        let mut from = 0;
        loop {
            // Groups cost several times as much, and most patterns have none.
            let found = if has_groups {
                regex.captures_read_at(&mut places, text, from)
            } else {
                regex.find_at(text, from)
            };
            let Some(found) = found.map(|found| found.range()) else { return };
            from = found.end;
            if let Some(secret) = self.secret_of_match(text, &places, found, follow) {
                from = from.max(secret.end);
                replace(secret);
            }
        }
    }

    /// Returns the part of a match to replace, if it is a secret.
    fn secret_of_match(
        &self,
        text: &str,
        places: &CaptureLocations,
        found: Range<usize>,
        follow: Option<Follow>,
    ) -> Option<Range<usize>> {
        let is_part = self.whole_word && continues_a_word(text, found.start);
        let is_excepted =
            || self.unless.as_ref().is_some_and(|not| not.shared().is_match(&text[found.clone()]));
        if is_part || is_inside_replacement(text, found.start) || is_excepted() {
            return None;
        }
        let secret = match follow {
            Some(Follow::Value) => {
                let name = found.start..found.start + names::length(&text[found.clone()]);
                value::secret_after(text, name, found.end, self.trust)?
            }
            Some(Follow::KeyBlock) => found.start..key_block::end(text, found.end)?,
            None => {
                let group = (1..places.len()).find_map(|group| places.get(group));
                group.map_or(found, |(start, end)| start..end)
            }
        };
        (!is_replacement(&text[secret.clone()])).then_some(secret)
    }
}

pub(super) fn is_replacement(text: &str) -> bool {
    text.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(']')).is_some_and(|name| !name.contains(']'))
}

/// The word within a replacement is not a name: `[redacted:token]: …`
fn is_inside_replacement(text: &str, at: usize) -> bool {
    text[..at].ends_with(MARK)
}

/// Skips the rest of an escape (`\n`, `\u001b`): cutting it would break the JSON.
fn after_escape(text: &str, start: usize) -> usize {
    const LONGEST: usize = r"\u001".len();
    let before = text.as_bytes()[..start].iter().rev().take(LONGEST);
    let Some(back) = before.into_iter().position(|byte| *byte == b'\\') else { return start };
    let escape = start - back - 1;
    match text.as_bytes()[escape + 1..] {
        [b'n' | b'r' | b't' | b'b' | b'f', ..] if back == 0 => start + 1,
        [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(u8::is_ascii_hexdigit) => escape + r"\u001b".len(),
        _ => start,
    }
}

/// Returns true if the byte before `start` belongs to the same word: not after an escape (`\nsk-…` in JSON) or a terminal's colour
/// (`ESC[32msk-…`).
fn continues_a_word(text: &str, start: usize) -> bool {
    if after_escape(text, start) > start || start > 0 && after_escape(text, start - 1) == start {
        return false;
    }
    match &text.as_bytes()[..start] {
        [rest @ .., b'm'] => {
            let is_colour = |byte: &&u8| matches!(byte, b'0'..=b'9' | b';');
            let digits = rest.iter().rev().take(12).take_while(is_colour).count();
            rest[..rest.len() - digits].last() != Some(&b'[')
        }
        [.., last] => last.is_ascii_alphanumeric() || *last == b'_',
        [] => false,
    }
}
