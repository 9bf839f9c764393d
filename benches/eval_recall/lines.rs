//! The lines of start contexts, compared with what the sessions then did: an estimate without a reader, to compare versions by.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::history::{History, Session, words};
use crate::report::{first_of, is_named, names, percent};
use crate::session::{Case, Kind};

/// A line counts if it fits its session better than this share of the project's sessions.
const BETTER_THAN: f64 = 0.85;
/// Positions within a layer that get a row of their own.
const POSITIONS: usize = 8;

pub fn print(cases: &[Case], histories: &[History]) {
    let starts = first_of(cases, Kind::Start);
    let mut counted: BTreeMap<(&str, usize), (usize, usize)> = BTreeMap::new();
    let mut all = (0, 0);
    for history in histories {
        let rarity = rarity(&history.sessions);
        for session in &history.sessions {
            let Some(start) = starts.get(session.id.as_str()) else { continue };
            let mut position: HashMap<&str, usize> = HashMap::new();
            for (layer, line) in &start.lines {
                let at = position.entry(layer).or_default();
                let counts = usize::from(fits(line, session, &history.sessions, &rarity));
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

/// Rare words count more.
fn rarity(sessions: &[Session]) -> HashMap<&str, f64> {
    let mut having: HashMap<&str, f64> = HashMap::new();
    for word in sessions.iter().flat_map(|session| &session.words) {
        *having.entry(word).or_default() += 1.0;
    }
    having.values_mut().for_each(|count| *count = (sessions.len() as f64 / *count).ln());
    having
}

fn fits(line: &str, session: &Session, sessions: &[Session], rarity: &HashMap<&str, f64>) -> bool {
    let named = names(line);
    if session.edited.iter().any(|file| is_named(file, &named)) {
        return true;
    }
    let line = words(line);
    let share = |session: &Session| in_common(&line, session, rarity);
    let own = share(session);
    let worse = sessions.iter().filter(|other| share(other) < own).count();
    own > 0.0 && worse as f64 >= BETTER_THAN * (sessions.len() - 1) as f64
}

fn in_common(line: &HashSet<String>, session: &Session, rarity: &HashMap<&str, f64>) -> f64 {
    let common = line.iter().filter(|word| session.words.contains(*word));
    let worth: f64 = common.filter_map(|word| rarity.get(word.as_str())).sum();
    worth / (session.words.len().max(20) as f64).sqrt()
}
