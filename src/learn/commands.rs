//! Commands that several sessions use: checks of the project, and repairs of failures.

use std::collections::BTreeSet;

use super::cleaned;
use crate::model::{Category, LearningDraft};
use crate::store::memory::sightings::{Sighting, SightingKind};
use crate::tools::{Outcome, shell};

/// A shell command that a turn ran, or an edit between two of them, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants' own names")]
pub enum TurnStep {
    Edit,
    Ran(Run),
}

/// A command and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The event that ran it.
    pub event: i64,
    /// The command line as typed.
    pub line: String,
    /// Its purpose, if it checks the project.
    pub purpose: Option<CheckKind>,
    /// Its outcome.
    pub outcome: Outcome,
    /// The specific error of a failed command, without the parts that differ between runs.
    pub signature: Option<String>,
}

/// The purposes of commands that check a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants' own names")]
pub enum CheckKind {
    Test,
    Build,
    Lint,
    Format,
    /// Any other task of a task runner.
    Task,
}

/// Maximum commands between a failure and its repair.
const SOON: usize = 3;
/// Maximum length of a command line, in characters. A longer one is a script.
const LONGEST_LINE: usize = 120;
/// Maximum length of an error signature, in characters.
const LONGEST_SIGNATURE: usize = 90;

/// Returns the checks that a turn ran and the repairs that it found, each as the learning it becomes when enough
/// sessions have it.
pub fn sightings(activities: &[TurnStep]) -> Vec<Sighting> {
    let mut found: Vec<Sighting> = Vec::new();
    let checks = activities.iter().filter_map(check);
    let repairs = (0..activities.len()).filter_map(|at| repair(&activities[at..]));
    for sighting in checks.chain(repairs) {
        let is_same =
            |known: &&mut Sighting| known.kind == sighting.kind && known.subject == sighting.subject;
        match found.iter_mut().find(is_same) {
            Some(known) => known.is_certain |= sighting.is_certain,
            None if is_clean(&sighting) => found.push(sighting),
            None => {}
        }
    }
    found
}

/// False for a sentence with secrets, or one too long to be kept whole.
fn is_clean(sighting: &Sighting) -> bool {
    let draft = LearningDraft::new(Category::Command, sighting.subject.as_str(), 0.0);
    cleaned(draft).is_some_and(|draft| draft.content == sighting.subject)
}

fn check(activity: &TurnStep) -> Option<Sighting> {
    let TurnStep::Ran(run) = activity else { return None };
    let purpose = run.purpose.filter(|_| !run.outcome.failed())?;
    let line = command_line(&run.line)?;
    let subject = match purpose {
        CheckKind::Test => format!("Run the tests with `{line}`"),
        CheckKind::Build => format!("Build with `{line}`"),
        CheckKind::Lint => format!("Lint with `{line}`"),
        CheckKind::Format => format!("Format with `{line}`"),
        CheckKind::Task => format!("Project task: `{line}`"),
    };
    let is_certain = run.outcome.succeeded();
    Some(Sighting { kind: SightingKind::Command, subject, sources: vec![run.event], is_certain })
}

/// The repair of the first activity, if it failed: another form of the command that succeeds, or a command after which
/// the same line succeeds. An edit in between would be the repair.
fn repair(activities: &[TurnStep]) -> Option<Sighting> {
    let Some((TurnStep::Ran(failed), later)) = activities.split_first() else { return None };
    let signature = failed.signature.as_deref().filter(|_| failed.outcome.failed())?;
    let line = command_line(&failed.line)?;
    let later: Vec<(&Run, Option<String>)> = later
        .iter()
        .map_while(|activity| if let TurnStep::Ran(run) = activity { Some(run) } else { None })
        .map(|run| (run, command_line(&run.line)))
        .collect();
    let is_again = |next: &Option<String>| next.as_deref() == Some(line.as_str());
    let (at, (works, repair)) = later
        .iter()
        .enumerate()
        .take(SOON)
        .find(|(_, (run, next))| run.outcome.succeeded() || is_again(next))?;
    let repair = repair.as_deref().filter(|repair| *repair != line)?;
    let again = later[at + 1..].iter().find(|(_, next)| is_again(next)).map(|(run, _)| run.outcome);
    let repairs = match again {
        Some(outcome) => outcome.succeeded() && !is_variant(&line, repair),
        None => is_variant(&line, repair),
    };
    let signature: String = signature.chars().take(LONGEST_SIGNATURE).filter(|char| *char != '`').collect();
    repairs.then(|| Sighting {
        kind: SightingKind::Repair,
        subject: format!("`{line}` fails with \"{}\": run `{repair}`", signature.trim()),
        sources: vec![failed.event, works.event],
        is_certain: true,
    })
}

