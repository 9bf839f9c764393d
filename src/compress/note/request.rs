//! The request behind a turn: its title, its context, and whether it has any content.

use std::sync::LazyLock;

use regex::Regex;

use super::prose::{plain, sentences, whole_sentences};
use super::title::{is_balanced, is_banned, is_clear, is_clear_question, is_name, strong_words, title_line};
use crate::compress::turn::is_client_text;
use crate::text::{capitalised, each, pattern};

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
            r"(?i)^((implementation |migration |refactoring )?plan|feature|task|proposal|rfc|spec)( plan)?(\s*[:—–]\s*|\s+-\s+)",
        )
    });
    let mut heading = plain(heading_line.trim_start_matches('#'));
    while let Some(prefix) = PREFIX.as_ref().and_then(|prefix| prefix.find(&heading)) {
        heading = heading[prefix.end()..].to_owned();
    }
    let fix = ["bug fix:", "bugfix:"].iter().find(|start| heading.to_lowercase().starts_with(*start));
    if let Some(fix) = fix {
        heading = format!("Fix:{}", &heading[fix.len()..]);
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

/// One line of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// "Rename X": it names work.
    Instruction,
    /// "Why does X?", "Check X": it asks for an answer.
    Question,
    /// "X is broken".
    Report,
}

/// The first lines of a request that a newcomer understands, with their kinds.
pub(super) fn lines(request: &str) -> Vec<(Asked, String)> {
    if let Some(plan) = plan(request) {
        return vec![(Asked::Instruction, plan.heading)];
    }
    let line = |sentence: String| {
        let asked = sentence.split_once("? ").map_or(sentence.as_str(), |(asked, _)| asked);
        let bare = without_politeness(asked);
        let kind = if is_question(&sentence) || begins_with(INQUIRIES, &bare) {
            Asked::Question
        } else if begins_with(VERBS, &bare) {
            Asked::Instruction
        } else {
            Asked::Report
        };
        let end = if is_question(&sentence) && sentence.contains('?') { "?" } else { "" };
        (kind, format!("{}{end}", title_line(&bare)))
    };
    let found = opening(request).flat_map(|sentence| parts(&sentence)).map(line).enumerate();
    // A prompt may begin with the heading of a report that was copied; elsewhere copied lines are output.
    let is_typed = |at: usize, line: &str| is_prose(line) || at == 0 && !line.contains(['/', '\\']);
    found
        .filter(|(at, (kind, line))| {
            is_clear(line.trim_end_matches('…')) && (*kind != Asked::Report || is_typed(*at, line))
        })
        .map(|(_, found)| found)
        .collect()
}

/// "X is broken, can you fix Y?" → "Fix Y" and "X is broken"; the instruction goes first.
fn parts(sentence: &str) -> Vec<String> {
    static ASKING: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)(,|;| -|:| so| and| but)+ (please|can (you|we)|could (you|we)|let'?s|let us|wondering)\b",
        )
    });
    let asking = ASKING.as_ref().and_then(|asking| asking.find(sentence)).filter(|found| found.start() > 20);
    match asking {
        Some(found) => {
            let (report, asked) = sentence.split_at(found.start());
            let asked = asked.trim_start_matches(|char: char| !char.is_alphabetic());
            let asked = asked.strip_prefix("so ").or(asked.strip_prefix("and ")).unwrap_or(asked);
            vec![asked.to_owned(), report.to_owned()]
        }
        None => vec![sentence.to_owned()],
    }
}

/// The first sentences of a request; none of a command or of the client's text.
fn opening(request: &str) -> impl Iterator<Item = String> {
    let is_typed = !request.trim_start().starts_with(['/', '<']);
    let sentences = if is_typed { sentences_of(request) } else { Vec::new() };
    sentences.into_iter().take(6)
}

/// The question of a request in its own form, for a turn that only answered: "Can we drop X?" is not "Drop X".
pub(super) fn question(request: &str) -> Option<String> {
    if plan(request).is_some() {
        return None;
    }
    opening(request).find_map(|sentence| {
        let asked = sentence.split_once('?').map_or(sentence.as_str(), |(asked, _)| asked);
        let (bare, whole) = (without_politeness(asked), without_interjection(asked));
        let is_inquiry = begins_with(INQUIRIES, &bare);
        let line = match () {
            () if is_inquiry => title_line(&bare),
            () if sentence.contains('?') => format!("{}?", title_line(&whole)),
            () if is_question(&sentence) => title_line(&whole),
            () => return None,
        };
        is_clear_question(&line).then_some(line)
    })
}

/// The first sentence of a request that says much, in the user's own words; what it points at may be out of sight.
pub(super) fn worded(request: &str) -> Option<String> {
    opening(request).flat_map(|sentence| parts(&sentence)).find_map(|sentence| {
        let line = match is_question(&sentence) {
            true => {
                format!("{}?", title_line(without_interjection(&sentence).trim_end_matches(['?', ' ', '!'])))
            }
            false => title_line(&without_politeness(&sentence)),
        };
        let has_name = line.split_whitespace().any(is_name);
        let says_much = strong_words(&line) >= if has_name { 3 } else { 4 };
        let is_typed = is_prose(&line) && line.starts_with(char::is_alphabetic) && !line.contains("://");
        (says_much && is_typed && is_balanced(&line) && !is_banned(&line)).then_some(line)
    })
}

