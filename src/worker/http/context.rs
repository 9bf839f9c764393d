//! Routes for the start context and the memories after it.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;

use super::extract::{Named, Parameters};
use super::routes::running;
use super::search::name_of;
use crate::api::{ApiError, ContextQuery, ContextResponse, InSessionQuery, InSessionResponse};
use crate::context::Hint;
use crate::store::browse;
use crate::worker::background::truth;
use crate::worker::session_context::{self, ClientMemory, Files, InSession};
use crate::worker::state::Shared;

/// `GET /api/context?project_path=…`
pub async fn at_start(
    State(shared): State<Arc<Shared>>,
    Parameters(query): Parameters<ContextQuery>,
) -> Result<Json<ContextResponse>, ApiError> {
    let running = running(&shared)?;
    let began = Instant::now();
    let (budget, asked) = (session_context::budget(&query, &running.config), query.clone());
    let (here, hint) = (Arc::clone(&running), Hint::of(&shared.home));
    let client_memory = ClientMemory::of(&shared.environment);
    running.index_waiting_rows().await;
    let built = running.database.read(move |database| {
        Ok(session_context::build(database, &here.config, &here.repositories, &asked, &client_memory, hint))
    });
    let built = built.await?;
    for failure in &built.failed {
        tracing::warn!(failure, "a layer of the context failed: {failure}");
    }
    shared.mark_memory_used();
    truth::refresh(&running, &query);
    let mut response = session_context::response(&built, began.elapsed(), query.explain);
    if query.explain {
        let project = name_of(&running, query.project_path.clone()).await?;
        response.last =
            running.database.read(move |database| browse::last_context(database, &project)).await?;
    }
    // The hook logs it once it has printed it; a request outside a session is not logged.
    if !query.session_id.is_empty() {
        response.log = Some(built.log_data(budget, "worker", query.source.as_deref()));
    }
    Ok(Json(response))
}

/// `GET /api/context/prompt?…&text=`, and the same for `file` (its path) and `failure` (the tool's error).
pub async fn in_session(
    State(shared): State<Arc<Shared>>,
    Named(name): Named,
    Parameters(query): Parameters<InSessionQuery>,
) -> Result<Json<InSessionResponse>, ApiError> {
    let Some(trigger) = session_context::trigger(&name, &query) else {
        return Err(ApiError::not_found("there are contexts for a prompt, a file and a failure"));
    };
    let running = running(&shared)?;
    running.index_waiting_rows().await;
    let mut is_last = false;
    loop {
        // Two sets of hooks ask at once, and one of them gets the lines.
        let mut offers = shared.offers.lock().await;
        let offered = offers.of(&query.session_id);
        let (here, asked, wanted) = (Arc::clone(&running), query.clone(), trigger.clone());
        let built = running.database.read(move |database| {
            let (config, repositories) = (&here.config, &here.repositories);
            session_context::in_session(
                database,
                config,
                repositories,
                &asked,
                &wanted,
                &offered,
                Files::Known,
            )
        });
        let InSession { snippet, response, unread } = built.await?;
        let Some(unread) = unread.filter(|_| !is_last) else {
            offers.add(query.session_id, &snippet, &trigger);
            return Ok(Json(response));
        };
        // Files are read while nobody waits for the offers or for a reader of the database.
        drop(offers);
        let _ = tokio::task::spawn_blocking(move || unread.read()).await;
        is_last = true;
    }
}
