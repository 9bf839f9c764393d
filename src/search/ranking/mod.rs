//! Reads the candidates, ranks them, folds near duplicates, and cuts out the page.

mod matcher;
mod near_duplicates;
mod newest;
mod score;
mod similarity;
mod snippet;

use std::collections::HashSet;

use rusqlite::Connection;

use matcher::Matcher;
use near_duplicates::fold_repeats;
use score::best_score;
pub use score::{rarity, saturated};
pub use similarity::{Similarity, SimilarityScores, compare_part, counts_meaning};
pub use snippet::Snippet;

use super::candidates::scope::Scope;
use super::candidates::{Candidates, candidates};
use super::query::Query;
use super::{AsOf, FoundMemory, Request, SearchResults, words_cut};
use crate::api::ScoreParts;
use crate::config::SearchSettings as Settings;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::index::search::{Document, Kind, Place};
use crate::store::index::{newest_waiting, search as index};

/// One search under way.
pub struct Search<'a> {
    pub(in crate::search) database: &'a Connection,
    pub(in crate::search) request: &'a Request,
    settings: &'a Settings,
    pub(in crate::search) as_of: AsOf,
    pub(in crate::search) scope: Option<Scope>,
    /// Rows that came or changed since the index last looked at them: it says nothing true about them.
    pub(in crate::search) waiting: HashSet<(Kind, i64)>,
    /// The observations of the time that was asked for, if they are few enough to be listed.
    in_time: Option<HashSet<i64>>,
}

/// A row in the running.
pub struct Entry {
    /// Its place in the index; none if it waits.
    pub(in crate::search) place: Option<Place>,
    pub document: Document,
    /// The number of times that it has each clue.
    pub(in crate::search) counts: Vec<f64>,
    pub(in crate::search) parts: ScoreParts,
    pub score: f64,
    /// Others that say nearly the same.
    pub similar: Vec<i64>,
}

