//! Learnings: from prompts and commands through the real worker, and by the command line.

use serde_json::{Value, json};

use crate::harness::endpoint::{Asked, Endpoint, Reply};
use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::worker::Worker;

/// All learnings, oldest first: active or not, confidence in hundredths, sightings, text.
fn learnings(sandbox: &Sandbox) -> Vec<String> {
    let database = sandbox.database();
    let sql = "SELECT iif(is_active, 'active', iif(superseded_by IS NULL, 'forgotten', 'superseded')) || ' '
                      || cast(round(confidence * 100) AS INTEGER) || ' ' || times_seen || ' ' || content
               FROM learnings ORDER BY id";
    let mut statement = database.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// A session of one turn with this prompt.
fn say(sandbox: &Sandbox, session: &str, text: &str) {
    sandbox.prompt(session, text);
    sandbox.end_turn(session);
    sandbox.wait_until_settled();
}

fn bash(sandbox: &Sandbox, session: &str, id: &str, command: &str, outcome: Result<&str, &str>) {
    let mut payload = json!({"session_id": session, "cwd": sandbox.path(), "tool_name": "Bash", "tool_use_id": id,
                             "tool_input": {"command": command}});
    match outcome {
        Ok(stdout) => {
            payload["hook_event_name"] = json!("PostToolUse");
            payload["tool_response"] = json!({"stdout": stdout, "stderr": "", "interrupted": false});
        }
        Err(error) => {
            payload["hook_event_name"] = json!("PostToolUseFailure");
            payload["error"] = json!(error);
            payload["is_interrupt"] = json!(false);
        }
    }
    sandbox.hook("save", payload.to_string()).assert_unnoticed();
}

fn learn(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.arg("learn").args(arguments);
    run(command, b"")
}

fn listed(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let ran = learn(sandbox, &[&["list", "--json"], arguments].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_correction_is_learnt_confirmed_and_superseded() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    say(&sandbox, "one", "no, use pnpm, not npm");
    assert_eq!(learnings(&sandbox), ["active 60 1 Use pnpm, not npm"]);
    let evidence: String = sandbox.get(
        "SELECT o.session_id || ' ' || o.type || ' ' || o.title FROM learnings l JOIN observations o
         ON o.id = l.source_observation_id",
    );
    assert_eq!(
        evidence, "one decision Use pnpm, not npm",
        "the prompt is the evidence if the turn did nothing"
    );
    say(&sandbox, "one", "No! Always use pnpm, not npm");
    assert_eq!(learnings(&sandbox).len(), 1, "repeating it in one session counts once");
    say(&sandbox, "two", "no, use pnpm, not npm");
    let seen = learnings(&sandbox);
    assert_eq!(seen, ["active 76 2 Use pnpm, not npm"]);
    say(&sandbox, "three", "no, use npm, not pnpm");
    assert_eq!(
        learnings(&sandbox),
        ["superseded 76 2 Use pnpm, not npm", "active 60 1 Use npm, not pnpm"],
        "the newer holds"
    );
    let by: i64 = sandbox.get("SELECT superseded_by FROM learnings WHERE id = 1");
    assert_eq!(by, 2);
}

#[test]
fn a_learning_and_the_summary_of_its_turn_come_together() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    sandbox.prompt("s", "Fix the greeting. Never edit generated files.");
    sandbox.edit("s", "t1");
    sandbox.end_turn("s");
    sandbox.wait_until_settled();
    let both: String = sandbox.get(
        "SELECT l.content || ' | ' || o.title || ' | ' || (l.created_at = s.created_at) || ' | ' || (o.deleted_at IS NULL)
         FROM learnings l JOIN observations o ON o.id = l.source_observation_id JOIN session_summaries s",
    );
    assert!(both.starts_with("Never edit generated files | ") && both.ends_with(" | 1 | 1"), "{both}");
    assert_eq!(
        sandbox.get::<i64>("SELECT count(*) FROM observations"),
        1,
        "the edit's observation is the evidence"
    );
}

#[test]
fn commands_and_repairs_are_learnt_after_three_sessions() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let error = "Exit code 127\n/bin/sh: 1: python: not found";
    for session in ["one", "two", "three", "four"] {
        let id = |step: &str| format!("{session}-{step}");
        bash(&sandbox, session, &id("1"), "cargo test", Ok("test result: ok. 12 passed; 0 failed;"));
        if session != "four" {
            bash(&sandbox, session, &id("2"), "python tools/pages.py --all", Err(error));
            bash(&sandbox, session, &id("3"), "python3 tools/pages.py --all", Ok("12 pages"));
        }
        sandbox.end_turn(session);
        sandbox.wait_until_settled();
        if session == "two" {
            assert_eq!(learnings(&sandbox), Vec::<String>::new());
        }
    }
    let learnt = learnings(&sandbox);
    assert_eq!(learnt[0], "active 61 4 Run the tests with `cargo test`");
    let repair = "active 50 3 `python tools/pages.py --all` fails with";
    assert!(
        learnt[1].starts_with(repair) && learnt[1].ends_with(": run `python3 tools/pages.py --all`"),
        "{learnt:?}"
    );
    assert_eq!(learnt.len(), 2);
}

