//! The tool calls: arguments in, text out. A failure is also a text, with advice.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::Method;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::here::ClientProject;
use super::recall::{Recall, RecallError};
use super::{render, tools};
use crate::client::encoded;
use crate::config::{Config, Environment};
use crate::curate::{self, Statement};
use crate::paths::Home;
use crate::search::parameters::Parameters;
use crate::search::{self, Request, answer};
use crate::store::memory::new_uid;
use crate::store::{projects, search as index};
use crate::worker::clock;

/// The newest protocol version that starts with `initialize`, as this server does.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The server.
#[derive(Debug, Clone)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tools: Vec<Tool>,
    recall: Recall,
    here: ClientProject,
    environment: Environment,
    /// The latest search, and the state its first page was taken from, so that further pages are
    /// consistent.
    paging: Mutex<Option<(String, String)>>,
}

impl Server {
    /// For the memory in that directory, with these tools.
    pub fn new(home: Home, environment: Environment, tools: Vec<Tool>) -> Self {
        // A mistake in the settings is the worker's to report, not this server's.
        let (config, _) = Config::load_forgiving(&home.config(), &environment);
        let here = ClientProject::new(&environment);
        Self(Arc::new(Inner {
            tools,
            recall: Recall::new(home, config),
            here,
            environment,
            paging: Mutex::new(None),
        }))
    }