/// Rows that wait for the index are read one by one, at most this many of a kind.
const MOST_PENDING: u32 = 500;
/// Rows by meaning that are looked at where filters drop some, as a multiple of those that are read.
const BEFORE_FILTERS: usize = 40;
/// Observations of a longer time are not listed.
const MOST_IN_TIME: usize = 20_000;

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

    pub fn run(mut self) -> Result<SearchResults, StoreError> {
        let mut query = Query::parse(&self.request.query);
        if query.clues.is_empty() {
            return self.newest();
        }
        let found = self.candidates(&mut query)?;
        let matcher = Matcher::new(&query.clues);
        let mut entries = self.read(&found.places, &matcher)?;
        self.add_pending(&mut entries, &query, &matcher)?;
        self.score_words(&mut entries, &query.clues, &found);
        let scores = match counts_meaning(&query) {
            true => self.request.similarity.scores(self.database, self.scope.as_ref())?,
            false => SimilarityScores::default(),
        };
        if self.add_similar(&mut entries, &scores, &matcher)? {
            self.score_words(&mut entries, &query.clues, &found);
        }
        self.add_meaning(&mut entries, &scores)?;
        self.weigh(&mut entries);
        entries
            .sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| newer_first(&a.document, &b.document)));
        let entries = fold_repeats(entries);
        let total = entries.len();
        let page = entries.into_iter().skip(self.request.offset).take(self.request.limit);
        let hits = page.map(|entry| self.hit(entry, &query, &found.rarities, &matcher)).collect();
        Ok(SearchResults { hits, total, as_of: self.as_of, corrections: found.corrections })
    }

    fn candidates(&mut self, query: &mut Query) -> Result<Candidates, StoreError> {
        let mut found = Candidates::default();
        if let Some(scope) = &mut self.scope {
            scope.rows = self.as_of.rows.max(1) as f64;
        }
        if let Some(scope) = &self.scope {
            let settings = Settings { depth: self.depth() as u64, ..self.settings.clone() };
            found = candidates(self.database, scope, query, &settings, &|place| self.passes(place))?;
        }
        found.rarities.resize(query.clues.len(), 1.0);
        found.contexts.resize(query.clues.len(), Vec::new());
        Ok(found)
    }

    fn depth(&self) -> usize {
        self.settings.depth().max(self.request.offset + self.request.limit)
    }

    /// Decides by its place and its label whether a row may be a hit.
    fn passes(&self, place: Place) -> Result<bool, StoreError> {
        let (kind, id) = (place.kind(), place.id());
        let filter = &self.request.filter;
        if !self.may_count(place) || self.waiting.contains(&(kind, id)) || self.is_excluded(kind, id)? {
            return Ok(false);
        }
        if filter.reads_labels() {
            let label = index::label(self.database, kind, id)?;
            if !label.is_some_and(|label| filter.allows_label(label.type_word.as_ref(), label.created_at)) {
                return Ok(false);
            }
        }
        Ok(!filter.reads_text() || self.document(kind, id)?.is_some())
    }

    /// The prompt that is being answered is no memory yet.
    pub(in crate::search) fn is_excluded(&self, kind: Kind, id: i64) -> Result<bool, StoreError> {
        match &self.request.exclude {
            Some(turn) if kind == Kind::Prompt => {
                index::is_of_turn(self.database, id, &turn.session_id, turn.prompt_number)
            }
            _ => Ok(false),
        }
    }

    /// Reads candidates until there are enough that count.
    fn read(&self, places: &[Place], matcher: &Matcher<'_>) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for place in places {
            let Some(document) = self.document(place.kind(), place.id())? else { continue };
            entries.push(self.entry(Some(*place), document, matcher));
            if entries.len() >= self.depth() {
                break;
            }
        }
        Ok(entries)
    }

    pub(in crate::search) fn entry(
        &self,
        place: Option<Place>,
        document: Document,
        matcher: &Matcher<'_>,
    ) -> Entry {
        let counts = matcher.counts(&document);
        Entry { place, document, counts, parts: ScoreParts::default(), score: 0.0, similar: Vec::new() }
    }

    /// Decides by the place alone: rows that came after the first page are not in any page.
    pub(in crate::search) fn may_count(&self, place: Place) -> bool {
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

    /// A row, if it is there and passes the filters.
    pub(in crate::search) fn document(&self, kind: Kind, id: i64) -> Result<Option<Document>, StoreError> {
        let document = index::document(self.database, kind, id)?;
        Ok(document.filter(|document| self.request.filter.allows(document)))
    }

    /// Rows that wait for the index are found all the same.
    fn add_pending(
        &self,
        entries: &mut Vec<Entry>,
        query: &Query,
        matcher: &Matcher<'_>,
    ) -> Result<(), StoreError> {
        for &(kind, id) in &self.waiting {
            if !self.may_count(Place::new(0, kind, id)) || self.is_excluded(kind, id)? {
                continue;
            }
            let Some(document) = self.document(kind, id)? else { continue };
            let entry = self.entry(None, document, matcher);
            let matches = entry.counts.iter().any(|count| *count > 0.0);
            let has_phrases = query.required.iter().all(|required| {
                let at = query.clues.iter().position(|clue| clue.shape == required.shape);
                at.is_some_and(|at| entry.counts[at] > 0.0)
            });
            if matches && has_phrases {
                entries.push(entry);
            }
        }
        Ok(())
    }

    /// Brings in the rows that are nearest in meaning, whatever their words, if any is near enough: to a model nearly everything
    /// is a little alike. Returns true if there are new ones.
    fn add_similar(
        &self,
        entries: &mut Vec<Entry>,
        scores: &SimilarityScores,
        matcher: &Matcher<'_>,
    ) -> Result<bool, StoreError> {
        let floor = scores.scale.floor * (1.0 - best_score(entries).min(1.0)).powi(2);
        let nearest = scores.best();
        if nearest < floor {
            return Ok(false);
        }
        let known: HashSet<Place> = entries.iter().filter_map(|entry| entry.place).collect();
        let depth = self.settings.depth() / 2;
        let most = if self.request.filter.is_picky() { depth * BEFORE_FILTERS } else { depth };
        let mut unknown = Vec::new();
        for (place, cosine) in scores.most_similar(most) {
            if f64::from(cosine) >= nearest / 2.0 && !known.contains(&place) && self.passes(place)? {
                unknown.push(place);
            }
        }
        entries.extend(self.read(&unknown, matcher)?);
        Ok(!unknown.is_empty())
    }

    pub(in crate::search) fn hit(
        &self,
        entry: Entry,
        query: &Query,
        rarities: &[f64],
        matcher: &Matcher<'_>,
    ) -> FoundMemory {
        let Entry { place: _, document, counts, mut parts, score, similar } = entry;
        let (title, snippet) = match self.request.without_text {
            true => (Snippet::default(), Snippet::default()),
            false => (called(&document, matcher), snippet::snippet(&document, matcher)),
        };
        let seen = query.clues.iter().zip(rarities).zip(&counts).filter(|(_, count)| **count > 0.0);
        if self.request.explain {
            parts.clues =
                seen.map(|((clue, rarity), count)| (clue.expression.clone(), *rarity, *count)).collect();
        }
        FoundMemory {
            kind: document.kind,
            id: document.id,
            session_id: document.session_id,
            project: document.project,
            type_word: document.type_word,
            title,
            snippet,
            created_at: document.created_at,
            score: score.min(1.0),
            parts: self.request.explain.then_some(parts),
            similar,
        }
    }
}

/// The title of a row; for a prompt, its beginning.
fn called(document: &Document, matcher: &Matcher<'_>) -> Snippet {
    let text = if document.title.is_empty() {
        words_cut(&document.summary, 120)
    } else {
        words_cut(&document.title, 400)
    };
    snippet::mark_all(text, matcher)
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
