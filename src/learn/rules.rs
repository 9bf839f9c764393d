//! Rules that the user states in a prompt, with their reasons. Each language has its own file.

use super::sentences::{Sentence, sentences};
use super::{LONGEST, category_of, chinese, confidence, each, english, german, japanese};
use crate::model::{Category, LearningDraft};

/// A rule found in a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundRule {
    /// The sentence without the words that lead to it.
    pub content: String,
    /// Initial confidence.
    pub confidence: f64,
}

impl FoundRule {
    /// "Always …", "never …", "from now on …".
    pub fn strict(content: impl Into<String>) -> Self {
        Self { content: content.into(), confidence: confidence::RULE }
    }

    /// "We use …", "don't use …".
    pub fn custom(content: impl Into<String>) -> Self {
        Self { content: content.into(), confidence: confidence::CUSTOM }
    }

    /// "Use this, not that": lasts if it is about a tool; "use blue, not green" is about the task.
    pub fn comparison(content: &str) -> Option<Self> {
        names_tool(content).then(|| Self::custom(content))
    }
}

/// Phrases that lead to an instruction and qualify it.
pub(super) struct Leads {
    /// "Please", "ok".
    pub plain: (&'static str, Pause),
    /// "From now on".
    pub lasting: (&'static str, Pause),
    /// "No", "that's wrong". A punctuation mark must follow: "no, use" corrects, "no use" does not.
    pub correcting: &'static str,
}

/// The gap that must follow a lead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// None: scripts without blanks.
    Joined,
    /// A blank or a mark.
    Blank,
    /// A punctuation mark, or a blank in a script without them.
    Mark,
}

/// A sentence without its leads.
pub(super) struct Led<'t> {
    pub rest: &'t str,
    pub corrects: bool,
    pub lasts: bool,
}

impl Leads {
    /// Strips leads, which may follow each other: "No, please, from now on …".
    pub fn strip<'t>(&self, text: &'t str, corrects: bool) -> Led<'t> {
        let mut led = Led { rest: text.trim(), corrects, lasts: false };
        let first = |rest: &'t str, (list, pause)| each(list).find_map(|lead| after_lead(rest, lead, pause));
        loop {
            if let Some(rest) = first(led.rest, self.lasting) {
                led = Led { rest, lasts: true, ..led };
            } else if let Some(rest) = first(led.rest, (self.correcting, Pause::Mark)) {
                led = Led { rest, corrects: true, ..led };
            } else if let Some(rest) = first(led.rest, self.plain) {
                led.rest = rest;
            } else {
                return led;
            }
        }
    }
}

fn after_lead<'t>(text: &'t str, lead: &str, pause: Pause) -> Option<&'t str> {
    let head = text.get(..lead.len())?;
    let rest = (head.to_lowercase() == lead).then(|| &text[lead.len()..])?;
    let is_mark = |char: char| ",:;.!-–—，、：！。".contains(char);
    let after = rest.trim_start_matches(|char: char| char.is_whitespace() || is_mark(char));
    let gap = &rest[..rest.len() - after.len()];
    let goes_on = || {
        let next = after.to_lowercase();
        each("don't |do not |never |always |we use ").any(|word| next.starts_with(word))
    };
    let is_apart = match pause {
        Pause::Joined => true,
        Pause::Blank => !gap.is_empty(),
        Pause::Mark => gap.contains(is_mark) || (!gap.is_empty() && (!lead.is_ascii() || goes_on())),
    };
    (is_apart && !after.is_empty()).then_some(after)
}

/// Returns the rules of a prompt as drafts.
pub(super) fn stated(prompt: &str) -> Vec<LearningDraft> {
    let sentences = sentences(prompt);
    let mut drafts = Vec::new();
    for (at, sentence) in sentences.iter().enumerate() {
        // "No." and then the correction.
        let corrects = at > 0 && is_no(&sentences[at - 1].text);
        let Some(rule) = rule(sentence, corrects) else { continue };
        let mut content = finished(&rule.content);
        if let Some(next) = sentences.get(at + 1).filter(|next| !next.opens && !next.asks) {
            content = with_reason(content, &finished(&next.text));
        }
        if content.chars().count() > LONGEST {
            continue;
        }
        let category = match category_of(&content) {
            Category::Architecture => Category::Convention,
            category => category,
        };
        let mut draft = LearningDraft::new(category, content, rule.confidence);
        draft.everywhere = is_everywhere(&sentence.text);
        drafts.push(draft);
    }
    drafts
}

