//! What the tools do: with a worker, without one, and with one that dies.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::client::Client;
use crate::sandbox::Sandbox;
use crate::service::Worker;

/// A directory that is a project of its own.
fn project(sandbox: &Sandbox, name: &str) -> PathBuf {
    let path = sandbox.path().join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A client as Claude Code starts it in that directory.
fn client_in(sandbox: &Sandbox, directory: &Path) -> Client {
    let mut command = sandbox.mcp_command();
    command.env("CLAUDE_PROJECT_DIR", directory);
    let mut client = Client::start(command);
    client.initialize("2025-11-25", json!({}));
    client
}

/// From saying something to finding, reading, forgetting and finding it again.
fn live(sandbox: &Sandbox) {
    let mut client = client_in(sandbox, &project(sandbox, "harborline"));
    let text = "We dropped the token cache. It raced with logout: two requests saw different sessions.";
    let saved = client.told("save", json!({"text": text, "type": "decision", "files": ["src/cache.rs"]}));
    assert_eq!(saved, "Saved as 1: We dropped the token cache");
    assert_eq!(client.told("save", json!({"text": text})), "Known already as 1: We dropped the token cache");
    client.told("save", json!({"text": "The parser keeps comments"}));
    let found = client.told("search", json!({"query": "why no token cache?", "type": "decision"}));
    assert_eq!(found, "1 decision just now: We dropped the token cache");
    assert!(client.told("search", json!({"query": "", "file": "cache.rs"})).starts_with("1 decision"));
    let around = client.told("timeline", json!({"id": 1}));
    assert!(around.starts_with("> 1 decision just now") && around.contains("\n2 discovery"), "{around}");
    let whole = client.told("get", json!({"ids": ["1", "#2", "99"]}));
    assert!(whole.contains("raced with logout") && whole.contains("Changed: src/cache.rs"), "{whole}");
    assert!(whole.ends_with("Not there, or forgotten: 99."), "{whole}");
    let forgotten = client.told("forget", json!({"ids": [1]}));
    assert_eq!(
        forgotten,
        "Forgotten: 1 We dropped the token cache\nUndo: forget with ids [\"1\"] and undo true."
    );
    let found = client.told("search", json!({"query": "token cache"}));
    assert!(found.starts_with("Nothing in harborline matches."), "{found}");
    assert!(client.refused("get", json!({"ids": [1]})).contains("there is no memory 1"));
    assert!(client.refused("timeline", json!({"id": 1})).contains("there is no memory 1"));
    assert!(client.told("forget", json!({"ids": [1]})).starts_with("Was forgotten already: 1"));
    assert_eq!(
        client.told("forget", json!({"ids": [1], "undo": true})),
        "Back: 1 We dropped the token cache"
    );
    assert!(client.told("search", json!({"query": "token cache"})).starts_with("1 decision"));
    let learnt =
        client.told("save", json!({"text": "Run make check before a commit", "learning": "command"}));
    assert_eq!(learnt, "Saved as L1: Run make check before a commit");
    assert!(client.told("recent", json!({})).contains("L1 command: Run make check"));
    assert!(client.told("forget", json!({"ids": ["L1"]})).starts_with("Forgotten: L1"));
    assert!(!client.told("recent", json!({})).contains("make check"));
    assert!(client.end().is_empty());
}

#[test]
fn a_memory_lives_through_a_worker() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    live(&sandbox);
}

#[test]
fn a_memory_lives_without_a_worker() {
    live(&Sandbox::new());
}

#[test]
fn a_worker_that_stops_in_the_middle_costs_no_answer_and_stores_nothing_twice() {
    let sandbox = Sandbox::new();
    let mut client = client_in(&sandbox, &project(&sandbox, "harborline"));
    client.told("save", json!({"text": "The harbour opens at dawn"}));
    for (tool, arguments) in [
        ("search", json!({"query": "harbour"})),
        ("get", json!({"ids": [1]})),
        ("save", json!({"text": "It closes at dusk"})),
        ("forget", json!({"ids": [2]})),
    ] {
        let dying = UnixListener::bind(sandbox.socket()).unwrap();
        let taken = std::thread::spawn(move || drop(dying.accept().unwrap()));
        client.told(tool, arguments);
        taken.join().unwrap();
        std::fs::remove_file(sandbox.socket()).unwrap();
    }
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations"), 2);
}

#[test]
fn other_projects_are_shown_only_by_name() {
    let sandbox = Sandbox::new();
    let mut here = client_in(&sandbox, &project(&sandbox, "harborline"));
    let mut there = client_in(&sandbox, &project(&sandbox, "lighthouse"));
    here.told("save", json!({"text": "The lamp of the harbour is red"}));
    there.told("save", json!({"text": "The lamp of the tower is white"}));
    assert!(!here.told("search", json!({"query": "lamp"})).contains("tower"));
    let named = here.told("search", json!({"query": "lamp", "project": "lighthouse"}));
    assert!(named.contains("tower") && !named.contains("harbour"), "{named}");
    let unknown = here.told("search", json!({"query": "lamp", "project": "Lighthouse"}));
    assert!(unknown.contains("These projects have: harborline, lighthouse."), "{unknown}");
    here.told("save", json!({"text": "Paint it in spring", "project": "lighthouse"}));
    assert!(there.told("search", json!({"query": "spring"})).contains("Paint it"));
}

#[test]
fn the_clients_roots_say_where_it_is() {
    let sandbox = Sandbox::new();
    let (first, second) = (project(&sandbox, "first one"), project(&sandbox, "second"));
    let mut client = Client::start(sandbox.mcp_command());
    client.roots =
        vec!["https://example.com/".into(), format!("file://{}", first.display()).replace(' ', "%20")];
    client.initialize("2025-06-18", json!({"roots": {"listChanged": true}}));
    client.told("save", json!({"text": "A note of the first"}));
    client.roots = vec![format!("file://{}", second.display())];
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
    client.told("save", json!({"text": "A note of the second"}));
    let projects: String = sandbox.get("SELECT group_concat(project) FROM observations");
    assert_eq!(projects, "first one,second");
}

