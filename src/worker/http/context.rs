//! Routes for the start context and the memories after it.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::answer::{ApiError, Named, Parameters};
use super::routes::running;
use crate::context::Hint;
use crate::worker::briefing::{self, Asked, ClientMemory, Happening};
use crate::worker::state::Shared;

/// `GET /api/context?project_path=…`
pub async fn at_start(
    State(shared): State<Arc<Shared>>,
    Parameters(asked): Parameters<Asked>,
) -> Result<Json<Value>, ApiError> {
    let running = running(&shared)?;
    let began = Instant::now();
    let (budget, source, is_explained) = (asked.budget(&running.config), asked.source.clone(), asked.explain);
    let is_for_session = !asked.session_id.is_empty();
    let (here, hint) = (Arc::clone(&running), Hint::of(&shared.home));
    let client_memory = ClientMemory::of(&shared.environment);
    running.index_what_waits().await;
    let built = running.database.read(move |database| {
        Ok(briefing::build(database, &here.config, &here.repositories, &asked, &client_memory, hint))
    });
    let built = built.await?;
    for failure in &built.failed {
        tracing::warn!(failure, "a layer of the context failed: {failure}");
    }
    shared.note_asked();
    let mut answer = briefing::as_json(&built, began.elapsed().as_secs_f64() * 1000.0, is_explained);
    // The hook notes it when it has printed it; somebody who only wants to see it is not a session.
    if is_for_session {
        answer["log"] = built.log_data(budget, "worker", source.as_deref());
    }
    Ok(Json(answer))
}

/// `GET /api/context/prompt?…&text=`, and the same for `file` (its path) and `failure` (the tool's error).
pub async fn later(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Parameters(happening): Parameters<Happening>,
) -> Result<Json<Value>, ApiError> {
    let Some(trigger) = happening.trigger(&name) else {
        return Err(ApiError::not_found("there are contexts for a prompt, a file and a failure"));
    };
    let running = running(&shared)?;
    running.index_what_waits().await;
    // Two hook sets ask at once, and one of them gets the lines.
    let mut offers = shared.telling.lock().await;
    let offered = offers.of(&happening.session_id);
    let (here, session, asked) = (Arc::clone(&running), happening.session_id.clone(), trigger.clone());
    let snippet = running
        .database
        .read(move |database| briefing::at(database, &here.config, &happening, &asked, &offered));
    let (snippet, answer) = snippet.await?;
    offers.note(session, &snippet, &trigger);
    Ok(Json(answer))
}
