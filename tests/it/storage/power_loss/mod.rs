//! A power cut loses unsynced writes. Afterwards the database is intact, no event is stored in part, and nothing that was
//! synced is missing.
//!
//! The real programs run with a preloaded library that records their file operations; then possible disk states after a cut
//! at any step are built and opened, with a seeded random generator.

mod disk;
mod recording;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::json;

use crate::harness::sandbox::{Sandbox, tool_payload};
use crate::harness::worker::{Worker, edit_payload};
use disk::{Chance, Disk, Step};
use recording::Recording;

/// Number of cuts per recording.
const CUTS: usize = 150;
/// Number of those cuts after which a real worker continues.
const WORKERS: usize = 5;

/// Prompts are p0, p1, …; tools are t0, t1, …
type Events = BTreeSet<String>;

/// The events on a disk after a cut: in the database, and in the spool.
struct Found {
    sandbox: Sandbox,
    stored: Vec<String>,
    spooled: Events,
}

impl Found {
    fn all(&self) -> Events {
        self.stored.iter().cloned().chain(self.spooled.clone()).collect()
    }
}

/// Cuts the power and reads the remaining files.
fn cut(disk: &Disk, data: &Path, chance: &mut Chance) -> Found {
    let sandbox = Sandbox::new();
    let files = disk.files_after_power_loss(data, chance);
    fs::create_dir(sandbox.data()).unwrap();
    for (path, bytes) in files {
        let place = sandbox.data().join(path.strip_prefix(data).unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bytes).unwrap();
    }
    let spooled = sandbox.spooled().iter().filter_map(|file| in_spool_file(file)).collect();
    let stored = stored(&sandbox);
    Found { sandbox, stored, spooled }
}

/// The name of the event in a spool file; the end of a turn has none.
fn in_spool_file(file: &Path) -> Option<String> {
    let bytes = fs::read(file).unwrap();
    let event: serde_json::Value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{}: {error}: half a spool file", file.display()));
    let prompt = event["body"]["Prompt"]["text"].as_str();
    prompt.or(event["body"]["Tool"]["tool_use_id"].as_str()).map(str::to_owned)
}

