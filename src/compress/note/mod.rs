//! The note of a turn by rules, for the provider without a model: the request, the result and the reason, in the words of the
//! user and the assistant.
//!
//! Extractive only: every sentence comes from the request, the closing message, a commit, a decision or a report. A pure
//! function of the turn: no I/O, no clock, no randomness.

mod facts;
mod filler;
mod prose;
mod request;
mod title;

pub use facts::decisions;
pub use request::is_trivial;
use request::{Asked, Plan, plan};

use crate::compress::turn::Turn;
use crate::model::{ObservationDraft, ObservationType, SummaryDraft};
use crate::text::{capitalised, shorten};
use crate::tools::path::file_name;
use crate::tools::{Action, Purpose, ToolEvent};
use prose::{Section, Statement, whole_sentences};

/// The version of these rules, stored with every note.
pub const VERSION: &str = "local-3";

/// Summary length at which no further statement is added, in bytes. A reason may exceed it.
const SUMMARY_BYTES: usize = 480;
/// Maximum length of a summary, and of a statement in it, in bytes. Both are cut at the end of a clause.
const SUMMARY_COLUMNS: usize = 1_000;
const STATEMENT_COLUMNS: usize = 640;
/// Maximum length of the detail, in bytes, and of what other closing messages add to it. A search finds only what is stored.
const DETAIL_BYTES: usize = 3_200;
const OTHER_CLOSINGS_BYTES: usize = 1_600;
/// Maximum number of files that a note names, for each of read and changed.
const MOST_FILES: usize = 30;
/// Minimum closing text that makes a turn without changes worth a note, in characters.
const FINDING_CHARS: usize = 240;
/// The same minimum if the text gives a reason.
const REASONED_CHARS: usize = 60;
/// Length below which the statements of one source are not enough, in bytes.
const LITTLE_BYTES: usize = 80;

/// The note of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The observation.
    pub observation: ObservationDraft,
    /// Points that were left open.
    pub open: Vec<String>,
    /// Tasks that were closed.
    pub closed: Vec<String>,
}

/// True if the turn did, decided or found something by itself; false for "commit", "thanks" and short answers.
pub fn has_substance(turn: &Turn) -> bool {
    let material = Material::of(turn);
    !turn.changed_files().is_empty() || !decisions(turn).is_empty() || material.finds_something()
}

/// The note of the turn; `None` if nothing is worth keeping.
pub fn note(turn: &Turn) -> Option<Note> {
    let material = Material::of(turn);
    let files_modified = turn.changed_files();
    let acts = turn.events.iter().any(|event| is_lasting(event) && !event.failed);
    let decisions = decisions(turn);
    let commits = turn.commits();
    if files_modified.is_empty()
        && decisions.is_empty()
        && commits.is_empty()
        && !acts
        && !material.finds_something()
    {
        return None;
    }
    let title = title::title(turn, &material)?;
    let summary = summary(turn, &material, &title);
    let has_words =
        summary.is_some() || !decisions.is_empty() || !commits.is_empty() || !files_modified.is_empty();
    if !has_words {
        return None;
    }
    let used = summary.clone().unwrap_or_default();
    let mut facts = facts::facts(turn, &material);
    facts.retain(|fact| !used.contains(fact.as_str()));
    let (open_tasks, closed) = turn.tasks();
    let mut files_read = turn.read_files();
    let concepts = concepts(&format!("{title} {used}"));
    let kind = kind(turn, &material, &title);
    files_read.truncate(MOST_FILES);
    let observation = ObservationDraft {
        kind,
        detail: detail(turn, &material, &title, &used),
        summary: summary.or_else(|| Some(fallback_summary(turn, &files_modified))),
        title: Some(title),
        facts,
        concepts,
        files_read,
        files_modified: files_modified.into_iter().take(MOST_FILES).collect(),
        functions_changed: Vec::new(),
    };
    Some(Note { observation, open: open_points(&material, open_tasks), closed })
}

