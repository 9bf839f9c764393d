//! Which rows are worth reading in full: each clue's list from the index, the rarest deciding.

use rusqlite::Connection;

use super::query::{Clue, Query, Shape};
use super::scope::Scope;
use super::score::rarity;
use super::spelling;
use super::words::key;
use crate::config::Search as Settings;
use crate::store::StoreError;
use crate::store::search::Place;

/// Rows to read, most promising first, and how much each clue tells.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Where they are.
    pub places: Vec<Place>,
    /// How rare each clue is.
    pub rarities: Vec<f64>,
    /// Words that were read as others.
    pub corrections: Vec<(String, String)>,
}

/// A clue in more rows than this share of all decides only where no rarer clue was asked, and then by its newest rows.
const LONG_LIST: f64 = 0.01;
/// Shorter lists are never long, and longer ones always.
const LONG_LISTS: (usize, usize) = (1_000, 5_000);
/// Where many words are asked for, their lists together are no longer than this.
const MOST_READ: usize = 30_000;
/// Rows in question at a time; later, more common clues only lift those.
const MOST_ROWS: usize = 40_000;
/// Where only common words were asked for, the lists of the newest rows together are about this long.
const MOST_NEWEST: usize = 20_000;
/// More rows than this of those, and a word of one row more or less does not matter.
const ENOUGH_NEWEST: usize = 4_000;
/// If this part of the rows that are wanted are among the newest and have all that was asked, older ones are not sought.
const ENOUGH_OF_ALL: usize = 4;
/// So many times the rows that are wanted are many.
const MANY: usize = 10;
/// A title says more than a passage, already here.
const IN_TITLE: f64 = 0.5;

/// Finds candidates. May change the query's clues: misspelt words are replaced by what was meant.
pub fn candidates(
    database: &Connection,
    scope: &Scope,
    query: &mut Query,
    settings: &Settings,
    all_rows: bool,
) -> Result<Candidates, StoreError> {
    let long = ((scope.rows * LONG_LIST) as usize).clamp(LONG_LISTS.0, LONG_LISTS.1);
    let longest = if all_rows { usize::MAX } else { long.min(MOST_READ / query.clues.len().max(1)) };
    let read = |expression: &str| scope.matching(database, expression, longest);
    let mut lists: Vec<Vec<Place>> = Vec::new();
    for clue in &query.clues {
        lists.push(read(&clue.expression)?);
    }
    let corrections = correct(database, query, &mut lists, &read)?;
    let is_long = |list: &Vec<Place>| list.len() >= longest;
    let having = |list: &Vec<Place>| {
        if is_long(list) { (scope.rows * 0.2).max(list.len() as f64) } else { list.len() as f64 }
    };
    let rarities: Vec<f64> = lists.iter().map(|list| rarity(scope.rows, having(list))).collect();
    let too_common = scope.rows * settings.common_percent / 100.0;
    let tells = |list: &Vec<Place>| {
        !list.is_empty() && !is_long(list) && (scope.rows < 1000.0 || having(list) <= too_common)
    };
    let mut order: Vec<usize> = (0..lists.len()).filter(|at| tells(&lists[*at])).collect();
    if order.is_empty() {
        order = (0..lists.len()).filter(|at| !lists[*at].is_empty() && !is_long(&lists[*at])).collect();
    }
    let required = required(database, scope, query, if all_rows { usize::MAX } else { MOST_ROWS })?;
    let places = if order.is_empty() && required.is_none() {
        newest_with(database, scope, query, &lists, &rarities, settings)?
    } else {
        order.sort_by_key(|at| lists[*at].len());
        let mut scores = gather(database, scope, query, &lists, &rarities, &order, settings)?;
        if let Some(required) = &required {
            add(&mut scores, required, 0.0);
            scores.retain(|(place, _)| required.binary_search(place).is_ok());
        }
        best_first(scope, scores)
    };
    Ok(Candidates { places, rarities, corrections })
}

/// Adds up, for every row, how much the clues in it tell.
fn gather(
    database: &Connection,
    scope: &Scope,
    query: &Query,
    lists: &[Vec<Place>],
    rarities: &[f64],
    order: &[usize],
    settings: &Settings,
) -> Result<Scores, StoreError> {
    let mut scores = Scores::new();
    for &at in order {
        let (clue, list) = (&query.clues[at], &lists[at]);
        let value = clue.weight * rarities[at];
        add(&mut scores, list, value);
        // Where all rows of a clue are read anyway, its titles need no look of their own.
        if list.len() > settings.depth() {
            let expression = format!("head : {}", clue.expression);
            let titles = scope.matching(database, &expression, LONG_LISTS.1)?;
            add(&mut scores, &titles, value * IN_TITLE);
        }
    }
    Ok(scores)
}

