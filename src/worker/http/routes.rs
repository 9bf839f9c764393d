//! The routes of the HTTP API.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{ApiError, JsonBody, MOST_BODY_BYTES, Parameters};
use super::{context, curate, metrics, noted, recall, sessions};
use crate::store::log::spent_since;
use crate::store::queue::OpenWork;
use crate::store::{memory, queue};
use crate::worker::clock;
use crate::worker::state::{Running, Shared};

/// All routes.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/api/health", get(health))
        .route("/api/nudge", post(nudge))
        .route("/api/queue/stats", get(queue_stats))
        .route("/api/context", get(context::at_start))
        .route("/api/context/{trigger}", get(context::later))
        .route("/api/observations", get(observations))
        .route("/api/search", get(recall::search).post(recall::search_posted))
        .route("/api/timeline", get(recall::timeline))
        .route("/api/memories", get(recall::memories).post(curate::save))
        .route("/api/recent", get(recall::recent))
        .route("/api/projects", get(recall::list_projects))
        .route("/api/project", get(recall::project))
        .route("/api/observations/{id}", axum::routing::delete(curate::forget))
        .route("/api/observations/{id}/restore", post(curate::restore))
        .route("/api/summarize", post(sessions::summarize_now))
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/{id}", axum::routing::delete(sessions::stop))
        .route("/api/sessions/{id}/init", post(sessions::init))
        .route("/api/sessions/{id}/observations", post(sessions::observations))
        .route("/api/sessions/{id}/summarize", post(sessions::summarize))
        .route("/api/sessions/{id}/status", get(sessions::status))
        .route("/metrics", get(metrics::metrics))
        .fallback(async || ApiError::not_found("there is no such route"))
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
        .layer(axum::middleware::from_fn_with_state(shared.clone(), noted::note))
        .with_state(shared)
}

/// Returns the running state, or the error response of a degraded worker.
pub(super) fn running(shared: &Shared) -> Result<Arc<Running>, ApiError> {
    shared.running().map_err(ApiError::unavailable)
}

async fn health(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(health_of(&shared).await)
}

/// Builds the health response, which is always available and always in this format.
pub(super) async fn health_of(shared: &Shared) -> Value {
    let mut health = json!({
        "status": "degraded", "reason": null, "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(),
        "uptime_s": shared.started.elapsed().as_secs(), "queue_depth": null, "oldest_raw_age_s": null,
        "observations_today": null, "provider": null, "breaker": null, "memory_bytes": memory_bytes(),
        "cost_usd_today": null, "max_usd_per_day": null,
    });
    let figures = match shared.running() {
        Ok(running) => figures(&running).await.map(|figures| (running, figures)),
        Err(reason) => Err(reason),
    };
    match figures {
        Ok((running, (open, today, spent))) => {
            let provider = running.compressor.health();
            let problem = shared.trouble().or(provider.problem).or_else(|| shared.pressure());
            health["status"] = if problem.is_none() { json!("ok") } else { json!("degraded") };
            health["reason"] = json!(problem);
            health["queue_depth"] = json!(open.raw + open.processing);
            health["oldest_raw_age_s"] =
                json!(open.oldest_raw_at.map(|at| (clock::now() - at).max(0) / 1000));
            health["observations_today"] = json!(today);
            health["provider"] = json!(provider.name);
            health["breaker"] = json!(provider.breaker);
            health["cost_usd_today"] = json!(spent);
            health["max_usd_per_day"] = json!(running.config.cost.max_usd_per_day);
        }
        Err(reason) => health["reason"] = json!(reason),
    }
    health
}

async fn figures(running: &Running) -> Result<(OpenWork, i64, f64), String> {
    let day = clock::day_start(clock::now());
    let figures = running.database.read(move |database| {
        let observations = memory::observations_since(database, day)?;
        Ok((queue::open_work(database)?, observations, spent_since(database, day)?))
    });
    figures.await.map_err(|error| error.to_string())
}

/// Returns the resident memory, if the operating system reports it in a file.
pub(super) fn memory_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

async fn nudge(State(shared): State<Arc<Shared>>) -> StatusCode {
    shared.nudge.notify_one();
    StatusCode::ACCEPTED
}

async fn queue_stats(State(shared): State<Arc<Shared>>) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(running(&shared)?.queue_stats().await?))
}

#[derive(Deserialize)]
struct Ids {
    ids: String,
}

async fn observations(
    State(shared): State<Arc<Shared>>,
    Parameters(Ids { ids }): Parameters<Ids>,
) -> Result<Json<Value>, ApiError> {
    let parsed: Result<Vec<i64>, _> = ids.split(',').map(|id| id.trim().parse()).collect();
    let ids = parsed.map_err(|_| ApiError::bad_request("ids must be a list of numbers: ids=1,2,3"))?;
    let found =
        running(&shared)?.database.read(move |database| memory::observations_by_id(database, &ids)).await?;
    Ok(Json(json!({"observations": found})))
}

/// Body of routes that take a session id in it.
#[derive(Deserialize)]
pub(super) struct NamedSession {
    pub(super) session_id: String,
}

impl TryFrom<JsonBody> for NamedSession {
    type Error = ApiError;

    fn try_from(JsonBody(body): JsonBody) -> Result<Self, ApiError> {
        serde_json::from_value(body).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}
