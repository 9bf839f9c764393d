//! Any input and any state of the data directory: the user notices nothing, and nothing is lost.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, Tmpfs, run, tool_payload};
use crate::harness::wait::skip_even_in_ci;

fn events_kept(sandbox: &Sandbox) -> usize {
    let database = sandbox.data().join("claude-mem.db");
    let rows = if database.is_file() { sandbox.get::<i64>("SELECT count(*) FROM pending_queue") } else { 0 };
    usize::try_from(rows).unwrap() + sandbox.spooled().len()
}

/// Sends a payload to every verb that stores a row, and expects it kept for each.
fn assert_kept(name: &str, payload: &[u8]) {
    for verb in ["new", "save", "summary", "compact", "end"] {
        let sandbox = Sandbox::new();
        if verb == "end" {
            // The end of an unknown session stores nothing.
            sandbox.hook("context", payload).assert_unnoticed();
        }
        let before = events_kept(&sandbox);
        let ran = sandbox.hook(verb, payload);
        ran.assert_unnoticed();
        assert_eq!(ran.stdout, "", "{name} to {verb}");
        assert_eq!(events_kept(&sandbox), before + 1, "{name} to {verb}");
    }
    Sandbox::new().hook("context", payload).assert_unnoticed();
}

#[test]
fn invalid_input_is_kept_as_an_error() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [(&str, Vec<u8>); 7] = [
        ("empty", vec![]),
        ("not JSON", b"hello there".to_vec()),
        ("an array", b"[1,2]".to_vec()),
        (
            "cut in the middle",
            br#"{"session_id":"s","cwd":"/","tool_name":"Bash","tool_input":{"comm"#.to_vec(),
        ),
        ("two objects", br#"{"session_id":"s"}{"session_id":"t"}"#.to_vec()),
        ("deep nesting", deep.into_bytes()),
        ("no session id", br#"{"cwd":"/","tool_name":"Bash","tool_use_id":"t"}"#.to_vec()),
    ];
    for (name, payload) in cases {
        assert_kept(name, &payload);
        let sandbox = Sandbox::new();
        sandbox.hook("save", &payload).assert_unnoticed();
        assert_eq!(sandbox.get::<String>("SELECT status FROM pending_queue"), "error", "{name}");
        assert!(!sandbox.get::<String>("SELECT last_error FROM pending_queue").is_empty(), "{name}");
    }
}

#[test]
fn a_cut_payload_is_kept_with_its_session() {
    let sandbox = Sandbox::new();
    sandbox.hook("save", br#"{"session_id":"s","cwd":"/","tool_input":{"comm"#).assert_unnoticed();
    assert_eq!(sandbox.get::<String>("SELECT session_id FROM pending_queue"), "s");
    assert!(sandbox.get::<String>("SELECT payload FROM pending_queue").contains("comm"));
}

#[test]
fn unusual_values_are_accepted() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [(&str, Vec<u8>); 10] = [
        (
            "unknown event",
            json!({"session_id": "s", "hook_event_name": "Surprise", "x": {"y": 1}}).to_string().into(),
        ),
        (
            "invalid UTF-8",
            b"{\"session_id\":\"s\",\"prompt\":\"a\xff\xfeb\",\"tool_response\":\"\xc3\x28\"}".to_vec(),
        ),
        (
            "lone surrogates",
            br#"{"session_id":"s","prompt":"\ud800","tool_response":{"\udfff":"\ud83d x"}}"#.to_vec(),
        ),
        ("NUL bytes", br#"{"session_id":"s","prompt":"a\u0000b","tool_response":"\u0000"}"#.to_vec()),
        ("response as string", tool_payload("s", "t", Path::new("/"), &json!("text")).into()),
        ("response as array", tool_payload("s", "t", Path::new("/"), &json!([{"type": "text"}])).into()),
        ("response as number", tool_payload("s", "t", Path::new("/"), &json!(7)).into()),
        ("response as null", tool_payload("s", "t", Path::new("/"), &Value::Null).into()),
        ("deep response", format!(r#"{{"session_id":"s","tool_response":{deep}}}"#).into()),
        ("a cwd that is gone", tool_payload("s", "t", Path::new("/no/such/place"), &json!("x")).into()),
    ];
    for (name, payload) in cases {
        assert_kept(name, &payload);
        let sandbox = Sandbox::new();
        sandbox.hook("save", &payload).assert_unnoticed();
        assert_eq!(sandbox.get::<String>("SELECT status FROM pending_queue"), "raw", "{name}");
        let kept = sandbox.get::<String>("SELECT payload FROM pending_queue");
        serde_json::from_str::<Value>(&kept).unwrap_or_else(|error| panic!("{name}: {error} in {kept}"));
    }
}

#[test]
fn noise_of_any_size_is_survived() {
    let sandbox = Sandbox::new();
    // A small generator, to avoid a dependency.
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    })
    .take(200 << 17)
    .flatten()
    .collect();
    let ran = sandbox.hook("save", &noise);
    ran.assert_unnoticed();
    assert_eq!(sandbox.get::<i64>("SELECT raw_bytes FROM pending_queue"), noise.len() as i64);
    assert!(sandbox.get::<i64>("SELECT length(payload) FROM pending_queue") <= 1 << 20);
}

#[test]
fn an_unknown_or_missing_verb_is_not_a_failure() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.hook("frobnicate", "{}").assert_unnoticed().stdout, "");
    let without = sandbox.command(env!("CARGO_BIN_EXE_claude-mem-hook"));
    assert_eq!(run(without, b"{}").assert_unnoticed().stdout, "");
    assert!(!sandbox.data().exists());
}

