//! The pages by their addresses. Reads are here, writes in [`super::writes`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use maud::Markup;
use serde_json::json;

use super::pages::{self, PageFrame, SearchForm, Write, text};
use super::server::alive;
use super::service::{Asked, PageError};
use super::{Viewer, assets, notices, reply, writes};
use crate::api::{
    Activity, ApiError, ContextQuery, ContextResponse, Curated, Days, Events, HistoryDay, InSessionQuery,
    InSessionResponse, Memories, NoteHistory, Projects, SearchResponse, SessionHistory, Sessions, Settings,
    Value, route,
};

type Shared = State<Arc<Viewer>>;
/// Fields of an address, by name.
pub type Fields = Query<HashMap<String, String>>;

/// All pages.
pub fn router(viewer: Arc<Viewer>) -> Router {
    Router::new()
        .route("/", get(now))
        .route("/search", get(search))
        .route("/timeline", get(timeline))
        .route("/day/{date}", get(day))
        .route("/session/{id}", get(session))
        .route("/session/{id}/turn/{number}", get(turn))
        .route("/event/{id}", get(event))
        .route("/memory", get(curated))
        .route("/memory/{id}", get(memory))
        .route("/memory/{id}/{action}", post(writes::memory))
        .route("/veto/{id}/lift", post(writes::lift_veto))
        .route("/context", get(context))
        .route("/context/veto", post(writes::switch_off))
        .route("/value", get(value))
        .route("/health", get(health))
        .route("/health/{action}", post(writes::health))
        .route("/queue/retry", post(writes::retry))
        .route("/live", get(live))
        .route("/alive", get(alive::alive))
        .route("/assets/{name}", get(asset))
        .fallback(async || reply::refused(StatusCode::NOT_FOUND, "There is no such page."))
        .method_not_allowed_fallback(async || {
            reply::refused(StatusCode::METHOD_NOT_ALLOWED, "This address does not support this method.")
        })
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&viewer), seen))
        .with_state(viewer)
}

/// Records that somebody looks.
async fn seen(
    State(viewer): Shared,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    viewer.presence.note_request(Instant::now());
    next.run(request).await
}

impl Viewer {
    fn write(&self) -> Write<'_> {
        Write { token: self.access.form_token() }
    }

    async fn projects(&self) -> Asked<Projects> {
        self.service.get(route::PROJECTS, &()).await
    }

    /// Renders a page, or the reason why it cannot be shown.
    fn page(&self, page: &'static str, title: &str, fields: &Fields, content: Asked<Markup>) -> Response {
        match content {
            Ok(content) => {
                let notice = notices::notice(fields, &self.write());
                reply::page(PageFrame { page, title, notice }.around(&content))
            }
            Err(trouble) => {
                let status = if trouble.is_missing() { StatusCode::NOT_FOUND } else { StatusCode::OK };
                (status, reply::page(pages::trouble(page, &trouble))).into_response()
            }
        }
    }
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).map_or("", String::as_str)
}

async fn now(State(viewer): Shared, fields: Fields) -> Response {
    let content = async {
        let activity: Activity = viewer.service.get(route::ACTIVITY, &()).await?;
        let has_memories = !viewer.projects().await?.projects.is_empty();
        Ok(pages::now(&activity, has_memories, &viewer.write()))
    };
    viewer.page("now", "Now", &fields, content.await)
}

async fn search(State(viewer): Shared, fields: Fields, Query(form): Query<SearchForm>) -> Response {
    let content = async {
        let projects = viewer.projects().await?.projects;
        let found = match form.query() {
            None => None,
            Some(query) => match viewer.service.post::<SearchResponse>(route::SEARCH, &query).await {
                Ok(found) => Some(Ok(found)),
                Err(PageError::Refused(error)) => Some(Err(error.message)),
                Err(trouble) => return Err(trouble),
            },
        };
        Ok(pages::search(&form, &projects, found.as_ref()))
    };
    viewer.page("search", "Search", &fields, content.await)
}

