//! Cost and refusing providers: the ceiling is hard, bad answers are bounded, and a corrected key is noticed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::endpoint::{Asked, Endpoint, Reply};
use crate::harness::faults::good;
use crate::harness::sandbox::Sandbox;
use crate::harness::worker::{CLOSING, Worker};

/// A worker whose key is in the file `credentials`.
fn start(sandbox: &Sandbox, url: &str, provider: &str, settings: &str) -> Worker {
    sandbox.configure(settings);
    let mut command = sandbox.worker_command();
    command.env("CLAUDE_MEM_COMPRESS_PROVIDER", provider).env("ANTHROPIC_BASE_URL", url);
    command.env("CLAUDE_MEM_OPENAI_BASE_URL", url).env("CLAUDE_MEM_OPENAI_MODEL", "some-model");
    let mut worker = Worker::spawn(command, sandbox);
    worker.wait_until_it_answers();
    worker
}

fn write_key(sandbox: &Sandbox, key: &str) {
    fs::create_dir_all(sandbox.data()).unwrap();
    let file = sandbox.data().join("credentials.new");
    fs::write(&file, format!("ANTHROPIC_API_KEY={key}\nOPENAI_API_KEY={key}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(file, sandbox.data().join("credentials")).unwrap();
}

fn turn(sandbox: &Sandbox, session: &str) {
    sandbox.prompt(session, "Correct the typo in the greeting of the server");
    sandbox.edit(session, "server");
    let stop = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "Stop", "last_assistant_message": CLOSING});
    sandbox.hook("summary", stop.to_string()).assert_unnoticed();
}

fn redo(sandbox: &Sandbox) {
    let redo = sandbox.command(env!("CARGO_BIN_EXE_claude-mem")).args(["queue", "redo"]).output().unwrap();
    assert!(redo.status.success(), "{redo:?}");
}

#[test]
fn timed_out_calls_are_charged_in_full_and_the_ceiling_holds() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::always(Reply::Hang);
    write_key(&sandbox, "sk-ant-good");
    // Room for one call at its maximum, but not for two.
    let worker = start(
        &sandbox,
        endpoint.url(),
        "anthropic",
        "[compress]\ntimeout_s = 1\n[cost]\nmax_usd_per_day = 0.7\n[prices]\n\"claude-haiku-5-5\" = { input = 100.0, output = 0.0 }\n\
         loopback = { input = 100.0, output = 0.0 }\n",
    );
    turn(&sandbox, "s");
    sandbox.wait_for(
        "booked",
        "SELECT count(*) > 0 FROM event_log WHERE event_type = 'llm_call' AND cost_usd > 0.1",
    );
    for _ in 0..200 {
        if sandbox.rows("done") > 0 {
            break;
        }
        worker.post("/api/nudge", &Value::Null);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    sandbox.wait_until_settled();
    let spent: f64 = sandbox.get("SELECT sum(cost_usd) FROM event_log WHERE event_type = 'llm_call'");
    assert!(spent > 0.1 && spent <= 0.7, "{spent}");
    assert_eq!(sandbox.get::<String>("SELECT DISTINCT provider FROM session_summaries"), "local");
}

#[test]
fn an_answered_call_is_charged_at_its_real_cost() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(good);
    write_key(&sandbox, "sk-ant-good");
    let _worker = start(&sandbox, endpoint.url(), "anthropic", "");
    turn(&sandbox, "s");
    sandbox.wait_until_settled();
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM event_log WHERE event_type = 'llm_call'"), 1);
    assert_eq!(sandbox.get::<i64>("SELECT tokens_out FROM event_log WHERE event_type = 'llm_call'"), 56);
}

