//! Corrections by the user through the routes: edits, pins, merges and vetoes, and what later turns and imports make of them.

use serde_json::{Value, json};

use crate::harness::sandbox::{Sandbox, program, run};
use crate::harness::worker::Worker;

/// A session of one turn that leaves a note; returns the note's id.
fn note(sandbox: &Sandbox, session: &str) -> i64 {
    sandbox.prompt(session, "Correct the greeting");
    sandbox.edit(session, &format!("edit-{session}"));
    sandbox.end_turn(session);
    sandbox.wait_until_settled();
    sandbox.get(&format!(
        "SELECT max(id) FROM observations WHERE session_id = '{session}' AND deleted_at IS NULL"
    ))
}

fn title(sandbox: &Sandbox, id: i64) -> String {
    sandbox.get(&format!("SELECT title FROM observations WHERE id = {id}"))
}

fn context(worker: &Worker, sandbox: &Sandbox) -> Value {
    worker.get(&format!("/api/context?project_path={}&explain=true", sandbox.path().display())).json()
}

#[test]
fn an_edited_note_survives_the_rest_of_its_turn_and_keeps_its_versions() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let id = note(&sandbox, "one");
    let before = title(&sandbox, id);
    let edit = |body: Value| worker.post(&format!("/api/observations/{id}/edit"), &body);
    let changed = edit(json!({"title": "The greeting comes from the zanzibar template"})).json();
    assert_eq!(changed["changed"], true, "{changed}");
    sandbox.edit("one", "more");
    sandbox.end_turn("one");
    sandbox.wait_until_settled();
    assert_eq!(title(&sandbox, id), "The greeting comes from the zanzibar template");
    let notes: i64 = sandbox.get("SELECT count(*) FROM observations WHERE deleted_at IS NULL");
    assert_eq!(notes, 1, "the edited note stands for the turn");
    assert_eq!(worker.get("/api/search?q=zanzibar").json()["hits"][0]["id"], id);
    let history = worker.get(&format!("/api/notes/{id}")).json();
    assert_eq!(history["versions"][0]["title"], before, "{history:#}");
    assert!(history["events"][0]["payload"].as_str().is_some_and(|payload| payload.contains("Hello")));
    let back = edit(json!({"version": history["versions"][0]["id"]})).json();
    assert_eq!((back["changed"].clone(), title(&sandbox, id)), (json!(true), before));
    for (body, status) in
        [(json!({"title": " "}), 400), (json!({"titel": "x"}), 400), (json!({"version": 99}), 404)]
    {
        assert_eq!(edit(body.clone()).status, status, "{body}");
    }
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    edit(json!({"summary": format!("uses {secret}")}));
    assert!(!sandbox.get::<String>("SELECT summary FROM observations").contains(secret));
}

#[test]
fn a_vetoed_statement_is_hidden_and_not_stored_again_by_turns_or_imports() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let id = note(&sandbox, "one");
    let export = sandbox.path().join("export.jsonl");
    let mem = |arguments: &[&str]| {
        let mut command = sandbox.command(program("claude-mem"));
        command.args(arguments);
        run(command, b"")
    };
    assert_eq!(mem(&["export", export.to_str().unwrap()]).code, Some(0));
    let vetoes = worker.post("/api/vetoes", &json!({"memory": id.to_string()})).json();
    assert!(vetoes["vetoes"].as_array().is_some_and(|vetoes| !vetoes.is_empty()), "{vetoes}");
    let visible = "SELECT count(*) FROM observations WHERE deleted_at IS NULL";
    assert_eq!(sandbox.get::<i64>(visible), 0);
    sandbox.prompt("two", "Correct the greeting");
    sandbox.edit("two", "edit-one");
    sandbox.end_turn("two");
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<i64>(visible), 0, "a later turn states it again");
    let database = sandbox.database();
    database.execute_batch("DELETE FROM observations").unwrap();
    let import = mem(&["import", export.to_str().unwrap()]);
    assert_eq!(import.code, Some(0), "{import:?}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations"), 1, "it was imported");
    assert_eq!(sandbox.get::<i64>(visible), 0, "and is not shown");
    let text = vetoes["vetoes"][0]["statement"].clone();
    let stated =
        worker.post("/api/memories", &json!({"text": text, "title": text, "project_path": sandbox.path()}));
    assert_eq!(stated.status, 400, "{}", stated.json());
    for veto in vetoes["vetoes"].as_array().unwrap() {
        assert_eq!(worker.delete(&format!("/api/vetoes/{}", veto["id"])).status, 200);
    }
    assert_eq!(worker.post("/api/observations/1/restore", &json!({})).status, 200);
    assert_eq!(sandbox.get::<i64>(visible), 1);
    assert_eq!(worker.post("/api/vetoes", &json!({})).status, 400);
    assert_eq!(worker.post("/api/vetoes", &json!({"memory": "99"})).status, 404);
}