/// The summary row of a turn, from its note. A turn without a note has none.
pub fn summarize(turn: &Turn, note: &Note) -> SummaryDraft {
    let observation = &note.observation;
    let has_changed = !observation.files_modified.is_empty()
        || !turn.commits().is_empty()
        || turn.events.iter().any(is_lasting);
    let request = turn
        .request()
        .filter(|request| !is_trivial(request))
        .map(|request| request::stated(request).or_else(|| observation.title.clone()).unwrap_or_default());
    let inherited = || turn.earlier_request.as_deref().and_then(request::stated);
    let text = observation.summary.clone();
    SummaryDraft {
        summary: text.clone(),
        request: request.or_else(inherited),
        investigated: None,
        learned: if has_changed { None } else { text.clone() },
        completed: if has_changed { Some(outcome(observation)) } else { None },
        next_steps: (!note.open.is_empty())
            .then(|| note.open.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")),
        notes: (!note.closed.is_empty()).then(|| format!("Closed: {}", note.closed.join("; "))),
        files_read: observation.files_read.clone(),
        files_edited: observation.files_modified.clone(),
        key_decisions: decisions(turn),
    }
}

/// The outcome of the turn in one sentence: its first statement.
fn outcome(observation: &ObservationDraft) -> String {
    let summary = observation.summary.as_deref().unwrap_or_default();
    whole_sentences(summary, 200)
}

/// The statements of a turn, from the first source that has any: closing message, reports, commit bodies.
struct Material {
    /// Statements in order, filler removed.
    statements: Vec<Statement>,
    /// The heading of the closing message.
    own_title: Option<String>,
    /// Statements of the closing messages that `statements` leaves out, oldest first.
    others: Vec<Statement>,
    /// True if the turn changed nothing but tests. Its closing message often repeats an earlier change.
    is_tests: bool,
    /// True if the statements are those of a subagent, whose report answers its own task and not the request.
    is_reported: bool,
    /// The plan that the turn carries out, if there is one.
    plan: Option<Plan>,
    /// Sections that can stand in title and summary. Proposals count only where nothing was changed, and asides only where
    /// there is nothing else.
    sections: &'static [Section],
}

impl Material {
    fn of(turn: &Turn) -> Self {
        // Absolute paths mean nothing on another machine.
        let root = turn.project_path.as_deref().map(|path| format!("{path}/"));
        let local =
            |text: &str| root.as_deref().map_or_else(|| text.to_owned(), |root| text.replace(root, ""));
        let says_little = |statements: &[Statement]| {
            statements.iter().map(|statement| statement.text.len()).sum::<usize>() < LITTLE_BYTES
        };
        let (mut own_title, mut statements) = (None, Vec::<Statement>::new());
        // Of several closings the last one counts, unless another is much longer: progress comes before the result, and an
        // errand such as a commit behind it.
        let longest = turn.closings.iter().map(String::len).max().unwrap_or_default();
        let (long, short): (Vec<&String>, Vec<&String>) =
            turn.closings.iter().rev().partition(|text| text.len() * 3 >= longest);
        let closings = long.into_iter().chain(short).map(|text| text.trim());
        let closings: Vec<&str> = closings.filter(|text| !text.starts_with("API Error")).collect();
        let reports = turn.reports();
        let reports = reports.iter().map(|(_, text)| text.as_str());
        let bodies = turn.commits().into_iter().map(|commit| commit.body.as_str());
        let (mut read, mut is_reported) = (0, false);
        let closing = closings.iter().copied().map(|text| (text, false));
        let bodies = bodies.map(|text| (text, false));
        // The answer to "commit" is about committing; the commit's own message describes the work.
        let is_errand = turn.request().is_some_and(is_trivial) && turn.changed_files().is_empty();
        let (first, last): (Vec<_>, Vec<_>) =
            if is_errand { (bodies.collect(), Vec::new()) } else { (Vec::new(), bodies.collect()) };
        let sources = first.into_iter().chain(closing).chain(reports.map(|text| (text, true))).chain(last);
        for (text, is_report) in sources {
            if says_little(&statements) {
                read += 1;
                let (title, mut new) = prose::titled_statements(&local(text));
                is_reported |= is_report && statements.is_empty();
                for statement in &mut new {
                    if is_report {
                        statement.put_below("Agent's report");
                    } else if !turn.has_changed() && statement.is_below_solution() {
                        statement.heading = format!("Proposed: {}", statement.heading);
                    }
                }
                own_title = own_title.or(title.filter(|_| statements.is_empty() && !is_report));
                let is_new = |new: &Statement| {
                    !statements.iter().any(|known| known.text.eq_ignore_ascii_case(&new.text))
                };
                let new: Vec<Statement> = new.into_iter().filter(is_new).collect();
                statements.extend(new);
            }
        }
        let approved = turn.events.iter().rev().find_map(|event| match &event.action {
            Action::Plan(text) => plan(text),
            _ => None,
        });
        let plan = turn.request().and_then(plan).or(approved);
        let files = turn.changed_files();
        let is_tests = !files.is_empty() && files.iter().all(|file| file.to_lowercase().contains("test"));
        // Below "Tests", what the turn itself changed is no aside.
        let own = turn.functions.iter().filter_map(|name| name.rsplit(['.', ':']).next());
        let own: Vec<&str> = own.chain(files.iter().map(|file| file_name(file))).collect();
        for aside in statements.iter_mut().filter(|statement| statement.section == Section::Aside) {
            if own.iter().any(|name| name.len() > 4 && aside.text.contains(name)) {
                aside.section = Section::Body;
            }
        }
        let has = |sections: &[Section]| {
            statements.iter().any(|statement| !statement.is_row && sections.contains(&statement.section))
        };
        let sections: &[Section] = if turn.has_changed() && has(&[Section::Body, Section::Reason]) {
            &[Section::Body, Section::Reason]
        } else if has(&[Section::Body, Section::Reason, Section::Proposal]) {
            &[Section::Body, Section::Reason, Section::Proposal]
        } else {
            &[Section::Aside]
        };
        // Shorter ones report progress or an errand.
        let others = closings.iter().skip(read).filter(|text| text.chars().count() >= FINDING_CHARS).rev();
        let others = others.flat_map(|text| prose::statements(&local(text))).collect();
        Self { statements, own_title, others, is_tests, is_reported, plan, sections }
    }

    /// Statements that can stand in a summary.
    fn body(&self) -> impl Iterator<Item = &Statement> {
        self.statements
            .iter()
            .filter(|statement| !statement.is_row && self.sections.contains(&statement.section))
    }

    /// The same, without what a turn of tests alone cannot have changed.
    fn told(&self) -> impl Iterator<Item = &Statement> {
        let is_own = |statement: &&Statement| statement.text.to_lowercase().contains("test");
        let is_all = !self.is_tests || !self.body().any(|statement| is_own(&statement));
        self.body().filter(move |statement| is_all || is_own(statement))
    }

    fn finds_something(&self) -> bool {
        let relevant = || self.statements.iter().filter(|statement| statement.section != Section::Aside);
        let chars: usize = relevant().map(|statement| statement.text.chars().count()).sum();
        let has_table = relevant().filter(|statement| statement.is_row).count() >= 2;
        let has_reason = relevant().any(Statement::gives_reason);
        chars >= FINDING_CHARS || (has_reason && chars >= REASONED_CHARS) || has_table
    }
}

/// True for commands that change something besides files: commits, pushes, publications, installations.
fn is_lasting(event: &ToolEvent) -> bool {
    event.command().is_some_and(|command| {
        command.outcome.succeeded()
            && matches!(
                command.purpose,
                Purpose::Commit | Purpose::Push | Purpose::Publish | Purpose::Install
            )
    })
}

/// The beginning of the answer, its first reason if that comes later, and the conclusion if nothing was changed. In the order
/// and the words of the answer: a statement that is moved or cut may no longer be true.
fn summary(turn: &Turn, material: &Material, title: &str) -> Option<String> {
    let stands = |statement: &&Statement| {
        statement.text.split_whitespace().count() >= 4
            && !statement.is_loose
            && !statement.text.ends_with(['?', ':'])
            && !is_near(&statement.text, title)
    };
    let body: Vec<&Statement> = material.told().filter(stands).collect();
    // The answer to a question ends with its conclusion; a report of work begins with its result.
    let verdict = (!turn.has_changed()).then(|| body.iter().rposition(|known| known.is_verdict)).flatten();
    let last = || body.len().checked_sub(1).filter(|_| !turn.has_changed());
    let mut at: Vec<usize> = verdict.or_else(last).into_iter().collect();
    let mut length: usize = at.iter().map(|at| body[*at].text.len()).sum();
    for (index, statement) in body.iter().enumerate() {
        let is_reason = |at: &usize| body[*at].gives_reason();
        let is_full = at.len() >= 4 || length + statement.text.len() > SUMMARY_BYTES;
        let is_first_reason = statement.gives_reason() && !at.iter().any(is_reason);
        let is_needed = index == 0 || is_first_reason && statement.text.len() <= STATEMENT_COLUMNS;
        if !at.contains(&index) && (is_needed || !is_full) {
            length += statement.text.len() + 1;
            at.push(index);
        }
        if is_full && at.iter().any(is_reason) {
            break;
        }
    }
    at.sort_unstable();
    let mut chosen: Vec<&Statement> = at.into_iter().map(|at| body[at]).collect();
    // The title has it already; repeating it is better than an empty summary.
    let fallback = || material.told().find(|statement| statement.text.split_whitespace().count() >= 3);
    let rows = || material.statements.iter().filter(|statement| statement.is_row).take(2);
    if chosen.is_empty() {
        chosen.extend(fallback());
    }
    if chosen.is_empty() {
        chosen.extend(rows());
    }
    let mut texts: Vec<String> = shown(&chosen).map(|text| finished(&text)).collect();
    if !texts.iter().any(|text| prose::gives_reason(text)) {
        let outside = outside_reason(turn, material).filter(|text| !is_near(text, title));
        if texts.is_empty() && outside.is_some() && turn.has_changed() {
            texts.push(format!("Edited {}.", crate::text::listed(&turn.changed_files(), 4)));
        }
        texts.extend(outside.map(|text| finished(&text)));
    }
    if let Some(question) = question(turn, title).filter(|_| !texts.is_empty()) {
        texts.insert(0, question);
    }
    while texts.len() > 1 && texts.iter().map(|text| text.len() + 1).sum::<usize>() > SUMMARY_COLUMNS {
        texts.pop();
    }
    let text = texts.join(" ");
    (!text.is_empty()).then_some(text)
}

/// The statements one after the other, each with its heading where that changes.
fn shown<'a>(statements: &'a [&Statement]) -> impl Iterator<Item = String> + 'a {
    statements.iter().enumerate().map(|(at, statement)| {
        let previous = at.checked_sub(1).map(|at| statements[at]);
        whole_sentences(&statement.shown(previous), STATEMENT_COLUMNS)
    })
}

