//! `backup`, `restore`, `forget`, `stats`, `export`, `import`: with the real programs, with and without a worker.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::sandbox::{Ran, Sandbox, run};
use crate::harness::worker::Worker;

fn try_mem(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(arguments).env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
    run(command, b"")
}

fn mem(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let ran = try_mem(sandbox, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran.stdout
}

fn json_of(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    serde_json::from_str(&mem(sandbox, arguments)).unwrap()
}

fn turn(sandbox: &Sandbox, session: &str, prompt: &str) {
    sandbox.prompt(session, prompt);
    sandbox.edit(session, &format!("{session}-edit"));
    sandbox.end_turn(session);
}

/// Two sessions, made into memory by a worker that has ended.
fn remembered() -> Sandbox {
    let sandbox = Sandbox::new();
    // Whether the daily backup is made in time is random: switch it off.
    sandbox.configure("[backup]\nkeep = 0");
    let mut worker = Worker::start(&sandbox);
    turn(&sandbox, "one", "Repair the greeting, the xyzzyplugh matter");
    turn(&sandbox, "two", "Write the farewell of the client");
    sandbox.wait_until_settled();
    worker.stop();
    sandbox
}

/// All rows of all tables that an export has, as text.
fn everything(data: &Path) -> Vec<String> {
    let database = Connection::open(data.join("claude-mem.db")).unwrap();
    let tables = [
        "sessions",
        "user_prompts",
        "pending_queue",
        "observations",
        "observation_sources",
        "session_summaries",
        "learnings",
        "function_map",
        "sightings",
        "event_log",
    ];
    let mut all = Vec::new();
    for table in tables {
        let mut statement = database.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<rusqlite::types::Value> = (0..columns).map(|at| row.get(at).unwrap()).collect();
            all.push(format!("{table} {values:?}"));
        }
    }
    all
}

fn holds(data: &Path, words: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let is_in = |file: &PathBuf| {
        let bytes = fs::read(file).unwrap_or_default().to_ascii_lowercase();
        memchr::memmem::find(&bytes, words.as_bytes()).is_some()
    };
    files.filter(|file| file.is_file() && is_in(file)).collect()
}

#[test]
fn a_backup_of_a_running_worker_can_be_restored() {
    let sandbox = remembered();
    let _worker = Worker::start(&sandbox);
    let made = json_of(&sandbox, &["backup", "--json"]);
    assert_eq!(made["rows"]["sessions"], 2, "{made:#}");
    drop(_worker);
    turn(&sandbox, "three", "Something else");
    let restored = json_of(&sandbox, &["restore", made["path"].as_str().unwrap(), "--yes", "--json"]);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 2);
    // The replaced database is kept.
    let kept = Connection::open(restored["kept"].as_str().unwrap()).unwrap();
    let sessions: i64 = kept.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    assert_eq!(sessions, 3);
    let list = json_of(&sandbox, &["backup", "--list", "--json"]);
    let reasons = list.as_array().unwrap().iter().map(|copy| copy["reason"].as_str().unwrap());
    let by_hand: Vec<&str> = reasons.filter(|reason| *reason != "daily").collect();
    assert_eq!(by_hand, ["before-restore", "manual"]);
    turn(&sandbox, "four", "Hooks work with what was restored");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 3);
    assert_eq!(sandbox.get::<String>("PRAGMA journal_mode"), "wal");
}

#[test]
fn restore_restarts_the_service_and_refuses_other_files() {
    let sandbox = remembered();
    mem(&sandbox, &["backup"]);
    mem(&sandbox, &["start"]);
    let pid = json_of(&sandbox, &["status", "--json"])["service"]["pid"].clone();
    mem(&sandbox, &["restore", "--yes"]);
    let now = json_of(&sandbox, &["status", "--json"])["service"]["pid"].clone();
    mem(&sandbox, &["stop"]);
    assert!(now.is_u64() && now != pid, "{pid} {now}");
    fs::write(sandbox.path().join("nonsense"), "no database").unwrap();
    let refused = try_mem(&sandbox, &["restore", sandbox.path().join("nonsense").to_str().unwrap(), "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let unasked = try_mem(&sandbox, &["restore"]);
    assert_eq!((unasked.code, unasked.stderr.contains("--yes")), (Some(1), true), "{unasked:?}");
}

#[test]
fn the_worker_backs_up_daily_and_keeps_the_set_number() {
    let sandbox = remembered();
    sandbox.configure("[backup]\nkeep = 2");
    let backups = sandbox.data().join("backups");
    fs::create_dir(&backups).unwrap();
    let copy = |name: &str| fs::copy(sandbox.data().join("claude-mem.db"), backups.join(name)).unwrap();
    for day in 1..4 {
        copy(&format!("daily-2026010{day}T000000000Z.db"));
    }
    let daily = || {
        let entries = fs::read_dir(&backups).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.filter(|name| name.ends_with(".db")).collect();
        names.sort();
        names
    };
    let mut worker = Worker::start(&sandbox);
    sandbox.wait_for("a backup", "SELECT EXISTS (SELECT 1 FROM event_log WHERE event_type = 'backup')");
    let names = daily();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], "daily-20260103T000000000Z.db");
    worker.stop();
    // A second start on the same day makes no backup.
    let mut worker = Worker::start(&sandbox);
    turn(&sandbox, "three", "More");
    sandbox.wait_until_settled();
    worker.stop();
    assert_eq!(daily(), names);
}

