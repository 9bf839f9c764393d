//! The pages in a real browser: no console error or policy violation, no serious finding of axe-core, nothing wider than the
//! window, at three widths and in both colour schemes; writes with their undo, by keys and without scripts.

use std::path::Path;
use std::process::Command;

use super::with_note;

/// Folder with `node_modules` that has playwright-core and axe-core; `.ci/run` makes it.
const PACKAGES: &str = "target/browser";
const CHROMIUM: &str = "/usr/bin/chromium";

#[test]
fn every_page_works_in_a_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = root.join(PACKAGES).join("node_modules");
    if !Path::new(CHROMIUM).exists()
        || !packages.join("playwright-core").exists()
        || !packages.join("axe-core").exists()
    {
        let reason = "needs chromium, and playwright-core and axe-core in target/browser (see .ci/run)";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must not skip this: {reason}");
        eprintln!("skipped: {reason}");
        return;
    }
    let (sandbox, worker, bridge) = with_note();
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(1)> \u{202e}txt \u{1b}[31m";
    let memory = serde_json::json!({"text": hostile, "title": hostile, "project_path": sandbox.path()});
    assert_eq!(worker.post("/api/memories", &memory).status, 200);
    let ran = Command::new("node")
        .arg(root.join("tests/it/client/viewer/browser.mjs"))
        .args([bridge.address(), CHROMIUM])
        .current_dir(root.join(PACKAGES))
        .env("HOME", sandbox.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{printed}{}", String::from_utf8_lossy(&ran.stderr));
}