/// The question that an answer belongs to, if the title is not the question itself.
fn question(turn: &Turn, title: &str) -> Option<String> {
    let asked = asked(turn, Asked::Question).filter(|_| !turn.has_changed())?;
    (asked.ends_with('?') && !is_near(&asked, title)).then(|| format!("Question: {asked}"))
}

/// The first clear line of this kind in the request.
fn asked(turn: &Turn, kind: Asked) -> Option<String> {
    request::lines(turn.request()?).into_iter().find(|(known, _)| *known == kind).map(|(_, line)| line)
}

/// The context of the plan, labelled: it describes the state before the turn.
fn plan_reason(material: &Material) -> Option<String> {
    let context = &material.plan.as_ref()?.context;
    (!context.is_empty()).then(|| format!("Why: {context}"))
}

/// The reason where the closing message gives none: the plan's context, a commit's body, or the problem that the user reported.
fn outside_reason(turn: &Turn, material: &Material) -> Option<String> {
    let from_body = || {
        let commits = turn.commits();
        let mut statements = commits.iter().flat_map(|commit| prose::statements(&commit.body));
        statements
            .find(Statement::gives_reason)
            .map(|statement| whole_sentences(&statement.text, STATEMENT_COLUMNS))
    };
    let reported = || {
        let line = asked(turn, Asked::Report).filter(|_| turn.has_changed() && material.plan.is_none())?;
        // A line that is cut may lack the reason.
        (!line.ends_with('…')).then(|| format!("In response to: {line}"))
    };
    plan_reason(material).or_else(from_body).or_else(reported)
}

