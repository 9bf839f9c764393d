//! The request behind a turn: its title, its context, and whether it has any content.

use std::sync::LazyLock;

use regex::Regex;

use super::clarity::{clarity, is_dangling};
use super::prose::{plain, sentences};
use crate::compress::turn::is_client_text;
use crate::text::{capitalised, each, pattern, shorten};

/// Maximum length of a title, in columns.
pub(super) const TITLE_COLUMNS: usize = 110;
/// Maximum length of the context taken from a plan, in columns.
const CONTEXT_COLUMNS: usize = 600;

/// A plan: its heading and the section that gives the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The heading without "Plan:".
    pub heading: String,
    /// First sentences of its context, problem or root cause; may be empty.
    pub context: String,
}

/// Words that carry no request: agreement, thanks, and version-control chores.
const EMPTY_WORDS: &str = "commit|commits|committed|comit|commi|push|pushed|pr|merge|continue|resume|go|ahead|do|it|this|that|them|these|all|for|the|a|an|to|and|\
    then|now|please|pls|proceed|try|again|retry|next|thanks|thank|you|thx|great|perfect|nice|cool|awesome|excellent|good|job|work|works|yes|yeah|yep|yup|y|sure|ok|okay|k|no|nope|\
    n|lgtm|looks|look|ship|sounds|correct|right|exactly|done|stop|wait|hi|hello|hey|login|whoami|verify|clear|let's|lets|let|us|me|can|could|just|option|options|first|second|third|one|two|both|\
    changes|change|everything|so|far|i|think|we|are|is|fine|with|also|my|your|here|have|yet|agreed|agree|approved|approve|keep|going|on|well|oh|ah|hmm|ja|nein|danke|weiter|mach|das|bitte|gut|\
    passt|genau|oui|non|merci|vas-y|si|gracias|好|好的|是|是的|继续|谢谢|提交|可以|はい|いいえ|続けて|ありがとう|お願いします|コミット";

/// True if a prompt has no content: "commit", "yes", "1", "option 2", a bare slash command, text of the client.
pub fn is_trivial(prompt: &str) -> bool {
    let prompt = prompt.trim();
    if prompt.is_empty() || is_client_text(prompt) {
        return true;
    }
    if let Some(command) = prompt.strip_prefix('/') {
        let is_path = command.split_whitespace().next().is_some_and(|word| word.contains('/'));
        return !is_path && command.split_whitespace().count() <= 1;
    }
    let lower = prompt.to_lowercase();
    let words: Vec<&str> =
        lower.split(|char: char| char.is_whitespace() || ",.!?;:()\"。，！？、".contains(char)).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| word.chars().any(char::is_alphanumeric)).collect();
    let is_image = |word: &str| word.starts_with("[image") || word.starts_with('#');
    let is_empty = |word: &&str| {
        word.chars().count() == 1 && word.is_ascii()
            || is_image(word)
            || word.parse::<u32>().is_ok()
            || each(EMPTY_WORDS).any(|known| known == *word)
    };
    words.len() <= 12 && words.iter().all(is_empty)
}

/// The plan in a prompt ("Implement the following plan: # …"), or in an approved plan.
pub fn plan(text: &str) -> Option<Plan> {
    let is_plan =
        text.trim_start().starts_with("Implement the following plan") || text.trim_start().starts_with("# ");
    let heading_line = text.lines().map(str::trim).find(|line| line.starts_with('#')).filter(|_| is_plan)?;
    static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)^((implementation |migration |refactoring )?plan|bug ?fix|fix|feature|task|proposal|rfc|spec)( plan)?\s*[:—–-]\s*",
        )
    });
    let mut heading = plain(heading_line.trim_start_matches('#'));
    while let Some(prefix) = PREFIX.as_ref().and_then(|prefix| prefix.find(&heading)) {
        heading = heading[prefix.end()..].to_owned();
    }
    (!heading.is_empty()).then(|| Plan { heading: title_line(&heading), context: context(text) })
}

