//! Functions and types that an edit made, changed or removed, from the file before and after it.
//!
//! Pure: the texts are in the event. Names and signatures are code, and may hold a secret like any other text.

use crate::model::{FunctionChange, ObservationDraft};
use crate::privacy::redact::Redactor;
use crate::project::is_same_file;
use crate::symbols::{self, SymbolChange};
use crate::tools::{Action, ToolEvent};

/// Maximum number of changes in one edit. A file with more was generated or moved, and single changes mean nothing.
const MOST_OF_AN_EDIT: usize = 200;

/// Maximum number of names in an observation.
const MOST_NAMES: usize = 40;

/// The changes that one event made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The event.
    pub event: i64,
    /// The changes, in the order of the file.
    pub changes: Vec<FunctionChange>,
}

/// Returns the changes of one edit; none for a failed edit and for a file that does not parse, is too large or of another
/// language.
pub fn changed(event: &ToolEvent) -> Option<Edited> {
    let Action::Edit(edit) = &event.action else { return None };
    let file = edit.change.as_ref()?;
    let mut found = symbols::changes(file.language?, file.before.as_deref(), &file.after)?;
    found.truncate(MOST_OF_AN_EDIT);
    let redactor = Redactor::new();
    let file_path = redactor.redact(&edit.path).into_string();
    let changes: Vec<_> =
        found.into_iter().map(|change| function_change(&file_path, change, &redactor)).collect();
    (!changes.is_empty()).then_some(Edited { event: event.id, changes })
}

fn function_change(file_path: &str, found: SymbolChange, redactor: &Redactor) -> FunctionChange {
    let clean = |text: &str| redactor.redact(text).into_string();
    let SymbolChange { symbol, change, renamed_from } = found;
    FunctionChange {
        file_path: file_path.to_owned(),
        qualified_name: clean(&symbol.qualified_name),
        kind: symbol.kind.as_str().to_owned(),
        signature: clean(&symbol.signature),
        line_start: symbol.line_start,
        line_end: symbol.line_end,
        body_hash: format!("{:016x}", symbol.body_hash),
        change,
        renamed_from: renamed_from.as_deref().map(clean),
    }
}

/// Adds the names of changed functions to an observation of these events. Names found by comparison replace the model's
/// guesses, except for guesses about something else. `alone`: the events have no other observation.
pub fn name(draft: &mut ObservationDraft, sources: &[i64], edited: &[Edited], alone: bool) {
    let is_described = |change: &&FunctionChange| {
        (alone && draft.files_modified.is_empty())
            // A model may give a longer or shorter form of the stored path.
            || draft.files_modified.iter().any(|file| is_same_file(file, &change.file_path))
    };
    let of_sources = edited.iter().filter(|edited| sources.contains(&edited.event));
    let mut names: Vec<String> = Vec::new();
    for change in of_sources.flat_map(|edited| &edited.changes).filter(is_described) {
        if !names.contains(&change.qualified_name) {
            names.push(change.qualified_name.clone());
        }
    }
    if names.is_empty() {
        return;
    }
    let guessed = std::mem::take(&mut draft.functions_changed);
    let is_known = |guess: &String| names.iter().any(|name| own_name(name) == own_name(guess));
    let others: Vec<_> = guessed.into_iter().filter(|guess| !is_known(guess)).collect();
    names.extend(others);
    names.truncate(MOST_NAMES);
    draft.functions_changed = names;
}

