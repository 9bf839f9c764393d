//! Reads the candidates, ranks them, folds what is nearly the same, and cuts out the page.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use serde_json::Value;

use super::candidates::{Candidates, candidates};
use super::filter::files;
use super::query::{Clue, Query};
use super::scope::Scope;
use super::score::{Evidence, Matcher, bm25};
use super::similar::fold_similar;
use super::snippet::{self, Snippet};
use super::{AsOf, Found, Hit, Likenesses, Parts, Request, alike, dates};
use crate::config::Search as Settings;
use crate::model::Millis;
use crate::project::is_same_file;
use crate::store::StoreError;
use crate::store::index::newest_waiting;
use crate::store::search::{self as index, Document, Kind, Place};

/// One search under way.
pub struct Search<'a> {
    database: &'a Connection,
    request: &'a Request,
    settings: &'a Settings,
    as_of: AsOf,
    scope: Option<Scope>,
    /// Rows that came or changed since the index last looked at them: it says nothing true about them.
    waiting: HashSet<(Kind, i64)>,
    /// The observations of the time that was asked for, if they are few enough to be listed.
    in_time: Option<HashSet<i64>>,
}

/// A row in the running.
pub struct Entry {
    /// Where it is in the index; nowhere if it waits.
    place: Option<Place>,
    pub document: Document,
    evidence: Evidence,
    parts: Parts,
    score: f64,
    /// Others that say nearly the same.
    pub similar: Vec<i64>,
}

/// Prompts that the worker has not indexed yet are looked at one by one, so many at most.
const MOST_PENDING: u32 = 500;
/// The best so many rows bring their neighbours in.
const WITH_NEIGHBOURS: usize = 30;
/// Where filters drop rows, so many times more are looked at for their meaning.
const BEFORE_FILTERS: usize = 40;
/// Of a longer time more rows count than do not.
const MOST_IN_TIME: usize = 20_000;
/// How soon words are not trusted any more: a hit with half of what was asked counts for about a third.
const DISTRUST: f64 = 1.5;
/// How far neighbours reach, to each side.
const REACH: u32 = 2;

const DAY: f64 = 24.0 * 60.0 * 60_000.0;

impl<'a> Search<'a> {
    pub fn new(
        database: &'a Connection,
        request: &'a Request,
        settings: &'a Settings,
    ) -> Result<Self, StoreError> {
        let filter = &request.filter;
        let scope = Scope::new(database, filter.project.as_deref(), filter.expression())?;
        let as_of = match request.as_of {
            Some(as_of) => as_of,
            None => AsOf {
                now: request.now,
                ids: index::largest_ids(database)?,
                rows: scope.as_ref().map_or(0, |scope| scope.rows as i64),
            },
        };
        let in_time = match (filter.since, filter.until) {
            (None, None) => None,
            (since, until) => index::made_between(
                database,
                since.unwrap_or(Millis::MIN),
                until.unwrap_or(Millis::MAX),
                MOST_IN_TIME,
            )?,
        };
        Ok(Self { database, request, settings, as_of, scope, waiting: waiting(database)?, in_time })
    }

