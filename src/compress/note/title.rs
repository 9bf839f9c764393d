//! The title of a note, for someone who was not there: the subjects of its commits, a plan's heading, the request, or the first
//! statement of the answer; the first of these that is clear on its own.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::Material;
use super::prose::{Section, Statement, is_dangling, sentences, without_number};
use super::request::{self, Asked, is_trivial};
use crate::compress::turn::Turn;
use crate::text::{capitalised, each, head, listed, one_line, pattern, shorten};
use crate::tools::path::file_name;

/// Maximum length of a title, in columns: most sentences fit whole.
pub(super) const TITLE_COLUMNS: usize = 140;
/// The same with the place of the work, or the request that the turn continues.
const PLACED_COLUMNS: usize = 190;

/// The title; `None` if the turn has no words and changed nothing.
pub(super) fn title(turn: &Turn, material: &Material) -> Option<String> {
    let subjects: Vec<String> = turn.commits().iter().filter_map(|commit| subject(&commit.subject)).collect();
    if turn.commits().len() == 1 && !subjects.is_empty() {
        return subjects.into_iter().next();
    }
    if let Some(plan) = &material.plan {
        return Some(plan.heading.clone());
    }
    let has_acted = turn.has_changed();
    let asked = turn.request().map(request::lines).unwrap_or_default();
    let of_kind = |kind: Asked| asked.iter().find(|(known, _)| *known == kind).map(|(_, line)| line.clone());
    let told = answers(material, material.told(), has_acted);
    let answers = if told.is_empty() { answers(material, material.body(), has_acted) } else { told };
    let question = || turn.request().filter(|_| !has_acted).and_then(request::question);
    // Of an instruction that changed nothing only the asking is certain.
    let instructed = || {
        let line = of_kind(Asked::Instruction)?;
        let (first, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
        let asked = || title_line(&format!("Asked to {}{rest}", first.to_lowercase()));
        Some(if has_acted { line.clone() } else { asked() })
    };
    let reported = || {
        let line = of_kind(Asked::Report).filter(|line| !is_change(line))?;
        Some(title_line(&format!("Response to: {line}")))
    };
    let words = || turn.request().and_then(request::first_line);
    let changes = || {
        let is_named = |line: &&String| is_change(line) && line.split_whitespace().any(is_name);
        answers.iter().filter(move |line| has_acted && is_named(line))
    };
    // A closing message that sums up the session tells earlier changes, too.
    let request = stems(turn.request().unwrap_or_default());
    let is_answer = |line: &&String| request.is_empty() || !stems(line).is_disjoint(&request);
    let worded = || turn.request().and_then(request::worded);
    if !subjects.is_empty() {
        return joined(subjects);
    }
    // Lines from the middle of an answer mean little to a stranger; the user's own words mean more.
    question()
        .or_else(instructed)
        .or_else(|| words().filter(|_| material.is_reported))
        .or_else(|| nearest(&request, changes().filter(is_answer)))
        .or_else(|| of_kind(Asked::Question).filter(|_| has_acted))
        .or_else(|| reported().filter(|_| has_acted))
        .or_else(worded)
        .or_else(|| nearest(&request, changes()))
        .or_else(|| nearest(&request, answers.iter()))
        .or_else(reported)
        .or_else(|| continued(turn, material))
        .or_else(words)
        .or_else(|| from_files(turn))
        .filter(|line| !is_banned(line))
        .map(|line| placed(turn, line))
}

/// Adds the only changed file or the branch, which say what the work is about, to a line that names nothing.
fn placed(turn: &Turn, line: String) -> String {
    let files = turn.changed_files();
    let is_named = is_clear(&line) && line.split_whitespace().any(is_name);
    let place = match (files.as_slice(), topic(turn)) {
        _ if is_named => return line,
        (_, Some(branch)) if stems(&line).is_disjoint(&stems(branch)) => format!(" (branch {branch})"),
        ([file], _) if !line.contains(file_name(file)) => format!(" ({})", file_name(file)),
        _ => return line,
    };
    let fits = line.chars().count() + place.chars().count() <= PLACED_COLUMNS;
    if fits { line + &place } else { line }
}

/// The branch of the turn, if its name says what the work is about.
fn topic(turn: &Turn) -> Option<&str> {
    turn.branch.as_deref().filter(|branch| names_topic(branch))
}

/// False for "main", "release/2.0" and names that a machine made up, "tool/brave-newton-a1b2c3".
fn names_topic(branch: &str) -> bool {
    const LINES: &str =
        "main|master|next|dev|develop|development|trunk|head|staging|production|stable|wip|test";
    let name = branch.rsplit('/').next().unwrap_or_default();
    let last = name.rsplit(['-', '_']).next().unwrap_or_default();
    let is_made_up = last.len() >= 5 && last.chars().any(|char| char.is_ascii_digit());
    let is_line = among(LINES, name) || branch.starts_with("release");
    branch.len() <= 60 && !is_made_up && !is_line && strong_words(name) >= 1
}

/// The line that shares most words with the request; early ones go before.
fn nearest<'a>(request: &BTreeSet<String>, lines: impl Iterator<Item = &'a String>) -> Option<String> {
    let shared = |line: &str| stems(line).intersection(request).count();
    let scored = lines.enumerate().map(|(at, line)| ((2 * shared(line)).saturating_sub(at), line));
    scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, line)| line.clone())
}

