//! The routes of the HTTP API.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};

use super::extract::MAX_BODY_BYTES;
use super::{
    activity, context, corrections, error, history, memories, metrics, request_log, search, session_jobs,
    sessions,
};
use crate::api::{ApiError, Health, HealthStatus, QueueStats, route};
use crate::clock;
use crate::llm::SessionJobs;
use crate::store::log::spent_since;
use crate::store::memory;
use crate::store::queue::{self, OpenWork};
use crate::worker::state::{Running, Shared};

/// All routes.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(route::HEALTH, get(health))
        .route(route::NUDGE, post(nudge))
        .route(route::QUEUE_STATS, get(queue_stats))
        .route(route::CONTEXT, get(context::at_start))
        .route(route::IN_SESSION, get(context::in_session))
        .route(route::SEARCH, get(search::search).post(search::search_posted))
        .route(route::TIMELINE, get(search::timeline))
        .route(route::MEMORIES, get(memories::get).post(memories::save))
        .route(route::OBSERVATIONS, get(memories::observations))
        .route(route::OBSERVATION, delete(memories::forget))
        .route(route::RESTORE, post(memories::restore))
        .route(route::RECENT, get(search::recent))
        .route(route::PROJECTS, get(search::list_projects))
        .route(route::PROJECT, get(search::project))
        .route(route::SESSIONS, get(sessions::list))
        .route(route::SESSION, delete(sessions::stop))
        .route(route::SESSION_INIT, post(sessions::init))
        .route(route::SESSION_OBSERVATIONS, post(sessions::observations))
        .route(route::SESSION_SUMMARIZE, post(sessions::summarize))
        .route(route::SESSION_STATUS, get(sessions::status))
        .route(route::SUMMARIZE, post(sessions::summarize_now))
        .route(route::SESSION_HISTORY, get(history::session))
        .route(route::SESSION_EVENTS, get(history::events))
        .route(route::EVENT, get(history::event))
        .route(route::NOTE, get(history::note))
        .route(route::EDIT, post(corrections::edit))
        .route(route::PIN, post(corrections::pin))
        .route(route::MERGE, post(corrections::merge))
        .route(route::SUPERSEDE, post(corrections::supersede))
        .route(route::KEEP, post(corrections::keep))
        .route(route::VETOES, post(corrections::veto))
        .route(route::VETO, delete(corrections::lift_veto))
        .route(route::CURATED, get(corrections::curated))
        .route(route::ACTIVITY, get(activity::now))
        .route(route::LIVE, get(activity::live::stream))
        .route(route::DAYS, get(activity::days))
        .route(route::DAY, get(activity::day))
        .route(route::VALUE, get(activity::value))
        .route(route::SETTINGS, get(activity::settings))
        .route(route::RETRY, post(activity::retry))
        .route(route::SESSION_JOBS, post(session_jobs::take))
        .route(route::SESSION_JOB, post(session_jobs::answer))
        .route(route::METRICS, get(metrics::metrics))
        .fallback(async || error::unknown_route())
        .method_not_allowed_fallback(async || error::wrong_method())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(axum::middleware::from_fn_with_state(shared.clone(), request_log::log_request))
        .with_state(shared)
}

/// Returns the running state, or the error response of a degraded worker.
pub(super) fn running(shared: &Shared) -> Result<Arc<Running>, ApiError> {
    shared.running().map_err(ApiError::degraded)
}

async fn health(State(shared): State<Arc<Shared>>) -> Json<Health> {
    Json(health_of(&shared).await)
}

/// Builds the health response, which is always available and always in this format.
pub(super) async fn health_of(shared: &Shared) -> Health {
    let health = Health {
        status: HealthStatus::Degraded,
        version: Some(env!("CARGO_PKG_VERSION").into()),
        pid: Some(std::process::id()),
        uptime_s: Some(shared.started.elapsed().as_secs()),
        memory_bytes: memory_bytes(),
        ..Health::default()
    };
    let figures = match shared.running() {
        Ok(running) => figures(&running).await.map(|figures| (running, figures)),
        Err(reason) => Err(reason),
    };
    let (running, (open, today, spent)) = match figures {
        Ok(figures) => figures,
        Err(reason) => return Health { reason: Some(reason), ..health },
    };
    let provider = running.compressor.health();
    let problem = shared.trouble().or(provider.problem).or_else(|| shared.pressure());
    Health {
        status: if problem.is_none() { HealthStatus::Ok } else { HealthStatus::Degraded },
        reason: problem,
        queue_depth: Some(open.raw + open.processing),
        oldest_raw_age_s: open.oldest_raw_at.map(|at| (clock::now() - at).max(0) / 1000),
        observations_today: Some(today),
        provider: Some(provider.name.to_owned()),
        breaker: Some(provider.breaker.to_owned()),
        session_asked_at: running.compressor.session_jobs().and_then(SessionJobs::last_asked_at),
        cost_usd_today: Some(spent),
        max_usd_per_day: Some(running.config.cost.max_usd_per_day),
        ..health
    }
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

async fn queue_stats(State(shared): State<Arc<Shared>>) -> Result<Json<QueueStats>, ApiError> {
    Ok(Json(running(&shared)?.queue_stats().await?))
}
