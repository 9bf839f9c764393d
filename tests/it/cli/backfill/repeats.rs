//! Repeated, resumed and concurrent backfills.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{backfill, history, lines, record, recorded, session_id, turns, write_sessions};
use crate::harness::rng::Dice;
use crate::harness::sandbox::{Sandbox, program};
use crate::harness::worker::Worker;

#[test]
fn a_second_reading_adds_nothing_with_and_without_its_markers() {
    let sandbox = Sandbox::new();
    backfill(
        &sandbox,
        &[],
        &[&history("claude"), &history("codex"), &history("gemini"), &history("copilot")],
    );
    let before = recorded(&sandbox);
    let again = backfill(
        &sandbox,
        &[],
        &[&history("claude"), &history("codex"), &history("gemini"), &history("copilot")],
    );
    assert_eq!((&again["new_rows"], &again["unchanged"]), (&json!(0), &json!(6)));
    sandbox.database().execute("DELETE FROM backfill_files", []).unwrap();
    sandbox.database().execute("DELETE FROM backfill_records", []).unwrap();
    let repeated = backfill(
        &sandbox,
        &[],
        &[&history("claude"), &history("codex"), &history("gemini"), &history("copilot")],
    );
    assert_eq!(repeated["new_rows"], 0, "{repeated:#}");
    assert_eq!(recorded(&sandbox), before);
}

#[test]
fn turns_whose_rows_were_dropped_by_retention_do_not_come_back() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("projects");
    write_sessions(&folder, 2, 4);
    backfill(&sandbox, &[], &[&folder]);
    let database = sandbox.database();
    database
        .execute_batch("DELETE FROM pending_queue; DELETE FROM backfill_files; DELETE FROM backfill_records;")
        .unwrap();
    let again = backfill(&sandbox, &[], &[&folder]);
    let rows = "SELECT count(*) FROM pending_queue WHERE kind <> 'flush'";
    assert_eq!(sandbox.get::<i64>(rows), 0, "{again:#}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 8);
}

#[test]
fn a_history_that_grew_is_resumed() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("projects");
    write_sessions(&folder, 1, 12);
    let file = folder.join("-nowhere-harbor").join(format!("{}.jsonl", session_id(0)));
    let whole = fs::read_to_string(&file).unwrap();
    // In the middle of a line of the seventh turn, as the client may be writing it.
    let cut = whole.match_indices('\n').nth(40).unwrap().0 - 30;
    fs::write(&file, &whole[..cut]).unwrap();
    let first = backfill(&sandbox, &[], &[&folder]);
    assert_eq!(first["prompts"], 7, "{first:#}");
    fs::write(&file, &whole).unwrap();
    backfill(&sandbox, &[], &[&folder]);
    let undisturbed = Sandbox::new();
    backfill(&undisturbed, &[], &[&folder]);
    let without_ends = |sandbox: &Sandbox| {
        let rows = recorded(sandbox).into_iter().filter(|row| !row.contains(":end:"));
        // Three prompts are repeated; each is stored as often as it was typed.
        rows.collect::<Vec<_>>()
    };
    assert_eq!(without_ends(&sandbox), without_ends(&undisturbed));
}

#[test]
fn a_killed_backfill_ends_like_an_undisturbed_one() {
    let folder = tempfile::tempdir().unwrap();
    write_sessions(folder.path(), 12, 30);
    let undisturbed = Sandbox::new();
    backfill(&undisturbed, &[], &[folder.path()]);
    let expected = recorded(&undisturbed);
    let sandbox = Sandbox::new();
    let mut dice = Dice::new(7);
    let mut interrupted = 0;
    for _ in 0..20 {
        let mut command = sandbox.command(program("claude-mem"));
        let mut child = command.args(["backfill", "--no-wait", "--json"]).arg(folder.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(10 + dice.below(60)));
        let is_running = child.try_wait().unwrap().is_none();
        interrupted += i32::from(is_running);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(interrupted > 3, "only {interrupted} runs were interrupted");
    backfill(&sandbox, &[], &[folder.path()]);
    assert_eq!(recorded(&sandbox), expected);
}

/// The same with distinct prompts: hooks count two equal ones within two seconds as one.
fn distinct(mut records: Vec<Value>) -> Vec<Value> {
    for (number, record) in records.iter_mut().enumerate() {
        if record["message"]["content"].is_string() {
            record["message"]["content"] = json!(format!("Ring bell {number}"));
        }
    }
    records
}

/// Sends the turns of a transcript as the hooks of a client would have.
fn send_live(sandbox: &Sandbox, session: &str, records: &[Value], has_prompt_ids: bool) {
    let mut open = None;
    let send = |verb: &str, event: &str, mut rest: Value| {
        rest["session_id"] = json!(session);
        rest["hook_event_name"] = json!(event);
        rest["cwd"] = json!("/nowhere/harbor");
        sandbox.hook(verb, rest.to_string()).assert_unnoticed();
    };
    for record in records {
        let content = &record["message"]["content"];
        if let Some(prompt) = content.as_str() {
            let mut rest = json!({"prompt": prompt});
            if has_prompt_ids {
                rest["prompt_id"] = record["promptId"].clone();
            }
            send("new", "UserPromptSubmit", rest);
        } else if content[0]["type"] == "tool_use" {
            open = Some(content[0].clone());
        } else if content[0]["type"] == "tool_result" {
            let call = open.take().unwrap();
            let rest = json!({"tool_name": call["name"], "tool_use_id": call["id"], "tool_input": call["input"],
                              "tool_response": record["toolUseResult"]});
            send("save", "PostToolUse", rest);
        } else {
            send("summary", "Stop", json!({"last_assistant_message": content[0]["text"]}));
        }
    }
    send("end", "SessionEnd", json!({"reason": "other"}));
}

fn write_session(folder: &Path, session: &str, records: &[Value]) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(format!("{session}.jsonl")), lines(records)).unwrap();
}