#[test]
fn a_restatement_is_hidden_without_a_model_and_once_restored_it_stays() {
    let sandbox = Sandbox::new();
    let mut worker = Worker::start(&sandbox);
    let save = |worker: &Worker, text: &str| -> i64 {
        let saved =
            worker.post("/api/memories", &json!({"text": text, "project_path": sandbox.path()})).json();
        saved["ref"].as_str().unwrap().parse().unwrap()
    };
    let hidden = |id: i64| format!("SELECT deleted_at IS NOT NULL FROM observations WHERE id = {id}");
    let first = save(&worker, "Before every push, run the linter on the harbour code");
    let other = save(&worker, "Before every push, run the formatter on the harbour code");
    let project: String = sandbox.get("SELECT project FROM observations LIMIT 1");
    let veto =
        json!({"statement": "Run the linter on the harbour code before every push", "project": project});
    worker.post("/api/vetoes", &veto).json();
    sandbox.wait_for("the restatement is hidden", &hidden(first));
    assert_eq!(worker.post(&format!("/api/observations/{first}/restore"), &json!({})).status, 200);
    worker.stop();
    worker = Worker::start(&sandbox);
    let again = save(&worker, "The linter: run it on the harbour code before every push");
    sandbox.wait_for("the next restatement is hidden", &hidden(again));
    for kept in [first, other] {
        assert!(!sandbox.get::<bool>(&hidden(kept)), "{kept}");
    }
}

#[test]
fn merged_notes_come_back_when_the_note_that_stands_for_them_is_rewritten() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let again = |session: &str, edit: &str| {
        sandbox.edit(session, edit);
        sandbox.end_turn(session);
        sandbox.wait_until_settled();
    };
    let shown = |session: &str| -> i64 {
        let sql = format!(
            "SELECT count(*) FROM observations WHERE session_id = '{session}' AND deleted_at IS NULL"
        );
        sandbox.get(&sql)
    };
    for session in ["one", "two", "three"] {
        sandbox.prompt(session, "Correct the greeting");
        again(session, "shared");
    }
    assert_eq!((shown("one"), shown("two"), shown("three")), (0, 0, 1), "the latest stands for all");
    // The turn of one goes on: it has another note now.
    again("one", "only-one");
    assert_eq!(shown("one"), 1);
    again("three", "only-three");
    assert_eq!((shown("one"), shown("two"), shown("three")), (1, 1, 1));
    let twice = "SELECT count(*) FROM (SELECT queue_id FROM observation_sources s JOIN observations o ON o.id = s.observation_id
                 WHERE o.deleted_at IS NULL GROUP BY 1 HAVING count(*) > 1)";
    assert_eq!(sandbox.get::<i64>(twice), 0, "an event is in two notes");
    assert_eq!(sandbox.get::<i64>("SELECT max(times_seen) FROM observations WHERE session_id = 'three'"), 1);
}

#[test]
fn a_line_of_the_context_can_be_switched_off() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let learn = |text: &str| {
        let body = json!({"text": text, "learning": "convention", "project_path": sandbox.path()});
        assert_eq!(worker.post("/api/memories", &body).status, 200);
    };
    learn("Indent with tabs in every file");
    learn("Name branches after the ticket");
    note(&sandbox, "one");
    let found = context(&worker, &sandbox);
    let lines = found["lines"].as_array().unwrap();
    let line =
        lines.iter().find(|line| line["text"].as_str().is_some_and(|text| text.contains("tabs"))).unwrap();
    let project: String = sandbox.get("SELECT project FROM sessions WHERE id = 'one'");
    let veto = json!({"statement": line["text"], "line": line["key"], "project": project});
    let made = worker.post("/api/vetoes", &veto).json();
    let text = context(&worker, &sandbox)["context"].to_string();
    assert!(!text.contains("tabs") && text.contains("ticket"), "{text}");
    worker.delete(&format!("/api/vetoes/{}", made["vetoes"][0]["id"]));
    assert!(context(&worker, &sandbox)["context"].to_string().contains("tabs"));
}

