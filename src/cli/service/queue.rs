//! `claude-mem queue`: lists, retries and deletes queue rows.

use std::process::ExitCode;

use anyhow::bail;
use rusqlite::Connection;

use crate::api::step_name;
use crate::cli::output::style::{Style, Tone, harmless};
use crate::cli::output::wrap::{self, counted};
use crate::clock;
use crate::config::{Config, Environment, Provider};
use crate::llm::budget::{BudgetDecision, decide};
use crate::llm::{Choice, Usage, choose, guard};
use crate::paths::Home;
use crate::store::queue::admin::{self, ListedRow};
use crate::store::{self, StoreError, log};
use crate::text::age;

/// Inspect the queue, retry failed events, delete finished ones
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem queue errors\n  claude-mem queue retry 1234\n  claude-mem queue redo"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: QueueAction,
}

#[derive(Debug, clap::Subcommand)]
enum QueueAction {
    /// List the events that wait or are in work
    List(Listing),
    /// List failed events with their reasons
    Errors(Listing),
    /// Retry failed or stopped events
    Retry {
        /// Only this row
        id: Option<i64>,
    },
    /// Reprocess with a model the events that rules processed because the daily cost ceiling was
    /// reached
    Redo,
    /// Delete finished rows; observations made from them are kept
    Purge,
}

#[derive(Debug, clap::Args)]
struct Listing {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Maximum number of rows
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

impl Arguments {
    /// True if the output may be long.
    pub fn is_paged(&self) -> bool {
        matches!(self.action, QueueAction::List(_) | QueueAction::Errors(_))
    }
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    let busy_ms = config.hook.busy_ms.max(5_000);
    match &arguments.action {
        QueueAction::List(listing) => {
            list(
                home,
                busy_ms,
                &["raw", "processing"],
                listing,
                "Nothing is waiting: every event is processed.",
            )?;
        }
        QueueAction::Errors(listing) => list(home, busy_ms, &["error"], listing, "No event has failed.")?,
        QueueAction::Retry { id } => {
            let count = admin::retry(&mut store::open_to_change(home, busy_ms)?, *id, clock::now())?;
            crate::nudge::send(home);
            if let Some(id) = id.filter(|_| count == 0) {
                bail!(
                    "row {id} does not exist, or has not failed or been stopped (see `claude-mem queue errors`)"
                );
            }
            outln!("Requeued {}.", events(count));
        }
        QueueAction::Redo => {
            let mut database = store::open_to_change(home, busy_ms)?;
            check_model(home, environment, &config, &database)?;
            let count = admin::redo(&mut database, clock::now())?;
            crate::nudge::send(home);
            outln!("Requeued {}.", events(count));
        }
        QueueAction::Purge => {
            let count = admin::purge(&store::open_to_change(home, busy_ms)?)?;
            outln!("Deleted {}.", events(count));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that a model may be available, with enough money left for at least one small turn:
/// otherwise rules would only produce the same again. The service may have a key that this process
/// does not see.
fn check_model(
    home: &Home,
    environment: &Environment,
    config: &Config,
    database: &Connection,
) -> anyhow::Result<()> {
    const SMALL_TURN: Usage = Usage { tokens_in: 4_000, tokens_out: 2_000, cost_usd: None };
    if config.compress.provider == Provider::Local {
        bail!(
            "nothing was requeued, because compress.provider is local: there is no model to reprocess events with"
        );
    }
    let at_most = match choose(config, home, environment, &guard::own_program().unwrap_or_default()) {
        Choice::Llm(llm) => llm.cost(&config.prices, &SMALL_TURN),
        Choice::Local { .. } | Choice::Unusable { .. } => 0.0,
    };
    let spent = log::spent_since(database, clock::day_start(clock::now()))?;
    let ceiling = config.cost.max_usd_per_day;
    if spent >= ceiling || decide(spent, at_most, ceiling) != BudgetDecision::Allowed {
        bail!(
            "nothing was requeued, because today's cost ceiling is reached (${spent:.2} of ${ceiling:.2}): raise \
             cost.max_usd_per_day, or run this again tomorrow"
        );
    }
    Ok(())
}

fn list(home: &Home, busy_ms: u32, states: &[&str], listing: &Listing, none: &str) -> anyhow::Result<()> {
    let rows = match store::open_to_read(home, busy_ms) {
        Ok(database) => admin::list(&database, states, listing.limit)?,
        Err(StoreError::Missing) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if listing.json {
        outln!("{}", serde_json::to_string_pretty(&rows)?);
    } else if rows.is_empty() {
        outln!("{none}");
    } else {
        print(&rows, Style::of_stdout());
    }
    Ok(())
}

fn events(count: usize) -> String {
    counted(i64::try_from(count).unwrap_or(i64::MAX), "event", "events")
}

fn print(rows: &[ListedRow], style: Style) {
    for row in rows {
        let (state, tone) = state(row);
        let session = row.session_id.as_ref().map_or("no session".into(), |id| format!("session {id}"));
        let (step, ago) =
            (step_name(row.tool_name.as_deref(), &row.kind), age::ago(row.created_at, clock::now()));
        let head = format!("{:>8}  ", row.id);
        let about = harmless(&format!("{step}, {ago}, {session}"));
        wrap::print(&style.tone(Tone::Name, &head), &format!("{} {about}", style.tone(tone, state)));
        if let Some(error) = &row.last_error {
            let reason = harmless(error.lines().next().unwrap_or_default());
            let after = match row.attempts {
                0 => String::new(),
                attempts => format!("after {}: ", counted(attempts, "attempt", "attempts")),
            };
            wrap::print(&" ".repeat(head.len()), &format!("{after}{reason}"));
        }
    }
}

/// The state of a row in words.
fn state(row: &ListedRow) -> (&str, Tone) {
    match row.status.as_str() {
        "raw" if row.attempts > 0 => ("waits to be retried:", Tone::Warn),
        "raw" => ("waiting:", Tone::Plain),
        "processing" => ("in work:", Tone::Good),
        "error" => ("failed:", Tone::Bad),
        other => (other, Tone::Plain),
    }
}