/// "Ok, so can we drop X" → "can we drop X".
fn without_interjection(sentence: &str) -> String {
    static INTERJECTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)^((hi|hey|ok(ay)?|so|and|also|now|then|ah|oh|hm+|well|but|yes|no|right|great|perfect|question|quick question|btw)\b[\s,.!:–-]+)+",
        )
    });
    INTERJECTION.as_ref().map_or(sentence.into(), |opening| opening.replace(sentence.trim(), "")).into_owned()
}

/// The line that states the request: an instruction or a question. A report alone has no request.
pub(super) fn stated(request: &str) -> Option<String> {
    lines(request).into_iter().find(|(kind, _)| *kind != Asked::Report).map(|(_, line)| line)
}

/// The first words of a request as a title, clear or not; `None` if they say nothing.
pub(super) fn first_line(request: &str) -> Option<String> {
    let first = sentences_of(request).into_iter().next()?;
    let line = title_line(&without_politeness(&first));
    let line = if first.ends_with('?') { format!("{line}?") } else { line };
    let is_talk = ["I ", "I'm", "How about", "But ", "And ", "So ", "What about"]
        .iter()
        .any(|start| line.starts_with(start))
        || line.contains(" I ");
    (!is_talk && !is_banned(&line) && line.split_whitespace().count() >= 4 && !is_trivial(&line))
        .then_some(line)
}

/// True for a question that asks for an answer, not for work.
fn is_question(sentence: &str) -> bool {
    static REQUEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(r"(?i)\b(can|could|would|will) (you|we)\b|\bplease\b|^(let'?s|ok,? let'?s)\b")
    });
    const OPENINGS: &str = "is|are|does|do|did|can|could|how|why|what|what's|when|where|which|who|should|would|has|have|was|were|will|isn't|doesn't";
    let asks_for_work = REQUEST.as_ref().is_some_and(|request| request.is_match(sentence));
    let first = sentence.split_whitespace().next().unwrap_or_default().to_lowercase();
    let opens = each(OPENINGS).any(|word| word == first) && !matches!(first.as_str(), "when" | "where");
    (sentence.ends_with('?') || opens) && sentence.len() <= 240 && !asks_for_work
}

/// Verbs of development, in their base form.
const VERBS: &str = "add|fix|remove|rename|move|make|change|update|use|implement|refactor|ensure|create|write|support|allow|handle|improve|extract|split|merge|convert|replace|show|hide|\
    display|drop|delete|enable|disable|set|increase|decrease|reduce|simplify|migrate|port|document|optimize|validate|log|cache|retry|skip|ignore|keep|\
    prevent|avoid|align|sort|filter|bump|upgrade|configure|install|integrate|introduce|redesign|restore|revert|rewrite|build|propagate|strengthen|extend|expose|wire|strip|store|track|detect|\
    rework|restructure|reorganize|tweak|prefill|abandon|bundle|fold|wrap|address|preserve|resolve|expand|shorten|limit|group|highlight|mock|publish|rebase|squash|parse|calculate|\
    return|render|generate|bring|turn|put|stop|clean|consolidate|unify|inline|deduplicate|adapt|adjust|complete|finish|apply|translate|\
    behebe|füge|entferne|ändere|ajoute|corrige|supprime|renomme";
/// Verbs that ask for an answer.
const INQUIRIES: &str = "explain|compare|review|check|find|list|investigate|debug|analyze|analyse|verify|plan|design|look|see|tell|describe|prüfe|erkläre";

/// True for a verb of development in its base form.
pub(super) fn is_verb(word: &str) -> bool {
    each(VERBS).any(|verb| verb == word)
}

fn begins_with(verbs: &'static str, line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default().to_lowercase();
    each(verbs).any(|verb| verb == first.trim_end_matches([':', ',']))
}

/// The sentences that a person wrote: without code, logs, quotes, tables and addresses.
fn sentences_of(prompt: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    let lines: Vec<(&str, bool)> =
        prompt.lines().take(60).map(|line| (line, !line.trim().is_empty() && is_paste(line))).collect();
    for (at, (line, is_paste_itself)) in lines.iter().copied().enumerate() {
        let trimmed = line.trim();
        // A line between two pasted ones came with them.
        let is_near = |near: Option<usize>| near.and_then(|near| lines.get(near)).is_some_and(|line| line.1);
        let is_pasted = is_paste_itself || is_near(at.checked_sub(1)) && is_near(Some(at + 1));
        if trimmed.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !trimmed.is_empty() && !is_pasted {
            // "Fix the mock: --- FAIL: …": words, then something pasted.
            let typed = match trimmed.split_once(": ") {
                Some((typed, pasted)) if is_paste(pasted) => typed,
                _ => trimmed,
            };
            let typed = sentences(&plain(typed.trim_start_matches(['-', ' ']))).into_iter();
            found.extend(typed.filter(|sentence| !is_paste(sentence)));
        }
        if found.len() >= 6 {
            break;
        }
    }
    found
}