/// `get` of `Cache::get`, `Cache.get()` or `get(key)`.
fn own_name(name: &str) -> &str {
    let name = name.split('(').next().unwrap_or(name);
    name.rsplit([':', '.', '#']).next().unwrap_or(name).trim()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ChangeKind;
    use crate::tools::RawEvent;

    fn edit(id: i64, path: &str, before: Option<&str>, after: &str) -> RawEvent {
        let kind = if before.is_some() { "update" } else { "create" };
        let response = json!({"type": kind, "filePath": path, "originalFile": before, "content": after});
        RawEvent {
            id,
            tool_name: Some("Write".into()),
            payload: json!({"tool_input": {"file_path": path}, "tool_response": response}).to_string(),
            cwd: Some("/p".into()),
            ..RawEvent::default()
        }
    }

    fn all_changed(events: &[RawEvent]) -> Vec<Edited> {
        events.iter().filter_map(|event| changed(&ToolEvent::parse(event, Some("/p")))).collect()
    }

    fn rendered(edited: &[Edited]) -> Vec<String> {
        let line = |edited: &Edited, change: &FunctionChange| {
            let from = change.renamed_from.as_deref().map(|name| format!(" from {name}")).unwrap_or_default();
            format!(
                "{} {} {} {}{from}",
                edited.event,
                change.change.as_str(),
                change.file_path,
                change.qualified_name
            )
        };
        edited.iter().flat_map(|one| one.changes.iter().map(move |change| line(one, change))).collect()
    }

    #[test]
    fn edits_report_new_changed_renamed_and_removed_functions() {
        let before = "fn one() { a(); }\nfn two() { b(); }\nfn three(x: u8) { c(x); d(); }\n";
        let after = "fn one() { z(); }\nfn four() { w(); }\nfn drei(x: u8) { c(x); d(); }\n";
        let events = vec![
            edit(1, "/p/src/lib.rs", Some(before), after),
            edit(2, "/p/app.py", None, "def greet(name):\n    return name\n"),
        ];
        assert_eq!(
            rendered(&all_changed(&events)),
            [
                "1 modified src/lib.rs one",
                "1 deleted src/lib.rs two",
                "1 new src/lib.rs four",
                "1 modified src/lib.rs drei from three",
                "2 new app.py greet",
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let large = format!("fn f() {{}}\n{}", "// x\n".repeat(300_000));
        let mut failed = edit(5, "/p/a.rs", None, "fn f() {}");
        failed.failed = true;
        let events = vec![
            edit(1, "/p/README.md", None, "# Title"),
            edit(2, "/p/a.rs", None, "fn broken( {{{ )"),
            edit(3, "/p/b.rs", None, &large),
            edit(4, "/p/c.rs", Some("fn same() {}\n"), "fn same() {}\n\n"),
            failed,
        ];
        assert_eq!(all_changed(&events), []);
    }

    #[test]
    fn a_secret_in_a_declaration_is_not_kept() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let code = format!("def connect(token=\"{secret}\"):\n    pass\n");
        let found = all_changed(&[edit(1, "/p/a.py", None, &code)]);
        let signature = &found[0].changes[0].signature;
        assert!(signature.starts_with("def connect(token=") && !signature.contains(secret), "{signature}");
    }

    #[test]
    fn found_names_replace_guesses_except_about_something_else() {
        let change = |file: &str, name: &str| FunctionChange {
            file_path: file.into(),
            qualified_name: name.into(),
            kind: "function".into(),
            signature: String::new(),
            line_start: 1,
            line_end: 2,
            body_hash: String::new(),
            change: ChangeKind::Modified,
            renamed_from: None,
        };
        let edited = [
            Edited { event: 1, changes: vec![change("src/cache.rs", "Cache::get"), change("src/b.rs", "b")] },
            Edited { event: 2, changes: vec![change("src/cache.rs", "Cache::put")] },
        ];
        let mut draft = ObservationDraft {
            files_modified: vec!["/p/src/cache.rs".into()],
            functions_changed: vec!["get()".into(), "deploy".into()],
            ..ObservationDraft::default()
        };
        name(&mut draft, &[1], &edited, false);
        assert_eq!(draft.functions_changed, ["Cache::get", "deploy"]);
        let mut untouched =
            ObservationDraft { functions_changed: vec!["x".into()], ..ObservationDraft::default() };
        name(&mut untouched, &[9], &edited, true);
        assert_eq!(untouched.functions_changed, ["x"]);
        let mut about_no_file = ObservationDraft::default();
        name(&mut about_no_file, &[1, 2], &edited, false);
        assert_eq!(about_no_file.functions_changed, Vec::<String>::new(), "another may describe the edits");
        name(&mut about_no_file, &[1, 2], &edited, true);
        assert_eq!(about_no_file.functions_changed, ["Cache::get", "b", "Cache::put"]);
    }
}