async fn timeline(State(viewer): Shared, fields: Fields) -> Response {
    let (project, offset) = (field(&fields, "project"), field(&fields, "offset").parse().unwrap_or(0_u32));
    let content = async {
        let projects = viewer.projects().await?.projects;
        let days: Days = viewer.service.get(route::DAYS, &json!({"project": project})).await?;
        let named = (!project.is_empty()).then_some(project);
        let query = json!({"project": named, "limit": pages::SESSIONS + 1, "offset": offset});
        let sessions: Sessions = viewer.service.get(route::SESSIONS, &query).await?;
        Ok(pages::timeline(&projects, project, &days.days, &sessions.sessions, offset))
    };
    viewer.page("timeline", "Timeline", &fields, content.await)
}

async fn day(State(viewer): Shared, fields: Fields, Path(date): Path<String>) -> Response {
    let project = field(&fields, "project");
    let content = async {
        let Ok(parsed) = date.parse::<jiff::civil::Date>() else {
            return Err(PageError::Refused(ApiError::not_found("there is no such day")));
        };
        let query = json!({"date": parsed.to_string(), "project": project});
        let found: HistoryDay = viewer.service.get(route::DAY, &query).await?;
        Ok(pages::day(&found, parsed, project))
    };
    viewer.page("timeline", "Day", &fields, content.await)
}

async fn session(State(viewer): Shared, fields: Fields, Path(id): Path<String>) -> Response {
    let from = field(&fields, "from").parse().unwrap_or(0_i64);
    let found =
        viewer.service.get_by_id::<SessionHistory>(route::SESSION_HISTORY, &id, &json!({"from": from})).await;
    let title =
        found.as_ref().ok().and_then(|found| found.session.title.clone()).unwrap_or_else(|| "Session".into());
    viewer.page("timeline", &title, &fields, found.map(|found| pages::session(&found)))
}

async fn turn(State(viewer): Shared, fields: Fields, Path((id, number)): Path<(String, i64)>) -> Response {
    let found =
        viewer.service.get_by_id::<Events>(route::SESSION_EVENTS, &id, &json!({"prompt": number})).await;
    viewer.page("timeline", "Events", &fields, found.map(|found| pages::events(&id, number, &found.events)))
}

async fn event(State(viewer): Shared, fields: Fields, Path(id): Path<i64>) -> Response {
    let found = viewer.service.get_by_id::<Events>(route::EVENT, &id.to_string(), &()).await;
    let content = found.map(|found| found.events.first().map(pages::event).unwrap_or_default());
    viewer.page("timeline", "Event", &fields, content)
}

async fn curated(State(viewer): Shared, fields: Fields) -> Response {
    let project = field(&fields, "project");
    let content = async {
        let projects = viewer.projects().await?.projects;
        let curated: Curated = viewer.service.get(route::CURATED, &json!({"project": project})).await?;
        Ok(pages::curated(&curated, &projects, project, &viewer.write()))
    };
    viewer.page("memory", "Memory", &fields, content.await)
}

async fn memory(State(viewer): Shared, fields: Fields, Path(id): Path<String>) -> Response {
    if id.starts_with(['S', 'P', 's', 'p']) {
        let found = viewer.service.get::<Memories>(route::MEMORIES, &json!({"ids": id})).await;
        let missing = || PageError::Refused(ApiError::not_found(format!("there is no memory {id}")));
        let content = found.and_then(|found| found.memories.first().map(pages::document).ok_or_else(missing));
        return viewer.page("memory", "Memory", &fields, content);
    }
    let found = viewer.service.get_by_id::<NoteHistory>(route::NOTE, &id, &()).await;
    let title =
        found.as_ref().ok().and_then(|found| found.note.title.clone()).unwrap_or_else(|| "Memory".into());
    viewer.page("memory", &title, &fields, found.map(|found| pages::note(&found, &viewer.write())))
}