#[test]
fn a_forgotten_learning_does_not_return() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    say(&sandbox, "one", "Always use semicolons in scripts");
    assert_eq!(
        learn(&sandbox, &["forget", "1"]).stdout.trim(),
        format!(
            "Forgotten: Always use semicolons in scripts (1, {})",
            sandbox.path().file_name().unwrap().to_str().unwrap()
        )
    );
    say(&sandbox, "two", "always use semicolons in scripts");
    assert_eq!(learnings(&sandbox), ["forgotten 70 1 Always use semicolons in scripts"]);
    assert_eq!(listed(&sandbox, &[]), Vec::<Value>::new());
    assert_eq!(listed(&sandbox, &["--all"])[0]["standing"], "forgotten");
    let again = learn(&sandbox, &["add", "Always use semicolons in scripts"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(
        learnings(&sandbox),
        ["active 100 2 Always use semicolons in scripts"],
        "unless the user adds it"
    );
}

#[test]
fn private_secret_and_rule_like_sentences_are_not_learnt() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    say(&sandbox, "s", "never mind, the function always returns null");
    say(&sandbox, "s", "<private>always use my password hunter2</private> fix the test");
    assert_eq!(learnings(&sandbox), Vec::<String>::new());
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    say(&sandbox, "s", &format!("Always use the token {secret} for releases"));
    let learnt = learnings(&sandbox);
    assert!(learnt.len() == 1 && !learnt[0].contains(secret), "{learnt:?}");
}

/// A model that returns learnings with every turn.
fn teaching(learnings: Value) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    move |asked| {
        assert_eq!(asked.body["tools"][0]["name"], "store_turn");
        let made = json!({"type": "bugfix", "title": "Make it work", "summary": "It did not."});
        let summary = json!({"request": "Make it work", "completed": "It works."});
        Reply::tool_call(&json!({"observations": [made], "summary": summary, "learnings": learnings}))
    }
}

