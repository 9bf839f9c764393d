//! Every route: its answers and its errors.

use serde_json::{Value, json};

use crate::harness::sandbox::Sandbox;
use crate::harness::worker::{Answer, Worker};

fn keys(answer: &Answer) -> Vec<String> {
    let mut keys: Vec<String> = answer.json().as_object().unwrap().keys().cloned().collect();
    keys.sort();
    keys
}

fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.error_code().as_str()), (status, code), "{answer:?}");
}

/// A worker with one processed turn.
fn with_a_turn() -> (Sandbox, Worker) {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    sandbox.prompt("s", "Show a polite greeting on the landing page");
    sandbox.edit("s", "a");
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    (sandbox, worker)
}

#[test]
fn health_and_counts_have_the_shape_of_the_contract() {
    let (_sandbox, worker) = with_a_turn();
    let health = worker.get("/api/health");
    let expected = [
        "breaker",
        "cost_usd_today",
        "max_usd_per_day",
        "memory_bytes",
        "observations_today",
        "oldest_raw_age_s",
        "pid",
        "provider",
        "queue_depth",
        "reason",
        "status",
        "uptime_s",
        "version",
    ];
    assert_eq!(keys(&health), expected);
    let health = health.json();
    assert_eq!((&health["status"], &health["reason"]), (&json!("ok"), &Value::Null));
    assert_eq!(
        (health["pid"].as_u64(), health["observations_today"].as_u64()),
        (Some(worker.pid().into()), Some(1))
    );
    assert_eq!((&health["queue_depth"], &health["provider"]), (&json!(0), &json!("local")));
    let stats = worker.get("/api/queue/stats").json();
    assert_eq!(stats, json!({"raw": 0, "processing": 0, "done": 3, "skipped": 0, "error": 0}));
    let metrics = worker.get("/metrics");
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("claude_mem_queue_rows{state=\"done\"} 3\n"), "{}", metrics.body);
}

#[test]
fn counts_follow_what_happens() {
    let (sandbox, worker) = with_a_turn();
    assert_eq!(worker.get("/api/queue/stats").json()["done"], 3);
    sandbox.edit("s", "b");
    assert_eq!(worker.get("/api/queue/stats").json()["raw"], 1);
    let health = worker.get("/api/health").json();
    assert_eq!(health["queue_depth"], 1);
    assert!(health["oldest_raw_age_s"].is_i64(), "{health}");
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    assert_eq!(worker.get("/api/queue/stats").json()["done"], 5);
}

#[test]
fn only_changing_requests_are_in_the_event_log() {
    let (sandbox, worker) = with_a_turn();
    assert_eq!(worker.get("/api/health").status, 200);
    assert_eq!(worker.delete("/api/sessions/s").status, 200);
    let noted =
        "SELECT group_concat(data ->> 'method' || ' ' || (data ->> 'path') || ' ' || (data ->> 'status'))
                 FROM event_log WHERE event_type = 'request'";
    sandbox.wait_for("noted", "SELECT count(*) > 0 FROM event_log WHERE event_type = 'request'");
    assert_eq!(sandbox.get::<String>(noted), "DELETE /api/sessions/s 200");
}

#[test]
fn stored_rows_can_be_read() {
    let (sandbox, worker) = with_a_turn();
    let context =
        worker.get(&format!("/api/context?project_path={}&session_id=other", sandbox.path().display()));
    assert_eq!(keys(&context), ["build_ms", "context", "layers", "log", "skipped", "tokens"]);
    assert!(
        context.json()["context"].as_str().unwrap().contains("Show a polite greeting on the landing page"),
        "{context:?}"
    );
    let observations = worker.get("/api/observations?ids=1,99").json();
    assert_eq!(observations["observations"].as_array().unwrap().len(), 1);
    assert_eq!(observations["observations"][0]["session_id"], "s");
    let sessions = worker.get("/api/sessions?limit=5").json();
    assert_eq!(sessions["sessions"][0]["id"], "s");
    let status = worker.get("/api/sessions/s/status").json();
    assert_eq!((&status["status"], &status["raw"]), (&json!("active"), &json!(0)));
    assert_eq!((&status["observations"], &status["summaries"]), (&json!(1), &json!(1)));
}

