//! Activity of the service, its value, and the settings in force.

pub mod live;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::api::{self, Activity, ApiError, Days, Queued, Settings, Value, Within};
use crate::clock::{self, DAY};
use crate::model::Millis;
use crate::privacy::settings::in_force;
use crate::store::browse;
use crate::store::queue::admin;
use crate::worker::http::extract::Parameters;
use crate::worker::http::routes::{health_of, running};
use crate::worker::state::Shared;

/// Rows of each list: more than a screen, and few enough for a first visit of 60 KB.
const ROWS: u32 = 25;
/// Days of the heatmap.
const YEAR: Millis = 371;

/// `GET /api/activity`
pub async fn now(State(shared): State<Arc<Shared>>) -> Result<Json<Activity>, ApiError> {
    let running = running(&shared)?;
    let lists = running.database.read(|database| {
        let events = browse::latest_events(database, false, ROWS)?;
        Ok((events, browse::latest_notes(database, ROWS)?, browse::latest_events(database, true, ROWS)?))
    });
    let (events, notes, errors) = lists.await?;
    let (health, queue) = (health_of(&shared).await, running.queue_stats().await?);
    Ok(Json(Activity { health, queue, events, notes, errors, arrived: 0 }))
}

/// `GET /api/activity/days?project=`: notes by day, for a year.
pub async fn days(
    State(shared): State<Arc<Shared>>,
    Parameters(within): Parameters<Within>,
) -> Result<Json<Days>, ApiError> {
    let reading = move |database: &_| {
        let project = within.project.as_deref().filter(|project| !project.is_empty());
        // Noon of each day is on that day even if the clock changes.
        let noon = clock::day_start(clock::now()) + DAY / 2;
        let days = (0..=YEAR).rev().map(|back| clock::Day::local(noon - back * DAY));
        browse::days(database, project, days, clock::date)
    };
    Ok(Json(Days { days: running(&shared)?.database.read(reading).await? }))
}

#[derive(Deserialize)]
pub struct OnDay {
    date: Option<String>,
    project: Option<String>,
}

/// `GET /api/activity/day?date=&project=`: the notes of a day, by project; of today without a date.
pub async fn day(
    State(shared): State<Arc<Shared>>,
    Parameters(OnDay { date, project }): Parameters<OnDay>,
) -> Result<Json<api::HistoryDay>, ApiError> {
    let date = date.unwrap_or_else(|| clock::date(clock::now()));
    let Some(bounds) = clock::Day::of_date(&date) else {
        return Err(ApiError::bad_request(format!("'{date}' is not a date like 2026-11-18")));
    };
    let reading = move |database: &_| {
        let project = project.as_deref().filter(|project| !project.is_empty());
        browse::day(database, bounds, project)
    };
    let projects = running(&shared)?.database.read(reading).await?;
    Ok(Json(api::HistoryDay { date, projects }))
}

#[derive(Deserialize)]
pub struct Since {
    days: Option<u32>,
}

/// Default and maximum days of the report; entries of the event log are kept for 90.
const USUAL_DAYS: u32 = 30;
const MOST_DAYS: u32 = 366;

/// `GET /api/value?days=`
pub async fn value(
    State(shared): State<Arc<Shared>>,
    Parameters(Since { days }): Parameters<Since>,
) -> Result<Json<Value>, ApiError> {
    let days = days.unwrap_or(USUAL_DAYS).clamp(1, MOST_DAYS);
    let since = clock::first_of_days(days);
    let running = running(&shared)?;
    let percent = running.config.value.holdout_percent;
    let reading = move |database: &_| browse::report(database, days, since, clock::date, percent);
    Ok(Json(running.database.read(reading).await?))
}

/// `GET /api/settings`
pub async fn settings(State(shared): State<Arc<Shared>>) -> Result<Json<Settings>, ApiError> {
    let (file, environment) = (shared.home.config(), shared.environment.clone());
    let reading = tokio::task::spawn_blocking(move || in_force(&file, &environment));
    let settings = reading.await.map_err(|_| ApiError::degraded("cannot read the settings"))?;
    Ok(Json(Settings { settings }))
}

#[derive(Deserialize)]
pub struct Which {
    id: Option<i64>,
}

/// `POST /api/queue/retry?id=`: requeues an event that failed, or all of them.
pub async fn retry(
    State(shared): State<Arc<Shared>>,
    Parameters(Which { id }): Parameters<Which>,
) -> Result<Json<Queued>, ApiError> {
    let running = running(&shared)?;
    let retrying = running.database.write(move |database| admin::retry(database, id, clock::now()));
    let queued = retrying.await?;
    running.forget_counts();
    shared.nudge.notify_one();
    Ok(Json(Queued { queued }))
}
