//! Chooses the rows that are worth reading in full, by the index's lists for each clue (docs/decisions/003-search.md).

pub mod filter;
pub mod scope;

use rusqlite::Connection;
use scope::Scope;

use super::language::words::key;
use super::query::{Clue, Query, Shape, spelling};
use super::ranking::{rarity, saturated};
use crate::config::SearchSettings as Settings;
use crate::store::StoreError;
use crate::store::index::search::Place;

/// Rows to read, most promising first, and the weight of each clue.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The places.
    pub places: Vec<Place>,
    /// The rarity of each clue.
    pub rarities: Vec<f64>,
    /// For each clue the rows whose context has it, in the order of places.
    pub contexts: Vec<Vec<Place>>,
    /// Words that were read as others.
    pub corrections: Vec<(String, String)>,
}

/// Decides by a row's place and label alone whether it may be a hit.
pub type Passes<'a> = &'a dyn Fn(Place) -> Result<bool, StoreError>;

/// A clue in more rows than this share of all chooses no rows as long as a rarer one was asked.
const LONG_LIST: f64 = 0.01;
/// Shorter lists are never long, and longer ones always.
const LONG_LISTS: (usize, usize) = (1_000, 5_000);
/// All lists of a query together are no longer than this.
const MOST_READ: usize = 30_000;
/// Rows that are scored at a time; later, more common clues only lift those.
const MOST_ROWS: usize = 40_000;
/// Rows of the first window where only common words were asked for; all lists in it are at most this long together.
const WINDOW: usize = 4_000;
const WINDOW_LISTS: usize = 20_000;
/// The factor by which the next window reaches farther back.
const MORE: f64 = 16.0;
/// Of more words than this no row has them all.
const MOST_TOGETHER: usize = 8;
/// Rows with all of several common words that are read, as a multiple of `search.depth`.
const TOGETHER: usize = 10;

/// From this many words on a query is a question, which a row may answer without its words; fewer words are looked up.
const A_QUESTION: usize = 3;

/// Finds candidates. Replaces misspelt words of the query by known ones.
pub fn candidates(
    database: &Connection,
    scope: &Scope,
    query: &mut Query,
    settings: &Settings,
    passes: Passes<'_>,
) -> Result<Candidates, StoreError> {
    let long = ((scope.rows * LONG_LIST) as usize).clamp(LONG_LISTS.0, LONG_LISTS.1);
    let longest = long.min(MOST_READ / query.clues.len().max(1));
    let read = |columns: &str, clue: &Clue| {
        scope.matching(database, &format!("{columns} : {}", clue.expression), longest)
    };
    let has_context = query.words >= A_QUESTION;
    let (mut own, mut contexts) = (Vec::new(), Vec::new());
    for clue in &query.clues {
        own.push(read(OWN, clue)?);
        let is_common = own.last().is_some_and(|list| list.len() >= longest);
        contexts.push(if has_context && !is_common { read("context", clue)? } else { Vec::new() });
    }
    let is_unknown = |at: usize| own[at].is_empty() && contexts[at].is_empty();
    let unknown: Vec<usize> = (0..own.len()).filter(|at| is_unknown(*at)).collect();
    let corrections = correct(database, query, &unknown, |at, clue| {
        own[at] = read(OWN, clue)?;
        if has_context {
            contexts[at] = read("context", clue)?;
        }
        Ok(!own[at].is_empty())
    })?;
    let is_long = |list: &Vec<Place>| list.len() >= longest;
    let having = |list: &Vec<Place>| {
        if is_long(list) { (scope.rows * 0.2).max(list.len() as f64) } else { list.len() as f64 }
    };
    let rarity_of =
        |(own, context)| rarity(scope.rows, having(if Vec::is_empty(own) { context } else { own }));
    let rarities: Vec<f64> = own.iter().zip(&contexts).map(rarity_of).collect();
    let mut found = Candidates { places: Vec::new(), rarities, contexts, corrections };
    let mut order: Vec<usize> = (0..own.len()).filter(|at| !is_long(&own[*at])).collect();
    order.sort_by_key(|at| own[*at].len());
    let mut scores = Scores::new();
    for &at in &order {
        let value = query.clues[at].weight * found.rarities[at];
        score_list(&mut scores, &own[at], &found.contexts[at], value, settings);
    }
    if let Some(required) = required(database, scope, query)? {
        add(&mut scores, &required, 0.0);
        scores.retain(|(place, _)| required.binary_search(place).is_ok());
    }
    found.places = passing(best_first(scope, scores), passes, settings.depth())?;
    let clues: Vec<(&str, f64)> = (0..own.len())
        .filter(|at| query.required.is_empty() && is_long(&own[*at]))
        .map(|at| (query.clues[at].expression.as_str(), query.clues[at].weight * found.rarities[at]))
        .collect();
    if found.places.len() < settings.depth() && !clues.is_empty() {
        let more = newest_with(database, scope, &clues, settings.depth() - found.places.len(), passes)?;
        let known = found.places.clone();
        found.places.extend(more.into_iter().filter(|place| !known.contains(place)));
    }
    Ok(found)
}

/// The columns that hold a row's own text.
const OWN: &str = "{head body}";

/// Places in their order, and their scores. Lists come in that order: merging them takes less time than a map.
type Scores = Vec<(Place, f64)>;

