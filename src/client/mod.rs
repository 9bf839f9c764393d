//! The memory for programs that are not the worker: commands, MCP tools, viewers.
//!
//! One rule for all of them: ask the worker; if there is none, or it is degraded, too slow or too
//! old for the route, open the database read-only and answer from it. A write opens it for one
//! short transaction. Other errors of the worker are final.

mod http;

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use hyper::Method;
use rusqlite::Connection;
use serde::de::DeserializeOwned;

use crate::api::{
    self, ApiError, Changed, ContextQuery, ContextResponse, Health, HistoryDay, InSessionQuery,
    InSessionResponse, Memories, MergeRequest, PinRequest, Projects, Recent, Saved, SearchQuery,
    SearchResponse, SessionHistory, Statement, SupersedeRequest, Timeline, VetoRequest, Vetoes, Within,
    route,
};
use crate::config::{Config, Environment};
use crate::context::Hint;
use crate::model::SessionId;
use crate::paths::Home;
use crate::project::Project;
use crate::repository::Repositories;
use crate::responses;
use crate::search::{self, Request, Similarity, embedding};
use crate::store::context::Shown;
use crate::store::corrections;
use crate::store::index::search as index;
use crate::store::index::search::Kind;
use crate::store::memory::manual::ChangeOutcome;
use crate::store::{self, StoreError, browse, projects};
use crate::worker::session_context::{self, ClientMemory, Files};
use crate::{clock, manual_memories};
pub use http::{Call, encoded};

/// The reason for a missing answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// There are no memories yet.
    #[error("no memories yet")]
    NoMemories,
    /// An error message to act on.
    #[error("{0}")]
    Message(String),
}

impl From<String> for ClientError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<ApiError> for ClientError {
    fn from(error: ApiError) -> Self {
        Self::Message(error.message)
    }
}

impl From<StoreError> for ClientError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing => Self::NoMemories,
            StoreError::Busy => Self::Message("the database is busy; try again shortly".into()),
            StoreError::Older(_) => Self::Message(format!("{error}; run `claude-mem start`")),
            _ => Self::Message(format!("{error}; run `claude-mem doctor`")),
        }
    }
}

/// Busy timeout, the same as the worker's: a hook holds the lock for a millisecond, a backup
/// longer.
const BUSY_MS: u32 = 5_000;

/// Access to the memory.
#[derive(Debug, Clone)]
pub struct MemoryClient {
    home: Home,
    environment: Environment,
    config: Config,
    /// True if a search without a worker may load the embedding model.
    may_embed: bool,
}

impl MemoryClient {
    /// Accesses the memory in that directory. An error in the settings is the worker's to report.
    pub fn new(home: Home, environment: Environment) -> Self {
        let (config, _) = Config::load_forgiving(&home.config(), &environment);
        Self { home, environment, config, may_embed: false }
    }

