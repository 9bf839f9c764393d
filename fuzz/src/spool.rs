//! No file in the spool makes the worker panic or stores half of an event. An event survives a round trip through a file
//! unchanged, and storing it again stores nothing.

use std::cell::RefCell;

use claude_mem::paths::Home;
use claude_mem::store::{self, StoreError};
use claude_mem::{model::Event, spool};
use rusqlite::Connection;

thread_local! {
    static STORED: RefCell<Option<(tempfile::TempDir, Home, Connection, usize)>> = const { RefCell::new(None) };
}

/// Panics if this does not hold.
pub fn check(bytes: &[u8]) {
    STORED.with_borrow_mut(|stored| {
        if stored.as_ref().is_none_or(|(_, _, _, count)| *count >= 500) {
            let scratch = tempfile::tempdir().unwrap();
            let home = Home::at(scratch.path().join("mem"));
            let database = store::open_for_hook(&home, 250).unwrap();
            *stored = Some((scratch, home, database, 0));
        }
        let (_, home, database, count) = stored.as_mut().unwrap();
        *count += 1;
        let file = home.dir().join("event.json");
        std::fs::write(&file, bytes).unwrap();
        let Ok(event) = spool::read(&file) else { return };
        let again: Event = serde_json::from_slice(&serde_json::to_vec(&event).unwrap()).unwrap();
        assert_eq!(again, event);
        let before = rows(database);
        match store::record_all(database, &[event.clone(), event.clone()]) {
            Ok(_) => {
                let after = rows(database);
                store::record(database, &event).unwrap();
                assert_eq!(rows(database), after, "stored twice: {event:?}");
            }
            Err(StoreError::Refused(_)) => assert_eq!(rows(database), before, "half stored: {event:?}"),
            Err(error) => panic!("{error}: {event:?}"),
        }
    });
}

fn rows(database: &Connection) -> (i64, i64, i64) {
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        database.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    (count("pending_queue"), count("sessions"), count("user_prompts"))
}
