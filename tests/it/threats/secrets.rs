//! Sixty secrets, planted everywhere in a session: none is sent to a model, stored, exported, shown or logged.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::endpoint::{Endpoint, Reply};
use crate::harness::sandbox::{Sandbox, run, tool_payload};
use crate::harness::worker::Worker;

/// Random-looking letters and digits, the same for the same seed.
fn drawn(seed: usize, length: usize, alphabet: &str) -> String {
    let alphabet = alphabet.as_bytes();
    let mut state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let draw = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    (0..length).map(draw).collect()
}

const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const HEX: &str = "0123456789abcdef";

/// Texts with `§` in place of the secret; its prefix, alphabet and length.
const FORMS: [(&str, &str, &str, usize); 20] = [
    ("use § for the call", "sk-ant-api03-", ALL, 60),
    ("curl -H 'Authorization: Bearer §' https://api.example.org", "", ALL, 40),
    ("VERCEL_TOKEN=§", "", LETTERS, 24),
    ("the twilio key is §, rotate it", "SK", HEX, 32),
    ("export DATABASE_PASSWORD='§'", "", LETTERS, 20),
    ("postgres://app:§@db.internal/app", "", ALL, 18),
    ("git clone https://§@github.com/a/b", "ghp_", ALL, 36),
    ("{\"client_secret\": \"§\"}", "", LETTERS, 32),
    ("stripe says § is live", "sk_live_", ALL, 24),
    ("slack: §", "xoxb-123456789012-", ALL, 24),
    ("npm login with §", "npm_", ALL, 36),
    ("AWS key § here", "AKIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    ("aws_secret_access_key = §", "", ALL, 40),
    ("SECRET=§", "", LETTERS, 16),
    ("sonar § runs", "sqp_", HEX, 40),
    ("pulumi login §", "pul-", HEX, 40),
    ("api_key: '§'", "", ALL, 32),
    ("docker login -p §", "dckr_pat_", ALL, 27),
    ("let token = \"§\";", "", ALL, 24),
    ("hugging face §", "hf_", ALL, 34),
];

fn holds(bytes: &[u8], secret: &str) -> bool {
    memchr::memmem::find(bytes, secret.as_bytes()).is_some()
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn planted(seed: usize) -> (String, String) {
    let (text, prefix, alphabet, length) = FORMS[seed % FORMS.len()];
    let secret = format!("{prefix}{}", drawn(seed, length, alphabet));
    (text.replace('§', &secret), secret)
}

#[test]
fn no_planted_secret_is_sent_stored_exported_shown_or_logged() {
    let sandbox = Sandbox::new();
    let answer = json!({"observations": [{"type": "change", "title": "Rotated keys", "summary": "Done."}],
                        "summary": {"request": "Rotate keys", "completed": "Rotated."}});
    let endpoint = Endpoint::start(move |_| Reply::tool_call(&answer));
    sandbox.configure("[compress]\nprovider = \"anthropic\"\n[batch]\nmax_wait_s = 1\n");
    let cwd = sandbox.path().to_owned();
    let mut secrets = Vec::new();
    let mut plant = |seed: usize| {
        let (text, secret) = planted(seed);
        secrets.push(secret);
        text
    };
    let texts: Vec<String> = (0..60).map(&mut plant).collect();
    for (turn, chunk) in texts.chunks(6).enumerate() {
        let session = format!("s{turn}");
        let send = |verb: &str, mut payload: serde_json::Value| {
            payload["session_id"] = json!(session);
            payload["cwd"] = json!(cwd);
            sandbox.hook(verb, payload.to_string()).assert_unnoticed();
        };
        send(
            "new",
            json!({"prompt": format!("Rotate the keys of the service. {}", chunk[0]), "prompt_id": "p"}),
        );
        // The lock sends these to the spool.
        let database = sandbox.database();
        if turn % 2 == 0 {
            database.execute_batch("BEGIN IMMEDIATE").unwrap();
        }
        sandbox.hook(
            "save",
            tool_payload(&session, "t1", &cwd, &json!({"stdout": chunk[1], "stderr": chunk[2]})),
        );
        drop(database);
        send(
            "save",
            json!({"tool_name": "Write", "tool_use_id": "t2", "hook_event_name": "PostToolUse",
             "tool_input": {"file_path": cwd.join("deploy.sh"), "content": chunk[3]}, "tool_response": {"type": "create"}}),
        );
        let transcript = cwd.join(format!("{session}.jsonl"));
        let closing = json!({"type": "assistant", "message": {"content": [{"type": "text",
                          "text": format!("Rotated the keys because they leaked. {}", chunk[4])}]}});
        fs::write(&transcript, format!("{closing}\n")).unwrap();
        if turn % 3 == 0 {
            send("summary", json!({"hook_event_name": "Stop", "transcript_path": transcript}));
        } else {
            let closing = format!("Rotated the keys because they leaked. {}", chunk[4]);
            send("summary", json!({"hook_event_name": "Stop", "last_assistant_message": closing}));
        }
    }
    assert!(!sandbox.spooled().is_empty());
    let mut command = sandbox.worker_command();
    command.env("CLAUDE_MEM_COMPRESS_PROVIDER", "anthropic").env("ANTHROPIC_API_KEY", "sk-ant-x");
    command.env("ANTHROPIC_BASE_URL", endpoint.url());
    let mut worker = Worker::spawn(command, &sandbox);
    worker.wait_until_it_answers();
    sandbox.wait_for(
        "the spool is empty",
        "SELECT count(*) >= 20 FROM pending_queue WHERE tool_use_id IS NOT NULL",
    );
    sandbox.wait_until_settled();
    let mut client = sandbox.mcp();
    for (number, chunk) in texts.chunks(6).enumerate() {
        client
            .call_ok("save", json!({"text": format!("Keys of service {number} were rotated. {}", chunk[5])}));
    }
    let found = client.call_ok("search", json!({"query": "keys rotate service deploy", "limit": 100}));
    let recent = client.call_ok("recent", json!({"limit": 50}));
    drop(client);
    let sent: String = endpoint.asked().iter().map(|asked| asked.body.to_string()).collect();
    assert!(sent.contains("Rotate the keys"), "something was sent");
    // Readers may delay the checkpoint of the WAL.
    let log = sandbox.data().join("claude-mem.db-wal");
    sandbox.wait_until("the WAL is emptied", || {
        worker.post("/api/nudge", &serde_json::Value::Null);
        !fs::read(&log).is_ok_and(|log| secrets.iter().any(|secret| holds(&log, secret)))
    });
    worker.stop();
    let mut export = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    export.arg("export");
    let exported = run(export, b"").stdout;
    assert!(exported.contains("Rotate the keys"), "{exported}");
    let stored: String = [
        "SELECT coalesce(payload, '') || coalesce(last_error, '') FROM pending_queue",
        "SELECT prompt FROM user_prompts",
        "SELECT coalesce(title, '') || coalesce(outcome, '') || coalesce(open_items, '') FROM sessions",
        "SELECT json_array(title, summary, detail, facts, concepts, files_modified) FROM observations",
        "SELECT json_array(summary, request, completed, next_steps, notes, learned) FROM session_summaries",
        "SELECT content FROM learnings",
        "SELECT coalesce(data, '') FROM event_log",
    ]
    .map(|sql| {
        let database = sandbox.database();
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<String>()
    })
    .concat();
    assert!(stored.contains("[redacted:"), "payloads are kept");
    let places = [
        ("sent", sent),
        ("stored", stored),
        ("exported", exported),
        ("found", found),
        ("recent", recent),
        ("logged", sandbox.logged()),
    ];
    let mut leaked = Vec::new();
    for (secret, text) in secrets.iter().zip(&texts) {
        for (place, content) in &places {
            if content.contains(secret.as_str()) {
                leaked.push(format!("{place}: {text}"));
            }
        }
    }
    // Every file that is left, byte by byte: the database with its free space, its log, spool, backups, logs.
    for file in files_below(sandbox.path()) {
        let is_ours = file.starts_with(sandbox.data()) || file.extension().is_some_and(|kind| kind == "log");
        let bytes = fs::read(&file).unwrap_or_default();
        for (secret, text) in
            secrets.iter().zip(&texts).filter(|(secret, _)| is_ours && holds(&bytes, secret))
        {
            leaked.push(format!("{} holds {secret}: {text}", file.display()));
        }
    }
    assert!(leaked.is_empty(), "{} leaks:\n{}", leaked.len(), leaked.join("\n"));
    assert_eq!(secrets.len(), 60);
}