/// The first sentences of the section that gives the reason.
fn context(plan: &str) -> String {
    let is_why = |heading: &str| {
        let heading = heading.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase();
        let words = "context|contexte|kontext|background|problem|root cause|cause|why|motivation|goal|overview|summary|issue|bug|objective|ursache|problème|背景|原因";
        words.split('|').any(|word| heading.starts_with(word)) && heading.split_whitespace().count() <= 4
    };
    let mut lines = plan.lines().map(str::trim).skip_while(|line| !(line.starts_with('#') && is_why(line)));
    lines.next();
    let paragraph: Vec<&str> = lines
        .skip_while(|line| line.is_empty())
        .take_while(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with("```"))
        .collect();
    let text = plain(&paragraph.join(" "));
    let announces = |sentence: &str| {
        let lower = sentence.to_lowercase();
        lower.starts_with("this plan")
            || [" we'll ", " we will ", "i'll "].iter().any(|part| lower.contains(part))
    };
    let complete: Vec<String> = sentences(&text)
        .into_iter()
        .filter(|sentence| !sentence.ends_with(':') && !announces(sentence))
        .collect();
    whole_sentences(&complete.join(" "), CONTEXT_COLUMNS)
}

/// As many whole sentences as fit; the first one always.
pub(super) fn whole_sentences(text: &str, columns: usize) -> String {
    let mut kept = String::new();
    for sentence in sentences(text) {
        if !kept.is_empty() && kept.len() + sentence.len() >= columns {
            break;
        }
        let separator = if kept.is_empty() { "" } else { " " };
        kept.push_str(separator);
        kept.push_str(&sentence);
    }
    shorten(&kept, columns * 2)
}

/// The clearest line of a request, regardless of its outcome: a plan's heading, a headline, or an instruction.
pub(super) fn stated(request: &str) -> Option<String> {
    if let Some(plan) = plan(request) {
        return Some(plan.heading);
    }
    if request.trim_start().starts_with('/') {
        return None;
    }
    let lines =
        sentences_of(request).into_iter().take(3).map(|sentence| title_line(&without_politeness(&sentence)));
    let instruction = lines.into_iter().find(|line| begins_with_verb(line, true) && clarity(line) >= 0);
    let question = || question(request).map(|asked| title_line(&asked)).filter(|line| clarity(line) >= 0);
    instruction
        .or_else(|| headline(request).map(title_line).filter(|line| clarity(line) >= 0))
        .or_else(question)
}

/// Minimum clarity of a request that may name the subject of later turns.
const TOPIC_CLARITY: i32 = 14;

/// The subject of a conversation: the clearest of its requests, given newest first. The newer one wins a tie.
pub fn topic<'a>(requests: impl Iterator<Item = &'a String>) -> Option<String> {
    let stated = requests.filter(|prompt| !is_trivial(prompt)).filter_map(|prompt| stated(prompt));
    let rated = stated.enumerate().map(|(age, line)| (clarity(&line) - age as i32 / 2, line));
    let clear = rated.filter(|(_, line)| clarity(line) >= TOPIC_CLARITY);
    clear.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, line)| line)
}

/// The first question of a prompt, if it is short.
pub(super) fn question(prompt: &str) -> Option<String> {
    let is_short = prompt.len() <= 500 && !prompt.trim_start().starts_with('<');
    sentences_of(prompt).into_iter().take(3).find(|sentence| is_question(sentence)).filter(|_| is_short)
}

/// True for a question that asks for an answer, not for work.
pub(super) fn is_question(sentence: &str) -> bool {
    static REQUEST: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r"(?i)\b(can|could|would|will) you\b|\bplease\b|^(let'?s|ok,? let'?s)\b"));
    const OPENINGS: &str = "is|are|does|do|did|can|could|how|why|what|what's|when|where|which|who|should|would|has|have|was|were|will|isn't|doesn't";
    let asks_for_work = REQUEST.as_ref().is_some_and(|request| request.is_match(sentence));
    let first = sentence.split_whitespace().next().unwrap_or_default().to_lowercase();
    let opens = each(OPENINGS).any(|word| word == first);
    (sentence.ends_with('?') || opens) && sentence.len() <= 240 && !asks_for_work
}