/// True for a line that begins in the middle of a conversation.
fn begins_inside(line: &str) -> bool {
    let lower = line.to_lowercase();
    let first = words(&lower).first().copied().unwrap_or_default();
    among(
        "it|it's|this|that|that's|these|those|they|so|then|but|and|or|also|no|yes|i|i'm|i've|we|you|you're|you've",
        first,
    )
}

/// The first whole sentence of the answer, clear or not, with the request before that it belongs to.
fn continued(turn: &Turn, material: &Material) -> Option<String> {
    // An item of a list needs the line above it.
    let told = material.told().filter(|statement| !statement.is_item);
    let told = told.flat_map(Statement::sentences).find_map(|text| {
        let line = title_of(without_place(&text))?;
        let is_whole = !is_dangling(line.trim_end_matches('…'))
            && is_balanced(&line)
            && !is_banned(&line)
            && !is_fragment(&line);
        (is_whole && !begins_inside(&line) && strong_words(&line) >= 2).then_some(line)
    });
    let earlier = turn.earlier_request.as_deref().and_then(request::stated);
    match (told, earlier) {
        (Some(told), Some(earlier)) => {
            let whole = format!("{told} (on “{earlier}”)");
            Some(if whole.chars().count() <= PLACED_COLUMNS { whole } else { told })
        }
        (Some(told), None) => Some(told),
        (None, Some(earlier)) if turn.request().is_none_or(is_trivial) => {
            Some(title_line(&format!("Continued: {earlier}")))
        }
        (None, _) => None,
    }
}

/// The subjects of several commits, as many as fit.
fn joined(subjects: Vec<String>) -> Option<String> {
    let (count, mut shown) = (subjects.len(), 1);
    let line = subjects.into_iter().reduce(|line, next| {
        let both = format!("{line}; {next}");
        let fits = both.chars().count() + " and 10 more".len() <= TITLE_COLUMNS;
        shown += usize::from(fits);
        if fits { both } else { line }
    })?;
    Some(if shown == count { line } else { format!("{line} and {} more", count - shown) })
}

/// The title that an answer gives itself.
fn heading(own: &str) -> Option<String> {
    let line = title_line(&without_person(without_label(own)));
    (strong_words(&line) >= 2
        && line.split_whitespace().count() >= 3
        && !is_banned(&line)
        && is_balanced(&line))
    .then_some(line)
}

/// Lines of the answer that are clear alone, in order: its heading, its sentences, and items of its lists that state a change.
/// Other items need the line above them.
fn answers<'a>(
    material: &Material,
    told: impl Iterator<Item = &'a Statement>,
    has_acted: bool,
) -> Vec<String> {
    let own = material.own_title.as_deref().and_then(heading);
    // "Added X" above a review names somebody else's work.
    let own = own.filter(|line| {
        let is_named = line.split_whitespace().any(is_name);
        if has_acted { strong_words(line) >= 4 || is_named } else { !is_change(line) && !line.contains(": ") }
    });
    let is_told = |statement: &&Statement| !statement.is_loose && statement.section != Section::Proposal;
    let stated = told.filter(is_told).flat_map(|statement| {
        statement.lines().filter_map(move |text| {
            let bare = without_place(&text);
            let line = title_of(bare).filter(|line| !is_dangling(line))?;
            let tells_change = has_acted && (is_change(&line) || bare.len() < text.len());
            let is_list = statement.is_item || !statement.items.is_empty();
            // "`load()` now returns:" is nothing without its list.
            let is_half = is_list && line.split_whitespace().count() < 6 && line.contains(" now ");
            (!is_list || !is_half && (tells_change || material.is_tests)).then_some(line)
        })
    });
    own.into_iter().chain(stated.filter(|line| is_clear(line) && !is_fragment(line))).collect()
}

