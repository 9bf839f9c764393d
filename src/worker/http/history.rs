//! The record for people who look through it: sessions with their turns, notes with their evidence.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use super::extract::{Named, Parameters};
use super::routes::running;
use crate::api::{ApiError, Events, NoteHistory, SessionHistory};
use crate::clock;
use crate::config::SearchSettings as Settings;
use crate::model::SessionId;
use crate::search::{self, Filter, Request};
use crate::store::index::search::Kind;
use crate::store::{StoreError, browse};
use crate::worker::state::Shared;

#[derive(Deserialize)]
pub struct From {
    #[serde(default)]
    from: i64,
}

/// `GET /api/sessions/{id}/history?from=`
pub async fn session(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    Parameters(From { from }): Parameters<From>,
) -> Result<Json<SessionHistory>, ApiError> {
    let session = SessionId(id);
    let found =
        running(&shared)?.database.read(move |database| browse::session(database, &session, from)).await?;
    found.map(Json).ok_or_else(|| ApiError::not_found("there is no such session, or more than one begins so"))
}

#[derive(Deserialize)]
pub struct OfTurn {
    prompt: Option<i64>,
}

/// `GET /api/sessions/{id}/events?prompt=`: the events of a turn.
pub async fn events(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
    Parameters(OfTurn { prompt }): Parameters<OfTurn>,
) -> Result<Json<Events>, ApiError> {
    let session = SessionId(id);
    let reading = move |database: &_| browse::events_of_turn(database, &session, prompt);
    Ok(Json(Events { events: running(&shared)?.database.read(reading).await? }))
}

/// `GET /api/events/{id}`: one event with its whole payload.
pub async fn event(State(shared): State<Arc<Shared>>, Named(id): Named) -> Result<Json<Events>, ApiError> {
    let id = number(&id)?;
    let found = running(&shared)?.database.read(move |database| browse::event(database, id)).await?;
    let found = found.ok_or_else(|| ApiError::not_found("this event is no longer kept"))?;
    Ok(Json(Events { events: vec![found] }))
}

/// `GET /api/notes/{id}`: a note with its evidence, its versions, and the contexts that showed it.
pub async fn note(
    State(shared): State<Arc<Shared>>,
    Named(id): Named,
) -> Result<Json<NoteHistory>, ApiError> {
    let id = number(&id)?;
    let running = running(&shared)?;
    running.index_waiting_rows().await;
    let settings = running.config.search.clone();
    let found = running.database.read(move |database| {
        let Some(mut found) = browse::note(database, id)? else { return Ok(None) };
        found.similar = similar(database, &found, &settings)?;
        Ok(Some(found))
    });
    found.await?.map(Json).ok_or_else(|| ApiError::not_found(format!("there is no memory {id}")))
}

/// Score from which on a note that was found by the title of another may say the same.
const SIMILAR_FROM: f64 = 0.6;
/// Maximum similar notes.
const MOST_SIMILAR: usize = 5;

fn similar(
    database: &rusqlite::Connection,
    history: &NoteHistory,
    settings: &Settings,
) -> Result<Vec<crate::api::NoteLine>, StoreError> {
    let note = &history.note;
    let Some(title) = note.title.clone().filter(|_| history.deleted_at.is_none()) else {
        return Ok(Vec::new());
    };
    let filter =
        Filter { project: Some(note.project.clone()), kinds: vec![Kind::Observation], ..Filter::default() };
    let request = Request {
        query: title,
        filter,
        limit: MOST_SIMILAR + 1,
        without_text: true,
        now: clock::now(),
        ..Request::default()
    };
    let hits = search::search(database, &request, settings)?.hits;
    let mut ids: Vec<i64> = Vec::new();
    for hit in hits.iter().filter(|hit| hit.score >= SIMILAR_FROM) {
        ids.extend([hit.id].iter().chain(&hit.similar).filter(|id| **id != note.id));
    }
    ids.truncate(MOST_SIMILAR);
    browse::notes_by_id(database, &ids)
}

pub(super) fn number(id: &str) -> Result<i64, ApiError> {
    let number = id.trim_start_matches('#').parse().ok().filter(|id| *id > 0);
    number.ok_or_else(|| ApiError::bad_request(format!("'{id}' is not an id; an id is a number")))
}
