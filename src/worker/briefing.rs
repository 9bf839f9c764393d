//! A context with all that the service has: search, and a look at git. For the route, and for the command line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Value, json};

use super::clock;
use crate::config::Config;
use crate::context::{self, Context, Hint, Question, Situation, recall};
use crate::project::Project;
use crate::repository::{Look, Patience, Repositories};
use crate::search::upkeep;

/// Git gets no longer than this; what it says later serves the next session.
const GIT_PATIENCE: Patience =
    Patience { usual: Duration::from_millis(60), if_seen_lately: Duration::from_millis(10) };

/// What is asked for.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Asked {
    /// Where the project is.
    pub project_path: String,
    /// Where the session is, if that is another worktree.
    pub cwd: Option<String>,
    /// Who asks; empty if nobody's session does.
    #[serde(default)]
    pub session_id: String,
    /// How the session began.
    pub source: Option<String>,
    /// Another budget than the usual one.
    pub budget: Option<usize>,
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
    hint: Hint,
) -> Context {
    let project = Project::of(asked.project_path.as_ref(), &config.capture);
    let place = asked.cwd.as_deref().filter(|cwd| Path::new(cwd).is_absolute());
    let place = place.map(|cwd| Project::of(cwd.as_ref(), &config.capture));
    let place = place.as_ref().filter(|place| place.path == project.path).unwrap_or(&project);
    let look = place.is_repository.then(|| repositories.look(&place.root, GIT_PATIENCE));
    let repository = || look.as_ref().map(Look::situation).unwrap_or_default();
    // One transaction, so that hundreds of short reads take its locks once, and all see the same memory.
    upkeep::take_up_if_possible(database);
    let snapshot = database.unchecked_transaction();
    let now = clock::now();
    let search = recall::BySearch::new(database, &config.search, &project.name, now);
    let (prepare, recall) =
        (|question: &Question| search.prepare(question), |question: &Question| search.find(question));
    let built = context::build(
        database,
        &context::Request {
            project: &project.name,
            project_path: &project.path.to_string_lossy(),
            root: &place.root.to_string_lossy(),
            session_id: &asked.session_id,
            source: asked.source.as_deref(),
            situation: Situation { branch: place.branch.clone(), ..Situation::default() },
            repository: Some(&repository),
            prepare: Some(&prepare),
            recall: Some(&recall),
            hint,
            now,
            budget: asked.budget(config),
        },
    );
    drop(snapshot);
    built
}

/// A context as the route and the command line give it out.
pub fn as_json(built: &Context, build_ms: f64) -> Value {
    json!({"context": built.text, "tokens": built.tokens, "layers": built.layers, "skipped": built.skipped,
           "build_ms": build_ms})
}