/// True if two texts state the same: the longer one has nearly all words of the shorter.
fn is_near(one: &str, other: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let lower = text.to_lowercase();
        lower
            .split(|char: char| !char.is_alphanumeric())
            .filter(|word| word.len() > 2)
            .map(str::to_owned)
            .collect()
    };
    let (one, other) = (words(one), words(other));
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let shared = short.iter().filter(|word| long.contains(word)).count();
    !short.is_empty() && shared * 10 >= short.len() * 9 && long.len() <= short.len() + 3
}

/// A sentence of its own: capitalised, with a period.
fn finished(text: &str) -> String {
    let text = capitalised(text.trim().trim_end_matches([':', ';', ',']));
    if text.ends_with(['.', '!', '?', '…', '。', '！', '？']) { text } else { format!("{text}.") }
}

/// The summary of a turn without a closing message: its commits, or the files it changed.
fn fallback_summary(turn: &Turn, files: &[String]) -> String {
    let subjects: Vec<String> = turn.commits().iter().map(|commit| finished(&commit.subject)).collect();
    if !subjects.is_empty() {
        return shorten(&subjects.join(" "), SUMMARY_COLUMNS);
    }
    let decisions = decisions(turn);
    if let Some(first) = decisions.first() {
        return first.clone();
    }
    let asked = turn.request().filter(|request| plan(request).is_none()).and_then(request::stated);
    let asked = asked.map(|asked| format!("Requested: {} ", finished(&asked))).unwrap_or_default();
    let mut text = format!("{asked}Edited {}", crate::text::listed(files, 4));
    if !turn.functions.is_empty() {
        text.push_str(&format!(", changing {}", crate::text::listed(&turn.functions, 6)));
    }
    let end = if turn.closing().is_none() { " The turn ended without a closing message." } else { "" };
    format!("{text}.{end}")
}