    /// Schedules the release of unused memory; another call cancels it.
    pub fn release_memory_later(&self) {
        self.0.recall.release_memory_later();
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
            self.0.recall.record_tools();
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
                return Ok(call_result(Err(RecallError::Message("cancelled".into()))).into());
            }
        };
        self.release_memory_later();
        let panicked = "internal error; run `claude-mem doctor`";
        Ok(call_result(answer.unwrap_or_else(|_| Err(RecallError::Message(panicked.into())))).into())
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
            let result = call_result(Err(RecallError::Message(advice.into())));
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
fn call_result(answer: Result<String, RecallError>) -> CallToolResult {
    match answer {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(RecallError::NoMemories) => CallToolResult::success(vec![ContentBlock::text("No memories yet.")]),
        Err(RecallError::Message(text)) => CallToolResult::error(vec![ContentBlock::text(text)]),
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
    ) -> Result<String, RecallError> {
        let arguments = Arguments::new(tool, given)?;
        match &*tool.name {
            "search" => self.search(&arguments, peer).await,
            "timeline" => self.timeline(&arguments, peer).await,
            "get" => self.get(&arguments, peer).await,
            "recent" => self.recent(&arguments, peer).await,
            "save" => self.save(&arguments, peer).await,
            _ => self.forget(&arguments, peer).await,
        }
    }

    /// Returns the project named in the arguments, else the client's.
    async fn project(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, RecallError> {
        let named = arguments.text("project")?;
        if !named.is_empty() {
            return Ok(named);
        }
        let here = self.here.project(peer, self.recall.config()).await;
        let route = format!("/api/project?path={}", encoded(&here.path.to_string_lossy()));
        let named = self.recall.read((Method::GET, &route, None), move |database, _| {
            Ok(json!({"name": projects::name_of(database, &here)?}))
        });
        Ok(named.await?["name"].as_str().unwrap_or_default().to_owned())
    }

    async fn search(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, RecallError> {
        let project = self.project(arguments, peer).await?;
        let offset = arguments.number("offset", 0, 0, 10_000)?;
        let mut parameters = Parameters::new();
        let mut set = |name: &str, value: String| drop(parameters.insert(name.to_owned(), value));
        let query = arguments.text("query")?;
        // Longer queries are truncated anyway.
        set("q", query[..query.floor_char_boundary(8192)].to_owned());
        set("project", project.clone());
        set("limit", arguments.number("limit", 20, 1, MAX_HITS)?.to_string());
        set("offset", offset.to_string());
        // The prompts of the session that asks are in its own context.
        set("exclude_session", self.environment.session_id.clone().unwrap_or_default());
        for name in ["type", "file", "since", "until"] {
            set(name, arguments.text(name)?);
        }
        let same = arguments.without("offset");
        if offset > 0
            && let Some(as_of) = self.first_page(&same)
        {
            set("as_of", as_of);
        }
        let asked = (Method::POST, "/api/search", Some(json!(parameters)));
        let found = self.recall.read(asked, move |database, config| {
            let now = clock::now();
            let request = Request::from_parameters(&parameters, now)?;
            Ok(answer::found(&search::search(database, &request, &config.search)?, request.offset, now))
        });
        let found = found.await?;
        if let Some(as_of) = found["as_of"].as_str() {
            *self.paging.lock().unwrap_or_else(PoisonError::into_inner) = Some((same, as_of.to_owned()));
        }
        let is_empty = found["hits"].as_array().is_none_or(Vec::is_empty);
        let mut shown = render::found(&found, &project);
        if is_empty && offset == 0 {
            shown.push_str(&self.other_projects(&project).await?);
        }
        Ok(shown)
    }

    fn first_page(&self, same: &str) -> Option<String> {
        let paging = self.paging.lock().unwrap_or_else(PoisonError::into_inner);
        paging.as_ref().filter(|(asked, _)| asked == same).map(|(_, as_of)| as_of.clone())
    }

    /// Returns advice after an empty search: other words, or another project.
    async fn other_projects(&self, project: &str) -> Result<String, RecallError> {
        let asked = (Method::GET, "/api/projects", None);
        let known = self.recall.read(asked, |database, _| Ok(answer::projects(database)?)).await?;
        let names =
            || known["projects"].as_array().into_iter().flatten().filter_map(|known| known["name"].as_str());
        if names().any(|name| name == project) {
            return Ok(" Try other words or fewer filters.".into());
        }
        if names().next().is_none() {
            return Err(RecallError::NoMemories);
        }
        Ok(format!(" It has no memories. Projects with memories: {}.", render::names(names())))
    }

    async fn timeline(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, RecallError> {
        let project = self.project(arguments, peer).await?;
        let id = arguments.text("id")?;
        let anchor = answer::referred(&id).ok_or_else(|| not_an_id(&id))?;
        let named = crate::context::line::one_line(&id, 40);
        let before = arguments.number("before", 5, 0, MAX_TIMELINE)?;
        let after = arguments.number("after", 5, 0, MAX_TIMELINE)?;
        let route = format!("/api/timeline?anchor={}&before={before}&after={after}", encoded(&id));
        let timeline = self.recall.read((Method::GET, &route, None), move |database, _| {
            let entries = index::timeline(database, anchor, before, after)?;
            if entries.is_empty() {
                return Err(RecallError::Message(format!("there is no memory {id}")));
            }
            Ok(answer::timeline(&entries, anchor, clock::now()))
        });
        let timeline = timeline.await.map_err(|error| advised(error, "ids come from search"))?;
        let is_here = |entry: &Value| entry["project"] == project.as_str();
        if !timeline["moments"].as_array().is_some_and(|entries| entries.iter().all(is_here)) {
            return Err(RecallError::Message(format!(
                "there is no memory {named} in {project}; ids come from search"
            )));
        }
        Ok(render::timeline(&timeline))
    }

    async fn get(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, RecallError> {
        let project = self.project(arguments, peer).await?;
        let mut wanted = ids(arguments)?;
        let beyond = wanted.split_off(wanted.len().min(MAX_IDS));
        let references: Vec<_> = wanted
            .iter()
            .map(|id| answer::referred(id).ok_or_else(|| not_an_id(id)))
            .collect::<Result<_, _>>()?;
        let route = format!("/api/memories?ids={}", encoded(&wanted.join(",")));
        let memories = self.recall.read((Method::GET, &route, None), move |database, _| {
            Ok(answer::memories(database, &references, clock::now())?)
        });
        let mut memories = memories.await?;
        // Ids are unique across projects; memories of another project are not shown.
        if let Some(found) = memories["memories"].as_array_mut() {
            found.retain(|memory| memory["project"] == project.as_str());
        }
        if memories["memories"].as_array().is_none_or(Vec::is_empty) {
            let missing = render::names(wanted.iter().map(String::as_str));
            return Err(RecallError::Message(format!("there is no memory {missing}; ids come from search")));
        }
        let mut shown = render::memories(&memories, &wanted);
        if !beyond.is_empty() {
            shown.push_str(&format!("\nOnly the first {MAX_IDS} ids were used."));
        }
        Ok(shown)
    }

    async fn recent(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, RecallError> {
        let project = self.project(arguments, peer).await?;
        let limit = arguments.number("limit", 5, 1, MAX_SESSIONS)?;
        let offset = arguments.number("offset", 0, 0, 1_000_000)?;
        let route = format!("/api/recent?project={}&limit={limit}&offset={offset}", encoded(&project));
        let recent = self.recall.read((Method::GET, &route, None), move |database, _| {
            Ok(answer::recent(database, &project, limit, offset, clock::now())?)
        });
        Ok(render::recent(&recent.await?))
    }

    async fn save(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, RecallError> {
        let here = self.here.project(peer, self.recall.config()).await;
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
        let user_home = self.environment.user_home.clone();
        let asked = (Method::POST, "/api/memories", Some(json!(statement)));
        let kept = self.recall.write(asked, move |database, config| {
            let accepted = curate::accept(statement, &config.capture, user_home.as_deref(), clock::now())?;
            Ok(curate::keep(database, &accepted)?)
        });
        let kept = kept.await?;
        let (reference, title) = (&kept["ref"], kept["title"].as_str().unwrap_or_default());
        let reference = reference.as_str().unwrap_or_default();
        let word = if kept["known"] == true { "Already saved" } else { "Saved" };
        Ok(format!("{word} as {reference}: {}", crate::context::line::one_line(title, 200)))
    }

    async fn forget(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, RecallError> {
        let undo = arguments.flag("undo")?;
        let wanted = ids(arguments)?;
        if wanted.len() > MAX_IDS {
            return Err(RecallError::Message(format!("at most {MAX_IDS} ids at once; nothing was changed")));
        }
        // Validate all ids before changing the first.
        for id in &wanted {
            curate::forgettable(id)?;
        }
        let project = self.project(arguments, peer).await?;
        self.check_project(&wanted, &project).await?;
        let mut lines = Vec::new();
        let mut changed = Vec::new();
        for id in &wanted {
            match self.forget_one(id, undo, &project).await {
                Ok(outcome) => {
                    let reference = outcome["ref"].as_str().unwrap_or(id).to_owned();
                    let title = outcome["title"].as_str().unwrap_or_default();
                    let word = match (outcome["changed"] == true, undo) {
                        (true, false) => "Forgotten",
                        (true, true) => "Restored",
                        (false, false) => "Already forgotten",
                        (false, true) => "Was not forgotten",
                    };
                    lines.push(format!("{word}: {reference} {}", crate::context::line::one_line(title, 80)));
                    changed.push(reference);
                }
                Err(RecallError::Message(reason)) if wanted.len() > 1 => {
                    lines.push(format!("Failed: {id}: {reason}"))
                }
                Err(error) => return Err(advised(error, "ids come from search")),
            }
        }
        if changed.is_empty() {
            return Err(RecallError::Message(lines.join("\n")));
        }
        if !undo {
            lines.push(format!("To undo, call forget with ids {} and undo true.", json!(changed)));
        }
        Ok(lines.join("\n"))
    }

    /// Refuses to touch observations of another project.
    async fn check_project(&self, wanted: &[String], project: &str) -> Result<(), RecallError> {
        let observations: Vec<(String, _)> =
            wanted.iter().filter_map(|id| Some((id.clone(), answer::referred(id)?))).collect();
        if observations.is_empty() {
            return Ok(());
        }
        let (names, references): (Vec<String>, Vec<_>) = observations.into_iter().unzip();
        let route = format!("/api/memories?ids={}", encoded(&names.join(",")));
        let found = self.recall.read((Method::GET, &route, None), move |database, _| {
            Ok(answer::memories(database, &references, clock::now())?)
        });
        let found = found.await?;
        let mut memories = found["memories"].as_array().into_iter().flatten();
        match memories.find(|memory| memory["project"] != project) {
            Some(other) => {
                let reference = other["ref"].as_str().unwrap_or_default();
                Err(RecallError::Message(format!(
                    "there is no memory {reference} in {project}; nothing was changed"
                )))
            }
            None => Ok(()),
        }
    }

    async fn forget_one(&self, id: &str, undo: bool, project: &str) -> Result<Value, RecallError> {
        let what = curate::forgettable(id)?;
        let id = encoded(id.trim_start_matches('#'));
        let within = encoded(project);
        let route = format!("/api/observations/{id}?project={within}");
        let restore = format!("/api/observations/{id}/restore?project={within}");
        let project = project.to_owned();
        let asked = if undo {
            (Method::POST, restore.as_str(), None)
        } else {
            (Method::DELETE, route.as_str(), None)
        };
        let changed = self.recall.write(asked, move |database, _| {
            let outcome = curate::forget(database, what, undo, Some(&project), clock::now())?;
            outcome.ok_or_else(|| RecallError::Message(format!("there is no memory {id}")))
        });
        changed.await
    }
}

fn ids(arguments: &Arguments) -> Result<Vec<String>, RecallError> {
    let ids = arguments.words("ids")?;
    if ids.is_empty() {
        Err(RecallError::Message("ids is empty; ids come from search".into()))
    } else {
        Ok(ids)
    }
}

fn not_an_id(id: &str) -> RecallError {
    let id = crate::context::line::one_line(id, 40);
    RecallError::Message(format!(
        "'{id}' is not an id; ids come from search and look like 12, S12 (a summary) or P12 (a prompt)"
    ))
}

fn advised(error: RecallError, advice: &str) -> RecallError {
    match error {
        RecallError::Message(message) => RecallError::Message(format!("{message}; {advice}")),
        RecallError::NoMemories => RecallError::NoMemories,
    }
}
