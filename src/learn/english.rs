//! Lasting rules in English sentences.
//!
//! "Always run the linter" is a rule; "it always returns null" describes a bug, "always show the header" a feature, and
//! "don't commit yet" concerns the task. A sentence counts if it is about the conduct of developers rather than of
//! programs, and if a later session can understand it without the one it was written in.

use super::each;
use super::rules::{FoundRule, Leads, Led, Pause};
use crate::text::is_one_of;

const LEADS: Leads = Leads {
    plain: (
        "please|pls|and|also|but|so|ok|okay|hey|hi|claude|well|again|then|important|note|reminder|rule|btw|by the way|\
        as i said|like i said|thanks|yes|in this repo|in this repository|in this project|in this codebase|\
        in our codebase|in our project|around here|just|in general|generally|as always|make sure that you|make sure that|\
        make sure to|make sure you|make sure|be sure to|ensure that|ensure|i want you to|i need you to|one more thing|\
        for the record|fyi|it's important to|it is important to|it's important that you|it's important that",
        Pause::Blank,
    ),
    lasting: (
        "from now on|from here on|from this point on|going forward|in the future|in future|as a rule|\
        as a general rule|for future reference|remember to|remember that|remember|for next time",
        Pause::Blank,
    ),
    correcting: "no|nope|nah|wrong|not quite|that's wrong|that is wrong|that's not right|that is not right|incorrect|\
        actually|not like that",
};

/// Words that limit a sentence to the task, or make it a thought.
const PASSING: &str = "for now|this time|once|now|today|tomorrow|tonight|temporarily|yet|until|currently|for the moment|\
    at the moment|in this case|i think|i guess|i believe|maybe|perhaps|might|wondering|not sure|let's|lets|for example|\
    another|step|phase|instead|as well|too";

/// Openings of objects that only this session can see.
const POINTING: &str = "it|its|that|this|them|these|those|they|one|ones|what|whatever|your|you|him|her|me|mine|the first|\
    the second|the third|the last|the other|the same|the one|the old|the new|the latter|the former|the following|\
    the above|the current|the existing|the previous|anything|everything|something|so|more|such|again";

/// Objects that are named without an article or a pronoun are kinds of things, not one of them.
const ARTICLES: &str = "the|a|an|my|our|his|their|any of|all of|both|either|each of|some";

/// "This" and "these" before other words point into the session.
const SHARED_THINGS: &str =
    "repo|repository|project|codebase|monorepo|workspace|team|package|app|machine|computer";

/// Openings of questions, with or without their mark.
const QUESTIONS: &str = "do we|do you|do i|do they|does|did|is|are|was|should|would|could|can|why|what|how|where|who|which|has|have";

/// Verbs for the actions of developers.
const CONDUCT: &str = "use|run|rerun|write|add|put|check|test|commit|push|prefer|avoid|ask|update|format|lint|name|import|\
    export|document|sign|edit|change|modify|touch|merge|rebase|squash|mock|stub|skip|hardcode|hard-code|log|catch|\
    swallow|pin|follow|reply|respond|answer|explain|confirm|verify|force-push|bump|tag|release|publish|deploy|install|\
    make|read|assume|trust|rely|keep|wrap|validate|escape|sanitize|sanitise|quote|declare|annotate|comment|prefix|\
    implement|introduce|suppress|disable|bypass|amend|revert|upgrade|downgrade|vendor|stage|spell|translate|review|\
    respect|mention|ignore|reuse|refactor|rename|build|compile|regenerate|mix|do|be|speak|consult|treat|work|leave|\
    guess|invent|abbreviate|nest|mutate|access|query|include|stick|go|start|plan|research|look|search|branch|cast|type|\
    define|reference|raise|throw|await|target|store|depend|copy|duplicate|stop|double-check|fix|require|escalate|propose|\
    wait|present|summarize|summarise|provide|tell me|give me|show me|create a branch|create a pr|create a test|\
    create a migration|create a commit|create a worktree|create tests";

/// Verbs for the actions of programs: forbidding them describes a feature, as demanding them does.
const BEHAVIOUR: &str = "show|display|render|hide|return|appear|trigger|fire|fail|crash|happen|work|load|expire|reach|complete|\
    finish|end|get|have|see|know|seem|exist|change|match|hit|had|got|seen|been|was|were|done|made|gone|saw|went|came|ran|\
    need|want|think|care|worry|like|understand|believe|bother|forget|remember|expect|worked|understood|found|heard|thought|mind|again|before|once|ever|the|a|an|in|on|at|of|if|when|any|more|less|so|to";

