//! Which rows are worth reading in full: each clue's list from the index, the rarest deciding.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::query::{Clue, Query, Shape};
use super::score::rarity;
use super::spelling;
use super::words::key;
use crate::config::Search as Settings;
use crate::store::StoreError;
use crate::store::search::{self as index, IndexedProject, Kind, Order, Place, Range};

/// Where to look, and how much there is.
#[derive(Debug)]
pub struct Scope {
    /// The projects.
    pub projects: Vec<IndexedProject>,
    /// Their places; one range if it is one project, or all.
    pub range: Range,
    /// How many rows they have.
    pub rows: f64,
}

impl Scope {
    /// One project, or all; nothing if the project has no rows.
    pub fn new(database: &Connection, project: Option<&str>) -> Result<Option<Self>, StoreError> {
        let mut projects = index::projects(database)?;
        let range = match project {
            None => Range::ALL,
            Some(name) => {
                projects.retain(|project| project.name == name);
                match projects.first() {
                    Some(project) => Range::project(project.number),
                    None => return Ok(None),
                }
            }
        };
        let rows = projects.iter().map(|project| project.rows).sum::<i64>();
        Ok(Some(Self { projects, range, rows: rows as f64 }))
    }
}

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

/// A clue in more rows than this decides only where no rarer clue was asked, and then by its newest rows.
const LONG_LIST: usize = 5_000;
/// Rows in question at a time; later, more common clues only lift those.
const MOST_ROWS: usize = 40_000;
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
    let longest = if all_rows { usize::MAX } else { LONG_LIST };
    let read =
        |expression: &str| index::matching(database, expression, scope.range, Order::OldestFirst, longest);
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
        newest_with(database, scope, query, &lists, settings)?
    } else {
        order.sort_by_key(|at| lists[*at].len());
        let mut scores = gather(database, scope, query, &lists, &rarities, &order, settings)?;
        if let Some(required) = &required {
            required.iter().for_each(|place| {
                scores.entry(*place).or_insert(0.0);
            });
            scores.retain(|place, _| required.contains(place));
        }
        best_first(scores)
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
) -> Result<HashMap<Place, f64>, StoreError> {
    let mut scores: HashMap<Place, f64> = HashMap::new();
    for &at in order {
        let (clue, list) = (&query.clues[at], &lists[at]);
        let value = clue.weight * rarities[at];
        add(&mut scores, list, value);
        // Where all rows of a clue are read anyway, its titles need no look of their own.
        if list.len() > settings.depth() {
            let expression = format!("head : {}", clue.expression);
            let titles = index::matching(database, &expression, scope.range, Order::OldestFirst, LONG_LIST)?;
            add(&mut scores, &titles, value * IN_TITLE);
        }
    }
    Ok(scores)
}

fn add(scores: &mut HashMap<Place, f64>, list: &[Place], value: f64) {
    let is_full = scores.len() > MOST_ROWS;
    for place in list {
        match scores.get_mut(place) {
            Some(score) => *score += value,
            None if !is_full => {
                scores.insert(*place, value);
            }
            None => {}
        }
    }
}

/// Newest first among equals.
fn best_first(scores: HashMap<Place, f64>) -> Vec<Place> {
    let mut places: Vec<(Place, f64)> = scores.into_iter().collect();
    places.sort_unstable_by(|a, b| {
        b.1.total_cmp(&a.1).then_with(|| b.0.id().cmp(&a.0.id())).then_with(|| a.0.cmp(&b.0))
    });
    places.into_iter().map(|(place, _)| place).collect()
}

/// The rows that have all required phrases, if there are any.
fn required(
    database: &Connection,
    scope: &Scope,
    query: &Query,
    longest: usize,
) -> Result<Option<HashSet<Place>>, StoreError> {
    if query.required.is_empty() {
        return Ok(None);
    }
    let expressions: Vec<&str> = query.required.iter().map(|clue| clue.expression.as_str()).collect();
    let list =
        index::matching(database, &expressions.join(" AND "), scope.range, Order::OldestFirst, longest)?;
    Ok(Some(list.into_iter().collect()))
}

/// Only common words were asked for: what has all of them, then any of them, the newest of each; of a single word its titles
/// first.
fn newest_with(
    database: &Connection,
    scope: &Scope,
    query: &Query,
    lists: &[Vec<Place>],
    settings: &Settings,
) -> Result<Vec<Place>, StoreError> {
    let there: Vec<&str> = query
        .clues
        .iter()
        .zip(lists)
        .filter(|(_, list)| !list.is_empty())
        .map(|(clue, _)| clue.expression.as_str())
        .collect();
    if there.is_empty() {
        return Ok(Vec::new());
    }
    let first = if let [only] = there[..] { format!("head : {only}") } else { there.join(" AND ") };
    let mut ranges = Vec::new();
    for range in newest_ranges(scope) {
        if !index::newest(database, range, 1)?.is_empty() {
            ranges.push(range);
        }
    }
    let mut places = Vec::new();
    for expression in [first, there.join(" OR ")] {
        let mut step = Vec::new();
        for range in &ranges {
            step.extend(index::matching(
                database,
                &expression,
                *range,
                Order::NewestFirst,
                settings.depth(),
            )?);
        }
        step.sort_by_key(|place| std::cmp::Reverse(place.id()));
        step.retain(|place| !places.contains(place));
        step.truncate(settings.depth());
        places.extend(step);
        if places.len() >= settings.depth() {
            break;
        }
    }
    Ok(places)
}

/// Ranges in which a larger place is a newer row.
pub fn newest_ranges(scope: &Scope) -> impl Iterator<Item = Range> {
    let with_rows = scope.projects.iter().filter(|project| project.rows > 0);
    with_rows.flat_map(|project| Kind::ALL.map(|kind| Range::kind(project.number, kind)))
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