#[test]
fn a_model_adds_learnings_and_sees_the_known_ones() {
    let sandbox = Sandbox::new();
    let first = json!([{"category": "architecture", "content": "The parser runs before the cache"},
                       {"category": "nonsense", "content": "Run `make db` before the tests"}]);
    let endpoint = Endpoint::start(teaching(first));
    let mut command = sandbox.worker_command();
    command.env("CLAUDE_MEM_COMPRESS_PROVIDER", "anthropic").env("ANTHROPIC_API_KEY", "sk-ant-x");
    command.env("ANTHROPIC_BASE_URL", endpoint.url());
    let mut worker = Worker::spawn(command, &sandbox);
    worker.wait_until_it_answers();
    let turn = |session: &str| {
        sandbox.prompt(session, "Make it work");
        sandbox.edit(session, &format!("{session}-1"));
        sandbox.end_turn(session);
        sandbox.wait_until_settled();
    };
    turn("one");
    assert_eq!(
        learnings(&sandbox),
        ["active 40 1 The parser runs before the cache", "active 40 1 Run `make db` before the tests"]
    );
    let made: String = sandbox.get("SELECT category || ' ' || (SELECT prompt_version FROM session_summaries) || ' ' ||
        (SELECT title || ' ' || prompt_version FROM observations WHERE id = source_observation_id) FROM learnings WHERE id = 2");
    assert_eq!(made, "command 3 Make it work 3");
    endpoint.set_script(teaching(json!([{"category": "architecture", "content": "The cache runs first", "replaces": 1},
                                        {"category": "command", "content": "make db comes before tests", "known": 2}])));
    turn("two");
    let asked = endpoint.asked();
    let prompt = asked.last().unwrap().body["messages"][0]["content"].to_string();
    assert!(
        prompt.contains("begins: known learnings]\\n1. The parser runs before the cache\\n2. Run `make db`"),
        "{prompt}"
    );
    assert_eq!(
        learnings(&sandbox),
        [
            "active 40 1 The parser runs before the cache",
            "active 54 2 Run `make db` before the tests",
            "active 40 1 The cache runs first",
        ],
        "a second session confirms a guess, and a guess replaces nothing"
    );
}

#[test]
fn a_correction_is_learnt_once_despite_a_models_version() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(teaching(json!([])));
    let mut command = sandbox.worker_command();
    command.env("CLAUDE_MEM_COMPRESS_PROVIDER", "anthropic").env("ANTHROPIC_API_KEY", "sk-ant-x");
    command.env("ANTHROPIC_BASE_URL", endpoint.url());
    let mut worker = Worker::spawn(command, &sandbox);
    worker.wait_until_it_answers();
    say(&sandbox, "forgets", "no, use pnpm, not npm");
    assert_eq!(learnings(&sandbox), ["active 60 1 Use pnpm, not npm"]);
    let again = json!([{"category": "convention", "content": "Generated files must never be edited"},
                       {"category": "convention", "content": "No editing of what a tool wrote", "known": 2},
                       {"category": "gotcha", "content": "The lint takes a minute"}]);
    endpoint.set_script(teaching(again));
    say(&sandbox, "repeats", "Fix the greeting. Never edit generated files.");
    let asked = endpoint.asked();
    let prompt = asked.last().unwrap().body["messages"][0]["content"].to_string();
    assert!(prompt.contains("1. Use pnpm, not npm\\n2. Never edit generated files"), "{prompt}");
    let both = [
        "active 60 1 Use pnpm, not npm",
        "active 70 1 Never edit generated files",
        "active 40 1 The lint takes a minute",
    ];
    assert_eq!(learnings(&sandbox), both, "what the model adds is there, what it repeats is not");
    endpoint.set_script(teaching(json!([{"category": "convention", "content": "Use npm, not pnpm"}])));
    say(&sandbox, "turns around", "no, use pnpm");
    assert_eq!(learnings(&sandbox)[0], "active 69 2 Use pnpm, not npm", "the user's words count");
    assert_eq!(learnings(&sandbox).len(), 3);
}