/// Sends a prompt and a tool use.
fn send(sandbox: &Sandbox) -> Ran {
    let payload = tool_payload("s", "t", sandbox.path(), &json!({"stdout": "x"}));
    let ran = sandbox.hook("save", payload);
    ran.assert_unnoticed();
    ran
}

fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.hook("save", tool_payload("s", "first", sandbox.path(), &Value::Null)).assert_unnoticed();
    sandbox
}

#[test]
fn the_hook_works_without_home_if_a_directory_is_given() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.hook_command("save");
    command.env_remove("HOME");
    run(command, tool_payload("s", "t", sandbox.path(), &Value::Null).as_bytes()).assert_unnoticed();
    assert_eq!(events_kept(&sandbox), 1);
}

#[test]
fn a_read_only_data_directory_counts_what_it_drops() {
    if rustix::process::geteuid().is_root() {
        // File modes do not stop root; a read-only mount does.
        let Some(mount) = Tmpfs::new("ro,size=64k") else { return };
        let sandbox = Sandbox::with_data(mount.path());
        send(&sandbox);
        assert_eq!(sandbox.dropped(), 1);
        return;
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.data()).unwrap();
    fs::set_permissions(sandbox.data(), fs::Permissions::from_mode(0o500)).unwrap();
    send(&sandbox);
    assert_eq!(sandbox.dropped(), 1);
    fs::set_permissions(sandbox.data(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_full_disk_counts_the_events_that_cannot_be_kept() {
    let Some(mount) = Tmpfs::new("size=1m") else { return };
    let sandbox = Sandbox::with_data(mount.path());
    send(&sandbox);
    let _ = fs::write(mount.path().join("filler"), vec![0u8; 2 << 20]);
    let before = events_kept(&sandbox);
    for number in 0..3 {
        let payload = tool_payload(
            "s",
            &format!("full{number}"),
            sandbox.path(),
            &json!({"stdout": "x".repeat(20_000)}),
        );
        sandbox.hook("save", payload).assert_unnoticed();
    }
    assert_eq!(events_kept(&sandbox) - before + sandbox.dropped(), 3);
    fs::remove_file(mount.path().join("filler")).unwrap();
    let kept = events_kept(&sandbox);
    sandbox.hook("save", tool_payload("s", "after", sandbox.path(), &Value::Null)).assert_unnoticed();
    assert_eq!(events_kept(&sandbox), kept + 1);
}

#[test]
fn a_data_directory_that_is_a_file_counts_what_it_drops() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.data(), "I am a file").unwrap();
    send(&sandbox);
    assert_eq!(sandbox.dropped(), 1);
    assert_eq!(fs::read_to_string(sandbox.data()).unwrap(), "I am a file");
}

#[test]
fn a_data_directory_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        skip_even_in_ci("only root can give a directory away");
        return;
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.data()).unwrap();
    std::os::unix::fs::chown(sandbox.data(), Some(12345), None).unwrap();
    send(&sandbox);
    assert_eq!(sandbox.dropped(), 1);
    assert_eq!(fs::read_dir(sandbox.data()).unwrap().count(), 0);
}

