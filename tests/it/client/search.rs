//! Search, timeline and show: over the socket and on the command line, with a service and without one.

use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::worker::Worker;

/// A sandbox whose database holds a prompt, three observations and a summary.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.seen_prompt("s1", "why does the importer leak connections?");
    sandbox
        .database()
        .execute_batch(
            "INSERT INTO observations (uid, session_id, project, type, title, summary, files_modified, created_at) VALUES
               ('a', 's1', 'alpha', 'bugfix', 'Close the connection pool', 'refreshToken kept it open', '[\"src/pool.rs\"]', 1000),
               ('b', 's1', 'alpha', 'decision', 'Keep one pool for all', 'Fewer sockets', NULL, 2000),
               ('c', 's1', 'beta', 'change', '修复连接池超时', '等待', NULL, 3000);
             INSERT INTO session_summaries (uid, session_id, project, request, learned, created_at)
               VALUES ('d', 's1', 'alpha', 'Find the leak', 'The pool was never drained', 2500);",
        )
        .unwrap();
    sandbox
}

fn cli(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(arguments);
    run(command, b"")
}

fn references(found: &Value) -> Vec<&str> {
    found["hits"].as_array().unwrap().iter().map(|hit| hit["ref"].as_str().unwrap()).collect()
}

#[test]
fn the_service_answers_the_three_steps() {
    let sandbox = sandbox();
    let worker = Worker::start(&sandbox);
    let found = worker.get("/api/search?q=pool%20refresh_token&project=alpha").json();
    assert_eq!(references(&found)[0], "1", "{found:#}");
    let hit = &found["hits"][0];
    assert_eq!((hit["kind"].as_str(), hit["type"].as_str()), (Some("observation"), Some("bugfix")));
    assert_eq!(hit["title"], "Close the connection pool");
    assert_eq!(hit["title_marks"], json!([[21, 25]]));
    assert!(hit["age"].as_str().unwrap().ends_with("ago"), "{hit}");
    assert!(found["took_ms"].is_number() && found["as_of"].is_string());
    let explained = worker.get("/api/search?q=drained&explain=1").json();
    assert_eq!(references(&explained), ["S1"]);
    assert!(explained["hits"][0]["explain"]["words"].as_f64().unwrap() > 0.0);
    assert_eq!(references(&worker.get("/api/search?q=%E8%B6%85%E6%97%B6").json()), ["3"]);
    sandbox.wait_for("indexed", "SELECT count(*) = 0 FROM search_pending");
    assert_eq!(references(&worker.get("/api/search?q=importer").json()), ["P1"]);
    let timeline = worker.get("/api/timeline?anchor=2&before=1&after=1").json();
    let titles: Vec<_> =
        timeline["moments"].as_array().unwrap().iter().map(|moment| &moment["ref"]).collect();
    assert_eq!(titles, ["1", "2", "S1"]);
    let memories = worker.get("/api/memories?ids=1,S1,P1,99").json();
    assert_eq!(memories["memories"].as_array().unwrap().len(), 3);
    assert_eq!(memories["memories"][0]["files_modified"], json!(["src/pool.rs"]));
}

#[test]
fn bad_parameters_get_the_right_status() {
    let sandbox = sandbox();
    let worker = Worker::start(&sandbox);
    for (method, target, status) in [
        ("GET", "/api/search?q=x&type=nonsense", 400),
        ("GET", "/api/search?q=x&limit=many", 400),
        ("GET", "/api/search?querry=x", 400),
        ("GET", "/api/timeline?anchor=x", 400),
        ("GET", "/api/timeline?anchor=999", 404),
        ("GET", "/api/memories?ids=a", 400),
        ("DELETE", "/api/search", 405),
    ] {
        let answer = worker.send(method, target, b"");
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        assert!(answer.json()["error"]["message"].is_string(), "{target}: {answer:?}");
    }
    assert_eq!(worker.send("POST", "/api/search", b"[]").status, 400);
}

#[test]
fn hostile_queries_are_answered_over_the_socket() {
    let sandbox = sandbox();
    let worker = Worker::start(&sandbox);
    let long = "pool timeout connection ".repeat(100_000 / 24);
    for question in
        [long.as_str(), "the of", "!?", "\"a OR NEAR(", "pool AND NOT (", "\u{0}", "🦀", "שלום", ""]
    {
        let body = json!({"q": question, "limit": 3}).to_string();
        let answer = worker.send("POST", "/api/search", body.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.json()["hits"].is_array());
    }
    let too_long = worker.get(&format!("/api/search?q={}", "x".repeat(60_000)));
    assert!(too_long.status < 500, "{too_long:?}");
    assert_eq!(worker.get("/api/search?q=%00%ff%22").status, 200);
}

#[test]
fn the_command_line_finds_the_same_with_and_without_a_service() {
    let sandbox = sandbox();
    let strip = |text: &str| -> Value {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value.as_object_mut().unwrap().retain(|key, _| key == "hits" || key == "total");
        value
    };
    let arguments = ["search", "connection", "pool", "--json"];
    let worker = Worker::start(&sandbox);
    // The rarity of words depends on the number of indexed rows.
    sandbox.wait_for("indexed", "SELECT count(*) = 0 FROM search_pending");
    let served = cli(&sandbox, &arguments);
    drop(worker);
    let alone = cli(&sandbox, &arguments);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    assert_eq!(strip(&served.stdout), strip(&alone.stdout));
    let plain = cli(&sandbox, &["search", "--project", "alpha", "pool", "-n", "1"]);
    assert!(plain.stdout.contains("pool") && plain.stdout.contains("alpha, "), "{}", plain.stdout);
    assert!(!plain.stdout.contains('\u{1b}'), "no colours into a pipe");
    assert!(plain.stdout.contains("--offset 1 shows more"), "{}", plain.stdout);
    let nothing = cli(&sandbox, &["search", "zzzzzzzz"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), "No results.\n"));
    let wrong = cli(&sandbox, &["search", "x", "--type", "bug"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("bugfix, feature"), "{}", wrong.stderr);
}

#[test]
fn timeline_show_and_reindex_work_without_a_service() {
    let sandbox = sandbox();
    let timeline = cli(&sandbox, &["timeline", "2"]);
    assert!(
        timeline.stdout.lines().any(|line| line.starts_with('>') && line.contains("Keep one pool")),
        "{timeline:?}"
    );
    let show = cli(&sandbox, &["show", "1", "S1"]);
    assert!(
        show.stdout.contains("refreshToken kept it open") && show.stdout.contains("never drained"),
        "{show:?}"
    );
    let half = cli(&sandbox, &["show", "1", "77", "S78"]);
    assert_eq!((half.code, half.stderr.as_str()), (Some(1), "claude-mem: not found: 77, S78\n"));
    let unknown = cli(&sandbox, &["show", "x"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.stderr.contains("there is no session x"), "{unknown:?}");
    let finds = |word: &str| !cli(&sandbox, &["search", word]).stdout.contains("No results");
    assert!(finds("pool"));
    sandbox.database().execute("INSERT INTO search_index (search_index) VALUES ('delete-all')", []).unwrap();
    assert!(!finds("pool"), "the index is empty");
    assert_eq!(cli(&sandbox, &["reindex"]).code, Some(0));
    assert!(finds("pool") && finds("importer"), "prompts, too");
}

#[test]
fn a_missing_database_is_reported() {
    let sandbox = Sandbox::new();
    let nothing = cli(&sandbox, &["search", "anything"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.stderr.contains("no memories yet"), "{}", nothing.stderr);
}