/// True for a line that a person wrote: it has the small words that logs and error messages lack.
fn is_prose(line: &str) -> bool {
    const SMALL: &str = "the|a|an|is|are|was|to|we|you|can|it|i|for|in|and|of|should|why|how|do|does|not|when|that|this|with|on|if|be|has|have|but|or|there|only|der|die|das|und|ist|nicht|le|la|les|et|est";
    let lower = line.to_lowercase();
    let words = lower.split(|char: char| !char.is_alphanumeric());
    let small = words.filter(|word| each(SMALL).any(|known| known == *word)).count();
    small >= 2 || line.chars().any(|char| char > '\u{2e7f}')
}

/// True for lines that were copied from somewhere: output, code, stack traces.
fn is_paste(line: &str) -> bool {
    let trimmed = line.trim();
    let symbols = trimmed.chars().filter(|char| "{}[]<>=|;$\\│⨯•×✗~^%".contains(*char)).count();
    let letters = trimmed.chars().filter(|char| char.is_alphabetic()).count();
    static START: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r#"(?i)^(error[: ]|(warning|fatal|remote|hint):|at |traceback|exit code|https?://|import |file "|--- |===|(create|delete|rename) mode |[\w-]+: (cannot|no such|not found|error|command)|\d+ files? changed|[\[(+@❯⏺⎿⨯•]|[$>] )"#,
        )
    });
    line.starts_with("    ")
        || line.starts_with('\t')
        || symbols * 8 > trimmed.chars().count()
        || trimmed.contains(":=")
        || trimmed.ends_with(['[', '{', '(', '=', '\\', ','])
        || letters * 2 < trimmed.chars().filter(|char| !char.is_whitespace()).count()
        || START.as_ref().is_some_and(|start| start.is_match(trimmed))
}

/// "Can you please check X?" → "Check X".
fn without_politeness(sentence: &str) -> String {
    static POLITE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^[\s*>-]*((hi|hey|hello|ok(ay)?|so|and|but|also|now|then|alright|well|great|perfect|yes|yeah|no|nope|sorry|please|pls|claude|actually|basically|btw|hm+|another\ (thing|one)|one\ more\ thing
              |(quick\ |next\ )?(question|thing|one|note|idea)|for\ option\ \w+|side\ note|not\ sure\ but)\b[\s,.!:–-]+|check\s*:\s*
            |(can|could|would|will|should)\ (you|we|i)\ (please\ |also\ |maybe\ |then\ |now\ |not\ |just\ |try\ to\ )*
            |(i|we)\ ?('d|\ would)\ (like|love)\ (you\ |us\ )?to\ |(i|we)\ (want|need)\ (you\ )?to\ |(i\ (think|feel|guess|wonder)|i'm\ wondering)\ (now\ )?(like\ |if\ |that\ )?(we\ should\ |you\ should\ |it\ should\ )?
            |(we|you)\ should\ (also\ |now\ |probably\ )*|i\ (just\ |also\ |now\ )*(realized|noticed|saw|found|see|understand)\ ((an\ issue|a\ bug|that|where|when)[\ ,:]+)*
            |i\ (just\ |also\ )?(got|have|received)\ [^:.]*(feedback|comment|review|report|suggestion)[^:.]*:\s+
            |keep\ in\ mind\ that\ |thinking\ (again|about\ it)[\s:,]+|(but\ |i'?m\ |i\ was\ |just\ |now\ )*wondering(\ now|\ if|\ whether)*[\s:,]+|if\ that'?s\ the\ case,?\ |(we|you)\ need\ to\ |completely\ 
            |let'?s\ (also\ |now\ |just\ |then\ |try\ to\ |do\ )*|let\ us\ |help\ me\ (to\ )?|your\ task\ is\ to\ |go\ ahead\ and\ |feel\ free\ to\ |kannst\ du\ (bitte\ )?|bitte\ |peux-tu\ )",
        )
    });
    let mut rest = sentence.trim();
    while let Some(found) =
        POLITE.as_ref().and_then(|polite| polite.find(rest)).filter(|found| found.end() > 0)
    {
        rest = rest[found.end()..].trim_start();
    }
    static TO_ME: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r"(?i)^(explain|show|tell|give|list|help|remind) (to )?(me|us) "));
    let rest = TO_ME.as_ref().map_or(rest.into(), |to_me| to_me.replace(rest, "$1 "));
    let rest = rest.trim_end_matches(['?', '.', '!', ':', ' ']);
    capitalised(rest.strip_suffix(", or").unwrap_or(rest))
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
                heading: "Fix: Keep the lock".into(),
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
            ("Session list ignores the branch filter\n\nMedium severity, see list.go", None),
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