/// The words of a text that name something, cut to their beginnings so that "session" and "sessions" are one.
fn stems(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|char: char| !char.is_alphanumeric()).filter(|word| is_strong(word));
    words.filter(|word| word.chars().count() > 3).map(|word| word.chars().take(6).collect()).collect()
}

/// The first sentence of a text as a title; `None` for a question.
fn title_of(text: &str) -> Option<String> {
    let first = sentences(text).into_iter().next().filter(|first| !first.ends_with('?'))?;
    Some(title_line(&without_person(without_label(&first)))).filter(|line| !line.is_empty())
}

/// Names of changed files and functions: the last resort for a turn without words.
fn from_files(turn: &Turn) -> Option<String> {
    let files = turn.changed_files();
    let functions =
        if turn.functions.is_empty() { String::new() } else { format!("{} in ", listed(&turn.functions, 2)) };
    (!files.is_empty()).then(|| title_line(&format!("Edits to {functions}{}", listed(&files, 2))))
}

/// The subject of a commit, which was written for newcomers, unless it has only a word or two.
/// "fix(parser): handle empty input (#12)" → "Handle empty input".
fn subject(subject: &str) -> Option<String> {
    static PREFIX: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r"^((fixup|squash|amend)!\s+)*([a-zA-Z]+(\([^)]*\))?!?:\s+)?|\s*\(#\d+\)$"));
    let bare = PREFIX.as_ref().map_or(subject.into(), |prefix| prefix.replace_all(subject, ""));
    let title = title_line(bare.trim());
    (title.split_whitespace().count() >= 3).then_some(title)
}

/// "Root cause: X", "The problem was that X" → "X".
fn without_label(text: &str) -> &str {
    static STATED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(r"(?i)^the (root |actual |real )?(cause|problem|issue|bug|reason) (is|was) that ")
    });
    if let Some(found) = STATED.as_ref().and_then(|stated| stated.find(text)) {
        return &text[found.end()..];
    }
    const LABELS: &str = "analysis|insight|verdict|finding|cause|bug|problem|issue|reason|fix|solution|change|changes|fixed|yes|no";
    match text.split_once(": ") {
        Some((label, rest)) if rest.len() > 20 && label.len() <= 24 => {
            let lower = label.to_lowercase();
            let is_label = each(LABELS).any(|known| lower == known || lower.ends_with(&format!(" {known}")));
            if is_label { rest } else { text }
        }
        _ => text,
    }
}

/// "`src/load.rs:12` (+8 lines) — the lock is gone" → "the lock is gone".
fn without_place(text: &str) -> &str {
    static PLACE: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r"^`?\S*\.\w+(:[\d,-]+)?`?( \([^)]*\))?(:| [—–-]|,) "));
    PLACE.as_ref().and_then(|place| place.find(text)).map_or(text, |found| &text[found.end()..])
}

/// "Added …", "Renamed …", "`load()` now …"; not "Verified …".
fn is_change(text: &str) -> bool {
    const IRREGULAR: &str =
        "Made|Wrote|Built|Kept|Split|Put|Took|Cut|Set|Gave|Chose|Rebuilt|Rewrote|Swapped|Brought";
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_past = first.len() > 4 && first.ends_with("ed") && first.starts_with(char::is_uppercase)
        || each(IRREGULAR).any(|verb| verb == first);
    let is_past =
        is_past && !each("Verified|Tested|Confirmed|Checked|Reviewed|Based|Needed").any(|verb| verb == first);
    let begin: Vec<&str> = text.split_whitespace().take(8).collect();
    let is_done =
        begin.windows(3).any(|part| matches!(part, ["has" | "have", "been", done] if *done != "written"));
    is_past || is_done || begin.contains(&"now")
}

