//! Checks of search: the index is complete, and the embedding model, if installed, is intact.

use super::Doctor;
use super::finding::Finding;
use crate::search::embedding::package;
use crate::search::indexing;
use crate::store::index::{self, Differences, vectors};
use crate::store::{self, StoreError};

/// Busy timeout, because a hook or the service may be writing.
const BUSY_TIMEOUT_MS: u32 = 10_000;

/// Backlog above which to report: search itself covers up to this many unindexed rows.
const LARGE_BACKLOG: i64 = 500;

pub fn search_index(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "search index";
    const WHY: &str = "search cannot find rows that are not indexed";
    let looked = store::open_to_read(doctor.home, BUSY_TIMEOUT_MS)
        .and_then(|database| Ok((index::count_waiting(&database)?, index::differences(&database)?)));
    match looked {
        Ok((waiting, found)) if found == Differences::default() && waiting < LARGE_BACKLOG => {
            Finding::good(NAME, "complete")
        }
        Ok((waiting, found)) if found == Differences::default() => Finding::note(
            NAME,
            format!("{waiting} rows are not indexed yet"),
            WHY,
            "the service indexes them in the background; `claude-mem reindex` does it now",
        ),
        Ok(_) if doctor.may_fix && is_repaired(doctor) => {
            Finding::fixed(NAME, "it did not match the tables and was rebuilt")
        }
        Ok((_, found)) => Finding::bad(
            NAME,
            format!("{} rows are missing from it, {} of its rows are stale", found.missing, found.surplus),
            WHY,
            "claude-mem reindex",
        ),
        // The database check reports the reason.
        Err(StoreError::Missing) => Finding::good(NAME, "no memories yet"),
        Err(_) => Finding::note(NAME, "skipped: the database cannot be read", WHY, ""),
    }
}

fn is_repaired(doctor: &Doctor<'_>) -> bool {
    let repaired = store::open_for_bulk_change(doctor.home, BUSY_TIMEOUT_MS).and_then(|mut database| {
        indexing::rebuild(&mut database, || ())?;
        index::differences(&database)
    });
    repaired.is_ok_and(|left| left == Differences::default())
}

pub fn model(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "search model";
    match package::is_intact(&doctor.home.models()) {
        None => Finding::good(NAME, "not installed; search matches words only"),
        Some(false) => {
            Finding::bad(NAME, "its file is damaged", "search matches words only", "claude-mem model install")
        }
        Some(true) => {
            let coverage = store::open_to_read(doctor.home, BUSY_TIMEOUT_MS)
                .and_then(|database| vectors::coverage(&database))
                .unwrap_or_default();
            Finding::good(NAME, format!("installed; {} of {} memories are embedded", coverage.0, coverage.1))
        }
    }
}