    pub fn run(mut self) -> Result<Found, StoreError> {
        let mut query = Query::parse(&self.request.query);
        let mut found = Candidates::default();
        if let Some(scope) = &mut self.scope {
            scope.rows = self.as_of.rows.max(1) as f64;
        }
        if let Some(scope) = &self.scope {
            found = if query.clues.is_empty() {
                // Then the newest rows are the answer.
                let most = if self.request.filter.is_picky() { usize::MAX } else { self.depth() };
                let places = scope.newest(self.database, None, most)?;
                Candidates { places, ..Candidates::default() }
            } else {
                candidates(self.database, scope, &mut query, self.settings, self.request.filter.is_picky())?
            };
        }
        found.rarities.resize(query.clues.len(), 1.0);
        let matcher = Matcher::new(&query.clues);
        let mut entries = self.read(&found.places, &matcher)?;
        self.add_pending(&mut entries, &query, &matcher)?;
        let likenesses = self.likenesses(&query)?;
        self.add_alike(&mut entries, &likenesses, &matcher)?;
        self.score(&mut entries, &query, &found.rarities)?;
        self.compare(&mut entries, &likenesses, possible(&query.clues, &found.rarities))?;
        self.lift(&mut entries, &query);
        entries
            .sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| newer_first(&a.document, &b.document)));
        let entries = fold_similar(entries);
        let total = entries.len();
        let page = entries.into_iter().skip(self.request.offset).take(self.request.limit);
        let hits = page.map(|entry| self.hit(entry, &query, &found.rarities, &matcher)).collect();
        Ok(Found { hits, total, as_of: self.as_of, corrections: found.corrections })
    }

    fn depth(&self) -> usize {
        self.settings.depth().max(self.request.offset + self.request.limit)
    }

    /// Reads candidates until there are enough that count.
    fn read(&self, places: &[Place], matcher: &Matcher<'_>) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for place in places {
            if !self.may_count(*place) || self.waiting.contains(&(place.kind(), place.id())) {
                continue;
            }
            let Some(document) = self.document(place.kind(), place.id())? else { continue };
            entries.push(self.entry(Some(*place), document, matcher));
            if entries.len() >= self.depth() {
                break;
            }
        }
        Ok(entries)
    }

    fn entry(&self, place: Option<Place>, document: Document, matcher: &Matcher<'_>) -> Entry {
        let evidence = matcher.evidence(&document, self.settings);
        Entry { place, document, evidence, parts: Parts::default(), score: 0.0, similar: Vec::new() }
    }

    /// What the place alone tells: rows that came after the first page are not in any page.
    fn may_count(&self, place: Place) -> bool {
        let (kind, id) = (place.kind(), place.id());
        let newest = match kind {
            Kind::Observation => self.as_of.ids[0],
            Kind::Summary => self.as_of.ids[1],
            Kind::Prompt => self.as_of.ids[2],
        };
        id <= newest
            && self.request.filter.has_kind(kind)
            && (kind != Kind::Observation || self.in_time.as_ref().is_none_or(|ids| ids.contains(&id)))
    }

    /// A row, if it is there and counts. Most of those that do not are known without their text.
    fn document(&self, kind: Kind, id: i64) -> Result<Option<Document>, StoreError> {
        let filter = &self.request.filter;
        if filter.reads_labels() {
            let label = index::label(self.database, kind, id)?;
            if !label.is_some_and(|label| filter.allows_label(&label)) {
                return Ok(None);
            }
        }
        Ok(index::document(self.database, kind, id)?.filter(|document| filter.allows(document)))
    }

    /// Rows that wait for the index are found all the same.
    fn add_pending(
        &self,
        entries: &mut Vec<Entry>,
        query: &Query,
        matcher: &Matcher<'_>,
    ) -> Result<(), StoreError> {
        for &(kind, id) in &self.waiting {
            if !self.may_count(Place::new(0, kind, id)) {
                continue;
            }
            let Some(document) = self.document(kind, id)? else { continue };
            let entry = self.entry(None, document, matcher);
            let matches = query.clues.is_empty() || entry.evidence.counts.iter().any(|count| *count > 0.0);
            let has_phrases = query.required.iter().all(|required| {
                let at = query.clues.iter().position(|clue| clue.shape == required.shape);
                at.is_some_and(|at| entry.evidence.counts[at] > 0.0)
            });
            if matches && has_phrases {
                entries.push(entry);
            }
        }
        Ok(())
    }

    /// Scores by words, and by the words of neighbours.
    fn score(&self, entries: &mut [Entry], query: &Query, rarities: &[f64]) -> Result<(), StoreError> {
        let lengths: f64 = entries.iter().map(|entry| entry.evidence.length).sum();
        let average = lengths / entries.len().max(1) as f64;
        let score = |evidence: &Evidence| bm25(evidence, &query.clues, rarities, average, self.settings);
        for entry in entries.iter_mut() {
            entry.parts.words = score(&entry.evidence);
        }
        if self.settings.neighbour_weight > 0.0 && !query.clues.is_empty() {
            self.add_neighbours(entries)?;
        }
        let best = entries.iter().map(|entry| entry.parts.words + entry.parts.neighbours).fold(0.0, f64::max);
        for entry in entries {
            let sum = entry.parts.words + entry.parts.neighbours;
            entry.parts.lexical =
                if best > 0.0 { sum / best } else { f64::from(u8::from(query.clues.is_empty())) };
        }
        Ok(())
    }

    /// What stands beside a good hit in its session often belongs to it: both lift each other.
    fn add_neighbours(&self, entries: &mut [Entry]) -> Result<(), StoreError> {
        let mut order: Vec<usize> =
            (0..entries.len()).filter(|at| entries[*at].document.kind == Kind::Observation).collect();
        order.sort_by(|a, b| entries[*b].parts.words.total_cmp(&entries[*a].parts.words));
        order.truncate(WITH_NEIGHBOURS);
        let mut known: HashMap<i64, usize> = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            if entry.document.kind == Kind::Observation {
                known.insert(entry.document.id, at);
            }
        }
        let mut lifted: HashMap<usize, f64> = HashMap::new();
        let mut done: HashSet<(i64, i64)> = HashSet::new();
        for at in order {
            let (session, id) = (entries[at].document.session_id.clone(), entries[at].document.id);
            for (distance, other) in index::neighbours(self.database, &session, id, REACH)? {
                let Some(beside) = known.get(&other).copied() else { continue };
                if done.insert((id.min(other), id.max(other))) {
                    let share = self.settings.neighbour_weight / f64::from(distance);
                    *lifted.entry(at).or_default() += share * entries[beside].parts.words;
                    *lifted.entry(beside).or_default() += share * entries[at].parts.words;
                }
            }
        }
        for (at, lift) in lifted {
            entries[at].parts.neighbours = lift;
        }
        Ok(())
    }

    /// How alike the rows of the scope are in meaning; nothing without a model.
    fn likenesses(&self, query: &Query) -> Result<Likenesses, StoreError> {
        if !alike::counts(query) {
            return Ok(Likenesses::default());
        }
        self.request.alike.likenesses(self.database, self.scope.as_ref())
    }

    /// Brings in the rows that are most alike and share no word with the query.
    fn add_alike(
        &self,
        entries: &mut Vec<Entry>,
        likenesses: &Likenesses,
        matcher: &Matcher<'_>,
    ) -> Result<(), StoreError> {
        let known: HashSet<Place> = entries.iter().filter_map(|entry| entry.place).collect();
        let depth = self.settings.depth() / 2;
        let most = if self.request.filter.is_picky() { depth * BEFORE_FILTERS } else { depth };
        let unknown: Vec<Place> =
            likenesses.most_alike(most).into_iter().filter(|place| !known.contains(place)).collect();
        entries.extend(self.read(&unknown, matcher)?);
        Ok(())
    }

    /// Mixes the scores by words with those by meaning, each from 0 to 1. Where even the best hit has few of the words that
    /// were asked, words say little.
    fn compare(
        &self,
        entries: &mut [Entry],
        likenesses: &Likenesses,
        possible: f64,
    ) -> Result<(), StoreError> {
        let mut found: Vec<Option<f64>> = Vec::with_capacity(entries.len());
        for entry in entries.iter() {
            let likeness = match entry.place {
                Some(place) => likenesses.of(self.database, place)?,
                None => None,
            };
            found.push(likeness.map(f64::from));
        }
        let least = found.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let most = found.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let weight = if most > least { self.settings.meaning_weight.min(1.0) } else { 0.0 };
        let best = entries.iter().map(|entry| entry.parts.words + entry.parts.neighbours).fold(0.0, f64::max);
        let trust =
            if weight > 0.0 && possible > 0.0 { (best / possible).min(1.0).powf(DISTRUST) } else { 1.0 };
        for (entry, likeness) in entries.iter_mut().zip(found) {
            entry.parts.trust = trust;
            entry.parts.meaning =
                likeness.filter(|_| weight > 0.0).map_or(0.0, |likeness| (likeness - least) / (most - least));
            entry.score = (1.0 - weight) * trust * entry.parts.lexical + weight * entry.parts.meaning;
        }
        Ok(())
    }

    /// The factors beside words and meaning.
    fn lift(&self, entries: &mut [Entry], query: &Query) {
        let span = dates::span(&self.request.query, self.as_of.now);
        for entry in entries {
            let (document, parts) = (&entry.document, &mut entry.parts);
            parts.time = span.map_or(1.0, |span| self.time_factor(span, document.created_at));
            parts.recency = self.recency_factor(document.created_at);
            parts.kind = self.kind_factor(document, query);
            parts.files = self.files_factor(document);
            let is_near = self.request.near_project.as_ref().is_some_and(|near| *near == document.project);
            parts.project = if is_near { 1.0 + self.settings.project_weight } else { 1.0 };
            entry.score *= parts.time * parts.recency * parts.kind * parts.files * parts.project;
        }
    }

    fn time_factor(&self, (from, to): (Millis, Millis), at: Millis) -> f64 {
        if (from..to).contains(&at) { 1.0 + self.settings.time_weight } else { 1.0 }
    }

    /// Gentle and without end: what is old is a little behind, never gone.
    fn recency_factor(&self, at: Millis) -> f64 {
        let age = (self.as_of.now - at).max(0) as f64 / DAY;
        1.0 + self.settings.recency_weight / (1.0 + age / self.settings.recency_days.max(1.0))
    }

    fn kind_factor(&self, document: &Document, query: &Query) -> f64 {
        match document.kind {
            Kind::Observation if query.asks_why && document.type_word.as_deref() == Some("decision") => {
                1.0 + self.settings.type_weight
            }
            Kind::Observation => 1.0,
            Kind::Summary => self.settings.summaries_weight,
            Kind::Prompt => self.settings.prompts_weight,
        }
    }

    fn files_factor(&self, document: &Document) -> f64 {
        let near = &self.request.near_files;
        if near.is_empty() {
            return 1.0;
        }
        let shared = files(document).filter(|path| near.iter().any(|near| is_same_file(path, near))).count();
        1.0 + self.settings.near_files_weight * (shared.min(3) as f64 / 3.0)
    }

    fn hit(&self, entry: Entry, query: &Query, rarities: &[f64], matcher: &Matcher<'_>) -> Hit {
        let Entry { place: _, document, evidence, mut parts, score, similar } = entry;
        let (title, snippet) = match self.request.without_text {
            true => (Snippet::default(), Snippet::default()),
            false => (called(&document, matcher), snippet::snippet(&document, matcher)),
        };
        let seen = query.clues.iter().zip(rarities).zip(&evidence.counts);
        if self.request.explain {
            parts.clues = seen
                .filter(|(_, count)| **count > 0.0)
                .map(|((clue, rarity), count)| (clue.expression.clone(), *rarity, *count))
                .collect();
        }
        Hit {
            kind: document.kind,
            id: document.id,
            session_id: document.session_id,
            project: document.project,
            type_word: document.type_word,
            title,
            snippet,
            created_at: document.created_at,
            score,
            parts: self.request.explain.then_some(parts),
            similar,
        }
    }
}

