//! A context with all that the service has: search, and a look at git. For the routes, and for the command line.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Value, json};

use super::clock;
use crate::config::{Config, Environment};
use crate::context::in_session::{self, InSessionQuery, Snippet, Trigger};
use crate::context::{self, Context, Explained, Hint, RelevanceQuery, RepoState, relevance};
use crate::model::SessionId;
use crate::project::Project;
use crate::repository::{Look, Patience, Repositories};
use crate::search::upkeep;
use crate::store::context::Shown;
use crate::store::{StoreError, projects};

/// Git gets no longer than this; a later answer serves the next session.
const GIT_PATIENCE: Patience =
    Patience { usual: Duration::from_millis(60), if_seen_lately: Duration::from_millis(10) };

/// A request for a start context.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Asked {
    /// A directory of the project.
    pub project_path: String,
    /// The session's directory, if that is another worktree.
    pub cwd: Option<String>,
    /// The session that asks; empty for a request outside a session.
    #[serde(default)]
    pub session_id: String,
    /// The session's source.
    pub source: Option<String>,
    /// Another budget than the usual one.
    pub budget: Option<usize>,
    /// True if each line is to be explained.
    #[serde(default)]
    pub explain: bool,
}

impl Asked {
    /// The most tokens that the text may take.
    pub fn budget(&self, config: &Config) -> usize {
        self.budget.unwrap_or_else(|| usize::try_from(config.context.budget).unwrap_or(usize::MAX))
    }
}

/// Builds the context.
pub fn build(
    database: &Connection,
    config: &Config,
    repositories: &Arc<Repositories>,
    asked: &Asked,
    client_memory: &ClientMemory,
    hint: Hint,
) -> Context {
    let project = Project::of(asked.project_path.as_ref(), &config.capture);
    let place = asked.cwd.as_deref().filter(|cwd| Path::new(cwd).is_absolute());
    let place = place.map(|cwd| Project::of(cwd.as_ref(), &config.capture));
    let place = place.as_ref().filter(|place| place.key == project.key).unwrap_or(&project);
    let look = place.is_repository.then(|| repositories.look(&place.root, GIT_PATIENCE));
    let repository = || look.as_ref().map(Look::repo_state).unwrap_or_default();
    let client_memory = client_memory.read(&place.root);
    // One transaction, so that hundreds of short reads take its locks once, and all see the same memory.
    upkeep::take_up_if_possible(database);
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
    let built = context::build(
        database,
        &context::Request {
            project: &name,
            project_path: &project.path.to_string_lossy(),
            root: &place.root.to_string_lossy(),
            session_id: &asked.session_id,
            source: asked.source.as_deref(),
            repo_state: RepoState { branch: place.branch.clone(), ..RepoState::default() },
            repository: Some(&repository),
            prepare: Some(&prepare),
            recall: Some(&recall),
            client_memory: &client_memory,
            hint,
            now,
            budget: asked.budget(config),
        },
    );
    drop(snapshot);
    built
}

/// A context as the route and the command line give it out.
pub fn as_json(built: &Context, build_ms: f64, is_explained: bool) -> Value {
    let mut answer = json!({"context": built.text, "tokens": built.tokens, "layers": built.layers, "skipped": built.skipped,
                            "build_ms": build_ms});
    explain(&mut answer, &built.lines, is_explained);
    answer
}

fn explain(answer: &mut Value, lines: &[Explained], is_wanted: bool) {
    if is_wanted {
        answer["lines"] = json!(lines);
    }
}

/// A request for memories after the start.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Happening {
    /// A directory of the project.
    pub project_path: String,
    /// The session that asks; empty for a request outside a session.
    #[serde(default)]
    pub session_id: String,
    /// The prompt, the path, or the error.
    pub text: String,
    /// Lines that an edit adds.
    #[serde(default)]
    pub added: String,
    /// Lines that it removes.
    #[serde(default)]
    pub removed: String,
    /// True if each line is to be explained.
    #[serde(default)]
    pub explain: bool,
}

impl Happening {
    /// The moment of that name.
    pub fn trigger(&self, name: &str) -> Option<Trigger> {
        let lines = |text: &str| text.lines().map(ToOwned::to_owned).collect();
        let text = self.text.clone();
        match name {
            "prompt" => Some(Trigger::Prompt { text }),
            "file" => Some(Trigger::FileEdit {
                path: text,
                added: lines(&self.added),
                removed: lines(&self.removed),
            }),
            "failure" => Some(Trigger::Failure { error: text }),
            _ => None,
        }
    }
}

/// The words of memory at a moment, as the route and the command line give them out, with the entry for the log.
pub fn at(
    database: &Connection,
    config: &Config,
    happening: &Happening,
    trigger: &Trigger,
    offered: &Shown,
) -> Result<(Snippet, Value), StoreError> {
    let settings = &config.context;
    let budget = match trigger {
        Trigger::Prompt { .. } => settings.per_prompt_budget,
        Trigger::FileEdit { .. } => settings.per_file_budget,
        Trigger::Failure { .. } => settings.on_failure_budget,
    };
    let budget = usize::try_from(budget).unwrap_or(usize::MAX);
    let project = Project::of(happening.project_path.as_ref(), &config.capture);
    let name = projects::name_of(database, &project)?;
    let request = InSessionQuery {
        project: &name,
        project_path: &project.path.to_string_lossy(),
        session: &SessionId(happening.session_id.clone()),
        settings: &config.search,
        now: clock::now(),
        budget,
    };
    let snippet = in_session::build(database, &request, trigger, offered)?;
    let mut answer = json!({"context": snippet.text, "tokens": snippet.tokens});
    answer["shown"] = json!(snippet.shown);
    answer["log"] = snippet.log_data(trigger, budget);
    explain(&mut answer, &snippet.lines, happening.explain);
    Ok((snippet, answer))
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

    /// Notes an offer.
    pub fn note(&mut self, session: String, snippet: &Snippet, trigger: &Trigger) {
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