/// The index has the words of a turn at its neighbours too.
#[test]
fn forgetting_a_text_removes_it_from_the_neighbours_of_its_turn() {
    let sandbox = remembered();
    let mut worker = Worker::start(&sandbox);
    sandbox.prompt("one", "Now the colour of the door");
    sandbox.edit("one", "one-second-edit");
    sandbox.end_turn("one");
    sandbox.wait_until_settled();
    sandbox.wait_for("the index", "SELECT NOT EXISTS (SELECT 1 FROM search_pending)");
    worker.stop();
    mem(&sandbox, &["forget", "--text", "xyzzyplugh", "--yes"]);
    assert_eq!(holds(sandbox.data(), "xyzzyplugh"), Vec::<PathBuf>::new());
    let found = mem(&sandbox, &["search", "colour of the door", "--json"]);
    assert!(found.contains("colour"), "{found}");
}

#[test]
fn forgetting_a_text_removes_its_bytes_from_the_file() {
    let sandbox = remembered();
    // The words are in the prompt, in its memories, and in the index.
    let word = "xyzzyplugh";
    assert!(!holds(sandbox.data(), word).is_empty());
    let shown = mem(&sandbox, &["forget", "--text", "XyzzyPlugh", "--dry-run"]);
    assert!(shown.contains("nothing was changed") && shown.contains("prompt"), "{shown}");
    assert!(!holds(sandbox.data(), word).is_empty());
    let output = mem(&sandbox, &["forget", "--text", "XyzzyPlugh", "--yes"]);
    assert!(output.contains("prompt"), "{output}");
    assert_eq!(holds(sandbox.data(), word), Vec::<PathBuf>::new());
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 2, "the session itself stays");
    let again = try_mem(&sandbox, &["forget", "--text", word, "--yes"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert_eq!(sandbox.get::<String>("PRAGMA integrity_check"), "ok");
    let found = mem(&sandbox, &["search", "farewell", "--json"]);
    assert!(found.contains("farewell"), "the rest is found as before: {found}");
}

#[test]
fn forgetting_a_summary_updates_the_digest_of_its_session() {
    let sandbox = remembered();
    let mut worker = Worker::start(&sandbox);
    turn(&sandbox, "two", "Translate the farewell into Dutch");
    sandbox.wait_until_settled();
    worker.stop();
    let digest = "SELECT title FROM sessions WHERE id = 'two'";
    assert_eq!(sandbox.get::<String>(digest), "Write the farewell of the client");
    let first: i64 = sandbox.get("SELECT min(id) FROM session_summaries WHERE session_id = 'two'");
    mem(&sandbox, &["forget", &format!("S{first}"), "--yes"]);
    assert_eq!(sandbox.get::<String>(digest), "Translate the farewell into Dutch");
}

#[test]
fn forgetting_works_under_a_worker_and_in_later_backups() {
    let sandbox = remembered();
    let _worker = Worker::start(&sandbox);
    let id: i64 = sandbox.get("SELECT id FROM observations WHERE session_id = 'one'");
    let sources: i64 = sandbox.get("SELECT count(*) FROM observation_sources");
    mem(&sandbox, &["forget", &id.to_string(), "--yes"]);
    assert!(sandbox.get::<i64>("SELECT count(*) FROM observation_sources") < sources);
    let prompt: i64 = sandbox.get("SELECT id FROM user_prompts WHERE session_id = 'one'");
    mem(&sandbox, &["forget", &format!("P{prompt}"), "--yes"]);
    mem(&sandbox, &["forget", "--session", "one", "--yes"]);
    let made = json_of(&sandbox, &["backup", "--json"]);
    let bytes = fs::read(made["path"].as_str().unwrap()).unwrap().to_ascii_lowercase();
    assert!(memchr::memmem::find(&bytes, b"xyzzyplugh").is_none());
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 1);
    let left: i64 = sandbox.get("SELECT count(*) FROM pending_queue WHERE session_id = 'one'");
    assert_eq!(left, 0);
}

