//! Sessions over HTTP: the hooks' writes for clients without hooks, and their status.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::error::timeout;
use super::extract::{JsonBody, Named, Parameters};
use super::routes::running;
use super::search::name_of;
use crate::api::{self, ApiError, SessionStatus, Sessions, SessionsQuery, Stopped, Summarize, Summary};
use crate::capture::{self, Verb};
use crate::clock;
use crate::config::{Config, Environment};
use crate::model::{Event, EventBody, SessionId};
use crate::store::sessions::{list_sessions, session_status};
use crate::store::{self, Recorded, memory, queue};
use crate::worker::state::Shared;

type Queued = Result<(StatusCode, Json<api::Queued>), ApiError>;

/// Starts a session, with its first prompt if there is one.
pub async fn init(State(shared): State<Arc<Shared>>, Named(id): Named, JsonBody(body): JsonBody) -> Queued {
    let has_prompt = body.get("prompt").is_some_and(|prompt| !prompt.is_null());
    let mut events = vec![(Verb::Context, body.clone())];
    if has_prompt {
        events.push((Verb::New, body));
    }
    record(&shared, id, events).await
}

/// Records tool use: one event, or a list of events.
pub async fn observations(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    JsonBody(body): JsonBody,
) -> Queued {
    let events = match body {
        Value::Array(events) => events,
        event => vec![event],
    };
    record(&shared, id, events.into_iter().map(|event| (Verb::Save, event)).collect()).await
}

/// Ends a turn.
pub async fn summarize(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    JsonBody(body): JsonBody,
) -> Queued {
    record(&shared, id, vec![(Verb::Summary, body)]).await
}

/// Stores events exactly as hooks do, with the same rules and the same deduplication. All of them
/// or none, and durable on return.
async fn record(shared: &Arc<Shared>, session: String, bodies: Vec<(Verb, Value)>) -> Queued {
    let running = running(shared)?;
    let (mut config, environment) = (running.config.clone(), shared.environment.clone());
    let home = shared.home.clone();
    let accepting = tokio::task::spawn_blocking(move || {
        capture::limit_payload_on_low_disk(&home, &mut config);
        let mut events = Vec::new();
        for (verb, body) in bodies {
            events.extend(event(&session, verb, body, &config, &environment)?);
        }
        Ok::<_, ApiError>(events)
    });
    let events = accepting.await.map_err(|error| ApiError::bad_request(error.to_string()))??;
    let has_row: Vec<bool> =
        events.iter().map(|event| !matches!(event.body, EventBody::Start { .. })).collect();
    let recorded = running.database.write_to_disk(move |database| store::record_all(database, &events)).await;
    // Wake the processor after a failure, too: it reopens a database that was replaced.
    shared.nudge.notify_one();
    let recorded = recorded?;
    let is_queued = |(has_row, recorded): &(bool, Recorded)| *has_row && *recorded == Recorded::New;
    let queued = has_row.into_iter().zip(recorded).filter(is_queued).count();
    Ok((StatusCode::ACCEPTED, Json(api::Queued { queued })))
}

fn event(
    session: &str,
    verb: Verb,
    mut body: Value,
    config: &Config,
    environment: &Environment,
) -> Result<Option<Event>, ApiError> {
    let Some(fields) = body.as_object_mut() else {
        return Err(ApiError::bad_request("an event must be a JSON object"));
    };
    fields.insert("session_id".into(), session.into());
    Ok(capture::event_from(verb, body.to_string().into_bytes(), clock::now(), config, environment))
}

/// Returns the status of a session.
pub async fn status(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
) -> Result<Json<SessionStatus>, ApiError> {
    let session = SessionId(id);
    let found = running(&shared)?.database.read(move |database| session_status(database, &session)).await?;
    let found = found.ok_or_else(|| ApiError::not_found("there is no such session"))?;
    Ok(Json(found))
}

/// Stops a session's work.
pub async fn stop(State(shared): State<Arc<Shared>>, Named(id): Named) -> Result<Json<Stopped>, ApiError> {
    let running = running(&shared)?;
    let session = SessionId(id);
    let known = session.clone();
    if running.database.read(move |database| session_status(database, &known)).await?.is_none() {
        return Err(ApiError::not_found("there is no such session"));
    }
    let stopped =
        running.database.write(move |database| queue::stop_session(database, &session, clock::now())).await?;
    shared.notify_settled();
    Ok(Json(Stopped { skipped: stopped }))
}

/// Lists sessions, newest first.
pub async fn list(
    State(shared): State<Arc<Shared>>,
    Parameters(query): Parameters<SessionsQuery>,
) -> Result<Json<Sessions>, ApiError> {
    let limit = query.limit.unwrap_or(20).min(200);
    let running = running(&shared)?;
    let project = match query.project_path {
        Some(path) => Some(name_of(&running, path).await?),
        None => query.project,
    };
    let rows = running
        .database
        .read(move |database| list_sessions(database, project.as_deref(), limit, query.offset))
        .await?;
    Ok(Json(Sessions { sessions: rows }))
}

/// Maximum time that a client waits for a requested summary.
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(45);

/// Summarises the session's work since its last summary, and waits for the result.
pub async fn summarize_now(
    State(shared): State<Arc<Shared>>,
    body: JsonBody,
) -> Result<Json<Summary>, ApiError> {
    let session = SessionId(body.parse::<Summarize>()?.session_id);
    let running = running(&shared)?;
    let known = session.clone();
    if running.database.read(move |database| session_status(database, &known)).await?.is_none() {
        return Err(ApiError::not_found("there is no such session"));
    }
    let mut settled = shared.settled.subscribe();
    let asked = json!({"hook_event_name": "Summarize", "at": clock::now()});
    let _queued = record(&shared, session.0.clone(), vec![(Verb::Compact, asked)]).await?;
    let finished = tokio::time::timeout(SUMMARY_TIMEOUT, async {
        loop {
            let asked = session.clone();
            let status = running.database.read(move |database| session_status(database, &asked)).await?;
            if status.is_none_or(|status| status.raw + status.processing == 0) {
                return Ok::<_, ApiError>(());
            }
            let _ = settled.changed().await;
        }
    });
    let mut stopping = shared.stopping.subscribe();
    tokio::select! {
        finished = finished => finished.map_err(|_| timeout())??,
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {
            return Err(ApiError::degraded("the worker is stopping; the summary will be made after the next start"));
        }
    }
    let latest = running.database.read(move |database| memory::latest_summary(database, &session)).await?;
    let (summary, tokens) = latest.unwrap_or_default();
    Ok(Json(Summary { summary, tokens }))
}
