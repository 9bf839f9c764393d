//! Memories that clients state, and memories that they want forgotten.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::answer::{ApiError, JsonBody, Named, Parameters};
use super::routes::running;
use crate::curate::{self, Statement};
use crate::worker::clock;
use crate::worker::state::Shared;

/// `POST /api/memories`: stores the memory in the body.
pub async fn save(
    State(shared): State<Arc<Shared>>,
    JsonBody(body): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let statement: Statement =
        serde_json::from_value(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let running = running(&shared)?;
    let user_home = shared.environment.user_home.clone();
    let capture = running.config.capture.clone();
    // It reads files, so it must not run on the serving thread.
    let accepting = tokio::task::spawn_blocking(move || {
        curate::accept(statement, &capture, user_home.as_deref(), clock::now())
    });
    let accepted = accepting.await.map_err(|_| ApiError::unavailable("cannot process the text"))?;
    let accepted = accepted.map_err(ApiError::bad_request)?;
    Ok(Json(running.database.write_to_disk(move |database| curate::keep(database, &accepted)).await?))
}

/// `DELETE /api/observations/{id}`: forgets an observation, or a learning (L12).
pub async fn forget(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    Parameters(within): Parameters<Within>,
) -> Result<Json<Value>, ApiError> {
    change(&shared, &id, within, false).await
}

/// `POST /api/observations/{id}/restore`: restores it.
pub async fn restore(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    Parameters(within): Parameters<Within>,
) -> Result<Json<Value>, ApiError> {
    change(&shared, &id, within, true).await
}

/// The project to which a change is limited, if any.
#[derive(serde::Deserialize)]
pub struct Within {
    project: Option<String>,
}

async fn change(shared: &Shared, id: &str, within: Within, undo: bool) -> Result<Json<Value>, ApiError> {
    let what = curate::forgettable(id).map_err(ApiError::bad_request)?;
    let running = running(shared)?;
    let changing = running.database.write_to_disk(move |database| {
        curate::forget(database, what, undo, within.project.as_deref(), clock::now())
    });
    let changed = changing.await?;
    changed.map(Json).ok_or_else(|| ApiError::not_found(format!("there is no memory {id}")))
}
