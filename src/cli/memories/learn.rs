//! `claude-mem learn`: manages by hand what every session of a project is given. Uses the database
//! directly, so it works without the service.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde::Serialize;

use crate::cli::arguments::{project_named, project_of};
use crate::cli::output::style::{Style, harmless};
use crate::cli::output::wrap;
use crate::config::{Config, Environment};
use crate::model::{Category, LearningDraft, Millis};
use crate::paths::Home;
use crate::store::memory::learnings::{self, Learning, LearningState};
use crate::store::{self, StoreError, projects};
use crate::text::age;
use crate::{clock, learn};

/// Add, list or forget learnings: facts that every later session gets
///
/// Most learnings are found automatically: rules you state, commands and fixes that sessions have
/// in common, findings of the model.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem learn add \"Use pnpm, not npm\"\n  claude-mem learn add --everywhere --category preference \"Answer in German\"\n  claude-mem learn list\n  claude-mem learn forget 12"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: LearnAction,
}

#[derive(Debug, clap::Subcommand)]
enum LearnAction {
    /// Add a learning for all later sessions of the project
    #[command(
        after_help = "Example:\n  claude-mem learn add --category command 'Run the tests with `make check`'"
    )]
    Add {
        /// The learning: one self-contained sentence
        content: String,
        /// One of architecture, convention, gotcha, preference, command, dependency [default:
        /// guessed from the text]
        #[arg(long, value_parser = category)]
        category: Option<Category>,
        #[command(flatten)]
        scope: LearningScope,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the learnings of this project and those that apply everywhere
    #[command(after_help = "Examples:\n  claude-mem learn list\n  claude-mem learn list --all --json")]
    List {
        #[command(flatten)]
        scope: LearningScope,
        /// Include learnings that are uncertain, superseded or forgotten
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop using a learning, and do not learn it again unless you add it yourself
    ///
    /// Its text is kept so that it is recognised if it comes up again. `claude-mem forget --text`
    /// deletes it.
    #[command(after_help = "Example:\n  claude-mem learn forget 12 15")]
    Forget {
        /// Numbers shown by `learn list`
        #[arg(required = true)]
        ids: Vec<i64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct LearningScope {
    /// Project name [default: the current directory's project]
    #[arg(long, conflicts_with = "everywhere")]
    project: Option<String>,
    /// For every project instead of one
    #[arg(long)]
    everywhere: bool,
}

impl LearningScope {
    /// Returns the named project, or that of the current directory.
    fn project(&self, database: &rusqlite::Connection, config: &Config) -> anyhow::Result<String> {
        let word = self.project.as_deref().unwrap_or(".");
        project_named(database, config, word)
    }
}

fn category(word: &str) -> Result<Category, String> {
    let known = || Category::ALL.map(Category::as_str).join(", ");
    Category::from_word(word).ok_or_else(|| format!("expected one of {}", known()))
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    let busy_ms = config.hook.busy_ms.max(5_000);
    match &arguments.action {
        LearnAction::Add { content, category, scope, json } => {
            let draft = LearningDraft {
                everywhere: scope.everywhere,
                ..LearningDraft::new(category.unwrap_or_else(|| learn::category_of(content)), content, 1.0)
            };
            let Some(draft) = learn::cleaned(draft) else {
                bail!("nothing is left of the text after clean-up")
            };
            let mut database = store::open_to_change(home, busy_ms)?;
            let project = match scope.project {
                Some(_) => scope.project(&database, &config)?,
                None => projects::settle(&mut database, &project_of(".", &config)?)?,
            };
            let added = add(&mut database, draft, &project)?;
            print_changed(&[added], *json, "Added")?;
        }
        LearnAction::List { scope, all, json } => {
            let known = match store::open_to_read(home, busy_ms) {
                Ok(database) => known(&database, &config, scope)?,
                Err(StoreError::Missing) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            list(known, *all, *json)?;
        }
        LearnAction::Forget { ids, json } => return forget(home, busy_ms, ids, *json),
    }
    Ok(ExitCode::SUCCESS)
}

fn add(database: &mut rusqlite::Connection, draft: LearningDraft, project: &str) -> anyhow::Result<Learning> {
    let known = learnings::known(database, project)?;
    let step = learn::weigh_by_hand(&known, draft);
    let added = learnings::add(database, &step, project, clock::now())?;
    added.context("the learning disappeared after it was stored")
}

/// Returns the learnings of a scope.
fn known(
    database: &rusqlite::Connection,
    config: &Config,
    scope: &LearningScope,
) -> anyhow::Result<Vec<Learning>> {
    let project = if scope.everywhere { String::new() } else { scope.project(database, config)? };
    let mut known = learnings::known(database, &project)?;
    known.retain(|learning| !scope.everywhere || learning.project.is_none());
    Ok(known)
}

fn list(mut known: Vec<Learning>, all: bool, as_json: bool) -> anyhow::Result<()> {
    let now = clock::now();
    let is_shown =
        |learning: &Learning| learning.is_active && learning.confidence_at(now) >= learn::SHOWN_FROM;
    known.retain(|learning| all || is_shown(learning));
    known.sort_by(|one, other| {
        other.confidence_at(now).total_cmp(&one.confidence_at(now)).then(one.id.cmp(&other.id))
    });
    if as_json {
        let shown: Vec<ShownLearning> = known.iter().map(|learning| shown(learning, now)).collect();
        outln!("{}", serde_json::to_string_pretty(&shown)?);
    } else if known.is_empty() {
        outln!("No learnings yet.");
    } else {
        let style = Style::of_stdout();
        known.iter().for_each(|learning| print_learning(learning, now, style));
    }
    Ok(())
}

fn forget(home: &Home, busy_ms: u32, ids: &[i64], as_json: bool) -> anyhow::Result<ExitCode> {
    let database = match store::open_to_read(home, busy_ms) {
        Ok(_) => store::open_to_change(home, busy_ms)?,
        Err(StoreError::Missing) => bail!("no learnings yet"),
        Err(error) => return Err(error.into()),
    };
    let (mut forgotten, mut missing) = (Vec::new(), Vec::new());
    for id in ids {
        match learnings::forget(&database, *id, clock::now())? {
            true => forgotten.extend(learnings::get(&database, *id)?),
            false => missing.push(id.to_string()),
        }
    }
    print_changed(&forgotten, as_json, "Forgotten")?;
    if !missing.is_empty() {
        bail!("no learning {} (see `claude-mem learn list`)", missing.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_changed(learnings: &[Learning], as_json: bool, what: &str) -> anyhow::Result<()> {
    if as_json {
        let shown: Vec<ShownLearning> =
            learnings.iter().map(|learning| shown(learning, clock::now())).collect();
        outln!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        for learning in learnings {
            let text = format!("{} ({}, {})", harmless(&learning.content), learning.id, scope_of(learning));
            wrap::print(&format!("{what}: "), &text);
        }
    }
    Ok(())
}

/// A learning in `--json`, with its confidence of today.
#[derive(Serialize)]
struct ShownLearning {
    #[serde(flatten)]
    learning: Learning,
    standing: &'static str,
}

fn shown(learning: &Learning, now: Millis) -> ShownLearning {
    let confidence = (learning.confidence_at(now) * 100.0).round() / 100.0;
    ShownLearning { learning: Learning { confidence, ..learning.clone() }, standing: standing(learning, now) }
}

fn standing(learning: &Learning, now: Millis) -> &'static str {
    match learning.standing() {
        LearningState::Active if learning.confidence_at(now) >= learn::SHOWN_FROM => "shown",
        LearningState::Active => "uncertain",
        LearningState::Superseded => "superseded",
        LearningState::Forgotten => "forgotten",
    }
}

fn scope_of(learning: &Learning) -> String {
    learning.project.as_deref().map_or_else(|| "everywhere".to_owned(), harmless)
}

fn print_learning(learning: &Learning, now: Millis, style: Style) {
    let times =
        if learning.times_seen == 1 { "once".to_owned() } else { format!("{} times", learning.times_seen) };
    let standing = match standing(learning, now) {
        "shown" => String::new(),
        other => format!(", {other}"),
    };
    wrap::print(&format!("{:>5}  ", learning.id), &style.strong(&harmless(&learning.content)));
    let about = format!(
        "{}, {}, {:.0} % sure, seen {times}, last {}{standing}",
        learning.category.as_str(),
        scope_of(learning),
        100.0 * learning.confidence_at(now),
        age::ago(learning.updated_at, now),
    );
    wrap::print("       ", &style.faint(&about));
}