#[test]
fn an_unusable_answer_costs_three_calls_at_most() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::always(Reply::anthropic(
        &json!([{"type": "text", "text": "I would rather not."}]),
        "end_turn",
    ));
    write_key(&sandbox, "sk-ant-good");
    let worker = start(&sandbox, endpoint.url(), "anthropic", "");
    turn(&sandbox, "s");
    sandbox.edit("s", "client");
    sandbox.end_turn("s");
    sandbox.wait_for(
        "failed once",
        "SELECT count(*) > 0 FROM pending_queue WHERE status = 'raw' AND attempts = 1",
    );
    sandbox.database().execute("UPDATE pending_queue SET next_attempt_at = NULL", []).unwrap();
    worker.post("/api/nudge", &Value::Null);
    sandbox.wait_until_settled();
    assert_eq!(sandbox.rows("error"), 0);
    assert_eq!(sandbox.get::<String>("SELECT DISTINCT provider FROM session_summaries"), "local");
    let turns = 2;
    assert!(endpoint.asked().len() <= 3 * turns, "{}", endpoint.asked().len());
}

fn only_with(key: &'static str) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    move |asked| match asked.header("x-api-key") {
        Some(given) if given == key => good(asked),
        _ => Reply::error(401, "authentication_error", "invalid x-api-key"),
    }
}

#[test]
fn a_repaired_key_is_read_again_without_a_restart() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(only_with("sk-ant-good"));
    write_key(&sandbox, "sk-ant-wrong");
    let worker = start(&sandbox, endpoint.url(), "anthropic", "");
    turn(&sandbox, "s");
    worker.wait_for_health("the key is refused", |health| health["breaker"] == "open");
    write_key(&sandbox, "sk-ant-good");
    worker.post("/api/nudge", &Value::Null);
    sandbox.wait_for("noted", "SELECT count(*) = 1 FROM session_summaries WHERE provider = 'anthropic'");
    worker.wait_for_health("healthy", |health| health["breaker"] == "closed");
}

#[test]
fn a_refusing_provider_is_reported_and_replaced_by_rules() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(only_with("sk-ant-good"));
    write_key(&sandbox, "sk-ant-wrong");
    let worker = start(&sandbox, endpoint.url(), "anthropic", "[compress]\nfallback_after_s = 1\n");
    turn(&sandbox, "s");
    worker.wait_for_health("the key is refused", |health| health["breaker"] == "open");
    let begin = |session: &str| {
        let payload = json!({"session_id": session, "cwd": sandbox.path(), "source": "startup"}).to_string();
        sandbox.hook("context", payload).assert_unnoticed().stdout.clone()
    };
    let output: Value = serde_json::from_str(&begin("two")).unwrap();
    assert!(output["systemMessage"].as_str().unwrap().contains("Check the key"), "{output}");
    sandbox.wait_for("noted by rules", "SELECT count(*) = 1 FROM session_summaries WHERE provider = 'local'");
    sandbox.wait_until_settled();
    write_key(&sandbox, "sk-ant-good");
    redo(&sandbox);
    sandbox.wait_for("done again", "SELECT count(*) = 1 FROM session_summaries WHERE provider = 'anthropic'");
}

#[test]
fn a_cut_reasoning_model_gets_less_effort_and_more_room() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(|asked: &Asked| {
        let room =
            asked.body["max_tokens"].as_u64().or(asked.body["max_completion_tokens"].as_u64()).unwrap_or(0);
        if room <= 4_000 {
            return Reply::chat("", "length");
        }
        Reply::chat(
            "{\"observations\":[{\"type\":\"bugfix\",\"title\":\"Make it work\",\"summary\":\"It did not.\"}],\
             \"summary\":{\"request\":\"Make it work\",\"completed\":\"It works.\"}}",
            "stop",
        )
    });
    write_key(&sandbox, "sk-good");
    let _worker = start(&sandbox, endpoint.url(), "openai", "");
    turn(&sandbox, "s");
    sandbox.wait_for("noted", "SELECT count(*) = 1 FROM session_summaries WHERE provider = 'openai'");
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|asked| asked.body["reasoning_effort"] == "low"), "{}", asked[0].body);
}
