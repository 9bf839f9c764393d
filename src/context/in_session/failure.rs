//! After a failure: the repair of the same failure by another session, as a command or as a change with its reason.

use rusqlite::Connection;

use super::{CandidateLine, RecallQuery};
use crate::context::observations;
use crate::context::page::Line;
use crate::context::wording::WIDE;
use crate::context::words::WordSet;
use crate::store::memory::traces::{self, TurnRepair};
use crate::store::{StoreError, context as table};
use crate::text::age;
use crate::text::line::one_line;
use crate::tools::{error_signature, is_generic};

/// Most repairs: a second one would contradict the first.
pub const MOST: usize = 1;
/// Of a tool's output no more than this is looked at.
const ERROR_BYTES: usize = 20_000;
const COMMAND: usize = 200;

/// Returns the repair of the same failure that most sessions used, the newest of several. A failure without a signature of its
/// own has none.
pub fn candidates(
    database: &Connection,
    request: &RecallQuery<'_>,
    error: &str,
) -> Result<Vec<CandidateLine>, StoreError> {
    let error = &error[..error.floor_char_boundary(ERROR_BYTES)];
    let Some(signature) = error_signature(error).filter(|signature| !is_generic(signature)) else {
        return Ok(Vec::new());
    };
    let repairs =
        traces::repairs_of(database, request.project, traces::hash(&signature), request.session.as_str())?;
    let mut found = by_command(&repairs, request);
    if found.is_none() {
        for repair in &repairs {
            found = found.or(by_change(database, request, repair, &signature)?);
        }
    }
    // A failure is answered once in a session, whatever its repair was in others.
    Ok(found.into_iter().map(|candidate| candidate.once(format!("failure: {signature}"))).collect())
}

fn by_command(repairs: &[TurnRepair], request: &RecallQuery<'_>) -> Option<CandidateLine> {
    let uses = |command: &str| {
        repairs.iter().filter(|repair| repair.repair.command.as_deref() == Some(command)).count()
    };
    // The repairs are newest first, and of several maxima `max_by_key` takes the last.
    let (repair, command) = repairs
        .iter()
        .rev()
        .filter_map(|repair| Some((repair, repair.repair.command.as_deref()?)))
        .max_by_key(|(_, command)| uses(command))?;
    let when = age::roughly(repair.created_at, request.now);
    let text = format!("{when}: `{}` then succeeded", one_line(command, COMMAND));
    let why = format!("the same failure, and the command that followed it in {} sessions", uses(command));
    Some(CandidateLine { memory: None, line: Line::new(text).because(why), is_urgent: false })
}

/// The change that repaired it, if the note of its turn speaks of the failure: most failures are repaired on the way to
/// something else.
fn by_change(
    database: &Connection,
    request: &RecallQuery<'_>,
    repair: &TurnRepair,
    signature: &str,
) -> Result<Option<CandidateLine>, StoreError> {
    let note = table::note_of_turn(database, request.project, &repair.session_id, repair.prompt_number)?;
    let note = note.map(|memory| request.admitted(database, memory)).transpose()?.flatten();
    Ok(note.and_then(|memory| {
        let wording = request.wording(&memory, WIDE);
        let mut names: Vec<&str> =
            repair.repair.files.iter().map(|path| path.rsplit('/').next().unwrap_or(path)).collect();
        names.sort_unstable();
        names.dedup();
        let lead = format!("repaired by changing {}: ", one_line(&names.join(", "), 160));
        let why = "the same failure, and the change after which its command succeeded".to_owned();
        let line = observations::line(&memory, &wording, &lead, request.now).because(why);
        let text = [&memory.title, &memory.summary].map(String::as_str);
        let speaks_of_it = WordSet::stemmed(&[signature]).is_mostly_in(&WordSet::stemmed(&text));
        (speaks_of_it && !wording.statements.is_empty()).then_some(CandidateLine {
            memory: Some(memory),
            line,
            is_urgent: false,
        })
    }))
}
