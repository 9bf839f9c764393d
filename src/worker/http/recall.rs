//! Recall in three steps: search, the timeline around a hit, full memories.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{ApiError, JsonBody, Parameters};
use super::routes::running;
use crate::project::Project;
use crate::search::parameters::Parameters as Named;
use crate::search::{self, Request, answer};
use crate::store::{projects, search as index};
use crate::worker::clock;
use crate::worker::state::{Running, Shared};

/// `GET /api/search?q=…`
pub async fn search(
    State(shared): State<Arc<Shared>>,
    Parameters(parameters): Parameters<Named>,
) -> Result<Json<Value>, ApiError> {
    find(&shared, parameters).await
}

/// Search with the parameters in the body, because a query may be longer than a URL.
pub async fn search_posted(
    State(shared): State<Arc<Shared>>,
    JsonBody(body): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let Value::Object(fields) = body else {
        return Err(ApiError::bad_request("the body must be a JSON object of parameters"));
    };
    let word = |value: Value| match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    find(&shared, fields.into_iter().map(|(name, value)| (name, word(value))).collect()).await
}

async fn find(shared: &Arc<Shared>, mut parameters: Named) -> Result<Json<Value>, ApiError> {
    let running = running(shared)?;
    if let Some(path) = parameters.remove("project_path").filter(|path| !path.is_empty()) {
        parameters.insert("project".into(), name_of(&running, path).await?);
    }
    let began = std::time::Instant::now();
    let now = clock::now();
    let mut request = Request::from_parameters(&parameters, now).map_err(ApiError::bad_request)?;
    let settings = running.config.search.clone();
    running.index_what_waits().await;
    if shared.mind.is_there() && request.has_meaning() {
        request.alike = running.comparing.begin(shared, &request.query, request.filter.project.as_deref());
    }
    let found = running.database.read(move |database| {
        let found = search::search(database, &request, &settings)?;
        Ok(answer::found(&found, request.offset, now))
    });
    let mut found = found.await?;
    shared.note_asked();
    found["took_ms"] = json!((began.elapsed().as_secs_f64() * 100_000.0).round() / 100.0);
    Ok(Json(found))
}

#[derive(Deserialize)]
pub struct Around {
    anchor: String,
    #[serde(default = "usual_reach")]
    before: u32,
    #[serde(default = "usual_reach")]
    after: u32,
}

fn usual_reach() -> u32 {
    5
}

/// Maximum entries on each side of the anchor.
const MOST_MOMENTS: u32 = 200;

/// `GET /api/timeline?anchor=…`
pub async fn timeline(
    State(shared): State<Arc<Shared>>,
    Parameters(around): Parameters<Around>,
) -> Result<Json<Value>, ApiError> {
    let anchor = answer::referred(&around.anchor)
        .ok_or_else(|| ApiError::bad_request("anchor must be an id from a search: 12, S12 or P12"))?;
    let (before, after) = (around.before.min(MOST_MOMENTS), around.after.min(MOST_MOMENTS));
    let moments = running(&shared)?
        .database
        .read(move |database| index::timeline(database, anchor, before, after))
        .await?;
    if moments.is_empty() {
        return Err(ApiError::not_found(format!("there is no memory {}", around.anchor)));
    }
    Ok(Json(answer::timeline(&moments, anchor, clock::now())))
}

#[derive(Deserialize)]
pub struct Wanted {
    ids: String,
}

/// `GET /api/memories?ids=12,S3,P4`: full memories of any kind.
pub async fn memories(
    State(shared): State<Arc<Shared>>,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<Value>, ApiError> {
    let ids: Option<Vec<_>> = wanted.ids.split(',').map(answer::referred).collect();
    let ids =
        ids.ok_or_else(|| ApiError::bad_request("ids must be a list of ids from a search: ids=12,S3,P4"))?;
    let running = running(&shared)?;
    Ok(Json(running.database.read(move |database| answer::memories(database, &ids, clock::now())).await?))
}

#[derive(Deserialize)]
pub struct Recent {
    project: Option<String>,
    project_path: Option<String>,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// `GET /api/recent?project=…`: the latest sessions and their open points.
pub async fn recent(
    State(shared): State<Arc<Shared>>,
    Parameters(recent): Parameters<Recent>,
) -> Result<Json<Value>, ApiError> {
    let limit = recent.limit.unwrap_or(5).clamp(1, 50);
    let running = running(&shared)?;
    let project = match (recent.project, recent.project_path) {
        (Some(project), _) => project,
        (None, Some(path)) => name_of(&running, path).await?,
        (None, None) => return Err(ApiError::bad_request("project or project_path is required")),
    };
    let sessions = running
        .database
        .read(move |database| answer::recent(database, &project, limit, recent.offset, clock::now()));
    Ok(Json(sessions.await?))
}

/// Returns the name of the project that a directory belongs to.
pub async fn name_of(running: &Running, path: String) -> Result<String, ApiError> {
    let capture = running.config.capture.clone();
    let naming = move |database: &_| projects::name_of(database, &Project::of(path.as_ref(), &capture));
    Ok(running.database.read(naming).await?)
}

#[derive(Deserialize)]
pub struct Located {
    path: String,
}

/// `GET /api/project?path=…`: the project that a directory belongs to.
pub async fn project(
    State(shared): State<Arc<Shared>>,
    Parameters(located): Parameters<Located>,
) -> Result<Json<Value>, ApiError> {
    let running = running(&shared)?;
    Ok(Json(json!({"name": name_of(&running, located.path).await?})))
}

/// `GET /api/projects`: all projects with memories.
pub async fn list_projects(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, ApiError> {
    Ok(Json(running(&shared)?.database.read(answer::projects).await?))
}