#[test]
fn pinned_notes_come_first_and_merged_ones_are_one() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    let save = |text: &str| -> i64 {
        let saved =
            worker.post("/api/memories", &json!({"text": text, "project_path": sandbox.path()})).json();
        saved["ref"].as_str().unwrap().parse().unwrap()
    };
    note(&sandbox, "one");
    let old = save("The zebra cache is kept for ten minutes, because the upstream limits requests");
    let twin = save("The zebra cache is kept for ten minutes, since the upstream limits requests");
    let pin = |pinned: bool| {
        worker.post(&format!("/api/observations/{old}/pin"), &json!({"pinned": pinned})).status
    };
    assert_eq!(pin(true), 200);
    sandbox.database().execute("UPDATE observations SET created_at = 1 WHERE id = ?1", [old]).unwrap();
    sandbox.database().execute("UPDATE sessions SET prompt_count = 1", []).unwrap();
    let found = context(&worker, &sandbox);
    let lines = found["lines"].as_array().unwrap();
    let first = lines.iter().find(|line| line["layer"] == "observations").unwrap();
    assert_eq!(first["memory"], old.to_string(), "{found:#}");
    assert!(first["why"].as_str().is_some_and(|why| why.starts_with("pinned")), "{first}");
    let similar = worker.get(&format!("/api/notes/{old}")).json()["similar"].clone();
    assert_eq!(similar[0]["id"], twin, "{similar}");
    let merged = worker.post(&format!("/api/observations/{old}/merge"), &json!({"ids": [twin]})).json();
    assert_eq!(merged["changed"], true);
    assert_eq!(worker.get(&format!("/api/notes/{twin}")).json()["merged_into"], old);
    let curated = worker.get("/api/curated").json();
    assert_eq!((&curated["pinned"][0]["id"], &curated["forgotten"][0]["id"]), (&json!(old), &json!(twin)));
    assert_eq!(pin(false), 200);
    assert_eq!(worker.get("/api/curated").json()["pinned"], json!([]));
}

#[test]
fn sessions_show_their_turns_and_evidence_until_it_is_deleted() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    note(&sandbox, "one");
    let history = worker.get("/api/sessions/one/history").json();
    let turn = &history["turns"][0];
    assert_eq!(
        (&turn["prompt"], &turn["prompt_number"]),
        (&json!("Correct the greeting"), &json!(1)),
        "{history:#}"
    );
    assert_eq!((turn["notes"].as_array().unwrap().len(), turn["payloads"].as_i64()), (1, Some(1)));
    let events = worker.get("/api/sessions/one/events?prompt=1").json();
    let id = &events["events"][0]["id"];
    assert!(worker.get(&format!("/api/events/{id}")).json()["events"][0]["payload"].is_string());
    sandbox.database().execute("UPDATE pending_queue SET payload = NULL", []).unwrap();
    assert!(worker.get(&format!("/api/events/{id}")).json()["events"][0]["payload"].is_null());
    assert_eq!(worker.get("/api/sessions/none/history").status, 404);
    let activity = worker.get("/api/activity").json();
    assert_eq!((activity["notes"].as_array().unwrap().len(), &activity["queue"]["raw"]), (1, &json!(0)));
    assert_eq!(worker.get("/api/activity/days").json()["days"][0]["notes"], 1);
    assert_eq!(worker.get("/api/value").json()["by_model"][0]["name"], "local");
    let settings = worker.get("/api/settings").json();
    let provider = |setting: &&Value| setting["key"] == "compress.provider";
    let provider = settings["settings"].as_array().unwrap().iter().find(provider).unwrap();
    assert_eq!(provider["origin"], "CLAUDE_MEM_COMPRESS_PROVIDER");
}
