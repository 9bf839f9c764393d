//! Memories that somebody states, and memories that somebody wants forgotten.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::answer::{ApiError, JsonBody, Named};
use super::routes::running;
use crate::curate::{self, Statement};
use crate::worker::clock;
use crate::worker::state::Shared;

/// `POST /api/memories`: remembers what the body says.
pub async fn save(
    State(shared): State<Arc<Shared>>,
    JsonBody(body): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let statement: Statement =
        serde_json::from_value(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let running = running(&shared)?;
    let user_home = shared.environment.user_home.clone();
    let capture = running.config.capture.clone();
    // It looks at files: not on the thread that serves everybody.
    let accepting = tokio::task::spawn_blocking(move || {
        curate::accept(statement, &capture, user_home.as_deref(), clock::now())
    });
    let accepted = accepting.await.map_err(|_| ApiError::unavailable("the text could not be read"))?;
    let accepted = accepted.map_err(ApiError::bad_request)?;
    Ok(Json(running.database.write_to_disk(move |database| curate::keep(database, &accepted)).await?))
}

/// `DELETE /api/observations/{id}`: forgets an observation, or a learning (L12).
pub async fn forget(State(shared): State<Arc<Shared>>, Named(id): Named) -> Result<Json<Value>, ApiError> {
    change(&shared, &id, false).await
}

/// `POST /api/observations/{id}/restore`: brings it back.
pub async fn restore(State(shared): State<Arc<Shared>>, Named(id): Named) -> Result<Json<Value>, ApiError> {
    change(&shared, &id, true).await
}

async fn change(shared: &Shared, id: &str, undo: bool) -> Result<Json<Value>, ApiError> {
    let what = curate::forgettable(id).map_err(ApiError::bad_request)?;
    let running = running(shared)?;
    let changing =
        running.database.write_to_disk(move |database| curate::forget(database, what, undo, clock::now()));
    let changed = changing.await?;
    changed.map(Json).ok_or_else(|| ApiError::not_found(format!("there is no memory {id}")))
}
