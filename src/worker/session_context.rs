//! The context with search and the state of git, for the routes and the command line.

use std::cell::RefCell;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::anchors::WorkingTree;
use crate::api::{ContextLine, ContextQuery, ContextResponse, InSessionQuery, InSessionResponse};
use crate::clock;
use crate::config::{Config, Environment};
use crate::context::in_session::{self, RecallText, Trigger};
use crate::context::{self, CodeCheck, Context, Explained, Hint, RelevanceQuery, RepoState, relevance};
use crate::model::SessionId;
use crate::project::Project;
use crate::repository::{Look, Patience, Repositories};
use crate::search::indexing;
use crate::store::context::{Shown, directory_of};
use crate::store::memory::anchors::{self, Anchor};
use crate::store::{StoreError, projects};

/// Git gets no longer than this; a later answer serves the next session.
const GIT_PATIENCE: Patience =
    Patience { usual: Duration::from_millis(60), if_seen_lately: Duration::from_millis(10) };

/// Maximum tokens of the context that a query asks for.
pub fn budget(query: &ContextQuery, config: &Config) -> usize {
    query.budget.unwrap_or_else(|| usize::try_from(config.context.budget).unwrap_or(usize::MAX))
}

/// Builds the context.
pub fn build(
    database: &Connection,
    config: &Config,
    repositories: &Arc<Repositories>,
    query: &ContextQuery,
    client_memory: &ClientMemory,
    hint: Hint,
) -> Context {
    let project = Project::of(query.project_path.as_ref(), &config.capture);
    let place = query.cwd.as_deref().filter(|cwd| Path::new(cwd).is_absolute());
    let place = place.map(|cwd| Project::of(cwd.as_ref(), &config.capture));
    let place = place.as_ref().filter(|place| place.key == project.key).unwrap_or(&project);
    let look = place.is_repository.then(|| repositories.look(&place.root, GIT_PATIENCE));
    let repository = || look.as_ref().map(Look::repo_state).unwrap_or_default();
    let client_memory = client_memory.read(&place.root);
    // One transaction, so that hundreds of short reads take its locks once, and all see the same memory.
    indexing::index_if_writable(database);
    let snapshot = database.unchecked_transaction();
    let now = clock::now();
    let name = match projects::name_of(database, &project) {
        Ok(name) => name,
        Err(error) => return Context { failed: vec![format!("the project: {error}")], ..Context::default() },
    };
    let search = relevance::SearchRelevance::new(database, &config.search, &name, now);
    let (prepare, recall) = (
        |question: &RelevanceQuery| search.prepare(question),
        |question: &RelevanceQuery| search.find(question),
    );
    let tree = place.is_repository.then(|| repositories.tree(&place.root));
    let standing = |note: i64| Some(tree.as_ref()?.standing(&anchors_of(database, note)?));
    let built = context::build(
        database,
        &context::ContextRequest {
            project: &name,
            project_path: &project.path.to_string_lossy(),
            root: &place.root.to_string_lossy(),
            session_id: &query.session_id,
            source: query.source.as_deref(),
            repo_state: RepoState { branch: place.branch.clone(), ..RepoState::default() },
            repository: Some(&repository),
            prepare: Some(&prepare),
            recall: Some(&recall),
            code: CodeCheck(Some(&standing)),
            client_memory: &client_memory,
            hint,
            now,
            budget: budget(query, config),
        },
    );
    drop(snapshot);
    built
}

/// The anchors of a note that is about code. Outside a repository nothing is compared: a missing file may have been renamed.
fn anchors_of(database: &Connection, note: i64) -> Option<Vec<Anchor>> {
    // A note whose anchors cannot be read is like one without.
    anchors::of_note(database, note).ok().filter(|anchors| !anchors.is_empty())
}

/// Converts a context to the response of the route and the command line.
pub fn response(built: &Context, took: Duration, is_explained: bool) -> ContextResponse {
    let names = |layers: &[&str]| layers.iter().map(|&name| name.to_owned()).collect();
    ContextResponse {
        context: built.text.clone(),
        tokens: built.tokens,
        layers: names(&built.layers),
        skipped: names(&built.skipped),
        build_ms: took.as_secs_f64() * 1000.0,
        lines: is_explained.then(|| explained(&built.lines)),
        last: None,
        log: None,
    }
}

fn explained(lines: &[Explained]) -> Vec<ContextLine> {
    let line = |line: &Explained| ContextLine {
        layer: line.layer.to_owned(),
        text: line.text.clone(),
        why: line.why.clone(),
        tokens: line.tokens,
        key: line.key,
        memory: line.shows.map(|id| if id < 0 { format!("S{}", -id) } else { id.to_string() }),
    };
    lines.iter().map(line).collect()
}

/// Returns the trigger of that name: prompt, file or failure.
pub fn trigger(name: &str, query: &InSessionQuery) -> Option<Trigger> {
    let lines = |text: &str| text.lines().map(ToOwned::to_owned).collect();
    let text = query.text.clone();
    match name {
        "prompt" => Some(Trigger::Prompt { text }),
        "file" => {
            Some(Trigger::FileEdit { path: text, added: lines(&query.added), removed: lines(&query.removed) })
        }
        "failure" => Some(Trigger::Failure { error: text }),
        _ => None,
    }
}

/// The files that the code of memories is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// Read while the context is built.
    Read,
    /// Only those that were read before: whoever waits for the database waits for no file. For other notes the last recorded
    /// comparison counts.
    Known,
}

/// The lines for a trigger.
#[derive(Debug)]
pub struct InSession {
    /// The lines, for the offers.
    pub snippet: RecallText,
    /// The response with them.
    pub response: InSessionResponse,
    /// Files that were not read.
    pub unread: Option<Unread>,
}