/// "I've now added X" → "Added X".
fn without_person(text: &str) -> String {
    static PERSON: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)^(now |fixed[.!:] |done[.!:] |yes[,.!:] |no[,.!:] )*((this|it|that) (now |also )*(?P<effect>(fix|add|ensure|prevent|avoid|keep|make|remov|allow|handl|restor|stop|reduc|let|replac)\w*s\b)|(i|we)('ve| have) (just |now |also |successfully )*|(i|we) (just |now |also |successfully )*(?P<verb>\w+ed\b))?",
        )
    });
    let Some(found) = PERSON.as_ref().and_then(|person| person.captures(text)) else {
        return text.to_owned();
    };
    let start = found
        .name("verb")
        .or(found.name("effect"))
        .map_or(found.get(0).map_or(0, |whole| whole.end()), |verb| verb.start());
    capitalised(&text[start..])
}

/// One line, capitalised, without the marks around it; a long one ends with a clause.
pub(super) fn title_line(text: &str) -> String {
    static ASIDE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r" \([^()]*\)"));
    /// Where a line may end: what follows is a clause of its own.
    const ENDS: &str = ". |; | - | — | – |: |, so |, which |, because |, while |, where |, but |, and |, not |, rather |, instead |, since |, when |, if |, with |, to |, making \
        |, ensuring |, allowing |, using | because | so that | instead of | rather than ";
    let is_mark = |char: char| char.is_whitespace() || "“”*:.,-–—".contains(char);
    let mut line = one_line(without_number(text.trim_matches(is_mark)));
    let is_long = |line: &str| line.chars().count() > TITLE_COLUMNS;
    if is_long(&line) {
        line = ASIDE.as_ref().map_or(line.clone(), |aside| aside.replace_all(&line, "").into_owned());
    }
    if is_long(&line) {
        let fitting = head(&line, TITLE_COLUMNS);
        let is_whole = |cut: &usize| {
            let kept = &line[..*cut];
            *cut >= TITLE_COLUMNS / 2 && is_balanced(kept) && !is_dangling(kept)
        };
        let ends = each(ENDS).flat_map(|end| fitting.match_indices(end).map(|(at, _)| at));
        if let Some(cut) = ends.filter(is_whole).max() {
            line.truncate(cut);
        }
    }
    capitalised(&shorten(line.trim_matches(is_mark), TITLE_COLUMNS))
}

/// Words that point at something a newcomer cannot see.
const POINTING: &str = "this|these|those|it|its|it's|they|them|their|he|she|same|above|below|here|here's|there|there's|you|your|me|us";
/// Words that point outside unless much was said before them.
const OUTSIDE: &str = "this|these|here's";
/// Words that begin half a sentence.
const CONDITIONS: &str =
    "if|after|once|while|although|though|unless|given|before|when|where|at|with|without|for";
/// Words that continue a conversation.
const CONTINUING: &str = "but|or|because|not|still|yes|no|maybe|looks|seems|option|instead|since|as|wait|right|both|either|neither|some|none|me|my|i|is|are|was|were|did|does|do|\
    looking|so|and|also|ah|oh|hmm|you're|that|that's|whether|which|then|again|what|now|see";
/// Words in the first person.
const SPEAKING: &str =
    "i|i'm|i'd|i'll|i've|we'll|let|let's|think|maybe|guess|wonder|please|probably|hmm|feel|want";
/// Words that say little about a subject.
const WEAK: &str = "the|a|an|to|of|in|on|for|and|or|with|is|are|be|was|were|we|i|me|my|our|not|do|does|did|can|could|should|would|will|have|has|had|there|now|then|also|just|as|at|by|from|so|if|but|when|what|\
    which|how|why|where|who|all|any|some|more|one|two|new|make|made|get|use|used|using|add|added|fix|fixed|change|changed|changes|update|updated|check|review|explain|list|please|want|need|think|like|look|see|thing|things|stuff|something|\
    anything|everything|code|file|files|test|tests|work|works|sure|maybe|really|very|too|only|up|out|into|about|other|first|last|way|case|cases|issue|issues|problem|place|places|part|left|right|help|doing|\
    following|provide|analysis|implement|implemented|implementation|summary|branch|line|lines|step|steps|phase|task|pr|comment|comments|approach|logic|version|plan|clear|detailed|several|couple|it|its|this|that|these|those|they|them|\
    you|your|here|best|propose|proposal|suggest|tell|double|actually|still|same|whole|full|again|possible|current|currently|instead|let|let's|give|show|happen|happens|mean|means|\
    good|better|done|don't|doesn't|isn't|can't|it's|that's|there's|we're|going|both|few|each|every|always|already|even|well|wondering|looking|back|things|before|after|would|than|because";