/// The headline of a pasted report: a first line of its own without a verb in the first person.
pub(super) fn headline(prompt: &str) -> Option<&str> {
    let mut lines = prompt.trim().lines();
    let first = lines.next()?;
    let is_followed = lines.any(|line| line.split_whitespace().count() >= 4);
    let words = first.split_whitespace().count();
    let is_line = (4..=14).contains(&words)
        && !first.trim_end().ends_with(['.', '?', ':', ',', '!'])
        && first.starts_with(char::is_uppercase);
    (is_followed && is_line && !is_paste(first) && small_words(first) > 0).then_some(first)
}

/// True if a title begins with a verb of development in its base form.
pub(super) fn begins_with_verb(title: &str, has_acted: bool) -> bool {
    const VERBS: &str = "add|fix|remove|rename|move|make|change|update|use|implement|refactor|ensure|create|write|support|allow|handle|improve|extract|split|merge|convert|replace|show|hide|\
        display|drop|delete|enable|disable|set|increase|decrease|reduce|simplify|migrate|port|document|investigate|debug|analyze|analyse|optimize|validate|verify|log|cache|retry|skip|ignore|keep|\
        prevent|avoid|align|sort|filter|bump|upgrade|configure|install|integrate|introduce|redesign|restore|revert|rewrite|build|propagate|strengthen|extend|expose|wire|strip|store|track|detect|\
        return|render|generate|bring|turn|put|stop|clean|consolidate|unify|inline|deduplicate|adapt|adjust|complete|finish|apply|translate|\
        behebe|füge|entferne|ändere|ajoute|corrige|supprime|renomme";
    const INQUIRIES: &str = "explain|compare|review|check|find|list|investigate|debug|analyze|analyse|verify|plan|design|document";
    let first = title.split_whitespace().next().unwrap_or_default().to_lowercase();
    each(INQUIRIES).chain(each(VERBS).filter(|_| has_acted)).any(|verb| verb == first)
}

/// The sentences that a person wrote: without code, logs, quotes, tables and addresses.
pub(super) fn sentences_of(prompt: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in prompt.lines().take(60) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !trimmed.is_empty() && !is_paste(line) {
            // "Fix the mock: --- FAIL: …": words, then something pasted.
            let typed = match trimmed.split_once(": ") {
                Some((typed, pasted)) if is_paste(pasted) => typed,
                _ => trimmed,
            };
            found.extend(sentences(&plain(typed.trim_start_matches(['-', ' ']))));
        }
        if found.len() >= 6 {
            break;
        }
    }
    found
}

/// True for a line that a person wrote: it has the small words that logs and error messages lack.
pub(super) fn is_prose(line: &str) -> bool {
    line.chars().any(|char| char > '\u{2e7f}') || small_words(line) >= 2
}

fn small_words(line: &str) -> usize {
    const SMALL: &str = "the|a|an|is|are|was|to|we|you|can|it|i|for|in|and|of|should|why|how|do|does|not|when|that|this|with|on|if|be|has|have|but|or|there|only|der|die|das|und|ist|nicht|le|la|les|et|est";
    let lower = line.to_lowercase();
    lower
        .split(|char: char| !char.is_alphanumeric())
        .filter(|word| each(SMALL).any(|known| known == *word))
        .count()
}

/// True for lines that were copied from somewhere: output, code, stack traces.
fn is_paste(line: &str) -> bool {
    let trimmed = line.trim();
    let symbols = trimmed.chars().filter(|char| "{}[]<>=|;$\\│⨯•×✗~^%".contains(*char)).count();
    let letters = trimmed.chars().filter(|char| char.is_alphabetic()).count();
    let lower = trimmed.to_lowercase();
    line.starts_with("    ")
        || line.starts_with('\t')
        || symbols * 8 > trimmed.chars().count()
        || trimmed.starts_with(['[', '('])
        || trimmed.contains(":=")
        || trimmed.ends_with(['[', '{', '(', '=', '\\', ','])
        || letters * 2 < trimmed.chars().filter(|char| !char.is_whitespace()).count()
        || [
            "error:",
            "error ",
            "warning:",
            "fatal:",
            "at ",
            "traceback",
            "exit code",
            "http://",
            "https://",
            "$ ",
            "> ",
            "❯",
            "⏺",
            "⎿",
            "⨯",
            "•",
            "+",
            "remote:",
            "hint:",
            "@",
            "import ",
            "file \"",
            "--- ",
            "+++ ",
        ]
        .iter()
        .any(|start| lower.starts_with(start))
}