#[test]
fn forgetting_a_project_keeps_the_cost_figures_and_a_backup() {
    let sandbox = remembered();
    let project: String = sandbox.get("SELECT project FROM sessions LIMIT 1");
    let sql = "INSERT INTO event_log (event_type, session_id, cost_usd, created_at) VALUES ('llm_call', 'one', 0.5, 1)";
    sandbox.database().execute(sql, []).unwrap();
    let counted = json_of(&sandbox, &["forget", "--project", &project, "--dry-run", "--json"]);
    assert_eq!(counted["rows"]["sessions"], 2, "{counted:#}");
    mem(&sandbox, &["forget", "--all", "--yes"]);
    for table in [
        "sessions",
        "user_prompts",
        "pending_queue",
        "observations",
        "session_summaries",
        "search_index_docsize",
    ] {
        assert_eq!(sandbox.get::<i64>(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_eq!(sandbox.get::<f64>("SELECT sum(cost_usd) FROM event_log"), 0.5);
    // A mistake can be undone until the backups are forgotten too.
    mem(&sandbox, &["restore", "--yes"]);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM sessions"), 2);
    mem(&sandbox, &["forget", "--all", "--backups", "--yes"]);
    assert_eq!(fs::read_dir(sandbox.data().join("backups")).unwrap().count(), 0);
    assert_eq!(holds(sandbox.data(), "xyzzyplugh"), Vec::<PathBuf>::new());
}

#[test]
fn export_and_import_round_trip_and_are_idempotent() {
    let sandbox = remembered();
    // Every kind of content: any text, references, an observation without its expired event.
    let database = sandbox.database();
    database
        .execute_batch(
            "INSERT INTO learnings (uid, category, content, created_at, updated_at, source_observation_id)
             SELECT 'l1', 'gotcha', 'quotes \" and ' || char(10) || ' lines ' || char(0) || ' 漢字 😀', 1, 2, min(id)
             FROM observations;
             INSERT INTO learnings (uid, category, content, confidence, created_at, updated_at)
             VALUES ('l2', 'command', '', 0.25, 1, 2);
             INSERT INTO event_log (event_type, duration_ms, created_at) VALUES ('context', 1.3612279999999999, 7);
             UPDATE learnings SET superseded_by = (SELECT id FROM learnings WHERE uid = 'l2') WHERE uid = 'l1';
             INSERT INTO function_map (session_id, file_path, qualified_name, change_type, snapshot_at)
             VALUES ('one', 'a.rs', 'a::b', 'new', 5);
             DELETE FROM pending_queue WHERE id = (SELECT min(queue_id) FROM observation_sources);",
        )
        .unwrap();
    let file = sandbox.path().join("memory.jsonl");
    mem(&sandbox, &["export", file.to_str().unwrap()]);
    let piped = mem(&sandbox, &["export"]);
    assert_eq!(piped.lines().count(), fs::read_to_string(&file).unwrap().lines().count());
    let other = Sandbox::new();
    let output = json_of(&other, &["import", file.to_str().unwrap(), "--json"]);
    assert_eq!(output["refused"], json!([]), "{output:#}");
    assert_eq!(everything(other.data()), everything(sandbox.data()));
    let again = json_of(&other, &["import", file.to_str().unwrap(), "--json"]);
    assert_eq!(again["new"], json!({}), "{again:#}");
    assert_eq!(everything(other.data()), everything(sandbox.data()));
    assert_eq!(other.get::<String>("PRAGMA integrity_check"), "ok");
    assert!(mem(&other, &["search", "greeting", "--json"]).contains("greeting"));
    // Through a pipe, too.
    let third = Sandbox::new();
    let mut command = third.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(["import", "-"]);
    assert_eq!(run(command, piped.as_bytes()).code, Some(0));
    assert_eq!(everything(third.data()), everything(sandbox.data()));
}

#[test]
fn two_databases_merge_despite_colliding_row_ids() {
    let (one, other) = (remembered(), Sandbox::new());
    let mut worker = Worker::start(&other);
    turn(&other, "three", "Elsewhere");
    other.wait_until_settled();
    worker.stop();
    let file = one.path().join("memory.jsonl");
    mem(&one, &["export", file.to_str().unwrap()]);
    mem(&other, &["import", file.to_str().unwrap()]);
    assert_eq!(other.get::<i64>("SELECT count(*) FROM sessions"), 3);
    assert_eq!(other.get::<i64>("SELECT count(*) FROM observations"), 3);
    let strange: i64 = other.get(
        "SELECT count(*) FROM observation_sources s JOIN observations o ON o.id = s.observation_id
         JOIN pending_queue q ON q.id = s.queue_id WHERE o.session_id <> q.session_id",
    );
    assert_eq!(strange, 0, "sources belong to their observations");
    // A database of our own is imported like an export.
    let third = Sandbox::new();
    mem(&third, &["import", one.data().join("claude-mem.db").to_str().unwrap()]);
    assert_eq!(everything(third.data()), everything(one.data()));
}

#[test]
fn an_import_without_a_worker_leaves_its_rows_in_the_database_and_not_in_the_wal() {
    let one = remembered();
    let file = one.path().join("export.jsonl");
    mem(&one, &["export", file.to_str().unwrap()]);
    let other = Sandbox::new();
    mem(&other, &["import", file.to_str().unwrap()]);
    let wal = other.data().join("claude-mem.db-wal");
    assert_eq!(fs::metadata(wal).map_or(0, |wal| wal.len()), 0);
}

#[test]
fn an_import_reports_bad_lines_and_takes_the_rest() {
    let sandbox = remembered();
    let export = mem(&sandbox, &["export"]);
    let mut lines: Vec<&str> = export.lines().collect();
    lines.insert(2, "{\"table\": \"nonsense\", \"row\": {}}");
    lines.insert(3, "{");
    let file = sandbox.path().join("broken.jsonl");
    fs::write(&file, lines.join("\n")).unwrap();
    let other = Sandbox::new();
    let ran = try_mem(&other, &["import", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("line 3") && ran.stderr.contains("line 4"), "{}", ran.stderr);
    assert_eq!(everything(other.data()), everything(sandbox.data()));
    fs::write(&file, export.lines().take(5).collect::<Vec<_>>().join("\n")).unwrap();
    let ran = try_mem(&other, &["import", file.to_str().unwrap()]);
    let expected = format!("the file ends early: it has 4 of {} rows", export.lines().count() - 1);
    assert!(ran.code == Some(1) && ran.stderr.contains(&expected), "{ran:?}");
    fs::write(&file, "something else\n").unwrap();
    let ran = try_mem(&other, &["import", file.to_str().unwrap()]);
    assert!(ran.stderr.contains("not a claude-mem export"), "{}", ran.stderr);
}

/// A database of the TypeScript program; the names of two columns depend on its version.
fn predecessor(path: &Path, (client, memory): (&str, &str)) {
    let database = Connection::open(path).unwrap();
    database
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL, applied_at TEXT NOT NULL);
             CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, {client} TEXT NOT NULL, {memory} TEXT UNIQUE,
               project TEXT NOT NULL, user_prompt TEXT, started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL,
               completed_at TEXT, completed_at_epoch INTEGER, status TEXT NOT NULL DEFAULT 'active');
             CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT, {memory} TEXT NOT NULL, project TEXT NOT NULL,
               text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT,
               files_read TEXT, files_modified TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
               created_at_epoch INTEGER NOT NULL);
             CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT, {memory} TEXT NOT NULL,
               project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT,
               files_read TEXT, files_edited TEXT, notes TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
               created_at_epoch INTEGER NOT NULL);
             CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT, {client} TEXT NOT NULL,
               prompt_number INTEGER NOT NULL, prompt_text TEXT NOT NULL, created_at TEXT NOT NULL,
               created_at_epoch INTEGER NOT NULL);
             INSERT INTO sdk_sessions ({client}, {memory}, project, started_at, started_at_epoch, status)
             VALUES ('c1', 'm1', 'harborline', '2026-04-01T10:00:00Z', 1775037600000, 'completed');
             INSERT INTO observations ({memory}, project, type, title, subtitle, facts, narrative, concepts, files_read,
               files_modified, prompt_number, created_at, created_at_epoch)
             VALUES ('m1', 'harborline', 'bugfix', 'Uploads survive an expired URL', 'A retry asks for a new one',
               '[\"three tries\"]', 'The key AKIAIOSFODNN7EXAMPLE was in it', '[\"retry\", \"bugfix\"]', NULL,
               '[\"src/upload.rs\"]', 2, '2026-04-01T10:05:00Z', 1775037900000),
               ('lost', 'harborline', 'strange', NULL, NULL, 'not json', NULL, NULL, NULL, NULL, NULL,
               '2026-04-02T10:05:00Z', 1775124300000);
             INSERT INTO session_summaries ({memory}, project, request, completed, next_steps, created_at, created_at_epoch)
             VALUES ('m1', 'harborline', 'Repair uploads', 'They work', 'metrics', '2026-04-01T11:00:00Z', 1775041200000);
             INSERT INTO user_prompts ({client}, prompt_number, prompt_text, created_at, created_at_epoch)
             VALUES ('c1', 1, 'Uploads fail at night', '2026-04-01T10:00:00Z', 1775037600000);"
        ))
        .unwrap();
}

