//! Requests to a model for running Claude Code sessions: the provider `session`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{JsonBody, Named, Parameters};
use super::routes::running;
use crate::api::{ApiError, SessionAnswer, SessionJobQuery, SessionOffer};
use crate::worker::state::Shared;

/// Longest wait for a job: shorter than the wait of our own client for a response.
const MAX_WAIT: Duration = Duration::from_secs(4);

/// `POST /api/session-jobs`: a job for the session that asks, as soon as there is one.
pub async fn take(
    State(shared): State<Arc<Shared>>,
    Parameters(query): Parameters<SessionJobQuery>,
) -> Result<Json<SessionOffer>, ApiError> {
    let running = running(&shared)?;
    let Some(jobs) = running.compressor.session_jobs() else { return Ok(Json(SessionOffer::default())) };
    let job = jobs.take(Duration::from_millis(query.wait_ms).min(MAX_WAIT)).await;
    Ok(Json(SessionOffer { is_chosen: true, job }))
}

/// `POST /api/session-jobs/{id}`: the answer.
pub async fn answer(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    let answer: SessionAnswer = body.parse()?;
    let running = running(&shared)?;
    let jobs = running.compressor.session_jobs();
    let is_awaited = id.parse().is_ok_and(|id| jobs.is_some_and(|jobs| jobs.answer(id, answer)));
    if is_awaited {
        return Ok(StatusCode::ACCEPTED);
    }
    Err(ApiError::not_found(format!("there is no job {id} that waits for an answer")))
}
