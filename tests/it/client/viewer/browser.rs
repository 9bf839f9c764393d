//! The pages in a real browser: no console error or policy violation, no serious finding of axe-core, nothing wider than the
//! window, at three widths and in both colour schemes; writes with their undo, by keyboard and without scripts; hostile
//! memories on every page; a flood of events.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{flood, with_note};
use crate::harness::sandbox::Sandbox;
use crate::harness::worker::Worker;

use crate::harness::wait::skip;

/// Folder with `node_modules` that has playwright-core and axe-core; `.ci/run` makes it.
const PACKAGES: &str = "target/browser";
const CHROMIUM: &str = "/usr/bin/chromium";
const HOSTILE: &str =
    "<script>alert(1)</script><img src=x onerror=alert(1)><b class=evil> \u{202e}txt \u{1b}[31m \u{2066}";

#[test]
fn every_page_works_in_a_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = root.join(PACKAGES).join("node_modules");
    if !Path::new(CHROMIUM).exists()
        || !packages.join("playwright-core").exists()
        || !packages.join("axe-core").exists()
    {
        skip("needs chromium, and playwright-core and axe-core in target/browser (see .ci/run)");
        return;
    }
    let (sandbox, worker, bridge) = with_note();
    plant(&sandbox, &worker);
    let mut browser = Command::new("node")
        .arg(root.join("tests/it/client/viewer/browser.mjs"))
        .args([bridge.address(), CHROMIUM])
        .current_dir(root.join(PACKAGES))
        .env("HOME", sandbox.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(browser.stdout.take().unwrap());
    let (mut line, mut printed) = (String::new(), String::new());
    while output.read_line(&mut line).unwrap() > 0 {
        if line.trim() == "watching" {
            flood(&sandbox, 3_000, "FloodLast");
            break;
        }
        printed += &line;
        line.clear();
    }
    output.read_to_string(&mut printed).unwrap();
    assert!(browser.wait().unwrap().success(), "{printed}");
}

/// Hostile memories of every kind, two notes that say the same, a learning, a veto and a failed event.
fn plant(sandbox: &Sandbox, worker: &Worker) {
    let save = |memory: serde_json::Value| {
        let answer = worker.post("/api/memories", &memory);
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let place = sandbox.path();
    save(json!({"text": HOSTILE, "title": HOSTILE, "project_path": place}));
    for end in ["on the build machine", "on that build machine"] {
        let text = format!("The release script needs the signing key {end}");
        save(json!({"text": text, "title": text, "project_path": place}));
    }
    save(
        json!({"text": "Deploys are on Tuesdays, after the freeze ends", "learning": "convention", "project_path": place}),
    );
    save(
        json!({"text": format!("Never say {HOSTILE} in a greeting"), "learning": "gotcha", "project_path": place}),
    );
    // Its words are not those of a note: a veto hides the notes that restate it.
    let veto = "<script>document.title = 1</script><b class=evil>Buttons are blue, never green";
    let veto = json!({"statement": veto, "project": ""});
    assert_eq!(worker.post("/api/vetoes", &veto).status, 200);
    // A prompt with a line of a megabyte, and an edit in its turn.
    sandbox.prompt("hostile", &format!("{HOSTILE} {}", "long".repeat(250_000)));
    sandbox.edit("hostile", "edit-hostile");
    sandbox.end_turn("hostile");
    for _ in 0..4 {
        sandbox.hook("save", "no json at all").assert_unnoticed();
    }
    sandbox.wait_until_settled();
    let database = sandbox.database();
    let sql = "UPDATE sessions SET title = ?1, outcome = ?1, branch = ?1 WHERE id = 'hostile'";
    database.execute(sql, [HOSTILE]).unwrap();
    let sql =
        "UPDATE observations SET title = ?1, summary = ?2, detail = ?2, facts = json_array(?2) WHERE id = 2";
    database.execute(sql, [HOSTILE, &format!("{HOSTILE} {}", "long".repeat(250_000))]).unwrap();
    let sql = "UPDATE pending_queue SET last_error = ?1 WHERE status = 'error'";
    database.execute(sql, [format!("{HOSTILE} {}", "long".repeat(250_000))]).unwrap();
}
