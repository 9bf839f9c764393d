//! Full memories, and memories that clients save or forget.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use super::extract::{JsonBody, Named, Parameters};
use super::routes::running;
use crate::api::{ApiError, Changed, Memories, Observations, Saved, Statement, Within};
use crate::responses;
use crate::store::memory;
use crate::worker::state::Shared;
use crate::{clock, manual_memories};

/// Ids of a request, separated by commas.
#[derive(Deserialize)]
pub struct Ids {
    ids: String,
}

/// `GET /api/memories?ids=12,S3,P4`: full memories of any kind.
pub async fn get(
    State(shared): State<Arc<Shared>>,
    Parameters(Ids { ids }): Parameters<Ids>,
) -> Result<Json<Memories>, ApiError> {
    let ids: Option<Vec<_>> = ids.split(',').map(responses::referred).collect();
    let ids =
        ids.ok_or_else(|| ApiError::bad_request("ids must be a list of ids from a search: ids=12,S3,P4"))?;
    let running = running(&shared)?;
    Ok(Json(running.database.read(move |database| responses::memories(database, &ids, clock::now())).await?))
}

/// `GET /api/observations?ids=1,2,3`: observations with all columns.
pub async fn observations(
    State(shared): State<Arc<Shared>>,
    Parameters(Ids { ids }): Parameters<Ids>,
) -> Result<Json<Observations>, ApiError> {
    let parsed: Result<Vec<i64>, _> = ids.split(',').map(|id| id.trim().parse()).collect();
    let ids = parsed.map_err(|_| ApiError::bad_request("ids must be a list of numbers: ids=1,2,3"))?;
    let found =
        running(&shared)?.database.read(move |database| memory::observations_by_id(database, &ids)).await?;
    Ok(Json(Observations { observations: found }))
}

/// `POST /api/memories`: stores the memory in the body.
pub async fn save(State(shared): State<Arc<Shared>>, body: JsonBody) -> Result<Json<Saved>, ApiError> {
    let statement: Statement = body.parse()?;
    let running = running(&shared)?;
    let user_home = shared.environment.user_home.clone();
    let capture = running.config.capture.clone();
    // It reads files, so it must not run on the serving thread.
    let accepting = tokio::task::spawn_blocking(move || {
        manual_memories::accept(statement, &capture, user_home.as_deref(), clock::now())
    });
    let accepted = accepting.await.map_err(|_| ApiError::degraded("cannot process the text"))?;
    let accepted = accepted.map_err(ApiError::bad_request)?;
    Ok(Json(
        running.database.write_to_disk(move |database| manual_memories::keep(database, &accepted)).await?,
    ))
}

/// `DELETE /api/observations/{id}`: forgets an observation, or a learning (L12).
pub async fn forget(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    Parameters(within): Parameters<Within>,
) -> Result<Json<Changed>, ApiError> {
    change(&shared, &id, within, false).await
}

/// `POST /api/observations/{id}/restore`: restores it.
pub async fn restore(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    Parameters(within): Parameters<Within>,
) -> Result<Json<Changed>, ApiError> {
    change(&shared, &id, within, true).await
}

async fn change(shared: &Shared, id: &str, within: Within, undo: bool) -> Result<Json<Changed>, ApiError> {
    let what = manual_memories::forgettable(id).map_err(ApiError::bad_request)?;
    let running = running(shared)?;
    let changing = running.database.write_to_disk(move |database| {
        manual_memories::forget(database, what, undo, within.project.as_deref(), clock::now())
    });
    let changed = changing.await?;
    changed.map(Json).ok_or_else(|| ApiError::not_found(format!("there is no memory {id}")))
}
