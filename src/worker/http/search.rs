//! Search, the timeline around a hit, recent sessions, and projects.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;

use super::extract::{JsonBody, Parameters};
use super::routes::running;
use crate::api::{self, ApiError, Projects, SearchQuery, SearchResponse, Timeline};
use crate::clock;
use crate::project::Project;
use crate::responses;
use crate::search::{self, Request};
use crate::store::index::search as index;
use crate::store::projects;
use crate::worker::state::{Running, Shared};

/// `GET /api/search?q=…`
pub async fn search(
    State(shared): State<Arc<Shared>>,
    Parameters(query): Parameters<SearchQuery>,
) -> Result<Json<SearchResponse>, ApiError> {
    find(&shared, query).await
}

/// Search with the parameters in the body, because a query may be longer than a URL. Numbers and
/// true count as their words.
pub async fn search_posted(
    State(shared): State<Arc<Shared>>,
    JsonBody(body): JsonBody,
) -> Result<Json<SearchResponse>, ApiError> {
    let Value::Object(fields) = body else {
        return Err(ApiError::bad_request("the body must be a JSON object of parameters"));
    };
    let word = |value: Value| match value {
        Value::Null => Value::String(String::new()),
        Value::String(text) => Value::String(text),
        other => Value::String(other.to_string()),
    };
    let fields = Value::Object(fields.into_iter().map(|(name, value)| (name, word(value))).collect());
    find(&shared, JsonBody(fields).parse()?).await
}

async fn find(shared: &Arc<Shared>, mut query: SearchQuery) -> Result<Json<SearchResponse>, ApiError> {
    let running = running(shared)?;
    if !query.project_path.is_empty() {
        query.project = name_of(&running, std::mem::take(&mut query.project_path)).await?;
    }
    let began = std::time::Instant::now();
    let now = clock::now();
    let mut request = Request::from_query(&query, now).map_err(ApiError::bad_request)?;
    let settings = running.config.search.clone();
    running.index_waiting_rows().await;
    if shared.embedder.is_there() && request.has_meaning() {
        request.similarity =
            running.similarity.begin(shared, &request.query, request.filter.project.as_deref());
    }
    let found = running.database.read(move |database| {
        let found = search::search(database, &request, &settings)?;
        Ok(responses::found(&found, request.offset, now))
    });
    let mut found = found.await?;
    shared.mark_memory_used();
    found.took_ms = Some((began.elapsed().as_secs_f64() * 100_000.0).round() / 100.0);
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
const MAX_ENTRIES: u32 = 200;

/// `GET /api/timeline?anchor=…`
pub async fn timeline(
    State(shared): State<Arc<Shared>>,
    Parameters(around): Parameters<Around>,
) -> Result<Json<Timeline>, ApiError> {
    let anchor = responses::referred(&around.anchor)
        .ok_or_else(|| ApiError::bad_request("anchor must be an id from a search: 12, S12 or P12"))?;
    let (before, after) = (around.before.min(MAX_ENTRIES), around.after.min(MAX_ENTRIES));
    let entries = running(&shared)?
        .database
        .read(move |database| index::timeline(database, anchor, before, after))
        .await?;
    if entries.is_empty() {
        return Err(ApiError::not_found(format!("there is no memory {}", around.anchor)));
    }
    Ok(Json(responses::timeline(&entries, anchor, clock::now())))
}

#[derive(Deserialize)]
pub struct RecentQuery {
    project: Option<String>,
    project_path: Option<String>,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// `GET /api/recent?project=…`: the latest sessions and their open points.
pub async fn recent(
    State(shared): State<Arc<Shared>>,
    Parameters(recent): Parameters<RecentQuery>,
) -> Result<Json<api::Recent>, ApiError> {
    let limit = recent.limit.unwrap_or(5).clamp(1, 50);
    let running = running(&shared)?;
    let project = match (recent.project, recent.project_path) {
        (Some(project), _) => project,
        (None, Some(path)) => name_of(&running, path).await?,
        (None, None) => return Err(ApiError::bad_request("project or project_path is required")),
    };
    let sessions = running
        .database
        .read(move |database| responses::recent(database, &project, limit, recent.offset, clock::now()));
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
) -> Result<Json<api::ProjectName>, ApiError> {
    let running = running(&shared)?;
    Ok(Json(api::ProjectName { name: name_of(&running, located.path).await? }))
}

/// `GET /api/projects`: all projects with memories.
pub async fn list_projects(State(shared): State<Arc<Shared>>) -> Result<Json<Projects>, ApiError> {
    Ok(Json(running(&shared)?.database.read(responses::projects).await?))
}
