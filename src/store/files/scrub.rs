//! Overwrites the unused bytes of pages that were rewritten lately.
//!
//! `secure_delete` zeroes deleted cells and freed pages. It does not cover cells that SQLite moves to another page when it
//! splits or merges: the old page keeps their bytes between its cell pointers and its first cell. A raw row next to one
//! being updated leaves such a copy, secrets included. All those pages are in the write-ahead log, so that is where this looks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::wal_check::logged_pages;
use crate::paths::with_suffix;
use crate::store::StoreError;

/// The first byte of a page with rows of a table.
const TABLE_LEAF: u8 = 0x0d;
const LEAF_HEADER: usize = 8;
/// The database header, in front of the first page's own.
const FILE_HEADER: usize = 100;
/// A longer log, 16 MiB with the usual pages, is written back as it is: a flood must not wait for this.
const MOST_FRAMES: u64 = 4096;

/// Zeroes the unused bytes of the table pages in the log. Returns the number of pages that had some.
pub fn scrub(database: &Connection) -> Result<usize, StoreError> {
    let log = database.path().map(|path| with_suffix(Path::new(path), "-wal"));
    let Some(pages) = log.and_then(|log| logged_pages(&log, MOST_FRAMES)) else { return Ok(0) };
    // A SQLite that was built without the table of pages.
    if database.prepare_cached("SELECT data FROM sqlite_dbpage WHERE pgno = ?1").is_err() {
        return Ok(0);
    }
    let mut stained = BTreeSet::new();
    for page in pages {
        if clean(database, page)?.is_some() {
            stained.insert(page);
        }
    }
    if stained.is_empty() {
        return Ok(0);
    }
    let transaction = rusqlite::Transaction::new_unchecked(database, TransactionBehavior::Immediate)?;
    for page in &stained {
        // Somebody may have used the page meanwhile.
        if let Some(bytes) = clean(&transaction, *page)? {
            let sql = "UPDATE sqlite_dbpage SET data = ?2 WHERE pgno = ?1";
            transaction.prepare_cached(sql)?.execute(params![page, bytes])?;
        }
    }
    transaction.commit()?;
    Ok(stained.len())
}

/// Returns the page with its unused bytes zeroed; `None` if there is nothing to zero.
fn clean(database: &Connection, page: u32) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT data FROM sqlite_dbpage WHERE pgno = ?1";
    let bytes: Option<Vec<u8>> =
        database.prepare_cached(sql)?.query_row([page], |row| row.get(0)).optional()?;
    let Some(mut bytes) = bytes else { return Ok(None) };
    let unused = unused(&bytes, if page == 1 { FILE_HEADER } else { 0 }).unwrap_or_default();
    if bytes[unused.clone()].iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    bytes[unused].fill(0);
    Ok(Some(bytes))
}

/// Returns the bytes between a leaf's cell pointers and its first cell; `None` for any other page.
fn unused(page: &[u8], header: usize) -> Option<Range<usize>> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes([*page.get(at)?, *page.get(at + 1)?])));
    if *page.get(header)? != TABLE_LEAF {
        return None;
    }
    let pointers = header + LEAF_HEADER;
    let cells = word(header + 3)?;
    // Zero stands for 65,536.
    let first_cell = Some(word(header + 5)?).filter(|start| *start > 0).unwrap_or(65_536);
    let end_of_pointers = pointers + 2 * cells;
    let is_cell =
        |index: usize| word(pointers + 2 * index).is_some_and(|at| (first_cell..page.len()).contains(&at));
    let is_leaf = first_cell <= page.len() && end_of_pointers <= first_cell && (0..cells).all(is_cell);
    is_leaf.then_some(end_of_pointers..first_cell)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Home;
    use crate::store;

    /// A hook's rows, claimed and redacted in rounds, as the worker does it.
    fn redact_in_rounds(worker: &mut Connection, hook: &Connection) {
        let insert = "INSERT INTO pending_queue (event_key, session_id, kind, created_at, payload)
                      VALUES (?1, 's', 'observation', 1, ?2)";
        let sizes = [0, 50, 300, 900, 2000, 6000];
        let mut state = 1_u64;
        for number in 0..1_200_i64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let size = sizes[(state >> 33) as usize % sizes.len()];
            let payload = format!("planted-{number}-{}", "x".repeat(size));
            hook.execute(insert, params![number.to_string(), payload]).unwrap();
            if number % 30 < 29 {
                continue;
            }
            // A claim makes rows longer: pages split, and neighbours move.
            let claim = "UPDATE pending_queue SET status = 'processing', claimed_at = 1700000000000,
                         cwd = printf('%.*c', 100 * (id % 2), 'y') WHERE status = 'raw'";
            worker.execute(claim, []).unwrap();
            let redacted = "SELECT id, replace(payload, 'planted-', '[redact-') FROM pending_queue WHERE payload LIKE 'planted-%'";
            let clean: Vec<(i64, String)> = {
                let mut statement = worker.prepare(redacted).unwrap();
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.map(Result::unwrap).collect()
            };
            store::prompts::replace_payloads(worker, &clean).unwrap();
            store::maintenance::retention::checkpoint(worker, std::time::Duration::ZERO).unwrap();
        }
    }

    #[test]
    fn no_copy_of_a_moved_row_is_left_in_its_old_page() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path());
        let mut worker = store::open_for_worker(&home, 0).unwrap();
        let hook = store::open_for_hook(&home, 1000).unwrap();
        // Whatever SQLite was built with, the bytes that are left are those that this setting leaves.
        worker.pragma_update(None, "secure_delete", true).unwrap();
        hook.pragma_update(None, "secure_delete", true).unwrap();
        worker
            .execute_batch("INSERT INTO sessions (id, started_at, last_activity_at) VALUES ('s', 1, 1)")
            .unwrap();
        redact_in_rounds(&mut worker, &hook);
        drop(hook);
        store::maintenance::retention::checkpoint(&worker, std::time::Duration::ZERO).unwrap();
        let file = std::fs::read(home.database()).unwrap();
        assert_eq!(memchr::memmem::find_iter(&file, b"planted-").count(), 0, "copies are left");
        let check: String = worker.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }

    #[test]
    fn only_whole_leaf_pages_have_unused_bytes() {
        let mut page = vec![0_u8; 512];
        page[0] = TABLE_LEAF;
        page[3..7].copy_from_slice(&[0, 1, 1, 0x90]);
        page[8..10].copy_from_slice(&[1, 0x90]);
        assert_eq!(unused(&page, 0), Some(10..400));
        page[8..10].copy_from_slice(&[0, 9]);
        assert_eq!(unused(&page, 0), None, "a cell in front of the first");
        page[0] = 0x05;
        assert_eq!(unused(&page, 0), None, "no leaf");
    }
}
