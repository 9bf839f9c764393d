//! `claude-mem backfill`: the histories that agents keep on this machine, replayed into the memory.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::backfill::HistorySource;
use crate::backfill::find::{self, FoundHistories};
use crate::backfill::follow::Follower;
use crate::backfill::replay::{Far, Options, Replay, ReplayReport};
use crate::cli::UsageError;
use crate::cli::output::progress::Progress;
use crate::cli::output::wrap;
use crate::clock;
use crate::config::{Config, Environment};
use crate::llm::Usage as Tokens;
use crate::llm::budget::{cost, price_of};
use crate::model::Millis;
use crate::paths::Home;
use crate::store::{self, queue};

/// Read the histories that agents keep on this machine, and remember what happened
///
/// Reads ~/.claude/projects, ~/.codex/sessions and the like, or the files and directories that you name, and records them as
/// if hooks had been there: with their own times, without private passages, and without projects that are excluded. What is
/// recorded already is not recorded twice, so that it can be repeated and interrupted. Nothing in those directories is changed.
#[derive(Debug, Default, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem backfill --dry-run\n  claude-mem backfill\n  claude-mem backfill --project . --since 90d\n  claude-mem backfill --agent codex --with-model"
)]
pub struct Arguments {
    /// Only histories of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<HistorySource>,
    /// Only sessions of the project in this directory
    #[arg(long, value_name = "PATH")]
    project: Option<PathBuf>,
    /// Only sessions that were used since then: 90d, 12h, 4w or 2026-01-31
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Report what would be read, how long it takes and what a model would cost; store nothing
    #[arg(long)]
    dry_run: bool,
    /// Let the configured model make the notes, under cost.max_usd_per_day; otherwise rules do
    #[arg(long)]
    with_model: bool,
    /// Stay, and read what is added to the histories. The service does that for the agents in backfill.follow
    #[arg(long, conflicts_with = "dry_run")]
    follow: bool,
    /// Return when everything is recorded; the service makes the notes afterwards
    #[arg(long)]
    no_wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Files and directories with histories; without them, those at the usual places
    paths: Vec<PathBuf>,
}

/// Bytes of history that are read and noted in a second, on two cores of 2020.
const BYTES_PER_SECOND: u64 = 4 << 20;

/// Tokens of a request that are the same for every turn, and tokens of an answer.
const TOKENS_OF_REQUEST: u64 = 1_600;
const TOKENS_OF_ANSWER: u64 = 450;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    // Whatever else runs comes first.
    let _ = rustix::process::nice(10);
    let options = Options {
        project: arguments.project.as_deref().map(std::path::absolute).transpose()?,
        since: arguments.since.as_deref().map(parse_since).transpose()?,
        with_model: arguments.with_model,
    };
    if arguments.follow {
        let agents = arguments.agent.map_or_else(|| HistorySource::ALL.to_vec(), |agent| vec![agent]);
        let (sender, signals) = std::sync::mpsc::channel();
        let follower = Follower { home, environment, config: &config, agents: &agents, options: &options };
        follower.run(sender, &signals)?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = if arguments.paths.is_empty() {
        let agents = arguments.agent.map_or_else(|| HistorySource::ALL.to_vec(), |agent| vec![agent]);
        find::usual(environment, &agents)
    } else {
        find::named(&arguments.paths, arguments.agent)
    };
    read(home, environment, &config, options, found, arguments)
}

/// Reads everything at the usual places.
pub fn read_all(home: &Home, environment: &Environment) -> anyhow::Result<()> {
    run(home, environment, &Arguments { no_wait: true, ..Arguments::default() }).map(drop)
}