/// Things that rules are made for.
const ARTIFACTS: &str = "test|unit test|commit|message|file|migration|function|method|class|component|import|export|endpoint|\
    handler|error|exception|secret|password|token|pr|branch|type|name|comment|log|query|string|doc|docstring|dependency|\
    dependencies|queries|branches|classes|script|config|module|package|table|column|route|service|hook|variable|constant|\
    api|change|snapshot|fixture|mock|date|timestamp|id|code|documentation|feature|fix|bugfix|release|version|interface|\
    struct|enum|prop|style|selector|url|path|header|todo|assertion|label|translation|template|view|controller|model|\
    serializer|schema|event|job|task|request|pull request|merge request|callback|loop|test case|flag|setting|line|\
    language|title|description|bug|helper|library|libraries|tool|feature branch|credential|key|resource|script|plugin";

pub(super) fn rule(text: &str, corrects: bool) -> Option<FoundRule> {
    let Led { rest, corrects, lasts } = LEADS.strip(text, corrects);
    let (rest, lasts) = if let Some(rest) = without_lasting_end(rest) { (rest, true) } else { (rest, lasts) };
    let lower = lowered(rest);
    let (claim, has_reason) = claim(&lower);
    if !stands_alone(claim) {
        return None;
    }
    let main = after_condition(claim);
    let strict = is_absolute(main) || person(main) || is_before_each(main) || (lasts && states(main));
    if strict || artifact(main) {
        return Some(FoundRule::strict(rest));
    }
    let custom = refuses(main, has_reason) || allows_only(main) || is_custom(main) || is_preference(main);
    if custom {
        return Some(FoundRule::custom(rest));
    }
    compares(main, corrects).then(|| FoundRule::comparison(rest)).flatten().or_else(|| later_clause(rest))
}

/// The lower-case sentence, with one form of "don't".
fn lowered(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    each("do not |dont |never ever |under no circumstances ")
        .zip(["don't ", "don't ", "never ", "never "])
        .fold(lower, |lower, (form, plain)| lower.replace(form, plain))
}

/// The sentence without its reason, and whether it had a reason that goes beyond the writer's plans.
fn claim(lower: &str) -> (&str, bool) {
    let joint = each(" because | since | as that | as it | as this | as they | so that |, so | otherwise ")
        .filter_map(|joint| Some((lower.find(joint)?, joint)))
        .min();
    match joint {
        Some((end, joint)) => {
            let reason = &lower[end + joint.len()..];
            (&lower[..end], !begins_with(reason, "i|i'm|i'll|i've|we|we're|we'll|my|you"))
        }
        None => (lower, false),
    }
}

/// "Fix the login, and please never log passwords": only clauses that cannot belong to the task before them.
fn later_clause(text: &str) -> Option<FoundRule> {
    let lower = text.to_ascii_lowercase();
    let starts = each(", | and | but ")
        .flat_map(|joint| lower.match_indices(joint).map(|(at, joint)| at + joint.len()).collect::<Vec<_>>());
    let mut starts: Vec<usize> = starts.collect();
    starts.sort_unstable();
    starts.into_iter().find_map(|start| {
        let clause = lowered(&lower[start..]);
        let clause = clause.trim_start_matches("and ").trim_start_matches("but ");
        let is_lasting = begins_with(clause, "please always|please never|from now on|going forward");
        let refuses = refusal(clause).is_some_and(is_general) && !clause.starts_with("we ");
        if is_lasting || refuses { rule(text.get(start..)?, false) } else { None }
    })
}

/// "Can you always run the linter?" asks for something; other questions ask about it.
pub(super) fn request(text: &str) -> Option<FoundRule> {
    let text = LEADS.strip(text, false).rest;
    let start = each("can you |could you |would you |will you ")
        .find(|start| text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)))?;
    let rest = LEADS.strip(&text[start.len()..], false).rest;
    let lower = lowered(rest);
    (stands_alone(&lower) && is_absolute(&lower)).then(|| FoundRule::strict(rest))
}

