//! `claude-mem stats`: shows cost and savings.

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::output::progress::bar;
use crate::cli::output::style::Style;
use crate::cli::output::wrap::{self, columns, counted, fits};
use crate::clock;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::store;
use crate::store::log::spent_since;
use crate::store::statistics::{self, Statistics, Sums};

/// Show cost and savings
///
/// Shows the models' tokens and cost, the observations, and how much smaller they are than their
/// sources, by day and by model.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem stats\n  claude-mem stats --days 90 --json")]
pub struct Arguments {
    /// Number of days, including today
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    let database = store::open_to_read(home, 5000)?;
    let statistics = statistics::read(&database, clock::first_of_days(arguments.days), clock::date)?;
    let money = (spent_since(&database, clock::day_start(clock::now()))?, config.cost.max_usd_per_day);
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&StatsReport::new(&statistics, money))?);
    } else {
        print(&statistics, money, Style::of_stdout());
    }
    Ok(ExitCode::SUCCESS)
}

/// The figures of `--json`.
#[derive(Serialize)]
struct StatsReport {
    days: Vec<StatsEntry>,
    models: Vec<StatsEntry>,
    total: StatsEntry,
    contexts: i64,
    context_tokens: i64,
    cost_usd_today: f64,
    max_usd_per_day: f64,
}

/// The sums of a day, of a model, or of all.
#[derive(Serialize)]
struct StatsEntry {
    #[serde(flatten)]
    sums: Sums,
    compression_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

impl StatsReport {
    fn new(statistics: &Statistics, (spent, ceiling): (f64, f64)) -> Self {
        let entry = |sums: &Sums, day: Option<&String>, model: Option<&String>| StatsEntry {
            sums: *sums,
            compression_ratio: sums.ratio(),
            day: day.cloned(),
            model: model.cloned(),
        };
        Self {
            days: statistics.days.iter().map(|(day, sums)| entry(sums, Some(day), None)).collect(),
            models: statistics.models.iter().map(|(model, sums)| entry(sums, None, Some(model))).collect(),
            total: entry(&statistics.total, None, None),
            contexts: statistics.contexts,
            context_tokens: statistics.context_tokens,
            cost_usd_today: spent,
            max_usd_per_day: ceiling,
        }
    }
}

/// Columns of a line without its bar.
const TABLE_COLUMNS: usize = 59;

fn print(statistics: &Statistics, (spent, ceiling): (f64, f64), style: Style) {
    let most = |entries: &std::collections::BTreeMap<String, Sums>| {
        entries.values().map(weight).max().unwrap_or_default()
    };
    if !fits(TABLE_COLUMNS) {
        return print_narrow(statistics, style, (spent, ceiling));
    }
    let room = columns(std::io::stdout()).saturating_sub(TABLE_COLUMNS).clamp(4, 30);
    let heading =
        format!("{:<12} {:>6} {:>9} {:>8} {:>9}  {:>7}", "", "obs.", "tokens in", "out", "cost", "ratio");
    let line = |name: &str, sums: &Sums, most: u64| {
        let name: String = name.chars().take(28).collect();
        outln!("{name:<12} {}  {}", figures(sums), style.faint(bar(weight(sums), most, room).trim_end()));
    };
    outln!("{}", style.strong(&heading));
    for (day, sums) in &statistics.days {
        line(day, sums, most(&statistics.days));
    }
    if statistics.days.is_empty() {
        outln!("no activity");
    }
    outln!("{:<12} {}", "total", figures(&statistics.total));
    if !statistics.models.is_empty() {
        outln!("\n{}", style.strong("by model"));
        for (model, sums) in &statistics.models {
            let calls = if sums.calls > 0 {
                format!(", {}", counted(sums.calls, "call", "calls"))
            } else {
                String::new()
            };
            outln!("{model}{calls}");
            line("", sums, most(&statistics.models));
        }
    }
    print_end(statistics, (spent, ceiling));
}

/// Prints every figure without a table or bars.
fn print_narrow(statistics: &Statistics, style: Style, money: (f64, f64)) {
    for (name, sums) in statistics.days.iter().chain(&statistics.models) {
        outln!("{}", style.strong(name));
        wrap::print("    ", &sentence(sums));
    }
    outln!("{}", style.strong("total"));
    wrap::print("    ", &sentence(&statistics.total));
    print_end(statistics, money);
}

fn sentence(sums: &Sums) -> String {
    let ratio = sums.ratio().map_or(String::new(), |ratio| format!(", ratio {ratio:.1}:1"));
    format!(
        "{}, {} tokens in, {} out, ${:.4}{ratio}",
        counted(sums.observations, "observation", "observations"),
        short(sums.tokens_in),
        short(sums.tokens_out),
        sums.cost_usd
    )
}

fn print_end(statistics: &Statistics, (spent, ceiling): (f64, f64)) {
    outln!("");
    let sessions = counted(statistics.contexts, "session got", "sessions got");
    wrap::print("context       ", &format!("{sessions} {} tokens of context", statistics.context_tokens));
    wrap::print("today         ", &format!("${spent:.4} of ${ceiling:.2} (cost.max_usd_per_day)"));
}

fn figures(sums: &Sums) -> String {
    let ratio = sums.ratio().map_or("–".into(), |ratio| format!("{ratio:.1}:1"));
    format!(
        "{:>6} {:>9} {:>8} {:>9}  {ratio:>7}",
        sums.observations,
        short(sums.tokens_in),
        short(sums.tokens_out),
        format!("${:.4}", sums.cost_usd)
    )
}

/// The quantity a bar shows: tokens, or observations if rules did the work.
fn weight(sums: &Sums) -> u64 {
    let tokens = u64::try_from(sums.tokens_in + sums.tokens_out).unwrap_or_default();
    tokens.max(u64::try_from(sums.observations).unwrap_or_default())
}

fn short(count: i64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}