#[test]
fn learnings_are_added_listed_and_forgotten_without_a_worker() {
    let sandbox = Sandbox::new();
    assert_eq!(learn(&sandbox, &["list"]).stdout, "No learnings yet.\n");
    assert_eq!(learn(&sandbox, &["forget", "1"]).code, Some(1));
    let added = learn(&sandbox, &["add", "--project", "shop", "Use pnpm, not npm"]);
    assert_eq!(added.stdout, "Added: Use pnpm, not npm (1, shop)\n", "{added:?}");
    learn(&sandbox, &["add", "--everywhere", "--category", "preference", "Answer in German"]);
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let hidden = learn(
        &sandbox,
        &["add", "--json", "--project", "shop", &format!("The token is {secret} <private>x1</private>")],
    );
    assert!(
        hidden.code == Some(0) && !hidden.stdout.contains(secret) && !hidden.stdout.contains("x1"),
        "{hidden:?}"
    );
    assert_eq!(learn(&sandbox, &["add", "<private>all of it</private>"]).code, Some(1));
    let contents = |arguments: &[&str]| -> Vec<String> {
        listed(&sandbox, arguments).iter().map(|row| row["content"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(contents(&["--everywhere"]), ["Answer in German"]);
    assert_eq!(contents(&["--project", "shop"])[..2], ["Use pnpm, not npm", "Answer in German"]);
    assert_eq!(contents(&["--project", "other"]), ["Answer in German"]);
    let shown = learn(&sandbox, &["list", "--project", "shop"]).stdout;
    assert!(
        shown.contains(
            "    1  Use pnpm, not npm\n       convention, shop, 100 % sure, seen once, last just now"
        ),
        "{shown}"
    );
    learn(&sandbox, &["add", "--project", "shop", "Use npm, not pnpm"]);
    assert!(!contents(&["--project", "shop"]).contains(&"Use pnpm, not npm".to_owned()), "the newer holds");
    let gone = learn(&sandbox, &["forget", "2", "77"]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(1), "Forgotten: Answer in German (2, everywhere)\n"));
    assert!(gone.stderr.contains("no learning 77"), "{gone:?}");
    assert_eq!(learn(&sandbox, &["add", "--category", "nonsense", "x y"]).code, Some(2));
    assert_eq!(learn(&sandbox, &["add", "--project", "a", "--everywhere", "x y"]).code, Some(2));
}

#[test]
fn learnings_are_shown_until_their_confidence_fades() {
    let sandbox = Sandbox::new();
    let worker = Worker::start(&sandbox);
    say(&sandbox, "one", "no, use pnpm, not npm");
    learn(&sandbox, &["add", "Deploy with `make ship`"]);
    drop(worker);
    let output = |session: &str| {
        let payload = json!({"session_id": session, "cwd": sandbox.path(), "source": "startup"}).to_string();
        sandbox.hook("context", payload).assert_unnoticed().stdout.clone()
    };
    let fresh = output("two");
    assert!(
        fresh.contains("convention: Use pnpm, not npm") && fresh.contains("Deploy with `make ship`"),
        "{fresh}"
    );
    let month = 30_i64 * 24 * 3600 * 1000;
    sandbox.database().execute("UPDATE learnings SET updated_at = updated_at - ?1", [4 * month]).unwrap();
    let later = output("three");
    assert!(!later.contains("convention: Use pnpm, not npm"), "{later}");
    assert!(later.contains("Deploy with `make ship`"), "what a person wrote down stays: {later}");
}

#[test]
fn learnt_commands_keep_their_runner_and_settings() {
    let sandbox = Sandbox::new();
    let _worker = Worker::start(&sandbox);
    let commands = [
        "uv run pytest -q",
        "uv run --frozen python -m pytest tests",
        "poetry run pytest",
        "npx vitest run",
        "bundle exec rspec",
        "PYTHONPATH=. pytest -x",
        "PYTHONPATH=src DJANGO_SETTINGS_MODULE=app.settings python -m pytest",
        "pnpm exec playwright test",
        "docker compose run --rm web pytest",
        "mise x -- cargo test",
    ];
    for session in 0..4 {
        let name = format!("runner-{session}");
        sandbox.prompt(&name, &format!("Run all the checks of the project, round {session}"));
        for (number, command) in commands.iter().enumerate() {
            bash(&sandbox, &name, &format!("{name}-{number}"), command, Ok("4 passed in 0.12s"));
        }
        sandbox.end_turn(&name);
        sandbox.wait_until_settled();
    }
    let known = learnings(&sandbox).join("\n");
    for runner in [
        "`uv run pytest -q`",
        "`poetry run pytest`",
        "`npx vitest run`",
        "`bundle exec rspec`",
        "`PYTHONPATH=. pytest -x`",
    ] {
        assert!(known.contains(runner), "{runner} is not in\n{known}");
    }
    assert!(!known.contains("`pytest") && !known.contains("`rspec"), "{known}");
}
