//! Upkeep of the index by those who write: rows that wait, and words for spelling.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::embedding::{self, Bert, EmbeddingError, Pace, Role};
use super::language::words::{fold, humps, pairs, words};
use super::list;
use super::query::spelling::is_worth_knowing;
use crate::model::Millis;
use crate::store::StoreError;
use crate::store::index::search::{Kind, document};
use crate::store::index::vectors::Missing;
use crate::store::index::{self, Text};

/// Rows in one transaction, so that no hook waits long.
const AT_ONCE: u32 = 100;

/// Fewer rows are not worth a change of the index.
const ENOUGH: u32 = 16;

/// Does a little of what is to be done where nobody waits for it: the index is brought up to date, and then its parts are merged.
/// True if there is more.
pub fn index_and_merge_some(database: &mut Connection) -> Result<bool, StoreError> {
    Ok(index_some(database)? || index::merge_some(database)?)
}

/// Brings the index a little nearer to the tables. True if there is more.
pub fn index_some(database: &mut Connection) -> Result<bool, StoreError> {
    let mut more = false;
    if !index::waiting(database, 1)?.is_empty() {
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        more = index_waiting(&transaction)? == AT_ONCE as usize;
        transaction.commit()?;
    }
    for kind in Kind::ALL {
        more |= learn_words(database, kind)?;
    }
    Ok(more)
}

/// Brings waiting rows into the index if there are enough of them, in the transaction that wrote the last. Until then search looks
/// at them one by one: a row alone costs the index five times as much as one among many.
pub fn index_batch(transaction: &Connection) -> Result<(), StoreError> {
    if index::waiting(transaction, ENOUGH)?.len() == ENOUGH as usize {
        index_waiting(transaction)?;
    }
    Ok(())
}

/// Brings waiting rows into the index. Returns how many.
pub fn index_waiting(transaction: &Connection) -> Result<usize, StoreError> {
    index::index_waiting(transaction, AT_ONCE, |document, surroundings| Text {
        head: indexed(
            &[&document.title],
            &[&document.concepts, &document.files_modified, &document.files_read],
        ),
        body: indexed(&[&document.summary, &document.detail], &[&document.facts]),
        context: indexed(&[surroundings, &date_in_words(document.created_at)], &[]),
    })
}

/// `3 February 2026 Tuesday`, by which a question finds what was made then.
fn date_in_words(at: Millis) -> String {
    let date = jiff::Timestamp::from_millisecond(at).map(|at| at.to_zoned(jiff::tz::TimeZone::UTC));
    date.map(|date| date.strftime("%-d %B %Y %A").to_string()).unwrap_or_default()
}

/// Brings waiting rows into the index unless somebody else writes, or this connection may not. Search looks at the rest by
/// itself.
pub fn index_if_writable(database: &Connection) {
    while index::may_index(database).unwrap_or(false)
        && let Ok(transaction) = Transaction::new_unchecked(database, TransactionBehavior::Immediate)
        && let Ok(taken) = index_waiting(&transaction)
        && transaction.commit().is_ok()
        && taken > 0
    {}
}

/// Texts and lists as the index reads them: a run of a script without blanks as its pairs of characters, and behind it all
/// the parts of every `refreshToken`.
fn indexed(texts: &[&str], lists: &[&str]) -> String {
    let (mut indexed, mut parts) = (Vec::new(), Vec::new());
    let lists: Vec<String> = lists.iter().flat_map(|json| list(json)).collect();
    for word in texts.iter().copied().chain(lists.iter().map(String::as_str)).flat_map(words) {
        if word.unspaced {
            indexed.extend(pairs(word.text).map(|(_, pair)| pair));
        } else {
            indexed.push(word.text);
            parts.extend(humps(word.text).into_iter().map(|(_, part)| part));
        }
    }
    indexed.append(&mut parts);
    indexed.join(" ")
}

/// Takes the words of new rows up.
fn learn_words(database: &mut Connection, kind: Kind) -> Result<bool, StoreError> {
    let what = format!("words {}", kind.as_str());
    let from = index::progress(database, &what)?.unwrap_or_default();
    let ids = index::ids_after(database, kind, from, AT_ONCE)?;
    let Some(last) = ids.last() else { return Ok(false) };
    let mut found = BTreeSet::new();
    for id in &ids {
        let Some(document) = document(database, kind, *id)? else { continue };
        for word in document.texts().into_iter().flat_map(|text| words(text)).filter(|word| !word.unspaced) {
            let parts = humps(word.text).into_iter().map(|(_, part)| part);
            found.extend(parts.chain([word.text]).map(fold).filter(|word| is_worth_knowing(word)));
        }
    }
    index::add_words(database, found.iter().map(String::as_str), &what, *last)?;
    Ok(ids.len() == AT_ONCE as usize)
}

/// The vectors of rows that are still there.
pub fn vectors_for(
    database: &Connection,
    missing: &Missing,
    embedder: &Bert,
    pace: Pace,
) -> Result<Vec<(Kind, i64, Vec<u8>)>, EmbedError> {
    let mut made = Vec::new();
    for (kind, id) in &missing.rows {
        if let Some(document) = document(database, *kind, *id)? {
            let vector = embedder.embed(&embedding::text_of(&document), Role::Memory, pace)?;
            made.push((*kind, *id, vector.to_blob()));
        }
    }
    Ok(made)
}

/// Each takes tens of milliseconds, so that a batch takes less than a second.
pub const EMBEDDED_AT_ONCE: u32 = 8;

/// A reason for rows to get no vector.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The database said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model said no.
    #[error(transparent)]
    QueryEmbedding(#[from] EmbeddingError),
}

/// Empties the index and fills it again, saying how far it is after every step.
pub fn rebuild(database: &mut Connection, mut tell: impl FnMut()) -> Result<(), StoreError> {
    index::begin_rebuild(database)?;
    while index_and_merge_some(database)? {
        tell();
    }
    Ok(())
}
