//! What lasts of an English sentence.
//!
//! "Always return a list" is a rule, "it always returns null" describes a bug, and "never mind" is neither: only an
//! imperative, or what "we" or "you" do or should do, counts.

use super::said::{Heard, Leads, Led};
use super::{each, sure};

/// What may come before an instruction.
const LEADS: Leads = Leads {
    plain: "please|pls|and|also|but|so|ok|okay|hey|hi|claude|well|again|then|important|note|reminder|rule|\
    btw|by the way|as i said|like i said|thanks|yes|in this repo|in this repository|in this project|\
    in this codebase|in our codebase|around here|just|in general|generally|as always",
    lasting: "from now on|going forward|from here on|in the future|in future|as a rule|for future reference|\
    remember to|remember that|remember|keep in mind that|keep in mind|make sure to always|\
    make sure you always|be sure to always|for next time",
    correcting: "no|nope|nah|wrong|not quite|that's wrong|that’s wrong|that is wrong|that's not right|\
    that’s not right|that is not right|incorrect|actually|not like that",
    led,
    led_by_no: led_by_pause,
};

/// What says that it concerns the task at hand alone.
const PASSING: &str = "for now|this time|just this once|right now|today|temporarily|yet|until|at the moment|\
    for this task|for this change|for this one|for this test|for this pr|in this pr|in this commit|\
    in this change|for the moment|tomorrow|tonight|in this case|this once";

/// What refers to something that a later session cannot see.
const POINTING: &str = "it|that|this|them|these|those|one|ones|what|whatever|your|him|her|the first|the second|\
    the third|the other|the same|the one|the old|the new|the latter|the former|the following|\
    the above|anything|everything|mine";

/// Verbs of instructions, in the form that instructions have.
const VERBS: &str = "use|run|write|add|keep|put|make|check|test|commit|push|prefer|avoid|ask|create|update|format|\
    lint|call|name|import|export|return|throw|raise|handle|log|document|include|exclude|set|start|\
    stop|build|install|deploy|merge|rebase|squash|sign|edit|change|modify|delete|remove|touch|read|\
    open|close|wrap|validate|escape|sanitize|sanitise|mock|skip|ignore|assume|trust|rely|store|\
    hardcode|hard-code|print|catch|swallow|do|be|leave|let|follow|pass|pin|quote|type|declare|\
    define|reply|respond|answer|speak|explain|show|give|tell|confirm|verify|ensure|go|copy|move|\
    rename|refactor|force|force-push|bump|tag|release|publish|generate|regenerate|compile|cache|\
    lock|await|bind|prefix|suffix|sort|group|indent|comment|reuse|inline|extract|split|combine|\
    disable|enable|restart|kill|load|fetch|query|render|ship|review|respect|treat|mention|send|save|\
    reference|implement|expose|introduce|suppress|mutate|block|switch|stick|omit|preserve|register|\
    annotate|parse|request|use:|access|consult|look|mix|overwrite|revert|amend|bypass|upgrade|\
    downgrade|vendor|stage|spell|translate";

pub(super) fn heard(text: &str, corrects: bool) -> Option<Heard> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let lower = rest.to_lowercase();
    let passes = each(PASSING).any(|word| has_word(&lower, word)) || points(&lower);
    if passes || is_remark(&lower) {
        return None;
    }
    rule(rest, &lower)
        .or_else(|| should(rest, &lower))
        .or_else(|| conditional(rest, &lower))
        .or_else(|| preference(rest, &lower))
        .or_else(|| comparison(rest, &lower, corrects))
        .or_else(|| refusal(rest, &lower))
        .or_else(|| corrects.then(|| correction(rest, &lower)).flatten())
        .or_else(|| lasts.then(|| statement(rest, &lower)).flatten())
        .or_else(|| custom(rest, &lower))
}

/// What follows a lead, if the text begins with it.
fn led<'t>(text: &'t str, lead: &str) -> Option<&'t str> {
    let rest = strip_prefix(text, lead)?;
    let after = rest.trim_start_matches([',', ':', ' ', '-', '–', '—', '!', '.', ';']);
    (after.len() < rest.len() && !after.is_empty()).then_some(after)
}