    /// Also embeds queries without a worker. That takes the model's memory until the process ends.
    pub fn embedding_queries(self) -> Self {
        Self { may_embed: true, ..self }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Searches.
    pub async fn search(&self, query: SearchQuery) -> Result<SearchResponse, ClientError> {
        // A POST, because a query may be longer than a URL.
        let call = Call::post(route::SEARCH, &query);
        let (models, may_embed) = (self.home.models(), self.may_embed);
        self.read(call, move |database, config| {
            let now = clock::now();
            let mut request = Request::from_query(&query, now)?;
            if may_embed
                && let Some(Ok(model)) = embedding::load(&models)
                && let Ok(Some(query)) = embedding::of_query(&request.query, &model)
            {
                request.similarity = Similarity::To(query);
            }
            Ok(responses::found(&search::search(database, &request, &config.search)?, request.offset, now))
        })
        .await
    }

    /// Returns the memories around one.
    pub async fn timeline(
        &self,
        anchor: (Kind, i64),
        before: u32,
        after: u32,
    ) -> Result<Timeline, ClientError> {
        let reference = responses::reference(anchor.0, anchor.1);
        let query = serde_json::json!({"anchor": reference, "before": before, "after": after});
        self.read(Call::get(route::TIMELINE, &query), move |database, _| {
            let entries = index::timeline(database, anchor, before, after)?;
            if entries.is_empty() {
                return Err(ClientError::Message(format!("there is no memory {reference}")));
            }
            Ok(responses::timeline(&entries, anchor, clock::now()))
        })
        .await
    }

    /// Returns memories in full.
    pub async fn memories(&self, ids: Vec<(Kind, i64)>) -> Result<Memories, ClientError> {
        let names: Vec<String> = ids.iter().map(|(kind, id)| responses::reference(*kind, *id)).collect();
        let call = Call::get(route::MEMORIES, &serde_json::json!({"ids": names.join(",")}));
        self.read(call, move |database, _| Ok(responses::memories(database, &ids, clock::now())?)).await
    }

    /// Returns the latest sessions of a project, and its learnings.
    pub async fn recent(&self, project: String, limit: u32, offset: u32) -> Result<Recent, ClientError> {
        let query = serde_json::json!({"project": project, "limit": limit, "offset": offset});
        self.read(Call::get(route::RECENT, &query), move |database, _| {
            Ok(responses::recent(database, &project, limit, offset, clock::now())?)
        })
        .await
    }

    /// Returns a session with its turns from a prompt number on. The beginning of its id is enough.
    pub async fn session(&self, id: &str, from: i64) -> Result<SessionHistory, ClientError> {
        let call = Call::on(Method::GET, route::SESSION_HISTORY, id, &serde_json::json!({"from": from}));
        let id = SessionId(id.to_owned());
        self.read(call, move |database, _| {
            let missing = || {
                ClientError::Message(format!(
                    "there is no session {}, or more than one begins so",
                    id.as_str()
                ))
            };
            browse::session(database, &id, from)?.ok_or_else(missing)
        })
        .await
    }

    /// Returns the work of a day, like `2026-11-18`, by project.
    pub async fn day(&self, date: &str, project: Option<String>) -> Result<HistoryDay, ClientError> {
        let call = Call::get(route::DAY, &serde_json::json!({"date": date, "project": project}));
        let date = date.to_owned();
        self.read(call, move |database, _| {
            let bounds = clock::Day::of_date(&date);
            let bounds = bounds.ok_or_else(|| ClientError::Message(format!("{date} is not a date")))?;
            Ok(HistoryDay { projects: browse::day(database, bounds, project.as_deref())?, date })
        })
        .await
    }

    /// Returns the projects with memories.
    pub async fn projects(&self) -> Result<Projects, ClientError> {
        self.read(Call::get(route::PROJECTS, &()), |database, _| Ok(responses::projects(database)?)).await
    }

    /// Returns the name of a directory's project.
    pub async fn project_name(&self, place: Project) -> Result<String, ClientError> {
        let call = Call::get(route::PROJECT, &serde_json::json!({"path": place.path}));
        let named = self.read(call, move |database, _| {
            Ok(api::ProjectName { name: projects::name_of(database, &place)? })
        });
        Ok(named.await?.name)
    }

    /// Saves a memory. Its uid makes a repetition harmless.
    pub async fn save(&self, statement: Statement) -> Result<Saved, ClientError> {
        let user_home = self.environment.user_home.clone();
        self.write(Call::post(route::MEMORIES, &statement), move |database, config| {
            let accepted =
                manual_memories::accept(statement, &config.capture, user_home.as_deref(), clock::now())?;
            Ok(manual_memories::keep(database, &accepted)?)
        })
        .await
    }

    /// Forgets a memory of a project, or restores it.
    pub async fn forget(&self, id: &str, undo: bool, project: &str) -> Result<Changed, ClientError> {
        let what = manual_memories::forgettable(id)?;
        let id = id.trim_start_matches('#').to_owned();
        let within = Within { project: Some(project.to_owned()) };
        let call = if undo {
            Call::on(Method::POST, route::RESTORE, &id, &within)
        } else {
            Call::on(Method::DELETE, route::OBSERVATION, &id, &within)
        };
        self.write(call, move |database, _| {
            let changed =
                manual_memories::forget(database, what, undo, within.project.as_deref(), clock::now())?;
            changed.ok_or_else(|| ClientError::Message(format!("there is no memory {id}")))
        })
        .await
    }

    /// Pins a memory, or unpins it.
    pub async fn pin(&self, id: &str, pinned: bool) -> Result<Changed, ClientError> {
        let what = manual_memories::forgettable(id)?;
        let call = Call::post(&on(route::PIN, id), &PinRequest { pinned });
        let reference = id.to_owned();
        self.write(call, move |database, _| {
            corrected(reference, corrections::pin(database, what, pinned, clock::now())?)
        })
        .await
    }

    /// Vetoes the statements of a memory.
    pub async fn veto(&self, id: &str) -> Result<Vetoes, ClientError> {
        let what = manual_memories::forgettable(id)?;
        let request = VetoRequest { memory: id.to_owned(), ..VetoRequest::default() };
        let call = Call::post(route::VETOES, &request);
        self.write(call, move |database, _| {
            Ok(Vetoes { vetoes: manual_memories::veto(database, what, clock::now())? })
        })
        .await
    }

    /// Marks a note as replaced by another one, or undoes it.
    pub async fn supersede(&self, id: i64, by: Option<i64>) -> Result<Changed, ClientError> {
        let call = Call::post(&on(route::SUPERSEDE, &id.to_string()), &SupersedeRequest { by });
        self.write(call, move |database, _| {
            corrected(id.to_string(), corrections::supersede(database, id, by)?)
        })
        .await
    }

    /// Merges notes into one.
    pub async fn merge(&self, id: i64, ids: Vec<i64>) -> Result<Changed, ClientError> {
        let call = Call::post(&on(route::MERGE, &id.to_string()), &MergeRequest { ids: ids.clone() });
        self.write(call, move |database, _| {
            corrected(id.to_string(), corrections::merge(database, id, &ids, clock::now())?)
        })
        .await
    }

    /// Returns the context of a session that starts.
    pub async fn context(&self, query: ContextQuery) -> Result<ContextResponse, ClientError> {
        let (hint, client_memory) = (Hint::of(&self.home), ClientMemory::of(&self.environment));
        self.read(Call::get(route::CONTEXT, &query), move |database, config| {
            let began = Instant::now();
            let repositories = Arc::new(Repositories::default());
            let built = session_context::build(database, config, &repositories, &query, &client_memory, hint);
            Ok(session_context::response(&built, began.elapsed(), query.explain))
        })
        .await
    }

    /// Returns the lines added for a `prompt`, a `file` or a `failure`.
    pub async fn in_session(
        &self,
        trigger: &str,
        query: InSessionQuery,
    ) -> Result<InSessionResponse, ClientError> {
        let parsed = session_context::trigger(trigger, &query)
            .ok_or_else(|| ClientError::Message(format!("unknown trigger {trigger}")))?;
        let call = Call::get(&route::IN_SESSION.replace("{trigger}", trigger), &query);
        self.read(call, move |database, config| {
            let repositories = Repositories::default();
            let built = session_context::in_session(
                database,
                config,
                &repositories,
                &query,
                &parsed,
                &Shown::default(),
                Files::Read,
            );
            Ok(built?.response)
        })
        .await
    }

    /// Returns the worker's response, or the result of `directly`.
    async fn read<R: DeserializeOwned + Send + 'static>(
        &self,
        call: Call,
        directly: impl FnOnce(&Connection, &Config) -> Result<R, ClientError> + Send + 'static,
    ) -> Result<R, ClientError> {
        if let Some(response) = self.ask(&call).await? {
            return Ok(response);
        }
        let Self { home, config, .. } = self.clone();
        blocking(move || directly(&store::open_to_recall(&home, BUSY_MS)?, &config)).await
    }

