//! Parses the claimed rows, and separates routine from work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::job::{Job, blocking};
use super::outcome::JobError;
use crate::compress::functions::{self, Edited};
use crate::compress::routine::{Verdict, classify};
use crate::compress::traces;
use crate::project::worktree_root;
use crate::store::queue::{Ending, QueueRow};
use crate::store::sessions::TurnPlace;
use crate::tools::{RawEvent, ToolEvent};

impl Job<'_> {
    /// Classifies and parses the claimed rows. Rows that break the parser end as errors, each on
    /// its own.
    pub(super) async fn classify(
        &mut self,
        rows: Vec<QueueRow>,
        place: &TurnPlace,
    ) -> Result<(Vec<ToolEvent>, Vec<Edited>), JobError> {
        let verbosity = self.running.config.compress.verbosity;
        let mut seen = self.running.seen.of(&self.settlement.session);
        let project_path = place.project_path.clone();
        let classified = blocking(move || {
            let (mut endings, mut events, mut edited, mut lines) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for row in rows {
                let id = row.id;
                let Some(mut event) = parse_row(row, &project_path) else {
                    endings.push((id, Ending::Error("the rules panicked on this event".into())));
                    continue;
                };
                match classify(&event, verbosity, &mut seen) {
                    Verdict::Keep => endings.push((id, Ending::Done)),
                    Verdict::Routine(reason) => endings.push((id, Ending::Skipped(reason.to_owned()))),
                }
                edited.extend(functions::changed(&event));
                lines.extend(traces::edit_trace(&event));
                event.release_texts();
                events.push(event);
            }
            (endings, events, edited, traces::joined(lines), seen)
        });
        let (endings, events, edited, lines, seen) = classified.await?;
        self.settlement.edits = lines;
        self.running.seen.propose(&self.settlement.session, seen);
        self.settlement.endings.extend(endings);
        Ok((events, edited))
    }
}

/// Parses a row. `None` if the parser panics on it, which affects this row only.
pub(super) fn parse_row(row: QueueRow, project_path: &str) -> Option<ToolEvent> {
    let worktree = row.cwd.as_ref().and_then(|cwd| worktree_root(Path::new(cwd), Path::new(project_path)));
    let raw = RawEvent {
        id: row.id,
        tool_name: row.tool_name,
        payload: row.payload.unwrap_or_default(),
        failed: row.failed,
        cwd: row.cwd,
        worktree: worktree.map(|root| root.to_string_lossy().into_owned()),
        by_subagent: row.agent_id.is_some() || row.agent_type.is_some(),
        agent_type: row.agent_type,
        raw_bytes: u64::try_from(row.raw_bytes).unwrap_or_default(),
    };
    let path = Some(project_path).filter(|path| !path.is_empty());
    catch_unwind(AssertUnwindSafe(|| ToolEvent::parse(&raw, path))).ok()
}
