//! The tool calls: arguments in, text out. A failure is also a text, with advice.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;

use super::arguments::Arguments;
use super::client_project::ClientProject;
use super::memory_release::MemoryRelease;
use super::{render, tools};
use crate::api::{SearchQuery, Statement};
use crate::client::{ClientError, MemoryClient};
use crate::config::Environment;
use crate::manual_memories;
use crate::paths::Home;
use crate::responses;
use crate::store::index::search::Kind;
use crate::store::memory::new_uid;

/// The newest protocol version that starts with `initialize`, as this server does.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The server.
#[derive(Debug, Clone)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tools: Vec<Tool>,
    home: Home,
    memory: MemoryClient,
    memory_release: MemoryRelease,
    here: ClientProject,
    environment: Environment,
    /// The latest search, and the state its first page was taken from, so that further pages are
    /// consistent.
    paging: Mutex<Option<(String, String)>>,
}

impl Server {
    /// For the memory in that directory, with these tools.
    pub fn new(home: Home, environment: Environment, tools: Vec<Tool>) -> Self {
        let here = ClientProject::new(&environment);
        Self(Arc::new(Inner {
            tools,
            memory: MemoryClient::new(home.clone(), environment.clone()),
            memory_release: MemoryRelease::default(),
            home,
            here,
            environment,
            paging: Mutex::new(None),
        }))
    }