/// What a row is called; for a prompt, its beginning.
fn called(document: &Document, matcher: &Matcher<'_>) -> Snippet {
    if document.title.is_empty() {
        snippet::mark_all(super::words_cut(&document.summary, 120), matcher)
    } else {
        snippet::mark_all(super::words_cut(&document.title, 400), matcher)
    }
}

/// What the words of a row that has them all once would count.
fn possible(clues: &[Clue], rarities: &[f64]) -> f64 {
    clues.iter().zip(rarities).map(|(clue, rarity)| clue.weight * rarity).sum()
}

fn newer_first(a: &Document, b: &Document) -> std::cmp::Ordering {
    b.created_at.cmp(&a.created_at).then_with(|| (a.kind, b.id).cmp(&(b.kind, a.id)))
}

fn waiting(database: &Connection) -> Result<HashSet<(Kind, i64)>, StoreError> {
    let mut waiting = HashSet::new();
    for kind in Kind::ALL {
        let ids = newest_waiting(database, kind, MOST_PENDING)?;
        waiting.extend(ids.into_iter().map(|id| (kind, id)));
    }
    Ok(waiting)
}

/// The entries of a list as the tables have it.
pub(super) fn list(json: &str) -> Vec<String> {
    let text = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    serde_json::from_str::<Vec<Value>>(json).unwrap_or_default().into_iter().map(text).collect()
}
