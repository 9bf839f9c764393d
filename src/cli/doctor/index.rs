//! Checks of search: whether everything that is remembered can be found, and by meaning, too, where a model is installed.

use super::Patient;
use super::finding::Finding;
use crate::search::meaning::package;
use crate::search::upkeep;
use crate::store::index::{self, Differences};
use crate::store::{self, StoreError, vectors};

/// A hook or the service may write at the same moment.
const PATIENCE_MS: u32 = 10_000;

/// Search looks at this many waiting rows by itself.
const MANY: i64 = 500;

pub fn search_index(patient: &Patient<'_>) -> Finding {
    const NAME: &str = "search index";
    const WHY: &str = "what is not in the index is not found";
    let looked = store::open_to_read(patient.home, PATIENCE_MS)
        .and_then(|database| Ok((index::count_waiting(&database)?, index::differences(&database)?)));
    match looked {
        Ok((waiting, found)) if found == Differences::default() && waiting < MANY => {
            Finding::good(NAME, "everything that is remembered is in it")
        }
        Ok((waiting, found)) if found == Differences::default() => Finding::note(
            NAME,
            format!("{waiting} rows wait to be taken into it"),
            WHY,
            "the service does that by itself; claude-mem reindex does it now",
        ),
        Ok(_) if patient.may_fix && is_repaired(patient) => {
            Finding::fixed(NAME, "it did not agree with the tables; it was made anew")
        }
        Ok((_, found)) => Finding::bad(
            NAME,
            format!("{} rows are not in it, {} of its rows stand for nothing", found.missing, found.surplus),
            WHY,
            "claude-mem reindex",
        ),
        // The check of the database says what is wrong with it.
        Err(StoreError::Missing) => Finding::good(NAME, "nothing is remembered yet"),
        Err(_) => Finding::note(NAME, "not looked at: the database cannot be read", WHY, ""),
    }
}

fn is_repaired(patient: &Patient<'_>) -> bool {
    let repaired = store::open_to_change(patient.home, PATIENCE_MS).and_then(|mut database| {
        upkeep::rebuild(&mut database, || ())?;
        index::differences(&database)
    });
    repaired.is_ok_and(|left| left == Differences::default())
}

pub fn model(patient: &Patient<'_>) -> Finding {
    const NAME: &str = "search model";
    match package::is_intact(&patient.home.models()) {
        None => Finding::good(NAME, "none: search works by words alone"),
        Some(false) => Finding::bad(
            NAME,
            "its file is damaged",
            "search works by words alone",
            "claude-mem model install",
        ),
        Some(true) => {
            let coverage = store::open_to_read(patient.home, PATIENCE_MS)
                .and_then(|database| vectors::coverage(&database))
                .unwrap_or_default();
            Finding::good(NAME, format!("installed; it has read {} of {} memories", coverage.0, coverage.1))
        }
    }
}
