//! Figures about the context that sessions got.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::history::{History, short};
use crate::lines;
use crate::sample;
use crate::session::{Case, Kind};

pub fn print(cases: &[Case], histories: &[History]) {
    starts(cases, histories);
    lines::print(cases, histories);
    prompts(cases);
    lines::floors(cases, histories);
    others(cases);
    times(cases);
}

pub fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "–".into() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

/// The first start of each session, with its first prompt.
pub fn first_of<'a>(cases: &'a [Case], kind: Kind) -> HashMap<&'a str, &'a Case> {
    let mut first: HashMap<&'a str, &'a Case> = HashMap::new();
    for case in cases.iter().filter(|case| case.kind == kind) {
        first.entry(&case.session).or_insert(case);
    }
    first
}

fn starts(cases: &[Case], histories: &[History]) {
    let (starts, prompts) = (first_of(cases, Kind::Start), first_of(cases, Kind::Prompt));
    let (mut known, mut at_start, mut with_prompt) = (0, 0, 0);
    let mut tokens = Vec::new();
    for session in histories.iter().flat_map(|history| &history.sessions) {
        let Some(start) = starts.get(session.id.as_str()).filter(|start| !start.text.is_empty()) else {
            continue;
        };
        let first = prompts.get(session.id.as_str()).map(|case| case.text.as_str()).unwrap_or_default();
        tokens.push(start.tokens + prompts.get(session.id.as_str()).map_or(0, |case| case.tokens));
        let (early, late) = (names(&start.text), names(first));
        for file in session.edited.iter().filter(|file| session.known.contains(*file)) {
            known += 1;
            at_start += usize::from(is_named(file, &early));
            with_prompt += usize::from(is_named(file, &early) || is_named(file, &late));
        }
    }
    let mean = tokens.iter().sum::<usize>() / tokens.len().max(1);
    println!("Starts with a context: {}, {mean} tokens on average with the first prompt", tokens.len());
    println!(
        "Edited files that were known before: {known}; named at the start {}, or with the first prompt {}",
        percent(at_start, known),
        percent(with_prompt, known)
    );
}

pub fn names(text: &str) -> HashSet<&str> {
    let is_edge = |c: char| !(c.is_alphanumeric() || "._-/@".contains(c));
    text.split(is_edge).map(|word| word.trim_matches(['.', '/'])).filter(|word| word.contains('.')).collect()
}

pub fn is_named(file: &str, names: &HashSet<&str>) -> bool {
    names.iter().any(|name| file == *name || file.strip_suffix(name).is_some_and(|rest| rest.ends_with('/')))
}

const LENGTHS: [(&str, usize, usize); 4] =
    [("1 to 4 words", 1, 4), ("5 to 19", 5, 19), ("20 to 49", 20, 49), ("50 and more", 50, usize::MAX)];

fn prompts(cases: &[Case]) {
    println!("\n| prompts | asked | answered |\n|---|---|---|");
    for (label, least, most) in LENGTHS {
        let of: Vec<&Case> = cases
            .iter()
            .filter(|case| case.kind == Kind::Prompt)
            .filter(|case| (least..=most).contains(&case.asked.split_whitespace().count()))
            .collect();
        let told = of.iter().filter(|case| !case.text.is_empty()).count();
        println!("| {label} | {} | {} |", of.len(), percent(told, of.len()));
    }
}

fn others(cases: &[Case]) {
    println!();
    for (kind, name) in [(Kind::Edit, "Edits"), (Kind::Failure, "Failures")] {
        let of: Vec<&Case> = cases.iter().filter(|case| case.kind == kind).collect();
        let told: Vec<&&Case> = of.iter().filter(|case| !case.text.is_empty()).collect();
        let undone = told.iter().filter(|case| case.text.contains("undone by this edit")).count();
        let more =
            if kind == Kind::Edit { format!(", {undone} of them undo something") } else { String::new() };
        println!(
            "{name}: {}, answered at {} ({}){more}",
            of.len(),
            told.len(),
            percent(told.len(), of.len())
        );
    }
    repairs(cases);
}

/// The repairs that were shown, with the projects and the number of times.
fn repairs(cases: &[Case]) {
    let mut told: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for case in cases.iter().filter(|case| case.kind == Kind::Failure && !case.text.is_empty()) {
        *told.entry((&case.project, sample::repair(case))).or_default() += 1;
    }
    println!("\n| project | times | repair |\n|---|---|---|");
    for ((project, repair), times) in told {
        println!("| {project} | {times} | {} |", short(&repair, 160));
    }
}

fn times(cases: &[Case]) {
    println!();
    for (kind, name) in
        [(Kind::Start, "start"), (Kind::Prompt, "prompt"), (Kind::Edit, "edit"), (Kind::Failure, "failure")]
    {
        let mut ms: Vec<f64> = cases.iter().filter(|case| case.kind == kind).map(|case| case.ms).collect();
        ms.sort_by(f64::total_cmp);
        let at = |share: f64| ms.get((ms.len() as f64 * share) as usize).copied().unwrap_or_default();
        println!("{name}: median {:.1} ms, 99 of 100 within {:.1} ms", at(0.5), at(0.99));
    }
}
