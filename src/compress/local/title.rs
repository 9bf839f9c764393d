//! The title: one imperative line. The best words are those of the one who did the work (a commit's subject, the
//! closing report), then those of the one who asked for it; only without either it is put together from the steps.

use super::events::Act;
use super::grouping::Role;
use super::kind::conventional;
use super::programs::Purpose;
use super::prose::{Sentence, decisions, is_continuation, is_english};
use super::telling::{Telling, mentions};
use super::text::{capitalised, each, shorten, uncapitalised, width};
use super::title_of_steps::{
    by_command, by_edits, by_error, by_files, by_looks, by_rename, by_research, by_swap,
};
use super::verbs::{imperative, kind_of_words, wish};
use crate::model::ObservationType;

/// A title and where it came from.
#[derive(Debug)]
pub(super) struct Title {
    pub text: String,
    /// Whether somebody said it; otherwise it was put together from the steps.
    pub spoken: bool,
    /// The closing sentence that it was made of.
    pub from_closing: Option<String>,
    /// Whether it tells of one name that was replaced by another.
    pub rename: bool,
}

/// The widest title.
pub(super) const TITLE_COLUMNS: usize = 90;

impl Title {
    /// Put together from the steps.
    pub fn told(text: &str) -> Self {
        Self { text: shorten(text, TITLE_COLUMNS), spoken: false, from_closing: None, rename: false }
    }

    fn spoken(text: &str) -> Self {
        let text = text.trim_end_matches(['.', '!', '。', '！', ' ']);
        Self { spoken: true, ..Self::told(text) }
    }
}

/// The title of a unit.
pub(super) fn title(telling: &Telling<'_>) -> Title {
    let found = match telling.role {
        Role::Work => by_commit(telling)
            .or_else(|| by_rename(telling))
            .or_else(|| by_report(telling))
            .or_else(|| by_wish(telling))
            .or_else(|| by_statement(telling, |said| each(" now| no longer").any(|word| said.contains(word))))
            .or_else(|| by_swap(&telling.edits))
            .or_else(|| by_statement(telling, |_| true)),
        Role::Repair => by_commit(telling)
            .or_else(|| by_repair_report(telling))
            .or_else(|| by_specific_wish(telling))
            .or_else(|| by_error(telling)),
        Role::Operation => by_operation(telling),
        Role::Research => by_research(telling),
        Role::Exploration => by_decision(telling).or_else(|| by_exploration(telling)),
    };
    let found = found.or_else(|| by_edits(&telling.edits)).or_else(|| by_command(telling));
    found.unwrap_or_else(|| by_looks(telling))
}

fn by_commit(telling: &Telling<'_>) -> Option<Title> {
    let subject = bare_subject(&telling.commits.last()?.subject);
    if subject.chars().count() < 6 {
        return None;
    }
    let more = match telling.commits.len() {
        1 => String::new(),
        2 => " (and 1 more commit)".to_owned(),
        many => format!(" (and {} more commits)", many - 1),
    };
    Some(Title::spoken(&format!("{}{more}", shorten(&subject, TITLE_COLUMNS - more.len()))))
}

/// A commit's subject without `fix(api):`.
fn bare_subject(subject: &str) -> String {
    let bare = conventional(subject).and_then(|_| subject.split_once(':')).map_or(subject, |(_, rest)| rest);
    capitalised(bare.trim())
}

/// The closing sentence that reports the work, as an imperative.
fn by_report(telling: &Telling<'_>) -> Option<Title> {
    report(telling, |kind| {
        !matches!(kind, None | Some(ObservationType::Discovery | ObservationType::Decision))
    })
}

/// Whether commands were run of which the closing message tells as of work: a deployment rather than a look.
pub(super) fn reports_work(telling: &Telling<'_>) -> bool {
    telling.commands.iter().any(|command| command.purpose == Purpose::Run) && by_report(telling).is_some()
}

fn by_repair_report(telling: &Telling<'_>) -> Option<Title> {
    report(telling, |kind| kind == Some(ObservationType::Bugfix))
}

fn report(telling: &Telling<'_>, wanted: impl Fn(Option<ObservationType>) -> bool) -> Option<Title> {
    telling.closing.iter().take(8).find_map(|sentence| {
        let text = imperative(&sentence.text)?;
        let mut words = text.split_whitespace().skip(1);
        // "Raise its timeout" needs the sentence before it.
        let points_back =
            words.next().is_some_and(|word| each("it|its|them|this|that|both").any(|known| known == word));
        let says_much = !points_back && words.next().is_some() && !text.ends_with('?');
        let title =
            Title { from_closing: Some(sentence.text.clone()), ..Title::spoken(&first_clause(&text)) };
        (says_much && wanted(kind_of_words(&text))).then_some(title)
    })
}