async fn context(State(viewer): Shared, fields: Fields) -> Response {
    let content = async {
        let projects = viewer.projects().await?.projects;
        let chosen =
            projects.iter().find(|project| project.name == field(&fields, "project")).or(projects.first());
        let trigger =
            Some(field(&fields, "trigger")).filter(|trigger| !trigger.is_empty()).unwrap_or("start");
        let asked = pages::ContextAsked {
            project: chosen.map_or("", |project| project.name.as_str()),
            trigger,
            text: field(&fields, "text"),
        };
        let path = chosen.map(|project| project.path.clone()).unwrap_or_default();
        let shown = shown(&viewer, &asked, path).await?;
        let shown = shown.as_ref().map_err(String::as_str);
        Ok(pages::context(&asked, &projects, shown, &viewer.write()))
    };
    viewer.page("context", "Context", &fields, content.await)
}

async fn shown(
    viewer: &Viewer,
    asked: &pages::ContextAsked<'_>,
    project_path: String,
) -> Asked<Result<pages::ContextShown, String>> {
    if project_path.is_empty() {
        return Ok(Err("The directory of this project is unknown, so its context cannot be built.".into()));
    }
    if asked.trigger == "start" {
        let query = ContextQuery { project_path, explain: true, ..ContextQuery::default() };
        let built: ContextResponse = viewer.service.get(route::CONTEXT, &query).await?;
        let lines = built.lines.unwrap_or_default();
        return Ok(Ok(pages::ContextShown {
            lines,
            tokens: built.tokens,
            text: built.context,
            last: built.last,
        }));
    }
    if asked.text.trim().is_empty() {
        return Ok(Err("Enter the prompt, the file or the error above.".into()));
    }
    let query = InSessionQuery {
        project_path,
        text: asked.text.to_owned(),
        explain: true,
        ..InSessionQuery::default()
    };
    let route = route::IN_SESSION.replace("{trigger}", asked.trigger);
    match viewer.service.get::<InSessionResponse>(&route, &query).await {
        Ok(built) => {
            let lines = built.lines.unwrap_or_default();
            Ok(Ok(pages::ContextShown { lines, tokens: built.tokens, text: built.context, last: None }))
        }
        Err(PageError::Refused(error)) => Ok(Err(error.message)),
        Err(trouble) => Err(trouble),
    }
}

async fn value(State(viewer): Shared, fields: Fields) -> Response {
    let days = field(&fields, "days").parse().unwrap_or(30_u32);
    let found = viewer.service.get::<Value>(route::VALUE, &json!({"days": days})).await;
    viewer.page("value", "Value", &fields, found.map(|found| pages::value(&found)))
}

/// Lines of the log on the page.
const LOG_LINES: usize = 200;

async fn health(State(viewer): Shared, fields: Fields) -> Response {
    let settings = viewer.service.get::<Settings>(route::SETTINGS, &()).await;
    let checked = viewer.checks.latest(&viewer);
    let machine = Arc::clone(&viewer.machine);
    let reading = tokio::task::spawn_blocking(move || (machine.backups(), machine.log(LOG_LINES)));
    let (backups, log) = reading.await.unwrap_or_else(|_| (Vec::new(), Ok(Vec::new())));
    let settings = settings.as_ref().map(|found| found.settings.as_slice()).map_err(PageError::message);
    let log = log.map_err(|error| text::cut(&format!("{error:#}"), 300));
    let settings = settings.as_ref().map(|settings| *settings).map_err(String::as_str);
    let content = pages::health(&checked, &backups, settings, &log, &viewer.write());
    viewer.page("health", "Health", &fields, Ok(content))
}

/// Passes the service's live feed on.
async fn live(State(viewer): Shared) -> Response {
    match viewer.service.stream(route::LIVE).await {
        Ok(feed) => (
            [(CONTENT_TYPE, "text/event-stream")],
            Body::new(alive::CountedBody::new(feed, viewer.presence.enter())),
        )
            .into_response(),
        Err(trouble) => reply::refused(StatusCode::SERVICE_UNAVAILABLE, &trouble.message()),
    }
}

async fn asset(Path(name): Path<String>) -> Response {
    assets::serve(&format!("/assets/{name}"))
}
