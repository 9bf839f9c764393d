//! No payload makes a hook panic. An accepted event is bounded, is JSON, has no private text, can be stored, and has the same
//! key when it arrives again. The first byte chooses the verb.

use std::cell::RefCell;

use claude_mem::capture::{self, Verb};
use claude_mem::config::{Config, Environment};
use claude_mem::model::{Event, EventBody, Payload};
use claude_mem::paths::Home;
use claude_mem::store::{self, Recorded};
use rusqlite::Connection;

const LIMIT: u64 = 4096;
const VERBS: [Verb; 6] = [Verb::Context, Verb::New, Verb::Save, Verb::Summary, Verb::Compact, Verb::End];

thread_local! {
    static STORED: RefCell<Option<(tempfile::TempDir, Connection, usize)>> = const { RefCell::new(None) };
}

/// Panics if this does not hold.
pub fn check(bytes: &[u8]) {
    let Some((first, payload)) = bytes.split_first() else { return };
    let verb = VERBS[usize::from(*first) % VERBS.len()];
    let mut config = Config::default();
    config.hook.max_payload_bytes = LIMIT;
    let environment = Environment::default();
    let Some(event) = capture::event_from(verb, payload.to_vec(), 1_000, &config, &environment) else {
        return;
    };
    match &event.body {
        EventBody::Tool(tool) => check_payload(&tool.payload),
        EventBody::Summarize(payload) | EventBody::Rejected { payload, .. } => check_payload(payload),
        EventBody::Prompt { text } => check_private(text),
        EventBody::Start { .. } | EventBody::End { .. } => {}
    }
    store_twice(&event);
}

fn check_payload(payload: &Payload) {
    let value: serde_json::Value =
        serde_json::from_str(&payload.json).unwrap_or_else(|error| panic!("{error}: {}", payload.json));
    assert!(value.is_object());
    check_private_in(&value);
}

fn check_private_in(value: &serde_json::Value) {
    match value {
        serde_json::Value::String(text) => check_private(text),
        serde_json::Value::Array(items) => items.iter().for_each(check_private_in),
        serde_json::Value::Object(members) => members.iter().for_each(|(key, value)| {
            check_private(key);
            check_private_in(value);
        }),
        _ => {}
    }
}

/// A remaining opening tag means that the private text after it was kept.
fn check_private(text: &str) {
    assert!(!text.to_ascii_lowercase().contains("<private>"), "{text:?}");
}

fn store_twice(event: &Event) {
    STORED.with_borrow_mut(|stored| {
        // A small database is fast.
        if stored.as_ref().is_none_or(|(_, _, count)| *count >= 500) {
            let scratch = tempfile::tempdir().unwrap();
            let database = store::open_for_hook(&Home::at(scratch.path().join("mem")), 250).unwrap();
            *stored = Some((scratch, database, 0));
        }
        let (_, database, count) = stored.as_mut().unwrap();
        *count += 1;
        store::record(database, event).unwrap();
        let again = store::record(database, event).unwrap();
        let is_queued = !matches!(event.body, EventBody::Start { .. }) || event.session.is_some();
        assert!(again == Recorded::Duplicate || !is_queued);
    });
}