#[test]
fn a_session_that_hooks_recorded_is_not_recorded_again() {
    for has_prompt_ids in [true, false] {
        let sandbox = Sandbox::new();
        let session = session_id(7);
        let mut records = distinct(turns(&session, 5));
        for record in &mut records {
            if record["message"]["content"].is_string() {
                record["promptId"] = json!(format!("p-{}", record["uuid"].as_str().unwrap()));
            }
        }
        send_live(&sandbox, &session, &records, has_prompt_ids);
        let folder = sandbox.path().join("projects");
        write_session(&folder, &session, &records);
        let before = recorded(&sandbox);
        let report = backfill(&sandbox, &[], &[&folder]);
        assert_eq!(report["new_rows"], 0, "{report:#}");
        let rows = |rows: Vec<String>| rows.into_iter().filter(|row| row.contains('|')).collect::<Vec<_>>();
        assert_eq!(rows(recorded(&sandbox)), rows(before), "prompt ids: {has_prompt_ids}");
    }
}

#[test]
fn events_that_hooks_missed_are_added_to_a_live_session() {
    let sandbox = Sandbox::new();
    let session = session_id(8);
    let records = distinct(turns(&session, 4));
    // Hooks were installed after the first two turns, and missed one call of the last.
    let mut seen = records[12..].to_vec();
    seen.drain(9..11);
    send_live(&sandbox, &session, &seen, false);
    let folder = sandbox.path().join("projects");
    write_session(&folder, &session, &records);
    backfill(&sandbox, &[], &[&folder]);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 4);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE kind = 'observation'"), 8);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue WHERE kind = 'summarize'"), 4);
    assert_eq!(sandbox.get::<String>("SELECT origin || status FROM sessions"), "livecompleted");
    let missed = format!("SELECT prompt_number FROM pending_queue WHERE tool_use_id = 'toolu_{session}_3_1'");
    assert_eq!(sandbox.get::<i64>(&missed), 2, "the last turn is the second that hooks saw");
}

#[test]
fn a_session_that_continues_live_stays_one_session() {
    let sandbox = Sandbox::new();
    let session = session_id(9);
    let records = turns(&session, 3);
    let folder = sandbox.path().join("projects");
    write_session(&folder, &session, &records[..12]);
    backfill(&sandbox, &[], &[&folder]);
    send_live(&sandbox, &session, &records[12..], false);
    write_session(&folder, &session, &records);
    let again = backfill(&sandbox, &[], &[&folder]);
    assert_eq!(again["new_rows"], 0, "{again:#}");
    assert_eq!(sandbox.get::<String>("SELECT origin FROM sessions"), "live");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 3);
}

#[test]
fn live_sessions_are_served_before_those_of_the_past() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("projects");
    write_sessions(&folder, 8, 10);
    backfill(&sandbox, &[], &[&folder]);
    sandbox.prompt("zz-live", "Now the harbour lights");
    sandbox.edit("zz-live", "t1");
    sandbox.end_turn("zz-live");
    let _worker = Worker::start(&sandbox);
    sandbox.wait_until_settled();
    let earlier = "SELECT count(DISTINCT session_id || prompt_number) FROM pending_queue WHERE session_id <> 'zz-live'
                   AND finished_at < (SELECT max(finished_at) FROM pending_queue WHERE session_id = 'zz-live')";
    assert!(
        sandbox.get::<i64>(earlier) <= 12,
        "{} turns of the past came first",
        sandbox.get::<i64>(earlier)
    );
    // Oldest first among those of the past.
    let last: String =
        sandbox.get("SELECT session_id FROM pending_queue ORDER BY finished_at DESC, id DESC LIMIT 1");
    assert_ne!(last, "zz-live");
}

#[test]
fn a_repeated_prompt_is_stored_as_often_as_it_was_typed() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("projects");
    let session = session_id(5);
    let typed = |number: u32| {
        let rest = json!({"message": {"role": "user", "content": "continue"}});
        record("user", &session, &format!("u{number}"), number * 5, rest)
    };
    let records: Vec<Value> = (0..6).map(typed).collect();
    write_session(&folder, &session, &records[..4]);
    backfill(&sandbox, &[], &[&folder]);
    write_session(&folder, &session, &records);
    backfill(&sandbox, &[], &[&folder]);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM user_prompts"), 6);
}