#[test]
fn with_a_corrupt_database_events_go_to_the_spool() {
    let sandbox = prepared();
    let path = sandbox.data().join("claude-mem.db");
    for name in ["claude-mem.db-wal", "claude-mem.db-shm"] {
        let _ = fs::remove_file(sandbox.data().join(name));
    }
    fs::write(&path, b"this is no database at all, but it is long enough to be taken for one".repeat(100))
        .unwrap();
    send(&sandbox);
    assert_eq!(sandbox.spooled().len(), 1);
}

#[test]
fn with_a_database_from_the_future_events_go_to_the_spool() {
    let sandbox = prepared();
    sandbox.database().pragma_update(None, "user_version", 9999).unwrap();
    send(&sandbox);
    assert_eq!(sandbox.spooled().len(), 1);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), 1, "it was not changed");
    let start = sandbox.hook("context", r#"{"session_id":"later","cwd":"/","source":"startup"}"#);
    let answer: Value = serde_json::from_str(&start.stdout).unwrap();
    let message = answer["systemMessage"].as_str().unwrap();
    assert!(message.contains("in the spool") && message.contains("upgrade claude-mem"), "{message}");
}

#[test]
fn another_programs_database_is_left_alone() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.data()).unwrap();
    sandbox.database().execute_batch("CREATE TABLE sdk_sessions (id INTEGER)").unwrap();
    send(&sandbox);
    assert_eq!(sandbox.spooled().len(), 1);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sqlite_schema"), 1);
}

#[test]
fn a_bad_config_file_is_ignored_and_noted() {
    for bad in ["[hook]\nbusy_ms = 'soon'", "not toml at all ["] {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.data()).unwrap();
        fs::write(sandbox.data().join("config.toml"), bad).unwrap();
        send(&sandbox);
        send(&sandbox);
        assert_eq!(events_kept(&sandbox), 1);
        let noted = "SELECT count(*) FROM event_log WHERE event_type = 'setting_ignored'";
        assert_eq!(sandbox.get::<i64>(noted), 1);
    }
}

#[test]
fn a_data_directory_may_have_any_name() {
    let strange = OsString::from_vec(b"with space 'quote\" new\nline and \xff\xfe bytes".to_vec());
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with_data(scratch.path().join(strange));
    let payload = tool_payload("s", "t", &sandbox.path().join("it's \"here\"\n"), &json!("x"));
    sandbox.hook("save", payload).assert_unnoticed();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), 1);
    assert_eq!(sandbox.get::<String>("SELECT project FROM sessions"), "it's \"here\"\n");
}

#[test]
fn a_held_write_lock_sends_the_event_to_the_spool_in_time() {
    let sandbox = prepared();
    let holder = sandbox.database();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ran = send(&sandbox);
    assert!(ran.took >= Duration::from_millis(250), "it waited for the lock: {:?}", ran.took);
    holder.execute_batch("COMMIT").unwrap();
    let spooled = sandbox.spooled();
    assert_eq!(spooled.len(), 1);
    let event: Value = serde_json::from_slice(&fs::read(&spooled[0]).unwrap()).unwrap();
    assert_eq!(event["key"]["Exact"], "tool:s:t");
    assert_eq!(fs::metadata(&spooled[0]).unwrap().permissions().mode() & 0o777, 0o600);
}