    /// Schedules the release of unused memory; another call cancels it.
    pub fn release_memory_later(&self) {
        self.0.memory_release.schedule();
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("claude-mem", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(NEWEST);
        match tools::instructions(&self.0.tools) {
            Some(instructions) => config.with_instructions(instructions),
            None => config,
        }
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if context.peer.peer_info().is_some_and(|client| client.client_info.name.starts_with("claude")) {
            // So that a session's context can mention the tools. Best effort.
            let _ = std::fs::File::create(self.0.home.tools_asked());
        }
        Ok(ListToolsResult::with_all_items(self.0.tools.clone()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = &self.0.tools;
        let Some(tool) = tools.iter().find(|tool| tool.name == call.name).cloned() else {
            let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
            let message = format!("unknown tool '{}'; available tools: {}", call.name, names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let RequestContext { ct: cancelled, peer, .. } = context;
        let inner = self.0.clone();
        // Runs in its own task: if it panics, the client still gets a response.
        let mut calling =
            tokio::spawn(async move { inner.call(&tool, call.arguments.unwrap_or_default(), &peer).await });
        let answer = tokio::select! {
            answer = &mut calling => answer,
            () = cancelled.cancelled() => {
                calling.abort();
                self.release_memory_later();
                // The client ignores this result.
                return Ok(call_result(Err(ClientError::Message("cancelled".into()))).into());
            }
        };
        self.release_memory_later();
        let panicked = "internal error; run `claude-mem doctor`";
        Ok(call_result(answer.unwrap_or_else(|_| Err(ClientError::Message(panicked.into())))).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A malformed tool call.
        if request.method == "tools/call" {
            let advice = "a call needs a name, and arguments that are an object: {\"name\": \"search\", \"arguments\": \
                          {\"query\": \"…\"}}";
            let result = call_result(Err(ClientError::Message(advice.into())));
            return Ok(CustomResult::new(
                json!({"content": [{"type": "text", "text": advice}], "isError": result.is_error}),
            ));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method '{}'", request.method), None))
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.0.here.forget();
    }
}

/// Converts an answer to a tool result. An empty memory is not a failure.
fn call_result(answer: Result<String, ClientError>) -> CallToolResult {
    match answer {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(ClientError::NoMemories) => CallToolResult::success(vec![ContentBlock::text("No memories yet.")]),
        Err(ClientError::Message(text)) => CallToolResult::error(vec![ContentBlock::text(text)]),
    }
}

/// Maximum items per call.
const MAX_HITS: u32 = 100;
const MAX_TIMELINE: u32 = 50;
const MAX_IDS: usize = 100;
const MAX_SESSIONS: u32 = 50;

impl Inner {
    async fn call(
        &self,
        tool: &Tool,
        given: JsonObject,
        peer: &Peer<RoleServer>,
    ) -> Result<String, ClientError> {
        let arguments = Arguments::new(tool, given)?;
        match &*tool.name {
            "search" => self.search(&arguments, peer).await,
            "timeline" => self.timeline(&arguments, peer).await,
            "get" => self.get(&arguments, peer).await,
            "recent" => self.recent(&arguments, peer).await,
            "save" => self.save(&arguments, peer).await,
            "correct" => self.correct(&arguments, peer).await,
            _ => self.forget(&arguments, peer).await,
        }
    }

    /// Returns the project named in the arguments, else the client's.
    async fn project(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let named = arguments.text("project")?;
        if !named.is_empty() {
            return Ok(named);
        }
        let here = self.here.project(peer, self.memory.config()).await;
        self.memory.project_name(here).await
    }

    async fn search(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let project = self.project(arguments, peer).await?;
        let offset = arguments.number("offset", 0, 0, 10_000)?;
        let query = arguments.text("query")?;
        let same = arguments.without("offset");
        let as_of = if offset > 0 { self.first_page(&same) } else { None };
        let query = SearchQuery {
            // Longer queries are truncated anyway.
            q: query[..query.floor_char_boundary(8192)].to_owned(),
            project: project.clone(),
            limit: arguments.number("limit", 20, 1, MAX_HITS)?.to_string(),
            offset: offset.to_string(),
            // The prompts of the session that asks are in its own context.
            exclude_session: self.environment.session_id.clone().unwrap_or_default(),
            types: arguments.text("type")?,
            file: arguments.text("file")?,
            since: arguments.text("since")?,
            until: arguments.text("until")?,
            as_of: as_of.unwrap_or_default(),
            ..SearchQuery::default()
        };
        let found = self.memory.search(query).await?;
        *self.paging.lock().unwrap_or_else(PoisonError::into_inner) = Some((same, found.as_of.clone()));
        let mut shown = render::found(&found, &project);
        if found.hits.is_empty() && offset == 0 {
            shown.push_str(&self.other_projects(&project).await?);
        }
        Ok(shown)
    }

    fn first_page(&self, same: &str) -> Option<String> {
        let paging = self.paging.lock().unwrap_or_else(PoisonError::into_inner);
        paging.as_ref().filter(|(asked, _)| asked == same).map(|(_, as_of)| as_of.clone())
    }

    /// Returns advice after an empty search: other words, or another project.
    async fn other_projects(&self, project: &str) -> Result<String, ClientError> {
        let known = self.memory.projects().await?.projects;
        let names = || known.iter().map(|known| known.name.as_str());
        if names().any(|name| name == project) {
            return Ok(" Try other words or fewer filters.".into());
        }
        if names().next().is_none() {
            return Err(ClientError::NoMemories);
        }
        Ok(format!(" It has no memories. Projects with memories: {}.", render::names(names())))
    }

    async fn timeline(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let project = self.project(arguments, peer).await?;
        let id = arguments.text("id")?;
        let anchor = responses::referred(&id).ok_or_else(|| not_an_id(&id))?;
        let named = crate::text::line::one_line(&id, 40);
        let before = arguments.number("before", 5, 0, MAX_TIMELINE)?;
        let after = arguments.number("after", 5, 0, MAX_TIMELINE)?;
        let timeline = self.memory.timeline(anchor, before, after).await;
        let timeline = timeline.map_err(|error| advised(error, "ids come from search"))?;
        if timeline.entries.iter().any(|entry| entry.project != project) {
            return Err(ClientError::Message(format!(
                "there is no memory {named} in {project}; ids come from search"
            )));
        }
        Ok(render::timeline(&timeline))
    }

    async fn get(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let project = self.project(arguments, peer).await?;
        let mut wanted = ids(arguments)?;
        let beyond = wanted.split_off(wanted.len().min(MAX_IDS));
        let references: Vec<_> = wanted
            .iter()
            .map(|id| responses::referred(id).ok_or_else(|| not_an_id(id)))
            .collect::<Result<_, _>>()?;
        let mut memories = self.memory.memories(references).await?.memories;
        memories.retain(|memory| memory.project == project);
        if memories.is_empty() {
            let missing = render::names(wanted.iter().map(String::as_str));
            return Err(ClientError::Message(format!("there is no memory {missing}; ids come from search")));
        }
        let mut shown = render::memories(&memories, &wanted);
        if !beyond.is_empty() {
            shown.push_str(&format!("\nOnly the first {MAX_IDS} ids were used."));
        }
        Ok(shown)
    }

    async fn recent(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let project = self.project(arguments, peer).await?;
        let limit = arguments.number("limit", 5, 1, MAX_SESSIONS)?;
        let offset = arguments.number("offset", 0, 0, 1_000_000)?;
        Ok(render::recent(&self.memory.recent(project, limit, offset).await?))
    }

    async fn save(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let here = self.here.project(peer, self.memory.config()).await;
        let statement = Statement {
            // Generated here, so that a retry after a worker died while responding stores it once.
            uid: new_uid(),
            text: arguments.text("text")?,
            title: arguments.text("title")?,
            kind: arguments.text("type")?,
            learning: arguments.text("learning")?,
            everywhere: false,
            by_agent: true,
            files: arguments.words("files")?,
            concepts: Vec::new(),
            project: arguments.text("project")?,
            project_path: here.path.to_string_lossy().into_owned(),
            session_id: self.environment.session_id.clone().unwrap_or_default(),
        };
        let saved = self.memory.save(statement).await?;
        let word = if saved.known { "Already saved" } else { "Saved" };
        Ok(format!("{word} as {}: {}", saved.reference, crate::text::line::one_line(&saved.title, 200)))
    }

    async fn correct(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let (action, wanted) = (arguments.text("action")?, ids(arguments)?);
        let Some((id, others)) = wanted.split_first() else {
            return Err(ClientError::Message("ids is empty; ids come from search".into()));
        };
        let problem = match (action.as_str(), others.len()) {
            ("pin" | "unpin" | "veto" | "merge", _) | ("supersede", 1) => None,
            ("supersede", _) => {
                Some("supersede needs two ids: the memory that no longer holds, and the one that replaces it")
            }
            _ => Some("action is pin, unpin, veto, supersede or merge"),
        };
        if let Some(problem) = problem {
            return Err(ClientError::Message(problem.into()));
        }
        let project = self.project(arguments, peer).await?;
        self.check_project(&wanted, &project).await?;
        let note = |id: &String| match responses::referred(id) {
            Some((Kind::Observation, number)) => Ok(number),
            _ => Err(not_an_id(id)),
        };
        let numbers = others.iter().map(note).collect::<Result<Vec<i64>, _>>();
        let (title, is_changed) = match action.as_str() {
            "veto" => {
                let made = self.memory.veto(id).await?.vetoes;
                (made.into_iter().map(|veto| veto.statement).next().unwrap_or_default(), true)
            }
            action => {
                let outcome = match action {
                    "supersede" => self.memory.supersede(note(id)?, numbers?.first().copied()).await?,
                    "merge" => self.memory.merge(note(id)?, numbers?).await?,
                    _ => self.memory.pin(id, action == "pin").await?,
                };
                (outcome.title, outcome.changed)
            }
        };
        let word = if is_changed { "Done" } else { "Nothing to change" };
        Ok(format!("{word} ({action}): {id} {}", crate::text::line::one_line(&title, 80)))
    }

    async fn forget(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, ClientError> {
        let undo = arguments.flag("undo")?;
        let wanted = ids(arguments)?;
        if wanted.len() > MAX_IDS {
            return Err(ClientError::Message(format!("at most {MAX_IDS} ids at once; nothing was changed")));
        }
        // Validate all ids before changing the first.
        for id in &wanted {
            manual_memories::forgettable(id)?;
        }
        let project = self.project(arguments, peer).await?;
        self.check_project(&wanted, &project).await?;
        let mut lines = Vec::new();
        let mut changed = Vec::new();
        for id in &wanted {
            match self.memory.forget(id, undo, &project).await {
                Ok(outcome) => {
                    let word = match (outcome.changed, undo) {
                        (true, false) => "Forgotten",
                        (true, true) => "Restored",
                        (false, false) => "Already forgotten",
                        (false, true) => "Was not forgotten",
                    };
                    let title = crate::text::line::one_line(&outcome.title, 80);
                    lines.push(format!("{word}: {} {title}", outcome.reference));
                    changed.push(outcome.reference);
                }
                Err(ClientError::Message(reason)) if wanted.len() > 1 => {
                    lines.push(format!("Failed: {id}: {reason}"))
                }
                Err(error) => return Err(advised(error, "ids come from search")),
            }
        }
        if changed.is_empty() {
            return Err(ClientError::Message(lines.join("\n")));
        }
        if !undo {
            lines.push(format!("To undo, call forget with ids {} and undo true.", json!(changed)));
        }
        Ok(lines.join("\n"))
    }

    /// Refuses to touch observations of another project.
    async fn check_project(&self, wanted: &[String], project: &str) -> Result<(), ClientError> {
        let references: Vec<_> = wanted.iter().filter_map(|id| responses::referred(id)).collect();
        if references.is_empty() {
            return Ok(());
        }
        let found = self.memory.memories(references).await?.memories;
        match found.iter().find(|memory| memory.project != project) {
            Some(other) => Err(ClientError::Message(format!(
                "there is no memory {} in {project}; nothing was changed",
                other.reference
            ))),
            None => Ok(()),
        }
    }
}

fn ids(arguments: &Arguments) -> Result<Vec<String>, ClientError> {
    let ids = arguments.words("ids")?;
    if ids.is_empty() {
        Err(ClientError::Message("ids is empty; ids come from search".into()))
    } else {
        Ok(ids)
    }
}

fn not_an_id(id: &str) -> ClientError {
    let id = crate::text::line::one_line(id, 40);
    ClientError::Message(format!(
        "'{id}' is not an id; ids come from search and look like 12, S12 (a summary) or P12 (a prompt)"
    ))
}

fn advised(error: ClientError, advice: &str) -> ClientError {
    match error {
        ClientError::Message(message) => ClientError::Message(format!("{message}; {advice}")),
        ClientError::NoMemories => ClientError::NoMemories,
    }
}