/// True if one line is another form of the other: `rtk bun test` and `bun test`. Further arguments only ask for less.
fn is_variant(failed: &str, works: &str) -> bool {
    let set = |line: &str| line.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    let (one, other) = (set(failed), set(works));
    let asks_less = one.is_subset(&other)
        && other.difference(&one).any(|word| !word.starts_with('-'))
        && works.starts_with(failed);
    let (shared, all) = (one.intersection(&other).count(), one.union(&other).count());
    // `npm test` and `pnpm test`; `python x.py` and `python3 x.py`.
    !asks_less && 10 * shared >= 3 * all
}

/// Flags of runs that check nothing.
const IDLE_FLAGS: [&str; 9] = [
    "--help",
    "-h",
    "--version",
    "-V",
    "--list",
    "--listTests",
    "--list-tests",
    "--dry-run",
    "--collect-only",
];
/// Commands that only print.
const PRINTING: [&str; 10] = ["echo", "printf", "true", "ls", "cat", "head", "tail", "pwd", "sleep", "date"];

/// The command line without `cd`, output pipes, redirections, timeouts and `echo`; none if no single command line is
/// left, or one that cannot be repeated as it is.
fn command_line(raw: &str) -> Option<String> {
    let mut kept: Vec<String> = Vec::new();
    for simple in shell::split(raw).commands {
        let words = without_timeout(&simple.words);
        let first = words.iter().find(|word| !is_assignment(word))?.as_str();
        if simple.join == shell::Join::Pipe || PRINTING.contains(&first) || (first == "cd" && kept.is_empty())
        {
            continue;
        }
        let is_output = |(path, _): &(String, bool)| path.starts_with("/tmp/") || path == "/dev/null";
        if simple.heredoc.is_some() || !simple.writes.iter().all(is_output) {
            return None;
        }
        kept.push(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
    }
    // Several commands are one line only behind `&&`.
    let is_chain =
        raw.contains("||") || raw.contains([';', '\n']) || kept.iter().any(|part| part.starts_with("cd "));
    if kept.len() > 1 && is_chain {
        return None;
    }
    let line = kept.join(" && ");
    let mut words = line.split(' ');
    let is_repeatable = !line.contains(['`', '\n', '…']) && !line.contains("$(") && !line.contains("/tmp/");
    let is_idle = words.any(|word| IDLE_FLAGS.contains(&word));
    (!line.is_empty() && line.chars().count() <= LONGEST_LINE && is_repeatable && !is_idle).then_some(line)
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `timeout -k 5 120 cargo test` without the first four words.
fn without_timeout(words: &[String]) -> &[String] {
    if !words.first().is_some_and(|word| word == "timeout" || word == "gtimeout") {
        return words;
    }
    let is_duration = |word: &String| word.starts_with(|char: char| char.is_ascii_digit());
    let is_option = |word: &String| word.starts_with('-') || is_duration(word);
    let end = words[1..].iter().position(|word| !is_option(word)).map_or(words.len(), |end| end + 1);
    &words[end..]
}

/// The word as it must be typed.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./:=@,+%^~*{}[]$?!".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else if word.contains('\'') {
        format!("\"{word}\"")
    } else {
        format!("'{word}'")
    }
}
