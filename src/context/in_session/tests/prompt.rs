//! With a prompt.

use super::*;
use crate::context::tests::HOUR;

#[test]
fn a_prompt_brings_what_it_touches_and_nothing_else() {
    let history = crowded();
    let snippet =
        snippet_for(&history, "now", &prompt("why do we retry uploads when the storage answers 503?"));
    assert!(snippet.text.contains("because repeating a bad request never helps"), "{}", snippet.text);
    assert!(
        snippet.shown.len() <= crate::context::in_session::prompt::MOST
            && snippet.lines[0].why.starts_with("fits by"),
        "{:?}",
        snippet.lines
    );
    for nothing in [
        "thanks, go on",
        "ok",
        "commit",
        "/compact",
        "/retry uploads storage",
        "<task-notification>retry uploads 503 storage</task-notification>",
        "",
        "paint the bicycle shed green",
    ] {
        assert_eq!(snippet_for(&history, "now", &prompt(nothing)).text, "", "{nothing}");
    }
    // What the session did itself it knows.
    assert_eq!(
        snippet_for(&history, "b", &prompt("why do we retry uploads when the storage answers 503?")).text,
        ""
    );
}

/// The best fit of a prompt.
fn best_fit(history: &History, text: &str) -> f64 {
    let config = Config::default();
    let request = RecallQuery {
        project: "harbor",
        project_path: PATH,
        session: &SessionId("now".into()),
        settings: &config.search,
        now: NOW,
        budget: 300,
        code: CodeCheck::default(),
    };
    fitted(&history.database, &request, text).unwrap().first().map_or(0.0, |fitted| fitted.fit)
}

#[test]
fn later_prompts_need_a_better_fit() {
    let history = crowded();
    // Each word that the memory has not makes it fit a little less.
    let asked = (0..30).map(|count| format!("retry uploads storage {}", "invoices matter ".repeat(count)));
    let asked =
        asked.chain(["retry uploads", "uploads storage", "storage evening", "retry storage"].map(Into::into));
    let between = asked.into_iter().find(|text| (FIRST_FLOOR..FLOOR).contains(&best_fit(&history, text)));
    let question = prompt(&between.expect("a prompt that fits only a first one"));
    history.session("now", PATH, "main", NOW);
    assert!(!snippet_for(&history, "now", &question).text.is_empty());
    history.observe("now", Seen { kind: "change", title: "Paint the shed", summary: "Green.", files: &[] });
    assert_eq!(snippet_for(&history, "now", &question).text, "");
}

#[test]
fn named_files_bring_their_notes_forward() {
    let history = rich();
    history.observe(
        "a",
        Seen {
            kind: "bugfix",
            title: "Probes wait for the database",
            summary: "The pods were restarted before the database answered.",
            files: &["deploy/harbor.yaml"],
        },
    );
    let fit = |path: &str| best_fit(&history, &format!("why do the probes restart in {path}:14?"));
    assert!(fit("deploy/harbor.yaml") > fit("harbor.yaml") + 0.05);
}

#[test]
fn a_prompt_gets_the_part_of_a_note_that_is_about_it() {
    let history = crowded();
    history.observe(
        "a",
        Seen {
            kind: "feature",
            title: "Thumbnails and quotas",
            summary: "The gallery is sorted by day, because people look for the last trip. Quotas are counted per \
                  tenant, so that one archive cannot fill the volume. Thumbnails are made by the worker, since the \
                  browser has no memory for pictures of that size.",
            files: &["src/gallery.rs"],
        },
    );
    let snippet =
        snippet_for(&history, "now", &prompt("count the quotas of a tenant for each archive volume"));
    assert!(snippet.text.contains("cannot fill the volume"), "{}", snippet.text);
    assert!(!snippet.text.contains("last trip"), "{}", snippet.text);
}

#[test]
fn folders_of_the_user_and_refusals_of_a_hook_ask_nothing() {
    let history = rich();
    for nothing in [
        "check /home/retry/uploads/storage/503 for me, or /tmp/retry/uploads/storage",
        "Operation stopped by hook: why do we retry uploads when the storage answers 503?",
    ] {
        assert_eq!(snippet_for(&history, "now", &prompt(nothing)).text, "", "{nothing}");
    }
}

#[test]
fn a_plan_is_asked_by_its_heading_and_by_the_files_it_names() {
    let history = crowded();
    let steps = "Something about colours and fonts that nobody has ever done here. ".repeat(20);
    let plan = format!(
        "Implement the following plan:\n\n# Retry uploads on 503 for longer\n\nThe storage sheds load.\n\n{steps}"
    );
    assert!(snippet_for(&history, "now", &prompt(&plan)).text.contains("Retry uploads on 429"));
}

#[test]
fn of_equal_memories_that_of_the_branch_fits_better() {
    let history = rich();
    let shrink = |session: &str, branch: &str, summary: &str| {
        history.session(session, PATH, branch, NOW - 3 * HOUR);
        history.observe(session, Seen { kind: "change", title: "Shrink thumbnails", summary, files: &[] })
    };
    let elsewhere = shrink("x", "fix/other", "The gallery loads twelve of them at once on a phone.");
    let here = shrink("y", "fix/thumbnails", "Invoices had pictures of half a megabyte in every row.");
    history.session("now", PATH, "fix/thumbnails", NOW);
    let session = SessionId("now".into());
    let settings = Config::default().search;
    let request = RecallQuery {
        project: "harbor",
        project_path: PATH,
        session: &session,
        settings: &settings,
        now: NOW,
        budget: 400,
        code: CodeCheck::default(),
    };
    let fitted = fitted(&history.database, &request, "shrink the thumbnails further").unwrap();
    let fit = |id: i64| fitted.iter().find(|fitted| fitted.memory.id == id).unwrap().fit;
    assert!(fit(here) > fit(elsewhere), "{} {}", fit(here), fit(elsewhere));
}