/// Scores the rows of a clue: those that have it, those whose context has it, and those with both.
fn score_list(scores: &mut Scores, own: &[Place], context: &[Place], value: f64, settings: &Settings) {
    let weight = settings.context_weight;
    let (both, only): (Vec<Place>, Vec<Place>) =
        context.iter().partition(|place| own.binary_search(place).is_ok());
    add(scores, own, value * saturated(1.0));
    add(scores, &both, value * (saturated(1.0 + weight) - saturated(1.0)));
    add(scores, &only, value * saturated(weight));
}

/// Adds to the scores of the places of a list, which come in their order.
fn add(scores: &mut Scores, list: &[Place], value: f64) {
    let is_full = scores.len() > MOST_ROWS;
    let mut sum = Vec::with_capacity(scores.len() + if is_full { 0 } else { list.len() });
    let mut known = scores.drain(..).peekable();
    for place in list {
        while let Some(earlier) = known.next_if(|known| known.0 < *place) {
            sum.push(earlier);
        }
        match known.next_if(|known| known.0 == *place) {
            Some((place, score)) => sum.push((place, score + value)),
            None if !is_full => sum.push((*place, value)),
            None => {}
        }
    }
    sum.extend(known);
    *scores = sum;
}

/// Newest first among equals.
fn best_first(scope: &Scope, scores: Scores) -> Vec<Place> {
    let mut places: Vec<(f64, f64, Place)> =
        scores.into_iter().map(|(place, score)| (score, scope.age(place), place)).collect();
    places.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)).then(b.2.cmp(&a.2)));
    places.into_iter().map(|(_, _, place)| place).collect()
}

/// The first places that pass, at most `most`.
fn passing(places: Vec<Place>, passes: Passes<'_>, most: usize) -> Result<Vec<Place>, StoreError> {
    let mut passing = Vec::new();
    for place in places {
        if passing.len() >= most {
            break;
        }
        if passes(place)? {
            passing.push(place);
        }
    }
    Ok(passing)
}

/// The rows that have all required phrases, if there are any.
fn required(database: &Connection, scope: &Scope, query: &Query) -> Result<Option<Vec<Place>>, StoreError> {
    if query.required.is_empty() {
        return Ok(None);
    }
    let expressions: Vec<String> =
        query.required.iter().map(|clue| format!("{OWN} : {}", clue.expression)).collect();
    scope.matching(database, &expressions.join(" AND "), MOST_ROWS).map(Some)
}

/// Rows that have common words: those with all of them wherever they are, then the newest, looking back until there are enough.
fn newest_with(
    database: &Connection,
    scope: &Scope,
    clues: &[(&str, f64)],
    most: usize,
    passes: Passes<'_>,
) -> Result<Vec<Place>, StoreError> {
    let mut found = Vec::new();
    if (2..=MOST_TOGETHER).contains(&clues.len()) {
        let all: Vec<String> = clues.iter().map(|(expression, _)| format!("{OWN} : {expression}")).collect();
        let together = scope.matching(database, &all.join(" AND "), most * TOGETHER)?;
        let scores = together.into_iter().map(|place| (place, 0.0)).collect();
        found = passing(best_first(scope, scores), passes, most)?;
    }
    let first = WINDOW.min(WINDOW_LISTS / clues.len()) as f64;
    let (mut younger, mut older) = (0.0, (first / scope.rows.max(1.0)).min(1.0));
    while found.len() < most && younger < 1.0 {
        let mut scores = Scores::new();
        for range in scope.ranges(database, younger, older)? {
            let mut in_range = Scores::new();
            for (expression, value) in clues {
                let list =
                    scope.matching_in(database, &format!("{OWN} : {expression}"), range, usize::MAX)?;
                add(&mut in_range, &list, *value);
            }
            scores.extend(in_range);
        }
        let room = most - found.len();
        let known = found.clone();
        let is_new = |place: Place| Ok(!known.contains(&place) && passes(place)?);
        found.extend(passing(best_first(scope, scores), &is_new, room)?);
        (younger, older) = (older, (older * MORE).min(1.0));
    }
    Ok(found)
}

/// Replaces words that no row has by known ones that are like them. `read` looks a clue up again, and is false if no row has it.
/// If no word is known and one is like no other, nothing is replaced: the query is about something that is not there.
fn correct(
    database: &Connection,
    query: &mut Query,
    unknown: &[usize],
    mut read: impl FnMut(usize, &Clue) -> Result<bool, StoreError>,
) -> Result<Vec<(String, String)>, StoreError> {
    let is_any_known = unknown.len() < query.clues.len();
    let unknown: Vec<usize> =
        unknown.iter().copied().filter(|at| query.clues[*at].asked.chars().count() > 2).collect();
    let asked: Vec<&str> = unknown.iter().map(|at| query.clues[*at].asked.as_str()).collect();
    let guesses = spelling::guesses(database, &asked)?;
    let mut corrections = Vec::new();
    if !is_any_known && guesses.iter().any(Vec::is_empty) {
        return Ok(corrections);
    }
    for (at, guesses) in unknown.into_iter().zip(guesses) {
        let Some(best) = guesses.first() else { continue };
        let words: Vec<String> = guesses.iter().map(|guess| format!("\"{}\"", guess.word)).collect();
        let clue: &mut Clue = &mut query.clues[at];
        clue.expression = format!("({})", words.join(" OR "));
        clue.shape = Shape::Any(guesses.iter().map(|guess| key(&guess.word)).collect());
        clue.weight *= best.weight;
        // Words that were forgotten with their rows are still known for a while; they help nobody.
        if read(at, clue)? {
            corrections.push((clue.asked.clone(), best.word.clone()));
        }
    }
    Ok(corrections)
}
