//! The HTTP API of the service, as types: requests, responses, error codes and routes.
//!
//! The worker serializes these types and the client parses them; `--json` prints them. `docs/api.md`
//! describes them, and a test compares it with them.

mod activity;
mod context;
mod corrections;
mod error;
mod history;
mod memories;
mod session_jobs;
mod sessions;
mod status;
mod value;

pub use activity::{Activity, DayCount, Days, Setting, Settings, Value, ValueRow};
pub use context::{
    ContextLine, ContextQuery, ContextResponse, InSessionQuery, InSessionResponse, LastContext,
    PrintedContext,
};
pub use corrections::{
    Curated, EditRequest, LearningRow, MergeRequest, PinRequest, StaleNote, SupersedeRequest, Veto,
    VetoRequest, Vetoes,
};
pub use error::{ApiError, ErrorBody, ErrorCode};
pub use history::{
    EventLine, Events, HistoryDay, Injection, NoteHistory, NoteLine, NoteVersion, ProjectDay, SessionDay,
    SessionHistory, SessionTurn, step_name,
};
pub use memories::{
    Changed, Correction, Hit, KnownProject, LearningLine, Memories, Memory, ObservationRow, Observations,
    ProjectName, Projects, Recent, RecentSession, Saved, ScoreParts, SearchQuery, SearchResponse, Statement,
    Timeline, TimelineEntry, Within,
};
pub use session_jobs::{SessionAnswer, SessionJob, SessionJobQuery, SessionOffer, SessionUsage};
pub use sessions::{Queued, SessionRow, SessionStatus, Sessions, SessionsQuery, Stopped, Summarize, Summary};
pub use status::{
    DatabaseStatus, Health, HealthStatus, Overview, ProviderStatus, QueueStats, Recovery, Status,
};
pub use value::{Again, Effects, Holdout, Measure, Moment};