#[test]
fn a_subdirectory_gets_its_projects_context() {
    let (sandbox, worker) = with_a_turn();
    std::fs::create_dir_all(sandbox.path().join(".git/refs")).unwrap();
    std::fs::create_dir_all(sandbox.path().join(".git/objects")).unwrap();
    std::fs::write(sandbox.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::create_dir_all(sandbox.path().join("src")).unwrap();
    sandbox.database().execute("UPDATE observations SET pinned_at = 1", []).unwrap();
    let context = worker.get(&format!("/api/context?project_path={}/src", sandbox.path().display()));
    assert!(
        context.json()["context"].as_str().unwrap().contains("Show a polite greeting on the landing page"),
        "{context:?}"
    );
}

#[test]
fn a_session_lives_through_the_api_alone() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let begun = json!({"cwd": sandbox.path(), "prompt": "Show a polite greeting on the landing page", "prompt_id": "p1"});
    for queued in [1, 0] {
        let answer = worker.post("/api/sessions/api/init", &begun);
        assert_eq!(
            (answer.status, answer.json()),
            (202, json!({"queued": queued})),
            "the second time changes nothing"
        );
    }
    let event = |id: &str| {
        json!({"cwd": sandbox.path(), "tool_name": "Edit", "tool_use_id": id,
               "tool_input": {"file_path": sandbox.path().join("a.py"), "old_string": "Helo", "new_string": "Hello"},
               "tool_response": {"filePath": "a.py"}})
    };
    assert_eq!(worker.post("/api/sessions/api/observations", &event("one")).json(), json!({"queued": 1}));
    let several = json!([event("one"), event("two"), event("three")]);
    assert_eq!(worker.post("/api/sessions/api/observations", &several).json(), json!({"queued": 2}));
    let end = json!({"last_assistant_message": "Fixed the greeting."});
    assert_eq!(worker.post("/api/sessions/api/summarize", &end).json(), json!({"queued": 1}));
    assert_eq!(worker.post("/api/sessions/api/summarize", &end).json(), json!({"queued": 0}));
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE kind = 'observation'"), 3);
    assert_eq!(sandbox.get::<i64>("SELECT prompt_count FROM sessions WHERE id = 'api'"), 1);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM session_summaries WHERE session_id = 'api'"), 1);
}

#[test]
fn a_list_with_one_bad_event_stores_none() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let list = json!([{"tool_name": "Bash", "tool_use_id": "a"}, 7]);
    assert_refused(&worker.post("/api/sessions/s/observations", &list), 400, "bad_request");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), 0);
}

#[test]
fn the_api_does_not_record_excluded_projects() {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("[capture]\nexclude_projects = ['{}']", sandbox.path().display()));
    let worker = Worker::start(&sandbox);
    let event = json!({"cwd": sandbox.path(), "tool_name": "Bash", "tool_use_id": "a"});
    assert_eq!(worker.post("/api/sessions/s/observations", &event).json(), json!({"queued": 0}));
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 0);
}

#[test]
fn a_requested_summary_is_made_and_returned() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    sandbox.prompt("s", "Show a polite greeting on the landing page");
    sandbox.edit("s", "a");
    let answer = worker.post("/api/summarize", &json!({"session_id": "s"}));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(keys(&answer), ["summary", "tokens"]);
    assert!(!answer.json()["summary"].as_str().unwrap().is_empty());
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM session_summaries"), 1);
}

#[test]
fn every_refusal_has_the_same_shape() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    for target in ["/", "/api", "/api/no/such"] {
        assert_refused(&worker.get(target), 404, "unknown_route");
    }
    assert_refused(&worker.get("/api/sessions/none/status"), 404, "not_found");
    assert_refused(&worker.delete("/api/sessions/none"), 404, "not_found");
    assert_refused(&worker.post("/api/summarize", &json!({"session_id": "none"})), 404, "not_found");
    for (method, target) in [
        ("POST", "/api/health"),
        ("GET", "/api/nudge"),
        ("PUT", "/api/sessions/s"),
        ("GET", "/api/sessions/s/init"),
    ] {
        assert_refused(&worker.send(method, target, b""), 405, "method_not_allowed");
    }
    for target in [
        "/api/context",
        "/api/observations",
        "/api/observations?ids=one",
        "/api/sessions?limit=many",
        "/api/sessions/%ff%fe/status",
    ] {
        assert_refused(&worker.get(target), 400, "bad_request");
    }
    for body in ["", "{", "not json", "7", "\"text\""] {
        let answer = worker.send("POST", "/api/sessions/s/init", body.as_bytes());
        assert_refused(&answer, 400, "bad_request");
        assert_refused(&worker.send("POST", "/api/summarize", body.as_bytes()), 400, "bad_request");
    }
    let large = vec![b' '; 9 << 20];
    assert_refused(&worker.send("POST", "/api/summarize", &large), 413, "too_large");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_refused(&worker.send("POST", "/api/sessions/s/observations", deep.as_bytes()), 400, "bad_request");
}
