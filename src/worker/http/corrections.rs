//! Corrections by the user: edits, pins, merges and vetoes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::extract::{JsonBody, Named, Parameters};
use super::history::number;
use super::routes::running;
use crate::api::{
    ApiError, Changed, Curated, EditRequest, MergeRequest, PinRequest, SupersedeRequest, Veto, VetoRequest,
    Vetoes, Within,
};
use crate::clock;
use crate::manual_memories::{self, Confirmation};
use crate::store::corrections::{self, vetoes};
use crate::store::memory::manual::ChangeOutcome;
use crate::store::{StoreError, browse};
use crate::worker::state::Shared;

type Response = Result<Json<Changed>, ApiError>;

/// `POST /api/observations/{id}/edit`: new text, or an earlier version.
pub async fn edit(State(shared): State<Arc<Shared>>, Named(id): Named, body: JsonBody) -> Response {
    let (number, request) = (number(&id)?, body.parse::<EditRequest>()?);
    let version = request.version;
    let amendment = manual_memories::amendment(request).map_err(ApiError::bad_request)?;
    let running = running(&shared)?;
    let changing = running.database.write_to_disk(move |database| match version {
        Some(version) => corrections::revert(database, number, version, clock::now()),
        None => corrections::edit(database, number, &amendment, clock::now()),
    });
    changed(id, changing.await?)
}

/// `POST /api/observations/{id}/pin`: pins a note or a learning (L12), or unpins it.
pub async fn pin(State(shared): State<Arc<Shared>>, Named(id): Named, body: JsonBody) -> Response {
    let what = manual_memories::forgettable(&id).map_err(ApiError::bad_request)?;
    let PinRequest { pinned } = body.parse()?;
    let running = running(&shared)?;
    let changing = running
        .database
        .write_to_disk(move |database| corrections::pin(database, what, pinned, clock::now()));
    changed(id, changing.await?)
}

/// `POST /api/observations/{id}/merge`: merges other notes into this one.
pub async fn merge(State(shared): State<Arc<Shared>>, Named(id): Named, body: JsonBody) -> Response {
    let (number, MergeRequest { ids }) = (number(&id)?, body.parse()?);
    let running = running(&shared)?;
    let changing = running
        .database
        .write_to_disk(move |database| corrections::merge(database, number, &ids, clock::now()));
    changed(id, changing.await?)
}

/// `POST /api/observations/{id}/supersede`: marks this note as replaced by another one.
pub async fn supersede(State(shared): State<Arc<Shared>>, Named(id): Named, body: JsonBody) -> Response {
    let (number, SupersedeRequest { by }) = (number(&id)?, body.parse()?);
    let running = running(&shared)?;
    let changing =
        running.database.write_to_disk(move |database| corrections::supersede(database, number, by));
    changed(id, changing.await?)
}

/// `POST /api/observations/{id}/keep`: confirms a note against the code as it is now.
pub async fn keep(State(shared): State<Arc<Shared>>, Named(id): Named) -> Response {
    let number = number(&id)?;
    let running = running(&shared)?;
    let found = running.database.read(move |database| Confirmation::of(database, number)).await?;
    let Some(mut confirmation) = found else { return changed(id, None) };
    let here = Arc::clone(&running);
    // Git and files take their time: no statement waits for them.
    let retaking = tokio::task::spawn_blocking(move || {
        confirmation.retake(here.repositories.surveyed_tree(&confirmation.root));
        confirmation
    });
    let confirmation = retaking.await.map_err(|_| StoreError::Gone)?;
    let storing = running.database.write_to_disk(move |database| confirmation.store(database).map(Some));
    changed(id, storing.await?)
}

fn changed(reference: String, outcome: Option<ChangeOutcome>) -> Response {
    let outcome = outcome.ok_or_else(|| ApiError::not_found(format!("there is no memory {reference}")))?;
    Ok(Json(Changed { reference, title: outcome.title, changed: outcome.changed }))
}

/// `POST /api/vetoes`: blocks the statements of a memory, or a statement.
pub async fn veto(State(shared): State<Arc<Shared>>, body: JsonBody) -> Result<Json<Vetoes>, ApiError> {
    let request: VetoRequest = body.parse()?;
    let memory = match request.memory.as_str() {
        "" => None,
        reference => Some(manual_memories::forgettable(reference).map_err(ApiError::bad_request)?),
    };
    if memory.is_none() && request.statement.trim().is_empty() {
        return Err(ApiError::bad_request("memory or statement is required"));
    }
    let running = running(&shared)?;
    let vetoing = running.database.write_to_disk(move |database| {
        let statements = match memory {
            Some(memory) => manual_memories::statements(database, memory)?,
            None => vec![(request.project.clone(), request.statement.clone())],
        };
        let add =
            |(project, statement)| vetoes::add(database, project, statement, request.line, clock::now());
        statements.into_iter().map(add).collect::<Result<Vec<Veto>, _>>()
    });
    let made = vetoing.await?;
    if made.is_empty() {
        return Err(ApiError::not_found("there is no such memory"));
    }
    Ok(Json(Vetoes { vetoes: made }))
}

/// `DELETE /api/vetoes/{id}`: lifts a veto.
pub async fn lift_veto(State(shared): State<Arc<Shared>>, Named(id): Named) -> Response {
    let veto = number(&id)?;
    let lifted =
        running(&shared)?.database.write_to_disk(move |database| vetoes::lift(database, veto)).await?;
    let title = lifted.ok_or_else(|| ApiError::not_found(format!("there is no veto {id}")))?;
    Ok(Json(Changed { reference: id, title, changed: true }))
}

/// `GET /api/curated?project=`: pinned, forgotten and vetoed memories, and the learnings.
pub async fn curated(
    State(shared): State<Arc<Shared>>,
    Parameters(within): Parameters<Within>,
) -> Result<Json<Curated>, ApiError> {
    let reading = move |database: &rusqlite::Connection| {
        let project = within.project.as_deref().filter(|project| !project.is_empty());
        Ok(Curated {
            pinned: browse::pinned(database, project)?,
            forgotten: browse::forgotten(database, project)?,
            vetoes: vetoes::list(database)?,
            learnings: browse::learnings(database, project, clock::now())?,
            stale: browse::stale(database, project)?,
        })
    };
    Ok(Json(running(&shared)?.database.read(reading).await?))
}