/// The same where a pause must follow: "no, use" corrects, "no use" does not.
fn led_by_pause<'t>(text: &'t str, lead: &str) -> Option<&'t str> {
    let rest = strip_prefix(text, lead)?;
    let pauses = rest.trim_start().starts_with([',', ':', '-', '–', '—', '!', ';', '.']);
    let continues = ["don't", "don’t", "do not", "we use", "never", "always"];
    let after = led(text, lead)?;
    let lower = after.to_lowercase();
    (pauses || continues.iter().any(|word| starts_with_word(&lower, word))).then_some(after)
}

fn strip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

fn starts_with_word(lower: &str, word: &str) -> bool {
    lower
        .strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '\''))
}

fn has_word(lower: &str, word: &str) -> bool {
    lower.match_indices(word).any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric) && starts_with_word(&lower[at..], word)
    })
}

/// The first word without what surrounds it.
fn first_word(lower: &str) -> &str {
    lower.split_whitespace().next().unwrap_or_default().trim_matches([',', ':', ';', '"', '\''])
}

fn is_verb(lower: &str) -> bool {
    each(VERBS).any(|known| known == first_word(lower))
}

/// Whether what is spoken of stands outside the sentence: "never do that again", "use the other one".
fn points(lower: &str) -> bool {
    let mut rest = lower;
    for lead in
        ["always ", "never ", "don't ", "don’t ", "do not ", "dont ", "ever ", "use ", "run ", "call ", "do "]
    {
        rest = rest.strip_prefix(lead).unwrap_or(rest);
    }
    let object = rest.split_once(' ').filter(|_| is_verb(rest)).map_or(rest, |(_, object)| object);
    let is_there = |text: &str| each(POINTING).any(|word| starts_with_word(text, word));
    is_there(rest) || is_there(object)
}

/// Phrases that only look like instructions.
fn is_remark(lower: &str) -> bool {
    const REMARKS: &str = "never mind|nevermind|never again|never ever mind|always the|always a |as always|don't worry|\
        don’t worry|do not worry|don't know|don’t know|do not know|don't think|don’t think|don't see|\
        don’t see|don't understand|don’t understand|don't forget|don’t forget|don't bother|don't need|\
        don't care";
    each(REMARKS).any(|remark| lower.starts_with(remark))
}

/// "Always …", "never …", "don't ever …".
fn rule(text: &str, lower: &str) -> Option<Heard> {
    for word in ["always", "never"] {
        if let Some(rest) = lower.strip_prefix(word).map(str::trim_start)
            && is_verb(rest)
            && rest.contains(' ')
        {
            return Some(Heard::new(text, sure::RULE));
        }
    }
    for word in ["don't ever ", "don’t ever ", "do not ever ", "dont ever "] {
        if let Some(rest) = lower.strip_prefix(word)
            && is_verb(rest)
        {
            return Some(Heard::new(format!("Never {}", &text[text.len() - rest.len()..]), sure::RULE));
        }
    }
    None
}

/// "You should always …", "we never …", "tests must never …".
fn should(text: &str, lower: &str) -> Option<Heard> {
    let (at, word) = ["always", "never"]
        .into_iter()
        .filter_map(|word| lower.find(&format!(" {word} ")).map(|at| (at + 1, word)))
        .min()?;
    let (before, after) = (lower[..at].trim_end(), &lower[at + word.len() + 1..]);
    let modals = [" should", " must", " have to", " need to", " shall", " want you to"];
    let modal = modals.iter().find_map(|modal| before.strip_suffix(modal));
    let subject = modal.unwrap_or(before);
    let is_us = matches!(subject, "you" | "we" | "i" | "everyone" | "one" | "people");
    let by_us = is_us && (modal.is_some() || subject == "we") && is_verb(after);
    if by_us {
        let own = modal.is_some() && subject != "we";
        let content = if own { text.get(at..)? } else { text };
        return Some(Heard::new(content, sure::RULE));
    }
    // What holds for a kind of thing is a rule; what holds for "the function" is what is to be built.
    let pointed =
        ["the", "this", "that", "it", "these", "those", "my", "your", "he", "she", "they", "i", "there"];
    let is_kind = modal.is_some()
        && subject.split_whitespace().count() <= 4
        && !pointed.contains(&first_word(subject))
        && (is_verb(after) || after.starts_with("have ") || after.starts_with("contain "));
    is_kind.then(|| Heard::new(text, sure::SHOWN))
}

