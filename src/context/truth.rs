//! Memories that may be shown unasked: of this branch or of the whole project, not superseded, and about code that is still there.
//!
//! The worker compares code with the session's working tree; elsewhere the last recorded comparison counts.

use std::fmt;

use super::repo_state::is_topic;
use crate::model::Standing;
use crate::store::context::{ContextMemory, Reach, SessionLine};
use crate::text::line::one_line;

/// Compares the code of a note, by its id, with a working tree; none if the note is about no code.
#[derive(Clone, Copy, Default)]
pub struct CodeCheck<'a>(pub Option<&'a dyn Fn(i64) -> Option<Standing>>);

impl fmt::Debug for CodeCheck<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("CodeCheck").field(&self.0.is_some()).finish()
    }
}

impl CodeCheck<'_> {
    fn of(self, memory: &ContextMemory) -> Option<Standing> {
        self.0.filter(|_| memory.id > 0).and_then(|check| check(memory.id))
    }
}

/// A memory whose code has changed scores this much of what it would.
const CHANGED: f64 = 0.6;

/// Returns the memory with a label for its line, and its weight; none if it is not to be shown on branch `here`. A pinned memory is
/// shown in any case.
pub fn admitted(
    memory: ContextMemory,
    here: Option<&str>,
    check: CodeCheck<'_>,
) -> Option<(ContextMemory, f64)> {
    let found = check.of(&memory);
    let standing = found.unwrap_or(memory.standing);
    let reach = memory.reach(here);
    // Code that is here came along with a merge or a branch of the branch.
    let is_here = match reach {
        Reach::Here | Reach::Doubtful => true,
        Reach::Elsewhere | Reach::Faded => found == Some(Standing::Holds),
    };
    if !memory.is_pinned && (memory.is_superseded || standing == Standing::Gone || !is_here) {
        return None;
    }
    let mut label = String::new();
    if let Some(branch) = named_branch(memory.branch.as_deref(), reach, here) {
        label.push_str(&format!(", on branch {}", one_line(branch, 60)));
    }
    if memory.times_seen > 1 {
        label.push_str(&format!(", {} times", memory.times_seen));
    }
    if memory.is_superseded {
        label.push_str(", superseded");
    }
    if standing != Standing::Holds {
        label.push_str(", code changed since");
    }
    let weight = if standing == Standing::Holds { 1.0 } else { CHANGED };
    Some((ContextMemory { label, ..memory }, weight))
}

/// The branch that a line names: one that may not have reached this one.
fn named_branch<'b>(branch: Option<&'b str>, reach: Reach, here: Option<&str>) -> Option<&'b str> {
    branch.filter(|branch| reach == Reach::Doubtful && here.is_some() && is_topic(branch))
}

/// True if a session does not matter to this branch: it belongs to another one, or all that it changed was taken out again.
/// `notes` are the latest notes of the project.
pub fn is_undone(
    session: &SessionLine,
    notes: &[ContextMemory],
    here: Option<&str>,
    check: CodeCheck<'_>,
) -> bool {
    let own: Vec<&ContextMemory> = notes.iter().filter(|note| note.session_id == session.id).collect();
    let is_shown = |note: &&&ContextMemory| admitted((**note).clone(), here, check).is_some();
    match session.reach(here) {
        Reach::Elsewhere | Reach::Faded => !own.iter().any(|note| is_shown(&note)),
        // A session without notes about code is judged by nothing.
        Reach::Here | Reach::Doubtful => {
            let is_out = |note: &&&ContextMemory| {
                note.is_superseded || check.of(note).unwrap_or(note.standing) == Standing::Gone
            };
            !own.is_empty() && own.iter().filter(is_out).count() == own.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::context::BranchLine;

    fn memory(branch: Option<&str>, state: &str, merged_until: i64) -> ContextMemory {
        let line = (!state.is_empty()).then(|| BranchLine { state: state.into(), merged_until });
        ContextMemory {
            id: 1,
            branch: branch.map(Into::into),
            branch_line: line,
            created_at: 10,
            ..ContextMemory::default()
        }
    }

    fn shown(memory: &ContextMemory, standing: Option<Standing>) -> Option<String> {
        let check = |_: i64| standing;
        admitted(memory.clone(), Some("main"), CodeCheck(Some(&check))).map(|(memory, _)| memory.label)
    }

    #[test]
    fn a_memory_is_shown_where_it_holds() {
        use Standing::{Changed, Gone, Holds};
        let label = |text: &str| Some(text.to_owned());
        let cases = [
            ("made here", memory(Some("main"), "", 0), None, label("")),
            ("without a branch", memory(None, "", 0), None, label("")),
            ("the default branch", memory(Some("trunk"), "default", 0), None, label("")),
            ("merged", memory(Some("topic"), "open", 10), None, label("")),
            ("made after the merge", memory(Some("topic"), "open", 9), None, None),
            ("open, but its code is here", memory(Some("topic"), "open", 0), Some(Holds), label("")),
            ("open, and its code is not", memory(Some("topic"), "open", 0), Some(Gone), None),
            ("deleted without a merge", memory(Some("topic"), "deleted", 0), None, None),
            ("doubtful", memory(Some("topic"), "unknown", 0), None, label(", on branch topic")),
            ("never looked at", memory(Some("topic"), "", 0), None, label(", on branch topic")),
            ("changed", memory(None, "", 0), Some(Changed), label(", code changed since")),
            ("gone", memory(None, "", 0), Some(Gone), None),
        ];
        for (case, memory, standing, expected) in cases {
            assert_eq!(shown(&memory, standing), expected, "{case}");
        }
        let recorded = ContextMemory { standing: Gone, ..memory(None, "", 0) };
        assert_eq!(shown(&recorded, None), None, "without a tree the last check counts");
        assert_eq!(shown(&recorded, Some(Holds)), label(""), "with one the tree does");
        let superseded = ContextMemory { is_superseded: true, ..memory(None, "", 0) };
        assert_eq!(shown(&superseded, None), None);
        let pinned = ContextMemory { is_pinned: true, ..superseded };
        assert_eq!(shown(&pinned, Some(Gone)), label(", superseded, code changed since"));
    }
}