/// A long sentence up to the end of the last clause that fits into a title.
fn first_clause(text: &str) -> String {
    clause_within(text, TITLE_COLUMNS)
}

fn clause_within(text: &str, columns: usize) -> String {
    const ENDS: &str = ". |; | — | – |, so |, which | because | so that |: |, and |, | (| - ";
    if width(text) <= columns {
        return text.to_owned();
    }
    let cuts = each(ENDS).flat_map(|end| text.match_indices(end).map(|(at, _)| at));
    let fits = |at: &usize| *at >= 20 && width(&text[..*at]) <= columns && !inside_code(&text[..*at]);
    cuts.filter(fits).max().map_or_else(|| text.to_owned(), |at| text[..at].to_owned())
}

fn inside_code(before: &str) -> bool {
    before.matches('`').count() % 2 == 1 || before.matches('(').count() > before.matches(')').count()
}

fn by_wish(telling: &Telling<'_>) -> Option<Title> {
    let names = telling.names();
    let mut about =
        telling.request.iter().filter(|sentence| telling.alone || mentions(&sentence.text, &names)).take(6);
    let english = about.find_map(|sentence| wish(&sentence.text));
    if let Some(text) = english {
        return Some(Title::spoken(&first_clause(&text)));
    }
    if telling.alone { foreign_wish(telling.request) } else { None }
}

/// A wish that names what is to be repaired; "fix it" and "fix the failing tests" say less than the error.
fn by_specific_wish(telling: &Telling<'_>) -> Option<Title> {
    const VAGUE: &str = "it|this|that|them|test|tests|failing|build|ci|error|errors|warnings|lint|bug|bugs";
    let title = by_wish(telling)?;
    let lower = title.text.to_lowercase();
    let mut words = lower.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    let vague = words.any(|word| each(VAGUE).any(|known| known == word));
    let repairs = kind_of_words(&title.text) == Some(ObservationType::Bugfix);
    (repairs && !vague && lower.split_whitespace().count() >= 4).then_some(title)
}

/// A short request in another language stands for itself.
fn foreign_wish(request: &[Sentence]) -> Option<Title> {
    const POLITE: &str = "bitte |por favor |s'il te plaît |请|請";
    let first = &request.first()?.text;
    let letters = first.chars().filter(|char| char.is_alphabetic()).count();
    let lower = first.to_lowercase();
    let start = each(POLITE).find(|word| lower.starts_with(word)).map_or(0, str::len);
    let text = first.get(start..).unwrap_or(first);
    let asks = text.ends_with(['?', '？']);
    let foreign = !is_english(first) && is_really_foreign(first);
    let fits = letters >= 5 && width(text) <= TITLE_COLUMNS + 10;
    (foreign && !asks && fits).then(|| Title::spoken(&capitalised(text)))
}

/// "continue" and "run tests" have no English word that gives them away, and no foreign one either.
fn is_really_foreign(text: &str) -> bool {
    const WORDS: &str = "der|die|das|den|dem|und|im|ein|eine|mit|für|el|la|los|para|le|les|une";
    let lower = text.to_lowercase();
    let other_script = lower.chars().any(|char| char.is_alphabetic() && !char.is_ascii());
    other_script || lower.split_whitespace().any(|word| each(WORDS).any(|known| known == word))
}

/// What was edited and what the closing message says about it: "Change config.c: negative ages are rejected now".
fn by_statement(telling: &Telling<'_>, wanted: impl Fn(&str) -> bool) -> Option<Title> {
    let edited = by_files(&telling.edits)?;
    let mut first = telling.closing.iter().take(2);
    let sentence = first.find(|sentence| is_statement(&sentence.text) && wanted(&sentence.text))?;
    let room = TITLE_COLUMNS.checked_sub(width(&edited) + 2)?;
    let said = clause_within(&sentence.text, room);
    let said = in_sentence(telling, said.trim_end_matches('.'));
    (width(&said) <= room).then(|| Title::told(&format!("{edited}: {said}")))
}