/// Places in their order, and what they count.
type Scores = Vec<(Place, f64)>;

/// Lets the places of a list, which come in their order, count so much more.
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

/// The rows that have all required phrases, if there are any.
fn required(
    database: &Connection,
    scope: &Scope,
    query: &Query,
    longest: usize,
) -> Result<Option<Vec<Place>>, StoreError> {
    if query.required.is_empty() {
        return Ok(None);
    }
    let expressions: Vec<&str> = query.required.iter().map(|clue| clue.expression.as_str()).collect();
    scope.matching(database, &expressions.join(" AND "), longest).map(Some)
}

/// Only common words were asked for: the newest rows tell which of them have most of the words; those that have all of them, or a
/// single one in their title, are found wherever they are.
fn newest_with(
    database: &Connection,
    scope: &Scope,
    query: &Query,
    lists: &[Vec<Place>],
    rarities: &[f64],
    settings: &Settings,
) -> Result<Vec<Place>, StoreError> {
    let there: Vec<usize> = (0..lists.len()).filter(|at| !lists[*at].is_empty()).collect();
    let expressions: Vec<&str> = there.iter().map(|at| query.clues[*at].expression.as_str()).collect();
    let best = match expressions[..] {
        [] => return Ok(Vec::new()),
        [only] => format!("head : {only}"),
        _ => expressions.join(" AND "),
    };
    let value = |at: usize| query.clues[at].weight * rarities[at];
    let mut wanted: Vec<(&str, f64)> =
        expressions.iter().copied().zip(there.iter().map(|at| value(*at))).collect();
    if let [(_, value)] = wanted[..] {
        wanted.push((&best, value * IN_TITLE));
    }
    let all: f64 = wanted.iter().map(|(_, value)| value).sum();
    let mut scores = Scores::new();
    for range in scope.newest_ranges(database, (MOST_NEWEST / wanted.len()).min(ENOUGH_NEWEST))? {
        let mut of_range = Scores::new();
        for (expression, value) in &wanted {
            add(&mut of_range, &scope.matching_in(database, expression, range)?, *value);
        }
        scores.extend(of_range);
    }
    let depth = settings.depth();
    if scores.iter().filter(|(_, score)| *score > all * 0.999).count() < depth / ENOUGH_OF_ALL {
        let mut list = scope.matching(database, &best, depth * MANY)?;
        scores.sort_unstable_by_key(|(place, _)| *place);
        list.retain(|place| scores.binary_search_by_key(place, |(place, _)| *place).is_err());
        add(&mut scores, &list, all);
    }
    let mut places = best_first(scope, scores);
    if places.len() < depth {
        let mut more = scope.newest(database, Some(&expressions.join(" OR ")), depth)?;
        more.retain(|place| !places.contains(place));
        places.extend(more);
    }
    Ok(places)
}

/// Replaces words that no row has by known ones that are like them.
fn correct(
    database: &Connection,
    query: &mut Query,
    lists: &mut [Vec<Place>],
    read: &impl Fn(&str) -> Result<Vec<Place>, StoreError>,
) -> Result<Vec<(String, String)>, StoreError> {
    let unknown: Vec<usize> = (0..lists.len())
        .filter(|at| lists[*at].is_empty() && query.clues[*at].asked.chars().count() > 2)
        .collect();
    let asked: Vec<&str> = unknown.iter().map(|at| query.clues[*at].asked.as_str()).collect();
    let guesses = spelling::guesses(database, &asked)?;
    let mut corrections = Vec::new();
    for (at, guesses) in unknown.into_iter().zip(guesses) {
        let Some(best) = guesses.first() else { continue };
        let words: Vec<&str> = guesses.iter().map(|guess| guess.word.as_str()).collect();
        let clue: &mut Clue = &mut query.clues[at];
        clue.expression =
            format!("({})", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR "));
        clue.shape = Shape::Any(words.iter().map(|word| key(word)).collect());
        clue.weight *= best.weight;
        lists[at] = read(&clue.expression)?;
        // Words that were forgotten with their rows are still known for a while; they help nobody.
        if !lists[at].is_empty() {
            corrections.push((clue.asked.clone(), best.word.clone()));
        }
    }
    Ok(corrections)
}
