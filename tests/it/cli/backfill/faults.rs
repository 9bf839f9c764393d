//! Histories that are broken, huge, unreadable, or claim other sessions: counted, and the rest is read.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use super::{backfill, cli, history, lines, record, session_id, turns, write_sessions};
use crate::harness::sandbox::Sandbox;

#[test]
fn broken_files_are_counted_and_the_others_are_read() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("projects");
    write_sessions(&folder, 1, 2);
    let project = folder.join("-nowhere-harbor");
    let file = |number: u32| project.join(format!("{}.jsonl", session_id(number)));
    fs::write(file(10), "").unwrap();
    let half = lines(&turns(&session_id(11), 2));
    fs::write(file(11), &half[..half.len() - 40]).unwrap();
    let mut huge = fs::File::create(file(12)).unwrap();
    writeln!(huge, "{}", turns(&session_id(12), 1)[0]).unwrap();
    for _ in 0..24 {
        huge.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    writeln!(huge, "\n{}", lines(&turns(&session_id(12), 2))).unwrap();
    let odd = [
        json!({"type": 7, "sessionId": session_id(13), "message": [1], "timestamp": {"a": 1}}),
        json!({"type": "user", "sessionId": session_id(13), "uuid": 5, "cwd": 3, "message": "text", "timestamp": 12}),
        json!({"type": "assistant", "sessionId": session_id(13), "message": {"content": {"type": "text"}, "usage": "much"}}),
        json!({"type": "attachment", "sessionId": session_id(13), "attachment": null}),
        json!({"type": "progress", "sessionId": session_id(13), "data": "x"}),
    ];
    let text = format!("[1,2]\nnull\n{}{}", lines(&odd), lines(&turns(&session_id(13), 1)));
    fs::write(file(13), text).unwrap();
    let report = backfill(&sandbox, &[], &[&folder]);
    assert_eq!((&report["sessions"], &report["empty"]), (&json!(4), &json!(1)), "{report:#}");
    assert_eq!(report["left_out"]["broken_lines"], 2, "{report:#}");
    assert_eq!(report["left_out"]["lines_over_16_MB"], 1, "{report:#}");
    let count = |number: u32| {
        sandbox.get::<i64>(&format!(
            "SELECT count(*) FROM user_prompts WHERE session_id = '{}'",
            session_id(number)
        ))
    };
    assert_eq!([count(0), count(11), count(12), count(13)], [2, 2, 2, 1]);
}

#[test]
fn a_loop_of_links_ends_and_an_unreadable_file_is_named() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("projects");
    write_sessions(&folder, 2, 1);
    symlink(&folder, folder.join("-nowhere-harbor/loop")).unwrap();
    let secret = folder.join("-nowhere-harbor").join(format!("{}.jsonl", session_id(1)));
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let ran = cli(&sandbox, &["backfill", "--no-wait"], &[&folder]);
    if fs::File::open(&secret).is_ok() {
        assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 2, "root reads everything");
        return;
    }
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot read"), "{ran:?}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[test]
fn records_that_claim_another_session_change_nothing_of_it() {
    let sandbox = Sandbox::new();
    sandbox.prompt(&session_id(1), "My own words");
    let folder = sandbox.path().join("projects");
    fs::create_dir_all(&folder).unwrap();
    let mut records = turns(&session_id(2), 1);
    records.extend(turns(&session_id(1), 3));
    fs::write(folder.join(format!("{}.jsonl", session_id(2))), lines(&records)).unwrap();
    let report = backfill(&sandbox, &[], &[&folder]);
    assert_eq!(report["left_out"]["records_that_claim_another_session"], 18, "{report:#}");
    let of_victim = format!("SELECT count(*) FROM user_prompts WHERE session_id = '{}'", session_id(1));
    assert_eq!(sandbox.get::<i64>(&of_victim), 1);
}

#[test]
fn excluded_projects_stay_out() {
    let sandbox = Sandbox::new();
    sandbox.configure("[capture]\nexclude_projects = [\"/nowhere/*\"]");
    let report = backfill(&sandbox, &[], &[&history("claude").join("-nowhere-harbor")]);
    assert!(report["excluded"].as_i64().unwrap() > 5, "{report:#}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), 0);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 0);
}

#[test]
fn secrets_are_redacted_and_nothing_in_the_histories_is_touched() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("projects");
    let session = session_id(3);
    let secret = format!("sk-ant-{}-{}", "api03", "Zx9".repeat(31));
    let rest = json!({"message": {"role": "user", "content": format!("use {secret} for the crane")}});
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{session}.jsonl"));
    fs::write(&file, lines(&[record("user", &session, "u1", 1, rest)])).unwrap();
    let state = || {
        let meta = fs::metadata(&file).unwrap();
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        (meta.modified().unwrap(), fs::read(&file).unwrap(), names)
    };
    let before = state();
    let _worker = crate::harness::worker::Worker::start(&sandbox);
    backfill(&sandbox, &[], &[&folder]);
    sandbox.wait_for("redacted", "SELECT count(*) = 1 FROM user_prompts WHERE is_raw = 0");
    let prompt: String = sandbox.get("SELECT prompt FROM user_prompts");
    assert!(!prompt.contains(&secret) && prompt.contains("for the crane"), "{prompt}");
    assert_eq!(state(), before);
}
