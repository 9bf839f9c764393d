//! `claude-mem learn`: what every session of a project is told, kept by hand. Straight in the database, so that it works
//! without the service.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::lines;
use super::style::{Style, harmless};
use crate::config::{Config, Environment};
use crate::context::age;
use crate::learn;
use crate::model::{Category, LearningDraft, Millis};
use crate::paths::Home;
use crate::project::Project;
use crate::store::learnings::{self, Learning, Standing};
use crate::store::{self, StoreError};
use crate::worker::clock;

/// Tell every later session something, list what is told, or have it forgotten
///
/// Most learnings come by themselves: from the user's corrections, from commands that had to be changed, from the model.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem learn add \"Use pnpm, not npm\"\n  claude-mem learn add --everywhere --category preference \"Answer in German\"\n  claude-mem learn list\n  claude-mem learn forget 12"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write something down that every session of the project is told
    #[command(
        after_help = "Example:\n  claude-mem learn add --category command 'Run the tests with `make check`'"
    )]
    Add {
        /// What is to be known: one sentence that stands on its own
        content: String,
        /// What it is about: architecture, convention, gotcha, preference, command, dependency; guessed from the words if it is not given
        #[arg(long, value_parser = category)]
        category: Option<Category>,
        #[command(flatten)]
        scope: Scope,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what is known of this project and of all
    #[command(after_help = "Examples:\n  claude-mem learn list\n  claude-mem learn list --all --json")]
    List {
        #[command(flatten)]
        scope: Scope,
        /// Also what is not sure enough to be told, was superseded or forgotten
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell something no more, and do not learn it again, unless you add it yourself
    ///
    /// What it said is kept, so that it can be known again when it comes back. `claude-mem forget --text` deletes it.
    #[command(after_help = "Example:\n  claude-mem learn forget 12 15")]
    Forget {
        /// The numbers that `learn list` shows
        #[arg(required = true)]
        ids: Vec<i64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Scope {
    /// The project's name, instead of the one of this directory
    #[arg(long, conflicts_with = "everywhere")]
    project: Option<String>,
    /// What holds in every project
    #[arg(long)]
    everywhere: bool,
}

impl Scope {
    fn project(&self, config: &Config) -> anyhow::Result<String> {
        if let Some(project) = &self.project {
            return Ok(project.clone());
        }
        let here = std::env::current_dir().context("this directory is gone")?;
        Ok(Project::of(Path::new(&here), &config.capture).name)
    }
}

fn category(word: &str) -> Result<Category, String> {
    let known = || Category::ALL.map(Category::as_str).join(", ");
    Category::from_word(word).ok_or_else(|| format!("one of {}", known()))
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    let patience = config.hook.busy_ms.max(5_000);
    match &arguments.action {
        Action::Add { content, category, scope, json } => {
            let draft = LearningDraft {
                everywhere: scope.everywhere,
                ..LearningDraft::new(category.unwrap_or_else(|| learn::category_of(content)), content, 1.0)
            };
            let Some(draft) = learn::cleaned(draft) else { bail!("nothing is left of it to be known") };
            let project = scope.project(&config)?;
            let mut database = store::open_to_change(home, patience)?;
            let added = add(&mut database, draft, &project)?;
            print_changed(&[added], *json, "Known from now on")?;
        }
        Action::List { scope, all, json } => {
            let project = if scope.everywhere { None } else { Some(scope.project(&config)?) };
            list(home, patience, project.as_deref(), *all, *json)?;
        }
        Action::Forget { ids, json } => return forget(home, patience, ids, *json),
    }
    Ok(ExitCode::SUCCESS)
}

fn add(database: &mut rusqlite::Connection, draft: LearningDraft, project: &str) -> anyhow::Result<Learning> {
    let known = learnings::known(database, project)?;
    let step = learn::weigh_by_hand(&known, draft);
    let added = learnings::add(database, &step, project, clock::now())?;
    added.context("it was stored and is gone")
}

fn list(home: &Home, patience: u32, project: Option<&str>, all: bool, as_json: bool) -> anyhow::Result<()> {
    let now = clock::now();
    let mut known = match store::open_to_read(home, patience) {
        Ok(database) => learnings::known(&database, project.unwrap_or_default())?,
        Err(StoreError::Missing) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let is_told = |learning: &Learning| learning.is_active && learning.confidence_at(now) >= learn::TOLD_FROM;
    known.retain(|learning| (project.is_some() || learning.project.is_none()) && (all || is_told(learning)));
    known.sort_by(|one, other| {
        other.confidence_at(now).total_cmp(&one.confidence_at(now)).then(one.id.cmp(&other.id))
    });
    if as_json {
        let shown: Vec<Value> = known.iter().map(|learning| shown(learning, now)).collect();
        say!("{}", serde_json::to_string_pretty(&shown)?);
    } else if known.is_empty() {
        say!("Nothing is known yet.");
    } else {
        let style = Style::of_stdout();
        known.iter().for_each(|learning| print_learning(learning, now, style));
    }
    Ok(())
}

fn forget(home: &Home, patience: u32, ids: &[i64], as_json: bool) -> anyhow::Result<ExitCode> {
    let database = match store::open_to_read(home, patience) {
        Ok(_) => store::open_to_change(home, patience)?,
        Err(StoreError::Missing) => bail!("nothing is known yet"),
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
        bail!("there is no learning {} (see `claude-mem learn list`)", missing.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_changed(learnings: &[Learning], as_json: bool, what: &str) -> anyhow::Result<()> {
    if as_json {
        let shown: Vec<Value> = learnings.iter().map(|learning| shown(learning, clock::now())).collect();
        say!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        for learning in learnings {
            let told = format!("{} ({}, {})", harmless(&learning.content), learning.id, scope_of(learning));
            lines::print(&format!("{what}: "), &told);
        }
    }
    Ok(())
}

fn shown(learning: &Learning, now: Millis) -> Value {
    let mut shown = serde_json::to_value(learning).unwrap_or_default();
    shown["confidence"] = json!((learning.confidence_at(now) * 100.0).round() / 100.0);
    shown["standing"] = json!(standing(learning, now));
    shown
}

fn standing(learning: &Learning, now: Millis) -> &'static str {
    match learning.standing() {
        Standing::Active if learning.confidence_at(now) >= learn::TOLD_FROM => "told",
        Standing::Active => "not sure enough",
        Standing::Superseded => "superseded",
        Standing::Forgotten => "forgotten",
    }
}

fn scope_of(learning: &Learning) -> String {
    learning.project.as_deref().map_or_else(|| "everywhere".to_owned(), harmless)
}

fn print_learning(learning: &Learning, now: Millis, style: Style) {
    let times =
        if learning.times_seen == 1 { "once".to_owned() } else { format!("{} times", learning.times_seen) };
    let standing = match standing(learning, now) {
        "told" => String::new(),
        other => format!(", {other}"),
    };
    lines::print(&format!("{:>5}  ", learning.id), &style.strong(&harmless(&learning.content)));
    let about = format!(
        "{}, {}, {:.0} % sure, seen {times}, last {}{standing}",
        learning.category.as_str(),
        scope_of(learning),
        100.0 * learning.confidence_at(now),
        age::ago(learning.updated_at, now),
    );
    lines::print("       ", &style.faint(&about));
}