/// "Can you please check X?" → "Check X".
pub(super) fn without_politeness(sentence: &str) -> String {
    static POLITE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^[\s*>-]*((hi|hey|hello|ok(ay)?|so|and|also|now|then|alright|well|great|perfect|yes|yeah|no|nope|sorry|please|pls|claude|actually|btw|hm+|another\ (thing|one)|one\ more\ thing
              |(quick\ |next\ )?(question|thing|one|note|idea)|for\ option\ \w+|side\ note|not\ sure\ but)\b[\s,.!:–-]+|check\s*:\s*
            |(can|could|would|will|should)\ (you|we|i)\ (please\ |also\ |maybe\ |then\ |now\ |not\ |just\ |try\ to\ )*
            |(i|we)\ ?('d|\ would)\ (like|love)\ (you\ |us\ )?to\ |(i|we)\ (want|need)\ (you\ )?to\ |(i\ (think|feel|guess|wonder)|i'm\ wondering)\ (now\ )?(like\ |if\ |that\ )?(we\ should\ |you\ should\ |it\ should\ )?
            |(we|you)\ should\ (also\ |now\ |probably\ )*|i\ (just\ )?(realized|noticed|saw|found)\ (that\ )?
            |let'?s\ (also\ |now\ |just\ |then\ |try\ to\ |do\ )*|let\ us\ |help\ me\ (to\ )?|your\ task\ is\ to\ |go\ ahead\ and\ |feel\ free\ to\ |kannst\ du\ (bitte\ )?|bitte\ |peux-tu\ )",
        )
    });
    let mut rest = sentence.trim();
    while let Some(found) =
        POLITE.as_ref().and_then(|polite| polite.find(rest)).filter(|found| found.end() > 0)
    {
        rest = rest[found.end()..].trim_start();
    }
    let rest = rest.trim_end_matches(['?', '.', '!', ':', ' ']);
    capitalised(rest.strip_suffix(", or").unwrap_or(rest))
}

/// One line, capitalised, without the marks around it; a long one ends with a clause.
pub(super) fn title_line(text: &str) -> String {
    let is_mark = |char: char| char.is_whitespace() || "“”*:.,-–—".contains(char);
    let mut line = crate::text::one_line(super::prose::without_number(text.trim_matches(is_mark)));
    if line.chars().count() > TITLE_COLUMNS {
        let head = crate::text::head(&line, TITLE_COLUMNS);
        let ends = ". |, |; |: | - | — | – | (| where | which | because | <- | -> ";
        let is_whole = |cut: &usize| {
            let kept = &line[..*cut];
            *cut >= TITLE_COLUMNS / 3 && kept.matches('`').count().is_multiple_of(2) && !is_dangling(kept)
        };
        let cuts = ends.split('|').flat_map(|end| head.match_indices(end).map(|(at, _)| at));
        if let Some(cut) = cuts.filter(is_whole).max() {
            line.truncate(cut);
        }
    }
    let asking = [", can you", ", could you", ", please", " can you ", "? can "]
        .iter()
        .filter_map(|ask| line.to_lowercase().find(ask))
        .min();
    if let Some(cut) = asking.filter(|cut| *cut >= TITLE_COLUMNS / 3 && line.is_char_boundary(*cut)) {
        line.truncate(cut);
    }
    // Drop an unbalanced parenthesis.
    if line.matches('(').count() > line.matches(')').count()
        && let Some(open) = line.rfind('(').filter(|open| *open >= TITLE_COLUMNS / 4)
    {
        line.truncate(open);
    }
    let line = line.trim_matches(is_mark);
    // Drop an unbalanced quote.
    let is_half_quoted = line.matches('"').count() == 1 && !line.contains('`');
    let line = if is_half_quoted { line.replace('"', "") } else { line.to_owned() };
    capitalised(&shorten(&line, TITLE_COLUMNS))
}