/// True for a word that says something about a subject.
fn is_strong(word: &str) -> bool {
    word.chars().count() > 2 && !each(WEAK).any(|known| known == word)
}

pub(super) fn strong_words(line: &str) -> usize {
    line.to_lowercase().split(|char: char| !char.is_alphanumeric()).filter(|word| is_strong(word)).count()
}

/// The words of a line, in lower case.
fn words(lower: &str) -> Vec<&str> {
    let is_edge = |char: char| char.is_whitespace() || ",;:()\"?!".contains(char);
    let words = lower.split(is_edge).map(|word| word.trim_matches(['.', '\'', '`', '*']));
    words.filter(|word| !word.is_empty()).collect()
}

fn among(list: &'static str, word: &str) -> bool {
    each(list).any(|known| known == word)
}

/// True if one of the words stands for something that the words before it do not say.
fn points_outside(words: &[&str], pointing: &'static str) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        let needed = if among(OUTSIDE, word) { 4 } else { 2 };
        // "There are conflicts" points at nothing.
        let is_empty =
            *word == "there" && words.get(at + 1).is_some_and(|next| among("is|are|was|were", next));
        let before = words[..at].iter().filter(|word| is_strong(word)).count();
        among(pointing, word) && before < needed && !is_empty
    })
}

/// "Store it …", "the one we removed", "The fix now uses …", "at step 5".
fn is_vague(words: &[&str]) -> bool {
    let at = |at: usize| words.get(at).copied().unwrap_or_default();
    let is_bare = among("the|a|our|your|my", at(0))
        && among(
            "fix|change|changes|document|pr|comment|approach|solution|problem|issue|bug|error|answer|result|plan|update|feature|first|second|third|old|other|rest|question|point|edge",
            at(1),
        )
        && !among("of|in|for|to|with|from|on|between|behind", at(2));
    let is_numbered = |pair: &[&str]| {
        !words.iter().any(|word| word.len() > 4 && word.contains('.'))
            && among(
                "step|option|point|phase|item|line|lines|case|critical|task|question|approach|bullet|part",
                pair[0],
            )
            && pair[1].starts_with(|char: char| char.is_ascii_digit())
    };
    among("that|it|this|them", at(1))
        || is_bare
        || words.windows(2).any(is_numbered)
        || words
            .windows(2)
            .any(|pair| pair[0] == "the" && among("one|ones|other|others|former|latter", pair[1]))
}

/// True if someone who was not there understands the line: it names its subject and points at nothing outside of itself.
pub(super) fn is_clear(line: &str) -> bool {
    if is_banned(line) || line.contains("://") {
        return false;
    }
    if line.chars().any(|char| char > '\u{2e7f}') {
        return line.chars().count() >= 8;
    }
    let lower = line.to_lowercase();
    let words = words(&lower);
    let strong = words.iter().filter(|word| is_strong(word)).count();
    let names = line.split_whitespace().filter(|word| is_name(word)).count();
    let first = words.first().copied().unwrap_or_default();
    let continues =
        among(CONTINUING, first) || among(CONDITIONS, first) && !line.contains(", ") && !line.ends_with('?');
    let symbols = line.chars().filter(|char| "=→%│|<>{}+✓✗❌✅~".contains(*char)).count();
    let has_plain_word = words.iter().any(|word| is_strong(word) && word.chars().all(char::is_alphabetic));
    has_plain_word
        && (strong >= 4 || strong >= 3 && words.len() >= 4 || strong >= 2 && names >= 1 && words.len() >= 3)
        && !points_outside(&words, POINTING)
        && !is_vague(&words)
        && !continues
        && !words.iter().take(4).any(|word| among(SPEAKING, word))
        && !is_dangling(line)
        && is_balanced(line)
        && symbols <= 2
        && !first.starts_with(|char: char| char.is_ascii_digit())
}

