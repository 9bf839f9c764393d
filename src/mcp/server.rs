//! The tools as calls: arguments in, text out. A failure is a text as well, one that says what to do.

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
use super::here::Here;
use super::recall::{Recall, Trouble};
use super::{render, tools};
use crate::client::encoded;
use crate::config::{Config, Environment};
use crate::curate::{self, Statement};
use crate::paths::Home;
use crate::search::parameters::Parameters;
use crate::search::{self, Request, answer};
use crate::store::memory::new_uid;
use crate::store::search as index;
use crate::worker::clock;

/// The newest version of the protocol that begins with `initialize`, as this server does.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// The server.
#[derive(Debug, Clone)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tools: Vec<Tool>,
    recall: Recall,
    here: Here,
    environment: Environment,
    /// The latest search, and the state of the memory that its first page saw: the next pages see the same.
    paging: Mutex<Option<(String, String)>>,
}

impl Server {
    /// For the memory in that directory, with these tools.
    pub fn new(home: Home, environment: Environment, tools: Vec<Tool>) -> Self {
        // Whoever asks for memories is not the one to be bothered with a mistake in the settings: the worker is.
        let (config, _) = Config::load_forgiving(&home.config(), &environment);
        let here = Here::new(&environment);
        Self(Arc::new(Inner {
            tools,
            recall: Recall::new(home, config),
            here,
            environment,
            paging: Mutex::new(None),
        }))
    }

    /// What was needed so far is given back, unless more comes at once.
    pub fn rest(&self) {
        self.0.recall.rest();
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
            self.0.recall.note_tools();
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
            let message = format!("there is no tool '{}'; there are {}", call.name, names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let RequestContext { ct: cancelled, peer, .. } = context;
        let inner = self.0.clone();
        // A task of its own: if it dies, the client still gets an answer.
        let mut calling =
            tokio::spawn(async move { inner.call(&tool, call.arguments.unwrap_or_default(), &peer).await });
        let answer = tokio::select! {
            answer = &mut calling => answer,
            () = cancelled.cancelled() => {
                calling.abort();
                self.rest();
                // Nobody reads it.
                return Ok(told(Err(Trouble::Told("cancelled".into()))).into());
            }
        };
        self.rest();
        let gone = "this went wrong inside; `claude-mem doctor` may know why";
        Ok(told(answer.unwrap_or_else(|_| Err(Trouble::Told(gone.into())))).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A call that is not shaped like one.
        if request.method == "tools/call" {
            let advice = "a call has a name, and arguments that are an object: {\"name\": \"search\", \"arguments\": \
                          {\"query\": \"…\"}}";
            let result = told(Err(Trouble::Told(advice.into())));
            return Ok(CustomResult::new(
                json!({"content": [{"type": "text", "text": advice}], "isError": result.is_error}),
            ));
        }
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("there is no method '{}'", request.method),
            None,
        ))
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.0.here.forget();
    }
}

/// An answer as the client gets it. That there is nothing yet is no failure.
fn told(answer: Result<String, Trouble>) -> CallToolResult {
    match answer {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(Trouble::Nothing) => {
            CallToolResult::success(vec![ContentBlock::text("Nothing is remembered yet.")])
        }
        Err(Trouble::Told(text)) => CallToolResult::error(vec![ContentBlock::text(text)]),
    }
}

/// The most that one call asks for.
const MOST_HITS: u32 = 100;
const MOST_MOMENTS: u32 = 50;
const MOST_IDS: usize = 100;
const MOST_SESSIONS: u32 = 50;

impl Inner {
    async fn call(&self, tool: &Tool, given: JsonObject, peer: &Peer<RoleServer>) -> Result<String, Trouble> {
        let arguments = Arguments::new(tool, given)?;
        match &*tool.name {
            "search" => self.search(&arguments, peer).await,
            "timeline" => self.timeline(&arguments).await,
            "get" => self.get(&arguments).await,
            "recent" => self.recent(&arguments, peer).await,
            "save" => self.save(&arguments, peer).await,
            _ => self.forget(&arguments).await,
        }
    }

