//! After a failure: the repair of the same failure by another session, as a command or as a change with its reason.

use rusqlite::Connection;

use super::{Candidate, InSessionQuery};
use crate::context::observations;
use crate::context::page::Line;
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

/// The repairs of the same failure, the newest first. A failure without a signature of its own has none.
pub fn candidates(
    database: &Connection,
    request: &InSessionQuery<'_>,
    error: &str,
) -> Result<Vec<Candidate>, StoreError> {
    let error = &error[..error.floor_char_boundary(ERROR_BYTES)];
    let Some(signature) = error_signature(error).filter(|signature| !is_generic(signature)) else {
        return Ok(Vec::new());
    };
    let repairs =
        traces::repairs_of(database, request.project, traces::hash(&signature), request.session.as_str())?;
    let mut found: Vec<Candidate> = Vec::new();
    for repair in repairs {
        let candidate = match &repair.repair.command {
            Some(command) => Some(by_command(command, &repair, request)),
            None => by_change(database, request, &repair, &signature)?,
        };
        // One command repairs it, or one change: the same one by several sessions is shown once.
        found
            .extend(candidate.filter(|new| found.iter().all(|known| known.line.lasting != new.line.lasting)));
    }
    Ok(found)
}

fn by_command(command: &str, repair: &TurnRepair, request: &InSessionQuery<'_>) -> Candidate {
    let lasting = format!("`{}` then succeeded", one_line(command, COMMAND));
    let when = age::roughly(repair.created_at, request.now);
    let line = Line {
        text: format!("{when}: {lasting}"),
        lasting,
        why: "the same failure, and the command that followed it".into(),
        ..Line::default()
    };
    Candidate { memory: None, line, is_urgent: false }
}

/// The change that repaired it, if the note of its turn speaks of the failure: most failures are repaired on the way to
/// something else.
fn by_change(
    database: &Connection,
    request: &InSessionQuery<'_>,
    repair: &TurnRepair,
    signature: &str,
) -> Result<Option<Candidate>, StoreError> {
    let note = table::note_of_turn(database, request.project, &repair.session_id, repair.prompt_number)?;
    Ok(note.and_then(|memory| {
        let wording = request.wording(&memory);
        let names: Vec<&str> =
            repair.repair.files.iter().map(|path| path.rsplit('/').next().unwrap_or(path)).collect();
        let lead = format!("repaired by changing {}: ", one_line(&names.join(", "), 160));
        let why = "the same failure, and the change after which its command succeeded".to_owned();
        let line = observations::line(&memory, &wording, &lead, request.now).because(why);
        let text = [&memory.title, &memory.summary, &memory.detail].map(String::as_str);
        let speaks_of_it = WordSet::stemmed(&[signature]).is_mostly_in(&WordSet::stemmed(&text));
        (speaks_of_it && !wording.statements.is_empty()).then_some(Candidate {
            memory: Some(memory),
            line,
            is_urgent: false,
        })
    }))
}