fn rule(sentence: &Sentence, corrects: bool) -> Option<FoundRule> {
    let text = sentence.text.as_str();
    if sentence.asks {
        return english::request(text);
    }
    let is_kana = |char: char| ('\u{3041}'..='\u{30ff}').contains(&char);
    let is_han = |char: char| ('\u{4e00}'..='\u{9fff}').contains(&char);
    if text.chars().any(is_kana) {
        japanese::rule(text, corrects)
    } else if text.chars().any(is_han) {
        chinese::rule(text, corrects)
    } else {
        english::rule(text, corrects)
            .or_else(|| english::request(text))
            .or_else(|| german::rule(text, corrects))
    }
}

/// True for a sentence that says no and nothing else.
fn is_no(text: &str) -> bool {
    let word = text.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase();
    const NO: &str = "no|nope|nah|wrong|that's wrong|that is wrong|not like that|incorrect|nein|falsch|\
        das ist falsch|不|不对|不是|错了|いいえ|いや|違う|違います";
    each(NO).any(|known| known == word.as_str())
}

/// Words that begin a reason in a sentence of its own, and how it is joined to its rule.
const REASONS: [(&str, &str); 3] = [
    ("because |since |weil |denn |因为", " "),
    ("otherwise |or else |sonst |ansonsten |否则|不然|さもないと|でないと|そうしないと|なぜなら", "; "),
    (
        "it breaks|it causes|it fails|it makes|it slows|it is |it's |it will |it would |it takes|it costs|it hides|\
        it leads|it needs|it deletes|it overwrites|they break|they cause|they are |they make|they slow|they take|\
        they cost|they get |that breaks|that causes|that fails|that makes|that slows|that leads|this breaks|\
        this causes|this makes|this slows|this leads|the reason |das führt|das macht|das bricht|das verursacht|\
        es ist |es macht|sie sind |这会|这样会|那样会|它会|会导致",
        ": ",
    ),
];

/// Appends the following sentence if it gives the reason.
fn with_reason(rule: String, next: &str) -> String {
    let lower = next.to_lowercase();
    let opens = |list: &'static str| each(list).any(|opening| lower.starts_with(opening));
    let Some((_, joint)) = REASONS.iter().find(|(list, _)| opens(list)) else { return rule };
    let mut chars = next.chars();
    let first = chars.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    let joined = format!("{rule}{joint}{first}{}", chars.as_str());
    if joined.chars().count() > LONGEST { rule } else { joined }
}

fn is_everywhere(text: &str) -> bool {
    let text = text.to_lowercase();
    const WORDS: &str = "in all projects|in all my projects|in all of my projects|in every project|in any project|\
        in all repos|in all my repos|in every repo|for all my projects|for all projects|across all my projects|\
        across all projects|in allen projekten|in allen meinen projekten|in jedem projekt|所有项目|每个项目|全プロジェクト|\
        すべてのプロジェクト|どのプロジェクト";
    each(WORDS).any(|word| text.contains(word))
}

/// Tools that people replace with one another.
const TOOLS: &str = "npm|pnpm|yarn|bun|bunx|deno|node|npx|pip|pipx|uv|uvx|poetry|pipenv|conda|pytest|unittest|nose|jest|\
    vitest|mocha|jasmine|playwright|cypress|make|just|mise|nox|tox|cargo|nextest|clippy|rustfmt|go|gofmt|gotestsum|\
    golangci-lint|grep|rg|ripgrep|fd|find|sed|awk|git|gh|glab|docker|podman|kubectl|helm|terraform|tofu|eslint|biome|\
    oxlint|prettier|ruff|black|flake8|mypy|pyright|tsc|tsx|swc|webpack|vite|esbuild|rollup|turbo|nx|gradle|gradlew|\
    maven|mvn|sbt|bazel|cmake|meson|ninja|bundler|bundle|rspec|minitest|rubocop|composer|phpunit|pest|tabs|spaces|\
    bash|zsh|fish|powershell|pwsh|sh|python|python3|typescript|javascript|sqlite|postgres|postgresql|mysql|redis|\
    curl|wget|jq|tmux|rtk|nix|asdf|nvm|fnm|volta|pyenv|rbenv|direnv";

fn names_tool(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut words = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '-'));
    words.any(|word| each(TOOLS).any(|tool| tool == word))
}

/// Trims the marks around a sentence and begins it with a capital.
fn finished(text: &str) -> String {
    let is_edge = |char: char| char.is_whitespace() || ",;:.!-–—、，。！".contains(char);
    let text = text.trim_start_matches(is_edge).trim_end_matches(is_edge);
    let mut chars = text.chars();
    match chars.next() {
        // Scripts without capitals would only have their foreign names changed.
        Some(_) if text.chars().any(|char| char > '\u{2e7f}') => text.to_owned(),
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