/// True for half a sentence: "Makes the callers cleaner", "Fixed by using a lock".
fn is_fragment(line: &str) -> bool {
    let lower = line.to_lowercase();
    let words = words(&lower);
    let (first, second) =
        (words.first().copied().unwrap_or_default(), words.get(1).copied().unwrap_or_default());
    let lacks_subject = first.strip_suffix('s').is_some_and(request::is_verb)
        || first.ends_with("es") && request::is_verb(&first[..first.len() - 2]);
    let is_participle = first.ends_with("ed") || among("found|set|made|built|sent|kept", first);
    lacks_subject
        || is_participle && among("by|in|during|from|at|on|when|via|as|before|after|only", second)
        || among("for|at|with|without|where|quick|which|who|to|based|vs", first)
}

/// True if a question says what it is about. It may address somebody, and its answer follows.
pub(super) fn is_clear_question(line: &str) -> bool {
    const POINTING: &str = "this|that|these|those|its|they|them|their|he|she|same|above|below|there";
    let lower = line.to_lowercase();
    let words = words(&lower);
    let strong = words.iter().filter(|word| is_strong(word)).count();
    let has_name = line.split_whitespace().any(is_name);
    // "Would it be possible" points at nothing.
    let is_bare_it =
        words.windows(2).any(|pair| pair[0] == "it" && !among("would|be|is|was|makes|take", pair[1]))
            || words.last() == Some(&"it");
    !points_outside(&words, POINTING)
        && (is_clear(line)
            || (strong >= 3 || strong >= 1 && has_name)
                && (4..=30).contains(&words.len())
                && !(is_bare_it && strong < 4)
                && !is_vague(&words)
                && !words.iter().any(|word| among(SPEAKING, word))
                && !among("but|or|because|not|still|maybe|since|as", words[0])
                && !line.contains("://")
                && !is_banned(line)
                && is_balanced(line))
}

/// True for titles that name a chore instead of its subject.
pub(super) fn is_banned(line: &str) -> bool {
    const BANNED: &str = "run |research |find that|answer:|commit |committed |amended |pushed |push |switch |pull |stage |plan: |implement the following|change file";
    let lower = format!("{} ", line.to_lowercase());
    each(BANNED).any(|start| lower.starts_with(start))
}

/// True if code marks, parentheses and quotes come in pairs.
pub(super) fn is_balanced(text: &str) -> bool {
    let count = |mark: char| text.matches(mark).count();
    count('`').is_multiple_of(2) && count('(') == count(')') && count('"').is_multiple_of(2)
}

/// True for words that name something: `code`, paths, identifiers, proper names inside a sentence.
pub(super) fn is_name(word: &str) -> bool {
    let word = word.trim_matches(|char: char| ",.;:!?()'\"".contains(char));
    let has_inner_capital =
        word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    word.contains('`')
        || has_inner_capital
        || (word.len() > 3 && word.chars().skip(1).any(|char| "_./:@-".contains(char)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_commits_and_persons_go() {
        assert_eq!(subject("fix(parser)!: handle empty input (#12)").as_deref(), Some("Handle empty input"));
        assert_eq!(subject("wip"), None);
        assert_eq!(without_person("I've now added a lock"), "Added a lock");
        assert_eq!(without_person("We moved the lock"), "Moved the lock");
        assert_eq!(without_person("We can move the lock"), "We can move the lock");
    }

    #[test]
    fn a_clear_line_names_its_subject() {
        for clear in [
            "Retry uploads when the signed URL expires",
            "Checkpoint files follow symbolic links",
            "Hide the start command from the help text",
            "Retry the upload queue when it drops an event",
            "Rename parseFoo to readFoo in the lexer",
            "修复登录页面的错误并添加测试",
        ] {
            assert!(is_clear(clear), "{clear}");
        }
        for vague in [
            "Retry it when that expires",
            "I think we should maybe hide this",
            "At each prompt start",
            "Do the implementation too",
            "The updated script will now show",
            "Run the whole test suite again",
            "Changes to the (first part of the parser",
            "Check this is the same for manual and auto strategy in all places",
        ] {
            assert!(!is_clear(vague), "{vague}");
        }
    }

    #[test]
    fn long_lines_end_with_a_clause() {
        let long = "The worker keeps the claim of a row that it could not store in the database, so that the next run finds the same row again and tries to store it once more";
        assert_eq!(
            title_line(long),
            "The worker keeps the claim of a row that it could not store in the database"
        );
    }
}