/// "Use tabs from now on".
fn without_lasting_end(text: &str) -> Option<&str> {
    each(" from now on| going forward| in the future| in future").find_map(|end| {
        let at = text.len().checked_sub(end.len())?;
        text.get(at..)?.eq_ignore_ascii_case(end).then(|| text[..at].trim_end_matches([',', ' ']))
    })
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '\''))
}

fn begins_with(text: &str, list: &'static str) -> bool {
    each(list).any(|word| starts_with_word(text, word))
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || "-_'".contains(char))
            && starts_with_word(&text[at..], word)
    })
}

/// The first word and the rest.
fn first(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word.trim_matches([',', ':', ';', '"', '\'']), rest.trim_start())
}

/// True if the sentence outlives its task and points at nothing in its session.
fn stands_alone(claim: &str) -> bool {
    let words: Vec<&str> = claim.split_whitespace().collect();
    let points = words.windows(2).any(|pair| {
        matches!(pair[0], "this" | "these" | "those")
            && !is_one_of(pair[1].trim_matches(|char: char| !char.is_alphanumeric()), SHARED_THINGS)
    });
    let addresses_file = words.iter().any(|word| word.starts_with('@') && word.contains('/'));
    (2..=40).contains(&words.len())
        && !begins_with(claim, QUESTIONS)
        && !points
        && !addresses_file
        && !each(PASSING)
            .any(|word| has_word(claim, word) && !(word == "instead" && claim.contains("instead of")))
}

/// The text behind "before you push, …", "in tests, …".
fn after_condition(claim: &str) -> &str {
    const OPENINGS: &str =
        "when|whenever|before|after|if|for|in|on|while|with|inside|every time|each time|outside";
    match claim.split_once(", ") {
        Some((condition, rest)) if begins_with(condition, OPENINGS) => first_after_please(rest),
        _ => claim,
    }
}

fn first_after_please(text: &str) -> &str {
    text.strip_prefix("please ").unwrap_or(text)
}

/// True if an action follows with an object that stands for itself: a verb of conduct, or any action that is forbidden.
fn is_conduct(text: &str, is_forbidden: bool) -> bool {
    let (verb, object) = first(text);
    let is_base = !["ed", "ing"].iter().any(|end| verb.ends_with(end))
        && (!verb.ends_with('s') || verb.ends_with("ss"));
    let is_verb = begins_with(text, CONDUCT) || (is_forbidden && is_base && !is_one_of(verb, BEHAVIOUR));
    is_verb && !object.is_empty() && (!begins_with(object, POINTING) || begins_with(object, "me"))
}

fn is_bare(object: &str) -> bool {
    !object.is_empty() && !begins_with(object, POINTING) && !begins_with(object, ARTICLES)
}

/// "Always …", "never …", "don't ever …", "always npm, never pnpm".
fn is_absolute(main: &str) -> bool {
    let (word, rest) = first(main);
    // No verbs: "returns errors, always" describes.
    let is_thing = |text: &str| match text.split_whitespace().collect::<Vec<_>>()[..] {
        [_] => true,
        [first, _] => !first.ends_with('s'),
        _ => false,
    };
    let is_paired =
        |joint: &str| rest.split_once(joint).is_some_and(|(one, other)| is_thing(one) && is_thing(other));
    match word {
        "always" => is_conduct(rest, false) || is_paired(", never "),
        "never" => is_conduct(rest.strip_prefix("ever ").unwrap_or(rest), true) || is_paired(", always "),
        "don't" => rest.strip_prefix("ever ").is_some_and(|rest| is_conduct(rest, true)),
        _ => false,
    }
}

/// Verbs of habits that a team has. With others, "we never check the result" is a bug.
const TEAM_HABITS: &str =
    "use|commit|edit|write|mock|merge|push|rebase|squash|deploy|release|hardcode|add|allow|import|export";

/// "We never …", "you must always …". "You never …" without a modal is a complaint.
fn person(main: &str) -> bool {
    let Some(rest) = ["we ", "you ", "everyone "].iter().find_map(|who| main.strip_prefix(who)) else {
        return false;
    };
    let modals = ["should ", "must ", "have to ", "need to ", "shall "];
    let after_modal = modals.iter().find_map(|modal| rest.strip_prefix(modal));
    let ("always" | "never", action) = first(after_modal.unwrap_or(rest)) else { return false };
    let (verb, object) = first(action);
    match after_modal {
        Some(_) => is_conduct(action, main.contains("never ")),
        None => main.starts_with("we ") && is_one_of(verb, TEAM_HABITS) && is_bare(object),
    }
}

