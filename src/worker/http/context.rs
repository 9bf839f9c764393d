//! What a session is told: at its start, and later.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{ApiError, Named, Parameters};
use super::routes::running;
use crate::context::Hint;
use crate::context::moment::{self, Moment};
use crate::model::SessionId;
use crate::project::Project;
use crate::store::log::{LogEntry, log};
use crate::worker::briefing::{self, Asked};
use crate::worker::clock;
use crate::worker::state::Shared;

/// `GET /api/context?project_path=…`
pub async fn at_start(
    State(shared): State<Arc<Shared>>,
    Parameters(asked): Parameters<Asked>,
) -> Result<Json<Value>, ApiError> {
    let running = running(&shared)?;
    let began = Instant::now();
    let budget = asked.budget(&running.config);
    let (session, source) = (SessionId(asked.session_id.clone()), asked.source.clone());
    let (here, hint) = (Arc::clone(&running), Hint::of(&shared.home));
    running.index_what_waits().await;
    let built = running
        .database
        .read(move |database| Ok(briefing::build(database, &here.config, &here.repositories, &asked, hint)));
    let built = built.await?;
    for failure in &built.failed {
        tracing::warn!(failure, "a layer of the context failed: {failure}");
    }
    let build_ms = began.elapsed().as_secs_f64() * 1000.0;
    shared.note_asked();
    // Somebody who only wants to see it is not a session.
    if !session.as_str().is_empty() {
        let entry = LogEntry {
            event_type: "context",
            session: Some(session),
            data: built.log_data(budget, "worker", source.as_deref()),
            duration_ms: Some(build_ms),
            ..LogEntry::default()
        };
        // Noted after the answer is on its way: nobody waits for a log.
        let noting = running.database.clone();
        tokio::spawn(async move { noting.write(move |database| log(database, &entry, clock::now())).await });
    }
    Ok(Json(briefing::as_json(&built, build_ms)))
}

/// What happens, and in which session.
#[derive(Deserialize)]
pub struct Happening {
    project_path: String,
    session_id: String,
    text: String,
}

/// `GET /api/context/prompt?…&text=`, and the same for `file` (its path) and `failure` (what the tool said).
pub async fn later(
    State(shared): State<Arc<Shared>>,
    Named(moment): Named,
    Parameters(Happening { project_path, session_id, text }): Parameters<Happening>,
) -> Result<Json<Value>, ApiError> {
    let moment = match moment.as_str() {
        "prompt" => Moment::Prompt { text },
        "file" => Moment::File { path: text },
        "failure" => Moment::Failure { error: text },
        _ => return Err(ApiError::not_found("there are contexts for a prompt, a file and a failure")),
    };
    tell(&shared, project_path, session_id, moment).await
}

async fn tell(
    shared: &Shared,
    project_path: String,
    session_id: String,
    moment: Moment,
) -> Result<Json<Value>, ApiError> {
    let running = running(shared)?;
    let began = Instant::now();
    let settings = &running.config.context;
    let budget = match &moment {
        Moment::Prompt { .. } => settings.per_prompt_budget,
        Moment::File { .. } => settings.per_file_budget,
        Moment::Failure { .. } => settings.on_failure_budget,
    };
    let budget = usize::try_from(budget).unwrap_or(usize::MAX);
    let (session, event_type) = (SessionId(session_id), moment.event_type());
    let file = match &moment {
        Moment::File { path } => Some(path.clone()),
        _ => None,
    };
    let (here, asking) = (Arc::clone(&running), session.clone());
    running.index_what_waits().await;
    // Two hook sets ask at once, and one of them is to be told.
    let _turn = shared.telling.lock().await;
    let told = running.database.read(move |database| {
        let project = Project::of(project_path.as_ref(), &here.config.capture);
        let request = moment::Request {
            project: &project.name,
            project_path: &project.path.to_string_lossy(),
            session: &asking,
            settings: &here.config.search,
            now: clock::now(),
            budget,
        };
        moment::tell(database, &request, &moment)
    });
    let told = told.await?;
    if !told.text.is_empty() {
        let entry = LogEntry {
            event_type,
            session: Some(session),
            data: json!({"tokens": told.tokens, "budget": budget, "path": "worker", "shown": told.shown, "file": file}),
            duration_ms: Some(began.elapsed().as_secs_f64() * 1000.0),
            ..LogEntry::default()
        };
        // Before the answer: the next question must know what was shown.
        running.database.write(move |database| log(database, &entry, clock::now())).await?;
    }
    Ok(Json(json!({"context": told.text, "tokens": told.tokens, "shown": told.shown})))
}