/// Reads what was found, and reports it.
fn read(
    home: &Home,
    environment: &Environment,
    config: &Config,
    options: Options,
    found: FoundHistories,
    arguments: &Arguments,
) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let label = if arguments.dry_run { "looking" } else { "reading" };
    let mut report = {
        let progress = Progress::new(label);
        let mut watch = |far: Far| {
            show(&progress, far, began.elapsed());
            true
        };
        let replay = Replay::new(home, config, environment, options, arguments.dry_run, &mut watch)?;
        replay.run(&found.transcripts).context("reading stopped; run the same command again to go on")?
    };
    let unreadable = found.unreadable.iter().map(|(path, error)| format!("{}: {error}", path.display()));
    report.unreadable.extend(unreadable);
    let is_noted = !arguments.dry_run && !arguments.no_wait && wait_for_notes(home)?;
    let summary = BackfillSummary {
        report: &report,
        config,
        arguments,
        empty: found.empty,
        took: began.elapsed(),
        is_noted,
    };
    if arguments.json {
        summary.print_json()
    } else {
        summary.print()
    }
    Ok(if report.unreadable.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(progress: &Progress, far: Far, elapsed: Duration) {
    if !progress.is_watched() {
        return;
    }
    progress.set(far.bytes, far.total_bytes);
    let rate = far.events as f64 / elapsed.as_secs_f64().max(0.1);
    let left = match far.bytes {
        0 => String::new(),
        bytes => {
            let rest = far.total_bytes.saturating_sub(bytes) as f64 / bytes as f64;
            format!(", {} left", duration(elapsed.mul_f64(rest)))
        }
    };
    let Far { sessions, total_sessions, events, .. } = far;
    progress.detail(format!("{sessions}/{total_sessions} sessions, {events} events, {rate:.0}/s{left}"));
}

/// Waits until the service has made the notes. False if there is no service, or somebody else's work comes first.
fn wait_for_notes(home: &Home) -> anyhow::Result<bool> {
    let database = store::open_to_read(home, 10_000)?;
    let waiting = || queue::open_work(&database).map(|open| open.raw + open.processing);
    let (mut least, mut moved) = (waiting()?, Instant::now());
    let total = u64::try_from(least).unwrap_or_default();
    let progress = Progress::new("making notes");
    while least > 0 {
        if !crate::nudge::send(home) || moved.elapsed() > Duration::from_secs(20) {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
        let now = waiting()?;
        if now < least {
            (least, moved) = (now, Instant::now());
            progress.set(total.saturating_sub(u64::try_from(least).unwrap_or_default()).max(1), total);
        }
    }
    Ok(true)
}

struct BackfillSummary<'a> {
    report: &'a ReplayReport,
    config: &'a Config,
    arguments: &'a Arguments,
    empty: u64,
    took: Duration,
    is_noted: bool,
}

impl BackfillSummary<'_> {
    /// Dollars that a model would cost, as far as that can be known before.
    fn model_cost(&self) -> f64 {
        let price = price_of(&self.config.prices, &self.config.compress.model, false);
        let most = self.config.compress.max_prompt_tokens;
        let turn = |bytes: &u32| {
            let tokens_in = (TOKENS_OF_REQUEST + u64::from(*bytes) / 4).min(most);
            cost(price, &Tokens { tokens_in, tokens_out: TOKENS_OF_ANSWER, cost_usd: None })
        };
        self.report.turn_bytes.iter().map(turn).sum()
    }

    fn seconds(&self) -> u64 {
        (self.report.bytes / BYTES_PER_SECOND).max(1)
    }

    fn print_json(&self) {
        let report = self.report;
        let left_out: serde_json::Map<_, _> = report
            .left_out
            .iter()
            .map(|(why, count)| (why.as_str().replace(' ', "_"), json!(count)))
            .collect();
        let mut output = json!({
            "dry_run": self.arguments.dry_run, "agents": report.agents, "files": report.files, "bytes": report.bytes,
            "unchanged": report.unchanged, "in_use": report.in_use, "empty": self.empty, "sessions": report.sessions,
            "prompts": report.prompts, "tools": report.tools, "turns": report.turns, "known": report.known,
            "excluded": report.excluded, "new_rows": report.new_rows, "left_out": left_out,
            "unreadable": report.unreadable, "tokens_in": report.tokens_in, "tokens_out": report.tokens_out,
            "seconds": self.took.as_secs_f64(), "noted": self.is_noted,
        });
        if let (true, Some(fields)) = (self.arguments.dry_run, output.as_object_mut()) {
            fields.insert("estimated_seconds".into(), json!(self.seconds()));
            fields.insert("estimated_usd".into(), json!(self.model_cost()));
        }
        outln!("{output:#}");
    }

    fn print(&self) {
        let report = self.report;
        let agents: Vec<String> =
            report.agents.iter().map(|(agent, files)| format!("{files} of {agent}")).collect();
        let files = if agents.is_empty() { "no files to read".into() } else { agents.join(", ") };
        let verb = if self.arguments.dry_run { "Would read" } else { "Read" };
        wrap::print(
            "",
            &format!("{verb} {files} ({} MB): {} sessions.", report.bytes >> 20, report.sessions),
        );
        outln!("  {:>7} prompts", report.prompts);
        outln!("  {:>7} tool calls", report.tools);
        outln!("  {:>7} ends of turns", report.turns);
        let counts = [
            (report.known, "were recorded already"),
            (report.excluded, "are excluded by your settings"),
            (report.unchanged, "files unchanged since they were last read"),
            (report.in_use, "sessions in use, which record themselves"),
            (self.empty, "files without a session"),
        ];
        let left_out = report.left_out.iter().map(|(why, count)| (*count, why.as_str()));
        for (count, name) in counts.into_iter().chain(left_out).filter(|(count, _)| *count > 0) {
            wrap::print(&format!("  {count:>7} "), name);
        }
        for problem in report.unreadable.iter().take(10) {
            eprintln!("claude-mem: cannot read {problem}");
        }
        if report.unreadable.len() > 10 {
            eprintln!("claude-mem: and {} more", report.unreadable.len() - 10);
        }
        self.print_end();
    }

    fn print_end(&self) {
        let report = self.report;
        if self.arguments.dry_run {
            outln!("This takes about {}.", duration(Duration::from_secs(self.seconds())));
            let cost = format!(
                "With --with-model about ${:.2} for {} ({} turns; at most ${:.2} a day).",
                self.model_cost(),
                self.config.compress.model,
                report.turn_bytes.len(),
                self.config.cost.max_usd_per_day
            );
            wrap::print("", &cost);
            return;
        }
        outln!("{} new rows in {}.", report.new_rows, duration(self.took));
        if !self.is_noted && report.new_rows > 0 {
            wrap::print("", "The service makes the notes; `claude-mem status` shows how many events wait.");
        }
    }
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// The time that `90d`, `12h`, `4w` or a date means.
fn parse_since(text: &str) -> anyhow::Result<Millis> {
    let unit = [("h", clock::HOUR), ("d", clock::DAY), ("w", 7 * clock::DAY)];
    for (suffix, length) in unit {
        if let Some(count) = text.strip_suffix(suffix).and_then(|count| count.parse::<Millis>().ok()) {
            return Ok(clock::now() - count.saturating_mul(length));
        }
    }
    match text.parse::<jiff::civil::Date>().and_then(|date| date.to_zoned(jiff::tz::TimeZone::system())) {
        Ok(day) => Ok(day.timestamp().as_millisecond()),
        Err(_) => bail!(UsageError(format!("--since {text}: not a time; use 90d, 12h, 4w or 2026-01-31"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spans_or_dates() {
        let now = clock::now();
        assert!((now - parse_since("90d").unwrap() - 90 * 86_400_000).abs() < 5_000);
        assert!(parse_since("2026-01-31").unwrap() > 1_769_000_000_000);
        assert!(parse_since("soon").is_err());
    }
}