/// The events in the database, in order of arrival. Checks that the database and each event are intact.
fn stored(sandbox: &Sandbox) -> Vec<String> {
    let path = sandbox.data().join("claude-mem.db");
    if fs::metadata(&path).map_or(0, |meta| meta.len()) == 0 {
        return Vec::new();
    }
    let database = Connection::open(&path).unwrap();
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    if !database.table_exists(None, "pending_queue").unwrap() {
        return Vec::new();
    }
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let (prompts, marks) = (
        count("SELECT count(*) FROM user_prompts"),
        count("SELECT count(*) FROM pending_queue WHERE kind = 'flush'"),
    );
    assert_eq!(prompts, marks, "half a prompt");
    assert_eq!(count("SELECT coalesce(sum(prompt_count), 0) FROM sessions"), prompts, "half a prompt");
    let sql = "SELECT coalesce(q.tool_use_id, p.prompt) FROM pending_queue q
               LEFT JOIN user_prompts p ON p.session_id = q.session_id AND p.prompt_number = q.prompt_number + 1
               WHERE q.kind <> 'summarize' ORDER BY q.id";
    let mut statement = database.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The marks among these steps.
fn marks(steps: &[Step]) -> Vec<String> {
    let marked = |step: &Step| match step {
        Step::Marked(mark) => Some(mark.clone()),
        _ => None,
    };
    steps.iter().filter_map(marked).collect()
}

/// The marks before the last sync of the log.
fn synced(steps: &[Step]) -> Vec<String> {
    let end = steps.iter().rposition(is_sync_of_the_log).unwrap_or_default();
    marks(&steps[..end])
}

fn is_sync_of_the_log(step: &Step) -> bool {
    matches!(step, Step::SyncBegan { path, .. } if path.to_string_lossy().ends_with("-wal"))
}

/// Cuts the power at many steps. `safe` returns the events that must exist after these steps.
fn cut_everywhere(recording: &Recording, steps: &[Step], safe: impl Fn(&[Step]) -> Vec<String>) {
    let data = recording.sandbox.data();
    let order = marks(steps);
    let mut lost_something = 0;
    // A third of them anywhere, a third around syncs, and a third around removals.
    let at = |is_such: fn(&Step) -> bool| -> Vec<usize> {
        (1..=steps.len()).filter(|at| is_such(&steps[at - 1])).collect()
    };
    let made_safe = at(|step| matches!(step, Step::SyncBegan { .. } | Step::SyncEnded | Step::Marked(_)));
    let let_go = at(|step| matches!(step, Step::Removed { .. } | Step::Renamed { .. }));
    let place = |number: usize| {
        let mut chance = Chance(!(number as u64));
        let near = |places: &[usize], chance: &mut Chance| {
            (places[chance.below(places.len())] + chance.below(4)).min(steps.len())
        };
        match number % 3 {
            0 => 1 + chance.below(steps.len()),
            1 => near(&made_safe, &mut chance),
            _ => near(&let_go, &mut chance),
        }
    };
    let mut cuts: Vec<(usize, usize)> = (0..CUTS).map(|number| (place(number), number)).collect();
    cuts.sort_unstable();
    let (mut disk, mut written) = (Disk::default(), 0);
    for (at, number) in cuts {
        steps[written..at].iter().for_each(|step| disk.take(step));
        written = at;
        let before = &steps[..at];
        let found = cut(&disk, data, &mut Chance(number as u64));
        let scenario = format!("seed {number}, cut after step {at} of {}: {:?}", steps.len(), steps[at - 1]);
        let there = found.all();
        for event in safe(before) {
            assert!(there.contains(&event), "{event} is gone; {scenario}\n{there:?}");
        }
        lost_something += usize::from(marks(before).iter().any(|event| !there.contains(event)));
        // An event is there only if all earlier ones are.
        let position = |event: &String| order.iter().position(|known| known == event);
        if found.spooled.is_empty() && !order.iter().any(|event| event.starts_with("spooled")) {
            let expected: Vec<String> = order.iter().take(found.stored.len()).cloned().collect();
            assert_eq!(found.stored, expected, "not a beginning; {scenario}");
        }
        assert!(there.iter().all(|event| position(event).is_some() || at < steps.len()), "{scenario}");
        if number % (CUTS / WORKERS) == 0 {
            go_on(&found, &scenario);
        }
    }
    eprintln!("{CUTS} cuts in {} steps; {lost_something} took an event that was not synced", steps.len());
}

/// A real worker finds no damage and processes all remaining events.
fn go_on(found: &Found, scenario: &str) {
    let sandbox = &found.sandbox;
    let _worker = Worker::start(sandbox);
    sandbox.prompt("after", "after the cut");
    sandbox.wait_for("taken in", "SELECT count(*) > 0 FROM user_prompts WHERE prompt = 'after the cut'");
    sandbox.wait_until(&format!("the spool is empty; {scenario}"), || sandbox.spooled().is_empty());
    let now: BTreeSet<String> = stored(sandbox).into_iter().collect();
    assert!(found.all().is_subset(&now), "{scenario}\n{:?}\n{now:?}", found.all());
    let recoveries: i64 = sandbox.get("SELECT count(*) FROM event_log WHERE event_type = 'recovery'");
    assert_eq!(recoveries, 0, "{scenario}\n{}", sandbox.logged());
}

fn prompt(recording: &Recording, text: &str) {
    let payload = json!({"session_id": "s", "cwd": recording.sandbox.path(), "prompt": text});
    recording.hook("new", &payload.to_string(), text);
}

fn tool(recording: &Recording, id: &str, bytes: usize) {
    let response = json!({"stdout": "a line of output\n".repeat(bytes / 17)});
    recording.hook("save", &tool_payload("s", id, recording.sandbox.path(), &response), id);
}

/// Enough events that hooks checkpoint the WAL.
fn hooks_alone(recording: &Recording) {
    for number in 0..12 {
        prompt(recording, &format!("p{number}"));
        tool(recording, &format!("t{number}"), if number % 3 == 0 { 300_000 } else { 2_000 });
    }
}

#[test]
fn hooks_leave_a_whole_database_and_what_was_synced() {
    let Some(recording) = Recording::new() else { return };
    hooks_alone(&recording);
    cut_everywhere(&recording, &recording.steps(), synced);
}

#[test]
fn synchronous_full_keeps_every_accepted_event() {
    let Some(recording) = Recording::new() else { return };
    recording.sandbox.configure("[hook]\nsynchronous = \"full\"\n");
    hooks_alone(&recording);
    cut_everywhere(&recording, &recording.steps(), marks);
}

/// While the test holds the database, hooks put their events into the spool, which is synced; the worker must have them on
/// the disk before it takes them out of there.
#[test]
fn spooled_events_are_always_in_the_spool_or_the_database() {
    let Some(recording) = Recording::new() else { return };
    let sandbox = &recording.sandbox;
    prompt(&recording, "p0");
    let holder = sandbox.database();
    // The test's own writes are not recorded: it must not write.
    holder.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    sandbox.configure("[hook]\nbusy_ms = 1\n");
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 0..6 {
        tool(&recording, &format!("spooled-{number}"), 3_000);
    }
    holder.execute_batch("ROLLBACK").unwrap();
    drop(holder);
    sandbox.configure("");
    assert_eq!(sandbox.spooled().len(), 6);
    let mut worker = Worker::spawn(recording.watched(sandbox.worker_command()), sandbox);
    worker.wait_until_it_answers();
    sandbox.wait_for("taken in", "SELECT count(*) = 7 FROM pending_queue");
    for number in 1..6 {
        prompt(&recording, &format!("p{number}"));
        recording.hook(
            "save",
            &edit_payload("s", &format!("t{number}"), sandbox.path(), 0),
            &format!("t{number}"),
        );
        recording.hook(
            "summary",
            &json!({"session_id": "s", "cwd": sandbox.path(), "prompt_id": number,
            "last_assistant_message": "Done."})
            .to_string(),
            &format!("end-{number}"),
        );
    }
    sandbox.wait_until_settled();
    worker.kill();
    let steps = recording.steps();
    let safe = |before: &[Step]| {
        let mut safe = synced(before);
        safe.extend(marks(before).into_iter().filter(|mark| mark.starts_with("spooled")));
        safe.retain(|mark| !mark.starts_with("end"));
        safe
    };
    cut_everywhere(&recording, &steps, safe);
}

/// True if a sync of the WAL began after this text was written.
fn is_written_and_synced(steps: &[Step], text: &str) -> bool {
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let written = steps.iter().position(|step| matches!(step, Step::Wrote { bytes, .. } if holds(bytes)));
    written.is_some_and(|written| steps[written..].iter().any(is_sync_of_the_log))
}

/// The worker syncs the hooks' writes on its own.
#[test]
fn a_running_worker_syncs_every_event_soon() {
    let Some(recording) = Recording::new() else { return };
    let sandbox = &recording.sandbox;
    let mut worker = Worker::spawn(recording.watched(sandbox.worker_command()), sandbox);
    worker.wait_until_it_answers();
    for number in 0..3 {
        let text = format!("a prompt like no other {number}");
        prompt(&recording, &text);
        sandbox.wait_until("it is synced", || is_written_and_synced(&recording.steps(), &text));
    }
}