    /// The same for writes. They must be idempotent: a worker that did not respond may have done
    /// the write.
    async fn write<R: DeserializeOwned + Send + 'static>(
        &self,
        call: Call,
        directly: impl FnOnce(&mut Connection, &Config) -> Result<R, ClientError> + Send + 'static,
    ) -> Result<R, ClientError> {
        if let Some(response) = self.ask(&call).await? {
            return Ok(response);
        }
        let Self { home, config, .. } = self.clone();
        blocking(move || directly(&mut store::open_to_change(&home, BUSY_MS)?, &config)).await
    }

    /// Returns the worker's response; none if the database is to answer.
    async fn ask<R: DeserializeOwned>(&self, call: &Call) -> Result<Option<R>, ClientError> {
        match call.send(&self.home.socket()).await {
            Ok(Ok(response)) => Ok(Some(response)),
            Ok(Err(error)) if !error.code.permits_fallback() => Err(error.into()),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }
}

/// The route for a memory.
fn on(route: &str, id: &str) -> String {
    route.replace("{id}", &encoded(id.trim_start_matches('#')))
}

fn corrected(reference: String, outcome: Option<ChangeOutcome>) -> Result<Changed, ClientError> {
    let missing = || ClientError::Message(format!("there is no memory {reference}"));
    let ChangeOutcome { title, changed } = outcome.ok_or_else(missing)?;
    Ok(Changed { reference, title, changed })
}

/// Returns the worker's health. Connecting makes a service manager start a stopped worker.
pub async fn health(home: &Home) -> anyhow::Result<Health> {
    Ok(Call::get(route::HEALTH, &()).send(&home.socket()).await??)
}

/// Waits for a request on this thread.
pub fn block_on<F: Future>(future: F) -> anyhow::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

/// Runs work off the thread that serves the client.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, ClientError> + Send + 'static,
) -> Result<R, ClientError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ClientError::Message("internal error; run `claude-mem doctor`".into())))
}
