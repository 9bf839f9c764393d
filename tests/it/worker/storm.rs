//! Repeated kills while hooks write: every accepted event is settled once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::harness::rng::Dice;
use crate::harness::sandbox::Sandbox;
use crate::harness::worker::{Worker, edit_payload};

const WRITERS: usize = 8;

/// Number of kills. The full storm has 100; fewer are enough to notice a regression.
fn kills() -> usize {
    std::env::var("CLAUDE_MEM_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Writes turns until stopped, each with a prompt, some edits and an end.
fn write(sandbox: &Sandbox, writer: usize, stop: &AtomicBool, sent: &AtomicUsize) {
    let session = format!("session-{}", writer / 2);
    let mut dice = Dice::new(writer as u64);
    for turn in 0.. {
        let prompt = json!({"session_id": session, "cwd": sandbox.path(), "prompt": "Go on",
                            "prompt_id": format!("p-{writer}-{turn}")});
        let edits = (0..dice.below(4)).map(|number| {
            let id = format!("e-{writer}-{turn}-{number}");
            ("save", edit_payload(&session, &id, sandbox.path(), 2_000))
        });
        let end = json!({"session_id": session, "cwd": sandbox.path(), "hook_event_name": "Stop",
                         "prompt_id": format!("p-{writer}-{turn}"), "last_assistant_message": "Done."});
        let events =
            [("new", prompt.to_string())].into_iter().chain(edits).chain([("summary", end.to_string())]);
        for (verb, payload) in events {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            sandbox.hook(verb, payload).assert_unnoticed();
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_storm_of_kills_loses_nothing_and_repeats_nothing() {
    let sandbox = Sandbox::new();
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut dice, mut caught) = (Dice::new(42), 0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (sandbox, stop, sent) = (&sandbox, &stop, &sent);
            scope.spawn(move || write(sandbox, writer, stop, sent));
        }
        for _ in 0..kills() {
            let mut worker = Worker::spawn(sandbox.worker_command(), &sandbox);
            // Sometimes before it serves, sometimes during a job.
            if dice.below(4) > 0 {
                worker.wait_until_it_answers();
            }
            std::thread::sleep(Duration::from_millis(dice.below(150)));
            worker.kill();
            if sandbox.data().join("claude-mem.db").exists() {
                let sql = "SELECT count(*) > 0 FROM pending_queue WHERE status = 'processing'";
                caught +=
                    usize::from(sandbox.database().query_row(sql, [], |row| row.get(0)).unwrap_or(false));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let _last = Worker::start(&sandbox);
    for session in 0..WRITERS.div_ceil(2) {
        sandbox.end_turn(&format!("session-{session}"));
    }
    wait_until_the_spool_is_empty(&sandbox);
    sandbox.wait_until_settled();
    let sent = sent.load(Ordering::Relaxed) as i64 + WRITERS.div_ceil(2) as i64;
    eprintln!("{sent} events, {} kills, {caught} of them with work under way", kills());
    assert_eq!(sandbox.dropped(), 0);
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), sent, "accepted");
    assert_eq!(sandbox.rows("done") + sandbox.rows("skipped"), sent, "settled");
    assert_exactly_once(&sandbox);
}

fn assert_exactly_once(sandbox: &Sandbox) {
    let nothing = [
        (
            "an event is in two observations",
            "SELECT queue_id FROM observation_sources GROUP BY 1 HAVING count(*) > 1",
        ),
        (
            "an event is done and in no observation",
            "SELECT id FROM pending_queue WHERE kind = 'observation' AND status = 'done'
             AND id NOT IN (SELECT queue_id FROM observation_sources)",
        ),
        (
            "an event is in an observation and not done",
            "SELECT queue_id FROM observation_sources WHERE queue_id NOT IN
             (SELECT id FROM pending_queue WHERE status = 'done')",
        ),
        (
            "a turn is summarised twice",
            "SELECT session_id FROM session_summaries GROUP BY 1
             HAVING count(*) > (SELECT count(*) FROM pending_queue q
                                WHERE q.session_id = session_summaries.session_id AND kind <> 'observation')",
        ),
        (
            "prompt numbers are not dense",
            "SELECT s.id FROM sessions s WHERE prompt_count <>
             (SELECT count(DISTINCT prompt_number) FROM user_prompts p WHERE p.session_id = s.id)
             OR prompt_count <> (SELECT max(prompt_number) FROM user_prompts p WHERE p.session_id = s.id)",
        ),
        ("an attempt was counted", "SELECT id FROM pending_queue WHERE attempts > 0"),
    ];
    for (what, sql) in nothing {
        let found = sandbox.get::<i64>(&format!("SELECT count(*) FROM ({sql})"));
        assert_eq!(found, 0, "{what}");
    }
    assert_eq!(sandbox.get::<String>("PRAGMA integrity_check"), "ok");
}

/// Waits for the spool to drain: on a slow machine the lock may be held longer than hooks wait.
fn wait_until_the_spool_is_empty(sandbox: &Sandbox) {
    sandbox.wait_until("the spool is empty", || sandbox.spooled().is_empty());
}
