//! The HTTP API of the service, as types: requests, responses, error codes and routes.
//!
//! The worker serializes these types and the client parses them; `--json` prints them. `docs/api.md`
//! describes them, and a test compares it with them.

mod context;
mod error;
mod memories;
mod sessions;
mod status;

pub use context::{
    ContextLine, ContextQuery, ContextResponse, InSessionQuery, InSessionResponse, PrintedContext,
};
pub use error::{ApiError, ErrorBody, ErrorCode};
pub use memories::{
    Changed, Correction, Hit, KnownProject, LearningLine, Memories, Memory, ObservationRow, Observations,
    Project, Projects, Recent, RecentSession, Saved, ScoreParts, SearchQuery, SearchResponse, Statement,
    Timeline, TimelineEntry, Within,
};
pub use sessions::{Queued, SessionRow, SessionStatus, Sessions, SessionsQuery, Stopped, Summarize, Summary};
pub use status::{
    DatabaseStatus, Health, HealthStatus, Overview, ProviderStatus, QueueStats, Recovery, Status,
};

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
    /// GET with `path`: [`Project`](super::Project).
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
    /// GET: Prometheus' text format.
    pub const METRICS: &str = "/metrics";

    /// Every route with its methods, in the order of the documentation.
    pub const ALL: [(&str, &str); 22] = [
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
        ("GET", METRICS),
    ];
}