/// "Before you push, always run the linter".
fn conditional(text: &str, lower: &str) -> Option<Heard> {
    let (condition, rest) = lower.split_once(", ")?;
    let opens = [
        "when", "whenever", "before", "after", "if", "for", "in", "on", "while", "with", "inside", "for all",
    ];
    if !opens.contains(&first_word(condition)) {
        return None;
    }
    let word = ["always ", "never "].into_iter().find(|word| rest.starts_with(word))?;
    is_verb(&rest[word.len()..]).then(|| Heard::new(text, sure::RULE))
}

/// "I prefer …".
fn preference(text: &str, lower: &str) -> Option<Heard> {
    const FORMS: &str = "i prefer |we prefer |i'd prefer |i’d prefer |i would prefer |i always want |i like my |\
        i want you to always ";
    let rest = each(FORMS).find_map(|form| lower.strip_prefix(form))?;
    let is_wish = rest.starts_with("to ") || rest.starts_with("if ") || rest.starts_with("not ");
    // "I'd prefer if you did the first one" is about the task.
    (!is_wish && !each(POINTING).any(|word| starts_with_word(rest, word))).then(|| Heard::preference(text))
}

/// "Use this instead of that", "prefer this over that".
fn comparison(text: &str, lower: &str, corrects: bool) -> Option<Heard> {
    let compares = [" instead of ", " rather than ", ", not ", " not ", " over "]
        .iter()
        .any(|word| lower.contains(word));
    let begins = ["use ", "prefer ", "we use ", "stick to ", "stick with ", "write ", "put "];
    (compares && begins.iter().any(|verb| lower.starts_with(verb)))
        .then(|| Heard::new(text, if corrects { sure::CORRECTION } else { sure::SHOWN }))
}

/// "Don't use …", "avoid …", "stop adding …".
fn refusal(text: &str, lower: &str) -> Option<Heard> {
    for (form, confidence) in [
        ("don't use ", sure::SHOWN),
        ("don’t use ", sure::SHOWN),
        ("do not use ", sure::SHOWN),
        ("stop using ", sure::SHOWN),
        ("avoid ", sure::HEARD),
        ("don't ", sure::HEARD),
        ("don’t ", sure::HEARD),
        ("do not ", sure::HEARD),
    ] {
        let Some(rest) = lower.strip_prefix(form) else { continue };
        let takes_verb = form.starts_with("do") && !form.ends_with("use ");
        if rest.is_empty() || (takes_verb && !(is_verb(rest) && rest.contains(' '))) {
            return None;
        }
        return Some(Heard::new(text, confidence));
    }
    let (verb, object) = lower.strip_prefix("stop ")?.split_once(' ')?;
    (verb.ends_with("ing") && !object.is_empty()).then(|| Heard::new(text, sure::SHOWN))
}

/// "No, use …", "no, the port is …".
fn correction(text: &str, lower: &str) -> Option<Heard> {
    if lower.starts_with("use ") || lower.starts_with("we use ") {
        return Some(Heard::new(text, sure::CORRECTION));
    }
    if is_verb(lower) && lower.contains(' ') {
        return Some(Heard::new(text, sure::HEARD));
    }
    let states =
        [" is ", " are ", " uses ", " lives in ", " goes in ", " belongs in ", " live in ", " go in "];
    let pronouns =
        ["it", "that", "this", "they", "there", "i", "you", "he", "she", "what", "these", "those", "that's"];
    let says = states.iter().any(|verb| lower.contains(verb)) && !pronouns.contains(&first_word(lower));
    (says && lower.split_whitespace().count() >= 4).then(|| Heard::new(text, sure::HEARD))
}

/// What is to be remembered, whatever it is.
fn statement(text: &str, lower: &str) -> Option<Heard> {
    let recalls = ["when", "how", "what", "where", "the", "me", "last", "our"].contains(&first_word(lower));
    let says = lower.contains(" is ")
        || lower.contains(" are ")
        || lower.contains(" must ")
        || lower.contains(" needs ");
    let lasts = is_verb(lower) || !recalls || says;
    (lasts && lower.split_whitespace().count() >= 3).then(|| Heard::new(text, sure::RULE))
}

/// "We use …", "this project uses …".
fn custom(text: &str, lower: &str) -> Option<Heard> {
    const FORMS: &str = "we use |our team uses |this project uses |this repo uses |the project uses |the repo uses |\
        this codebase uses ";
    let rest = each(FORMS).find_map(|form| lower.strip_prefix(form))?;
    let points = each(POINTING).any(|word| starts_with_word(rest, word));
    (!points).then(|| Heard::new(text, sure::SHOWN))
}
