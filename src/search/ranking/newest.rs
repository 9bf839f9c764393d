//! The answer to an empty query: everything, the newest first.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::matcher::Matcher;
use super::near_duplicates::fold_repeats;
use super::{Entry, Search};
use crate::model::Millis;
use crate::search::SearchResults;
use crate::search::query::Query;
use crate::store::StoreError;
use crate::store::index::search as index;
use crate::store::index::search::{Kind, Place};

impl Search<'_> {
    /// Everything that passes the filters, the newest first: the answer to an empty query.
    pub(in crate::search) fn newest(self) -> Result<SearchResults, StoreError> {
        let filter = &self.request.filter;
        let wanted = self.request.offset + self.request.limit + 1;
        let mut rows: Vec<(Millis, Kind, i64)> = Vec::new();
        for kind in Kind::ALL.into_iter().filter(|kind| filter.has_kind(*kind)) {
            // Rows of a turn are folded into one, so that more are needed than are shown.
            let most = if filter.reads_text() { usize::MAX } else { wanted * Kind::ALL.len() };
            let conditions = index::NewestFilter {
                project: filter.project.clone(),
                types: filter.types.clone(),
                since: filter.since,
                until: filter.until,
            };
            rows.extend(index::newest(self.database, kind, &conditions, most)?);
        }
        if let Some(scope) = self.scope.as_ref().filter(|_| filter.reads_text()) {
            let named: HashSet<(Kind, i64)> =
                scope.all(self.database)?.into_iter().map(|place| (place.kind(), place.id())).collect();
            rows.retain(|(_, kind, id)| {
                named.contains(&(*kind, *id)) || self.waiting.contains(&(*kind, *id))
            });
        }
        rows.sort_unstable_by_key(|(at, kind, id)| (Reverse(*at), *kind, Reverse(*id)));
        let (query, matcher) = (Query::default(), Matcher::new(&[]));
        let mut entries: Vec<Entry> = Vec::new();
        let mut left = rows.len();
        for (_, kind, id) in rows {
            left -= 1;
            if !self.may_count(Place::new(0, kind, id)) || self.is_excluded(kind, id)? {
                continue;
            }
            let Some(document) = self.document(kind, id)? else { continue };
            entries.push(Entry { score: 1.0, ..self.entry(None, document, &matcher) });
            if entries.len().is_multiple_of(wanted) {
                entries = fold_repeats(entries);
                if entries.len() >= wanted {
                    break;
                }
            }
        }
        let entries = fold_repeats(entries);
        let total = entries.len() + left;
        let page = entries.into_iter().skip(self.request.offset).take(self.request.limit);
        let hits = page.map(|entry| self.hit(entry, &query, &[], &matcher)).collect();
        Ok(SearchResults { hits, total, as_of: self.as_of, corrections: Vec::new() })
    }
}