/// "Run the linter before every commit", "update the docs whenever you change the API".
fn is_before_each(main: &str) -> bool {
    if each(" whenever you | every time you | each time you ").any(|when| main.contains(when)) {
        return is_conduct(main, false);
    }
    const OCCASIONS: &str =
        "commit|push|change|edit|merge|release|pr|deploy|deployment|pull request|refactoring";
    let mut occasions =
        each("before|after|on|with").flat_map(|when| ["every", "each"].map(|all| format!("{when} {all} ")));
    is_conduct(main, false)
        && occasions
            .any(|occasion| main.split_once(&occasion).is_some_and(|(_, rest)| begins_with(rest, OCCASIONS)))
}

/// True for a statement or an instruction that is to be remembered.
fn states(main: &str) -> bool {
    const RECALLING: &str = "when|how|what|where|why|me|last|i|if you";
    let is_statement =
        each(" is | are | must | needs | need | uses | lives | live | runs ").any(|verb| main.contains(verb));
    let (_, object) = first(main);
    !begins_with(main, RECALLING)
        && !begins_with(main, POINTING)
        && (is_conduct(main, false)
            || matches!(first(main), ("always" | "never", action) if is_conduct(action, true))
            || refusal(main).is_some_and(|rest| is_conduct(rest, true))
            || (is_statement && main.split_whitespace().count() >= 4 && !object.is_empty()))
}

/// "Tests must not hit the network", "commit messages should always be in English".
fn artifact(main: &str) -> bool {
    const OPERATORS: &str = " must never | must always | must not | mustn't | should never | should always | may never | must | should not | shouldn't | should be in | should be written in ";
    const BANS: &str = " are not allowed| are forbidden| are banned| is forbidden| is not allowed";
    let is_ban = each(BANS).any(|ban| main.split_once(ban).is_some_and(|(subject, _)| is_bare(subject)));
    let Some((subject, action)) = each(OPERATORS).find_map(|operator| main.split_once(operator)) else {
        return is_ban;
    };
    const QUANTIFIERS: [&str; 6] = ["all ", "every ", "each ", "any ", "no ", "new "];
    let kind = QUANTIFIERS.iter().find_map(|word| subject.strip_prefix(word));
    let head = kind.unwrap_or(subject).split(" in ").next().unwrap_or_default();
    let head = head.split(" for ").next().unwrap_or_default();
    let is_plural =
        |word: &str| is_one_of(word, "code|documentation") || (word.ends_with('s') && !word.ends_with("ss"));
    let last = first(head.rsplit(' ').next().unwrap_or_default()).0;
    let is_artifact = is_one_of(last, ARTIFACTS) || is_one_of(last.trim_end_matches('s'), ARTIFACTS);
    const CRITERIA: &str = "pass|be able|work|still|also|be fixed|be changed|be updated";
    subject.split_whitespace().count() <= 6
        && !begins_with(subject, POINTING)
        && !begins_with(subject, ARTICLES)
        && is_artifact
        && (kind.is_some() || is_plural(last))
        && !action.is_empty()
        && !begins_with(action, CRITERIA)
}

/// The text behind "don't". "Never" is absolute.
fn refusal(main: &str) -> Option<&str> {
    each("don't |we don't |we must not |you must not |we should not |we shouldn't |you shouldn't |you should not ")
        .find_map(|form| main.strip_prefix(form))
}