    /// The project that is asked for by name, else the client's.
    async fn project(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, Trouble> {
        let named = arguments.text("project")?;
        if !named.is_empty() {
            return Ok(named);
        }
        Ok(self.here.project(peer, self.recall.config()).await.name)
    }

    async fn search(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, Trouble> {
        let project = self.project(arguments, peer).await?;
        let offset = arguments.number("offset", 0, 0, 10_000)?;
        let mut parameters = Parameters::new();
        let mut set = |name: &str, value: String| drop(parameters.insert(name.to_owned(), value));
        let query = arguments.text("query")?;
        // Longer questions are not read to their end anyway.
        set("q", query[..query.floor_char_boundary(8192)].to_owned());
        set("project", project.clone());
        set("limit", arguments.number("limit", 20, 1, MOST_HITS)?.to_string());
        set("offset", offset.to_string());
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

    /// What to do when a project has nothing at all: maybe it was another that was meant.
    async fn other_projects(&self, project: &str) -> Result<String, Trouble> {
        let asked = (Method::GET, "/api/projects", None);
        let known = self.recall.read(asked, |database, _| Ok(answer::projects(database)?)).await?;
        let names =
            || known["projects"].as_array().into_iter().flatten().filter_map(|known| known["name"].as_str());
        if names().any(|name| name == project) {
            return Ok(" Other words, or fewer filters, may.".into());
        }
        if names().next().is_none() {
            return Err(Trouble::Nothing);
        }
        Ok(format!(" It has no memories at all. These projects have: {}.", render::names(names())))
    }

    async fn timeline(&self, arguments: &Arguments) -> Result<String, Trouble> {
        let id = arguments.text("id")?;
        let anchor = answer::referred(&id).ok_or_else(|| not_an_id(&id))?;
        let before = arguments.number("before", 5, 0, MOST_MOMENTS)?;
        let after = arguments.number("after", 5, 0, MOST_MOMENTS)?;
        let route = format!("/api/timeline?anchor={}&before={before}&after={after}", encoded(&id));
        let timeline = self.recall.read((Method::GET, &route, None), move |database, _| {
            let moments = index::timeline(database, anchor, before, after)?;
            if moments.is_empty() {
                return Err(Trouble::Told(format!("there is no memory {id}")));
            }
            Ok(answer::timeline(&moments, anchor, clock::now()))
        });
        let timeline = timeline.await.map_err(|trouble| advised(trouble, "ids come from search"))?;
        Ok(render::timeline(&timeline))
    }

    async fn get(&self, arguments: &Arguments) -> Result<String, Trouble> {
        let mut wanted = ids(arguments)?;
        let beyond = wanted.split_off(wanted.len().min(MOST_IDS));
        let references: Vec<_> = wanted
            .iter()
            .map(|id| answer::referred(id).ok_or_else(|| not_an_id(id)))
            .collect::<Result<_, _>>()?;
        let route = format!("/api/memories?ids={}", encoded(&wanted.join(",")));
        let memories = self.recall.read((Method::GET, &route, None), move |database, _| {
            Ok(answer::memories(database, &references, clock::now())?)
        });
        let memories = memories.await?;
        if memories["memories"].as_array().is_none_or(Vec::is_empty) {
            let missing = render::names(wanted.iter().map(String::as_str));
            return Err(Trouble::Told(format!("there is no memory {missing}: ids come from search")));
        }
        let mut shown = render::memories(&memories, &wanted);
        if !beyond.is_empty() {
            shown.push_str(&format!("\nOnly the first {MOST_IDS} ids were looked at."));
        }
        Ok(shown)
    }

    async fn recent(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, Trouble> {
        let project = self.project(arguments, peer).await?;
        let limit = arguments.number("limit", 5, 1, MOST_SESSIONS)?;
        let offset = arguments.number("offset", 0, 0, 1_000_000)?;
        let route = format!("/api/recent?project={}&limit={limit}&offset={offset}", encoded(&project));
        let recent = self.recall.read((Method::GET, &route, None), move |database, _| {
            Ok(answer::recent(database, &project, limit, offset, clock::now())?)
        });
        Ok(render::recent(&recent.await?))
    }

    async fn save(&self, arguments: &Arguments, peer: &Peer<RoleServer>) -> Result<String, Trouble> {
        let here = self.here.project(peer, self.recall.config()).await;
        let statement = Statement {
            // Made here, so that a worker which died while it answered, and we, store it once.
            uid: new_uid(),
            text: arguments.text("text")?,
            title: arguments.text("title")?,
            kind: arguments.text("type")?,
            learning: arguments.text("learning")?,
            everywhere: arguments.flag("everywhere")?,
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
        let word = if kept["known"] == true { "Known already" } else { "Saved" };
        Ok(format!("{word} as {reference}: {title}"))
    }

    async fn forget(&self, arguments: &Arguments) -> Result<String, Trouble> {
        let undo = arguments.flag("undo")?;
        let wanted = ids(arguments)?;
        if wanted.len() > MOST_IDS {
            return Err(Trouble::Told(format!("at most {MOST_IDS} at once; nothing was changed")));
        }
        // All of them are looked at before the first is changed.
        for id in &wanted {
            curate::forgettable(id)?;
        }
        let mut lines = Vec::new();
        let mut changed = Vec::new();
        for id in &wanted {
            match self.forget_one(id, undo).await {
                Ok(outcome) => {
                    let reference = outcome["ref"].as_str().unwrap_or(id).to_owned();
                    let title = outcome["title"].as_str().unwrap_or_default();
                    let word = match (outcome["changed"] == true, undo) {
                        (true, false) => "Forgotten",
                        (true, true) => "Back",
                        (false, false) => "Was forgotten already",
                        (false, true) => "Was not forgotten",
                    };
                    lines.push(format!("{word}: {reference} {}", crate::context::line::one_line(title, 80)));
                    changed.push(reference);
                }
                Err(Trouble::Told(reason)) if wanted.len() > 1 => {
                    lines.push(format!("Failed: {id}: {reason}"))
                }
                Err(trouble) => return Err(advised(trouble, "ids come from search")),
            }
        }
        if changed.is_empty() {
            return Err(Trouble::Told(lines.join("\n")));
        }
        if !undo {
            lines.push(format!("Undo: forget with ids {} and undo true.", json!(changed)));
        }
        Ok(lines.join("\n"))
    }

    async fn forget_one(&self, id: &str, undo: bool) -> Result<Value, Trouble> {
        let what = curate::forgettable(id)?;
        let id = encoded(id.trim_start_matches('#'));
        let route = format!("/api/observations/{id}");
        let restore = format!("{route}/restore");
        let asked = if undo {
            (Method::POST, restore.as_str(), None)
        } else {
            (Method::DELETE, route.as_str(), None)
        };
        let changed = self.recall.write(asked, move |database, _| {
            let outcome = curate::forget(database, what, undo, clock::now())?;
            outcome.ok_or_else(|| Trouble::Told(format!("there is no memory {id}")))
        });
        changed.await
    }
}

fn ids(arguments: &Arguments) -> Result<Vec<String>, Trouble> {
    let ids = arguments.words("ids")?;
    if ids.is_empty() { Err(Trouble::Told("ids is empty: ids come from search".into())) } else { Ok(ids) }
}

fn not_an_id(id: &str) -> Trouble {
    let id = crate::context::line::one_line(id, 40);
    Trouble::Told(format!(
        "'{id}' is no id: they come from search, and look like 12, S12 (a summary) or P12 (a prompt)"
    ))
}

fn advised(trouble: Trouble, advice: &str) -> Trouble {
    match trouble {
        Trouble::Told(told) => Trouble::Told(format!("{told}: {advice}")),
        Trouble::Nothing => Trouble::Nothing,
    }
}
