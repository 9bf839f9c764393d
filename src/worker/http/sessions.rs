//! Sessions over HTTP: the hook's writes for clients that are not hooks, and what became of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{ApiError, JsonBody, Parameters};
use super::routes::{NamedSession, running};
use crate::hook::{self, Verb};
use crate::model::SessionId;
use crate::store::sessions::{list_sessions, session_status};
use crate::store::{self, Recorded, memory, queue};
use crate::worker::clock;
use crate::worker::state::Shared;

type Queued = Result<(StatusCode, Json<Value>), ApiError>;

/// A session begins, with its first prompt if there is one.
pub async fn init(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Queued {
    let has_prompt = body.get("prompt").is_some_and(|prompt| !prompt.is_null());
    let mut queued = record(&shared, &id, Verb::Context, body.clone()).await?;
    if has_prompt {
        queued += record(&shared, &id, Verb::New, body).await?;
    }
    Ok(accepted(&shared, queued))
}

/// Tools were used: one event, or a list of them.
pub async fn observations(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Queued {
    let events = match body {
        Value::Array(events) => events,
        event => vec![event],
    };
    let mut queued = 0;
    for event in events {
        queued += record(&shared, &id, Verb::Save, event).await?;
    }
    Ok(accepted(&shared, queued))
}

/// A turn ended.
pub async fn summarize(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Queued {
    let queued = record(&shared, &id, Verb::Summary, body).await?;
    Ok(accepted(&shared, queued))
}

fn accepted(shared: &Shared, queued: usize) -> (StatusCode, Json<Value>) {
    shared.nudge.notify_one();
    (StatusCode::ACCEPTED, Json(json!({"queued": queued})))
}

/// Stores an event exactly as a hook would: the same rules, the same protection against doubles. Durable when it returns.
async fn record(shared: &Shared, session: &str, verb: Verb, mut body: Value) -> Result<usize, ApiError> {
    let running = running(shared)?;
    let Some(fields) = body.as_object_mut() else {
        return Err(ApiError::bad_request("an event is a JSON object"));
    };
    fields.insert("session_id".into(), session.into());
    let payload = body.to_string().into_bytes();
    let Some(event) = hook::accept(verb, payload, clock::now(), &running.config, &shared.environment) else {
        return Ok(0);
    };
    let has_row = verb != Verb::Context;
    let recorded = running.writer.run(move |database| store::record(database, &event)).await?;
    Ok(usize::from(has_row && recorded == Recorded::New))
}

/// How a session stands.
pub async fn status(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let session = SessionId(id);
    let found = running(&shared)?.read(move |database| session_status(database, &session)).await?;
    let found = found.ok_or_else(|| ApiError::not_found("there is no such session"))?;
    Ok(Json(json!(found)))
}

/// Stops a session's work.
pub async fn stop(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let running = running(&shared)?;
    let session = SessionId(id);
    let known = session.clone();
    if running.read(move |database| session_status(database, &known)).await?.is_none() {
        return Err(ApiError::not_found("there is no such session"));
    }
    let stopped =
        running.writer.run(move |database| queue::stop_session(database, &session, clock::now())).await?;
    running.forget_counts();
    Ok(Json(json!({"skipped": stopped})))
}

#[derive(Deserialize)]
pub struct ListQuery {
    project: Option<String>,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// Sessions, newest first.
pub async fn list(
    State(shared): State<Arc<Shared>>,
    Parameters(query): Parameters<ListQuery>,
) -> Result<Json<Value>, ApiError> {
    let limit = query.limit.unwrap_or(20).min(200);
    let rows = running(&shared)?
        .read(move |database| list_sessions(database, query.project.as_deref(), limit, query.offset))
        .await?;
    Ok(Json(json!({"sessions": rows})))
}

/// How long a client may wait for a summary that it asked for.
const SUMMARY_PATIENCE: Duration = Duration::from_secs(45);

/// Summarises what a session did since its last summary, and waits for it.
pub async fn summarize_now(
    State(shared): State<Arc<Shared>>,
    body: JsonBody,
) -> Result<Json<Value>, ApiError> {
    let session = SessionId(NamedSession::try_from(body)?.session_id);
    let running = running(&shared)?;
    let known = session.clone();
    if running.read(move |database| session_status(database, &known)).await?.is_none() {
        return Err(ApiError::not_found("there is no such session"));
    }
    let mut settled = shared.settled.subscribe();
    record(
        &shared,
        session.as_str(),
        Verb::Compact,
        json!({"hook_event_name": "Summarize", "at": clock::now()}),
    )
    .await?;
    shared.nudge.notify_one();
    let finished = tokio::time::timeout(SUMMARY_PATIENCE, async {
        loop {
            let asked = session.clone();
            let status = running.read(move |database| session_status(database, &asked)).await?;
            if status.is_none_or(|status| status.raw + status.processing == 0) {
                return Ok::<_, ApiError>(());
            }
            let _ = settled.changed().await;
        }
    });
    finished.await.map_err(|_| ApiError::timeout())??;
    let latest = running.read(move |database| memory::latest_summary(database, &session)).await?;
    let (summary, tokens) = latest.unwrap_or_default();
    Ok(Json(json!({"summary": summary, "tokens": tokens})))
}
