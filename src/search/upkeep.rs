//! What the index leaves to the worker: prompts that wait, words for spelling, a rebuild that was begun.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::spelling::is_worth_knowing;
use super::words::{fold, humps, words};
use crate::store::StoreError;
use crate::store::search::{self as index, Document, Kind};

/// Rows in one transaction, so that no hook waits long.
const AT_ONCE: u32 = 100;

/// Does a little of what is to be done. True if there is more.
pub fn catch_up(database: &mut Connection) -> Result<bool, StoreError> {
    let mut more = index::index_pending(database, AT_ONCE)?;
    more |= index::rebuild_some(database, AT_ONCE)?;
    for kind in Kind::ALL {
        more |= learn_words(database, kind)?;
    }
    Ok(more)
}

/// Takes the words of new rows up.
fn learn_words(database: &mut Connection, kind: Kind) -> Result<bool, StoreError> {
    let what = format!("words {}", kind.as_str());
    let from = index::progress(database, &what)?.unwrap_or_default();
    let ids = index::ids_after(database, kind, from, AT_ONCE)?;
    let Some(last) = ids.last() else { return Ok(false) };
    let mut found = BTreeSet::new();
    for id in &ids {
        if let Some(document) = index::document(database, kind, *id)? {
            collect(&document, &mut found);
        }
    }
    index::add_words(database, found.iter().map(String::as_str), &what, *last)?;
    Ok(ids.len() == AT_ONCE as usize)
}

fn collect(document: &Document, found: &mut BTreeSet<String>) {
    let texts = [
        &document.title,
        &document.summary,
        &document.detail,
        &document.facts,
        &document.concepts,
        &document.files_modified,
        &document.files_read,
    ];
    for word in texts.into_iter().flat_map(|text| words(text)).filter(|word| !word.unspaced) {
        let parts = humps(word.text).into_iter().map(|(_, part)| part);
        found.extend(parts.chain([word.text]).map(fold).filter(|word| is_worth_knowing(word)));
    }
}

/// Empties the index and fills it again, saying how far it is after every step.
pub fn rebuild(database: &mut Connection, mut tell: impl FnMut()) -> Result<(), StoreError> {
    index::begin_rebuild(database)?;
    while catch_up(database)? {
        tell();
    }
    index::merge_some(database)
}
