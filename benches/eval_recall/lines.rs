//! The lines of start contexts, compared with what the sessions then did: an estimate without a reader, to compare versions by.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use claude_mem::context::in_session::{FIRST_FLOOR, FLOOR};

use crate::history::{History, Session, words};
use crate::report::{first_of, is_named, names, percent};
use crate::session::{Case, Kind};

/// A line counts if it fits its session better than this share of the project's sessions.
const BETTER_THAN: f64 = 0.85;
/// Positions within a layer that get a row of their own.
const POSITIONS: usize = 8;

/// The name of the layer for lines of the first prompt.
const FIRST_PROMPT: &str = "first prompt";

pub fn print(cases: &[Case], histories: &[History]) {
    let (starts, prompts) = (first_of(cases, Kind::Start), first_of(cases, Kind::Prompt));
    let mut counted: BTreeMap<(&str, usize), (usize, usize)> = BTreeMap::new();
    let mut all = (0, 0);
    for history in histories {
        let rarity = rarity(&history.sessions, |session| &session.words);
        for session in &history.sessions {
            let Some(start) = starts.get(session.id.as_str()).filter(|start| !start.text.is_empty()) else {
                continue;
            };
            let first = prompts.get(session.id.as_str()).map(|case| case.lines.as_slice());
            let first = first.unwrap_or_default().iter().map(|(_, line)| (FIRST_PROMPT, line));
            let mut position: HashMap<&str, usize> = HashMap::new();
            for (layer, line) in start.lines.iter().map(|(layer, line)| (*layer, line)).chain(first) {
                let at = position.entry(layer).or_default();
                let counts = usize::from(
                    names_command(line, session)
                        || fits(line, session, &history.sessions, &rarity, |it| &it.words, &HashSet::new()),
                );
                let cell = counted.entry((layer, (*at).min(POSITIONS))).or_default();
                *cell = (cell.0 + 1, cell.1 + counts);
                all = (all.0 + 1, all.1 + counts);
                *at += 1;
            }
        }
    }
    println!("\nLines that seem to have to do with the session: {} of {}", percent(all.1, all.0), all.0);
    println!("\n| layer | place | lines | fit |\n|---|---|---|---|");
    for ((layer, at), (lines, fit)) in counted {
        println!("| {layer} | {} | {lines} | {} |", at + 1, percent(fit, lines));
    }
}

/// The floors to choose from, in hundredths.
const FLOORS: RangeInclusive<u32> = 50..=75;
/// The share of memories that must count on the projects that a floor is chosen on.
const WANTED: f64 = 0.6;

/// Prints, for first and for later prompts of each project, the floor that the other projects would choose, and the share of
/// memories that count with it.
pub fn floors(cases: &[Case], histories: &[History]) {
    let firsts = first_of(cases, Kind::Prompt);
    let is_first = |case: &Case| firsts.get(case.session.as_str()).is_some_and(|it| it.number == case.number);
    let (first, later): (Vec<&Case>, Vec<&Case>) =
        cases.iter().filter(|case| case.kind == Kind::Prompt).partition(|case| is_first(case));
    for (name, cases, floor) in [("First", first, FIRST_FLOOR), ("Later", later, FLOOR)] {
        println!("\n{name} prompts");
        chosen(&cases, histories, floor);
    }
}

fn chosen(cases: &[&Case], histories: &[History], present: f64) {
    let projects: Vec<Vec<(f64, bool)>> = histories.iter().map(|history| judged(cases, history)).collect();
    println!(
        "\n| held out | floor chosen on the others | memories there | count | memories here | count |\n|---|---|---|---|---|---|"
    );
    for (at, history) in histories.iter().enumerate() {
        let others: Vec<(f64, bool)> = projects
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .flat_map(|(_, it)| it.clone())
            .collect();
        let chosen = FLOORS.map(|floor| f64::from(floor) / 100.0).find(|floor| {
            let (shown, count) = above(&others, *floor);
            count as f64 >= WANTED * shown as f64
        });
        let Some(floor) = chosen else {
            println!("| {} | none | | | | |", history.project);
            continue;
        };
        let ((there, counting), (here, own)) = (above(&others, floor), above(&projects[at], floor));
        println!(
            "| {} | {floor:.2} | {there} | {} | {here} | {} |",
            history.project,
            percent(counting, there),
            percent(own, here)
        );
    }
    let all: Vec<(f64, bool)> = projects.concat();
    let (shown, count) = above(&all, present);
    println!("\nThe floor is {present}: {shown} memories, {} count", percent(count, shown));
}

fn above(judged: &[(f64, bool)], floor: f64) -> (usize, usize) {
    let shown = judged.iter().filter(|(fit, _)| *fit >= floor);
    (shown.clone().count(), shown.filter(|(_, counts)| *counts).count())
}

/// The fit of each candidate for a prompt, and whether it counts by what the session then answered and edited. The words of
/// the prompt itself, by which the candidate was found, are left out.
fn judged(cases: &[&Case], history: &History) -> Vec<(f64, bool)> {
    let rarity = rarity(&history.sessions, |session| &session.answers);
    let mut judged = Vec::new();
    for case in cases {
        let Some(session) = history.session(&case.session) else { continue };
        let asked = words(&case.asked);
        for (fit, text) in case.candidates.iter().filter(|(fit, _)| *fit >= LEAST_FIT) {
            let counts = fits(text, session, &history.sessions, &rarity, |it| &it.answers, &asked);
            judged.push((*fit, counts));
        }
    }
    judged
}

/// Candidates below it are out of the question.
const LEAST_FIT: f64 = 0.5;

/// Rare words count more.
fn rarity<'a>(
    sessions: &'a [Session],
    words: impl Fn(&'a Session) -> &'a HashSet<String>,
) -> HashMap<&'a str, f64> {
    let mut having: HashMap<&str, f64> = HashMap::new();
    for word in sessions.iter().flat_map(words) {
        *having.entry(word).or_default() += 1.0;
    }
    having.values_mut().for_each(|count| *count = (sessions.len() as f64 / *count).ln());
    having
}

/// True if the line quotes a command that the session ran.
fn names_command(line: &str, session: &Session) -> bool {
    let mut quoted = line.split('`').skip(1).step_by(2).filter(|text| text.contains(' '));
    quoted.any(|text| session.commands.iter().any(|command| command.contains(text)))
}

/// True if the line names a file that the session edits, or has more words in common with it than with most others. Words that
/// were asked with do not count.
fn fits<'a>(
    line: &str,
    session: &'a Session,
    sessions: &'a [Session],
    rarity: &HashMap<&str, f64>,
    of: impl Fn(&'a Session) -> &'a HashSet<String>,
    asked: &HashSet<String>,
) -> bool {
    let named = names(line);
    if session.edited.iter().any(|file| is_named(file, &named)) {
        return true;
    }
    let line: Vec<String> = words(line).into_iter().filter(|word| !asked.contains(word)).collect();
    let share = |session: &'a Session| {
        let words = of(session);
        let common = line.iter().filter(|word| words.contains(*word));
        let worth: f64 = common.filter_map(|word| rarity.get(word.as_str())).sum();
        let others = words.len() - asked.iter().filter(|word| words.contains(*word)).count();
        worth / (others.max(20) as f64).sqrt()
    };
    let own = share(session);
    let worse = sessions.iter().filter(|other| share(other) < own).count();
    own > 0.0 && worse as f64 >= BETTER_THAN * (sessions.len() - 1) as f64
}