fn by_operation(telling: &Telling<'_>) -> Option<Title> {
    let pushed = telling.commands.iter().find_map(|command| command.pushed.as_ref());
    if let Some(commit) = telling.commits.last() {
        let branch = pushed.map(|branch| branch.trim_end_matches(" (new branch)"));
        let push = branch.map(|branch| format!(" and push {branch}")).unwrap_or_default();
        let room = TITLE_COLUMNS.saturating_sub(width(&push) + 9);
        let subject = shorten(&bare_subject(&commit.subject), room);
        return Some(Title::told(&format!("Commit \"{subject}\"{push}")));
    }
    by_report(telling).or_else(|| by_wish(telling)).or_else(|| by_command(telling))
}

/// What was decided, by the user's answer or the assistant's words.
fn by_decision(telling: &Telling<'_>) -> Option<Title> {
    let chosen = telling.steps.iter().find_map(|step| match &step.act {
        Act::Choices(choices) => choices.first(),
        _ => None,
    });
    if let Some(choice) = chosen {
        return Some(Title::told(&match choice.question.as_str() {
            "Plan" => format!("Plan: {}", choice.answer.split(": ").next().unwrap_or(&choice.answer)),
            question => format!("Decide: {} {}", shorten(question, 60), choice.answer),
        }));
    }
    if !super::kind::is_deliberation(telling) {
        return None;
    }
    let closing: Vec<Sentence> = telling.closing.iter().map(|sentence| (*sentence).clone()).collect();
    let decided =
        decisions(&closing).into_iter().find_map(|sentence| Some((imperative(&sentence.text)?, sentence)));
    decided.map(|(text, sentence)| Title {
        from_closing: Some(sentence.text.clone()),
        ..Title::spoken(&first_clause(&text))
    })
}

fn by_exploration(telling: &Telling<'_>) -> Option<Title> {
    let checked = telling.commands.iter().any(|command| command.verifies());
    let wanted =
        telling.request.first().and_then(|first| wish(&first.text)).unwrap_or_default().to_lowercase();
    let asks_for_run = each("run |test|check |build |verify").any(|verb| wanted.starts_with(verb));
    if checked && (asks_for_run || telling.closing.is_empty()) {
        return by_command(telling);
    }
    let found = by_finding(telling).or_else(|| by_wish(telling)).or_else(|| by_question(telling));
    found.or_else(|| by_command(telling))
}

/// "Find that …", of the closing message's first statement.
fn by_finding(telling: &Telling<'_>) -> Option<Title> {
    // An item of a list is often only a name.
    let whole = |sentence: &&&Sentence| !sentence.item || sentence.text.ends_with('.');
    telling.closing.iter().filter(whole).take(3).find_map(|sentence| {
        let text = sentence.text.trim_end_matches('.');
        let text = each("Yes, |No, |Yes. |No. |Yes — |No — ")
            .find_map(|start| text.strip_prefix(start))
            .unwrap_or(text);
        if !is_statement(text) || !is_english(text) || imperative(text).is_some() {
            return None;
        }
        let clause = first_clause(text);
        let title = Title::told(&format!("Find that {}", in_sentence(telling, &clause)));
        Some(Title { from_closing: Some(sentence.text.clone()), ..title })
    })
}

/// Whether a sentence states something by itself.
fn is_statement(text: &str) -> bool {
    const OPENINGS: &str =
        "I|We|You|Let|Here|To|If|Please|Would|Want|It|That|This|They|These|So|Then|Also|Both";
    let first = text.split([' ', '\'', '’']).next().unwrap_or_default();
    let stands = each(OPENINGS).all(|word| word != first) && !first.ends_with("ing");
    let words = text.split_whitespace().count();
    let wide = text.chars().any(|char| char >= '\u{2e80}');
    stands && !text.ends_with(['?', ':', '？']) && (words >= 4 || wide)
}

/// The text as it goes on in a sentence: in lower case if its first word is an ordinary one, which somebody wrote so.
fn in_sentence(telling: &Telling<'_>, text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    let lower = first.to_lowercase();
    let sentences = telling.request.iter().chain(telling.closing.iter().copied());
    let mut words = sentences.flat_map(|sentence| sentence.text.split_whitespace());
    if first.chars().all(char::is_alphabetic) && words.any(|word| word == lower) {
        return format!("{lower}{}", &text[first.len()..]);
    }
    uncapitalised(text)
}

fn by_question(telling: &Telling<'_>) -> Option<Title> {
    let asks = |sentence: &&Sentence| sentence.text.ends_with(['?', '？']);
    let question = telling.request.iter().find(asks).or(telling.request.first())?;
    let says_something = question.text.chars().count() >= 8 && !is_continuation(&question.text);
    says_something.then(|| Title::told(&format!("Answer: {}", question.text)))
}