/// Paths of the routes. A `{…}` segment stands for a value.
pub mod route {
    /// GET: [`Health`](super::Health).
    pub const HEALTH: &str = "/api/health";
    /// POST: wakes the queue processor.
    pub const NUDGE: &str = "/api/nudge";
    /// GET: [`QueueStats`](super::QueueStats).
    pub const QUEUE_STATS: &str = "/api/queue/stats";
    /// GET with [`ContextQuery`](super::ContextQuery): [`ContextResponse`](super::ContextResponse).
    pub const CONTEXT: &str = "/api/context";
    /// GET with [`InSessionQuery`](super::InSessionQuery): [`InSessionResponse`](super::InSessionResponse).
    /// The trigger is `prompt`, `file` or `failure`.
    pub const IN_SESSION: &str = "/api/context/{trigger}";
    /// GET with `ids`: [`Observations`](super::Observations).
    pub const OBSERVATIONS: &str = "/api/observations";
    /// DELETE: [`Changed`](super::Changed).
    pub const OBSERVATION: &str = "/api/observations/{id}";
    /// POST: [`Changed`](super::Changed).
    pub const RESTORE: &str = "/api/observations/{id}/restore";
    /// GET or POST with [`SearchQuery`](super::SearchQuery): [`SearchResponse`](super::SearchResponse).
    pub const SEARCH: &str = "/api/search";
    /// GET with `anchor`, `before` and `after`: [`Timeline`](super::Timeline).
    pub const TIMELINE: &str = "/api/timeline";
    /// GET with `ids`: [`Memories`](super::Memories). POST of a [`Statement`](super::Statement):
    /// [`Saved`](super::Saved).
    pub const MEMORIES: &str = "/api/memories";
    /// GET: [`Recent`](super::Recent).
    pub const RECENT: &str = "/api/recent";
    /// GET: [`Projects`](super::Projects).
    pub const PROJECTS: &str = "/api/projects";
    /// GET with `path`: [`ProjectName`](super::ProjectName).
    pub const PROJECT: &str = "/api/project";
    /// POST of a [`Summarize`](super::Summarize): [`Summary`](super::Summary).
    pub const SUMMARIZE: &str = "/api/summarize";
    /// GET with [`SessionsQuery`](super::SessionsQuery): [`Sessions`](super::Sessions).
    pub const SESSIONS: &str = "/api/sessions";
    /// DELETE: [`Stopped`](super::Stopped).
    pub const SESSION: &str = "/api/sessions/{id}";
    /// POST: [`Queued`](super::Queued).
    pub const SESSION_INIT: &str = "/api/sessions/{id}/init";
    /// POST: [`Queued`](super::Queued).
    pub const SESSION_OBSERVATIONS: &str = "/api/sessions/{id}/observations";
    /// POST: [`Queued`](super::Queued).
    pub const SESSION_SUMMARIZE: &str = "/api/sessions/{id}/summarize";
    /// GET: [`SessionStatus`](super::SessionStatus).
    pub const SESSION_STATUS: &str = "/api/sessions/{id}/status";
    /// GET with `from`: [`SessionHistory`](super::SessionHistory). The beginning of an id is enough if only one session has it.
    pub const SESSION_HISTORY: &str = "/api/sessions/{id}/history";
    /// GET with `prompt`: [`Events`](super::Events) of a turn.
    pub const SESSION_EVENTS: &str = "/api/sessions/{id}/events";
    /// GET: [`Events`](super::Events) with one event and its whole payload.
    pub const EVENT: &str = "/api/events/{id}";
    /// GET: [`NoteHistory`](super::NoteHistory).
    pub const NOTE: &str = "/api/notes/{id}";
    /// POST of an [`EditRequest`](super::EditRequest): [`Changed`](super::Changed).
    pub const EDIT: &str = "/api/observations/{id}/edit";
    /// POST of a [`PinRequest`](super::PinRequest): [`Changed`](super::Changed).
    pub const PIN: &str = "/api/observations/{id}/pin";
    /// POST of a [`MergeRequest`](super::MergeRequest): [`Changed`](super::Changed).
    pub const MERGE: &str = "/api/observations/{id}/merge";
    /// POST of a [`SupersedeRequest`](super::SupersedeRequest): [`Changed`](super::Changed).
    pub const SUPERSEDE: &str = "/api/observations/{id}/supersede";
    /// POST: confirms a stale note; [`Changed`](super::Changed).
    pub const KEEP: &str = "/api/observations/{id}/keep";
    /// POST of a [`VetoRequest`](super::VetoRequest): [`Vetoes`](super::Vetoes).
    pub const VETOES: &str = "/api/vetoes";
    /// DELETE: [`Changed`](super::Changed).
    pub const VETO: &str = "/api/vetoes/{id}";
    /// GET with `project`: [`Curated`](super::Curated).
    pub const CURATED: &str = "/api/curated";
    /// GET: [`Activity`](super::Activity).
    pub const ACTIVITY: &str = "/api/activity";
    /// GET: a stream of server-sent events, each an [`Activity`](super::Activity) with the rows since the last one.
    pub const LIVE: &str = "/api/activity/live";
    /// GET with `project`: [`Days`](super::Days).
    pub const DAYS: &str = "/api/activity/days";
    /// GET with `date` and `project`: [`HistoryDay`](super::HistoryDay).
    pub const DAY: &str = "/api/activity/day";
    /// GET with `days`: [`Value`](super::Value).
    pub const VALUE: &str = "/api/value";
    /// GET: [`Settings`](super::Settings).
    pub const SETTINGS: &str = "/api/settings";
    /// POST with `id`, or all: [`Queued`](super::Queued).
    pub const RETRY: &str = "/api/queue/retry";
    /// POST with [`SessionJobQuery`](super::SessionJobQuery), from a session for the provider `session`:
    /// [`SessionOffer`](super::SessionOffer).
    pub const SESSION_JOBS: &str = "/api/session-jobs";
    /// POST of a [`SessionAnswer`](super::SessionAnswer): 202, or `not_found` if the service no longer waits for it.
    pub const SESSION_JOB: &str = "/api/session-jobs/{id}";
    /// GET: Prometheus' text format.
    pub const METRICS: &str = "/metrics";

    /// Every route with its methods, in the order of the documentation.
    pub const ALL: [(&str, &str); 43] = [
        ("GET", HEALTH),
        ("POST", NUDGE),
        ("GET", QUEUE_STATS),
        ("GET", CONTEXT),
        ("GET", IN_SESSION),
        ("GET, POST", SEARCH),
        ("GET", TIMELINE),
        ("GET, POST", MEMORIES),
        ("GET", OBSERVATIONS),
        ("DELETE", OBSERVATION),
        ("POST", RESTORE),
        ("GET", RECENT),
        ("GET", PROJECTS),
        ("GET", PROJECT),
        ("GET", SESSIONS),
        ("DELETE", SESSION),
        ("POST", SESSION_INIT),
        ("POST", SESSION_OBSERVATIONS),
        ("POST", SESSION_SUMMARIZE),
        ("GET", SESSION_STATUS),
        ("POST", SUMMARIZE),
        ("GET", SESSION_HISTORY),
        ("GET", SESSION_EVENTS),
        ("GET", EVENT),
        ("GET", NOTE),
        ("POST", EDIT),
        ("POST", PIN),
        ("POST", MERGE),
        ("POST", SUPERSEDE),
        ("POST", KEEP),
        ("POST", VETOES),
        ("DELETE", VETO),
        ("GET", CURATED),
        ("GET", ACTIVITY),
        ("GET", LIVE),
        ("GET", DAYS),
        ("GET", DAY),
        ("GET", VALUE),
        ("GET", SETTINGS),
        ("POST", RETRY),
        ("POST", SESSION_JOBS),
        ("POST", SESSION_JOB),
        ("GET", METRICS),
    ];
}