/// Files that comparisons still need.
#[derive(Debug)]
pub struct Unread {
    tree: WorkingTree,
    anchors: Vec<Anchor>,
}

impl Unread {
    /// Reads the files, so that they are known.
    pub fn read(&self) {
        self.tree.standing(&self.anchors);
    }
}

/// Builds the lines for a trigger, and the response with them.
pub fn in_session(
    database: &Connection,
    config: &Config,
    repositories: &Repositories,
    query: &InSessionQuery,
    trigger: &Trigger,
    offered: &Shown,
    files: Files,
) -> Result<InSession, StoreError> {
    let settings = &config.context;
    let budget = match trigger {
        Trigger::Prompt { .. } => settings.per_prompt_budget,
        Trigger::FileEdit { .. } => settings.per_file_budget,
        Trigger::Failure { .. } => settings.on_failure_budget,
    };
    let budget = usize::try_from(budget).unwrap_or(usize::MAX);
    let project = Project::of(query.project_path.as_ref(), &config.capture);
    let name = projects::name_of(database, &project)?;
    // The session may work in another worktree than the main one.
    let session = SessionId(query.session_id.clone());
    let place = directory_of(database, &session)?.filter(|cwd| Path::new(cwd).is_absolute());
    let place =
        place.map(|cwd| Project::of(cwd.as_ref(), &config.capture)).filter(|place| place.key == project.key);
    let place = place.as_ref().unwrap_or(&project);
    let tree = place.is_repository.then(|| repositories.tree(&place.root));
    let unread = RefCell::new(Vec::new());
    let standing = |note: i64| {
        let (tree, anchors) = (tree.as_ref()?, anchors_of(database, note)?);
        if files == Files::Known && tree.has_unread(&anchors) {
            unread.borrow_mut().extend(anchors);
            return None;
        }
        Some(tree.standing(&anchors))
    };
    let request = in_session::RecallQuery {
        project: &name,
        project_path: &project.path.to_string_lossy(),
        session: &session,
        settings: &config.search,
        now: clock::now(),
        budget,
        code: CodeCheck(Some(&standing)),
    };
    let built = in_session::build(database, &request, trigger, offered)?;
    let response = InSessionResponse {
        context: built.text.clone(),
        tokens: built.tokens,
        shown: built.shown.clone(),
        log: Some(built.log_data(trigger, budget)),
        lines: query.explain.then(|| explained(&built.lines)),
    };
    let anchors = unread.take();
    let unread = tree.filter(|_| !anchors.is_empty()).map(|tree| Unread { tree, anchors });
    Ok(InSession { snippet: built, response, unread })
}

/// Memories that sessions were offered a moment ago. Two sets of hooks ask at once, and one of them gets the lines; a hook logs
/// the lines that it prints in time, and others may be offered again.
#[derive(Debug, Default)]
pub struct Offers(Vec<(Instant, String, Shown)>);

/// Long enough for a hook to print and to note it.
const OFFER_HOLDS: Duration = Duration::from_secs(2);

impl Offers {
    /// Memories that a session was offered and may not have logged yet.
    pub fn of(&mut self, session: &str) -> Shown {
        self.0.retain(|(at, ..)| at.elapsed() < OFFER_HOLDS);
        let mut all = Shown::default();
        for (_, _, shown) in self.0.iter().filter(|(_, known, _)| known == session) {
            all.ids.extend(&shown.ids);
            all.keys.extend(&shown.keys);
            all.files.extend(shown.files.iter().cloned());
        }
        all
    }

    /// Adds an offer.
    pub fn add(&mut self, session: String, snippet: &RecallText, trigger: &Trigger) {
        if snippet.text.is_empty() || session.is_empty() {
            return;
        }
        let files = match trigger {
            Trigger::FileEdit { path, .. } => vec![path.clone()],
            _ => Vec::new(),
        };
        let keys = snippet.lines.iter().map(|line| line.key).collect();
        self.0.push((Instant::now(), session, Shown { ids: snippet.shown.clone(), keys, files }));
    }
}

/// The client's own instructions and notes for the model.
#[derive(Debug, Clone, Default)]
pub struct ClientMemory {
    config: Option<PathBuf>,
}

/// Of each file no more than this is read.
const MOST_BYTES: u64 = 64 << 10;
/// A line of fewer characters says nothing that could be repeated.
const LEAST_LINE: usize = 12;

impl ClientMemory {
    /// The places that the environment names.
    pub fn of(environment: &Environment) -> Self {
        let own = || environment.user_home.as_ref().map(|home| home.join(".claude"));
        Self { config: environment.outgoing.claude_config_dir.clone().or_else(own) }
    }

    /// The lines of the client's instructions and notes for a project.
    fn read(&self, root: &Path) -> Vec<String> {
        let mut files: Vec<PathBuf> = ["CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md"]
            .map(|name| root.join(name))
            .into();
        if let Some(config) = &self.config {
            let letters = root.to_string_lossy();
            let folder: String =
                letters.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            files.push(config.join("CLAUDE.md"));
            files.push(config.join("projects").join(folder).join("memory/MEMORY.md"));
        }
        files.iter().flat_map(|file| lines_of(file)).collect()
    }
}

fn lines_of(file: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    let is_plain = std::fs::metadata(file).is_ok_and(|meta| meta.is_file());
    if !is_plain
        || std::fs::File::open(file).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes)).is_err()
    {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| line.len() >= LEAST_LINE);
    lines.map(ToOwned::to_owned).collect()
}
