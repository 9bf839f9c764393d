//! Filters for hits: first by the index alone, then by a part of the row, then by the whole of it.

use crate::model::Millis;
use crate::project::is_same_file;
use crate::search::query::phrase;
use crate::search::{Filter, list};
use crate::store::index::search::{Document, Kind};

impl Filter {
    /// True if rows must be looked at before it is known that they count.
    pub(in crate::search) fn is_picky(&self) -> bool {
        !self.kinds.is_empty() || self.reads_labels() || self.reads_text()
    }

    /// True if the text of a row decides.
    pub(in crate::search) fn reads_text(&self) -> bool {
        self.concept.is_some() || self.file.is_some()
    }

    /// The expression that every row must match in the index. Only the name of a file: nobody knows how much of its path was noted.
    pub(in crate::search) fn expression(&self) -> Option<String> {
        let name = self.file.as_ref().map(|file| file.rsplit('/').next().unwrap_or(file));
        let words = [self.concept.as_deref(), name];
        let parts: Vec<String> =
            words.into_iter().flatten().filter_map(phrase).map(|phrase| format!("head : {phrase}")).collect();
        (!parts.is_empty()).then(|| parts.join(" AND "))
    }

    /// True if rows of a kind can count at all.
    pub(in crate::search) fn has_kind(&self, kind: Kind) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.types.is_empty() || kind == Kind::Observation)
    }

    /// True if the label alone can rule a row out.
    pub(in crate::search) fn reads_labels(&self) -> bool {
        !self.types.is_empty() || self.since.is_some() || self.until.is_some()
    }

    /// True if nothing in a row's label rules it out.
    pub(in crate::search) fn allows_label(&self, type_word: Option<&String>, created_at: Millis) -> bool {
        (self.types.is_empty() || type_word.is_some_and(|word| self.types.contains(word)))
            && self.since.is_none_or(|since| created_at >= since)
            && self.until.is_none_or(|until| created_at < until)
    }

    /// Decides about a whole row.
    pub(in crate::search) fn allows(&self, document: &Document) -> bool {
        self.allows_label(document.type_word.as_ref(), document.created_at)
            && self.project.as_ref().is_none_or(|project| *project == document.project)
            && self.concept.as_ref().is_none_or(|concept| has_concept(document, concept))
            && self.file.as_ref().is_none_or(|file| files(document).any(|path| is_same_file(&path, file)))
    }
}

fn has_concept(document: &Document, concept: &str) -> bool {
    list(&document.concepts).iter().any(|known| known.eq_ignore_ascii_case(concept))
}

/// The files that a row is about.
pub(in crate::search) fn files(document: &Document) -> impl Iterator<Item = String> {
    list(&document.files_modified).into_iter().chain(list(&document.files_read))
}