#[test]
fn pages_fit_together_though_memories_come_in_between() {
    let sandbox = Sandbox::new();
    let mut client = client_in(&sandbox, &project(&sandbox, "harborline"));
    for number in 0..7 {
        client.told("save", json!({"text": format!("Harbour note number {number}")}));
    }
    let page = |client: &mut Client, offset: usize| {
        let shown = client.told("search", json!({"query": "harbour note", "limit": 3, "offset": offset}));
        shown.lines().filter(|line| line.contains("Harbour")).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all = page(&mut client, 0);
    assert_eq!(all.len(), 3);
    client.told("save", json!({"text": "Harbour note harbour note: one more"}));
    all.extend(page(&mut client, 3));
    all.extend(page(&mut client, 6));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 7, "{all:?}");
}

#[test]
fn recent_tells_what_is_left_to_do() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    sandbox.prompt("s", "Fix the greeting");
    sandbox.edit("s", "a");
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    let sql = "UPDATE session_summaries SET next_steps = 'Translate it'";
    sandbox.database().execute_batch(sql).unwrap();
    let mut client = sandbox.mcp();
    let recent = client.told("recent", json!({}));
    assert!(recent.starts_with("S1 just now: Fix the greeting"), "{recent}");
    assert!(recent.contains("\n  Next: Translate it"), "{recent}");
}

#[test]
fn what_is_wrong_is_told_with_advice() {
    let sandbox = Sandbox::new();
    let mut client = client_in(&sandbox, &project(&sandbox, "harborline"));
    assert_eq!(client.told("search", json!({"query": "x"})), "Nothing is remembered yet.");
    assert_eq!(client.told("get", json!({"ids": [1]})), "Nothing is remembered yet.");
    client.told("save", json!({"text": "Something"}));
    for (tool, arguments, advice) in [
        ("search", json!({}), "search needs 'query'"),
        ("search", json!({"query": "x", "kind": 1}), "it takes"),
        ("search", json!({"query": "x", "type": "bug"}), "bugfix"),
        ("search", json!({"query": "x", "since": "soon"}), "2026-02-03"),
        ("search", json!({"query": ["x"]}), "query is a text"),
        ("timeline", json!({"id": "abc"}), "look like 12"),
        ("timeline", json!({"id": 77}), "ids come from search"),
        ("get", json!({"ids": []}), "ids come from search"),
        ("get", json!({"ids": [77, 78]}), "no memory 77, 78"),
        ("save", json!({"text": " "}), "say what to remember"),
        ("save", json!({"text": "x", "learning": "rule"}), "convention"),
        ("forget", json!({"ids": ["S1"]}), "only observations"),
        ("forget", json!({"ids": [1, "x"]}), "is no id"),
        ("forget", json!({"ids": [77]}), "there is no memory 77"),
    ] {
        let told = client.refused(tool, arguments.clone());
        assert!(told.contains(advice), "{tool} {arguments}: {told}");
    }
    assert_eq!(
        sandbox.get::<i64>("SELECT count(*) FROM observations WHERE deleted_at IS NOT NULL"),
        0,
        "a call with one bad id changes nothing"
    );
}

#[test]
fn a_broken_database_is_told_and_the_server_lives() {
    let sandbox = Sandbox::new();
    let mut client = client_in(&sandbox, &project(&sandbox, "harborline"));
    std::fs::create_dir_all(sandbox.data()).unwrap();
    std::fs::write(
        sandbox.data().join("claude-mem.db"),
        "this is no database, but long enough to look like one",
    )
    .unwrap();
    for (tool, arguments) in [
        ("search", json!({"query": "x"})),
        ("recent", json!({})),
        ("save", json!({"text": "x"})),
        ("forget", json!({"ids": [1]})),
    ] {
        assert!(client.refused(tool, arguments).contains("claude-mem doctor"));
    }
    std::fs::remove_file(sandbox.data().join("claude-mem.db")).unwrap();
    client.told("save", json!({"text": "It works again"}));
}

#[test]
fn nothing_private_and_no_secret_reaches_the_disk() {
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let text = format!("Deploy with {secret} <private>the door code is 4711</private> on Mondays");
    let directly = Sandbox::new();
    let by_worker = Sandbox::new();
    let worker = Worker::start(&by_worker);
    for sandbox in [&directly, &by_worker] {
        let mut client = client_in(sandbox, &project(sandbox, "harborline"));
        client.told("save", json!({"text": text, "title": text}));
        assert!(client.told("get", json!({"ids": [1]})).contains("on Mondays"));
        assert!(client.end().is_empty());
    }
    drop(worker);
    for sandbox in [&directly, &by_worker] {
        for entry in std::fs::read_dir(sandbox.data()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap_or_default();
            for hidden in [secret, "4711"] {
                let found = bytes.windows(hidden.len()).any(|window| window == hidden.as_bytes());
                assert!(!found, "{hidden} is in {}", path.display());
            }
        }
    }
}

#[test]
fn an_excluded_project_keeps_nothing() {
    let sandbox = Sandbox::new();
    let directory = project(&sandbox, "secret-project");
    std::fs::write(directory.join(".claude-mem-off"), "").unwrap();
    let mut client = client_in(&sandbox, &directory);
    assert!(client.refused("save", json!({"text": "x"})).contains("excluded"));
    let _worker = Worker::start(&sandbox);
    assert!(client.refused("save", json!({"text": "x"})).contains("excluded"));
}
