//! The embedding model: installed, used by the worker and the command line, and unloaded.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::wait::skip_even_in_ci;
use crate::harness::worker::Worker;

fn cli(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(arguments);
    run(command, b"")
}

/// The smaller model, fetched once into a cache as a user would; `None` without network access.
fn model_file() -> Option<PathBuf> {
    let cache = Sandbox::with_data(Path::new(env!("CARGO_TARGET_TMPDIR")).join("model-cache"));
    let mut command = cache.command(env!("CARGO_BIN_EXE_claude-mem"));
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "SSL_CERT_FILE"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command.args(["model", "install", "minilm"]);
    let ran = run(command, b"");
    let file = cache.data().join("models/all-minilm-l6-v2-i8.onnx");
    if ran.code != Some(0) {
        skip_even_in_ci(&format!("the model cannot be fetched: {}", ran.stderr));
        return None;
    }
    Some(file)
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let payload = json!({"session_id": "s1", "cwd": sandbox.path(), "hook_event_name": "UserPromptSubmit", "prompt": "go on"});
    sandbox.hook("new", payload.to_string()).assert_unnoticed();
    sandbox
        .database()
        .execute_batch(
            "UPDATE sessions SET project = 'shop';
             INSERT INTO observations (uid, session_id, project, type, title, summary, created_at)
             SELECT value ->> 0, (SELECT id FROM sessions), 'shop', 'change', value ->> 1, value ->> 2, 1 FROM json_each('[
               [\"u1\", \"Send each e-mail once\", \"Customers got the same message three times after a retry\"],
               [\"u2\", \"Cache the product list\", \"The query ran on every page view\"],
               [\"u3\", \"Rotate the signing key\", \"It had not been changed since 2021\"]]')",
        )
        .unwrap();
    sandbox
}

const QUESTION: &str = "recipients%20were%20notified%20repeatedly";

fn first(found: &Value) -> &Value {
    &found["hits"][0]["ref"]
}

#[test]
fn a_file_that_is_not_the_model_is_refused() {
    let sandbox = Sandbox::new();
    let wrong = sandbox.path().join("model.onnx");
    std::fs::write(&wrong, "not a model").unwrap();
    let ran = cli(&sandbox, &["model", "install", "--file", wrong.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("SHA-256"), "{ran:?}");
    let status = cli(&sandbox, &["model", "status"]);
    assert!(status.code == Some(0) && status.stdout.contains("No model is installed"), "{status:?}");
    // A damaged file is reported, and search continues without it.
    std::fs::create_dir_all(sandbox.data().join("models")).unwrap();
    std::fs::copy(&wrong, sandbox.data().join("models/all-minilm-l6-v2-i8.onnx")).unwrap();
    let status = cli(&sandbox, &["model", "status", "--json"]);
    assert_eq!(status.code, Some(1));
    assert_eq!(serde_json::from_str::<Value>(&status.stdout).unwrap()["intact"], false);
    let worker = Worker::start(&sandbox);
    assert_eq!(worker.get("/api/search?q=anything").status, 200);
}

#[test]
fn a_model_that_nobody_publishes_is_refused_with_the_names_of_those_that_there_are() {
    let sandbox = Sandbox::new();
    let ran = cli(&sandbox, &["model", "install", "gpt"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("e5-small and minilm"), "{ran:?}");
}

#[test]
fn another_model_replaces_the_installed_one_and_what_it_has_read() {
    let Some(model) = model_file() else { return };
    let sandbox = sandbox();
    let models = sandbox.data().join("models");
    std::fs::create_dir_all(&models).unwrap();
    let before = models.join("e5-small-i8.onnx");
    std::fs::write(&before, "another model").unwrap();
    sandbox
        .database()
        .execute_batch("INSERT INTO search_models (no, name, dimension) VALUES (1, 'e5-small-i8', 384)")
        .unwrap();
    let status = cli(&sandbox, &["model", "status", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&status.stdout).unwrap()["name"], "e5-small");
    let ran = cli(&sandbox, &["model", "install", "--file", model.to_str().unwrap()]);
    assert!(ran.code == Some(0) && ran.stdout.contains("minilm"), "{ran:?}");
    assert!(!before.exists());
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM search_models"), 0);
}

#[test]
fn with_the_real_model_search_finds_what_shares_no_word() {
    let Some(model) = model_file() else { return };
    let sandbox = sandbox();
    let worker = start(&sandbox);
    assert_eq!(first(&worker.get(&format!("/api/search?q={QUESTION}")).json()), &Value::Null);
    let installed = cli(&sandbox, &["model", "install", "--file", model.to_str().unwrap()]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    sandbox.wait_for(
        "everything is read",
        "SELECT coalesce(sum(length(entries)), 0) = 3 * 390 FROM search_vectors",
    );
    let found = worker.get(&format!("/api/search?q={QUESTION}&explain=1")).json();
    assert_eq!(first(&found), "1", "{found:#}");
    assert!(found["hits"][0]["explain"]["meaning"].as_f64().unwrap() > 0.9, "{found:#}");
    let nothing = worker.get("/api/search?q=teapot").json();
    assert_eq!(first(&nothing), &Value::Null, "a little alike is no hit: {nothing:#}");
    let loaded = memory_of(&worker);
    // The model is unloaded at the next check after one idle second.
    sandbox.wait_until("less memory is used", || {
        worker.send("POST", "/api/nudge", b"");
        memory_of(&worker) <= loaded / 2
    });
    assert_eq!(
        first(&worker.get(&format!("/api/search?q={QUESTION}")).json()),
        "1",
        "it comes back when asked"
    );
    drop(worker);
    let alone = cli(&sandbox, &["search", "recipients", "were", "notified", "repeatedly", "--json"]);
    assert_eq!(
        first(&serde_json::from_str(&alone.stdout).unwrap()),
        "1",
        "without the worker, too: {alone:?}"
    );
    let status = cli(&sandbox, &["model", "status"]);
    assert!(status.stdout.contains("3 of 3 memories"), "{status:?}");
    assert_eq!(cli(&sandbox, &["model", "remove"]).code, Some(0));
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM search_vectors"), 0);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM search_outlines"), 0);
    assert!(!sandbox.data().join("models/all-minilm-l6-v2-i8.onnx").exists());
}

fn start(sandbox: &Sandbox) -> Worker {
    let mut command = sandbox.worker_command();
    command.env("CLAUDE_MEM_SEARCH_MODEL_IDLE_S", "1");
    let mut worker = Worker::spawn(command, sandbox);
    worker.wait_until_it_answers();
    worker
}

/// Memory in KiB: proportional set size where available.
#[cfg(not(target_os = "linux"))]
fn memory_of(worker: &Worker) -> u64 {
    crate::harness::worker::resident_kib(worker.pid())
}

/// Proportional set size in KiB.
#[cfg(target_os = "linux")]
fn memory_of(worker: &Worker) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", worker.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
