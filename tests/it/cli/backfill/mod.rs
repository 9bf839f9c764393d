//! Histories become memory exactly once, despite kills, hooks and repeated runs.

mod agents;
mod faults;
mod offers;
mod repeats;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, fixture, program, run};

/// The history of one agent in `tests/fixtures/transcripts`.
fn history(agent: &str) -> PathBuf {
    fixture("transcripts").join(agent)
}

fn cli(sandbox: &Sandbox, arguments: &[&str], paths: &[&Path]) -> Ran {
    let mut command = sandbox.command(program("claude-mem"));
    command.args(arguments).args(paths);
    run(command, b"")
}

/// Runs `claude-mem backfill`, and returns its report.
fn backfill(sandbox: &Sandbox, arguments: &[&str], paths: &[&Path]) -> Value {
    let ran = cli(sandbox, &[&["backfill", "--json", "--no-wait"], arguments].concat(), paths);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// All recorded rows as text, for comparing two runs.
fn recorded(sandbox: &Sandbox) -> Vec<String> {
    let database = sandbox.database();
    let mut rows = Vec::new();
    for sql in [
        "SELECT event_key || '|' || kind || '|' || coalesce(prompt_number, '') || '|' || created_at || '|' ||
           coalesce(payload, '') FROM pending_queue ORDER BY 1",
        "SELECT session_id || '|' || prompt_number || '|' || prompt || '|' || created_at FROM user_prompts ORDER BY 1",
        "SELECT id || '|' || origin || '|' || agent || '|' || project || '|' || status || '|' || started_at || '|' ||
           last_activity_at || '|' || prompt_count FROM sessions ORDER BY 1",
        "SELECT record FROM backfill_records ORDER BY 1",
    ] {
        let mut statement = database.prepare(sql).unwrap();
        let text = |row: &rusqlite::Row<'_>| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                other => String::from_utf8_lossy(other.as_bytes()?).into_owned(),
            })
        };
        rows.extend(statement.query_map([], text).unwrap().map(Result::unwrap));
    }
    rows
}

/// A record of Claude Code.
fn record(kind: &str, session: &str, uuid: &str, second: u32, rest: Value) -> Value {
    let (minute, second) = (second / 60, second % 60);
    let mut record = json!({
        "type": kind, "sessionId": session, "uuid": uuid, "cwd": "/nowhere/harbor", "gitBranch": "main",
        "version": "2.1.219", "timestamp": format!("2026-03-01T08:{minute:02}:{second:02}.000Z"),
    });
    record.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    record
}

/// Turns of a session: a prompt, two calls and a closing message each.
fn turns(session: &str, count: u32) -> Vec<Value> {
    let mut records = Vec::new();
    for turn in 0..count {
        let at = turn * 10;
        let uuid = |what: &str| format!("{session}-{turn}-{what}");
        let prompt = json!({"message": {"role": "user", "content": format!("Sound the horn {}", turn % 3)}});
        records.push(record("user", session, &uuid("prompt"), at, prompt));
        for call in 0..2 {
            let id = format!("toolu_{session}_{turn}_{call}");
            let used = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": format!("make {turn}")}});
            let message = json!({"message": {"id": uuid("call"), "content": [used]}});
            records.push(record("assistant", session, &uuid(&format!("use{call}")), at + 1, message));
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
            let message = json!({"message": {"role": "user", "content": [result]},
                                 "toolUseResult": {"stdout": "built ".repeat(200), "stderr": ""}});
            records.push(record("user", session, &uuid(&format!("result{call}")), at + 2, message));
        }
        let text = format!("Horn {turn} sounds because the boiler has steam.");
        let message = json!({"message": {"id": uuid("end"), "content": [{"type": "text", "text": text}]}});
        records.push(record("assistant", session, &uuid("closing"), at + 3, message));
    }
    records
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

fn session_id(number: u32) -> String {
    format!("22222222-0000-4000-8000-{number:012}")
}

/// Writes sessions into a directory that looks like the client's.
fn write_sessions(folder: &Path, count: u32, turns_of_each: u32) {
    let project = folder.join("-nowhere-harbor");
    std::fs::create_dir_all(&project).unwrap();
    for number in 0..count {
        let session = session_id(number);
        std::fs::write(project.join(format!("{session}.jsonl")), lines(&turns(&session, turns_of_each)))
            .unwrap();
    }
}