/// "Don't use default exports", "don't push to main directly", "stop adding comments".
fn refuses(main: &str, has_reason: bool) -> bool {
    if let Some(action) = refusal(main) {
        let (verb, object) = first(action);
        // Other verbs than "use" forbid a step of the task, unless the sentence sounds general.
        let by_us = main.starts_with("we ") && is_one_of(verb, TEAM_HABITS);
        let is_action = is_conduct(action, true);
        return ((verb == "use" || by_us) && is_bare(object))
            || (has_reason && is_action && is_bare(object))
            || (is_general(object) && is_action);
    }
    const HABITS: &str = "using|adding|writing|putting|creating|committing|pushing|asking|mocking|importing|hardcoding|\
        saying|apologizing|commenting|editing|guessing|inventing";
    let habit = main.strip_prefix("stop ").map(first);
    // "No errors in tests" reports.
    const FINDINGS: &str = "error|errors|failure|failures|change|changes|issue|issues|warning|warnings|problem|problems|\
        bug|bugs|difference|differences|need|idea|luck|one|matter";
    let noun = main.strip_prefix("no ").filter(|noun| !begins_with(noun, FINDINGS));
    habit.is_some_and(|(verb, object)| is_one_of(verb, HABITS) && is_bare(object))
        || noun.is_some_and(|noun| each(PLACES).any(|place| noun.ends_with(place)))
}

/// Places that a rule speaks of in general.
const PLACES: &str =
    " in production| in tests| in commit messages| in commits| in comments| in code| in the code| in docs";

/// True for an object that goes beyond the task.
fn is_general(object: &str) -> bool {
    const SIGNS: &str = "unless i|unless we|unless you|unless asked|unless explicitly|without asking|without my|\
        without a test|without tests|directly|generated|to main|to master|on main|on master|to commits|\
        to commit messages|co-author|co-authored-by|every time|each time|on every|on each|after every|after each|\
        for every|always";
    each(SIGNS).any(|sign| has_word(object, sign)) || each(PLACES).any(|place| object.ends_with(place))
}

/// "Only use sudo when I ask", "only commit if the tests pass", "we only support Node 20".
fn allows_only(main: &str) -> bool {
    const CONDITIONS: &str = " when | if | unless | after | via | through | for | from | with ";
    let by_us = main.strip_prefix("we only ");
    let Some(action) = main.strip_prefix("only ").or(by_us) else { return false };
    let (verb, object) = first(action);
    if by_us.is_some() {
        return is_one_of(verb, "use|support|target|deploy|release|merge") && is_bare(object);
    }
    let object = format!(" {}", object.strip_prefix("the ").unwrap_or(object));
    is_one_of(verb, "use|commit|push|merge|deploy|release|run|write|log|mock|import|install")
        && is_bare(object.trim_start())
        && each(CONDITIONS).any(|condition| object.contains(condition))
}

/// "We use …", "this project uses …".
fn is_custom(main: &str) -> bool {
    const FORMS: &str = "we use |our team uses |this project uses |this repo uses |the project uses |the repo uses |\
        this codebase uses |the codebase uses |we're using |we are using |we decided to use ";
    let object = each(FORMS).find_map(|form| main.strip_prefix(form));
    let is_plain =
        |object: &str| !each("but|however|right|or|and then|which").any(|word| has_word(object, word));
    let is_convention =
        begins_with(main, "our convention is|the convention is|our rule is|our policy is|the rule is");
    let asks_first = main.starts_with("ask ") && main.contains(" before ");
    object.is_some_and(|object| is_bare(object) && is_plain(object)) || is_convention || asks_first
}

/// "I prefer small commits". "I prefer the second one" is about the task.
fn is_preference(main: &str) -> bool {
    let object = each("i prefer |we prefer |i always want |i never want |i like my ")
        .find_map(|form| main.strip_prefix(form));
    object.is_some_and(|object| is_bare(object) && !begins_with(object, "to|if|not|option|having|moving"))
}

/// "Use this instead of that", "prefer this over that"; after a correction also "use this".
fn compares(main: &str, corrects: bool) -> bool {
    let opens = begins_with(main, "use|prefer|we use|stick to|stick with|run|it should be|we prefer");
    let compares =
        || each(" instead of | rather than |, not | not | over |, never ").any(|word| main.contains(word));
    let (_, object) = first(main);
    // "Use bun to run the tests".
    const CHECKS: &str = "test|tests|testing|lint|linting|build|building|format|formatting|typechecking|install|installing|\
        dependencies|packages";
    let purpose = main.split_once(" to ").or_else(|| main.split_once(" for ")).map(|(_, purpose)| purpose);
    let serves = || {
        main.starts_with("use ")
            && purpose.is_some_and(|purpose| each(CHECKS).any(|check| has_word(purpose, check)))
    };
    opens
        && !begins_with(object, POINTING)
        && main.split_whitespace().count() <= 12
        && (corrects || compares() || serves())
}
