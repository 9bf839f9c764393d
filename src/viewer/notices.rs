//! Messages about the last change, with its undo. The address carries which, so that they work without scripts.

use maud::{Markup, html};

use super::pages::{Write, text};
use super::routes::Fields;

/// Returns the message that an address asks for.
pub fn notice(fields: &Fields, write: &Write<'_>) -> Option<Markup> {
    let done = fields.get("done")?;
    let id = fields.get("id").map(|id| text::cut(id, 20)).unwrap_or_default();
    let undo =
        |path: String| html! { div.acts data-undo { (write.button(&path, "", "Undo", None)) span.left {} } };
    let (message, undo) = match done.as_str() {
        "forgotten" => ("Forgotten.", Some(undo(format!("/memory/{id}/restore")))),
        "restored" => ("Restored.", None),
        "pinned" => {
            ("Pinned: every session of the project is told this.", Some(undo(format!("/memory/{id}/unpin"))))
        }
        "unpinned" => ("Unpinned.", Some(undo(format!("/memory/{id}/pin")))),
        "vetoed" => (
            "Vetoed: it is not shown or stored again.",
            Some(undo(format!(
                "/memory/{id}/unveto?vetoes={}",
                text::cut(fields.get("vetoes").map_or("", String::as_str), 80)
            ))),
        ),
        "off" => ("Switched off.", Some(undo(format!("/veto/{id}/lift")))),
        "lifted" => ("The veto is lifted.", Some(veto_again(fields, write))),
        "edited" => ("Saved. The earlier version is kept below.", Some(undo(format!("/memory/{id}/unedit")))),
        "reverted" => ("The earlier version is back.", None),
        "same" => ("Nothing changed.", None),
        "kept" => ("Kept: it is compared with the code as it is now from here on.", None),
        "merged" => {
            let ids = text::cut(fields.get("ids").map_or("", String::as_str), 80);
            ("Merged into this note.", Some(undo(format!("/memory/{id}/unmerge?ids={ids}"))))
        }
        "retried" => ("Queued again.", None),
        "checked" => ("Checked.", None),
        "backed-up" => ("Backed up, and the copy was verified.", None),
        _ => return None,
    };
    Some(html! { div.notice role="status" { span { (message) } @if let Some(undo) = undo { (undo) } } })
}

/// The undo of a lifted veto.
fn veto_again(fields: &Fields, write: &Write<'_>) -> Markup {
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let form = html! {
        @for name in ["line", "project", "statement"] { input type="hidden" name=(name) value=(field(name)); }
        input type="hidden" name="back" value="memory";
        button { "Undo" }
    };
    html! { div.acts data-undo { (write.form("/context/veto", &form)) span.left {} } }
}

/// A message about a failed change.
pub fn failed(message: &str) -> Markup {
    html! { div.notice.bad role="alert" { (text::cut(message, 400)) } }
}