fn state_of(directory: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut files: Vec<_> = names
        .filter(|name| name.starts_with(prefix))
        .map(|name| (name.clone(), fs::read(directory.join(&name)).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn importing_the_typescript_database_leaves_it_unchanged() {
    let names = [("claude_session_id", "sdk_session_id"), ("content_session_id", "memory_session_id")];
    for columns in names {
        let sandbox = Sandbox::new();
        let theirs = sandbox.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        predecessor(&theirs.join("their.db"), columns);
        let before = state_of(&theirs, "");
        let output = json_of(&sandbox, &["import", theirs.join("their.db").to_str().unwrap(), "--json"]);
        assert_eq!(
            output["new"],
            json!({"observations": 2, "session_summaries": 1, "sessions": 1, "user_prompts": 1})
        );
        assert_eq!(state_of(&theirs, ""), before);
        let sql = "SELECT session_id || '|' || project || '|' || type || '|' || title || '|' || summary || '|' || facts
                   || '|' || concepts || '|' || files_modified || '|' || prompt_number || '|' || created_at
                   FROM observations WHERE title IS NOT NULL";
        assert_eq!(
            sandbox.get::<String>(sql),
            "c1|harborline|bugfix|Uploads survive an expired URL|A retry asks for a new one|[\"three tries\"]|[\"retry\"]\
             |[\"src/upload.rs\"]|2|1775037900000"
        );
        let detail: String = sandbox.get("SELECT detail FROM observations WHERE title IS NOT NULL");
        assert!(!detail.contains("AKIA"), "secrets are taken out: {detail}");
        let type_: String = sandbox.get("SELECT type FROM observations WHERE title IS NULL");
        assert_eq!(type_, "change");
        assert!(sandbox.get::<i64>("SELECT prompt_count FROM sessions WHERE id = 'c1'") > 0);
        let again = json_of(&sandbox, &["import", theirs.join("their.db").to_str().unwrap(), "--json"]);
        assert_eq!(again["new"], json!({}), "{again:#}");
        assert!(mem(&sandbox, &["search", "expired url", "--json"]).contains("Uploads survive"));
        // The next session in a project of that name gets them as context.
        let project = sandbox.path().join("harborline");
        fs::create_dir(&project).unwrap();
        let payload = json!({"session_id": "n", "cwd": project, "prompt": "Go on"});
        sandbox.hook("new", payload.to_string()).assert_unnoticed();
        mem(&sandbox, &["import", theirs.join("their.db").to_str().unwrap()]);
        let start = json!({"session_id": "m", "cwd": project, "source": "startup"});
        let context = sandbox.hook("context", start.to_string()).stdout;
        assert!(context.contains("Repair uploads"), "{context}");
    }
}

#[test]
fn importing_column_names_that_are_not_text_does_not_panic() {
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("their.db");
    predecessor(&file, ("claude_session_id", "sdk_session_id"));
    let database = Connection::open(&file).unwrap();
    database
        .execute_batch(
            "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = CAST(replace(CAST(sql AS BLOB), CAST('project' AS BLOB), x'70e86f6a656374') AS TEXT)
             WHERE name = 'sdk_sessions'",
        )
        .unwrap();
    drop(database);
    let ran = try_mem(&sandbox, &["import", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("are not UTF-8") && !ran.stderr.contains("panicked"), "{ran:?}");
}

#[test]
fn another_programs_database_keeps_its_place_and_we_use_ours() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.data()).unwrap();
    fs::create_dir_all(sandbox.path().join("claude")).unwrap();
    predecessor(&sandbox.data().join("claude-mem.db"), ("content_session_id", "memory_session_id"));
    let theirs = || {
        let mut files = state_of(sandbox.data(), "claude-mem.db");
        // Reading it leaves an empty WAL.
        files.retain(|(name, bytes)| !name.ends_with("-shm") && !bytes.is_empty());
        files
    };
    let before = theirs();
    // Nothing is installed yet: the hook's event waits.
    sandbox.prompt("s", "Before it is installed");
    assert_eq!(sandbox.spooled().len(), 1);
    let output = mem(&sandbox, &["install", "--no-service"]);
    assert!(output.contains("claude-mem-rs.db") && output.contains("claude-mem import"), "{output}");
    sandbox.prompt("s", "Afterwards");
    let ours = Connection::open(sandbox.data().join("claude-mem-rs.db")).unwrap();
    let prompts =
        || -> i64 { ours.query_row("SELECT count(*) FROM user_prompts", [], |row| row.get(0)).unwrap() };
    assert_eq!(prompts(), 1);
    let mut worker = Worker::start(&sandbox);
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    worker.stop();
    assert_eq!(prompts(), 2);
    let imported = json_of(&sandbox, &["import", "--json"]);
    assert_eq!(imported["new"]["observations"], 2, "{imported:#}");
    let (was, is) = (before, theirs());
    assert_eq!(is, was, "not a byte");
    mem(&sandbox, &["uninstall", "--purge", "--yes"]);
    assert_eq!(theirs(), was);
    assert!(!sandbox.data().join("claude-mem-rs.db").exists());
}

#[test]
fn stats_add_up_by_day_and_model_with_the_ceiling() {
    let sandbox = remembered();
    let insert = |model: &str, tokens: i64, cost: f64| {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
        let sql = "INSERT INTO event_log (event_type, data, tokens_in, tokens_out, cost_usd, created_at)
                   VALUES ('llm_call', json_object('provider', 'anthropic', 'model', ?1), ?2, 10, ?3, ?4)";
        sandbox.database().execute(sql, rusqlite::params![model, tokens, cost, now]).unwrap();
    };
    insert("claude-haiku-4-5", 1000, 0.01);
    insert("claude-haiku-4-5", 500, 0.005);
    insert("other", 20_000, 0.25);
    let stats = json_of(&sandbox, &["stats", "--json"]);
    assert_eq!(stats["total"]["tokens_in"], 21_500, "{stats:#}");
    assert_eq!(stats["models"][0]["model"], "claude-haiku-4-5");
    assert_eq!(stats["models"][0]["calls"], 2);
    assert_eq!(stats["days"].as_array().unwrap().len(), 1);
    assert!(stats["total"]["compression_ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(stats["max_usd_per_day"], 1.0);
    assert!((stats["cost_usd_today"].as_f64().unwrap() - 0.265).abs() < 1e-9);
    let shown = mem(&sandbox, &["stats"]);
    assert!(shown.contains("█") && shown.contains("$0.2650 of $1.00"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let status = json_of_failing(&sandbox, &["status", "--json"]);
    assert_eq!(status["max_usd_per_day"], 1.0);
    let worker = Worker::start(&sandbox);
    let health = worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert!((health["cost_usd_today"].as_f64().unwrap() - 0.265).abs() < 1e-9, "{health:#}");
}

fn json_of_failing(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let ran = try_mem(sandbox, arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn rejected_spool_files_can_be_forgotten_and_expire() {
    let sandbox = remembered();
    let rejected = sandbox.data().join("spool/rejected");
    fs::create_dir_all(&rejected).unwrap();
    let write = |name: &str, text: &str| fs::write(rejected.join(name), text).unwrap();
    write("1.json", "{\"broken\": \"the Zyzzyva plan\"");
    write("2.json", "{\"session\": {\"id\": \"doomed-session\"");
    write("3.json", "something else");
    write("4.json", "too old");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(31 * 24 * 3600);
    fs::File::options().write(true).open(rejected.join("4.json")).unwrap().set_modified(old).unwrap();
    let left = || {
        let mut names: Vec<_> = fs::read_dir(&rejected)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    mem(&sandbox, &["forget", "--text", "zyzzyva PLAN", "--yes"]);
    assert_eq!(left(), ["2.json", "3.json", "4.json"]);
    mem(&sandbox, &["forget", "--session", "doomed-session", "--yes"]);
    assert_eq!(left(), ["3.json", "4.json"]);
    let _worker = Worker::start(&sandbox);
    sandbox.wait_until("only one file is left", || left() == ["3.json"]);
}