/// True for a statement that something is wrong.
pub(super) fn is_problem(text: &str) -> bool {
    static PROBLEM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)\b(fails?|failing|failed|broken|breaks|errors?|crash(es|ed)?|wrong|missing|lacks?|doesn'?t|does\ not|isn'?t|is\ not
            |can'?t|cannot|silently|duplicated?|unused|confusing|incorrect(ly)?|fehlt|falsch)\b|没有|エラー",
        )
    });
    PROBLEM.as_ref().is_some_and(|problem| problem.is_match(text))
}

/// The statement of a request that reports a problem or gives a reason.
pub(super) fn problem(prompt: &str) -> Option<String> {
    let suggests = |text: &str| {
        ["Consider", "Suggest", "Recommend", "Maybe", "Perhaps"].iter().any(|start| text.starts_with(start))
    };
    let states = |text: &String| {
        (is_problem(text) || super::prose::gives_reason(text))
            && clarity(text) >= 0
            && is_prose(text)
            && !suggests(text)
            && !text.ends_with('?')
            && (6..=60).contains(&text.split_whitespace().count())
    };
    let is_users = !prompt.trim_start().starts_with('<');
    sentences_of(prompt).into_iter().find(states).filter(|_| is_users)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_without_a_request_are_trivial() {
        for prompt in [
            "commit",
            "yes",
            "1",
            "ok, commit and push please",
            "Option 2",
            "thanks!",
            "/clear",
            "go ahead",
            "continue",
            "b",
            "yes do it",
            "提交",
            "<task-notification>\n<task-id>x</task-id>",
            "",
            "looks good, commit",
            "[Request interrupted by user]",
            "danke",
            "Perfect, let's commit this",
        ] {
            assert!(is_trivial(prompt), "{prompt}");
        }
        for prompt in [
            "yes, but use a queue",
            "commit only the parser",
            "fix lint",
            "/home/dev/a.log shows an error",
            "why?!? it crashed",
            "/review-pr 12 quickly",
            "修复登录",
        ] {
            assert!(!is_trivial(prompt), "{prompt}");
        }
    }

    #[test]
    fn a_plan_gives_its_heading_and_its_reason() {
        let text = "Implement the following plan:\n\n# Plan: Bug Fix: Keep the lock\n\n## Context\n\nTwo workers write one file. The second wins.\n\n## Steps\n1. x";
        assert_eq!(
            plan(text),
            Some(Plan {
                heading: "Keep the lock".into(),
                context: "Two workers write one file. The second wins.".into()
            })
        );
        assert_eq!(plan("fix the # sign"), None);
        assert_eq!(plan("# Retry uploads\n\nNo section here.").unwrap().context, "");
    }

    #[test]
    fn a_request_is_stated_only_if_a_newcomer_understands_it() {
        for (prompt, expected) in [
            (
                "can you please check whether the upload queue drops events?",
                Some("Check whether the upload queue drops events"),
            ),
            (
                "ok, let's rename parseFoo to readFoo in the lexer",
                Some("Rename parseFoo to readFoo in the lexer"),
            ),
            (
                "Session list ignores the branch filter\n\nMedium severity, see list.go",
                Some("Session list ignores the branch filter"),
            ),
            ("I think by file is too much", None),
            ("why is that?", None),
            ("this should maybe be a solved problem", None),
            ("  ⨯ release failed after 0s\n    error= bad yaml", None),
            ("run the tests again", None),
            (
                "it fails. Retry uploads when the signed URL expires",
                Some("Retry uploads when the signed URL expires"),
            ),
        ] {
            assert_eq!(stated(prompt).as_deref(), expected, "{prompt}");
        }
    }
}