/// The rest that is worth keeping, in order, bounded: of the answer, of the commits, and of the turn's other closing messages.
fn detail(turn: &Turn, material: &Material, title: &str, used: &str) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    let add = |lines: &mut Vec<String>, texts: &mut dyn Iterator<Item = String>, most: usize| {
        let mut bytes = 0;
        for text in texts {
            let is_known = used.contains(text.trim_end_matches('.')) || lines.contains(&text);
            if !text.is_empty() && !is_known && bytes + text.len() <= most {
                bytes += text.len();
                lines.push(text);
            }
        }
    };
    let is_kept = |statement: &&Statement| {
        statement.text.split_whitespace().count() >= 4 && !is_near(&statement.text, title)
    };
    let rest: Vec<&Statement> = material.body().filter(is_kept).collect();
    let bodies = turn.commits().into_iter().flat_map(|commit| prose::statements(&commit.body));
    let bodies = bodies.map(|statement| whole_sentences(&statement.text, STATEMENT_COLUMNS));
    add(&mut lines, &mut plan_reason(material).into_iter().chain(shown(&rest)).chain(bodies), DETAIL_BYTES);
    let own = lines.len();
    let others = material.others.iter().filter(|statement| statement.section != Section::Aside);
    let others: Vec<&Statement> = others.filter(is_kept).collect();
    add(&mut lines, &mut shown(&others), OTHER_CLOSINGS_BYTES);
    if let Some(first) = lines.get_mut(own) {
        *first = format!("Also said in this turn: {first}");
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Points left open: open sections of the closing message, and unfinished tasks.
fn open_points(material: &Material, tasks: Vec<String>) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let stated = material.statements.iter().filter(|statement| statement.section == Section::Open);
    let texts = stated.flat_map(|statement| {
        if statement.items.is_empty() { vec![statement.text.clone()] } else { statement.items.clone() }
    });
    let texts =
        texts.filter(|text| !text.ends_with([':', '?'])).map(|text| shorten(text.trim_end_matches('.'), 200));
    for text in texts.chain(tasks) {
        if open.len() < 8
            && text.split_whitespace().count() >= 2
            && !open.iter().any(|known| is_near(known, &text))
        {
            open.push(text);
        }
    }
    open
}

/// Words to find the note by: names in code marks.
fn concepts(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for code in text.split('`').skip(1).step_by(2) {
        let is_name =
            !code.contains(' ') && (3..=60).contains(&code.len()) && code.chars().any(char::is_alphabetic);
        if is_name && found.len() < 6 && !found.iter().any(|known| known == code) {
            found.push(code.to_owned());
        }
    }
    found
}

/// The type, by the words of commit, title and lead statement.
fn kind(turn: &Turn, material: &Material, title: &str) -> ObservationType {
    let files = turn.changed_files();
    if !turn.has_changed() {
        let is_decision = !decisions(turn).is_empty();
        return if is_decision { ObservationType::Decision } else { ObservationType::Discovery };
    }
    // Added tests and documents are not features.
    let is_side = |file: &String| {
        let lower = file.to_lowercase();
        lower.contains("test")
            || lower.contains("spec.")
            || [".md", ".yml", ".json"].iter().any(|end| lower.ends_with(end))
    };
    let only_side = !files.is_empty() && files.iter().all(is_side);
    let subject = turn.commits().first().map(|commit| commit.subject.clone()).unwrap_or_default();
    let lead = material.body().next().map(|statement| shorten(&statement.text, 120)).unwrap_or_default();
    const FIX: &str = "fix|fixes|fixed|bugfix|repair|crash|broken|regression|fails|failing|behoben|behebe|corrige|修复|修正";
    const REFACTOR: &str = "refactor|refactored|refactoring|rename|renamed|extract|extracted|simplify|simplified|cleanup|restructure|moved|consolidate|consolidated";
    const ADD: &str = "feat|add|added|adds|implement|implemented|introduce|introduced|support|supports|hinzugefügt|ajoute|新增|添加|追加";
    let named = [subject, title.to_owned(), lead].into_iter().find_map(|text| {
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower.split(|char: char| !char.is_alphanumeric()).take(12).collect();
        let has = |list: &'static str| crate::text::each(list).any(|word| words.contains(&word));
        match () {
            () if has(FIX) => Some(ObservationType::Bugfix),
            () if has(REFACTOR) => Some(ObservationType::Refactor),
            () if has(ADD) && !only_side => Some(ObservationType::Feature),
            () => None,
        }
    });
    named.unwrap_or(ObservationType::Change)
}

#[cfg(test)]
mod tests;
